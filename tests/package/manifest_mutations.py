#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutated manifests: two sound documents, one change each, and what a reader has to say to it.

`mutations(seed, n)` makes changes; `apply(change)` gives the text of the changed document. manifest_mutations.jsonl holds such changes with the
verdict and the key at fault, so that tests need nothing else. Run as a program with the folder of the reference (manifest_check.py) it writes that
file anew: verdicts are those of the program under test (GR00T_BIN), and it stops where the reference disagrees and STRICTER gives no reason.
"""
import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "manifest_mutations.jsonl"

SERVE = {"hardware": "p150", "mesh_device": "P150", "port": 8000, "max_model_len": 4096, "max_num_seqs": "8", "block_size": 64.0,
         "server_timeout": 600, "capabilities": {"tool_parser": "t", "reasoning_parser": None},
         "additional_config": {"a": 1, "b": {"c": [1, "x"], "d": None}}, "args": ["--flag", ["--n", 4]],
         "env": {"ARCH_NAME": "blackhole", "N": "2"}}
PROFILES = [{"name": "cpu", "description": "no card", "env": {"N": "3"}},
            {"name": "two", "hardware": "p300", "mesh_device": "(1, 2)", "args": [["--m", "1"]], "env": {}},
            {"name": "four", "hardware": "p150x4", "mesh_device": "P150x4", "description": None, "additional_config": {"b": {"c": []}}}]
CARD = {"description": "what it is", "performance": "fast", "limitations": "some", "pipeline_tag": "robotics", "base_model": ["org/base"],
        "license": {"id": "other", "name": "some-license", "link": "https://example.org/license"}}
AUTHORING = {
    "schema": "5.1", "repo": "org/package", "name": "some-package", "weights": {
        "repo": "org/weights", "revision": "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61", "allow_patterns": ["*.json", "LICENSE"],
        "ignore_patterns": None},
    "auxiliary_weights": ["org/more", {"repo": "org/third", "revision": "v1.0"}], "kind": "tt-dit-server", "arch": "blackhole",
    "source": {"tt_metal": {"repo": "https://example.org/tree", "ref": "main"}, "code": ["models/common.py", "app"],
               "extra_code": [{"root": "code", "paths": ["server", "scripts/run.sh"]}], "ubuntu": "22.04", "python": "3.12"},
    "image": {"registry": "hf", "repository": "some-package"},
    "runtime": {"app": "server.main:app", "packages": ["fastapi", "pydantic>=2"], "lock": "requirements.lock", "mesh_shape_env": "MESH_SHAPE"},
    "serve": SERVE, "serve_profiles": PROFILES, "default_profile": "cpu", "verify": ["import server"], "card": CARD}
WIRE = {
    "schema_version": "5.1", "name": "some-package", "tt_metal_version": "none", "arch": "blackhole", "device_count": 1,
    "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-11-29T00:00:00+00:00", "hostname": "build-host"},
    "weights": {"repo_id": "org/weights", "revision": "main", "allow_patterns": ["*.json"], "ignore_patterns": None, "repo_type": "model"},
    "auxiliary_weights": [{"repo": "org/more", "revision": None}], "mesh": None, "entrypoint": None, "resources": None, "capabilities": None,
    "env": {}, "bundled": None, "deps": None,
    "container": {
        "image": {"registry": "hf", "repository": "some-package", "tag": "tt-model/some-package:1e56bb8e83ad", "digest": "sha256:" + "1e" * 32},
        "kind": "tt-dit-server", "runtime": {"app": "server.main:app", "mesh_shape_env": "MESH_SHAPE", "lock": "requirements.lock"},
        "serve": SERVE, "serve_profiles": PROFILES, "default_profile": "cpu", "code_dir": "code", "verify": [],
        "built": {"image": "x", "repo": "org/package", "tt_model_version": "0.1.0", "code_sha256": "0" * 64, "tt_metal": {"dirty": False}},
        "card": CARD}}
DOCUMENTS = {"authoring": AUTHORING, "wire": WIRE}

# Where we refuse and the reference does not, or stumbles: what becomes a path, a name, an argument or a number must be one.
STRICTER = [
    ("authoring", r"(auxiliary_weights|source\.extra_code|serve_profiles|card|default_profile)$", "false, 0, \"\" or {} for a list, mapping or name"),
    ("", r"^name$", "\"..\" in what becomes a folder"),
    ("authoring", r"card\.", "types of the card's values, the Hub's form of license.name"),
    ("authoring", r"image\.", "image names are arguments"),
    ("authoring", r"runtime\.(packages|lock)", "types; a lock is a file beside the manifest"),
    ("authoring", r"source\.(code|extra_code\[\d\]\.paths)\[", "an empty path"),
    ("authoring", r"source\.(tt_metal|extra_code\[\d\]\.root)(\.repo|\.ref)?$", "an empty folder, repository or commit"),
    ("authoring", r"source\.(ubuntu|python)$", "empty"),
    ("authoring", r"(weights|auxiliary_weights\[\d\])(\.repo|\.revision)?$|repo$", "names of repositories and revisions become folders"),
    ("wire", r"(weights|auxiliary_weights)", "types; names of repositories and revisions become folders"),
    ("wire", r"producer\.hostname$|device_count$|default_profile$", "types; a negative or boolean count"),
    ("wire", r"container\.(kind|runtime|code_dir|verify|built|card|serve_profiles|default_profile)", "types, paths and names of what is used"),
    ("wire", r"container\.image\.(registry|repository|tag)$", "image names are arguments"),
    ("", r"serve\.(args|additional_config)|serve_profiles\[\d\]\.(args|additional_config)", "arguments are strings, lists of them, or integers"),
    ("", r"(serve|serve_profiles\[\d\])\.(port|max_model_len|max_num_seqs|block_size|server_timeout)$", "booleans, negative or too large numbers"),
    ("", r"serve_profiles\[\d\]\.name$", "a profile's name becomes that of a container and a file; once only"),
    ("", r"serve_profiles\[\d\]\.env|serve\.env", "an empty name of a variable"),
    ("", r"(serve|serve_profiles\[\d\])\.(hardware|mesh_device)$", "an empty label"),
]
VALUES = [None, True, False, 0, 5, -1, 5.1, 8000.0, 1.5e300, "x", "", "8000", "+5", "../up", "/abs", "a/b", "A b", "org/weights", "cpu", [], {}, ["x"],
          [["--a", 1]], [5], [None], {"x": 1}, {"x": None}, {"repo": "a/b"}, "P300", "P150x8", "(2, 2)", "(1, 1)", "p150a", "q150", "p150x2",
          "vllm-plugin", "wormhole_b0", "5", "6", "a..b", "-rf", "server.x:y", "other.x:y", "9VAR", "sha256:00"]


def places(doc, path=()):
    """All paths of a document, the root first."""
    yield list(path)
    items = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    for k, v in items:
        yield from places(v, (*path, k))


KEYS = sorted({p[-1] for doc in DOCUMENTS.values() for p in places(doc) if p and isinstance(p[-1], str)})


def at(doc, path):
    for k in path:
        doc = doc[k]
    return doc


def typo(rng, word):
    i = rng.randrange(len(word))
    return rng.choice([word[:i] + word[i + 1:] or "q", word + "s", word[:i] + "q" + word[i + 1:], word[::-1], word.upper()])


def mutations(seed, n):
    """n different changes: {"form", "op": "set" | "del" | "add", "path", "value"}."""
    rng = random.Random(seed)
    seen = set()
    while len(seen) < n:
        form = rng.choice(["authoring", "authoring", "wire"])
        doc = DOCUMENTS[form]
        path = rng.choice(list(places(doc)))
        op = rng.choice(["set", "set", "set", "del", "add", "copy"])
        change = {"form": form, "op": op, "path": path}
        node = at(doc, path)
        if op == "set":
            change["value"] = rng.choice(VALUES)
        elif op == "add":
            if not isinstance(node, dict):
                continue
            word = typo(rng, rng.choice(list(node) or ["x"])) if rng.random() < 0.5 else rng.choice(KEYS)  # a key of another block
            change["path"] = [*path, word]
            change["op"], change["value"] = "set", rng.choice(VALUES)
            if change["path"][-1] in node:
                continue
        elif op == "copy":  # the same entry twice in a list
            if not isinstance(node, list) or not node:
                continue
            change["op"], change["value"] = "set", [*node, rng.choice(node)]
        if change["op"] == "del" and not path:
            continue
        line = json.dumps(change, sort_keys=True)
        if line not in seen and apply(change) is not None:
            seen.add(line)
            yield change


def changed(change):
    doc = copy.deepcopy(DOCUMENTS[change["form"]])
    path = change["path"]
    if not path:
        return change["value"]
    parent = at(doc, path[:-1])
    if change["op"] == "del":
        del parent[path[-1]]
    else:
        parent[path[-1]] = change["value"]
    return doc


def apply(change):
    """The text: JSON, which is YAML of one long flow mapping too. None: the change changes nothing."""
    doc = changed(change)
    if json.dumps(doc) == json.dumps(DOCUMENTS[change["form"]]):
        return None
    return json.dumps(doc, indent=1)


def verdict(program, form, text, folder):
    """("accepted", "", "") or ("refused", key, message) of `gr00t manifest check`; anything else is a fault."""
    fd, path = tempfile.mkstemp(".yaml" if form == "authoring" else ".json", "changed", folder)
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        f.write(text)
    p = subprocess.run([program, "manifest", "check", path], capture_output=True, timeout=60, check=False)
    os.unlink(path)
    err = p.stderr.decode("utf-8", "replace")
    if p.returncode == 0:
        return "accepted", "", ""
    assert p.returncode == 4, f"exit {p.returncode}: {err} for {text}"
    message = err.strip().removeprefix("gr00t: manifest check: ").removeprefix(path)
    m = re.fullmatch(r"(?::(\d+):(\d+))?: ([^ :]+): .+", message)
    assert m, f"a message without a key: {err}"
    assert form == "wire" or m.group(1), f"a message without a place: {err}"
    return "refused", m.group(3), message


# ---- the reference ----

# Ours and theirs for the same fault: a profile without its proper name is one that nobody finds, a root that is not read ships no app.
SAME = [("name", "default_profile"), ("serve_profiles", "default_profile"), ("repo", "weights"), ("repo_id", "weights"), ("extra_code", "app")]
REFERENCE_KEYS = [  # message -> the key it is about
    (r".*unknown key '?([^']*)'?$", r"\1"), (r".*unknown key (.*)$", r"\1"), (r"runtime key '([^']*)' .*", r"\1"),
    (r"serve profile '.*': (hardware|mesh_device|max_num_seqs|block_size) .*", r"\1"), (r"serve profile '.*': mesh .*", "mesh_device"),
    (r"invalid mesh_device .*", "mesh_device"), (r"duplicate serve profile names", "name"), (r"duplicate weight repositories", "repo"),
    (r"several serve profiles need a default_profile|no serve profile named .*|default_profile .*", "default_profile"),
    (r"container.image.tag is required", "image"), (r"the package declares no serve profiles", "serve_profiles"), (r"unsupported manifest schema .*|schema must .*", "schema"),
    (r"unsupported bundle schema_version .*", "schema_version"), (r"no container block.*", "container"), (r"weights needs .*", "weights"),
    (r"(?:[\w\[\].]*\.)?(\w+)(?:\[\d+\])?(?::| is | must | needs | '|$).*", r"\1")]


def reference_key(message):
    for pattern, key in REFERENCE_KEYS:
        m = re.fullmatch(pattern, message, re.S)
        if m:
            return m.expand(key)
    return "?"


def reference(module, change):
    """("accepted", "") or ("refused", last part of the key; "?" when it stumbled)."""
    doc = json.loads(apply(change))
    try:
        (module.authoring if change["form"] == "authoring" else module.wire)(doc)
    except module.Refused as why:
        return "refused", reference_key(str(why))
    except Exception:  # it has no type checks in front of everything
        return "refused", "?"
    return "accepted", ""


def disagreement(ours, theirs, form):
    """"" when both readers say the same of a document, at the same key; else what differs."""
    if ours[0] == "accepted" and theirs[0] == "accepted":
        return ""
    if ours[0] == "refused" and theirs[0] == "refused":
        parts = re.sub(r"\[\d+\]", "", ours[1]).split(".")
        if theirs[1] == "?" or theirs[1] in parts or (parts[-1], theirs[1]) in SAME:
            return ""
        return f"key {ours[1]}, the reference names {theirs[1]}"
    if ours[0] == "refused" and any(form.startswith(f) and re.search(p, ours[1]) for f, p, why in STRICTER):
        return ""
    return f"{ours[0]} {ours[1]}, the reference: {theirs[0]} {theirs[1]}"


def load_reference(folder):
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    import manifest_check
    return manifest_check


def main():
    module = load_reference(sys.argv[1])
    program = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
    wrong = 0
    lines = []
    with tempfile.TemporaryDirectory() as tmp:
        for change in mutations(int(sys.argv[2]) if len(sys.argv) > 2 else 6, int(sys.argv[3]) if len(sys.argv) > 3 else 330):
            ours = verdict(program, change["form"], apply(change), tmp)
            why = disagreement(ours, reference(module, change), change["form"])
            if why:
                wrong += 1
                print(f"{json.dumps(change)}: {why}; {ours[2]}")
            lines.append(json.dumps({**change, "verdict": ours[0], "key": ours[1]}) + "\n")
    refused = sum('"refused"' in line for line in lines)
    print(f"{len(lines)} changes, {refused} refused, {wrong} disagreements")
    if not wrong and len(sys.argv) <= 2:
        TABLE.write_text("".join(lines), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
