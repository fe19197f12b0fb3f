#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the documents true: commands, options, variables, exit codes, make targets, files and links that they name exist, the contract of the
service is valid, and its examples work on a live service. TAP on stdout.

In: GR00T_SOURCE_ROOT, GR00T_BIN. Exit code 1 when a document names something that is not there."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import jsonschema
import yaml

ROOT = pathlib.Path(os.environ.get("GR00T_SOURCE_ROOT", ".")).resolve()
GR00T = os.environ.get("GR00T_BIN", str(ROOT / "gr00t"))
DOCS = {p: p.read_text(encoding="utf-8") for p in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/man").glob("*.scd")]}
CONTRIB = {p: p.read_text(encoding="utf-8") for p in (ROOT / "contrib").rglob("*") if p.is_file()}
API, OPERATIONS, PACKAGES, MAN, README = (DOCS[ROOT / p] for p in ("docs/API.md", "docs/OPERATIONS.md", "docs/PACKAGES.md", "docs/man/gr00t.1.scd", "README.md"))
VERBS = "bench engine|bench http|manifest check|[a-z]+"


def where(path, text, at):
    return f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}"


def quoted():
    """Code in the documents: `...` and lines indented by four blanks."""
    for path, text in DOCS.items():
        for m in re.finditer(r"`([^`\n]+)`|^ {4}(\S.*)$|^(gr00t .*)$", text, re.M):
            yield where(path, text, m.start()), m.group(1) or m.group(2) or m.group(3)
    for path, text in CONTRIB.items():
        for m in re.finditer(r"^ExecStart=/usr/local/bin/(.*)$|^ *command: \[(gr00t, .*)\]$", text, re.M):
            yield where(path, text, m.start()), m.group(1) or m.group(2).replace(",", "")


def help_of(verb, cache={}):
    if verb not in cache:
        r = subprocess.run([GR00T, *verb.split(), "--help"], capture_output=True, text=True, check=False)
        cache[verb] = r.stdout if r.returncode == 0 else None
    return cache[verb]


def server_sources():
    return "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "src/server").glob("*.[ch]")))


def links_lead_somewhere():
    for path, text in DOCS.items():
        for m in re.finditer(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            if not (path.parent / m.group(1)).exists():
                yield f"{where(path, text, m.start())}: no {m.group(1)}"


def commands_exist():
    for at, code in quoted():
        m = re.match(rf"(?:\./)?gr00t ({VERBS})\b(.*)", code.replace("\\|", "|"))
        if not m:
            continue
        verb, rest = m.groups()
        if help_of(verb) is None:
            yield f"{at}: gr00t has no command {verb}"
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r'"[^"]*"', "", rest)):
            if option not in help_of(verb):
                yield f"{at}: gr00t {verb} has no {option}"


def verbs():
    top = subprocess.run([GR00T, "--help"], capture_output=True, text=True, check=False).stdout
    return re.findall(rf"^ {{2,4}}({VERBS}) ", top, re.M)


def commands_are_documented():
    """README's table and the manual, synopsis and section, have every command."""
    synopsis, commands = MAN[MAN.index("# SYNOPSIS"): MAN.index("# DESCRIPTION")], MAN[MAN.index("# COMMANDS"): MAN.index("# OPTIONS")]
    for verb in verbs():
        if not re.search(rf"^\|.*`gr00t {verb}\b.*\|.*\|$", README, re.M):
            yield f"README.md has no row of {verb}"
        if f"*gr00t* *{verb}*" not in synopsis:
            yield f"the man page's synopsis lacks {verb}"
        if not re.search(rf"^(?:\*[a-z]+\*, )?\*{verb}\*", commands, re.M):
            yield f"the man page has no section on {verb}"


