#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients do to a server: odd heads, lying lengths, resets, slow and silent sockets, vanished callers, full queues.

What must not take long is asked for what makes it long, or for CPU time: the time on the wall depends on what else runs. In and out as serving.py
says.
"""
import gzip
import json
import os
import re
import resource
import select
import socket
import sys
import time

import serving as s
from serving import base, data, http, shared, test, wait_for

# No limit of time closes a connection while a test waits for the server to do so.
s.Shared.args = ("--threads", 1, "--head-s", 3600, "--body-s", 3600, "--idle-s", 3600)
GET_ROUTES = ("/health", "/ready", "/info", "/demo", "/v1/models", "/metrics", "/openapi.json")


def raw_file(name, **kw):
    return shared().raw(data("http", name), **kw)


def body():
    return data("json", "base.json")


# ---- heads ----


@test("HT-01", "Expect: 100-continue gets its interim reply at once")
def expect():
    blob = data("http", "expect_100.raw")
    head, _, rest = blob.partition(b"\r\n\r\n")
    with shared().connect() as sock:
        sock.sendall(head + b"\r\n\r\n")
        interim = s.receive(sock, head, s.HANG_S * s.SLACK, until=lambda got: b"\r\n\r\n" in got)
        assert interim.got.startswith(b"HTTP/1.1 100"), f"no interim reply before the body: {interim}"
        sock.sendall(rest)
        final = s.receive(sock, blob, s.HANG_S * s.SLACK)
    assert final.one().actions() == s.base_actions()
    # a refusal needs no body
    r = shared().raw(http("POST", "/nope", headers={"Expect": "100-continue", "Content-Length": "5"})).one()
    r.error(404)
    big = shared().raw(http("POST", "/predict", headers={"Expect": "100-continue", "Content-Length": "999999999", "Content-Type": "application/json"}))
    assert not big.got.startswith(b"HTTP/1.1 100") and big.ended == "closed", f"the body was asked for: {big}"
    big.one().error(413)


@test("HT-04", "a chunked body works and has the same limit")
def chunked():
    assert raw_file("chunked.raw").one().actions() == s.base_actions()
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    doc = body()
    small = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(doc[i:i + 7]), doc[i:i + 7]) for i in range(0, len(doc), 7)) + b"0\r\nTrailer: x\r\n\r\n"
    assert shared().raw(head + small).one().actions() == s.base_actions()
    for bad in (b"zz\r\nabc\r\n0\r\n\r\n", b"-1\r\n\r\n", b"5\r\nabcdefghij\r\n0\r\n\r\n", b"ffffffffffffffffff\r\nx"):
        r = shared().raw(head + bad)
        assert r.ended in ("closed", "reset"), f"a broken chunk keeps the connection: {r}"
        for reply in r.replies():
            assert 400 <= reply.status < 500, str(r)


@test("HT-05", "two lengths, or length and chunked, are refused and nothing after them is read")
def smuggling():
    for name in ("cl_and_te.raw", "two_content_lengths.raw", "negative_content_length.raw"):
        r = raw_file(name)
        assert r.ended in ("closed", "reset"), f"{name}: the connection stays open: {r}"
        assert r.one().status == 400, f"{name}: {r}"
        assert b"GR00T" not in r.got, f"{name}: a second request was answered: {r}"
    tail = b"{}GET /info HTTP/1.1\r\nHost: x\r\n\r\n"
    for lines in ("Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2", "Content-Length: 2, 0", "Content-Length: +2", "Content-Length: 0x2", "Content-Length: 2 2",
                  "Content-Length: ", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: xchunked",
                  "Transfer-Encoding: chunked\r\nContent-Length: 2", "Content-Length: 18446744073709551618", "Content-Length : 2", "Transfer-Encoding : chunked"):
        r = shared().raw(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{lines}\r\n\r\n".encode() + tail)
        replies = r.replies()
        assert len(replies) <= 1 and b'"served"' not in r.got, f"{lines!r}: a second request was answered: {r}"
        assert r.ended in ("closed", "reset"), f"{lines!r}: the connection stays open: {r}"
        assert not replies or 400 <= replies[0].status < 600, f"{lines!r}: {r}"


@test("HT-06", "huge, missing and odd lengths")
def lengths():
    before = shared().memory_kb("VmHWM")
    r = raw_file("content_length_1e12.raw")
    r.one().error(413)
    assert r.ended in ("closed", "reset"), str(r)
    assert shared().memory_kb("VmHWM") - before < 8 * 1024 or s.SANITIZED, "memory was taken for an announced body"
    r = raw_file("no_length.raw")
    r.one().error((411, 400, 422))
    big = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"a" * 100000 + b"\r\nConnection: close\r\n\r\n"
    r = shared().raw(big)
    assert r.got == b"" and r.ended == "reset" or r.replies()[0].status == 431, str(r)
    for n in (15000, 17000, 40000):
        r = shared().raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Big: " + b"a" * n + b"\r\nConnection: close\r\n\r\n")
        assert r.replies()[0].status == (200 if n < 16000 else 431), f"a header section of {n}: {r}"
    r = shared().raw(b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert r.replies()[0].status in (414, 431), str(r)
    r = shared().raw(b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n")
    assert r.replies()[0].status in (413, 431), str(r)
    limit = 96 << 20
    shared().raw(http("POST", "/predict", headers={"Content-Length": str(limit + 1), "Content-Type": "application/json"})).one().error(413)


@test("HT-07 HT-14", "HEAD works on every GET route, without a body")
def head():
    for route in GET_ROUTES:
        got, want = shared().request("HEAD", route), shared().get(route)
        assert got.status == want.status, f"{route}: {got} {want}"
        if route not in ("/metrics",):
            assert got.headers.get("content-length") == want.headers["content-length"], f"{route}: {got}\n{want}"
        assert got.headers.get("content-type") == want.headers.get("content-type"), f"{route}: {got}\n{want}"
    r = raw_file("head_health.raw")
    r.one(heads=(0,)).is_(200)
    r = raw_file("head_info_and_404.raw")
    replies = r.replies(heads=(0, 1))
    assert [x.status for x in replies] == [200, 404] and all(int(x.headers["content-length"]) > 0 for x in replies), str(r)


@test("HT-07 HT-14", "wrong methods are 405 with Allow, unknown paths 404 in JSON")
def methods():
    r = raw_file("get_on_predict.raw").one().error(405)
    assert "POST" in r.headers["allow"], str(r)
    r = raw_file("post_health_liveness.raw").one().error(405)
    assert "GET" in r.headers["allow"] and "HEAD" in r.headers["allow"], str(r)
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW", "get", "PROPFIND"):
        r = shared().request(method, "/health")
        assert r.status in (405, 400, 501), f"{method}: {r}"
    shared().request("HEAD", "/predict").is_(405)
    for path in ("/", "/nope", "/predict/", "/health/x", "/v1/chat/completions", "//health", "/%00", "/%ff%fe", "/..%2f..%2fetc/passwd", "/%1b%5b31m", "/" + "a" * 3000,
                 "/health%20", "/HEALTH", "/%zz", "/\u00e4"):
        r = shared().get(path)
        assert r.status == 400 or r.error(404), str(r)
    shared().get("/health?x=1&y").is_(200)
    shared().get("/%68ealth").is_((200, 404))
    shared().post(body(), target="/nope").error(404)


@test("HT-08", "OPTIONS is 204 with Allow, CORS headers only when switched on")
def options():
    r = raw_file("options_preflight.raw").one().is_(204)
    assert "POST" in r.headers["allow"] and "access-control-allow-origin" not in r.headers, str(r)
    for route in GET_ROUTES:
        r = shared().request("OPTIONS", route).is_(204)
        assert "GET" in r.headers["allow"], str(r)
    shared().request("OPTIONS", "*").is_((200, 204, 400, 404))


@test("HT-08", "a CORS origin that is switched on is answered")
def cors():
    help_text = s.subprocess.run([s.BIN, "serve", "--help"], env=s.clean_env(), capture_output=True, timeout=60, check=False).stdout.decode()
    flag = next((x for x in ("--cors-origin", "--cors") if x in help_text), None)
    if flag is None:
        raise s.Skip("gr00t serve has no flag for CORS")
    with s.serve(flag, "http://localhost:5173") as server:
        r = server.raw(data("http", "options_preflight.raw")).one().is_(204)
        assert r.headers["access-control-allow-origin"] == "http://localhost:5173", str(r)
        assert "content-type" in r.headers["access-control-allow-headers"].lower(), str(r)
        r = server.get("/health", {"Origin": "http://localhost:5173"})
        assert r.headers["access-control-allow-origin"] == "http://localhost:5173", str(r)


@test("HT-11", "JSON is accepted without a type and with a JSON type, other types are 415")
def types():
    assert raw_file("no_content_type.raw").one().actions() == s.base_actions()
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json", "text/json"):
        r = shared().post(body(), {"Content-Type": kind})
        assert r.status == 200 or kind in ("text/json", "application/problem+json") and r.error(415), str(r)
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "image/png", "application/jsonx", "\xff"):
        r = shared().post(body(), {"Content-Type": kind})
        assert r.status == 415, f"{kind!r}: {r}"
        r.error(415)


@test("", "a compressed body is refused clearly")
def compressed():
    r = shared().post(gzip.compress(body()), {"Content-Encoding": "gzip"}).error(415)
    assert re.search("gzip|uncompressed", r.json()["error"]["message"]), str(r)
    for kind in ("br", "deflate", "zstd", "x"):
        shared().post(body(), {"Content-Encoding": kind}).error(415)
    shared().post(body(), {"Content-Encoding": "identity"}).is_(200)


@test("", "HTTP/1.0, Connection: close, missing Host and nonsense lines")
def versions():
    r = shared().raw(b"GET /health HTTP/1.0\r\n\r\n")
    assert r.ended == "closed" and r.one().is_(200), str(r)
    r = shared().raw(b"POST /predict HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body()) + body())
    assert r.ended == "closed" and r.one().actions() == s.base_actions(), str(r)
    r = shared().raw(http("GET", "/health", headers={"Connection": "close"}))
    assert r.ended == "closed" and "close" in r.one().headers["connection"].lower(), str(r)
    for blob in (b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", b"GET /health\r\n\r\n", b"\r\n\r\n\r\n\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET  /health  HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET /health HTTP/1.1\nHost: x\n\n", b"GET /health HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", b"GET /health HTTP/1.1\r\n: x\r\n\r\n",
                 b"GET /health HTTP/1.1\r\nHost: x\r\nnocolon\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\nX: \x00\r\n\r\n", b"GET /he\0alth HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"{}", b"\0" * 5000, os.urandom(3000)):
        r = shared().raw(blob, wait=1, half_close=True)
        assert r.ended in ("closed", "reset", "timeout"), str(r)
        if r.got.startswith(b"HTTP/"):
            assert all(x.status < 500 or x.status in (501, 505) for x in r.replies()), str(r)


@test("HT-09", "keep-alive is not slower than new connections, replies are one write")
def keep_alive():
    with shared().connect() as sock:
        for _ in range(100):
            sock.sendall(http("GET", "/health"))
            got = sock.recv(65536)
            while b"\r\n\r\n" not in got or not got.rstrip().endswith(b"}"):
                got += sock.recv(65536)
            assert got.startswith(b"HTTP/1.1 200"), s.show(got)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) >= 156:  # tcpi_data_segs_in; of a reply in two pieces the second would wait for a delayed acknowledgement
        assert int.from_bytes(info[152:156], sys.byteorder) == 100, f"{int.from_bytes(info[152:156], sys.byteorder)} segments for 100 replies"


@test("HT-09", "pipelined requests are answered in order")
def pipelined():
    r = raw_file("pipelined_3_get.raw")
    replies = r.replies()
    assert [x.status for x in replies] == [200] * 3, str(r)
    assert "status" in replies[0].json() and "inputs" in replies[1].json() and "status" in replies[2].json(), str(r)
    blob = b"".join(http("POST", "/predict", json.dumps(base(seed=i)).encode()) for i in range(4)) + http("GET", "/health", headers={"Connection": "close"})
    r = shared().raw(blob)
    replies = r.replies()
    assert [x.json().get("seed") for x in replies] == [0, 1, 2, 3, None], str(r)
    mixed = http("POST", "/predict", b"{") + http("GET", "/nope") + http("POST", "/predict", body()) + http("GET", "/health", headers={"Connection": "close"})
    assert [x.status for x in shared().raw(mixed).replies()] == [422, 404, 200, 200]


# ---- slow, silent and vanishing clients ----


@test("HT-10", "64 idle and 64 trickling sockets do not slow health or a predict")
def idle():
    shared().file("json", "base.json")
    quiet = [shared().connect() for _ in range(64)]
    slow = [shared().connect() for _ in range(64)]
    try:
        for sock in slow[:32]:
            sock.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Le")
        for sock in slow[32:]:
            sock.sendall(http("POST", "/predict", body())[:300])
        cpu = shared().cpu_s()
        for k in range(20):  # who waited for one of them would wait for good
            for sock in slow:
                sock.sendall(b"n" if k == 0 and sock in slow[:32] else b" " if sock in slow[32:] else b"g")
            shared().get("/health").is_(200)
        cpu = (shared().cpu_s() - cpu) / 20
        assert cpu < 0.05 * s.SLACK, f"a look at health and a byte from each cost {cpu * 1e3:.0f} ms of CPU, ten times the figure is 50"
        assert shared().file("json", "base.json").actions() == s.base_actions()
    finally:
        for sock in quiet + slow:
            sock.close()


@test("HT-10 HT-12", "head, body and idle time limits close a connection")
def limits():
    help_text = s.subprocess.run([s.BIN, "serve", "--help"], env=s.clean_env(), capture_output=True, timeout=60, check=False).stdout.decode()
    flags = {kind: next((x for x in (f"--{kind}-timeout-s", f"--{kind}-timeout", f"--{kind}-s") if x in help_text), None) for kind in ("head", "body", "idle")}
    if None in flags.values():
        raise s.Skip(f"flags of the time limits are not known: {flags}")
    with s.serve(flags["head"], 1, flags["body"], 1, flags["idle"], 1) as server:
        for name, blob in (("idle from the start", b""), ("half a head", b"GET /health HTTP/1.1\r\nHo"), ("half a body", http("POST", "/predict", body())[:500]),
                           ("idle after a request", http("GET", "/health"))):
            best = s.best_of(5, 6 * s.SLACK, lambda name=name, blob=blob: kept_s(server, name, blob))
            assert best < 6 * s.SLACK, f"{name}: the connection lives for {best:.1f} s"
        # a trickle does not extend the limits
        for blob in (b"GET /health HTTP/1.1\r\nX: ", http("POST", "/predict", body())[:500]):
            best = s.best_of(5, 8 * s.SLACK, lambda blob=blob: trickled_s(server, blob))
            assert best < 8 * s.SLACK, f"one byte each 0.2 s keeps a connection alive for {best:.1f} s: {s.show(blob)}"
        assert server.get("/health").status == 200


def kept_s(server, name, blob):
    r = server.raw(blob)
    assert r.ended in ("closed", "reset"), f"{name}: {r}"
    return r.ms / 1e3


def trickled_s(server, blob):
    with server.connect() as sock:
        sock.sendall(blob)
        t0, over = time.monotonic(), False
        while time.monotonic() - t0 < s.HANG_S * s.SLACK and not over:
            over = not s.send(sock, b"a") or select.select([sock], [], [], 0.2)[0] and not sock_alive(sock)
        return time.monotonic() - t0


def sock_alive(sock):
    try:
        return sock.recv(65536) != b""
    except OSError:
        return False


@test("HT-12", "a sender that stops half way and closes its side")
def half_close():
    r = raw_file("short_body_then_half_close.raw", half_close=True)
    assert r.ended in ("closed", "reset"), str(r)
    assert all(400 <= x.status < 500 for x in r.replies()), str(r)
    # a client that has sent everything and closed its side may be taken for gone; what it gets is a reply of ours or nothing
    r = shared().raw(http("POST", "/predict", body()), half_close=True)
    if r.got and r.one().status != 200:
        r.one().error((400, 503))


@test("HT-02", "a hundred resets while a reply is on its way")
def resets():
    for k in range(100):
        sock = shared().connect()
        sock.sendall(http("POST", "/predict", json.dumps(base(seed=k, return_normalized=True)).encode()))
        if k % 3 == 0:
            sock.recv(1)
        elif k % 3 == 1:
            sock.sendall(http("GET", "/info"))
        s.reset(sock)
    for _ in range(20):
        sock = shared().connect()
        sock.sendall(http("GET", "/demo") * 50)
        s.reset(sock)
    wait_for(lambda: shared().metric(r"queue_depth") == 0, "the queue does not empty", 4 * s.HANG_S)


@test("HT-02", "stdout and stderr into a pipe that closes early")
def log_pipe():
    read, write = os.pipe()
    server = s.Server(stdout=write, stderr=write)
    os.close(write)
    got = b""
    while b"istening on" not in got:
        part = os.read(read, 65536)
        assert part, f"the log ended: {got}"
        got += part
    server.port = int(s.re.search(rb"istening on http://[^:]*:(\d+)", got).group(1))
    server.url = "x"
    os.close(read)
    try:
        server.ready()
        assert server.file("json", "base.json").is_(200)
        server.post(b"{").error(422)
        server.stop()
    finally:
        server.kill()


def start_predict(server, **kw):
    """A connection on which a predict was sent."""
    sock = server.connect()
    sock.sendall(http("POST", "/predict", json.dumps(base(**kw)).encode(), {"Connection": "close"}))
    return sock


def busy(server):
    wait_for(lambda: server.metric(r"(^|_)busy\b|in_progress|predict_running") >= 1, "no predict runs")


def predicts(server):
    return server.metric(r'stage_seconds_count\{stage="total"\}')


@test("HT-03", "queued requests of clients that left are dropped before compute")
def vanished():
    with s.serve("--threads", 1, "--queue", 8, model=s.slow_snapshot(0.6), env={"GR00T_WARMUP_RUNS": "1"}) as server:
        dropped, computed = server.metric(r"dropped|abandoned"), predicts(server)
        first = start_predict(server, seed=1)
        busy(server)
        gone = [start_predict(server, seed=2) for _ in range(5)]
        wait_for(lambda: server.metric(r"queue_depth") >= 5, "five requests are not queued")
        for i, sock in enumerate(gone):
            s.reset(sock) if i % 2 else sock.close()
        last = server.post(base(seed=3)).is_(200)
        got = s.receive(first, b"first", 4 * s.HANG_S * s.SLACK).one()
        first.close()
        assert got.is_(200).json()["seed"] == 1 and last.json()["seed"] == 3
        assert predicts(server) - computed == 2, f"{predicts(server) - computed} predicts were computed, two clients wait for one"
        wait_for(lambda: server.metric(r"dropped|abandoned") - dropped == 5, f"{server.metric('dropped|abandoned') - dropped} dropped, expected 5")


def waits(sock):
    return not select.select([sock], [], [], 0)[0]


@test("HT-03 HT-13", "a full queue is 503 with Retry-After, order of arrival, GET routes wait for no predict")
def full_queue():
    with s.serve("--threads", 1, "--queue", 2, model=s.slow_snapshot(0.6), env={"GR00T_WARMUP_RUNS": "1"}) as server:
        socks = [start_predict(server, seed=0)]
        busy(server)
        for k in (1, 2):
            socks.append(start_predict(server, seed=k))
            wait_for(lambda k=k: server.metric(r"queue_depth") >= k, f"{k} requests are not queued")
        r = server.post(base(seed=9)).error(503)
        assert r.headers["retry-after"] == "1", str(r)
        server.post(b"{").error((422, 503))  # never waits for the engine; a full queue may come first
        assert waits(socks[-1]), "a bad request waited for the predicts before it"
        for x in ("/health", "/info", "/metrics", "/ready"):
            server.get(x).is_(200)
        assert waits(socks[-1]), "the four routes waited for the predicts"
        ends = []
        while len(ends) < 3:
            for sock in select.select([x for x in socks if x not in ends], [], [], 4 * s.HANG_S * s.SLACK)[0]:
                ends.append(sock)
        seeds = [s.receive(x, b"", s.HANG_S * s.SLACK).one().is_(200).json()["seed"] for x in ends]
        assert seeds == [0, 1, 2], f"answered in the order {seeds}"
        for x in socks:
            x.close()
        assert server.post(base()).is_(200)


def cpu_share(server):
    """Of a second; the end of the start may still be in the first."""
    cpu, t0 = server.cpu_s(), time.monotonic()
    time.sleep(1.0)
    return (server.cpu_s() - cpu) / (time.monotonic() - t0)


@test("HT-15", "32 descriptors and 100 connections: no burning, back to normal afterwards")
def descriptors():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    if s.SANITIZED:
        raise s.Skip("sanitizers need more descriptors")
    server = s.Server("--threads", 2, before=few)
    try:
        server.ready()
        socks = []
        for _ in range(100):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", server.port))
            socks.append(sock)
        share = s.best_of(10, 0.25, lambda: cpu_share(server))
        for sock in socks:
            sock.close()
        assert share < 0.25, f"{share * 100:.0f} % of a CPU while 100 clients wait"
        wait_for(lambda: answers(server), "no reply after the crowd has gone")
        assert server.file("json", "base.json").is_(200)
        server.stop()
    finally:
        server.kill()


def answers(server):
    try:
        return server.get("/health").status == 200
    except (OSError, AssertionError):
        return False


@test("", "the connection limit closes what is over it and recovers")
def connection_limit():
    help_text = s.subprocess.run([s.BIN, "serve", "--help"], env=s.clean_env(), capture_output=True, timeout=60, check=False).stdout.decode()
    flag = next((x for x in ("--max-connections", "--connections") if x in help_text), None)
    if flag is None:
        raise s.Skip("gr00t serve has no flag for the number of connections")
    with s.serve(flag, 8) as server:
        socks = [server.connect() for _ in range(30)]
        time.sleep(0.1)
        for sock in socks:
            sock.close()
        wait_for(lambda: answers(server), "no reply after the crowd has gone")


@test("LC-07", "bad requests leave no descriptor behind")
def leaks():
    fds = []
    for _ in range(3):
        for name in ("base.json", "empty_body.json", "unknown_field.json", "b64_illegal_char.json", "noise_ragged.json", "bom.json", "state_two_rows.json"):
            shared().file("json", name)
        for name in ("truncated_60pct.jpg", "truncated_60pct.png", "cmyk.jpg"):
            shared().post(base(images={s.CAMERA: s.base64_text(data("images", name))}))
        wait_for(lambda: shared().fds() <= min(fds, default=1000), f"descriptors grow: {fds}, now {shared().fds()}")
        fds.append(shared().fds())


if __name__ == "__main__":
    s.main()
