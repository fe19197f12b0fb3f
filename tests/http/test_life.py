#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start, stop, health, signals, sockets, keys, systemd: the life of `gr00t serve`.

In and out as serving.py says. Rows that need root are skipped for anybody else.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import serving as s
from serving import base, data, http, path, test, wait_for

LANDMARKS = (r"Started server process", r"Listening on", r"Loading weights: ", r"Tokenizer files: ", r"Opening device", r"Model built in .* s", r"Warming up",
             r"Warmup 1/", r"Warm-up fidelity vs golden fp32: actions PCC", r"Warmup complete", r"Application startup complete")
LONG = {"GR00T_WARMUP_RUNS": "100"}
# For an end that does not wait for the thread of the start: that is no leak.
# Limits of time that no test waits for: what ends meanwhile has another reason.
PATIENT = ("--head-s", 3600, "--body-s", 3600, "--idle-s", 3600)
HASTY = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"}


def root_only():
    if os.getuid() != 0:
        raise s.Skip("needs root")


def start_predict(server, **kw):
    sock = server.connect()
    sock.sendall(http("POST", "/predict", json.dumps(base(**kw)).encode(), {"Connection": "close"}))
    return sock


def answer(sock):
    with sock:
        return s.receive(sock, b"a predict", 4 * s.HANG_S * s.SLACK).one()


def busy(server):
    wait_for(lambda: server.metric(r"(^|_)busy\b|in_progress|predict_running") >= 1, "no predict runs")


# ---- the start ----


@test("LC-01", "health answers from the first moment, readiness and models follow")
def first_moment():
    with s.Server("--threads", 1, model=s.slow_snapshot(0.3), env=dict(LONG, GR00T_CACHE=path("c-first"))) as server:
        server.listening()
        r = server.get("/health").is_(200)
        assert r.json() == {"status": "starting", "model": "GR00T-N1.6-3B-cpu", "device": "cpu:0"}, str(r)
        assert server.get("/v1/models").is_(200).json()["data"] == []
        r = server.get("/ready").is_(503)
        assert "retry-after" in r.headers, str(r)
        r = server.file("json", "base.json").error(503)
        assert "retry-after" in r.headers, str(r)
        server.post(b"{", {"Expect": "100-continue"}).error(503)
        for route in ("/info", "/demo"):
            server.get(route).is_((200, 503)).json()
        server.request("HEAD", "/health").is_(200)
        server.get("/metrics").is_(200)
        assert server.get("/health").json()["status"] == "starting", "this start was meant to be long"


@test("LC-01", "the landmarks of the log come in order")
def landmarks():
    with s.serve("--threads", 1) as server:
        lines = server.log.splitlines()
        at = -1
        for mark in LANDMARKS:
            found = [i for i, line in enumerate(lines) if s.re.search(mark, line) and i > at]
            assert found, f"no {mark!r} after line {at} of:\n{server.log}"
            at = found[0]
        assert server.get("/health").json()["status"] == "ok" and server.get("/v1/models").json()["data"]
        assert f"[{server.p.pid}]" in server.log, f"the process id is not told:\n{server.log}"
        for k in (1, 2, 3):
            assert f"Warmup {k}/3" in server.log, server.log


@test("LC-03", "a port that is taken fails before anything is loaded")
def port_taken():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        log = s.boot_fails(2, str(port), "in use", args=("--port", port))
        assert "Loading weights" not in log, log
    log = s.boot_fails(2, args=("--port", 70000))
    log = s.boot_fails((2, 3), args=("--host", "host.invalid"))


@test("LC-03", "without --port the next free one is taken and printed; with it exactly that one")
def next_port():
    with s.serve() as one, s.serve() as two:
        assert one.port != two.port and one.port >= 20000 and two.port > one.port, (one.url, two.url)
        assert one.get("/health").status == two.get("/health").status == 200
        log = s.boot_fails(2, str(one.port), "in use", args=("--port", one.port))
        assert "Loading weights" not in log, log
    with socket.socket() as sock:  # not one of 20000 and up: other servers of this machine take those
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    for _ in range(2):  # again at once after the end of the first: no TIME_WAIT in the way
        with s.serve("--port", port) as again:
            assert again.port == port
            again.get("/health").is_(200)


@test("DL-07", "two starts on one cache at once, both fine")
def shared_cache():
    env = {"GR00T_CACHE": path("c-two")}
    servers = [s.Server("--threads", 1, env=env) for _ in range(3)]
    got = [x.ready().file("json", "base.json").actions() for x in servers]
    assert got[0] == got[1] == got[2]
    for x in servers:
        x.stop()
    with s.serve("--threads", 1, env=env) as again:
        assert again.file("json", "base.json").actions() == got[0]
        assert "warm" in again.wait_log("Model built in .*").group(0), again.log
    left = [f for _, _, files in os.walk(path("c-two")) for f in files if "tmp" in f.lower() or f.endswith("~")]
    assert not left, f"left behind: {left}"