def options_are_documented():
    """The man page has every option of every command, docs/OPERATIONS.md and docs/PACKAGES.md every option of serve."""
    for verb in verbs():
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", help_of(verb) or "")):
            if not re.search(re.escape(option) + r"(?![a-z0-9-])", MAN):
                yield f"the man page lacks {option} of gr00t {verb}"
            if verb == "serve" and not re.search(re.escape(option) + r"(?![a-z0-9-])", OPERATIONS + PACKAGES):
                yield f"docs/OPERATIONS.md and docs/PACKAGES.md lack {option}"


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
    for path, text in {**DOCS, **CONTRIB}.items():
        for m in re.finditer(r"\b(?:GR00T|TT|HF)_[A-Z]+(?:_[A-Z]+)*\b", text):
            if m.group(0) not in settings and m.group(0) != "GR00T_VERSION":
                yield f"{where(path, text, m.start())}: nobody reads {m.group(0)}"
    of_tests = {"GR00T_BIN", "GR00T_SOURCE_ROOT", "GR00T_SHARED", "GR00T_EXAMPLE"}
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src/cli").glob("*.c"))
    for name in set(re.findall(r'"((?:GR00T|TT)_[A-Z]+(?:_[A-Z]+)*)"', sources)) - of_tests:
        for doc, text in (("the man page", MAN), ("docs/OPERATIONS.md or docs/PACKAGES.md", OPERATIONS + PACKAGES)):
            if name not in text:
                yield f"{doc} lacks {name}"


def exit_codes_are_documented():
    main_c = (ROOT / "src/cli/main.c").read_text(encoding="utf-8")
    table = main_c[main_c.index("int gr_exit_code("):]
    codes = set(re.findall(r"return (\d+);", table[: table.index("\n}")])) | set(re.findall(r"EXIT_[A-Z_]+ = (\d+)", main_c))
    for doc, text, form in (("README.md", README, r"\| {} \|"), ("the man page", MAN, r"^\*{}\*$"), ("docs/OPERATIONS.md", OPERATIONS, r"\| {} \|")):
        for code in sorted(codes - ({"141"} if doc != "the man page" else set())):
            if not re.search(form.format(code), text, re.M):
                yield f"{doc} lacks exit code {code}"


def contract():
    sys.path.insert(0, str(ROOT / "tools"))
    import openapi_json  # pylint: disable=import-outside-toplevel,import-error
    return openapi_json


