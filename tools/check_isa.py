#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks into compiled code: only the library of an instruction set may use that set's registers and instructions.

usage: check_isa.py LIMIT FILE...   LIMIT is sse2 (no ymm, zmm, VEX), avx2 (no zmm, mask registers), avx512 (F, BW, DQ, VL), or avxvnni,
avx512vnni, avx512bf16, avx512fp16, amx: the one or the other and that set's own instructions
In: static libraries or programs. Out: one TAP line each, with the first functions that break the limit.
A library of a set must also define no weak symbol: the linker might pick its copy of an inline function for everybody.
"""
import re
import subprocess
import sys

SSE2 = r"%[yz]mm\d|\tv[a-z0-9]+\s[^#<]*%xmm"
AVX2 = r"%zmm\d|%k[0-7]|%[xy]mm(?:1[6-9]|2\d|3[01])"
OWN = {  # instructions that only one set has; inline assembly gets past the compiler's flags
    "vnni": r"\t(?:\{\w+\} )?vpdp(?:bu|ws)sds?\s",
    "bf16": r"\tv(?:dpbf16ps|cvtneps2bf16|cvtne2ps2bf16)",
    "fp16": r"\tv(?!cvtps2ph\s)\w+[ps]h\s|\tvcvtph2psx\s|\tvmovw\s",
    "amx": r"\t(?:t(?:dp|ile)\w+|(?:ld|st)tilecfg)\b",
}


def forbidden(registers, *allowed):
    parts = [registers] if registers else []
    return re.compile("|".join(parts + [own for name, own in OWN.items() if name not in allowed]))


FORBIDDEN = {
    "sse2": forbidden(SSE2),
    "avx2": forbidden(AVX2),
    "avxvnni": forbidden(AVX2, "vnni"),
    "avx512": forbidden(None),
    "avx512vnni": forbidden(None, "vnni"),
    "avx512bf16": forbidden(None, "bf16"),
    "avx512fp16": forbidden(None, "fp16"),
    "amx": forbidden(None, "amx"),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def output(*cmd):
    return subprocess.run(cmd, check=True, capture_output=True, text=True, errors="replace").stdout


def breaches(limit, path):
    found = []
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
