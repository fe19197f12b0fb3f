#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `gr00t check` on golden cases: exact arithmetic with every instruction set of this CPU, the other policies with the slowest
and the fastest (tools/fidelity.py has all of them, as tables).

    check_goldens.py            the committed cases on the demo snapshot, and the tiny ones when the shared folder is there

Needs GR00T_BIN, GR00T_SOURCE_ROOT; reads GR00T_SHARED. A set that this CPU lacks is skipped by name."""
import glob, os, subprocess, sys, tempfile

ROOT = os.environ.get("GR00T_SOURCE_ROOT", ".")
SHARED = os.environ.get("GR00T_SHARED", os.path.join(ROOT, "..", "shared"))
GR00T = os.environ.get("GR00T_BIN", os.path.join(ROOT, "gr00t"))
NO_SUCH_SET = 7  # exit code: device


POLICIES = ("high", "balanced", "fast", "mixed", "fastest", "auto")


def run(title, args, cpu, *more):
    """cpu "fastest": all that this CPU has."""
    limit = [] if cpu == "fastest" else ["--cpu", cpu]
    r = subprocess.run([GR00T, "check", *args, "--cache", "off", *limit, *more], capture_output=True, text=True)
    title = " ".join([title, *more])
    if r.returncode == NO_SUCH_SET:
        print(f"skipped: {title}: this CPU has no {cpu}")
        return 0
    ok = r.returncode == 0
    print(f"{'ok' if ok else 'FAILED'} {title}, {cpu}: {r.stdout.strip().splitlines()[-1] if r.stdout.strip() else r.stderr.strip()}")
    if not ok:
        print(r.stdout, r.stderr)
    return 0 if ok else 1


def run_policies(title, args):
    """Gates of the actions, that no tap decides, and each 16-bit format."""
    failed = 0
    for cpu in ("scalar", "fastest"):
        for policy in POLICIES:
            failed += run(title, args, cpu, "--policy", policy)
    for half in ("f16", "bf16p", "i16"):
        failed += run(title, args, "avx2", "--policy", "high", "--half", half)
    return failed


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        demo, tiny = os.path.join(tmp, "demo"), os.path.join(tmp, "tiny")
        subprocess.run([GR00T, "synth", "demo", demo], check=True, capture_output=True)
        cases = sorted(glob.glob(os.path.join(ROOT, "data", "demo", "golden*")))
        assert cases, "no committed golden cases"
        for cpu in ("scalar", "avx2", "avx512"):
            failed += run("demo", [demo, *cases], cpu)
        failed += run_policies("demo", [demo, *cases])
        cases = sorted(glob.glob(os.path.join(SHARED, "spec", "goldens_tiny", "t*")))
        if not cases:
            print("skipped: the tiny goldens need the shared folder (GR00T_SHARED)")
        else:
            subprocess.run([GR00T, "synth", "tiny", tiny], check=True, capture_output=True)
            for cpu in ("scalar", "avx2", "avx512"):
                failed += run("tiny", [tiny, *cases, "--tokenizer", os.path.join(SHARED, "spec", "tokenizer")], cpu)
            failed += run_policies("tiny", [tiny, *cases, "--tokenizer", os.path.join(SHARED, "spec", "tokenizer")])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