def fits(doc, name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": doc["components"]}
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        yield f"{name}{''.join(f'[{x!r}]' for x in error.absolute_path)}: {error.message[:120]}"


def openapi_json_is_made_from_the_yaml():
    tool = contract()
    if tool.JSON.read_text(encoding="utf-8") != tool.template():
        yield "data/openapi.json differs from docs/openapi.yaml: run tools/openapi_json.py"


def references(at):
    if isinstance(at, dict):
        yield from ([at["$ref"]] if "$ref" in at else [])
    for x in at.values() if isinstance(at, dict) else at if isinstance(at, list) else []:
        yield from references(x)


def openapi_schemas_and_examples_are_valid():
    doc = contract().document()
    for ref in set(references(doc)):
        at = doc
        for key in ref.removeprefix("#/").split("/"):
            at = at.get(key) if isinstance(at, dict) else None
        if at is None:
            yield f"docs/openapi.yaml: {ref} leads nowhere"
    for name, schema in doc["components"]["schemas"].items():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as e:
            yield f"{name}: {e.message}"
    examples = doc["components"]["examples"]
    yield from fits(doc, "PredictRequest", examples["PredictGr1"]["value"])
    for name in set(examples) - {"PredictGr1"}:
        yield from fits(doc, name.removesuffix("Gr1"), examples[name]["value"])
    for path, item in doc["paths"].items():
        for operation in item.values():
            for status, response in operation["responses"].items():
                for media in response.get("content", {}).values():
                    if "example" in media:
                        for error in jsonschema.Draft202012Validator({**media["schema"], "components": doc["components"]}).iter_errors(media["example"]):
                            yield f"{path} {status}: {error.message[:120]}"
    for name, response in doc["components"]["responses"].items():
        for media in response["content"].values():
            for fault in fits(doc, "Error", media["example"]) if "example" in media else ():
                yield f"{name}: {fault}"
            if "example" not in media:
                continue
            error, detail = media["example"]["error"], media["example"]["detail"]
            told = detail[0]["msg"] if isinstance(detail, list) else detail
            if f"`{error['code']}`" not in API or told != error["message"]:
                yield f"{name}: the example has the code {error['code']} and says {told!r} in detail"
    good = examples["PredictGr1"]["value"]
    wrong = [{"prompt": "x"}, {"instruction": None}, {"unknown": 1}, {"seed": -1}, {"seed": 2**63}, {"seed": 0.5}, {"state": {}}, {"images": {}},
             {"state_dtype": "float16"}, {"return_normalized": "true"}, {"embodiment": "other"}, {"noise": [[0.0] * 128] * 49}]
    for change in wrong:
        if not list(fits(doc, "PredictRequest", {**good, **change})):
            yield f"the schema lets {change} pass"
    for change in ({"seed": 2**63 - 1}, {"seed": None, "noise": [[0.0] * 128] * 50}, {"noise": [[[0.0] * 128] * 50], "seed": None}):
        for error in fits(doc, "PredictRequest", {**good, **change}):
            yield f"the schema refuses {list(change)}: {error}"


def routes_are_those_of_the_server():
    names = re.search(r"route_names\[GR_ROUTES\] = \{(.*?)\}", (ROOT / "src/server/metrics.c").read_text(encoding="utf-8"), re.S).group(1)
    served = set(re.findall(r'"(/[^"]*)"', names))
    written = set(contract().document()["paths"])
    for path in served ^ written:
        yield f"{path} is only in {'src/server/metrics.c' if path in served else 'docs/openapi.yaml'}"
    for path in sorted(served):
        if f" {path}`" not in API:
            yield f"docs/API.md lacks {path}"
    for at, code in quoted():
        m = re.match(r"(?:GET|POST|HEAD|OPTIONS) (/[\w./]*)", code)
        if m and m.group(1) not in served:
            yield f"{at}: no route {m.group(1)}"


def error_codes_are_those_of_the_server():
    """A code is a literal behind a status, in the call that refuses."""
    at_status = r'(?:GR_ERR_[A-Z]+|\b[45]\d\d|http_status|status), *(?:[a-z_]+ \? "([a-z0-9_]+)" : )?"([a-z0-9_]+)"'
    refuse = r"(?:REFUSE|gr_refuse|gr_service_error|send_error|refuse|gr_httpd_refusal)\b[^;]{0,60}?" + at_status
    served = {code for m in re.finditer(refuse, server_sources(), re.S) for code in m.groups() if code}
    table = API[API.index("| status | `code` |"): API.index("## Limits")]
    written = {code for row in re.findall(r"^\| \d+ \| ([^|]*) \|", table, re.M) for code in re.findall(r"`([a-z0-9_]+)`", row)}
    if len(served) < 20:
        yield f"only {len(served)} codes found in src/server: this test no longer understands the sources"
    for code in served - written:
        yield f"docs/API.md lacks the code {code}"
    sources = server_sources()
    for code in written:
        if f'"{code}"' not in sources:
            yield f"docs/API.md: no source has the code {code}"


class Service:
    """A live service of the demo snapshot."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        subprocess.run([GR00T, "synth", "demo", "demo", "--quiet"], cwd=folder, check=True, capture_output=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = (self.folder / "log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen([GR00T, "serve", "--model", "demo", "--cache", "off", "--port", str(self.port)],
                                        cwd=folder, stderr=self.log, stdout=self.log)
        end = time.monotonic() + 120
        while self.ask("/ready")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the service does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.1)

    def ask(self, path, body=None, headers=None):
        """Status and body, JSON where it is; 0 without an answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=120) as r:
                status, text = r.status, r.read()
        except urllib.error.HTTPError as e:
            status, text = e.code, e.read()
        except OSError:
            return 0, None
        return status, json.loads(text) if text[:1] == b"{" else text.decode()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        return code