# ---- the end ----


@test("LC-02", "SIGTERM and SIGINT when idle: exit 0, quickly, the port free")
def term_idle():
    for number in (signal.SIGTERM, signal.SIGINT):
        server = s.serve("--threads", 1, "--drain-s", 3600, *PATIENT)
        with server.connect() as idle, server.connect() as half:
            half.sendall(b"GET /hea")
            idle.sendall(http("GET", "/health"))
            idle.recv(65536)
            server.stop(number)
        with socket.socket() as sock:
            assert sock.connect_ex(("127.0.0.1", server.port)) != 0


@test("LC-02", "SIGTERM during a predict: it gets its answer, health says draining, new clients are refused")
def term_predict():
    server = s.serve("--threads", 1, "--drain-s", 3600, *PATIENT, model=s.slow_snapshot(0.7), env={"GR00T_WARMUP_RUNS": "1", "GR00T_CACHE": path("c-term")})
    try:
        running, queued = start_predict(server, seed=5), start_predict(server, seed=6)
        kept = server.connect()
        kept.sendall(http("GET", "/health"))
        s.receive(kept, b"", s.HANG_S * s.SLACK, until=lambda got: got.endswith(b"}") or got.endswith(b"}\n"))
        busy(server)
        wait_for(lambda: server.metric("queue_depth") >= 1, "the second is not queued")
        server.signal()
        server.wait_log("Shutting down|[Dd]rain")
        try:  # a connection from before may still ask, or has been closed
            for _ in range(50):  # the line of the log comes a moment before the state
                kept.sendall(http("GET", "/health"))
                text = s.receive(kept, b"", s.HANG_S * s.SLACK, until=lambda got: b"}" in got).got
                if not text or b"draining" in text:
                    break
            assert not text or b"draining" in text, s.show(text)
        except OSError:
            pass
        with socket.socket() as sock:
            assert sock.connect_ex(("127.0.0.1", server.port)) != 0, "new clients are still accepted"
        assert answer(running).is_(200).json()["seed"] == 5
        assert answer(queued).is_(200).json()["seed"] == 6
        assert server.wait() == 0, server.log
        server.clean_log()
    finally:
        server.kill()


@test("LC-02", "SIGTERM with a deadline: what still runs is cancelled with 503, exit 0")
def term_deadline():
    server = s.serve("--threads", 1, "--drain-s", 0.3, model=s.slow_snapshot(1.5), env={"GR00T_WARMUP_RUNS": "1", "GR00T_CACHE": path("c-dead")})
    try:
        socks = [start_predict(server, seed=k) for k in range(3)]
        busy(server)
        server.signal()
        replies = [answer(x) for x in socks]
        assert [r.status for r in replies] == [503] * 3, f"{[str(r) for r in replies]}"
        for r in replies:
            r.error(503)
        assert server.wait() == 0, server.log
        server.clean_log()
    finally:
        server.kill()


@test("LC-02", "SIGTERM with slow senders about: exit 0 within the deadline")
def term_slow_senders():
    server = s.serve("--threads", 1, "--drain-s", 0.5, *PATIENT)
    socks = [server.connect() for _ in range(20)]
    for sock in socks:
        sock.sendall(http("POST", "/predict", data("json", "base.json"))[:400])
    wait_for(lambda: server.metric(r"^gr00t_connections ") >= 21, "the slow senders are not all there")
    server.stop()
    for sock in socks:
        sock.close()


@test("LC-02", "SIGTERM twice: ends at once")
def term_twice():
    server = s.serve("--threads", 1, "--drain-s", 3600, *PATIENT, model=s.slow_snapshot(1.5), env=dict(HASTY, GR00T_WARMUP_RUNS="1", GR00T_CACHE=path("c-dead")))
    try:
        socks = [start_predict(server, seed=k) for k in range(5)]
        busy(server)
        wait_for(lambda: server.metric("queue_depth") >= 4, "four requests are not queued")
        server.signal()
        server.wait_log("Shutting down|[Dd]rain")
        server.signal()
        code = server.wait()
        assert code in (0, 130), f"exit {code}:\n{server.log}"
        server.clean_log()
        last = s.receive(socks[-1], b"the last of five predicts", s.HANG_S * s.SLACK)
        assert not last.got.startswith(b"HTTP/1.1 200"), f"it computed all five before it ended: {last}"
        for sock in socks:
            sock.close()
    finally:
        server.kill()


