#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy, then cppcheck, over the C files of a configured build folder; each only when it is installed.

In: the build folder (compile_commands.json). Out: the findings, and a last line with their number. Exit code 1 with findings.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# False alarms that depend on what another file or an earlier check guarantees: (file, check) -> why it cannot happen.
KNOWN = {
    ("cmd_synth.c", "clang-analyzer-core.CallAndMessage"): "--weights was checked when the options were read",
    ("load.c", "clang-analyzer-core.NullDereference"): "every linear layer that is packed was found by gr_weights_open",
    ("snapshot.c", "clang-analyzer-core.NullDereference"): "an index without a file was refused before",
    ("weights.c", "clang-analyzer-core.CallAndMessage"): "shape has ndim elements at every call",
    ("weights.c", "clang-analyzer-core.UndefinedBinaryOperatorResult"): "shape has ndim elements at every call",
}
FINDING = re.compile(r"^(\S+?):(\d+):(\d+): (?:warning|error): .*\[([\w.,-]+)\]$")


def sources(build):
    """Our own files of the build. Not the tests: cmocka's macros do not say that they never return, so all is false alarm."""
    files = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if any(path.is_relative_to(ROOT / top) for top in ("src", "tools", "examples")):
            files.setdefault(path, entry)
    return files


def tidy(args):
    build, path = args
    extra = ["--extra-arg=-Wno-unknown-warning-option"]
    if path.is_relative_to(ROOT / "src") and path.name != "err.c":
        extra += ["--extra-arg=-include", f"--extra-arg={ROOT / 'tools/tidy_fail.h'}"]
    r = subprocess.run(["clang-tidy", "-quiet", "-p", str(build), *extra, str(path)],
                       capture_output=True, text=True, check=False, cwd=ROOT)
    return findings(r.stdout) or ([r.stderr] if r.returncode else [])


def findings(text):
    """Output of clang-tidy -> one text a finding, its notes included, known false alarms left out."""
    blocks, known = [], False
    for line in text.splitlines():
        m = FINDING.match(line)
        if m:
            known = (os.path.basename(m.group(1)), m.group(4)) in KNOWN
            if not known:
                blocks.append(line)
        elif blocks and not known:
            blocks[-1] += "\n" + line
    return blocks


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    only = [pathlib.Path(p).resolve() for p in sys.argv[2:]]
    files = [p for p in sources(build) if not only or p in only]
    bad = 0
    if shutil.which("clang-tidy"):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for blocks in pool.map(tidy, [(build, p) for p in files]):
                bad += len(blocks)
                for block in blocks:
                    print(block)
    else:
        print("skipped: clang-tidy is not installed (./setup.sh --dev)")
    if shutil.which("cppcheck"):
        r = subprocess.run(["cppcheck", "--quiet", "--std=c11", "--language=c", "-D__x86_64__=1", "--inline-suppr",
                            "--enable=warning,performance,portability", "--error-exitcode=0",
                            f"--suppressions-list={ROOT / '.cppcheck-suppressions'}", "--template={file}:{line}: {severity}: {message} [{id}]",
                            f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", "-j", str(os.cpu_count()),
                            *map(str, (p for p in files if "/src/" in str(p)))],
                           capture_output=True, text=True, check=False)
        bad += len(r.stderr.splitlines())
        print(r.stderr, end="")
    else:
        print("skipped: cppcheck is not installed (./setup.sh --dev)")
    print(f"{len(files)} files, {bad} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
