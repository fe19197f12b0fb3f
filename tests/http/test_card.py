#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gr00t serve --device blackhole`: starts that fail on a card, with stand-ins for the kernel driver's (tests/support/kmd_shim.c), and a service on the
simulator when there is one (TTSIM_LIB, else /usr/local/lib/libttsim.so).

In and out as serving.py says.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile

import serving as s
from serving import path, test

SHIM = os.environ.get("GR_KMD_SHIM", "")
INSTALLED = "/usr/local/lib/libttsim.so"
LIB = os.environ.pop("TTSIM_LIB", "") or (INSTALLED if os.path.exists(INSTALLED) else "")
CARD = {"GR00T_DEVICE": "blackhole", "GR00T_POLICY": None}
NO_COMPILER = "riscv64-unknown-elf-gcc"


def machine(words):
    """Variables for a machine with card 0 of these properties (None: with no card), the words of kmd_shim.c."""
    if not SHIM:
        raise s.Skip("no stand-in for the driver in a sanitized build")
    folder = tempfile.mkdtemp(prefix="kmd-", dir=s.TMP)
    if words is not None:
        (pathlib.Path(folder) / "0").write_text(words)
    return CARD | {"GR_TEST_KMD": folder, "LD_PRELOAD": SHIM}


def built():
    """The program has something to run on the chip; else a skip."""
    run = subprocess.run([s.BIN, "serve", "--model", s.DEMO, "--device-id", "99999"], env=s.clean_env(CARD), capture_output=True, text=True, timeout=60)
    if NO_COMPILER in run.stderr:
        raise s.Skip("the build has no programs for the chip")


BAD = [
    (None, "/dev/tenstorrent/0: no such device"),
    ("open=13", "no permission"),
    ("interface=1 driver=1.34.0", "tt-kmd 1.34.0 is too old: 2.0.0 or later is needed"),
    ("pci=401e", "not a Blackhole"),
    ("channels=7 board=43", "board p100a has 7 of 8 DRAM channels"),
    ("table=0", "no telemetry table"),
    ("boot=0", "firmware is not up"),
    ("gone=1", "all ones"),
    ("fail=11:12", "no window"),
]


@test("", "a card that cannot be used ends the start with one line and exit code 7; nothing is served from the CPU instead")
def cards():
    built()
    for words, part in BAD:
        log = s.boot_fails(7, part, env=machine(words))
        assert "Opening device 0 (num_command_queues=2, dit_backend=megakernel, mk_arena_dtype=bfp8_b" in log, log
        assert "Model built" not in log and "startup complete" not in log, log


@test("", "`gr00t predict` and `check` name the same faults")
def commands():
    built()
    case = os.path.join(s.DEMO, "demo")
    for words, part in (BAD[0], BAD[2]):
        env = s.clean_env(machine(words))
        for command in (["predict", "--model", s.DEMO, "--image", case + "/frame.png", "--state", case + "/state.json", "--instruction", "pick"],
                        ["check", s.DEMO, case + "/golden"]):
            run = subprocess.run([s.BIN, *command, "--device", "blackhole"], env=env, capture_output=True, text=True, timeout=60)
            assert run.returncode == 7 and part in run.stderr, f"{command}: exit {run.returncode}: {run.stderr}"
            assert run.stderr.startswith("gr00t: " + command[0]) and len(run.stderr.splitlines()) == 1, run.stderr


