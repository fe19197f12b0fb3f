#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The long checks of the service, rows of `make acceptance`: crowds, ten thousand predicts, kill -9, silence, foreign fuzzing.

In: GR00T_BIN, a row's name, options. Out: a table, and as the last line the figures of the verdict; exit code 0, 1, or 77 when the row's
tool is absent.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

import serving as s
from serving import base, data, http as request_bytes

BODY = data("json", "base.json")


def say(*cells):
    print("  ".join(str(c).rjust(12) if i else str(c).ljust(26) for i, c in enumerate(cells)), flush=True)


def verdict(ok, text):
    print(("ok: " if ok else "FAILED: ") + text)
    sys.exit(0 if ok else 1)


class Client:
    """One keep-alive connection."""

    def __init__(self, server):
        self.c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def predict(self, body=BODY, want=200):
        t0 = time.perf_counter()
        self.c.request("POST", "/predict", body, {"Content-Type": "application/json"})
        r = self.c.getresponse()
        got = r.read()
        ms = (time.perf_counter() - t0) * 1e3
        if want and r.status != want:
            raise AssertionError(f"{r.status}: {s.show(got)}")
        return ms, got


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))]


# ---- crowd: 2,000 idle clients and 64 slow writers ----


def crowd_process(port, idle, writers, pipe):
    """The crowd lives in a process of its own, so that its work is not the measuring client's."""
    os.nice(5)
    quiet, slow = [], []
    for _ in range(idle):
        sock = socket.create_connection(("127.0.0.1", port), 30)
        sock.sendall(request_bytes("GET", "/health"))
        sock.recv(4096)
        quiet.append(sock)
    head = request_bytes("POST", "/predict", BODY)
    for _ in range(writers):
        sock = socket.create_connection(("127.0.0.1", port), 30)
        sock.sendall(head[:200])
        slow.append([sock, 200])
    pipe.send("up")
    k = 0
    while not pipe.poll(0.02):  # each writer sends a byte every 1.3 s; one that was closed for slowness comes again
        one = slow[k % len(slow)]
        k += 1
        try:
            one[0].sendall(head[one[1]:one[1] + 1])
            one[1] += 1
        except OSError:
            one[0] = socket.create_connection(("127.0.0.1", port), 30)
            one[0].sendall(head[:200])
            one[1] = 200
    for sock in quiet + [x[0] for x in slow]:
        sock.close()


def row_crowd(a):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard != resource.RLIM_INFINITY else 8192, hard))
    with s.serve("--threads", 1, "--idle-s", 600) if has_flag("--idle-s") else s.serve("--threads", 1) as server:
        client = Client(server)
        for _ in range(100):
            client.predict()
        rss, ratios50, ratios99 = server.memory_kb("VmRSS"), [], []
        say("round", "alone p50", "p99", "crowd p50", "p99", "RSS kB")
        grown = 0
        for k in range(5):
            alone = [client.predict()[0] for _ in range(a.count)]
            here, there = multiprocessing.Pipe()
            crowd = multiprocessing.Process(target=crowd_process, args=(server.port, a.idle, a.writers, there))
            crowd.start()
            assert here.poll(60) and here.recv() == "up", "the crowd did not get in"
            time.sleep(0.3)
            busy = [client.predict()[0] for _ in range(a.count)]
            now = server.memory_kb("VmRSS")
            connections = server.metric("^gr00t_connections")
            assert connections >= a.idle + a.writers, f"only {connections} connections"
            grown = max(grown, now - rss)
            here.send("end")
            crowd.join()
            ratios50.append(statistics.median(busy) / statistics.median(alone))
            ratios99.append(percentile(busy, 0.99) / percentile(alone, 0.99))
            say(f"{k + 1}", f"{statistics.median(alone):.2f}", f"{percentile(alone, 0.99):.2f}", f"{statistics.median(busy):.2f}", f"{percentile(busy, 0.99):.2f}", now)
        m50, m99 = statistics.median(ratios50), statistics.median(ratios99)
    verdict(m50 < 1.05 and m99 < 1.20 and grown < 20 * 1024,
            f"{a.idle} idle + {a.writers} slow: p50 x {m50:.3f} (< 1.05), p99 x {m99:.3f} (< 1.20), RSS +{grown / 1024:.1f} MB (< 20)")


