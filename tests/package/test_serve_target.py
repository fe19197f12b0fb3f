#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of `gr00t serve TARGET`, stop, ps, logs, curl TARGET, and of the names and words under which a launcher starts the program.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed". Every test has a home folder of its own; every service started is stopped.
"""
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))
sys.path.insert(0, HERE)
import pull_hub as ph  # noqa: E402
from serve_home import BIN  # noqa: E402
from serve_home import Home as ServeHome  # noqa: E402
from tap import Skip, contains, equal, run_tests, test  # noqa: E402

COMMIT = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"
CHECK = os.path.join(HERE, "manifest_check.py")
SLOW = ("--", "--policy", "exact", "--cpu", "scalar", "--warmup-runs", "30")  # a start of some seconds
TMP = DEMO = ""


class Home(ServeHome):
    def __init__(self, **more):
        super().__init__(TMP, **more)


def state_file(home, name):
    return os.path.join(home.cache, "run", name + ".json")


def get(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as reply:
        return json.load(reply)


def wait(what, check, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def write(folder, name, data):
    return ph.write(folder, name, data if isinstance(data, (str, bytes)) else json.dumps(data))


def hub_snapshot(home, repo="org/demo"):
    """The demo as a snapshot of the Hub cache."""
    folder = os.path.join(ph.cache_of(home.dir), "models--" + repo.replace("/", "--"), "snapshots", COMMIT)
    shutil.copytree(DEMO, folder)
    return folder


def broken_snapshot():
    folder = os.path.join(tempfile.mkdtemp(dir=TMP), "broken")
    shutil.copytree(DEMO, folder)
    write(folder, "config.json", "{}")
    return folder


def package(folder):
    """A package without image/ whose weights are org/demo at COMMIT."""
    write(folder, "tt_kernel_manifest.json", base_manifest())
    return folder


def base_manifest():
    return {
        "schema_version": "5.1", "name": "pack", "tt_metal_version": "none", "arch": "blackhole", "device_count": 1,
        "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-11-29T00:00:00+00:00", "hostname": "h"},
        "weights": {"repo_id": "org/demo", "revision": COMMIT, "allow_patterns": None, "ignore_patterns": None, "repo_type": "model"},
        "auxiliary_weights": [],
        "container": {
            "image": {"registry": "hf", "repository": "pack", "tag": "tt-model/pack:0123456789ab", "digest": "sha256:" + "1e" * 32},
            "kind": "tt-dit-server", "runtime": {"app": "gr00t.native:app", "mesh_shape_env": "TT_MESH_SHAPE"},
            "serve": {"hardware": "p150", "mesh_device": "P150", "args": [["--queue", 3]],
                      "env": {"TT_WEIGHTS_REVISION": COMMIT, "GR00T_CACHE": "/weight-cache/packed"}},
            "serve_profiles": [{"name": "cpu", "env": {"GR00T_DEVICE": "cpu"}}, {"name": "card", "env": {"GR00T_DEVICE": "blackhole"}}],
            "default_profile": "cpu", "code_dir": "code", "verify": []}}


# ---- a snapshot folder ----

@test
def a_snapshot_is_served_listed_asked_logged_and_stopped():
    with Home() as h:
        run = h.done("serve", DEMO, "--threads", "1")
        rows = [x for x in run.out.splitlines() if x.startswith("\u2713")]
        labels = ["process started", "server process started", "weights found", "device opened", "model built", "warmed up"]
        equal([next((x for x in labels if r[2:].startswith(x)), r) for r in rows[:6]], labels)
        contains(rows[6], DEMO, "ready")
        contains(rows[3], "threads=1")
        s = h.one()
        contains(run.out, "endpoint  " + s["url"], "curl " + s["url"] + "/v1/models", "gr00t stop " + DEMO)
        equal((s["state"], s["engine"], s["target"], s["profile"]), ("ready", "native", DEMO, "default"))
        assert re.fullmatch(r"tt-model-demo-[0-9a-f]{8}-default", s["name"]), s["name"]
        equal(get(s["url"] + "/v1/models")["object"], "list")
        contains(h.done("curl", DEMO).out, "left_arm", "seed 42")
        contains(h.done("smoke", "--url", s["url"]).out, "PASS ")
        contains(h.done("logs", DEMO).out, "Started server process", "Application startup complete")
        contains(h.done("ps").out, s["name"], "ready", str(s["pid"]))
        contains(h.done("stop", DEMO).out, s["name"] + "  clean shutdown", "stopped 1 service(s)")
        equal(h.ps(), [])
        assert not os.path.exists(state_file(h, s["name"])) and os.path.exists(s["log"])
        contains(h.done("stop", DEMO).out, "\u25cb nothing running")
        contains(ph.read(s["log"]).decode(), "Shutting down (SIGTERM)", "Finished server process")


@test
def a_service_is_found_by_path_name_and_from_another_folder():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        s = h.one()
        link = os.path.join(TMP, "link-to-demo")
        if not os.path.islink(link):
            os.symlink(DEMO, link)
        for word in (DEMO, DEMO + "/", link, s["name"], s["package"]):
            contains(h.done("logs", word).out, "Started server process")
        h.fails(3, "logs", "/nonexistent", parts=["no service of /nonexistent"])
        h.fails(2, "curl", DEMO, "--url", "http://127.0.0.1:1", parts=["TARGET and --url"])


@test
def a_second_serve_of_the_same_is_refused_and_another_port_is_taken_for_another():
    with Home() as h:
        other = os.path.join(TMP, "other/demo")
        if not os.path.isdir(other):
            shutil.copytree(DEMO, other)
        h.done("serve", DEMO, "--detach")
        first = h.one()
        h.fails(7, "serve", DEMO, parts=["runs already at " + first["url"], "gr00t stop"])
        run = h.done("serve", other, "--detach")
        ports = {s["target"]: s["port"] for s in h.ps()}
        equal(sorted(ports), sorted([DEMO, other]))
        assert ports[other] > ports[DEMO], ports
        contains(run.out, f"port 20000 is in use; serving on {ports[other]} instead")
        contains(h.done("stop", "--all").out, "stopped 2 service(s)")


@test
def starts_at_the_same_time_do_not_take_the_same_name_or_port():
    with Home() as h:
        copies = [DEMO]
        for i in range(3):
            copies.append(os.path.join(TMP, f"copy{i}"))
            shutil.copytree(DEMO, copies[-1])
        started = [subprocess.Popen([BIN, "serve", d, "--detach"], env=h.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for d in copies + copies]
        codes = [p.wait(240) for p in started]
        equal(sorted(codes), [0] * 4 + [7] * 4)
        wait("all ready", lambda: [s["state"] for s in h.ps()] == ["ready"] * 4)
        equal(len({s["port"] for s in h.ps()}), 4, "ports:")


@test
def ports_in_use_are_seen_before_anything_starts():
    with Home() as h, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        h.fails(2, "serve", DEMO, "--port", str(port), parts=[f"port {port} is in use"])
        equal(h.ps(), [])
        h.fails(2, "serve", DEMO, "--", "--port", "5", parts=["--port belongs before"])


@test
def a_killed_service_is_reported_and_can_be_served_again():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        s = h.one()
        os.kill(s["pid"], signal.SIGKILL)
        wait("end of the service", lambda: h.one()["state"] == "ended")
        h.fails(5, "curl", DEMO, parts=["has ended", "gr00t logs"])
        contains(h.done("logs", DEMO).out, "Started server process")
        h.done("serve", DEMO)
        again = h.one()
        equal((again["state"], again["pid"] != s["pid"]), ("ready", True))
        assert os.path.exists(s["log"] + ".1"), "the log of the run before is kept"
        os.kill(again["pid"], signal.SIGKILL)
        wait("end of the service", lambda: h.one()["state"] == "ended")
        contains(h.done("stop", DEMO).out, "had ended already", "nothing running")
        equal(h.ps(), [])


@test
def a_stale_state_file_never_signals_another_process():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        s = h.one()
        h.done("stop", DEMO)
        with subprocess.Popen(["sleep", "3600"]) as other:
            try:
                state = {"name": s["name"], "target": DEMO, "package": s["package"], "profile": "default", "engine": "native",
                         "pid": other.pid, "start": 12345, "boot": "", "port": s["port"], "cards": False, "image": "", "log": s["log"],
                         "url": s["url"]}
                write(os.path.dirname(state_file(h, "x")), s["name"] + ".json", state)
                equal(h.one()["state"], "ended")
                contains(h.done("stop", DEMO, "--grace-s", "0").out, "had ended already")
                equal(other.poll(), None, "the other process:")
                h.done("serve", DEMO)
                equal(h.one()["state"], "ready")
            finally:
                other.kill()


@test
def a_damaged_state_file_is_told_and_does_not_stop_the_others():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        name = h.one()["name"]
        write(os.path.dirname(state_file(h, "x")), "tt-model-bad-x.json", '{"name": "tt-model-bad-x", "pid": 1')
        run = h.done("ps", "--json")
        equal([s["name"] for s in json.loads(run.out)], [name])
        contains(run.err, "tt-model-bad-x.json")
        contains(h.done("stop", "--all").out, "stopped 1 service(s)")


@test
def a_service_with_a_certificate_of_its_own_is_asked_over_https():
    if shutil.which("openssl") is None:
        raise Skip("no openssl command")
    with Home() as h:
        cert, key = os.path.join(h.dir, "own cert.pem"), os.path.join(h.dir, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        tls = ("--tls-cert", cert, "--tls-key", key)
        # a silent log: only the service's own answer says that it is ready
        run = h.done("serve", DEMO, *tls, "--", "--quiet", env={"TT_MODEL_READY_TIMEOUT": "200"})
        s = h.one()
        equal(s["url"], f"https://127.0.0.1:{s['port']}")
        equal(s["state"], "ready")
        contains(run.out, "endpoint  " + s["url"], f"curl --cacert '{cert}' {s['url']}/v1/models")
        contains(h.done("curl", DEMO).out, "left_arm", "seed 42")
        contains(h.done("curl", DEMO, "--print").out, f"--cacert '{cert}'")
        h.fails(5, "curl", "--url", s["url"])  # nobody else trusts it
        h.done("stop", DEMO)
        h.done("serve", DEMO, "--detach", "--", *tls)
        equal(h.one()["url"], s["url"])


@test
def targets_with_blanks_are_printed_as_a_shell_wants_them():
    with Home() as h:
        folder = os.path.join(h.dir, "it's a demo")
        shutil.copytree(DEMO, folder)
        run = h.done("serve", folder)
        quoted = shlex.quote(folder)
        contains(run.out, f"try       gr00t curl {quoted}\n", f"gr00t logs {quoted} -f", f"gr00t stop {quoted}\n", f"{folder} ready")
        h.fails(7, "serve", folder, parts=[f"`gr00t stop {quoted}` ends it"])


@test
def more_services_than_anybody_has_are_all_listed_and_forgotten():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        real = h.one()
        with open(state_file(h, real["name"]), encoding="utf-8") as f:
            state = json.load(f)
        for i in range(300):
            name = f"tt-model-a-p{i:03d}"
            write(os.path.dirname(state_file(h, "x")), name + ".json", {**state, "name": name, "start": 1})
        names = [s["name"] for s in h.ps()]
        equal((len(names), real["name"] in names), (301, True))
        contains(h.done("stop", "--all").out, "stopped 1 service(s)")
        equal(h.ps(), [])


# ---- starts that fail ----

@test
def a_failed_start_says_why_and_keeps_its_log():
    with Home() as h:
        bad = broken_snapshot()
        run = h.fails(4, "serve", bad, parts=["ended before it was ready", "exit code 4"])
        contains(run.out, "\u2717 ", "  > ", "config.json", f"gr00t logs {bad}`")
        equal(h.one()["state"], "ended")
        contains(h.done("logs", bad).out, "error")
        run = h.fails(2, "serve", DEMO, "--", "--no-such-option", parts=["does not know an option"])
        contains(run.out, "rejected option", "unknown option --no-such-option")


@test
def a_start_that_takes_too_long_is_left_alone():
    with Home() as h:
        run = h.fails(7, "serve", DEMO, *SLOW, env={"TT_MODEL_READY_TIMEOUT": "0.2"}, parts=["not ready yet"])
        contains(run.out, "still starting", f"gr00t logs {DEMO} -f`", f"gr00t stop {DEMO}`")
        equal(h.one()["state"], "starting")


@test
def ctrl_c_while_watching_leaves_the_service_running():
    with Home() as h:
        p = subprocess.Popen([BIN, "serve", DEMO, *SLOW], env=h.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in p.stdout:
            if line.startswith("\u2713 model built"):
                break
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        equal(p.returncode, 130, f"{out} {err}")
        contains(err, "goes on starting")
        equal(h.one()["state"], "starting")
        wait("ready", lambda: h.one()["state"] == "ready")


@test
def a_silent_log_does_not_keep_a_ready_service_from_being_seen():
    with Home() as h:
        run = h.done("serve", DEMO, "--", "--quiet", env={"TT_MODEL_READY_TIMEOUT": "200"})
        contains(run.out, "endpoint  ")
        equal(ph.read(h.one()["log"]), b"")
        equal(h.one()["state"], "ready")


@test
def a_stopped_process_is_killed_in_the_end():
    with Home() as h:
        h.done("serve", DEMO, "--detach")
        os.kill(h.one()["pid"], signal.SIGSTOP)
        contains(h.done("stop", DEMO, "--grace-s", "0.2").out, "killed: it did not end in time")
        equal(h.ps(), [])


@test
def a_closed_terminal_does_not_end_the_service():
    with Home() as h:
        p = subprocess.Popen([BIN, "serve", DEMO, *SLOW], env=h.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in p.stdout:
            if line.startswith("\u2713 process started"):
                break
        os.killpg(os.getpgid(h.one()["pid"]), 0)  # a group of its own
        assert os.getpgid(h.one()["pid"]) != os.getpgid(p.pid)
        p.stdout.close()
        p.stderr.close()  # nobody reads any more
        p.send_signal(signal.SIGHUP)
        equal(p.wait(60), 130)
        wait("ready", lambda: h.one()["state"] == "ready")


@test
def who_ignores_the_end_of_children_is_served_all_the_same():
    with Home() as h:
        p = subprocess.Popen([BIN, "serve", broken_snapshot()], env=h.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        err = p.communicate(timeout=60)[1]
        equal(p.returncode, 4, err)
        contains(err, "exit code 4")


@test
def a_token_is_in_the_environment_and_nowhere_else():
    token = "hf_GeheimGeheim"
    with Home() as h:
        contains(h.done("serve", DEMO, "--print", "--env", "HF_TOKEN=" + token).out, "HF_TOKEN=***")
        run = h.done("--verbose", "serve", DEMO, "--env", "HF_TOKEN=" + token)
        s = h.one()
        with open(f"/proc/{s['pid']}/environ", encoding="utf-8") as f:
            contains(f.read(), "HF_TOKEN=" + token)
        for file in (f"/proc/{s['pid']}/cmdline", state_file(h, s["name"]), s["log"]):
            with open(file, encoding="utf-8") as f:
                assert token not in f.read(), file
        assert token not in run.out + run.err + h.done("ps", "--json").out
    with with_engine("docker") as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        hub_snapshot(h)
        engine_has(h, base_manifest())
        h.done("serve", pack, "--container", "--no-weights", "--detach", "--env", "HF_TOKEN=" + token)
        contains(json.dumps(calls(h)), '"--env", "HF_TOKEN"')
        assert token not in json.dumps(calls(h)), "the engine's command line shows the token"
        with open(f"/proc/{pid_in_container(h)}/environ", encoding="utf-8") as f:
            contains(f.read(), "HF_TOKEN=" + token)


def pid_in_container(h):
    return json.loads(ph.read(os.path.join(h.env["ENGINE_DIR"], "containers", "tt-model-pack-cpu.json")))["pid"]


@test
def words_that_make_no_sense_are_refused():
    with Home() as h:
        empty = tempfile.mkdtemp(dir=TMP)
        for code, args, part in (
                (4, (empty,), "neither a package"),
                (2, ("/nonexistent/x/y",), "no ORG/NAME"),
                (3, ("org/name", "--local-only"), "gr00t pull org/name"),
                (2, (DEMO, "--model", DEMO), "names the weights already"),
                (2, (DEMO, "--profile", "x"), "is a snapshot"),
                (2, (DEMO, "--container"), "neither docker nor podman"),
                (2, (DEMO, "--engine", "docker", "--print"), "needs a package"),
                (2, (DEMO, "--engine", "rkt"), "expected native, docker or podman"),
                (2, (DEMO, "--env", "X"), "expected NAME=VALUE"),
                (2, ("--detach",), "--detach needs a TARGET"),
                (2, (os.path.join(empty, "tt-model.yaml"),), "tt-model.yaml")):
            h.fails(code, "serve", *args, parts=[part], env={"PATH": empty})
        write(empty, "tt-model.yaml", "schema: '5.1'\n")
        h.fails(2, "serve", os.path.join(empty, "tt-model.yaml"), parts=["gr00t package"])
        h.fails(2, "stop", parts=["missing TARGET"])
        h.fails(2, "serve", DEMO, parts=["TT_MODEL_READY_TIMEOUT"], env={"TT_MODEL_READY_TIMEOUT": "soon"})
        equal(h.ps(), [])


# ---- packages ----

@test
def a_package_finds_its_weights_in_the_hub_cache_and_obeys_its_profile():
    with Home() as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        folder = hub_snapshot(h)
        run = h.done("serve", pack, "--no-weights", env={"GR00T_THREADS": "77", "GR00T_POLICY": "exact"})
        contains(run.err, "no image/ beside its manifest")
        s = h.one()
        equal((s["name"], s["profile"]), ("tt-model-pack-cpu", "cpu"))
        log = h.done("logs", "pack").out
        contains(log, f"Loading weights: org/demo @ {COMMIT}", "policy=auto")
        assert "threads=77" not in log
        equal(os.listdir(os.path.join(h.cache, "pack/weights")), ["packed"])
        contains(h.done("serve", pack, "--print").out, "HF_MODEL=" + folder + " ")
        h.fails(7, "serve", os.path.join(pack, "tt_kernel_manifest.json"), "--no-weights", parts=["runs already"])
        h.fails(2, "serve", pack, "--profile", "nope", parts=["nope", "cpu", "card"])
        h.fails(4, "serve", pack, "--arch", "wormhole_b0", parts=["not for wormhole_b0"])
        contains(h.done("curl", "pack").out, "left_arm")
        contains(h.done("stop", os.path.join(pack, "tt_kernel_manifest.json")).out, "clean shutdown")


@test
def a_pulled_package_and_a_pulled_snapshot_go_by_their_ids():
    with Home() as h:
        hub_snapshot(h)
        install(h)
        h.done("serve", "org/pack", "--local-only", "--detach")
        h.done("serve", "org/demo@" + COMMIT, "--local-only", "--detach")
        equal(sorted((s["target"], s["package"].split("-")[0]) for s in h.ps()), [("org/demo", "demo"), ("org/pack", "pack")])
        contains(h.done("stop", "org/pack").out, "tt-model-pack-cpu")
        contains(h.done("stop", "org/demo").out, "tt-model-demo-")


@test
def a_package_that_is_not_here_is_pulled_first_weights_included():
    root = tempfile.mkdtemp(dir=TMP)
    shutil.copytree(DEMO, os.path.join(root, "org/demo"))
    m = base_manifest()
    m["weights"]["revision"] = "main"
    m["container"]["serve"]["env"] = {}
    write(os.path.join(root, "org/pack"), "tt_kernel_manifest.json", m)
    with ph.Hub(root) as hub, Home(HF_ENDPOINT=hub.url) as h:
        run = h.done("serve", "org/pack", env={"TT_MODEL_PROGRESS": "ndjson", "PATH": "/nonexistent"})
        events = [json.loads(x) for x in run.out.splitlines()]
        steps = [(e["key"], e["state"]) for e in events if e["event"] == "step"]
        equal(steps[:4], [("pull", "start"), ("pull", "done"), ("weights", "start"), ("weights", "done")])
        assert any(e["event"] == "progress" and e["unit"] == "bytes" for e in events)
        equal(h.one()["state"], "ready")
        h.done("stop", "org/pack")
        h.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
        contains(h.done("serve", "org/pack", "--local-only", "--detach").out, "tt-model-pack-cpu starts at")
        h.done("stop", "--all")
        contains(h.done("serve", "org/pack@main", "--local-only", "--detach").out, "tt-model-pack-cpu starts at")
    with Home(HF_HUB_OFFLINE="1") as h:
        h.fails(5, "serve", "org/pack", parts=["could not be pulled"])


@test
def a_snapshot_pulled_by_its_commit_is_found_as_main_afterwards():
    root = tempfile.mkdtemp(dir=TMP)
    shutil.copytree(DEMO, os.path.join(root, "org/demo"))
    with ph.Hub(root) as hub, Home(HF_ENDPOINT=hub.url) as h:
        h.done("pull", "org/demo")
        ref = os.path.join(ph.cache_of(h.dir), "models--org--demo/refs/main")
        commit = ph.read(ref).decode()
        shutil.rmtree(ph.cache_of(h.dir))
        h.done("serve", "org/demo@" + commit, "--detach")
        equal(ph.read(ref).decode(), commit)
        h.done("stop", "--all")
        h.done("serve", "org/demo", "--local-only", "--detach")
        h.done("stop", "--all")
        write(os.path.dirname(ref), "main", "a" * 40)  # somebody's own: it stays
        shutil.rmtree(os.path.join(ph.cache_of(h.dir), "models--org--demo/snapshots"))
        h.done("serve", "org/demo@" + commit, "--detach")
        equal(ph.read(ref).decode(), "a" * 40)


@test
def events_are_one_json_object_a_line():
    with Home(TT_MODEL_PROGRESS="ndjson") as h:
        events = [json.loads(x) for x in h.done("serve", DEMO, "--detach").out.splitlines()]
        s = h.one()
        equal(events[0], {"event": "step", "key": "container", "state": "start", "label": "process started", "detail": ""})
        equal((events[1]["key"], events[1]["state"]), ("container", "done"))
        equal(events[2], {"event": "container", "id": s["name"], "endpoint": s["url"] + "/v1"})
        equal(len(events), 3)
        error = [json.loads(x) for x in h.fails(7, "serve", DEMO).out.splitlines()][-1]
        equal((error["event"], sorted(error)), ("error", ["actions", "cause", "detail", "event", "evidence"]))
        contains(error["detail"], "runs already")
        h.done("stop", DEMO)
        events = [json.loads(x) for x in h.done("serve", DEMO).out.splitlines()]
        equal([(e["label"], e["state"]) for e in events if e.get("key") == "boot"][-2:], [("warmed up", "start"), ("warmed up", "done")])
        bad = broken_snapshot()
        events = [json.loads(x) for x in h.fails(4, "serve", bad).out.splitlines()]
        equal([e["event"] for e in events].count("error"), 1)
        contains(events[-1]["evidence"], "config.json")


# ---- container engines ----

def with_engine(name, **more):
    folder = tempfile.mkdtemp(dir=TMP)
    os.symlink(os.path.join(HERE, "engine_stand_in.py"), os.path.join(folder, name))
    return Home(PATH=folder + ":" + os.environ["PATH"], ENGINE_DIR=os.path.join(folder, "state"), GR00T_STAND_IN_BIN=BIN, **more)


def calls(h):
    return [json.loads(x) for x in ph.read(os.path.join(h.env["ENGINE_DIR"], "calls.jsonl")).decode().splitlines()]


def engine_has(h, manifest):
    image = manifest["container"]["image"]
    write(os.path.join(h.env["ENGINE_DIR"], "images"), image["tag"].encode().hex(), image["digest"])


@test
def a_container_is_started_with_the_printed_line_and_stopped():
    for engine in ("docker", "podman"):
        with with_engine(engine) as h:
            pack = package(tempfile.mkdtemp(dir=TMP))
            hub_snapshot(h)
            engine_has(h, base_manifest())
            chosen = ("--engine", engine)
            printed = shlex.split(h.done("serve", pack, *chosen, "--print", "--detach", "--port", "20077").out)
            run = h.done("serve", pack, *chosen, "--no-weights", "--port", "20077")
            contains(run.out, "container started  tt-model-pack-cpu", "warmed up", "ready")
            equal([c for c in calls(h) if c[1] == "run"], [printed])
            s = h.one()
            equal((s["state"], s["engine"], s["url"]), ("ready", engine, "http://127.0.0.1:20077"))
            contains(h.done("curl", "pack").out, "left_arm")
            contains(h.done("logs", "pack").out, "Application startup complete")
            h.fails(7, "serve", pack, *chosen, parts=["runs already"])
            contains(h.done("stop", "pack", "--grace-s", "5").out, "tt-model-pack-cpu  clean shutdown")
            contains(json.dumps(calls(h)), json.dumps(["stop", "-t", "5", "tt-model-pack-cpu"])[1:-1], '"rm", "tt-model-pack-cpu"')
            equal(h.ps(), [])


@test
def a_container_that_had_to_be_killed_is_told_and_a_refusal_quotes_the_engine():
    with with_engine("docker") as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        hub_snapshot(h)
        h.fails(3, "serve", pack, "--container", "--no-weights", parts=["does not hold image tt-model/pack:0123456789ab"])
        engine_has(h, base_manifest())
        h.fails(7, "serve", pack, "--container", "--no-weights", env={"ENGINE_FAULT": "refuse"}, parts=["something is wrong"])
        h.done("serve", pack, "--container", "--no-weights", "--detach")
        contains(h.done("stop", "pack", env={"ENGINE_FAULT": "kill"}).out, "! tt-model-pack-cpu  killed: it did not end in time")
        if not os.path.exists("/dev/tenstorrent"):
            h.fails(7, "serve", pack, "--container", "--profile", "card", parts=["needs a card", "/dev/tenstorrent"])


@test
def a_stop_without_an_answer_of_the_engine_forgets_nothing():
    with with_engine("docker") as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        hub_snapshot(h)
        engine_has(h, base_manifest())
        h.done("serve", pack, "--container", "--no-weights", "--detach")
        h.fails(7, "stop", "pack", env={"ENGINE_FAULT": "silent"}, parts=["docker does not answer"])
        contains(h.done("stop", "pack").out, "clean shutdown")


@test
def ctrl_c_before_the_start_starts_nothing():
    with with_engine("docker") as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        hub_snapshot(h)
        engine_has(h, base_manifest())
        run = h.run("serve", pack, "--container", "--no-weights", env={"ENGINE_FAULT": "interrupt"})
        equal(run.returncode, 130, run.err)
        contains(run.err, "nothing was started")
        assert "run" not in [c[1] for c in calls(h)]
        equal(h.ps(), [])


@test
def a_profile_may_have_capital_letters():
    with Home() as h:
        m = base_manifest()
        m["container"]["serve_profiles"][0]["name"] = m["container"]["default_profile"] = "CPU-x"
        pack = tempfile.mkdtemp(dir=TMP)
        write(pack, "tt_kernel_manifest.json", m)
        hub_snapshot(h)
        h.done("serve", pack, "--no-weights")
        equal(h.one()["name"], "tt-model-pack-CPU-x")
        contains(h.done("stop", "tt-model-pack-CPU-x").out, "stopped 1 service(s)")


@test
def a_package_named_like_the_tools_own_files_is_refused():
    with Home() as h:
        m = base_manifest()
        pack = tempfile.mkdtemp(dir=TMP)
        for name in ("run", "pulled", "installed.json"):
            m["name"] = name
            write(pack, "tt_kernel_manifest.json", m)
            h.fails(4, "serve", pack, "--no-weights", "--detach", parts=["no safe name"])
            assert not os.path.exists(os.path.join(h.cache, name, "cache"))


@test
def the_vendors_front_end_gets_a_container():
    with with_engine("docker", TT_MODEL_PROGRESS="ndjson") as h:
        pack = package(tempfile.mkdtemp(dir=TMP))
        engine_has(h, base_manifest())
        hub_snapshot(h)
        events = [json.loads(x) for x in h.done("--verbose", "serve", pack, "--detach", "--no-weights").out.splitlines()]
        equal([(e["event"], e.get("key", e.get("id")), e.get("state")) for e in events],
              [("step", "image", "start"), ("step", "image", "done"), ("step", "weights", "start"), ("step", "weights", "done"),
               ("step", "container", "start"), ("step", "container", "done"), ("container", "tt-model-pack-cpu", None)])
        equal(h.one()["engine"], "docker")


def install(h, id_name="org/pack"):
    """The package as `pull` leaves it."""
    manifest = os.path.join(package(os.path.join(h.cache, "pulled", id_name.replace("/", "__"))), "tt_kernel_manifest.json")
    write(h.cache, "installed.json", {id_name: {
        "repo_id": id_name, "container": True, "revision": "a" * 40, "manifest": manifest, "image": "tt-model/pack:0123456789ab",
        "arch": "blackhole", "image_digest": base_manifest()["container"]["image"]["digest"], "profile": "cpu", "profiles": ["cpu", "card"]}})


@test
def the_vendors_front_end_drives_it_end_to_end():
    tt = os.environ.get("GR00T_TT")
    if tt is None:
        raise Skip("GR00T_TT names no `tt` (PyPI: tenstorrent)")
    with with_engine("docker", TT_TOOL_BIN_TT_MODEL=BIN, HF_HUB_OFFLINE="1", NO_COLOR="1") as h:
        install(h)
        engine_has(h, base_manifest())
        hub_snapshot(h)

        def run(*args):
            p = subprocess.run([tt, *args], env=h.env, capture_output=True, text=True, timeout=100, check=False)
            assert p.returncode == 0, f"tt {args}: {p.returncode} {p.stdout[-800:]} {p.stderr[-800:]}"
            return p.stdout + p.stderr

        contains(run("serve", "org/pack", "--dry-run"), "serve org/pack --detach", "cpu, card")
        contains(run("serve", "org/pack", "--print"), "HF_MODEL=")
        contains(run("serve", "org/pack", "--yes"), "image ready", "weights ready", "container started", "20000")
        contains(run("model", "ps"), "org/demo", "healthy")
        contains(run("model", "logs", "org/pack"), "Application startup complete")
        contains(run("model", "info", "org/pack"), "tt-dit-server")
        contains(run("model", "stop", "org/pack"), "clean shutdown")
        equal(h.ps(), [])


@test
def an_engine_that_does_not_answer_is_named():
    with Home() as h:
        folder = tempfile.mkdtemp(dir=TMP)
        write(folder, "docker", "#!/bin/sh\nexit 1\n")
        os.chmod(os.path.join(folder, "docker"), 0o755)
        pack = package(tempfile.mkdtemp(dir=TMP))
        h.fails(7, "serve", pack, "--container", "--no-weights", env={"PATH": folder + ":/usr/bin:/bin"}, parts=["docker does not answer"])


# ---- with an image ----

AUTHORED = f"""schema: "5.1"
repo: org/built
name: built
weights: {{repo: org/demo, revision: {COMMIT}}}
kind: tt-dit-server
arch: blackhole
source: {{tt_metal: ".", code: [gr00t], ubuntu: "22.04", python: "3.12"}}
runtime: {{app: "gr00t.native:app", mesh_shape_env: TT_MESH_SHAPE}}
serve:
  hardware: p150
  mesh_device: P150
  env: {{GR00T_DEVICE: cpu, TT_WEIGHTS_REVISION: {COMMIT}}}