@test("LC-02", "SIGTERM at any moment of the start: exit 0, no half-written file")
def term_boot():
    for k, mark in enumerate(("Started server", "istening on", "Loading weights", "Model built|pack", "Warming up", "Warmup 2/")):
        cache = path(f"c-boot{k}")
        server = s.Server("--threads", 1, model=s.slow_snapshot(0.7), env=dict(HASTY, **LONG, GR00T_CACHE=cache))
        try:  # the hundred warm-ups of this start would take longer than wait() waits
            server.wait_log(mark)
            server.signal()
            code = server.wait()
            assert code == 0, f"exit {code} after {mark!r}:\n{server.log}"
            server.clean_log()
            assert "startup complete" not in server.log, server.log
        finally:
            server.kill()


@test("LC-02", "SIGHUP, SIGPIPE, SIGUSR1 are survived or end nothing half-way")
def hangup():
    with s.serve("--threads", 1) as server:
        for _ in range(3):
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGPIPE)
            assert server.get("/health").is_(200)
    with s.Server("--threads", 1, env=LONG) as server:
        server.listening()
        server.signal(signal.SIGHUP)
        server.ready()


@test("LC-02", "works as process 1 of a container")
def process_one():
    root_only()
    probe = subprocess.run(["unshare", "--fork", "--pid", "true"], capture_output=True, timeout=20, check=False)
    if probe.returncode != 0:
        raise s.Skip("no new process namespace here")
    server = s.Server("--threads", 1, wrap=("unshare", "--fork", "--pid", "--kill-child"))
    try:
        server.ready()
        assert server.file("json", "base.json").is_(200)
        assert "[1]" in server.log, server.log
        with open(f"/proc/{server.p.pid}/task/{server.p.pid}/children", encoding="ascii") as f:
            child = int(f.read().split()[0])
        os.kill(child, signal.SIGTERM)
        assert server.wait() == 0, server.log
    finally:
        server.kill()


# ---- sockets, keys, surroundings ----


@test("JS-07", "a locale with a decimal comma changes no byte")
def locale():
    env = {"LC_ALL": "de_DE.UTF-8"}
    if "de_DE.utf8" not in subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout:
        made = shutil.which("localedef") and subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", path("de_DE.UTF-8")], capture_output=True, check=False)
        if not made or not os.path.isdir(path("de_DE.UTF-8")):
            raise s.Skip("no German locale here, and none can be made")
        env["LOCPATH"] = s.TMP
        env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # the C library keeps what it read there
    with s.serve("--threads", 1) as plain, s.serve("--threads", 1, env=env) as german:
        a, b = (x.post(base(return_normalized=True)).steady() for x in (plain, german))
        assert a == b
        assert plain.get("/demo").body == german.get("/demo").body
        s.strict_json(german.get("/info").body)
        assert german.metric("") is not None


@test("HT-02", "stdout and stderr closed")
def closed_streams():
    port = 21000 + os.getpid() % 2000

    def close():
        os.close(1)
        os.close(2)
    server = s.Server("--threads", 1, "--port", port, before=close, stderr=subprocess.DEVNULL)
    try:
        server.port, server.url = port, f"http://127.0.0.1:{port}"
        server.ready()
        assert server.file("json", "base.json").is_(200)
        server.post(b"{").error(422)
        server.stop()
    finally:
        server.kill()


@test("", "a Unix socket: requests, dead and live socket files, mode, removal")
def unix_socket():
    name = path("s.sock")
    with s.serve("--threads", 1, "--unix", name) as server:
        assert server.url == "unix:" + name
        assert server.file("json", "base.json").is_(200)
        assert os.stat(name).st_mode & 0o077 == 0, oct(os.stat(name).st_mode)
        s.boot_fails(2, name, args=("--unix", name))
        assert server.get("/health").is_(200)
    assert not os.path.exists(name)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(name)
    dead.close()
    with s.serve("--threads", 1, "--unix", name) as server:
        assert server.get("/health").is_(200)
    plain = path("plain")
    with open(plain, "w", encoding="ascii") as f:
        f.write("mine")
    s.boot_fails(2, args=("--unix", plain))
    assert open(plain, encoding="ascii").read() == "mine"
    s.boot_fails(2, args=("--unix", "/" + "x" * 200))


def certificate(name=""):
    if shutil.which("openssl") is None:
        raise s.Skip("openssl is not installed")
    cert, key = path(f"{name}cert.pem"), path(f"{name}key.pem")
    if not os.path.exists(cert):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
                       check=True, capture_output=True, timeout=60)
    return cert, key


