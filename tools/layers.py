#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the source tree that a script can check and prints one TAP line for each.

In: the source root (argument, else the folder above this one). Out: every breach as "file:line: what". Exit code 1 on a breach.
The include rule: a file may include its own layer and the layers named in ALLOWED, never anything above it.
"""
import pathlib
import re
import sys

# layer -> what it may include besides itself. "api" is include/: gr00t.h and gr00t_status.h.
ALLOWED = {
    "api": set(),
    "base": {"api"},
    "formats": {"api", "base"},
    "kernels": {"base"},                            # see FILES_ONLY
    "model": {"api", "base", "formats"},
    "device": {"api", "base", "formats", "model"},  # device.h and what devices share
    "device/cpu": {"api", "base", "formats", "model", "device", "kernels"},
    "device/blackhole": {"api", "base", "formats", "model", "device"},
    "device/blackhole/kernels": {"device/blackhole"},  # rv32: program.h
    "policy": {"api", "base", "formats", "model", "device"},
    "net": {"api", "base"},
    "hub": {"net", "api", "base"},
    "package": {"api", "base"},
    "launch": {"package", "hub", "net", "api", "base"},
    "server": {"api", "base", "policy"},             # no tensor
    "cli": {"launch", "package", "hub", "net", "server", "api", "base", "formats", "kernels", "model", "device", "device/blackhole",
            "policy"},
}
# (including layer, included layer) -> the only headers that may cross.
FILES_ONLY = {
    ("kernels", "base"): {"base/cpu.h", "base/clock.h"},  # flags to choose a set; time for fma_peak
    ("base", "api"): {"gr00t_status.h"},
    ("formats", "api"): {"gr00t_status.h"},
}
# Third-party headers and the one file that may know them (a trailing slash: a folder).
THIRD_PARTY = {
    r"png\.h": ["src/formats/png.c"],
    r"(jpeglib|jerror|jmorecfg)\.h": ["src/formats/jpeg.c"],
    r"jansson\.h": ["src/base/json.c"],
    r"utf8proc\.h": ["src/model/nfc.c"],
    r"openssl/.*": ["src/base/digest.c"],
    r"microhttpd\.h": ["src/server/http_conn.h"],
    r"cairo\.h": ["src/cli/plot_cairo.c"],
    r"curl/.*": ["src/net/exchange.c"],
    r"yaml\.h": ["src/package/yaml.c"],
    r"archive(_entry)?\.h": ["src/package/oci_tar.c"],
    r"[a-z0-9]*mmintrin\.h": [f"src/kernels/{s}/" for s in (
        "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "avx512fp16", "amx")],
    r"pcre2\.h": [],
    r"cmocka\.h": [],
}
# These see a policy as any user of the library does.
PUBLIC_ONLY = ["src/cli/cmd_predict.c"]
MAX_LINES = 600
GENERATED = {"src/model/unicode_tables.c"}  # data, not code: no line limit

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
STRIP = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PRINTS = re.compile(r"\b(?:printf|vprintf|puts|putchar|perror|abort|exit|_exit|_Exit|quick_exit)\s*\(|\b(?:stdout|stderr)\b")
CODE = {".c", ".h"}
SCRIPTS = {".py", ".sh"}


def layer_of(path):
    """src/device/cpu/dit.c -> device/cpu; include/gr00t.h -> api."""
    if path.startswith("include/"):
        return "api"
    folder = path.removeprefix("src/").rsplit("/", 1)[0]
    if folder.startswith("device/"):
        return folder
    return folder.split("/")[0]


def code_only(text):
    """Comments and string contents blanked, line numbers kept."""
    return STRIP.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def lines_with(pattern, text):
    return [(text.count("\n", 0, m.start()) + 1, m.group(0)) for m in pattern.finditer(text)]


def read_tree(root):
    out = {}
    for top in ("include", "src", "tests", "tools", "examples", ".ci"):
        for p in sorted((root / top).rglob("*")):
            rel = p.relative_to(root).as_posix()
            if p.is_file() and "__pycache__" not in rel and "/corpus/" not in rel and "/data/" not in rel:
                if p.suffix in CODE | SCRIPTS or p.name in ("run", "meson.build"):
                    out[rel] = p.read_text(encoding="utf-8", errors="replace")
    for name in ("setup.sh", "Makefile", "meson.build", "meson_options.txt"):
        if (root / name).is_file():
            out[name] = (root / name).read_text(encoding="utf-8")
    return out


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        m = INCLUDE.match(line)
        if m:
            yield number, m.group(1) or m.group(2), m.group(1) is not None


def check_edges(tree):
    for path, text in tree.items():
        if not path.startswith(("src/", "include/")) or path[-2:] not in CODE:
            continue
        here = layer_of(path)
        if here not in ALLOWED:
            yield f"{path}:1: unknown layer {here}: name it in tools/layers.py"
            continue
        for number, name, quoted in includes(text):
            if not quoted:
                continue
            target = next((t for t in (f"src/{name}", f"include/{name}") if t in tree), None)
            if target is None:
                yield f"{path}:{number}: {name} not found (includes are relative to src/ or include/)"
                continue
            there = layer_of(target)
            if there == here:
                continue
            only = FILES_ONLY.get((here, there))
            if there not in ALLOWED[here] or (only and name not in only):
                yield f"{path}:{number}: {here} may not include {name}"
            if path in PUBLIC_ONLY and there not in ("api", "base"):
                yield f"{path}:{number}: {name}: this file uses the public header only"
    for path, text in tree.items():
        if path.startswith("examples/") and path[-2:] in CODE:
            for number, name, quoted in includes(text):
                if quoted and name != "gr00t.h":
                    yield f"{path}:{number}: examples include gr00t.h only"


def check_third_party(tree):
    for path, text in tree.items():
        if not path.startswith(("src/", "include/")) or path[-2:] not in CODE:
            continue
        for number, name, quoted in includes(text):
            for pattern, homes in THIRD_PARTY.items():
                if not quoted and re.fullmatch(pattern, name):
                    if not any(path == h or (h.endswith("/") and path.startswith(h)) for h in homes):
                        yield f"{path}:{number}: <{name}> belongs in {' or '.join(homes) or 'no file of src/'}"


def check_names(tree):
    seen = {}
    for path in tree:
        name = path.rsplit("/", 1)[-1]
        if name in ("meson.build", "__init__.py"):
            continue
        if name in seen:
            yield f"{path}:1: same file name as {seen[name]}"
        seen[name] = path


def check_spdx(tree):
    for path, text in tree.items():
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.splitlines()[:3]):
            yield f"{path}:1: no SPDX line in the first three lines"


def check_getenv(tree):
    for path, text in tree.items():
        if path.startswith("src/") and path[-2:] in CODE and not path.startswith("src/cli/"):
            for number, _ in lines_with(re.compile(r"\b(?:secure_)?getenv\s*\("), code_only(text)):
                yield f"{path}:{number}: getenv outside src/cli"


def check_quiet(tree):
    for path, text in tree.items():
        if not path.startswith("src/") or path[-2:] not in CODE or path.startswith("src/cli/"):
            continue
        code = code_only(text)
        if not path.startswith("src/base/log."):
            for number, what in lines_with(PRINTS, code):
                yield f"{path}:{number}: {what.strip(' (')} below cli"
            if not path.startswith("src/server/"):  # a service has a log
                for number, _ in lines_with(re.compile(r"\bgr_log\s*\("), code):
                    yield f"{path}:{number}: the library does not log"


def check_length(tree):
    for path, text in tree.items():
        count = text.count("\n")
        if path.startswith(("src/", "include/")) and path not in GENERATED and count > MAX_LINES:
            yield f"{path}:{count}: {count} lines, the limit is {MAX_LINES}"


RULES = [
    ("includes point downwards only", check_edges),
    ("third-party headers in one file each", check_third_party),
    ("file names are unique", check_names),
    ("every source file has its SPDX line", check_spdx),
    ("getenv in src/cli only", check_getenv),
    ("no printing, logging, exit or abort below cli", check_quiet),
    (f"no source file over {MAX_LINES} lines", check_length),
]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    tree = read_tree(root)
    if not any(p.startswith("src/") for p in tree):
        print(f"not ok 1 - no sources below {root}")
        return 1
    failed = 0
    print(f"1..{len(RULES)}")
    for number, (title, rule) in enumerate(RULES, 1):
        breaches = sorted(set(rule(tree)))
        failed += bool(breaches)
        print(f"{'not ok' if breaches else 'ok'} {number} - {title}")
        for breach in breaches:
            print(f"# {breach}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
