#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the documents true: commands, options, make targets, files and links that they name exist. TAP on stdout.

In: GR00T_SOURCE_ROOT, GR00T_BIN. Exit code 1 when a document names something that is not there."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("GR00T_SOURCE_ROOT", ".")).resolve()
GR00T = os.environ.get("GR00T_BIN", str(ROOT / "gr00t"))
DOCS = {p: p.read_text(encoding="utf-8") for p in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/man").glob("*.scd")]}


def where(path, text, at):
    return f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}"


def quoted():
    """Code in the documents: `...` and lines indented by four blanks."""
    for path, text in DOCS.items():
        for m in re.finditer(r"`([^`\n]+)`|^ {4}(\S.*)$|^(gr00t .*)$", text, re.M):
            yield where(path, text, m.start()), m.group(1) or m.group(2) or m.group(3)


def links_lead_somewhere():
    for path, text in DOCS.items():
        for m in re.finditer(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            if not (path.parent / m.group(1)).exists():
                yield f"{where(path, text, m.start())}: no {m.group(1)}"


def commands_exist():
    helps = {}
    for at, code in quoted():
        m = re.match(r"(?:\./)?gr00t (bench engine|[a-z]+)\b(.*)", code.replace("\\|", "|"))
        if not m:
            continue
        verb, rest = m.groups()
        if verb not in helps:
            r = subprocess.run([GR00T, *verb.split(), "--help"], capture_output=True, text=True, check=False)
            helps[verb] = r.stdout if r.returncode == 0 else None
        if helps[verb] is None:
            yield f"{at}: gr00t has no command {verb}"
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r'"[^"]*"', "", rest)):
            if option not in helps[verb]:
                yield f"{at}: gr00t {verb} has no {option}"


def make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for at, code in quoted():
        for name in re.findall(r"(?:^|&& |=\d+ )make ([a-z-]+)", code):
            if name not in targets:
                yield f"{at}: no make target {name}"


def files_exist():
    for at, code in quoted():
        for name in re.findall(r"(?:^|\s)((?:src|tests|tools|docs|include|examples|data)/[\w./-]+)(?=$|[\s,;:])", code):
            if not (ROOT / name).exists():
                yield f"{at}: no {name}"


def environment_variables_are_read():
    readers = [*(ROOT / "src/cli").glob("*.c"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tests/support").glob("*.c")]
    settings = "".join(p.read_text(encoding="utf-8") for p in readers)
    for path, text in DOCS.items():
        for m in re.finditer(r"\bGR00T_[A-Z]+(?:_[A-Z]+)*\b", text):
            if m.group(0) not in settings and m.group(0) != "GR00T_VERSION":
                yield f"{where(path, text, m.start())}: nobody reads {m.group(0)}"


def setup_knows_its_options():
    for options in ([], ["--test"], ["--dev"]):
        r = subprocess.run([ROOT / "setup.sh", "--print", *options], capture_output=True, text=True, check=False)
        if r.returncode != 0:
            yield f"setup.sh --print {' '.join(options)}: {r.stdout}{r.stderr}"


def setup_is_brief_and_tells_failures():
    """With stand-ins for the package tools: apt's stdout is dropped, its stderr and exit code are not."""
    tools = {"dpkg-query": "exit 1", "id": "echo 0", "apt-get": """echo chatter; echo "apt warns" >&2; echo "$*" >>"$APT_LOG"
             case "$*" in *" $APT_FAILS"*) echo "E: no such luck" >&2; exit 100;; esac"""}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        for name, script in tools.items():
            tool = pathlib.Path(folder) / name
            tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            tool.chmod(0o755)
        for fails, code, calls in (("nothing", 0, 2), ("update", 100, 1), ("install", 100, 2)):
            log.write_text("", encoding="utf-8")
            env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "APT_LOG": str(log), "APT_FAILS": fails}
            r = subprocess.run([ROOT / "setup.sh"], capture_output=True, text=True, check=False, env=env)
            said, lines = r.stdout + r.stderr, log.read_text(encoding="utf-8").splitlines()
            good = r.returncode == code and len(lines) == calls and "chatter" not in said and r.stderr.count("apt warns") == calls
            good = good and all("-qq -o Dpkg::Use-Pty=0" in line for line in lines) and ("setup.sh: done" in r.stdout) == (code == 0)
            good = good and " gcc " in r.stdout and (calls < 2 or " install " in lines[1] and " gcc " in lines[1])
            good = good and (code == 0 or ("E: no such luck" in r.stderr and f"apt-get {fails} failed with exit code 100" in r.stderr))
            if not good:
                yield f"setup.sh, failing: {fails}: exit {r.returncode}, calls {lines}, said {said}"


def main():
    tests = [links_lead_somewhere, commands_exist, make_targets_exist, files_exist, environment_variables_are_read,
             setup_is_brief_and_tells_failures]
    if pathlib.Path("/usr/bin/apt-get").exists():
        tests.append(setup_knows_its_options)
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        faults = sorted(set(test()))
        failed += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {number} - {test.__name__}")
        for fault in faults:
            print(f"# {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