@test("", "TLS with a self-signed certificate; a wrong pair ends the start")
def tls():
    cert, key = certificate()
    with s.serve("--threads", 1, "--tls-cert", cert, "--tls-key", key) as server:
        assert server.url.startswith("https://"), server.url
        r = server.file("json", "base.json").is_(200)
        with s.serve("--threads", 1) as plain:
            assert plain.file("json", "base.json").actions() == r.actions()
        with socket.create_connection(("127.0.0.1", server.port)) as sock:  # plain text to a TLS port
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            raw = s.receive(sock, b"plain text", s.HANG_S * s.SLACK)
            assert b"200" not in raw.got, str(raw)
        assert server.get("/health").is_(200)
    s.boot_fails(2, args=("--tls-cert", cert))
    other, _ = certificate("other")
    for args, parts in (((cert, cert), (cert, "no private key")), ((key, key), (key, "no certificate")), ((other, key), (other, key, "match"))):
        log = s.boot_fails(2, *parts, args=("--tls-cert", args[0], "--tls-key", args[1]))
        assert "Listening" not in log, log
    s.boot_fails(3, "nowhere.pem", args=("--tls-cert", cert, "--tls-key", "/nowhere.pem"))


@test("", "an API key: 401 without it, health and readiness open, the key in no log")
def api_key():
    key = "s3cret-" + "k" * 30
    name = path("key")
    with open(name, "w", encoding="ascii") as f:
        f.write(key + "\n")
    with s.serve("--threads", 1, "--api-key-file", name) as server:
        assert server.get("/health").is_(200) and server.get("/ready").is_(200)
        for headers in ({}, {"Authorization": "Bearer " + key[:-1]}, {"Authorization": "Bearer " + key + "x"}, {"Authorization": "Bearer"}, {"Authorization": key},
                        {"Authorization": "Basic " + key}, {"X-API-Key": "no"}):
            for route in ("/info", "/demo", "/v1/models", "/metrics"):
                r = server.get(route, headers).error(401)
                assert "www-authenticate" in r.headers, str(r)
            server.post(base(), headers).error(401)
        assert server.post(base(), {"Authorization": "Bearer " + key}).is_(200)
        assert server.get("/info", {"authorization": "bearer " + key}).is_((200, 401))
        assert key not in server.get("/info", {"Authorization": "Bearer " + key}).is_(200).body.decode()
        server.request("OPTIONS", "/predict").is_((204, 401))
        assert key not in server.log
    empty = path("empty-key")
    open(empty, "w", encoding="ascii").close()
    s.boot_fails((2, 3), args=("--api-key-file", empty))


@test("", "a public address without a key prints a warning")
def public():
    with s.Server("--threads", 1, "--host", "0.0.0.0") as server:
        m = server.wait_log(r"istening on http://[^ ]*:(\d+)")
        server.port, server.url = int(m.group(1)), m.group(0)
        server.ready()
        server.wait_log("(?i)warn.*(key|public|network|machine)|(key|public).*")
        assert server.get("/health").is_(200)


@test("", "systemd: readiness note and an inherited socket")
def systemd():
    notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = path("notify")
    notes.bind(name)
    notes.settimeout(s.HANG_S * s.SLACK)
    with s.serve("--threads", 1, env={"NOTIFY_SOCKET": name}) as server:
        text = notes.recv(4096)
        while b"READY=1" not in text:
            text = notes.recv(4096)
        server.signal()
        while b"STOPPING=1" not in text:
            text = notes.recv(4096)
    notes.close()

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    fd = listener.fileno()

    def hand_over():  # LISTEN_PID is the child's own id
        os.dup2(fd, 3, inheritable=True)
    wrap = ("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh")
    server = s.Server("--threads", 1, env={"LISTEN_FDS": "1"}, before=hand_over, wrap=wrap, pass_fds=(3, fd))
    try:
        server.port, server.url = listener.getsockname()[1], "x"
        server.ready()
        assert server.file("json", "base.json").is_(200)
        server.stop()
    finally:
        server.kill()
        listener.close()


@test("LC-05", "the first call is as fast as the next ones")
def first_call():
    first, rest = [], []
    while len(first) < 3 or len(first) < 12 and min(first) >= 12 * max(rest):  # any one call may meet a busy machine
        with s.serve("--threads", 1) as server:
            times = [server.file("json", "base.json").is_(200).json()["timing_ms"]["total"] for _ in range(21)]
            first.append(times[0])
            rest.append(sorted(times[1:])[10])
    assert min(first) < 12 * max(rest), f"first calls {first} ms, medians {rest}; ten times the figure of 1.2"


if __name__ == "__main__":
    s.main()
