#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `gr00t check` on golden cases with every instruction set of this CPU.

    check_goldens.py            the committed cases on the demo snapshot, and the tiny ones when the shared folder is there

Needs GR00T_BIN, GR00T_SOURCE_ROOT; reads GR00T_SHARED. A set that this CPU lacks is skipped by name."""
import glob, os, subprocess, sys, tempfile

ROOT = os.environ.get("GR00T_SOURCE_ROOT", ".")
SHARED = os.environ.get("GR00T_SHARED", os.path.join(ROOT, "..", "shared"))
GR00T = os.environ.get("GR00T_BIN", os.path.join(ROOT, "gr00t"))
NO_SUCH_SET = 7  # exit code: device


def run(title, args, cpu):
    r = subprocess.run([GR00T, "check", *args, "--cpu", cpu], capture_output=True, text=True)
    if r.returncode == NO_SUCH_SET:
        print(f"skipped: {title}: this CPU has no {cpu}")
        return 0
    ok = r.returncode == 0
    print(f"{'ok' if ok else 'FAILED'} {title}, {cpu}: {r.stdout.strip().splitlines()[-1] if r.stdout.strip() else r.stderr.strip()}")
    if not ok:
        print(r.stdout, r.stderr)
    return 0 if ok else 1


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        demo, tiny = os.path.join(tmp, "demo"), os.path.join(tmp, "tiny")
        subprocess.run([GR00T, "synth", "demo", demo], check=True, capture_output=True)
        cases = sorted(glob.glob(os.path.join(ROOT, "data", "demo", "golden*")))
        assert cases, "no committed golden cases"
        for cpu in ("scalar", "avx2", "avx512"):
            failed += run("demo", [demo, *cases], cpu)
        cases = sorted(glob.glob(os.path.join(SHARED, "spec", "goldens_tiny", "t*")))
        if not cases:
            print("skipped: the tiny goldens need the shared folder (GR00T_SHARED)")
        else:
            subprocess.run([GR00T, "synth", "tiny", tiny], check=True, capture_output=True)
            for cpu in ("scalar", "avx2", "avx512"):
                failed += run("tiny", [tiny, *cases, "--tokenizer", os.path.join(SHARED, "spec", "tokenizer")], cpu)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