def replies_fit_the_contract(service):
    doc = contract().document()
    if service.ask("/openapi.json") != (200, doc):
        yield "GET /openapi.json differs from docs/openapi.yaml"
    example = doc["components"]["examples"]["PredictGr1"]["value"]
    for path, name, body in (("/health", "Health", None), ("/ready", "Ready", None), ("/info", "Info", None), ("/demo", "Demo", None),
                             ("/v1/models", "Models", None), ("/predict", "Chunk", example),
                             ("/predict", "Chunk", {**example, "return_normalized": True, "state_dtype": "float64"})):
        status, reply = service.ask(path, body)
        if status != 200:
            yield f"{path}: {status} {reply}"
            continue
        yield from fits(doc, name, reply)
    status, demo = service.ask("/demo")
    if status == 200 and service.ask("/predict", demo["request"])[0] != 200:
        yield "what /demo hands out is refused"


def refusals_are_those_of_the_table(service):
    """Status, code and body as docs/API.md says."""
    doc = contract().document()
    table = API[API.index("| status | `code` |"): API.index("## Limits")]
    rows = {(int(s), c) for s, codes in re.findall(r"^\| (\d+) \| ([^|]*) \|", table, re.M) for c in re.findall(r"`([a-z0-9_]+)`", codes)}
    good = doc["components"]["examples"]["PredictGr1"]["value"]
    camera, arm, text = *good["images"], good["state"]["left_arm"], good["instruction"]
    state = lambda x: {"state": {**good["state"], "left_arm": x}}
    picture = lambda x: {"images": {camera: x}}
    cases = [({"images": {}}, 400, "missing_camera"), ({"images": {**good["images"], "x": ""}}, 400, "unknown_camera"),
             (picture([]), 400, "wrong_frame_count"), (picture("????"), 400, "bad_base64"), (picture("aGVsbG8="), 400, "not_an_image"),
             (picture(good["images"][camera][:80]), 400, "bad_image"), (picture(None), 422, "wrong_type"),
             ({"state": {**good["state"], "x": []}}, 400, "unknown_group"), ({"state": {}}, 400, "missing_group"), (state(arm[:6]), 400, "wrong_width"),
             (state([float("nan"), *arm[1:]]), 400, "not_finite"), (state([1e39, *arm[1:]]), 400, "not_finite"), (state([None, *arm[1:]]), 422, "wrong_type"),
             ({"instruction": " .!"}, 400, "empty_instruction"), ({"instruction": "x" * 2001}, 400, "long_instruction"),
             ({"instruction": "pick one pear " * 10}, 400, "long_instruction"), ({"prompt": text}, 422, "two_instructions"),
             ({"instruction": None}, 422, "missing_field"), ({"embodiment": "GR1"}, 400, "unknown_embodiment"), ({"seed": -1}, 422, "out_of_range"),
             ({"seed": 2**64}, 422, "out_of_range"), ({"seed": 0.5}, 422, "out_of_range"), ({"noise": [[0.0] * 128] * 50}, 400, "seed_with_noise"),
             ({"seed": None, "noise": [[0.0] * 128] * 16}, 400, "wrong_shape"), ({"state_dtype": "float16"}, 422, "unknown_value"),
             ({"return_normalized": "true"}, 422, "wrong_type"), ({"instuction": text}, 422, "unknown_field")]
    asked = [("/predict", {**good, **change}, {}, status, code) for change, status, code in cases]
    asked += [("/predict", b"{:}", {}, 422, "invalid_json"), ("/predict", b'{"seed": 1, "seed": 1}', {}, 422, "duplicate_key"),
              ("/predict", good, {"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
              ("/predict", good, {"Content-Encoding": "gzip"}, 415, "unsupported_encoding"), ("/predict", None, {}, 405, "method_not_allowed"),
              ("/nothing", None, {}, 404, "not_found"), ("/health", None, {"X-Long": "x" * 20000}, 431, "head_too_large")]
    for path, body, headers, status, code in asked:
        got, reply = service.ask(path, body, headers)
        what = f"{path} with {str(body)[-60:]}" if body else path
        if not isinstance(reply, dict) or (got, reply.get("error", {}).get("code")) != (status, code):
            yield f"{what}: {got} {str(reply)[:160]}, expected {status} {code}"
        else:
            yield from fits(doc, "Error", reply)
        if (status, code) not in rows:
            yield f"docs/API.md has no row {status} {code}"
    accepted = [{"seed": None}, {"seed": 42.0}, {"instruction": None, "language": text}, {"seed": None, "noise": [[[0.0] * 128] * 50]},
                picture([good["images"][camera]]), picture("data:image/jpeg;base64," + good["images"][camera]), state([arm]), {"embodiment": None}]
    for change in accepted:
        if service.ask("/predict", {**good, **change})[0] != 200:
            yield f"{str(change)[:60]} is refused, docs/API.md says it is accepted"
    if service.ask("/predict", b"\xef\xbb\xbf" + json.dumps(good).encode(), {"Content-Type": "application/vnd.x+json; charset=utf-8"})[0] != 200:
        yield "a byte order mark or +json is refused"


def the_client_of_the_api_page_works(service):
    code = re.search(r"```python\n(.*?)```", API, re.S).group(1)
    (service.folder / "build").mkdir()
    (service.folder / "build/demo").symlink_to("../demo")  # where `make demo` puts it
    client = service.folder / "client.py"
    client.write_text(code.replace("port=20000", f"port={service.port}"), encoding="utf-8")
    r = subprocess.run([sys.executable, client], cwd=service.folder, capture_output=True, text=True, check=False)
    if r.returncode != 0 or len(r.stdout.splitlines()) != 16:
        yield f"the Python client of docs/API.md: exit {r.returncode}, {r.stdout[-200:]}{r.stderr[-400:]}"
    lines = re.findall(r"^ {4}(curl .*)$", API, re.M)
    for line in lines if shutil.which("curl") else []:
        r = subprocess.run(["sh", "-c", line.replace("http://127.0.0.1:20000", service.url).replace("python3", sys.executable)], cwd=service.folder,
                           capture_output=True, text=True, check=False)
        if r.returncode != 0 or (line is lines[-1] and '"actions"' not in r.stdout):
            yield f"{line}: exit {r.returncode}, {r.stdout[:200]}{r.stderr[:200]}"


def the_loop_of_the_examples_works(service):
    """Two seconds of it: 40 steps, nearly all of which find a row; a run on a busy machine may find fewer, so the best of ten counts."""
    rows = 0
    for _ in range(10):
        r = subprocess.run([sys.executable, ROOT / "examples/loop.py", service.url, "2"], capture_output=True, text=True, check=False, timeout=240)
        m = re.fullmatch(r"(\d+) rows commanded, (\d+) steps held, 20 steps a second\n", r.stdout)
        if r.returncode != 0 or not m or int(m.group(1)) + int(m.group(2)) not in (40, 41):
            yield f"examples/loop.py: exit {r.returncode}, {r.stdout[-200:]}{r.stderr[-400:]}"
            return
        rows = max(rows, 0 if r.stderr else int(m.group(1)))
        if rows >= 20:
            return
    yield f"examples/loop.py: {rows} of 40 steps find a row at best: {r.stdout[-200:]}{r.stderr[-400:]}"


def the_table_of_joints_is_that_of_info(service):
    groups = {g["key"]: g for g in service.ask("/info")[1]["inputs"]["state"]["groups"]}
    table = API[API.index("### Joints of gr1"): API.index("## Reply")]
    cell = lambda g, i: [f"{groups[g]['normalization'][side][i]:.3f}" for side in ("min", "max")]
    seen, heads = 0, []
    for row in re.findall(r"^\| (.*) \|$", table, re.M):
        place, names, *ranges = [x.strip() for x in row.split("|")]
        if not place:
            heads = [x.strip("`") for x in ranges if x]
            continue
        for group, text, name in zip(heads, ranges, re.findall(r"`(\w+)`", names)) if place.isdigit() else ():
            i, told = int(place), re.findall(r"-?\d+\.\d+", text)
            seen += 1
            if groups[group]["joints"][i] != name or any(abs(float(a) - float(b)) > 0.0055 for a, b in zip(told, cell(group, i))) or len(told) != 2:
                yield f"docs/API.md: {group}[{i}] is {name} {told}, /info has {groups[group]['joints'][i]} {cell(group, i)}"
    if seen != 29:
        yield f"docs/API.md: {seen} joints in the table"


def client_commands_of_the_readme_work(service):
    for line in dict.fromkeys(re.findall(r"^ {4}\./(gr00t (?:smoke|curl|bench http|plot) .*)$", README + OPERATIONS + API, re.M)):
        words = line.replace("http://127.0.0.1:20000", service.url).split()[1:]
        r = subprocess.run([GR00T, *words], cwd=service.folder, capture_output=True, text=True, check=False)
        if r.returncode != 0:
            yield f"{line}: exit {r.returncode}, {r.stdout[-200:]}{r.stderr[-300:]}"


def landmarks_and_metrics_of_a_live_service(service):
    status, text = service.ask("/metrics")
    names = set(re.findall(r"^# TYPE ([a-z0-9_]+) ", text, re.M)) if status == 200 else set()
    for name in names:
        if name not in OPERATIONS:
            yield f"docs/OPERATIONS.md lacks {name}"
    if not names:
        yield f"/metrics: {status}"
    code = service.end()
    log = (service.folder / "log").read_text(encoding="utf-8")
    table = OPERATIONS[OPERATIONS.index("| line begins with |"): OPERATIONS.index("A start that fails")]
    at = 0
    for landmark in re.findall(r"^\| `([^`]*)`", table, re.M):
        if log.find(landmark, at) < 0:
            yield f"the log has no line {landmark!r} behind the one before"
        at = max(at, log.find(landmark, at))
    if code != 0:
        yield f"exit code {code} after SIGTERM"


def metrics_are_those_of_the_server():
    source = (ROOT / "src/server/metrics.c").read_text(encoding="utf-8")
    served = set(re.findall(r'"((?:gr00t|process)_[a-z_]+)"', source))
    for name in served:
        if not re.search(rf"`{name}(?:\{{[^`]*)?`", OPERATIONS):
            yield f"docs/OPERATIONS.md lacks {name}"
    for path, text in {**DOCS, **CONTRIB}.items():
        for m in re.finditer(r"\b(?:gr00t|process)_(?:[a-z]+_)*(?:total|seconds|bytes|fds|depth|capacity|busy|info|state|connections|requests)"
                             r"(?:_bucket|_sum|_count)?\b", text):
            if re.sub(r"_(bucket|sum|count)$", "", m.group(0)) not in served:
                yield f"{where(path, text, m.start())}: no metric {m.group(0)}"


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
    tests = [links_lead_somewhere, commands_exist, commands_are_documented, options_are_documented, make_targets_exist, files_exist, environment_variables_are_read,
             exit_codes_are_documented, openapi_json_is_made_from_the_yaml, openapi_schemas_and_examples_are_valid,
             routes_are_those_of_the_server, error_codes_are_those_of_the_server, metrics_are_those_of_the_server, setup_is_brief_and_tells_failures]
    if pathlib.Path("/usr/bin/apt-get").exists():
        tests.append(setup_knows_its_options)
    live = [replies_fit_the_contract, refusals_are_those_of_the_table, the_client_of_the_api_page_works, the_loop_of_the_examples_works,
            the_table_of_joints_is_that_of_info, client_commands_of_the_readme_work, landmarks_and_metrics_of_a_live_service]  # the last one ends the service
    failed = 0
    print(f"1..{len(tests) + len(live)}")
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder)
        try:
            for number, test in enumerate(tests + live, 1):
                faults = sorted(set(test(service) if test in live else test()))
                failed += bool(faults)
                print(f"{'not ok' if faults else 'ok'} {number} - {test.__name__}", flush=True)
                for fault in faults:
                    print(f"# {fault}")
        finally:
            if service.process.poll() is None:
                service.end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
