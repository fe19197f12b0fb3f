#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks into compiled kernels: inside a multiply loop no register may be spilled to the stack.

usage: check_spills.py LIBRARY...
In: static libraries of the instruction sets. Out: one TAP line each, with the first accesses found.
A tile has 26 accumulators in 32 registers; a compiler that loses count moves some of them to the stack in every step, which gives right
numbers at two thirds of the speed and so fails no other test. Looked at: every innermost loop that consists of multiplies
for the most part, from its first multiply to its last. Addresses and counters may be: their reload waits for nothing.
%rbp counts as stack where the function made it the frame pointer.
"""
import re
import subprocess
import sys

MIN_MULTIPLIES = 8  # fewer: no tile, and registers are not scarce
MIN_SHARE = 0.35  # of the instructions from the first multiply to the last; the polynomials of exp stay below
MULTIPLY = re.compile(r"^(?:\{\w+\} )?(?:vpdpbusd|vpdpwssd|vfmadd231p[sh]|vdpbf16ps)\s")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
JUMP = re.compile(r"^j\w+\s+([0-9a-f]+)\b")


def functions(path):
    """(name, [(address, instruction)]) of each function of each object."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True,
                          errors="replace").stdout
    name, code = None, []
    for line in text.splitlines():
        head = FUNCTION.match(line)
        if head:
            if code:
                yield name, code
            name, code = head.group(1), []
        elif LINE.match(line):
            address, instruction = LINE.match(line).groups()
            code.append((int(address, 16), instruction))
    if code:
        yield name, code


def multiply_loops(code):
    """(first, last) multiply of each innermost loop that has enough of them, as indices into code."""
    index = {address: i for i, (address, _) in enumerate(code)}
    multiplies = [i for i, (_, instruction) in enumerate(code) if MULTIPLY.match(instruction)]
    spans = set()
    for i, (_, instruction) in enumerate(code):
        jump = JUMP.match(instruction)
        start = index.get(int(jump.group(1), 16)) if jump else None
        if start is not None and start <= i:
            inside = [m for m in multiplies if start <= m <= i]
            if len(inside) >= max(MIN_MULTIPLIES, MIN_SHARE * (inside[-1] - inside[0] + 1) if inside else 0):
                spans.add((inside[0], inside[-1]))
    return [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]


def spills(path):
    """(number of multiply loops, accesses to the stack in them)"""
    loops, found = 0, []
    for name, code in functions(path):
        frame = any(re.match(r"mov\s+%rsp,%rbp$", instruction) for _, instruction in code)
        stack = re.compile(r"(?:%s)[,)].*%%[xyz]mm|%%[xyz]mm.*(?:%s)[,)]" % ((r"\(%r[sb]p" if frame else r"\(%rsp",) * 2))
        for first, last in sorted(multiply_loops(code)):
            loops += 1
            found += [f"{name} {address:x}: {instruction}" for address, instruction in code[first:last]
                      if stack.search(instruction)]
    return loops, found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.split("\n\n", 1)[1])
    failed = 0
    print(f"1..{len(sys.argv) - 1}")
    for number, path in enumerate(sys.argv[1:], 1):
        loops, found = spills(path)
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {path.rsplit('/', 1)[-1]}: {loops} multiply loops keep to registers")
        for line in found[:5]:
            print(f"# {line}")
        if len(found) > 5:
            print(f"# and {len(found) - 5} more")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
