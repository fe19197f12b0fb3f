# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: marking tests, small checks, running them with TAP lines and "N passed, N failed" at the end."""
import os
import sys
import time

TESTS = []


class Skip(Exception):
    pass


def test(f):
    TESTS.append(f)
    return f


def equal(got, want, what=""):
    assert got == want, f"{what} got {got!r}, expected {want!r}"


def contains(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


def done(run):
    assert run.returncode == 0, f"exit {run.returncode}: {run.err}"
    return run


def fails(run, code, *parts, start="gr00t: "):
    """This exit code; the last line on stderr is the error, begins like this and holds these parts."""
    assert run.returncode == code, f"exit {run.returncode}, expected {code}: {run.err} {run.out[-300:]}"
    lines = [x for x in run.err.splitlines() if x]
    assert lines and lines[-1].startswith(start), f"no error line: {run.err!r}"
    contains(lines[-1], *parts)
    return run


def after_cpu_s(process, seconds):
    """Waits until a program has computed for so long; how long that takes depends on what else runs. False: it ended before."""
    ticks = seconds * os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        if int(fields[11]) + int(fields[12]) >= ticks:
            return True
        time.sleep(0.01)
    return False


def run_tests():
    """All tests, or those named on the command line. The exit code."""
    passed = failed = skipped = 0
    wanted = sys.argv[1:]
    for i, t in enumerate([t for t in TESTS if not wanted or t.__name__ in wanted], 1):
        name = t.__name__
        try:
            t()
            passed += 1
            print(f"ok {i} - {name}", flush=True)
        except Skip as why:
            skipped += 1
            print(f"ok {i} - {name} # SKIP\nskipped: {name}: {why}", flush=True)
        except Exception as e:  # a crash of one test must not hide the others
            failed += 1
            print(f"not ok {i} - {name}\n# {type(e).__name__}: {e}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0
