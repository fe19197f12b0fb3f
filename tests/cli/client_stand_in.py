# SPDX-License-Identifier: Apache-2.0
"""A small stand-in for the service, for faults that the real one does not have. Used by test_clients.py.

StandIn(**faults) listens on a free port (or a Unix socket, or with TLS) in a thread; `seen` lists the requests it got.
"""
import base64
import http.server
import json
import os
import socket
import socketserver
import ssl
import struct
import threading
import time
import zlib

GROUPS = {"left_arm": 7, "waist": 3}
STEPS, HORIZON, WIDTH = 16, 50, 128
NOISE_42 = 1.9269  # first value of the noise of seed 42
INSTRUCTION = "pick the pear"


def png(width=64, height=64):
    rows = b"".join(b"\0" + bytes((x * 3 + y * 7) % 256 for x in range(3 * width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def actions(shift=0.0):
    return {g: [[round(0.1 * s + 0.03 * i * i + shift, 6) for i in range(n)] for s in range(STEPS)] for g, n in GROUPS.items()}


def normalized(shift=0.0):
    return [[round(((r * 7 + c * 3) % 11) / 11 + shift, 6) for c in range(WIDTH)] for r in range(HORIZON)]


def demo():
    return {"request": {"images": {"cam": base64.b64encode(png()).decode()}, "state": {g: [0.5] * n for g, n in GROUPS.items()},
                        "instruction": INSTRUCTION, "seed": 42},
            "expected": {"actions": actions(), "action_pred_normalized": normalized(),
                         "gates": {"pcc_actions_min": 0.999, "max_abs_repeat": 0.0}, "source": "shipped"}}


def reply(request, shift=0.0):
    full = normalized(shift)
    out = {"actions": actions(shift), "action_keys": list(GROUPS), "model": "stand-in", "version": "n16", "embodiment": "gr1",
           "seq_len": 116, "prompt_tokens": 12, "noise_source": "request" if "noise" in request else "seed",
           "seed": None if "noise" in request else request.get("seed", 42),
           "timing_ms": {"decode": 0.2, "encode": 0.1, "device": 1.5, "decode_actions": 0.1, "total": 1.9}}
    if request.get("return_normalized"):
        out["action_pred_normalized"] = full
        out["action_pred_valid_hd"] = [row[:sum(GROUPS.values())] for row in full[:STEPS]]
    return out


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False  # not known to a Unix socket
    wbufsize = -1                    # head and body in one packet

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.server.stand_in.connections += 1

    def address_string(self):
        return "client"

    def send(self, status, body, headers=(), length=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def common(self, body=None):
        """True when the request was answered already."""
        s = self.server.stand_in
        with s.lock:
            s.seen.append((self.command, self.path, dict(self.headers), body))
        if s.redirect:
            self.send(307, {}, [("Location", s.redirect + self.path)])
        elif s.key and self.headers.get("Authorization") != f"Bearer {s.key}":
            self.send(401, {"error": {"code": "unauthorized", "message": "wrong key", "field": None}, "detail": "wrong key"})
        else:
            return False
        return True

    def do_GET(self):
        s = self.server.stand_in
        if self.common():
            return
        if self.path == "/health":
            starting = time.monotonic() < s.ready_at
            self.send(200, s.health or {"status": "starting" if starting else "ok", "model": "stand-in", "device": "cpu:0"})
        elif self.path == "/demo":
            self.send(200, s.demo or demo())
        else:
            self.send(404, {"error": {"code": "not_found", "message": "no such route", "field": None}, "detail": "no such route"})

    def do_POST(self):
        s = self.server.stand_in
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.common(body):
            return
        with s.lock:
            s.posts += 1
            number = s.posts
        request = json.loads(body)
        if number in s.busy:
            self.send(503, {"error": {"code": "busy", "message": "the queue is full", "field": None}, "detail": "full"}, [("Retry-After", "1")])
        elif s.refuse:
            self.send(400, {"error": {"code": "bad", "message": "7 values expected, found 6", "field": "state.left_arm"}, "detail": "x"})
        elif s.broken == "json":
            self.send(200, b'{"actions": {"left_arm": [[0.1, ')
        elif s.broken == "html":
            self.send(200, b"<html>welcome to the router</html>")
        elif s.broken == "short":
            self.send(200, b'{"actions": {', length=1000)
            self.close_connection = True
        elif s.broken == "close":
            self.close_connection = True
        elif s.broken == "shape":
            out = reply(request)
            out["actions"]["waist"] = [[1.0]] * STEPS
            self.send(200, out)
        else:
            if "noise" in request:
                noise = request["noise"]
                assert len(noise) == HORIZON and all(len(row) == WIDTH for row in noise) and abs(noise[0][0] - NOISE_42) < 1e-3, noise[0][:4]
            time.sleep(s.delay_s)
            if number > 1:
                s.barrier.wait()
            shift = s.wrong + (s.unsteady * number if "noise" not in request else 0.0) + (s.wrong_noise if "noise" in request else 0.0)
            out = reply(request, shift)
            if s.scramble:
                out["actions"]["left_arm"][0][0] = 9.0
            self.send(200, out)


class TcpServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class StandIn:
    """Faults: starting_s, busy (numbers of the posts to answer 503), refuse, broken, delay_s, together (answers so many posts at a time, after the first), wrong, unsteady, wrong_noise, scramble, key,
    redirect, health, demo."""

    def __init__(self, unix=None, tls=None, starting_s=0.0, busy=(), refuse=False, broken=None, delay_s=0.0, together=1, wrong=0.0, unsteady=0.0,
                 wrong_noise=0.0, scramble=False, key=None, redirect=None, health=None, demo_text=None):
        self.busy, self.refuse, self.broken, self.delay_s = set(busy), refuse, broken, delay_s
        self.wrong, self.unsteady, self.wrong_noise, self.scramble = wrong, unsteady, wrong_noise, scramble
        self.key, self.redirect, self.health, self.demo = key, redirect, health, demo_text
        self.barrier = threading.Barrier(together, timeout=60)
        self.ready_at = time.monotonic() + starting_s
        self.lock, self.seen, self.posts, self.connections = threading.Lock(), [], 0, 0
        if unix:
            self.server, self.url = UnixServer(unix, Handler), "unix:" + unix
        else:
            self.server = TcpServer(("127.0.0.1", 0), Handler)
            self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = self.url.replace("http:", "https:")
        self.server.stand_in = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


def unused_port():
    """Bound, never listening: connections are refused as long as the socket lives."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    return s, s.getsockname()[1]


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path
