#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many pulls with random faults: each ends in a verified snapshot or a clear error, a rerun without faults completes, and a cache never holds a
wrong byte. In: GR00T_BIN; --pulls, --seed, --only N (one round again). Out: a line a pull and a summary; exit code 1 on the first breach.

Faults: cut, short, stalled and slow bodies, 429 and 5xx of the Hub and of the storage host, wrong bytes, wrong ids, no ranges, no length, a file
that changed under the same commit, a full disk, signals at any moment, two pulls on one cache.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pull_hub as ph  # noqa: E402

BIG = 20_000_000
REPO = "org/snap"
CLEAR = {0, 3, 4, 5, 6, 130, -signal.SIGINT, -signal.SIGKILL}  # done; room, format, network, access; interrupted (also before main); killed


def random_fault(r):
    n, at = r.choice((1, 1, 2, 5, 1000)), r.randrange(BIG)
    where = r.choice(("path=_cdn", "path=resolve", "path=/api/", "path=_cdn|resolve", "path=model-1|_cdn"))
    return r.choice((
        f"drop:after={r.choice((0, 1, 1000, at // 4, at))},{where},times={n}",
        f"short:by={r.choice((1, 5000, at // 2))},path=_cdn,times={n}",
        f"status:code={r.choice((429, 500, 502, 503, 504, 408))},retry_after={r.choice((0, 0, 1))},{where},times={n}",
        f"status:code={r.choice((403, 401, 404, 410))},{where},times={r.choice((1, 2))},skip={r.randrange(4)}",
        f"corrupt:at={at},path=_cdn,times={n}",
        f"corrupt:at={r.randrange(60)},path=resolve,times={n}",
        f"stall:secs={r.choice((0.2, 2))},{where},times={r.choice((1, 2))}",
        f"slow:rate=2500000,path=_cdn,times={r.choice((1, 4))}",
        f"norange:path=_cdn,times={n}",
        f"nolength:times={n}",
        f"badetag:times={n}",
        "nocommit"))


def pull(env, *args, wrapper=()):
    return subprocess.Popen([*wrapper, ph.BIN, "pull", REPO, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(p, what):
    out, err = p.communicate(timeout=180)
    assert p.returncode in CLEAR, f"{what}: exit {p.returncode}: {err}"
    if p.returncode not in (0, 130, -signal.SIGINT, -signal.SIGKILL):
        last = [x for x in err.splitlines() if x][-1]
        assert last.startswith("gr00t: pull: ") and len(last) > 30, f"{what}: no clear error: {err!r}"
    assert "Sanitizer" not in err, err
    return p.returncode, err


def one(r, hub, source, folder):
    home = tempfile.mkdtemp(dir=folder)
    env = ph.environment(home, hub, HF_HUB_DOWNLOAD_TIMEOUT="1")
    args = ["--connections", str(r.choice((1, 2, 4, 4, 16)))]
    faults = [random_fault(r) for _ in range(r.choice((0, 1, 1, 2, 3)))]
    extra = r.choice(("none", "none", "kill", "kill", "int", "full", "two", "change"))
    hub.faults(*faults)
    changed = os.path.join(source, "model-1.safetensors")
    wrapper = ("sh", "-c", f'ulimit -f {r.randrange(1000, 39000)} && exec "$0" "$@"') if extra == "full" else ()
    kept = None
    if extra == "change":  # what the Hub's listing says is no longer what its storage has
        kept = ph.read(changed)
        at = r.randrange(len(kept))
        ph.write(source, "model-1.safetensors", kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1:])
    codes = []
    try:
        both = [pull(env, *args, wrapper=wrapper) for _ in range(2 if extra == "two" else 1)]
        if extra in ("kill", "int"):
            time.sleep(r.choice((0.02, 0.1, 0.2, 0.3, 0.5)) * r.random() * 2)
            both[0].send_signal(signal.SIGKILL if extra == "kill" else signal.SIGINT)
        codes = [end(p, f"{faults} {extra}")[0] for p in both]
        ph.check_cache(ph.cache_of(home))
        if extra == "change":
            assert codes == [4] or faults, f"a changed file was taken: {codes}"
    finally:
        if kept is not None:
            ph.write(source, "model-1.safetensors", kept)
    if 0 in codes:
        ph.check_snapshot(ph.cache_of(home), REPO, source)
    hub.faults()
    code, err = end(pull(env, *args), "rerun")
    assert code == 0, f"the rerun fails: {err}"
    ph.check_snapshot(ph.cache_of(home), REPO, source)
    shutil.rmtree(home)
    return codes, extra, faults


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--pulls", type=int, default=100)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--only", type=int)
    a = a.parse_args()
    tally, start = {}, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gr00t-soak-pull-") as folder:
        root = os.path.join(folder, "root")
        source = ph.snapshot(os.path.join(root, REPO), BIG)
        with ph.Hub(root) as hub:
            for i in [a.only] if a.only is not None else range(a.pulls):
                r = random.Random(f"{a.seed} {i}")
                try:
                    codes, extra, faults = one(r, hub, source, folder)
                except Exception as e:
                    print(f"pull {i} (seed {a.seed}): {type(e).__name__}: {e}")
                    return 1
                print(f"pull {i}: {codes} {extra} {faults}", flush=True)
                for c in codes:
                    tally[c] = tally.get(c, 0) + 1
    print(f"{a.pulls if a.only is None else 1} rounds in {time.monotonic() - start:.0f} s, exit codes {tally}: every cache was right, every rerun completed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
