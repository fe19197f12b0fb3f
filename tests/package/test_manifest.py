#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of `gr00t manifest check`: our package source, a stored table of mutated manifests, damaged files, and, where the reference reader
(packaging/manifest_check.py) is at hand, the same verdict at the same key as its.

In: GR00T_BIN, the program; GR00T_SOURCE_ROOT. Out: TAP lines.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../cli")]
import manifest_mutations as mutated  # noqa: E402
from tap import Skip, contains, equal, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
ROOT = pathlib.Path(os.environ.get("GR00T_SOURCE_ROOT", os.path.join(HERE, "../.."))).resolve()
EXAMPLES = ROOT / "tests/data/manifest/examples"
SOURCE = (ROOT / "tt-model.yaml").read_text(encoding="utf-8")
TMP = ""


def check(*args, cwd=None):
    p = subprocess.run([BIN, "manifest", "check", *map(str, args)], capture_output=True, timeout=60, check=False, cwd=cwd)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    return p


def accepts(*args, **more):
    p = check(*args, **more)
    assert p.returncode == 0, f"exit {p.returncode}: {p.err}"
    return p.out


def refuses(code, *args, says=(), **more):
    p = check(*args, **more)
    equal(p.returncode, code, f"{p.out} {p.err}")
    lines = p.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("gr00t: manifest check: "), p.err
    contains(lines[0], *says)
    return p


def put(text, name="m.yaml"):
    path = os.path.join(TMP, name)
    pathlib.Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def reference():
    return mutated.load_reference(HERE)


# ---- our own package source ----

@test
def our_package_source_is_accepted_and_its_files_are_there():
    out = accepts("--base", ROOT, ROOT / "tt-model.yaml")
    contains(out, "authoring manifest, schema 5.1: accepted", "gr00t-n1.6-3b-native", "tt-dit-server for blackhole",
             "nvidia/GR00T-N1.6-3B @ d0814e7ecb19202e7c8468b46098b0b7ef3a6d61", "cpu   default  p150, P150", "p150           p150, P150")
    refuses(4, "--base", TMP, ROOT / "tt-model.yaml", says=("tt-model.yaml:19:10: source.code: ", "does not exist"))


@test
def json_output_says_what_the_text_says():
    v = json.loads(accepts("--json", ROOT / "tests/data/manifest/package.yaml"))
    equal((v["accepted"], v["form"], v["schema"], v["name"], v["kind"]), (True, "authoring", "5.1", "some-package", "tt-dit-server"))
    equal([w["repo"] for w in v["weights"]], ["org/weights", "org/more", "org/third"])
    four = v["profiles"][1]
    equal((four["name"], four["default"], four["chips"], four["args"]), ("four", True, 4, ["--m", "-1"]))
    equal(four["env"], {"ARCH_NAME": "wormhole_b0", "N": "3", "EMPTY": "", "M": "yes"})
    p = check("--json", put("name: 5\n"))
    v = json.loads(p.out)
    equal((p.returncode, v["accepted"]), (4, False))
    assert v["reason"] in p.err, p.err


@test
def a_folder_means_the_manifest_in_it():
    folder = os.path.join(TMP, "package")
    os.mkdir(folder)
    refuses(3, folder, says=("neither tt_kernel_manifest.json nor tt-model.yaml",))
    shutil.copy(ROOT / "tests/data/manifest/package.yaml", os.path.join(folder, "tt-model.yaml"))
    contains(accepts(folder), "authoring manifest")
    shutil.copy(ROOT / "tests/data/manifest/package_manifest.json", os.path.join(folder, "tt_kernel_manifest.json"))
    contains(accepts(folder), "wire manifest", "tt-model/some-package:1e56bb8e83ad")


@test
def a_file_of_any_name_is_recognised_by_its_first_character():
    contains(accepts(put(SOURCE, "plain")), "authoring manifest")
    contains(accepts(put("\n" + (ROOT / "tests/data/manifest/package_manifest.json").read_text(), "plain")), "wire manifest")
    refuses(2, "--base", TMP, put((ROOT / "tests/data/manifest/package_manifest.json").read_text(), "w.json"), says=("--base is for authoring",))


