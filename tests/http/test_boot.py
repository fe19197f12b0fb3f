#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a start meets: damaged snapshots, wrong settings, cache folders in every state, users, threads, instruction sets.

In and out as serving.py says. Rows that need root (other users, small file systems) are skipped for anybody else.
"""
import json
import os
import shutil
import subprocess

import serving as s
from serving import path, test


def root_only():
    if os.getuid() != 0:
        raise s.Skip("needs root")


# ---- starts that must fail ----


def shard(k):
    return f"model-0000{k}-of-00003__safetensors"


@test("WT-01", "a missing, cut or exchanged shard ends the start with its name")
def shards():
    s.boot_fails(4, "model-00002-of-00003.safetensors", model=s.copy_demo("m-miss", **{shard(2): None}))
    s.boot_fails(4, "model-00002-of-00003.safetensors", model=s.copy_demo("m-cut", **{shard(2): lambda b: b[:-1]}))
    s.boot_fails(4, "model-0000", model=s.copy_demo("m-swap", model__safetensors__index__json=s.edit_json(
        lambda d: d.update(weight_map={k: v.replace("00001", "00002") for k, v in d["weight_map"].items()}))))
    s.boot_fails(4, "index", model=s.copy_demo("m-index", model__safetensors__index__json=lambda b: b[:100]))
    s.boot_fails(4, "config.json", model=s.copy_demo("m-conf", config__json=None))
    s.boot_fails(4, args=(), model=path("no-such-folder"))


@test("WT-02", "an LFS pointer and a web page are called what they are")
def pointers():
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 2508800\n"
    s.boot_fails(4, "lfs", model=s.copy_demo("m-lfs", **{shard(1): lambda b: lfs}))
    s.boot_fails(4, "html", model=s.copy_demo("m-html", **{shard(1): lambda b: b"<!DOCTYPE html><html><body>Sign in</body></html>" * 20}))


@test("ST-04", "statistics with NaN, a missing or renamed group, a wrong length end the start")
def statistics():
    def rename(d):
        for part in d["gr1"].values():
            if "waist" in part:
                part["hips"] = part.pop("waist")

    def shorten(d):
        d["gr1"]["state"]["waist"]["max"] = d["gr1"]["state"]["waist"]["max"][:-1]
    s.boot_fails(4, "waist", model=s.copy_demo("m-ren", statistics__json=s.edit_json(rename)))
    s.boot_fails(4, "waist", model=s.copy_demo("m-len", statistics__json=s.edit_json(shorten)))

    def nan(blob):
        doc = json.loads(blob)
        part = next(v for k, v in doc["gr1"].items() if "waist" in v)["waist"]
        key = next(k for k in part if k in ("min", "q01", "mean"))
        part[key] = [float("nan")] * 3
        return json.dumps(doc).encode()
    s.boot_fails(4, model=s.copy_demo("m-nan", statistics__json=nan))


@test("ST-03", "a constant dimension gives finite actions")
def constant():
    def same(d):
        for part in d["gr1"].values():
            if "waist" in part:
                low = part["waist"]["min"]
                part["waist"]["max"] = low
    with s.serve("--threads", 1, model=s.copy_demo("constant", statistics__json=s.edit_json(same)), env={"GR00T_CACHE": path("c-const")}) as server:
        r = server.file("json", "base.json").is_(200)
        rows = r.json()["actions"]["waist"]
        assert all(row == rows[0] for row in rows), f"waist is not its minimum: {rows[:3]}"


@test("PR-06", "a tokenizer that is not this snapshot's, or none, ends the start")
def tokenizers():
    empty = path("empty-tokenizer")
    os.makedirs(empty, exist_ok=True)
    s.boot_fails(4, "tokenizer", args=("--tokenizer", empty))
    s.boot_fails(4, "tokenizer", args=("--tokenizer", path("nowhere")))
    if s.SHARED and os.path.isdir(os.path.join(s.SHARED, "spec", "tokenizer")):
        s.boot_fails(4, args=("--tokenizer", os.path.join(s.SHARED, "spec", "tokenizer")))
    model = s.copy_demo("no-tokenizer")
    shutil.rmtree(os.path.join(model, "tokenizer"))
    s.boot_fails(4, "tokenizer", model=model, env={"HF_HUB_CACHE": path("hub")})


@test("DL-06", "a dangling link is told as one")
def dangling():
    model = s.copy_demo("dangling")
    shard_path = os.path.join(model, "model-00001-of-00003.safetensors")
    os.unlink(shard_path)
    os.symlink("../../blobs/0123", shard_path)
    s.boot_fails((3, 4), "is a link to", "whole cache", model=model)


@test("DL-04 DL-05", "a Hub id is found in the cache at its revision, never anywhere else")
def hub():
    root = path("hub2")
    repo = os.path.join(root, "models--acme--robot")
    revision = "0123456789abcdef0123456789abcdef01234567"
    os.makedirs(os.path.join(repo, "snapshots"))
    os.makedirs(os.path.join(repo, "refs"))
    shutil.copytree(s.DEMO, os.path.join(repo, "snapshots", revision))
    with open(os.path.join(repo, "refs", "main"), "w", encoding="ascii") as f:
        f.write(revision)
    env = {"HF_HUB_CACHE": root, "HF_MODEL": "acme/robot", "TT_WEIGHTS_REVISION": revision}
    with s.serve("--threads", 1, model=False, env=env) as server:
        assert revision in server.get("/info").body.decode() and "acme/robot" in server.get("/info").body.decode()
        server.wait_log(f"Loading weights: acme/robot @ {revision[:8]}")
    with s.serve("--threads", 1, model=False, env={"HF_HUB_CACHE": root, "HF_MODEL": "acme/robot"}) as server:
        assert server.file("json", "base.json").is_(200)
    s.boot_fails(4, "fedc", model=False, env=dict(env, TT_WEIGHTS_REVISION="fedcba9876543210fedcba9876543210fedcba98"))
    s.boot_fails(4, "acme/other", model=False, env=dict(env, HF_MODEL="acme/other"))
    with s.serve("--threads", 1, model=False, env={"HF_MODEL": s.DEMO}) as server:
        assert server.get("/health").status == 200
    with s.serve("--threads", 1, model=False, env={"GR00T_WEIGHTS_DIR": s.DEMO}) as server:
        assert server.get("/health").status == 200
    s.boot_fails(2, "model", model=False)


@test("WT-03", "a self-check that fails ends the start with code 1")
def self_check():
    def wild(blob):  # the shape and the names are right, the numbers of one group of weights are not
        n = int.from_bytes(blob[:8], "little")
        half = bytearray(blob)
        for at in range(8 + n + 1, len(half), 2):
            half[at] = 0x3f if at % 7 else half[at]
        return bytes(half)
    log = s.boot_fails(1, "PCC", args=("--threads", 1), env={"GR00T_WARMUP_PCC_MIN": "1"})
    assert "startup complete" not in log
    # other weights are another checkpoint: its golden is computed, the start is fine
    with s.Server("--threads", 1, model=s.copy_demo("other-weights", **{shard(3): wild}), env={"GR00T_CACHE": path("c-wild")}) as server:
        server.p.wait(60 * s.SLACK) if server.p.poll() is not None else server.ready()
        assert server.get("/demo").json()["expected"]["source"] == "computed"


@test("EN-05", "each setting refuses nonsense and takes its values")
def settings():
    for name, bad in (("GR00T_WARMUP_RUNS", ("-1", "x", "101", "1.5")), ("GR00T_WARMUP_PCC_MIN", ("x", "nan", "2")), ("GR00T_LAYOUT", ("gr2", "1")),
                      ("GR00T_THREADS", ("0", "-1", "x", "1e9")), ("GR00T_POLICY", ("fastestest",)), ("GR00T_HALF", ("fp16",)), ("GR00T_DEVICE", ("gpu",)), ("GR00T_NUM_CQS", ("x", "3", "-1")),
                      ("GR00T_DIT_BACKEND", ("x",)), ("GR00T_MK_ARENA_DTYPE", ("x",)), ("GR00T_VERSION", ("n17",)), ("GR00T_EMBODIMENT", ("nobody",)),
                      ("GR00T_TRACE_LAYOUT", ("x",)), ("GR00T_CPU", ("mmx",))):
        for value in bad:
            log = s.boot_fails((2, 3, 4, 7), value if value not in ("nobody",) else "", env={name: value})
            assert name in log or name == "GR00T_EMBODIMENT", f"{name} is not named:\n{log}"
            assert "Model built" not in log, log
    env = {"GR00T_VERSION": "n16", "GR00T_EMBODIMENT": "gr1", "GR00T_LAYOUT": "gr1", "GR00T_POLICY": "mixed_dit", "GR00T_TRACE_LAYOUT": "per_stage",
           "GR00T_DIT_BACKEND": "megakernel", "GR00T_MK_ARENA_DTYPE": "auto", "GR00T_NUM_CQS": "2", "GR00T_WARMUP_RUNS": "3", "TT_MESH_SHAPE": "1x1",
           "MESH_DEVICE": "P150", "TT_DEVICE_ID": "0", "TT_METAL_VISIBLE_DEVICES": "0", "TT_METAL_CACHE": path("x"), "TT_DIT_CACHE_DIR": path("y"), "TT_CACHE_PATH": path("z")}
    with s.serve("--threads", 1, env=env) as server:  # what the vendor's package sets
        assert server.file("json", "base.json").is_(200)
        assert "unknown" not in server.log.lower(), server.log
    empty = {k: "" for k in env if k.startswith("GR00T_")}
    with s.serve("--threads", 1, env=empty) as server:  # empty is not set
        assert server.get("/health").is_(200)


@test("EN-05", "number formats: auto tells what it chose, a second start takes that over, a named policy is served")
def formats():
    args = ("--threads", 1, "--cache", path("formats"))
    seen = []
    for env in ({"GR00T_POLICY": None}, {"GR00T_POLICY": "auto"}):
        with s.serve(*args, env=env) as server:
            server.wait_log(r"Number formats: .*asked: auto", 2)
            stage = server.get("/info").json()["stage"]
            assert stage["policy_asked"] == "auto" and stage["served"] == "cpu-" + stage["policy"], f"stage: {stage}"
            seen.append((stage, server.file("json", "base.json").is_(200).json()["actions"]))
    assert seen[0] == seen[1], f"the second start serves something else: {seen[0][0]} and {seen[1][0]}"
    for name in ("exact", "fastest"):
        with s.serve(*args, "--policy", name, "--warmup-pcc-min", 0) as server:
            stage = server.get("/info").json()["stage"]
            assert stage["policy_asked"] == name == stage["policy"], f"stage: {stage}"
            assert server.file("json", "base.json").is_(200)


@test("EN-07", "an unknown variable with our prefix gets a warning with the nearest name")
def typing_error():
    with s.serve("--threads", 1, env={"GR00T_NUM_CQ": "1", "GR00T_CASH": "/x"}) as server:
        server.wait_log(r"GR00T_NUM_CQ\b.*GR00T_NUM_CQS", 2)
        server.wait_log(r"GR00T_CASH\b.*GR00T_CACHE", 2)


@test("EN-05", "flags: unknown ones and impossible values are usage errors")
def flags():
    for args in (("--queue", 0), ("--queue", "x"), ("--drain-s", -1), ("--drain-s", "nan"), ("--port", "x"), ("--port", -1), ("--nonsense",), ("--layout", "x"), ("extra",),
                 ("--tls-cert", os.path.join(s.DATA, "README.md")), ("--api-key-file", path("none")), ("--threads", 0)):
        s.boot_fails((2, 3), args=args)
    # (a value for --max-body etc. is the unit tests' concern)


@test("EN-05", "help and the man page list every flag and variable")
def help_lists():
    run = subprocess.run([s.BIN, "serve", "--help"], env=s.clean_env(), capture_output=True, text=True, timeout=60, check=True)
    for word in ("--model", "--layout", "--embodiment", "--queue", "--drain-s", "--host", "--port", "--unix", "--tls-cert", "--tls-key", "--api-key-file", "--warmup-runs",
                 "GR00T_LAYOUT", "GR00T_WARMUP_RUNS", "GR00T_WARMUP_PCC_MIN", "GR00T_CACHE", "GR00T_WEIGHTS_DIR", "HF_MODEL", "TT_WEIGHTS_REVISION"):
        assert word in run.stdout, f"{word} is not in:\n{run.stdout}"


# ---- cache ----


def cache_files(root):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files)


@test("EN-03 DL-07", "a damaged, cut, foreign or empty cache is rebuilt with a warning")
def damaged_cache():
    root = path("c-damage")
    env = {"GR00T_CACHE": root}
    with s.serve("--threads", 1, env=env) as server:
        want = server.file("json", "base.json").actions()
        assert "cold" in server.wait_log("Model built in .*").group(0), server.log
    kept = {f: open(f, "rb").read() for f in cache_files(root)}
    big = max(kept, key=lambda f: len(kept[f]))
    assert len(kept[big]) > 1000000, f"no packed weights in {list(kept)}"
    blob = kept[big]
    mid = len(blob) // 2
    for what, new in (("one byte of the head", bytes([blob[0] ^ 1]) + blob[1:]), ("one bit in the middle", blob[:mid] + bytes([blob[mid] ^ 16]) + blob[mid + 1:]),
                      ("cut", blob[:mid]), ("empty", b""), ("zeros", bytes(len(blob))), ("longer", blob + b"x"), ("last byte", blob[:-1] + bytes([blob[-1] ^ 1]))):
        with open(big, "wb") as f:
            f.write(new)
        with s.serve("--threads", 1, env=env) as server:
            assert server.file("json", "base.json").actions() == want, f"{what}: other actions"
            assert s.re.search(r"(?i)warn", server.log) and "cold" in server.wait_log("Model built in .*").group(0), f"{what}:\n{server.log}"
        with open(big, "rb") as f:
            assert f.read() == blob, f"{what}: not rebuilt to the same bytes"
    for name in kept:  # every file replaced by rubbish, then by a folder
        with open(name, "wb") as f:
            f.write(b"rubbish")
    with s.serve("--threads", 1, env=env) as server:
        assert server.file("json", "base.json").actions() == want
    for name in cache_files(root):
        os.unlink(name)
        os.mkdir(name)
    with s.serve("--threads", 1, env=env) as server:
        assert server.file("json", "base.json").actions() == want


@test("EN-03", "HOME unset, an odd HOME, no cache place: starts")
def no_home():
    for env in ({"HOME": None, "GR00T_CACHE": None}, {"HOME": "/nonexistent", "GR00T_CACHE": None}, {"HOME": "", "GR00T_CACHE": ""}, {"GR00T_CACHE": "/proc/nothing"},
                {"GR00T_CACHE": os.path.join(s.DATA, "README.md")}):
        with s.serve("--threads", 1, env=env) as server:
            assert server.file("json", "base.json").is_(200)
    with s.serve("--threads", 1, env={"GR00T_CACHE": None, "GR00T_TT_CACHE": path("c-tt")}) as server:
        assert server.get("/health").status == 200
    assert cache_files(path("c-tt")), "GR00T_TT_CACHE is not used"


@test("EN-03", "any user id, without a passwd entry or a home")
def other_user():
    root_only()
    if shutil.which("setpriv") is None:
        raise s.Skip("setpriv is not installed")
    wrap = ("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups")
    for env in ({"HOME": "/", "GR00T_CACHE": None}, {"HOME": None, "GR00T_CACHE": None}):
        with s.serve("--threads", 1, wrap=wrap, env=env) as server:
            assert server.file("json", "base.json").is_(200)


@test("EN-06 DL-05", "a read-only cache and a read-only snapshot: nothing is written")
def read_only():
    root_only()
    root = path("c-ro")
    os.makedirs(root, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", root], capture_output=True, check=False).returncode != 0:
        raise s.Skip("cannot mount here")
    try:
        with s.serve("--threads", 1, env={"GR00T_CACHE": root}) as server:
            assert server.file("json", "base.json").is_(200)
            assert s.re.search("(?i)warn", server.log), server.log
        assert not cache_files(root)
    finally:
        subprocess.run(["umount", root], check=False)


@test("EN-06", "a full disk under the cache is survived, no half file stays")
def full_disk():
    root_only()
    root = path("c-full")
    os.makedirs(root, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", root], capture_output=True, check=False).returncode != 0:
        raise s.Skip("cannot mount here")
    try:
        for _ in range(2):
            with s.serve("--threads", 1, env={"GR00T_CACHE": root}) as server:
                assert server.file("json", "base.json").is_(200)
                assert s.re.search("(?i)warn", server.log), server.log
            assert all(os.path.getsize(f) < 200000 for f in cache_files(root)), [(f, os.path.getsize(f)) for f in cache_files(root)]
    finally:
        subprocess.run(["umount", root], check=False)


@test("WT-03", "a snapshot file that is cut short while serving ends the process with 4, or changes nothing")
def cut_while_serving():
    model = s.copy_demo("cut-live")
    server = s.serve("--threads", 1, model=model, env={"GR00T_CACHE": ""})
    try:
        want = server.file("json", "base.json").actions()
        for k in (1, 2, 3):
            os.truncate(os.path.join(model, f"model-0000{k}-of-00003.safetensors"), 4096)
        try:
            got = server.file("json", "base.json")
            assert got.actions() == want, str(got)
            server.stop()
        except (OSError, AssertionError):
            assert server.wait() == 4, f"exit {server.p.returncode}:\n{server.log}"
    finally:
        server.kill()


@test("EN-01", "threads follow the affinity mask, an own setting wins, the reason is logged")
def affinity():
    if shutil.which("taskset") is None:
        raise s.Skip("taskset is not installed")
    for args, want in (((), 1), (("--threads", 2), 2)):
        with s.serve(*args, wrap=("taskset", "-c", "0"), env={"GR00T_THREADS": None}) as server:
            text = json.dumps(server.get("/info").json())
            assert f'"threads": {want}' in text, f"{want} threads expected: {text[:3000]}"
            assert s.re.search(rf"\b{want} (compute )?threads?\b|threads?[ :=]+{want}\b", server.log), server.log


@test("EN-02", "each instruction set can be forced, passes the self-check and gives near numbers")
def instruction_sets():
    want = None
    for name in ("scalar", "avx2", "avx512"):
        server = s.Server("--threads", 1, "--cpu", name, env={"GR00T_CACHE": path("c-" + name)})
        try:
            try:
                server.ready()
            except AssertionError:
                assert server.wait() == 7 and "CPU" in server.log, server.log
                continue
            rows = [v for group in server.file("json", "base.json").is_(200).json()["actions"].values() for row in group for v in row]
            assert name in server.get("/info").body.decode()
            server.stop()
        finally:
            server.kill()
        want = want or rows
        worst = max(abs(a - b) for a, b in zip(rows, want))
        assert worst < 1e-3, f"{name} differs from scalar by {worst}"


@test("EN-04", "a device that is not there: one line, no fall-back to the CPU")
def no_device():
    log = s.boot_fails(7, args=("--device", "blackhole", "--device-id", 99), env={"GR00T_POLICY": None})
    assert "/dev/tenstorrent/99: no such device" in log or "riscv64-unknown-elf-gcc" in log, log
    assert "Model built" not in log, log


if __name__ == "__main__":
    s.main()
