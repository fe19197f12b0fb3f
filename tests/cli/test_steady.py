#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of the steady state: what the kernel sees of predicts when all is warm, and threads beyond the CPUs.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed". Uses strace where it is installed and may trace.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tap import Skip, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
TMP = ""
FEW, MANY = 10, 60
# Waiting, and the clock where it is no vDSO (some virtual machines). A predict must need nothing else.
ALLOWED = {"futex", "clock_gettime", "gettimeofday", "restart_syscall"}


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "XDG_"))}
    clean["HOME"] = os.path.join(TMP, "home")
    return clean


def bench(runs, threads, before=()):
    report = os.path.join(TMP, "report.json")
    p = subprocess.run([*before, BIN, "bench", "engine", "--model", os.path.join(TMP, "demo"), "--runs", str(runs), "--threads", str(threads),
                        "--json", report, "--cache", "off"], env=environment(), capture_output=True, timeout=250, check=False)
    assert p.returncode == 0, p.stderr.decode("utf-8", "replace")
    with open(report, encoding="utf-8") as f:
        return json.load(f)


def calls(runs, threads):
    """System calls of all threads by name."""
    trace = os.path.join(TMP, "trace")
    bench(runs, threads, ("strace", "-f", "-qq", "-c", "-o", trace))
    found = collections.Counter()
    with open(trace, encoding="utf-8") as f:
        for line in f:
            fields = line.split()  # % time, seconds, usecs/call, calls, [errors,] syscall
            if len(fields) in (5, 6) and fields[3].isdigit() and fields[-1] != "total":
                found[fields[-1]] += int(fields[3])
    assert found["mmap"] > 0, "the trace is empty"
    return found


def need_strace():
    if shutil.which("strace") is None:
        raise Skip("strace is not installed")
    if subprocess.run(["strace", "-o", os.path.join(TMP, "try"), "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("strace may not trace here")


def further_calls(threads, allowed):
    """Calls that more predicts make each time: how threads start and end depends on the moment (a stack given back or kept)."""
    for _ in range(3):
        few, many = calls(FEW, threads), calls(MANY, threads)
        more = {name: many[name] - few[name] for name in many if many[name] > few[name] and name not in allowed}
        if not more:
            break
    return more


@test
def a_warm_predict_asks_the_kernel_for_nothing():
    need_strace()
    for threads in (1, 2):
        more = further_calls(threads, ALLOWED)
        assert not more, f"{MANY - FEW} more predicts with {threads} threads made further calls: {more}"


@test
def one_thread_waits_for_nobody():
    need_strace()
    more = further_calls(1, ALLOWED - {"futex"})
    assert not more, f"further calls: {more}"


@test
def threads_beyond_the_cpus_slow_down_and_do_not_collapse():
    cpus = len(os.sched_getaffinity(0))
    if cpus > 8:
        raise Skip(f"{cpus} CPUs: three times as many threads are no small number")
    # Three times the threads on the same CPUs: 3 times is proportional. The demo network is nearly all barriers, and other programs run too: the
    # first of several pairs that fits is enough.
    for _ in range(10):
        base, over = bench(FEW, cpus)["total_ms"]["min"], bench(FEW, 3 * cpus)["total_ms"]["min"]
        print(f"# {cpus} threads {base:.2f} ms, {3 * cpus} threads {over:.2f} ms")
        if over < 25 * base:
            return
    raise AssertionError(f"{cpus} threads {base:.2f} ms, {3 * cpus} threads {over:.2f} ms")


def main():
    global TMP
    TMP = tempfile.mkdtemp(prefix="gr00t-steady-")
    try:
        subprocess.run([BIN, "synth", "demo", os.path.join(TMP, "demo")], env=environment(), capture_output=True, timeout=120, check=True)
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
