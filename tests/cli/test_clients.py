#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of the client commands (smoke, bench http, plot, curl), against a stand-in with faults and against `gr00t serve`.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed". Ports are chosen by the kernel; nothing but the standard library.
"""
import base64
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client_stand_in import GROUPS, INSTRUCTION, StandIn, actions, demo, png, reply, unused_port, write  # noqa: E402
from tap import Skip, contains, done, equal, fails, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
TMP = ""
FIGURE = r"(?:-?\d+\.\d+|n/a)"
SMOKE_LINE = re.compile(
    rf"(PASS|FAIL) (\S+) (\S+): PCC\(actions\)={FIGURE} max\|d\|=\d+\.\d{{4}} PCC\(action_pred_valid\)={FIGURE} "
    rf"repeat_maxdiff=\d\.\de[-+]\d\d (seed_path_ok|seed_path_FAILED) device_ms=\d+\.\d\d/\d+\.\d\d total_ms=\d+\.\d\d/\d+\.\d\d "
    rf"wall_ms=\d+ per_group\[(\S+={FIGURE}/\d+\.\d{{4}} ?)+\]( failed\[.*\])?\n")


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "HUGGINGFACE_", "XDG_"))}
    clean["HOME"] = os.path.join(TMP, "home")
    # A proxy must never see a robot's pictures or the key: nothing listens there, so using it would fail.
    clean.update({"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"})
    return clean


def gr00t(*args):
    p = subprocess.run([BIN, *args], env=environment(), capture_output=True, timeout=240, check=False)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    return p


def key_file(text, name="key"):
    return write(TMP, name, text)


# ---- smoke ----

@test
def smoke_prints_one_line_of_the_known_form():
    with StandIn() as s:
        run = done(gr00t("smoke", "--url", s.url))
        m = SMOKE_LINE.fullmatch(run.out)
        assert m, run.out
        equal(m.group(1, 2, 3, 4), ("PASS", "stand-in", "n16", "seed_path_ok"))
        contains(run.out, "PCC(actions)=1.000000 max|d|=0.0000 PCC(action_pred_valid)=1.000000 repeat_maxdiff=0.0e+00",
                 "device_ms=1.50/1.50 total_ms=1.90/1.90", "per_group[left_arm=1.00000/0.0000 waist=1.00000/0.0000]")
        equal(s.posts, 3)
        bodies = [json.loads(b) for c, p, h, b in s.seen if c == "POST"]
        equal([sorted(set(b) & {"seed", "noise"}) for b in bodies], [["seed"], ["seed"], ["noise"]])
        for b in bodies:
            equal({k: b[k] for k in ("images", "state", "instruction")}, {k: demo()["request"][k] for k in ("images", "state", "instruction")})
        assert all("Expect" not in h for c, p, h, b in s.seen)
        equal(s.connections, 1, "one kept-alive connection:")


@test
def smoke_writes_json():
    out = os.path.join(TMP, "smoke.json")
    with StandIn() as s:
        printed = json.loads(done(gr00t("smoke", "--url", s.url, "--json", "--out", out)).out)
    with open(out, encoding="utf-8") as f:
        written = json.load(f)
    equal(printed, written)
    equal((written["pass"], written["failed"], written["seed_path_ok"], len(written["runs"])), (True, None, True, 3))
    equal(list(written["per_group"]), list(GROUPS))


@test
def smoke_fails_on_another_chunk():
    with StandIn(scramble=True) as s:
        run = fails(gr00t("smoke", "--url", s.url), 1, "PCC(actions)", "is below 0.999")
        assert SMOKE_LINE.fullmatch(run.out) and run.out.startswith("FAIL "), run.out
        contains(run.out, "failed[PCC(actions)")


@test
def smoke_fails_when_a_repeat_differs():
    with StandIn(unsteady=1e-5) as s:
        run = fails(gr00t("smoke", "--url", s.url), 1, "the repeated request differs by 1.0e-05")
        contains(run.out, "FAIL", "repeat_maxdiff=1.0e-05")


@test
def smoke_fails_when_the_noise_path_differs():
    with StandIn(wrong_noise=1e-4) as s:
        run = fails(gr00t("smoke", "--url", s.url), 1, "the noise of the seed gives another chunk")
        contains(run.out, "FAIL", "seed_path_FAILED")


@test
def smoke_fails_on_a_chunk_of_another_shape():
    with StandIn(broken="shape") as s:
        run = fails(gr00t("smoke", "--url", s.url), 1, "waist")
        assert run.out.startswith("FAIL ") and run.out.count("\n") == 1, run.out


@test
def smoke_waits_for_a_starting_service():
    with StandIn(starting_s=1.5) as s:
        run = done(gr00t("smoke", "--url", s.url))
        contains(run.err, "waiting", "still starting")
        assert run.out.startswith("PASS"), run.out
    with StandIn(starting_s=60) as s:
        fails(gr00t("smoke", "--url", s.url, "--wait", "1"), 5, "waited 1 s", "still starting")


@test
def smoke_waits_for_a_service_that_is_not_there_yet():
    path = os.path.join(TMP, "later.sock")
    made = []
    threading.Timer(1.2, lambda: made.append(StandIn(unix=path))).start()
    run = done(gr00t("smoke", "--url", "unix:" + path, "--wait", "30"))
    contains(run.err, "waiting", "no answer from unix:")
    assert run.out.startswith("PASS"), run.out
    made[0].__exit__()


@test
def smoke_asks_a_busy_service_again():
    with StandIn(busy=[1]) as s:
        run = done(gr00t("smoke", "--url", s.url))
        contains(run.err, "asking again in 1 s", "the queue is full")
        equal(s.posts, 4)


@test
def a_service_that_shuts_down_is_not_waited_for():
    with StandIn(health={"status": "draining"}) as s:
        fails(gr00t("smoke", "--url", s.url), 5, "shutting down")


# ---- the connection ----

@test
def no_service_is_exit_code_5_and_says_what_to_do():
    hold, port = unused_port()
    for command in (["smoke"], ["bench", "http"], ["curl"], ["plot", "--out", os.path.join(TMP, "x.svg")]):
        fails(gr00t(*command, "--url", f"http://127.0.0.1:{port}"), 5, f"no answer from http://127.0.0.1:{port}: connection refused",
              "is `gr00t serve` running there?")
    hold.close()
    fails(gr00t("curl", "--url", "unix:" + os.path.join(TMP, "nothing.sock")), 5, "no such file", "is `gr00t serve` running there?")


@test
def addresses_are_checked():
    for url in ("127.0.0.1:20000", "ftp://host/", "http://", "http://a b/", "http://host:99999", "http://h/?q=1", "unix:", "unix:" + "x" * 200):
        fails(gr00t("smoke", "--url", url), 2)
    run = fails(gr00t("smoke", "--url", "http://user:hunter2@127.0.0.1:1"), 2, "--api-key-file")
    assert "hunter2" not in run.err


@test
def broken_answers_are_told():
    for fault, text in (("json", "is this the address"), ("html", "is this the address"), ("short", "closed before the answer was complete"),
                        ("close", "closed before the answer was complete")):
        with StandIn(broken=fault) as s:
            fails(gr00t("curl", "--url", s.url), 5, text)
    with StandIn(health={"hello": 1}) as s:
        fails(gr00t("curl", "--url", s.url), 5, "is this the address of a GR00T service?")
    with StandIn(demo_text={"nothing": 1}) as s:
        fails(gr00t("smoke", "--url", s.url), 5, "/demo has no request")


@test
def a_deeply_nested_demo_does_not_end_the_program():
    deep = demo()
    inner = 1
    for _ in range(40):
        inner = [inner]
    deep["request"]["state"] = inner
    with StandIn(demo_text=deep) as s:
        done(gr00t("curl", "--url", s.url, "--dry-run"))


@test
def a_refused_request_is_exit_code_3():
    with StandIn(refuse=True) as s:
        fails(gr00t("curl", "--url", s.url), 3, "answered 400", "state.left_arm: 7 values expected, found 6")
        fails(gr00t("smoke", "--url", s.url), 3, "answered 400")


@test
def the_key_opens_and_is_never_shown():
    secret = "s3cret-key-0123456789"
    with StandIn(key=secret) as s:
        good, bad = key_file(secret + "\n"), key_file("wr0ng-key", "bad")
        runs = [done(gr00t("smoke", "--verbose", "--url", s.url, "--api-key-file", good)),
                done(gr00t("curl", "--verbose", "--print", "--url", s.url, "--api-key-file", good)),
                done(gr00t("bench", "http", "--verbose", "-n", "2", "--url", s.url, "--api-key-file", good, "--json")),
                fails(gr00t("smoke", "--verbose", "--url", s.url, "--api-key-file", bad), 6, "answered 401", "--api-key-file"),
                fails(gr00t("smoke", "--url", s.url), 6, "answered 401", "--api-key-file names the file")]
    for run in runs:
        assert secret not in run.out + run.err and "wr0ng-key" not in run.out + run.err
    fails(gr00t("smoke", "--api-key-file", key_file("\n", "empty")), 2, "is empty")
    fails(gr00t("smoke", "--api-key-file", key_file("a\nb", "two")), 2, "printable")
    fails(gr00t("smoke", "--api-key-file", os.path.join(TMP, "absent")), 3, "absent")


@test
def redirects_are_not_followed_and_the_key_stays():
    with StandIn() as other, StandIn(redirect=other.url) as s:
        fails(gr00t("curl", "--url", s.url, "--api-key-file", key_file("abc")), 5, "307", "not followed")
        equal(other.seen, [])


@test
def tls_wants_a_trusted_certificate():
    cert, key = os.path.join(TMP, "cert.pem"), os.path.join(TMP, "tls-key.pem")
    if shutil.which("openssl") is None:
        raise Skip("no openssl command")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    with StandIn(tls=(cert, key)) as s:
        assert done(gr00t("smoke", "--url", s.url, "--ca-file", cert)).out.startswith("PASS")
        fails(gr00t("smoke", "--url", s.url), 5, "certificate", "--ca-file")
        fails(gr00t("smoke", "--url", s.url.replace("https", "http")), 5, "is it https://?")
    with StandIn() as s:
        fails(gr00t("smoke", "--url", s.url.replace("http", "https")), 5, "is it http://?")
    fails(gr00t("smoke", "--ca-file", os.path.join(TMP, "absent")), 3, "absent")


@test
def unix_sockets_work():
    with StandIn(unix=os.path.join(TMP, "s.sock")) as s:
        assert done(gr00t("smoke", "--url", s.url)).out.startswith("PASS")


# ---- bench http ----

@test
def bench_prints_a_table_and_a_histogram():
    with StandIn() as s:
        run = done(gr00t("bench", "http", "--url", s.url, "-n", "20", "--warmup", "2"))
        equal(s.posts, 22)
        contains(run.out, "20 of 20 requests, 1 connection,", "p50", "p90", "p99", "max", "mean", "#", "overhead = wall - (encode + device + decode_actions)")
        equal([x.split()[0] for x in run.out.splitlines()[3:11]],
              ["wall", "decode", "encode", "device", "decode_actions", "total", "overhead", "service"])


@test
def bench_writes_json_whose_figures_fit_together():
    out = os.path.join(TMP, "bench.json")
    with StandIn(delay_s=0.02) as s:
        report = json.loads(done(gr00t("bench", "http", "--url", s.url, "--requests", "12", "--json", "--out", out, "--noise")).out)
        equal(sum('"noise"' in b.decode() for c, p, h, b in s.seen if c == "POST"), 15)
    with open(out, encoding="utf-8") as f:
        equal(json.load(f), report)
    equal((report["requests"], report["ok"], report["concurrency"], report["errors"], report["idle_gap"]), (12, 12, 1, {}, None))
    for name, p in report["ms"].items():
        assert p["min"] <= p["p50"] <= p["p90"] <= p["p99"] <= p["max"], (name, p)
    ms = report["ms"]
    assert ms["wall"]["min"] >= 20.0 and ms["device"]["p50"] == 1.5
    assert abs(ms["wall"]["p50"] - 1.7 - ms["overhead"]["p50"]) < 0.01, ms
    assert abs(ms["overhead"]["p50"] - report["picture_decode_ms"] - ms["service"]["p50"]) < 0.01, ms
    assert report["picture_decode_ms"] > 0.0 and 0 < report["requests_per_s"] < 50


@test
def bench_counts_errors_by_status():
    with StandIn(busy=[5, 6, 9]) as s:
        run = fails(gr00t("bench", "http", "--url", s.url, "-n", "10", "--json"), 1, "3 of 10 requests failed", "the queue is full")
        report = json.loads(run.out)
        equal((report["ok"], report["errors"]), (7, {"503": 3}))
    with StandIn(busy=range(2, 100)) as s:
        report = json.loads(fails(gr00t("bench", "http", "--url", s.url, "-n", "4", "--warmup", "1", "--json"), 1, "4 of 4").out)
        equal((report["ok"], report["ms"]), (0, {}))


@test
def bench_uses_a_connection_for_each_of_its_threads():
    with StandIn(together=8) as s:  # which answers eight at a time: with fewer on their way none would ever be answered
        report = json.loads(done(gr00t("bench", "http", "--url", s.url, "-n", "16", "--warmup", "1", "--concurrency", "8", "--json")).out)
        equal(s.connections, 9)  # and the one that asked for /demo
        equal((report["ok"], report["errors"]), (16, {}))


@test
def bench_measures_the_call_after_a_silence():
    with StandIn() as s:
        idle = json.loads(done(gr00t("bench", "http", "--url", s.url, "-n", "3", "--idle-gap", "1", "--json")).out)["idle_gap"]
        equal((idle["seconds"], len(idle["wall_ms"]), len(idle["of_median"])), (1, 3, 3))


# ---- plot ----

@test
def plot_draws_the_demo_of_a_service():
    out = os.path.join(TMP, "served.svg")
    with StandIn() as s:
        run = done(gr00t("plot", "--url", s.url, "--out", out))
    contains(run.out, "10 joints, 16 steps", "against golden: PCC 1.000000, max|d| 0.00e+00 rad")
    page = xml.dom.minidom.parse(out)
    equal(len(page.getElementsByTagName("g")), 10)
    contains(page.toxml(), "waist[2]", "pick the pear, seed 42", "expected (golden)")


@test
def plot_draws_files():
    chunk, golden = write(TMP, "reply.json", json.dumps(reply({}, 0.01))), write(TMP, "golden.json", json.dumps({"actions_fp32": actions()}))
    saved, out = write(TMP, "demo.json", json.dumps(demo())), os.path.join(TMP, "files.svg")
    contains(done(gr00t("plot", "--chunk", chunk, "--golden", golden, "--out", out)).out, "max|d| 1.00e-02")
    contains(done(gr00t("plot", "--chunk", chunk, "--golden", saved, "--out", out)).out, "max|d| 1.00e-02")
    case = os.path.join(TMP, "case")  # the folder of a golden case, as predict takes it
    os.makedirs(case)
    shutil.copy(golden, os.path.join(case, "expected.json"))
    contains(done(gr00t("plot", "--chunk", chunk, "--golden", case, "--out", out)).out, "max|d| 1.00e-02")
    fails(gr00t("plot", "--chunk", chunk, "--golden", TMP, "--out", out), 3, "expected.json")
    assert "golden" not in done(gr00t("plot", "--chunk", chunk, "--out", out)).out
    other = reply({})
    del other["actions"]["waist"]
    other["action_keys"] = ["left_arm"]
    fails(gr00t("plot", "--chunk", chunk, "--golden", write(TMP, "other.json", json.dumps(other)), "--out", out), 3, "golden")
    for bad in ("[]", "{}", '{"actions": {}}', '{"actions": {"a": [[1], [1, 2]]}}', '{"actions": {"a": [[null]]}}', '{"actions": {"a": [[1e999]]}}',
                '{"actions": {"a": 5}}', '{"actions": {"a": [[1]]}, "action_keys": ["b"]}', '{"actions": {"a": [[1]], "b": [[2], [3]]}}', "nonsense"):
        fails(gr00t("plot", "--chunk", write(TMP, "bad.json", bad), "--out", out), 3)
    fails(gr00t("plot", "--chunk", chunk, "--out", os.path.join(TMP, "x.pdf")), 2, ".svg or .png")
    fails(gr00t("plot", "--chunk", chunk, "--url", "http://h", "--out", out), 2)


@test
def plot_draws_png_or_says_why_not():
    chunk, out = write(TMP, "reply2.json", json.dumps(reply({}))), os.path.join(TMP, "x.png")
    run = gr00t("plot", "--chunk", chunk, "--golden", chunk, "--out", out)
    if run.returncode == 2:
        contains(run.err, "built without cairo", ".svg")
        raise Skip("built without cairo")
    done(run)
    with open(out, "rb") as f:
        head = f.read(24)
    equal(head[:8], b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:])
    assert width > 1000 and height > 300


# ---- curl ----

@test
def curl_prints_a_table_or_the_reply():
    with StandIn() as s:
        run = done(gr00t("curl", "--url", s.url))
        contains(run.out, "stand-in n16, gr1: 16 steps x 10 joints, radians; 116 tokens, 12 of them instruction; seed 42", "left_arm", "waist",
                 "step", "[6]", "milliseconds: decode 0.2, encode 0.1, device 1.5", "ms from here")
        rows = [x.split() for x in run.out.splitlines() if re.match(r" +\d+ +-?\d", x)]
        equal((len(rows), len(rows[0])), (16, 11))
        equal([float(x) for x in rows[3][1:8]], [round(x, 4) for x in actions()["left_arm"][3]])
        equal(json.loads(done(gr00t("curl", "--url", s.url, "--json")).out)["actions"], actions())


@test
def curl_sends_files_as_they_are():
    picture, text = png(70, 65) + b"trailing", {"left_arm": [1, 2.5, 1e-7, 0, 0, 0, -0.25], "waist": [0.1, 0.2, 0.3]}
    image, state = write(TMP, "p.png", picture), write(TMP, "s.json", json.dumps(text))
    with StandIn() as s:
        done(gr00t("curl", "--url", s.url, "--image", image, "--state", state, "--instruction", "grasp \"it\" \u00e9", "--seed", "7"))
        body = json.loads(s.seen[-1][3])
        equal(base64.b64decode(body["images"]["cam"]), picture)
        equal((body["state"], body["instruction"], body["seed"]), (text, "grasp \"it\" \u00e9", 7))
        run = done(gr00t("curl", "--url", s.url, "--instruction", "other"))
        contains(run.err, "taken from the service's demo: image state")
        equal(json.loads(s.seen[-1][3])["state"], demo()["request"]["state"])
        done(gr00t("curl", "--url", s.url, "--image", "cam=" + image, "--image", "cam=" + image, "--dry-run"))
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<6f", 0.1, 1, 2, 3, 4, 5)
        body = json.loads(done(gr00t("curl", "--url", s.url, "--noise", write(TMP, "n.npy", npy), "--dry-run")).out)
        equal((body["noise"], "seed" in body), ([[0.1, 1, 2], [3, 4, 5]], False))
    fails(gr00t("curl", "--seed", "1", "--noise", "x"), 2, "exclude")
    hold, port = unused_port()
    body = json.loads(done(gr00t("curl", "--dry-run", "--image", "a=" + image, "--image", "a=" + image, "--image", "b=" + image, "--state", state,
                                 "--instruction", "x", "--url", f"http://127.0.0.1:{port}")).out)
    hold.close()
    equal((len(body["images"]["a"]), body["images"]["a"][1] == body["images"]["b"], "seed" in body), (2, True, False))


@test
def curl_prints_a_command_that_works():
    with StandIn(key="k3y") as s:
        key = key_file("k3y\n", "a key")
        line = done(gr00t("curl", "--print", "--url", s.url + "/", "--api-key-file", key, "--instruction", "it's")).out
        contains(line, "gr00t curl --dry-run", "--instruction 'it'\"'\"'s'", "--data-binary @-", f"{s.url}/predict")
        if shutil.which("curl") is None:
            raise Skip("no curl command")
        tool = os.path.join(TMP, "bin")
        os.makedirs(tool, exist_ok=True)
        if not os.path.exists(os.path.join(tool, "gr00t")):
            os.symlink(BIN, os.path.join(tool, "gr00t"))
        env = environment() | {"PATH": tool + ":" + os.environ["PATH"], "no_proxy": "*"}
        p = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)
        equal(json.loads(p.stdout)["model"], "stand-in", p.stderr)
        equal(json.loads(s.seen[-1][3])["instruction"], "it's")


# ---- the real service ----

def start_service(*options, before=None):
    demo_dir, path = os.path.join(TMP, "demo"), os.path.join(TMP, "real.sock")
    if not os.path.exists(demo_dir):
        done(gr00t("synth", "demo", demo_dir))
    with open(os.path.join(TMP, "serve.log"), "wb") as log:
        return subprocess.Popen([BIN, "serve", "--model", demo_dir, "--unix", path, *options], env=environment(), stdout=log, stderr=log,
                                preexec_fn=before), "unix:" + path


def wait_until_alone(client):
    """Until the service has seen the end of all other connections."""
    client.settimeout(60)
    until = time.monotonic() + 60
    while True:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        got = b""
        while b"\ngr00t_build_info{" not in got or not got.endswith(b"\n"):
            got += client.recv(65536)
        if b"\ngr00t_connections 1\n" in got:
            return
        assert time.monotonic() < until, got
        time.sleep(0.01)


@test
def the_service_takes_the_connections_it_was_told_to():
    """Also when the soft limit of descriptors is below: the service raises it and takes no connection less."""
    wanted = 150
    service, url = start_service("--connections", str(wanted), before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000)))
    clients = []
    try:
        done(gr00t("curl", "--url", url, "--wait", "100"))
        for _ in range(wanted + 1):
            client = socket.socket(socket.AF_UNIX)
            client.connect(url[5:])
            clients.append(client)
            if len(clients) == 1:
                wait_until_alone(client)
            time.sleep(0.002)
        clients[0].settimeout(60)  # one more than may be: the one that was silent for longest is closed, no other
        equal(clients[0].recv(100), b"")
        equal(select.select(clients[1:], [], [], 0.1)[0], [], "closed:")
    finally:
        for client in clients:
            client.close()
        service.terminate()
        equal(service.wait(60), 0)


@test
def clients_and_service_understand_each_other():
    if gr00t("serve", "--help").returncode != 0:
        raise Skip("this program has no serve")
    service, url = start_service()
    try:
        run = done(gr00t("smoke", "--url", url, "--wait", "100"))
        assert SMOKE_LINE.fullmatch(run.out) and run.out.startswith("PASS "), run.out
        report = json.loads(done(gr00t("bench", "http", "--url", url, "-n", "100", "--json")).out)
        equal((report["ok"], report["errors"]), (100, {}))
        print(f"# service over the engine: p50 {report['ms']['service']['p50']} ms, p99 {report['ms']['service']['p99']} ms")
        print(f"# wall - (encode + device + decode_actions): p50 {report['ms']['overhead']['p50']} ms, p99 {report['ms']['overhead']['p99']} ms")
        contains(done(gr00t("curl", "--url", url)).out, "joints, radians")
        contains(done(gr00t("plot", "--url", url, "--out", os.path.join(TMP, "real.svg"))).out, "against golden: PCC 0.999")
        fails(gr00t("curl", "--url", url, "--state", write(TMP, "wrong.json", '{"left_arm": [1]}')), 3, "answered 4")
    except AssertionError as e:
        with open(os.path.join(TMP, "serve.log"), encoding="utf-8", errors="replace") as log:
            raise AssertionError(f"{e}; the service said: {log.read()[-600:]}") from e
    finally:
        service.send_signal(signal.SIGTERM)
        try:
            code = service.wait(60)
        except subprocess.TimeoutExpired:
            service.kill()
            code = None
    equal(code, 0, "the service ended:")


def main():
    global TMP
    TMP = tempfile.mkdtemp(prefix="gr00t-clients-")
    try:
        os.mkdir(os.path.join(TMP, "home"))
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
