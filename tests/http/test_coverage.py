#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which case of the list of real-world problems is tested where: the table, and a failure when a row has neither a test nor a reason.

In: the test files beside this one (their names carry the ids). Out: a table "id  test", one TAP line, the count.
"""
import glob
import importlib
import os
import sys

import serving as s

SECTIONS = {"IMG": 14, "ST": 11, "PR": 7, "RNG": 6, "JS": 9, "HT": 15, "LC": 8, "DL": 8, "WT": 3, "EN": 7}
# Rows whose test stands elsewhere: file in the tree, what it shows.
ELSEWHERE = {
    "ST-02": ("tests/unit/test_actions.c", "model outputs beyond -1..1 are clipped, per-step min and max"),
    "LC-05": ("tests/http/soak.py", "call after 60 s of silence, an acceptance row; the first call is in test_life.py"),
    "LC-07": ("tests/http/soak.py", "500 good and 500 bad requests, memory, descriptors, threads: an acceptance row"),
    "JS-08": ("tests/unit/test_buf.c", "printed float32 values read back and are the shortest"),
}
# Rows without a test of the service, and why.
REASONS = {
    "LC-04": "no device fault can be brought in from outside on the CPU; the decision is gr_service_fatal's and its unit test's",
    "LC-08": "timings use CLOCK_MONOTONIC only (base/clock.c); the other half of the row concerns pull, which comes with the package commands",
    "DL-01": "concerns pull, which comes with the package commands",
    "DL-02": "concerns pull, which comes with the package commands",
    "DL-03": "concerns pull, which comes with the package commands",
    "DL-08": "concerns push, which comes with the package commands",
}


def main():
    tests = {}
    for name in sorted(glob.glob(os.path.join(s.HERE, "test_*.py"))):
        module = os.path.basename(name)[:-3]
        if module == "test_coverage":
            continue
        s.TESTS.clear()
        importlib.import_module(module)
        for ids, title, _ in s.TESTS:
            for one in ids.split():
                tests.setdefault(one, []).append(f"{module}.py: {title}")
    root = os.environ.get("GR00T_SOURCE_ROOT", os.path.join(s.HERE, "..", ".."))
    rows = [f"{part}-{k:02d}" for part, n in SECTIONS.items() for k in range(1, n + 1)]
    bare, tested, reasoned = [], 0, 0
    for row in rows:
        places = list(tests.get(row, []))
        file, what = ELSEWHERE.get(row, ("", ""))
        if file and os.path.exists(os.path.join(root, file)):
            places.append(f"{file}: {what}")
        if places:
            tested += 1
            for i, place in enumerate(places):
                print(f"# {row if i == 0 else '':7} {place}")
        elif row in REASONS:
            reasoned += 1
            print(f"# {row:7} not here: {REASONS[row]}")
        else:
            bare.append(row)
            print(f"# {row:7} NO TEST AND NO REASON")
    unknown = sorted(set(tests) - set(rows))
    print(f"# {len(rows)} cases: {tested} with a test, {reasoned} with a reason, {len(bare)} with neither")
    if bare or unknown:
        print(f"not ok 1 - every case has a test or a written reason\n# neither: {bare}; not in the list: {unknown}")
    else:
        print(f"ok 1 - every case has a test or a written reason ({tested} tested, {reasoned} reasons)")
    print(f"1..1\n{0 if bare or unknown else 1} passed, {1 if bare or unknown else 0} failed")
    sys.exit(1 if bare or unknown else 0)


if __name__ == "__main__":
    main()