@test
def the_stored_wire_manifest_has_the_layout_of_two_blanks():
    text = (ROOT / "tests/data/manifest/package_manifest.json").read_text(encoding="utf-8")
    equal(text, json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n")


# ---- changes to the text of our package source ----

TEXTS = [  # what, by what, then the start of the message behind the file's name; "": accepted
    ('schema: "5.1"', "schema: 5.1", ":6:9: schema: expected a string, found a number: quote it, \"5.1\""),
    ('schema: "5.1"', 'schema: "6"', ":6:9: schema: expected \"5.1\", found \"6\""),
    ('schema: "5.1"', 'schema_version: "5.1"', ""),
    ('schema: "5.1"', "", ""),
    ('schema: "5.1"', 'schma: "5.1"', ":6:1: schma: unknown key, did you mean schema?"),
    ("name: gr00t", "name: GR00T", ":8:7: name: expected a-z"),
    ("name: gr00t-n1.6-3b-native", "name: 2026-01-01", ":8:7: name: expected a string, found a date"),
    ("name: gr00t-n1.6-3b-native", "name: yes", ":8:7: name: expected a string, found a boolean"),
    ("name: gr00t-n1.6-3b-native", "name: ~", ":8:7: name: expected a string, found null"),
    ("name: gr00t-n1.6-3b-native\n", "", ":6:1: name: required"),
    ("  repo: nvidia/GR00T-N1.6-3B", "  repo: GR00T-N1.6-3B", ":10:9: weights.repo: expected a repository ORG/NAME"),
    ("kind: tt-dit-server", "kind: http-server", ":13:7: kind: expected one of tt-dit-server"),
    ("kind: tt-dit-server", "kind: vllm-plugin", "serve_profiles[0].max_num_seqs: required"),
    ("arch: blackhole", "arch: grayskull", ":14:7: arch: expected one of blackhole, wormhole_b0"),
    ("image: {registry: hf}", "image: {registry: hf", "not valid YAML"),
    ("image: {registry: hf}", "image:", ":15:7: image: expected a mapping, found null"),
    ("code: [gr00t]", "code: [../gr00t]", ":19:10: source.code[0]: expected a path below its root"),
    ("code: [gr00t]", "code: [/gr00t]", ":19:10: source.code[0]: expected a path below its root"),
    ("code: [gr00t]", "code: []", ":19:9: source.code: expected at least one path"),
    ("code: [gr00t]", "code: gr00t", ":19:9: source.code: expected a list"),
    ("code: [gr00t]", "code: [gr00tt]", "runtime.app: its top package \"gr00t\""),
    ('python: "3.12"', "python: 3.12", "source.python: expected a string, found a number: quote it, \"3.12\""),
    ('python: "3.12"', "pyton: \"3.12\"", "source.pyton: unknown key, did you mean python?"),
    ("root: docs", "root: [docs]", "source.extra_code[1].root: expected a mapping"),
    ('app: "gr00t.native:app"', "app: gr00t.native", "runtime.app: expected module.path:attribute"),
    ('app: "gr00t.native:app"', 'app: "gr00t.native:app"\n  mesh_shape_env: 9A', "runtime.mesh_shape_env: expected the name of a variable"),
    ('app: "gr00t.native:app"', 'app: "gr00t.native:app"\n  command: [x]', "runtime.command: unknown key"),
    ("port: 8000", "port: \"8000\"", ""),
    ("port: 8000", "port: 8000.0", ""),
    ("port: 8000", "port: 0x1F40", ""),
    ("port: 8000", "port: 2:13:20", ""),
    ("port: 8000", "port: 8000.5", "serve.port: expected an integer, found a number"),
    ("port: 8000", "port: on", "serve.port: expected an integer, found a boolean"),
    ("port: 8000", "port: 80000", "serve.port: expected 1 to 65535, found 80000"),
    ("port: 8000", "port: 2026-01-01", "serve.port: expected an integer, found a date"),
    ("port: 8000", "prot: 8000", "serve.prot: unknown key, did you mean port?"),
    ("mesh_device: P150", "mesh_device: P300", "serve_profiles[0].mesh_device: 1x2 has 2 chips, but hardware p150 has 1"),
    ("mesh_device: P150", "mesh_device: (1, 1)", ""),
    ("mesh_device: P150", "mesh_device: P151", "serve_profiles[0].mesh_device: expected a known mesh"),
    ("hardware: p150", "hardware: q150", "serve_profiles[0].hardware: expected a board"),
    ("hardware: p150", "hardware: p150a", ""),
    ("  hardware: p150 ", "  #", "serve_profiles[0].hardware: required"),
    ("GR00T_EMBODIMENT: gr1", "GR00T_EMBODIMENT: 2", "serve.env.GR00T_EMBODIMENT: expected a string, found an integer: quote it, \"2\""),
    ("GR00T_EMBODIMENT: gr1", "GR00T_EMBODIMENT: no", "serve.env.GR00T_EMBODIMENT: expected a string, found a boolean"),
    ("GR00T_EMBODIMENT: gr1", "2: gr1", "serve.env.2: expected a string as the variable's name"),
    ("GR00T_EMBODIMENT: gr1", "TT_WEIGHTS_REVISION: gr1", "TT_WEIGHTS_REVISION: key given twice, first at "),
    ("TT_WEIGHTS_REVISION: d0814e7e", "TT_WEIGHTS_REVISION: e0814e7e", ":44:26: serve.env.TT_WEIGHTS_REVISION: is \"e0814e7e"),
    ("TT_WEIGHTS_REVISION: d0814e7ecb", "TT_WEIGHTS_REVISION: main # ", "is \"main\", but weights.revision is \"d0814e7ecb19202e7c8468b46098b0b7ef3a6d61\""),
    ("  revision: d0814e7e", "  revision: e0814e7e", ":44:26: serve.env.TT_WEIGHTS_REVISION: is \"d0814e7e"),
    ("  revision: d0814e7ecb", "  # ", ""),
    ("env: {GR00T_DEVICE: cpu}", "env: {TT_WEIGHTS_REVISION: main}", ":49:32: serve_profiles[0].env.TT_WEIGHTS_REVISION: is \"main\", but weights.revision is"),
    ("env: {GR00T_DEVICE: cpu}", "env: {TT_WEIGHTS_REVISION: d0814e7ecb19202e7c8468b46098b0b7ef3a6d61}", ""),
    ("  - name: cpu", "  - name: cpu\n  - name: cpu", "serve_profiles[1].name: \"cpu\" is the name of serve_profiles[0] already"),
    ("  - name: cpu", "  - name: other\n  - name: cpu", ""),
    ("  - name: cpu", "  - name: ../cpu", "serve_profiles[0].name: expected letters"),
    ("default_profile: cpu", "default_profile: gpu", "default_profile: \"gpu\" names no profile, expected cpu, p150"),
    ("default_profile: cpu", "", "default_profile: required with 2 serve profiles"),
    ("name: nvidia-license", "name: NVIDIA License", "card.license.name: expected a short name"),
    ("pipeline_tag: robotics", "pipeline_tag: 5", "card.pipeline_tag: expected a string"),
    ("pipeline_tag: robotics", "tags: [x]", "card.tags: unknown key"),
    ("card:\n", "verify: [import x, 5]\ncard:\n", "verify[1]: expected a string, found an integer"),
    ("card:\n", "verify: [import x]\ncard:\n", ""),
    ("serve:\n", "serve:\n  additional_config: {when: 2026-01-01}\n", "serve.additional_config: JSON cannot hold a date"),
    ("serve:\n", "serve:\n  additional_config: {deep: {list: [1, 2.5, yes, null, \"x\"]}}\n", ""),
    ("serve:\n", "serve:\n  args: [--x, [--y, 1], \"a b\"]\n", ""),
    ("serve:\n", "serve:\n  args: [--x, 1.5]\n", "serve.args[1]: expected a string"),
    ("serve:\n", "serve:\n  name: x\n", "serve.name: unknown key"),
    ("serve:\n", "serve:\n  <<: {server_timeout: 60}\n", ""),
    ("serve:\n", "serve:\n  <<: {server_timout: 60}\n", "serve.server_timout: unknown key, did you mean server_timeout?"),
    ("serve:\n", "serve:\n\thardware: x\n", "not valid YAML"),
    ("port: 8000", "port: 8000\t# tab", "a tab between values"),
    ("card:\n", "---\ncard:\n", "a second document"),
    ("card:\n", "card: &c\n  related: *c\n", "an alias inside the value that it stands for"),
    ("card:\n", "card:\n  related: !!python/object:os.system x\n", "only the core types of YAML are read"),
]


@test
def changed_lines_are_accepted_or_refused_at_their_place():
    lines = []
    for old, new, says in TEXTS:
        assert SOURCE.count(old) >= 1, f"{old!r} is not in tt-model.yaml"
        text = SOURCE.replace(old, new, 1)
        p = check(put(text))
        if not says:
            ok = p.returncode == 0
        else:
            ok = p.returncode == 4 and says in p.err and (not says.startswith(":") or f"m.yaml{says}" in p.err) and re.search(r"m\.yaml:\d+:\d+: ", p.err)
        if not ok:
            lines.append(f"{old!r} -> {new!r}: exit {p.returncode}, {p.err.strip()!r}, expected {says!r}")
    assert not lines, "\n# ".join(lines)


@test
def changed_lines_get_the_verdict_of_the_reference():
    module = reference()
    try:
        import yaml
    except ImportError:
        raise Skip("PyYAML is not here") from None
    # ours are stricter there: a profile's name becomes a path, ports are ports, the Hub's license names, JSON, tags, duplicates, aliases
    stricter = ("name: expected letters", "expected 1 to 65535", "found a boolean", "card.license.name", "card.pipeline_tag", "JSON cannot hold", "args[1]", "key given twice",
                "inside the value", "weights.revision is", "TT_WEIGHTS_REVISION: is")
    wrong = []
    for old, new, says in TEXTS:
        text = SOURCE.replace(old, new, 1)
        try:
            module.authoring(yaml.safe_load(text))
            theirs = ""
        except module.Refused as why:
            theirs = str(why)
        except Exception as why:
            theirs = f"? {why}"
        if bool(theirs) != bool(says) and not any(s in says for s in stricter):
            wrong.append(f"{old!r} -> {new!r}: ours {says!r}, the reference {theirs!r}")
        elif theirs and says and not theirs.startswith("?"):
            m = re.match(r"(?::\d+:\d+: )?([^ :]+): ", says)
            why = m and mutated.disagreement(("refused", m.group(1)), ("refused", mutated.reference_key(theirs)), "authoring")
            if why:
                wrong.append(f"{old!r} -> {new!r}: {why}")
    assert not wrong, "\n# ".join(wrong)


# ---- weights that stay the same ----

@test
def weights_that_can_change_are_warned_of():
    pinned = 'revision: d0814e7ecb19202e7c8468b46098b0b7ef3a6d61'
    own = "    TT_WEIGHTS_REVISION: d0814e7ecb19202e7c8468b46098b0b7ef3a6d61\n"
    equal(check(put(SOURCE)).err, "")
    for revision in ("main", "v1.6", "d0814e7", "D0814E7ECB19202E7C8468B46098B0B7EF3A6D61"):
        p = check(put(SOURCE.replace(pinned, f'revision: "{revision}"', 1).replace(own, "")))
        equal((p.returncode, p.err), (0, f'gr00t: warning: weights.revision: "{revision}" can move to other weights: give the 40 digits of a commit\n'))
    p = check("--json", put(SOURCE.replace("  " + pinned + "\n", "", 1).replace(own, "")))
    equal((p.returncode, json.loads(p.out)["accepted"]), (0, True))
    contains(p.err, "gr00t: warning: weights: no revision, so the weights are whatever is published that day")
    wire = json.loads((ROOT / "tests/data/manifest/examples/gr00t-native_manifest.json").read_text(encoding="utf-8"))
    equal(check(put(json.dumps(wire), "w.json")).err, "")
    wire["weights"]["revision"] = "0" * 40
    p = check(put(json.dumps(wire), "w.json"))  # somebody else's file, as it is: accepted
    equal(p.returncode, 0)
    contains(p.err, 'gr00t: warning: TT_WEIGHTS_REVISION is "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61", but weights.revision is ' + "0" * 40)


# ---- mutations ----

def compare(changes, want):
    wrong = []
    changes = list(changes)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # half of the time is that of starting processes
        verdicts = pool.map(lambda c: mutated.verdict(BIN, c["form"], mutated.apply(c), TMP), changes)
    for change, got in zip(changes, verdicts):
        why = want(change, got)
        if why:
            wrong.append(f"{json.dumps(change)}: {why}; {got[2]}")
    assert not wrong, f"{len(wrong)} of them, for instance\n# " + "\n# ".join(wrong[:8])


@test
def the_sound_documents_are_accepted():
    for form, doc in mutated.DOCUMENTS.items():
        equal(mutated.verdict(BIN, form, json.dumps(doc), TMP)[0], "accepted")


@test
def every_change_of_the_table_gets_its_verdict_at_its_key():
    table = [json.loads(line) for line in mutated.TABLE.read_text(encoding="utf-8").splitlines()]
    assert len(table) >= 300 and sum(c["verdict"] == "refused" for c in table) >= 150
    compare(table, lambda c, got: "" if got[:2] == (c["verdict"], c["key"]) else f"{got[:2]}, expected {c['verdict']} {c['key']}")


@test
def the_reference_says_the_same_of_fresh_changes():
    module = reference()
    compare(mutated.mutations(20261130, 120), lambda c, got: mutated.disagreement(got, mutated.reference(module, c), c["form"]))


@test
def the_published_examples_are_accepted():
    for name, says in (("tt-model.yaml", "GR00T-N1.6-3B-p150"), ("gr00t-native.yaml", "cpu   default"), ("tt_kernel_manifest.json", "schema 5.1"),
                       ("gr00t-native_manifest.json", "cpu   default")):
        contains(accepts(EXAMPLES / name), says)


# ---- files that mean harm, or are none ----

def cpu_s():
    """CPU time of the programs that have ended: unlike the time on the wall, it does not depend on what else runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@test
def hostile_files_end_soon_with_one_line():
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    cases = [
        (bomb, 4, "larger than 65536 values"), ("[" * 500000, 4, "nested deeper"), ("{" * 500000, 4, "nested deeper"), ("- " * 500000, 4, "nested deeper"),
        ("a: " + "!" * 900000, 4, "only the core types of YAML"), ("? " * 300000, 4, "m.yaml:"), ("&a " * 300000, 4, "not valid YAML"),
        ("".join(f"k{i}: 1\n" for i in range(60000)), 4, "more than 1024 keys"), ("name: \"\x00\"\n", 4, "not valid YAML"),
        (b"\xff\xfe" + "name: p\n".encode("utf-16-le"), 4, "not valid YAML"), (b"\x89PNG\r\n\x1a\n\x00", 4, "not valid YAML"), ("", 4, "manifest: expected a mapping"),
        ("<html></html>\n", 4, "manifest: expected a mapping, found a string"), ("#" * (2 << 20), 3, "m.yaml"), ("name: " + "x" * 900000, 4, "required"),
    ]
    for text, code, says in cases:
        start = cpu_s()
        refuses(code, put(text), says=(says,))
        assert cpu_s() - start < 5, f"{says}: {cpu_s() - start:.1f} s"
    many = SOURCE[:SOURCE.index("serve_profiles:")] + "serve_profiles:\n" + "".join(f"- {{name: a{i}}}\n" for i in range(21000))
    start = cpu_s()
    refuses(4, put(many), says=("serve_profiles: expected at most 256 entries, found 21000",))
    assert cpu_s() - start < 5, f"many profiles: {cpu_s() - start:.1f} s"
    for text, says in (("[" * 500000, "nested deeper"), ('{"name":"\\ud800"}', "w.json"), ('{"a":1,"a":2}', "twice"), ("{" + '"a":' * 3, "w.json"), ("null", "expected a mapping")):
        refuses(4, put(text, "w.json"), says=(says,))


@test
def messages_stay_one_printable_line():
    p = refuses(4, put('"a\\nb\\e[31mc": 1\n'), says=("unknown key",))
    assert "\x1b" not in p.err
    p = refuses(4, put("repo: org/p\nname: \"" + "\\e]0;x" * 200 + "\"\narch: x\n"), says=("name: expected a-z",))
    assert "\x1b" not in p.err


@test
def files_that_cannot_be_read_are_told():
    refuses(3, os.path.join(TMP, "absent.yaml"), says=("absent.yaml",))
    fifo = os.path.join(TMP, "fifo.yaml")
    os.mkfifo(fifo)
    refuses(3, fifo, says=("fifo.yaml",))
    refuses(2, says=("missing FILE",))
    refuses(3, "--base", os.path.join(TMP, "nowhere"), put(SOURCE), says=("nowhere",))


def main():
    global TMP
    TMP = tempfile.mkdtemp(prefix="gr00t-manifest-")
    try:
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
