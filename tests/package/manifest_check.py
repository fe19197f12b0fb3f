#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reference checks for tt-model.yaml and tt_kernel_manifest.json (schema 5.1).

    manifest_check.py authoring FILE [--base DIR]   accept or refuse an authoring file
    manifest_check.py wire FILE                     accept or refuse a wire manifest
    manifest_check.py run FILE [--profile P] [--port N] [--devices 0,1|all]
                      [--uid U:G] [--hf DIR] [--cache DIR] [--model-path repo|snapshot]
                                                    print the docker run line of a profile

Own re-statement of the rules in packaging.md, to compare a C program against.
Needs PyYAML for authoring files.  Prints OK, or one reason; exit 0 / 1.
"""

import argparse
import ast
import json
import os
import re
import shlex
import sys

MESH = {"N150": (1, 1), "P100": (1, 1), "P150": (1, 1), "P150x2": (1, 2), "N300": (1, 2), "P300": (1, 2),
        "N150x4": (1, 4), "P150x4": (1, 4), "T3K": (1, 8), "P150x8": (1, 8), "P300x2": (1, 4),
        "QB2": (2, 2), "TG": (4, 8), "BH-Galaxy": (4, 8)}
CHIPS = {"p100": 1, "p150": 1, "n150": 1, "e150": 1, "p300": 2, "n300": 2}
KINDS = ("tt-dit-server", "vllm-fork", "vllm-plugin")
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
READY = "Application startup complete"
DEFAULT_PORT = 20000


class Refused(Exception):
    pass


def need(ok, why):
    if not ok:
        raise Refused(why)


# -- type tables: name -> (type, required) ------------------------------------
STR, INT, LIST, DICT, STRS, STRMAP, ANY = "str int list dict strs strmap any".split()
SERVE = {"hardware": STR, "mesh_device": STR, "port": INT, "max_model_len": INT, "max_num_seqs": INT,
         "block_size": INT, "server_timeout": INT, "capabilities": "caps", "additional_config": DICT,
         "args": LIST, "env": STRMAP}
NULLABLE = {"hardware", "mesh_device", "port", "max_model_len", "max_num_seqs", "block_size",
            "server_timeout", "capabilities"}


def typed(v, t, where):
    if t == STR:
        need(isinstance(v, str), f"{where}: expected a string")
    elif t == INT:
        if isinstance(v, str) and re.fullmatch(r"[+-]?\d+", v):
            return
        need(isinstance(v, int) or (isinstance(v, float) and v == int(v)), f"{where}: expected an integer")
    elif t == LIST:
        need(isinstance(v, list), f"{where}: expected a list")
    elif t == DICT:
        need(isinstance(v, dict), f"{where}: expected a mapping")
    elif t == STRS:
        need(isinstance(v, list) and all(isinstance(x, str) for x in v), f"{where}: expected a list of strings")
    elif t == STRMAP:
        need(isinstance(v, dict), f"{where}: expected a mapping")
        for k, x in v.items():
            need(isinstance(k, str) and isinstance(x, str), f"{where}.{k}: names and values must be strings (quote them)")
    elif t == "caps":
        typed(v, DICT, where)
        for k, x in v.items():
            need(k in ("tool_parser", "reasoning_parser"), f"{where}: unknown key {k!r}")
            need(x is None or isinstance(x, str), f"{where}.{k}: expected a string")


def keys(d, allowed, where):
    need(isinstance(d, dict), f"{where}: expected a mapping")
    for k in d:
        need(k in allowed, f"{where}: unknown key {k!r}")


def serve_block(d, where, profile=False):
    extra = {"name", "description"} if profile else set()
    keys(d, set(SERVE) | extra, where)
    for k, v in d.items():
        if k in ("name", "description"):
            need(isinstance(v, str) or (k == "description" and v is None), f"{where}.{k}: expected a string")
        elif v is None:
            need(k in NULLABLE, f"{where}.{k}: null is not accepted")
        else:
            typed(v, SERVE[k], f"{where}.{k}")
    if profile:
        need(isinstance(d.get("name"), str), f"{where}: name is required")


def chips(label):
    m = re.match(r"^([a-z]\d+[a-z]?)(?:x(\d+))?$", label.strip().lower())
    if not m:
        return None
    per = CHIPS.get(m.group(1)) or CHIPS.get(re.sub(r"[a-z]$", "", m.group(1)))
    return per * int(m.group(2) or 1) if per else None


def mesh(value):
    try:
        t = ast.literal_eval(value)
        if isinstance(t, (tuple, list)) and len(t) == 2:
            return int(t[0]), int(t[1])
    except (ValueError, SyntaxError):
        pass
    need(value in MESH, f"invalid mesh_device {value!r}")
    return MESH[value]


def merge(base, over):
    out = dict(base)
    for k, v in over.items():
        if isinstance(v, dict) and isinstance(out.get(k), dict):
            out[k] = merge(out[k], v)
        elif v is not None and v != [] and v != {}:
            out[k] = v
    return out


def drop_none(d):
    return {k: drop_none(v) if isinstance(v, dict) else v for k, v in d.items() if v is not None}


def resolve(serve, profiles, default, name=None):
    want = name or default or (profiles[0]["name"] if profiles else None)
    need(want, "the package declares no serve profiles")
    for p in profiles:
        if p["name"] == want:
            return merge(drop_none(serve), drop_none(p))
    raise Refused(f"no serve profile named {want!r}; available: " + ", ".join(p["name"] for p in profiles))


def weights(w, where):
    if isinstance(w, str):
        w = {"repo": w}
    keys(w, {"repo", "revision", "allow_patterns", "ignore_patterns"}, where)
    need(isinstance(w.get("repo"), str), f"{where}.repo is required")
    need("/" in w["repo"], f"{where} must be a namespaced id (org/name)")
    for k in ("allow_patterns", "ignore_patterns"):
        if w.get(k) is not None:
            typed(w[k], STRS, f"{where}.{k}")
    need(w.get("revision") is None or isinstance(w["revision"], str), f"{where}.revision: expected a string")
    return w["repo"]


def rel(p, where):
    need(isinstance(p, str), f"{where}: expected strings")
    need(not p.startswith("/") and ".." not in p.split("/"), f"{where}: {p!r} must be relative to its root")


def git_or_path(v, where):
    if isinstance(v, str):
        return
    keys(v, {"repo", "ref", "sha"}, where)
    need(isinstance(v.get("repo"), str) and isinstance(v.get("ref"), str), f"{where}: needs repo and ref")


def authoring(d, base=None):
    top = {"schema", "schema_version", "repo", "name", "weights", "auxiliary_weights", "kind", "arch", "source",
           "image", "runtime", "serve", "serve_profiles", "default_profile", "card", "verify"}
    keys(d, top, "manifest")
    for k in ("repo", "name", "arch"):
        need(isinstance(d.get(k), str), f"{k} is required and must be a string")
    schema = d.get("schema", d.get("schema_version", "5.1"))
    need(isinstance(schema, str), "schema must be a quoted string")
    need(schema == "5.1", f"unsupported manifest schema {schema!r}")
    need(SLUG.fullmatch(d["name"]), f"name {d['name']!r} is not a safe slug")
    need("weights" in d, "weights is required")
    repos = [weights(d["weights"], "weights")] + [
        weights(w, "auxiliary_weights") for w in d.get("auxiliary_weights") or []]
    need(len(set(repos)) == len(repos), "duplicate weight repositories")
    need("/" in d["repo"], "repo must be a namespaced id (org/name)")
    need(d["arch"] in ("blackhole", "wormhole_b0"), f"arch {d['arch']!r} is not known")
    kind = d.get("kind", "vllm-plugin")
    need(kind in KINDS, f"kind must be one of {KINDS}, got {kind!r}")
    s = d.get("source")
    keys(s, {"tt_metal", "code", "extra_code", "ubuntu", "python"}, "source")
    for k in ("ubuntu", "python"):
        need(isinstance(s.get(k), str), f"source.{k} must be a quoted string")
    need("tt_metal" in s, "source.tt_metal is required")
    git_or_path(s["tt_metal"], "source.tt_metal")
    need(isinstance(s.get("code"), list) and s["code"], "source.code needs at least one entry")
    for p in s["code"]:
        rel(p, "source.code")
    for e in s.get("extra_code") or []:
        keys(e, {"root", "paths"}, "source.extra_code")
        git_or_path(e.get("root"), "source.extra_code.root")
        need(isinstance(e.get("paths"), list) and e["paths"], "source.extra_code.paths needs an entry")
        for p in e["paths"]:
            rel(p, "source.extra_code.paths")
    keys(d.get("image", {}), {"registry", "repository"}, "image")
    card = d.get("card") or {}
    keys(card, {"description", "quickstart", "architecture", "status", "intended_use", "out_of_scope_use", "usage",
                "performance", "limitations", "risks", "licensing", "related", "license", "pipeline_tag",
                "base_model"}, "card")
    typed(d.get("verify", []), STRS, "verify")
    rt = d.get("runtime", {})
    typed(rt, DICT, "runtime")
    serve = d.get("serve", {})
    serve_block(serve, "serve")
    profiles = d.get("serve_profiles") or []
    for i, p in enumerate(profiles):
        serve_block(p, f"serve_profiles[{i}]", True)
    profiles = profiles or [{"name": "default"}]
    names = [p["name"] for p in profiles]
    need(len(set(names)) == len(names), "duplicate serve profile names")
    default = d.get("default_profile")
    need(len(names) < 2 or default, "several serve profiles need a default_profile")
    need(not default or default in names, f"default_profile {default!r} names no profile")
    req = ["hardware", "mesh_device"] + (["max_num_seqs", "block_size"] if kind != "tt-dit-server" else [])
    for n in names:
        p = resolve(serve, profiles, default, n)
        for k in req:
            need(p.get(k) is not None, f"serve profile {n!r}: {k} is required")
        r, c = mesh(p["mesh_device"])
        k = chips(p["hardware"])
        need(k and k >= 1, f"serve profile {n!r}: hardware {p['hardware']!r} is not a board label")
        need(r * c == k, f"serve profile {n!r}: mesh {r}x{c} but hardware implies {k} chips")
    if kind == "tt-dit-server":
        for k in rt:
            need(k in ("app", "packages", "lock", "mesh_shape_env"), f"runtime key {k!r} is not valid for {kind}")
        app = rt.get("app")
        need(isinstance(app, str) and ":" in app, "runtime.app must be module.path:attribute")
        tops = {p.split("/")[0] for p in s["code"]} | {p.split("/")[0] for e in s.get("extra_code") or [] for p in e["paths"]}
        need(app.split(":")[0].split(".")[0] in tops, f"runtime.app {app!r} is shipped by no source entry")
        v = rt.get("mesh_shape_env")
        need(v is None or (isinstance(v, str) and re.fullmatch(r"[A-Za-z_]\w*", v)), "runtime.mesh_shape_env is no variable name")
    if base is not None:
        if isinstance(s["tt_metal"], str):
            miss = [p for p in s["code"] if not os.path.exists(os.path.join(base, s["tt_metal"], p))]
            need(not miss, "source.code paths do not exist: " + ", ".join(sorted(miss)))
        for e in s.get("extra_code") or []:
            if isinstance(e["root"], str):
                miss = [p for p in e["paths"] if not os.path.exists(os.path.join(base, e["root"], p))]
                need(not miss, "source.extra_code paths do not exist: " + ", ".join(sorted(miss)))


def wire(d):
    """Unknown keys are accepted outside serve blocks; a reader must not lose on them."""
    typed(d, DICT, "manifest")
    for k in ("name", "tt_metal_version", "arch"):
        need(isinstance(d.get(k), str), f"{k} is required and must be a string")
    v = d.get("schema_version", "5")
    need(isinstance(v, str) and v in ("5", "5.1", "6"), f"unsupported bundle schema_version {v!r}")
    p = d.get("producer")
    need(isinstance(p, dict) and isinstance(p.get("tt_kernel_version"), str) and isinstance(p.get("created_at"), str),
         "producer needs tt_kernel_version and created_at")
    if "device_count" in d:
        typed(d["device_count"], INT, "device_count")
    for w in ([d["weights"]] if d.get("weights") else []) + (d.get("auxiliary_weights") or []):
        need(isinstance(w.get("repo_id", w.get("repo")), str), "weights needs repo_id (or repo)")
    c = d.get("container")
    need(isinstance(c, dict), "no container block: not a container package")
    im = c.get("image")
    need(isinstance(im, dict) and isinstance(im.get("tag"), str), "container.image.tag is required")
    need(im.get("digest") is None or re.fullmatch(r"sha256:[0-9a-f]{64}", im["digest"]), "container.image.digest")
    serve_block(c.get("serve", {}), "container.serve")
    for i, q in enumerate(c.get("serve_profiles") or []):
        serve_block(q, f"container.serve_profiles[{i}]", True)
    resolve(c.get("serve", {}), c.get("serve_profiles") or [], c.get("default_profile"))
    need(SLUG.fullmatch(d["name"]), f"name {d['name']!r} is unsafe as a path")


def image_ref(d):
    im = d["container"]["image"]
    if im.get("registry", "hf") == "hf":
        return im["tag"]
    name = im.get("repository") or im["tag"].split("/")[-1].split(":")[0]
    ref = im["registry"].rstrip("/") + "/" + name
    return f"{ref}@{im['digest']}" if im.get("digest") else f"{ref}:{im['tag'].split(':')[-1]}"


def run_line(d, a):
    wire(d)
    c = d["container"]
    need(c.get("kind") == "tt-dit-server", "this check composes tt-dit-server only")
    p = resolve(c.get("serve", {}), c["serve_profiles"], c.get("default_profile"), a.profile)
    port = a.port or DEFAULT_PORT
    w = d["weights"]
    repo = w.get("repo_id", w.get("repo"))
    env = {"HF_MODEL": repo}
    if p.get("mesh_device"):
        r, k = mesh(p["mesh_device"])
        env["MESH_DEVICE"] = p["mesh_device"]
        env[c.get("runtime", {}).get("mesh_shape_env") or "FLUX2_MESH_SHAPE"] = f"{r}x{k}"
    env.update(p.get("env", {}))
    if a.model_path == "snapshot" and w.get("revision") and env["HF_MODEL"] == repo:
        env["HF_MODEL"] = "/hf/hub/models--" + repo.replace("/", "--") + "/snapshots/" + w["revision"]
    cache = os.path.join(a.cache, d["name"])
    cmd = ["docker", "run", "--name", f"tt-model-{d['name']}-{p['name']}", "--user", a.uid,
           "--label", f"org.tenstorrent.tt-model={d['name']}", "--label", f"org.tenstorrent.tt-model.profile={p['name']}"]
    if a.devices == "all":
        cmd += ["--device", "/dev/tenstorrent"]
    else:
        ids = a.devices.split(",")
        cmd += ["--label", "org.tenstorrent.tt-model.devices=" + ",".join(ids)]
        for i in ids:
            cmd += ["--device", f"/dev/tenstorrent/{i}:/dev/tenstorrent/{i}"]
        if len(ids) == 1:
            env.setdefault("TT_MESH_GRAPH_DESC_PATH",
                           "/opt/tt-metal/tt_metal/fabric/mesh_graph_descriptors/p150_mesh_graph_descriptor.textproto")
    cmd += ["--ipc", "host", "--mount", "type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G",
            "--volume", f"{a.hf}:/hf", "--env", "HF_HOME=/hf", "--volume", f"{cache}/cache:/cache",
            "--env", "TT_METAL_CACHE=/cache", "--volume", f"{cache}/weights:/weight-cache",
            "--env", "TT_DIT_CACHE_DIR=/weight-cache", "--volume", f"{cache}/tensors:/tensor-cache",
            "--env", "TT_CACHE_PATH=/tensor-cache", "--publish", f"{port}:{port}"]
    for k, v in sorted(env.items()):
        cmd += ["--env", f"{k}={v}"]
    cmd += [image_ref(d), "python", "-m", "uvicorn", "--host", "0.0.0.0", "--port", str(port), "--lifespan", "on"]
    for x in p.get("args", []):
        cmd += [str(y) for y in x] if isinstance(x, list) else [str(x)]
    cmd.append(c["runtime"]["app"])
    return shlex.join(cmd)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("what", choices=["authoring", "wire", "run"])
    ap.add_argument("file")
    ap.add_argument("--base")
    ap.add_argument("--profile")
    ap.add_argument("--port", type=int)
    ap.add_argument("--devices", default="all")
    ap.add_argument("--uid", default="0:0")
    ap.add_argument("--hf", default="~/.cache/huggingface")
    ap.add_argument("--cache", default="~/.cache/tt-model")
    ap.add_argument("--model-path", choices=["repo", "snapshot"], default="repo")
    a = ap.parse_args()
    try:
        with open(a.file, encoding="utf-8") as f:
            text = f.read()
        if a.what == "authoring":
            import yaml
            try:
                d = yaml.safe_load(text)
            except yaml.YAMLError as e:
                raise Refused(f"not valid YAML: {e}")
            authoring(d, a.base)
            print("OK", d["name"], d.get("kind", "vllm-plugin"))
        else:
            try:
                d = json.loads(text)
            except ValueError as e:
                raise Refused(f"not valid JSON: {e}")
            if a.what == "wire":
                wire(d)
                print("OK", d["name"], d["container"].get("kind"))
            else:
                print(run_line(d, a))
    except Refused as e:
        print("REFUSED:", e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
