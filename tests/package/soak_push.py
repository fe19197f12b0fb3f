#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pushes with random faults: after each the repository is at its old or its new commit and complete, and a rerun without faults completes it.

    GR00T_BIN=build/src/gr00t tests/package/soak_push.py [--runs 50] [--seed 1]

Not part of `make test`: it waits for back-offs. Prints a line a push, then "N pushes, 0 bad"; exit code 1 on any fault.
"""
import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from push_hub import WRITE, Hub, make_image, make_package, tree, write  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
PLACES = ["/preupload/", "objects/batch", "^/_lfs/", "/part/", "/complete", "/verify", "/commit/", "/settings", "validate-yaml",
          "^/api/models/", "/tree/", "/api/repos/create"]


def environment(hub, home):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "XDG_", "TT_")) and not k.lower().endswith("_proxy")}
    clean.update({"HOME": home, "HF_ENDPOINT": hub.url, "HF_TOKEN": WRITE})
    return clean


def mutate(rng, folder, n):
    """Another build of the package: some files new, some gone, some changed."""
    make_image(folder, [rng.choice([5_000, 65_536, 200_001]) for _ in range(rng.randint(1, 4))], seed=rng.randint(1, 3))
    for i in range(8):
        path = os.path.join(folder, f"code/gr00t/part{i}.c")
        if rng.random() < 0.4:
            write(path, f"int part{i} = {rng.randint(0, 10**9)};\n")
        elif rng.random() < 0.2 and os.path.exists(path):
            os.unlink(path)
    write(folder + "/requirements.lock", f"run {n}\n")


def choose_faults(rng, hub):
    """Injects zero to three faults; what they are, and seconds until a kill (None: none)."""
    said, specs, hub.lose, kill = [], [], {}, None
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        kind = rng.choice(["status", "status", "status", "final", "lose", "foreign", "kill", "stall"])
        place = rng.choice(PLACES)
        if kind == "status":
            specs.append(f"status:code={rng.choice([408, 429, 500, 502, 503, 504])},retry_after=0,path={place},"
                         f"skip={rng.randint(0, 3)},times={rng.choice([1, 2, 3, 20])}")
        elif kind == "final":
            specs.append(f"status:code={rng.choice([400, 403, 404, 413, 422])},path={place},skip={rng.randint(0, 3)},times={rng.choice([1, 2, 20])}")
        elif kind == "lose":
            hub.lose[rng.choice(["commit", "complete", "PUT", "create"])] = rng.choice([1, 1, 2])
        elif kind == "foreign":
            hub.before_commit = [lambda r: hub.add("org/pkg", f"docs/{len(r.log)}.md", b"theirs\n")]
        elif kind == "kill":
            kill = rng.uniform(0.01, 0.6)
        else:
            specs.append(f"stall:secs=1,path={place},times=1")
        said.append(kind)
    hub.faults(*specs)
    return said + specs, kill


def push(hub, folder, home, kill):
    p = subprocess.Popen([BIN, "push", folder], env=environment(hub, home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        out = p.communicate(timeout=kill or 300)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        out = p.communicate()[0]
        time.sleep(0.3)  # what the server had begun
    assert WRITE.encode() not in out, "the token is in the output"
    return p.returncode, out.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]


def state(hub):
    """path -> bytes of the head without what others put there; None when there is no repository. Fails on a file that is not what it should be."""
    if "org/pkg" not in hub.hub.repos:
        return None
    r = hub.repo("org/pkg")
    files = hub.files("org/pkg")
    for path, e in r.commits[r.head].items():
        if e.sha256:
            assert hashlib.sha256(files[path]).hexdigest() == e.sha256, path
        assert len(files[path]) == e.size, path
    return {p: d for p, d in files.items() if p != ".gitattributes" and not p.startswith("docs/")}


def one(hub, rng, folder, home, n):
    before = state(hub)
    mutate(rng, folder, n)
    faults, kill = choose_faults(rng, hub)
    code, last = push(hub, folder, home, kill)
    after, wanted = state(hub), tree(folder)
    where = "new" if after == wanted else "old" if after == before or not after and not before else "BETWEEN"
    bad = []
    if where == "BETWEEN":
        bad.append("the repository is neither at its old nor at its new content")
    if code == 0 and where != "new":
        bad.append("exit 0, but it is not there")
    if code not in (0, 3, 4, 5, 6, 7, -9):
        bad.append(f"exit {code}")
    hub.faults()
    hub.lose, hub.before_commit = {}, []
    again, why = push(hub, folder, home, None)
    if again != 0 or state(hub) != wanted:
        bad.append(f"the rerun ends with {again}: {why[0]}")
    print(f"{'BAD ' if bad else 'ok  '} {n:3} exit {code:3} {where:3} {' '.join(faults) or '-'}" + (f"   {last[0][:120]}" if code else ""), flush=True)
    for b in bad:
        print("     " + b, flush=True)
    return bool(bad)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--runs", type=int, default=50)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    rng = random.Random(a.seed)
    tmp = tempfile.mkdtemp(prefix="gr00t-soak-push-")
    bad = 0
    try:
        folder = make_package(os.path.join(tmp, "pkg"))
        with Hub(tmp, multipart=65_536) as hub:
            for n in range(a.runs):
                bad += one(hub, rng, folder, os.path.join(tmp, "home"), n)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    print(f"{a.runs} pushes, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
