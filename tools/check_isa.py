#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks into compiled code: only the library of an instruction set may use that set's registers.

usage: check_isa.py LIMIT FILE...   LIMIT is sse2 (no ymm, zmm, VEX), avx2 (no zmm, mask registers) or avx512 (anything)
In: static libraries or programs. Out: one TAP line each, with the first functions that break the limit.
An avx2 or avx512 library must also define no weak symbol: the linker might pick its copy of an inline function for everybody.
"""
import re
import subprocess
import sys

FORBIDDEN = {
    "sse2": re.compile(r"%[yz]mm\d|\tv[a-z0-9]+\s[^#<]*%xmm"),
    "avx2": re.compile(r"%zmm\d|%k[0-7]|%[xy]mm(?:1[6-9]|2\d|3[01])"),
    "avx512": None,
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def output(*cmd):
    return subprocess.run(cmd, check=True, capture_output=True, text=True, errors="replace").stdout


def breaches(limit, path):
    found = []
    if FORBIDDEN[limit] is not None:
        function = "?"
        for line in output("objdump", "-d", "--no-show-raw-insn", path).splitlines():
            m = FUNCTION.match(line)
            if m:
                function = m.group(1)
            elif FORBIDDEN[limit].search(line):
                found.append(f"{function}: {line.strip()}")
    if limit != "sse2":
        for line in output("nm", path).splitlines():
            if re.search(r" [WVu] ", line):
                found.append(f"weak symbol: {line.strip()}")
    return found


def main():
    pairs = list(zip(sys.argv[1::2], sys.argv[2::2]))
    if not pairs or len(sys.argv) % 2 == 0 or any(limit not in FORBIDDEN for limit, _ in pairs):
        sys.exit(__doc__.split("\n\n", 1)[1])
    failed = 0
    print(f"1..{len(pairs)}")
    for number, (limit, path) in enumerate(pairs, 1):
        found = breaches(limit, path)
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {path.rsplit('/', 1)[-1]} keeps to {limit}")
        for line in found[:5]:
            print(f"# {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