def has_flag(name):
    run = subprocess.run([s.BIN, "serve", "--help"], env=s.clean_env(), capture_output=True, text=True, timeout=60, check=False)
    return name in run.stdout


# ---- memory ----


def row_predicts(a):
    with s.serve("--threads", 1) as server:
        client, first = Client(server), None
        marks = []
        say("predicts", "RssAnon kB", "VmRSS kB", "fds", "threads")
        for k in range(a.count + 1):
            if k % (a.count // 10) == 0:
                marks.append((server.memory_kb("RssAnon", "VmSwap"), server.fds(), server.memory_kb_threads()))
                say(k, marks[-1][0], server.memory_kb("VmRSS"), *marks[-1][1:])
            got = client.predict()[1]
            steady = got[:got.index(b'"timing_ms"')]
            first = first or steady
            assert steady == first, f"predict {k} differs"
        # the first tenth is warm-up
        grown = max(m[0] for m in marks[1:]) - marks[1][0]
        same = len({m[1:] for m in marks[1:]}) == 1
    verdict(grown < 1024 and same, f"{a.count} predicts: RSS +{grown} kB after warm-up (< 1024), descriptors and threads {'constant' if same else 'NOT constant'}")


def row_mixed(a):
    """LC-07: 500 good and 500 bad requests."""
    names = sorted(os.listdir(os.path.join(s.DATA, "json")))
    pictures = sorted(os.listdir(os.path.join(s.DATA, "images")))
    bodies = [data("json", n) for n in names] + [json.dumps(base(images={s.CAMERA: s.base64_text(data("images", p))})).encode() for p in pictures if "4096x4096" not in p]
    with s.serve("--threads", 1) as server:
        def round_(n):
            client = Client(server)
            for k in range(n):
                client.predict()
                try:
                    client.predict(bodies[k % len(bodies)], want=None)
                except (OSError, http.client.HTTPException):
                    client = Client(server)
            client.c.close()
        round_(len(bodies) + 20)
        time.sleep(0.2)
        before = (server.memory_kb("RssAnon", "VmSwap"), server.fds(), server.memory_kb_threads())
        say("", "RssAnon kB", "fds", "threads")
        say("before", *before)
        round_(a.count)
        time.sleep(0.2)
        after = (server.memory_kb("RssAnon", "VmSwap"), server.fds(), server.memory_kb_threads())
        say("after", *after)
    verdict(after[0] - before[0] < 2048 and after[1:] == before[1:], f"{a.count} good + {a.count} bad: {after[0] - before[0]:+d} kB (< 2048), fds {before[1]} -> {after[1]}, "
            f"threads {before[2]} -> {after[2]}")


# ---- kill -9 during the start ----


def row_kill9(a):
    rng = random.Random(a.seed)
    cache = s.path("c-kill")
    env = {"GR00T_CACHE": cache}
    t0 = time.monotonic()
    with s.serve("--threads", 1, env=env) as server:
        want = server.file("json", "base.json").actions()
    span = time.monotonic() - t0
    counts = {"killed before ready": 0, "after": 0}
    k = -1
    while counts["killed before ready"] < a.count and k < 5 * a.count:
        k += 1
        if rng.random() < 0.6:  # most of the starts are cold: they write
            shutil.rmtree(cache, ignore_errors=True)
        server = s.Server("--threads", 1, env=env)
        time.sleep(rng.uniform(0, span))
        counts["after" if "startup complete" in server.log else "killed before ready"] += 1
        server.kill()
        if k % 10 == 9:
            with s.serve("--threads", 1, env=env) as again:
                got = again.file("json", "base.json").actions()
                assert got == want, f"after kill {k}: other actions"
            with s.serve("--threads", 1, env=env) as again:  # what the first one left is valid: warm, no warning
                line = again.wait_log("Model built in .*").group(0)
                assert "warm" in line, f"after kill {k}: the cache is not warm: {again.log}"
                assert again.file("json", "base.json").actions() == want
        elif k % 10 == 4:  # the next start meets what the kill left, unmended
            with s.serve("--threads", 1, env=env) as again:
                assert again.file("json", "base.json").actions() == want, f"after kill {k}: other actions"
    files = [f for d, _, names in os.walk(cache) for f in names]
    left = len(files)
    say("files in the cache", left)
    verdict(left <= 8 and counts["killed before ready"] >= a.count, f"{counts['killed before ready']} kills before ready, {counts['after']} after, over {span:.2f} s of start: every next start fine, cache warm, {left} files left")


# ---- silence ----


def row_idle_gap(a):
    # A predict of half a second: what a virtual machine needs to wake up (up to 50 ms seen, without a page fault) is another matter.
    with s.serve("--threads", 1, model=s.slow_snapshot(0.5)) as server:
        client = Client(server)
        first = client.predict()[0]
        median = statistics.median(client.predict()[0] for _ in range(20))
        say("first", f"{first:.2f}")
        say("median of 20", f"{median:.2f}")
        late = []
        for _ in range(3):  # the middle one of three: another program may wake up in the same moment
            time.sleep(a.gap)
            client = Client(server)  # the idle limit may have closed the other
            late.append(client.predict()[0])
            say(f"after {a.gap} s", f"{late[-1]:.2f}")
        after = statistics.median(late)
    verdict(first < 1.2 * median and after < 1.5 * median,
            f"first x {first / median:.2f} (< 1.2), after {a.gap} s x {after / median:.2f} (< 1.5), median {median:.0f} ms")


# ---- what the service adds to the engine ----


def row_overhead(a):
    # One compute thread: on two processors the client and the network thread need one as well.
    with s.serve("--threads", 1) as server:
        cmd = [s.BIN, "bench", "http", "--url", server.url, "-n", str(a.count), "--warmup", "20", "--json"]
        run = subprocess.run(cmd, capture_output=True, text=True, timeout=600, check=False)
        assert run.returncode == 0, run.stderr
    ms = json.loads(run.stdout)["ms"]
    for row in ("wall", "overhead", "service"):
        say(row, *(f"{p} {ms[row][p]:.2f}" for p in ("min", "p50", "p90", "p99", "max")))
    p50, p99 = ms["service"]["p50"], ms["service"]["p99"]
    verdict(p50 < 1.5 and p99 < 5, f"p50 {p50:.2f} ms (< 1.5), p99 {p99:.2f} ms (< 5) over the engine's own time, {a.count} demo requests; "
            f"with the picture's decoding p50 {ms['overhead']['p50']:.2f}, p99 {ms['overhead']['p99']:.2f} ms")


# ---- foreign fuzzing of the contract ----


def row_schemathesis(a):
    program = shutil.which("schemathesis") or shutil.which("st")
    if program is None:
        print("schemathesis is not installed (pip install schemathesis)")
        sys.exit(77)
    with s.serve("--threads", 1) as server:
        cmd = [program, "run", f"http://127.0.0.1:{server.port}/openapi.json", "--max-examples", str(a.count), "--checks", "all", "--exclude-checks", "positive_data_acceptance,ignored_auth", "--request-timeout", "30", "--no-color"]
        run = subprocess.run(cmd, capture_output=True, text=True, timeout=3600, check=False, cwd=s.TMP)
        print(run.stdout[-6000:], run.stderr[-1000:])
        assert server.file("json", "base.json").is_(200)
    cases = [x.strip() for x in run.stdout.splitlines() if "generated" in x and "passed" in x] or ["no summary"]
    verdict(run.returncode == 0, f"schemathesis, all checks but those for other kinds of service: {cases[-1]}")


ROWS = {"crowd": row_crowd, "overhead": row_overhead, "predicts": row_predicts, "mixed": row_mixed, "kill9": row_kill9, "idle-gap": row_idle_gap, "schemathesis": row_schemathesis}
COUNTS = {"crowd": 300, "overhead": 1000, "predicts": 10000, "mixed": 500, "kill9": 200, "idle-gap": 1, "schemathesis": 100}


def threads(server):
    with open(f"/proc/{server.p.pid}/status", encoding="ascii") as f:
        return int(next(line.split()[1] for line in f if line.startswith("Threads:")))


s.Server.memory_kb_threads = threads


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("row", choices=ROWS)
    p.add_argument("--count", type=int, help="predicts, requests, kills or examples")
    p.add_argument("--idle", type=int, default=2000)
    p.add_argument("--writers", type=int, default=64)
    p.add_argument("--gap", type=float, default=60)
    p.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")))
    a = p.parse_args()
    a.count = a.count or COUNTS[a.row]
    s.set_up()
    try:
        ROWS[a.row](a)
    except AssertionError as e:
        print(f"FAILED: {str(e)}".replace("\n", "\n  "))
        print("FAILED: " + str(e).splitlines()[0][:300])
        sys.exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