@test("", "a card whose cores are silent ends the start, and is free for the next one")
def silent():
    built()
    env = machine("")
    s.boot_fails(7, "no progress", env=env)
    run = subprocess.run([s.BIN, "device"], env=s.clean_env(env), capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split()[-1] == "free", run.stdout


@test("", "the card of another process is busy")
def busy():
    built()
    env = machine("")
    holder = subprocess.Popen([s.BIN, "device", "test", "memory"], env=s.clean_env(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        holder.stdout.readline()  # the card is open; it waits for cores that say nothing, for seconds
        log = s.boot_fails(7, "busy: another gr00t holds the card", env=env)
        assert "Model built" not in log, log
    finally:
        holder.kill()
        holder.communicate()


@test("", "the card that is named is the one that is opened")
def named():
    built()
    env = machine("")
    s.boot_fails(7, "/dev/tenstorrent/3: no such device", args=("--device-id", 3), env=env)
    s.boot_fails(7, "/dev/tenstorrent/5: no such device", env=env | {"TT_DEVICE_ID": "1", "TT_METAL_VISIBLE_DEVICES": "0,5"})
    os.rename(env["GR_TEST_KMD"] + "/0", env["GR_TEST_KMD"] + "/6")  # in a container: the only one, under its own number
    log = s.boot_fails(7, "no progress", env=env)
    assert "Opening device 6 " in log, log
    s.boot_fails(2, "two devices", args=("--device-id", 0, "--sim", "x.so"), env=env)
    s.boot_fails(2, "--sim is for --device blackhole", args=("--sim", "x.so"))
    s.boot_fails(2, "for the CPU", args=("--policy", "exact"), env=env)


def simulator(**more):
    if not LIB:
        raise s.Skip("no simulator: TTSIM_LIB is not set and there is no " + INSTALLED)
    built()
    return CARD | {"TTSIM_LIB": LIB, "GR00T_THREADS": "2", "GR00T_CACHE": path("c-card")} | more


def start(*args, **more):
    server = s.Server("--warmup-runs", 1, *args, env=simulator(**more))
    try:
        server.listening()
        first = server.get("/health").is_(200).json()
        server.ready(250)
    except BaseException:
        server.kill()
        raise
    return server, first


LANDMARKS = [
    r"Started server process \[\d+\]", r"Loading weights: ", r"Tokenizer files: ",
    r"Opening device 0 \(num_command_queues=2, dit_backend=megakernel, mk_arena_dtype=bfp8_b; simulator ", r"Loading pipeline: ",
    r"ttsim \S+: \S+, 140 Tensix tiles, 8 DRAM channels, firmware ",
    r"Model built in [\d.]+ s \(weights \d+ MB, \d+ tensors, \d+ MB on device, cache path cold; dit_backend megakernel, arena bfp8_b, ",
    r"Warming up: 1 predict of the n16 demo observation", r"Warmup 1/1: [\d.]+ ms",
    r"Warm-up fidelity vs golden fp32: actions PCC 0\.999", r"Warmup complete \(1 runs, ", r"Application startup complete",
    r"Shutting down \(SIGTERM\)", r"Releasing the program and device tensors", r"Closing device 0$", r"Finished server process"]


FIRST = {}  # what the first service gave


@test("", "on the simulator: landmarks, /health, /info, the same chunk for the same request, a clean end")
def service():
    server, first = start()
    with server:
        assert first == {"status": "starting", "model": "GR00T-N1.6-3B-p150", "device": "blackhole:0"}, first
        assert server.get("/health").json() == dict(first, status="ok")
        info = server.get("/info").is_(200).json()
        stage = info["stage"]
        want = {"served": "stage2-megakernel", "dit_backend": "megakernel", "mk_arena_dtype": "bfp8_b", "num_command_queues": 2, "cq1_uploads": True,
                "kernels": "tensix", "policy": "bfp8_b"}
        assert {k: stage[k] for k in want} == want, stage
        assert 1 << 20 < stage["worker_l1_size"] < 1536 << 10 and 0 < stage["worker_l1_used"] <= 1536 << 10, stage
        assert stage["weights"]["packed_bytes"] > 1e6 and stage["weights"]["skipped_tensors"] > 0 and stage["build_ms"]["upload"] > 0, stage
        card = info["device_facts"]["card"]
        assert card["simulator"] and card["tensix_tiles"] == 140 and card["dram_channels"] == 8, card
        assert info["device_facts"]["name"] == "blackhole" and info["hardware"]["device"] == "blackhole:0", info["hardware"]
        check = info["warmup_fidelity_vs_golden"]
        assert check["source"] == "shipped" and check["pcc_actions"] >= 0.999, check
        demo = server.get("/demo").json()["request"]
        with concurrent.futures.ThreadPoolExecutor() as pool:  # inputs of those that wait are written while another is computed
            bodies = [demo, dict(demo, instruction="open the drawer"), demo]
            a, other, b = [r.is_(200) for r in pool.map(lambda body: server.post(body, timeout=400), bodies)]
        assert a.actions() == b.actions(), "two answers to one request"
        assert a.actions() != other.actions(), "one answer to two requests"
        assert a.json()["timing_ms"]["device"] > 0
        FIRST.update(actions=a.actions(), pcc=check["pcc_actions"], max_abs=check["max_abs"])
        server.post(dict(demo, instruction="pick " * 60)).error(400, "n_text")
        assert server.post(dict(demo, state=None)).status == 422
    at = -1
    lines = [line for _, line in server.lines]
    for mark in LANDMARKS:
        found = next((i for i, line in enumerate(lines) if i > at and re.search(mark, line)), None)
        assert found is not None, f"no line {mark!r} after line {at} of the log:\n{server.log}"
        at = found


@test("", "on the simulator: ops and one queue are told truthfully and give the same chunk; the weights come from the cache")
def settings():
    simulator()
    if not FIRST:
        raise s.Skip("the first service gave nothing to compare with")
    server, _ = start(GR00T_DIT_BACKEND="ttnn", GR00T_NUM_CQS="1")
    with server:
        info = server.get("/info").json()
        stage, check = info["stage"], info["warmup_fidelity_vs_golden"]
        assert stage["served"] == "stage1-ops" and stage["dit_backend"] == "ops" and stage["num_command_queues"] == 1, stage
        assert info["cache"]["state"] == "warm" and "cache path warm" in server.log, info["cache"]
        assert (check["pcc_actions"], check["max_abs"]) == (FIRST["pcc"], FIRST["max_abs"]), check


if __name__ == "__main__":
    s.main()
