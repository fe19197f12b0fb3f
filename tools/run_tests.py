#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configures and builds a folder, runs its Meson tests and counts them one by one.

In: a build folder (made when absent, with the options of --setup). Out: what failed with its output, why tests were
skipped, and as the last line "N passed, N failed", with ", N skipped" when some were. Exit code 1 when something failed.

A test program that prints TAP ("ok 1 - name", as cmocka does) counts line by line, any other counts as one.
Whatever it prints, a program that ends with a non-zero status, a signal or a time-out is at least one failure.
"""
import argparse
import collections
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

TAP = re.compile(r"^(not ok|ok) \d+\b(.*)$", re.M)
SKIP = re.compile(r"#\s*SKIP", re.I)
REASON = re.compile(r"^(?:# ?)?(skipped: .*)$", re.M)


def finish(passed, failed, skipped):
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    sys.exit(1 if failed or not passed else 0)


def give_up(text):
    print(f"run_tests: {text}", flush=True)
    finish(0, 1, 0)


def meson(*args):
    return [shutil.which("meson") or "/usr/bin/meson", *args]


def run(cmd, **kw):
    return subprocess.run(cmd, stdin=subprocess.DEVNULL, **kw).returncode


def listed(build):
    out = subprocess.run(meson("introspect", "--tests", build), capture_output=True, text=True, check=False).stdout
    try:
        return json.loads(out)
    except ValueError:
        return []


def prepare(build, setup):
    if not os.path.exists(os.path.join(build, "build.ninja")):
        if run(meson("setup", *shlex.split(setup), build)) != 0:
            give_up("meson setup failed")
    if not listed(build):  # made before the test packages were there: look again
        run(meson("setup", "--reconfigure", build), stdout=subprocess.DEVNULL)
        if not listed(build):
            give_up("this build has no tests, because cmocka is missing: ./setup.sh --test installs it")
    if run(["ninja", "-C", build]) != 0:
        give_up("the build failed")


def judge(entry):
    """One line of testlog.json -> (passed, failed, skipped)."""
    text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    passed = failed = skipped = 0
    for verdict, rest in TAP.findall(text):
        if SKIP.search(rest):
            skipped += 1
        elif verdict == "ok":
            passed += 1
        else:
            failed += 1
    result = entry["result"]
    if result == "SKIP":
        return passed, failed, max(skipped, 1)
    if result != "OK":
        return passed, max(failed, 1), skipped
    if passed + failed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--setup", default="", help="options of meson setup when the folder is new")
    parser.add_argument("--suite", action="append", default=[], help="only this suite (repeatable)")
    parser.add_argument("--timeout-multiplier", default="1")
    parser.add_argument("build")
    args = parser.parse_args()
    setup = " ".join(filter(None, [os.environ.get("MESON_ARGS", ""), args.setup]))
    prepare(args.build, setup)

    log = os.path.join(args.build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    suites = [x for s in args.suite for x in ("--suite", s)]
    # gcc 12's thread sanitizer does not start where the kernel randomises addresses by more than 28 bits.
    prefix = []
    if "thread" in setup and shutil.which("setarch") and run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL) == 0:
        prefix = ["setarch", "-R"]
    code = run(prefix + meson("test", "-C", args.build, "--no-rebuild", "-t", args.timeout_multiplier, *suites))
    if not os.path.exists(log):
        give_up("meson test wrote no log")
    with open(log, encoding="utf-8", errors="replace") as f:
        entries = [json.loads(line) for line in f if line.strip()]

    total = [0, 0, 0]
    reasons = collections.Counter()
    for entry in entries:
        counts = judge(entry)
        total = [a + b for a, b in zip(total, counts)]
        text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
        reasons.update(REASON.findall(text))
        if counts[1]:
            print(f"\n--- {entry['name']}: {entry['result']}, exit {entry.get('returncode')} "
                  f"({' '.join(map(os.path.basename, entry['command'][:1]))}) ---")
            print("\n".join(text.strip().splitlines()[-60:]))
    expected = [t for t in listed(args.build) if not args.suite or set(s.split(":")[-1] for s in t["suite"]) & set(args.suite)]
    if len(entries) < len(expected) or (code != 0 and not total[1]):
        print(f"run_tests: meson test ended with {code} after {len(entries)} of {len(expected)} programs")
        total[1] += 1
    print()
    for reason, n in sorted(reasons.items()):
        print(f"{reason}" + (f" ({n} tests)" if n > 1 else ""))
    finish(*total)


if __name__ == "__main__":
    main()