"""


@test
def a_packages_own_program_runs_from_its_image_natively_and_in_a_container():
    work = tempfile.mkdtemp(dir=TMP)
    write(work, "tt-model.yaml", AUTHORED)
    write(work, "gr00t/readme.txt", "x")
    with with_engine("docker") as h:
        made = subprocess.run([BIN, "package", "tt-model.yaml", "--out", "out", "--no-verify"], cwd=work, env=h.env, capture_output=True, text=True, check=False)
        equal(made.returncode, 0, made.stderr)
        pack = os.path.join(work, "out/built")
        hub_snapshot(h)
        h.done("serve", pack, "--no-weights")
        s = h.one()
        digest = json.loads(ph.read(os.path.join(pack, "tt_kernel_manifest.json")))["container"]["image"]["digest"]
        root = os.path.join(h.cache, "built", "root-" + digest[7:19])
        assert os.readlink(f"/proc/{s['pid']}/exe").startswith(root + "/"), os.readlink(f"/proc/{s['pid']}/exe")
        with open(f"/proc/{s['pid']}/maps", encoding="utf-8") as f:
            outside = {x.split()[-1] for x in f if ".so" in x and not x.split()[-1].startswith(root + "/")}
        equal(outside, set(), "libraries of this machine in the package's program:")
        contains(h.done("curl", "built").out, "left_arm")
        contains(h.done("stop", "built").out, "clean shutdown")
        half = os.path.join(h.cache, "built", "root-000000000000")  # of an image that was replaced
        os.makedirs(half)
        shutil.rmtree(root)
        h.done("serve", pack, "--no-weights", "--detach")
        assert os.path.isdir(root) and not os.path.exists(half)
        h.done("stop", "built")

        contains(h.done("serve", pack, "--no-weights", "--container").out, "loaded")
        h.done("stop", "built")
        h.done("serve", pack, "--no-weights", "--container", "--detach")
        equal([c[1] for c in calls(h) if c[1] == "load"], ["load"], "loaded once:")
        h.done("stop", "built")
        blob = os.path.join(pack, "image/blobs/sha256", digest[7:])
        write(os.path.dirname(blob), os.path.basename(blob), ph.read(blob).replace(b"linux", b"Linux"))
        h.fails(4, "serve", pack, "--no-weights", parts=[digest[7:19]])


# ---- the contract's reference ----

def reference(h, file, *options):
    p = subprocess.run([sys.executable, CHECK, "run", file, "--uid", f"{os.getuid()}:{os.getgid()}",
                        "--hf", os.path.join(h.dir, ".cache/huggingface"), "--cache", h.cache, *options],
                       capture_output=True, text=True, check=True)
    return shlex.split(p.stdout)


@test
def printed_lines_are_those_of_the_contract():
    with Home() as h:
        for name, profile in (("tt_kernel_manifest.json", "default"), ("gr00t-native_manifest.json", "p150")):
            file = os.path.join(ph.EXAMPLES, name)
            for options, ours in (((), ()), (("--port", "20033"), ("--port", "20033")), (("--devices", "0"), ("--device-id", "0")),
                                  (("--devices", "0,1"), ("--device-id", "0,1"))):
                run = h.done("serve", file, "--print", "--engine", "docker", "--profile", profile, *ours)
                equal(shlex.split(run.out), reference(h, file, "--profile", profile, *options))
                equal(len(run.out.splitlines()), 1)
        file = os.path.join(ph.EXAMPLES, "gr00t-native_manifest.json")
        got = shlex.split(h.done("serve", file, "--dry-run", "--engine", "podman", "--profile", "cpu").out)
        want = reference(h, file, "--profile", "cpu")
        i, j = want.index("--device"), want.index("--volume")
        want[want.index("--publish") + 1] = "127.0.0.1:20000:20000"
        equal(got, ["podman"] + want[1:i] + want[j:])


# ---- other names of the program ----

def as_process(h, args, env, port):
    p = subprocess.Popen(args, env={**h.env, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        if "Application startup complete" in line:
            break
    else:
        raise AssertionError(f"{args} ended with {p.wait()}")
    try:
        equal(get(f"http://127.0.0.1:{port}/health")["status"], "ok")
    finally:
        p.terminate()
        p.stderr.close()
    equal(p.wait(60), 0, f"{args}: exit code")


@test
def a_launchers_uvicorn_command_line_serves():
    with Home() as h, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
        s.close()
        folder = hub_snapshot(h)
        tail = ("-m", "uvicorn", "--host", "127.0.0.1", "--port", port, "--lifespan", "on", "--queue", "2", "gr00t.native:app", "--threads", "1")
        as_process(h, (BIN, "python", *tail), {"HF_MODEL": folder}, port)
        python = os.path.join(h.dir, "python")
        os.symlink(BIN, python)
        as_process(h, (python, *tail), {"HF_MODEL": "org/demo", "TT_WEIGHTS_REVISION": COMMIT}, port)
        h.fails(2, "python", "-c", "import ttnn", parts=["no Python"])


@test
def tt_smi_says_that_there_is_nothing_to_reset():
    with Home() as h:
        smi = os.path.join(h.dir, "tt-smi")
        os.symlink(BIN, smi)
        p = subprocess.run([smi, "-r", "all"], env=h.env, capture_output=True, text=True, check=False)
        if os.path.exists("/dev/tenstorrent"):
            equal(p.returncode, 1)
            contains(p.stdout, "cannot reset")
        else:
            equal(p.returncode, 0)
            contains(p.stdout, "nothing to reset")


def main():
    global TMP, DEMO
    TMP = os.path.realpath(tempfile.mkdtemp(prefix="gr00t-serve-"))
    DEMO = os.path.join(TMP, "demo")
    try:
        subprocess.run([BIN, "synth", "demo", DEMO], check=True, capture_output=True)
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
