# SPDX-License-Identifier: Apache-2.0
"""The loopback Hub (hub_standin.py) as a process, repositories to pull from it, and what a cache must look like: every blob hashes to its name, every
file of a snapshot is a relative link to one, and the bytes are those of the source."""
import hashlib
import json
import os
import random
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, "hub_standin.py")
EXAMPLES = os.path.normpath(os.path.join(HERE, "../data/manifest/examples"))
MANIFEST = os.path.join(EXAMPLES, "gr00t-native_manifest.json")
BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
TOKEN = "hf_test_token_that_must_not_leak"


class Hub:
    """A stand-in on ports of the kernel's choice."""

    def __init__(self, root, *options):
        self.process = subprocess.Popen([sys.executable, STANDIN, "--root", root, *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(), method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as reply:
            return json.load(reply)

    def faults(self, *specs):
        self.ask("/_standin/faults", list(specs))
        self.ask("/_standin/log", method="DELETE")

    def log(self):
        return self.ask("/_standin/log")


def write(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def snapshot(folder, big=0, seed=1):
    """Small files, two with the same content, an empty one, names that need encoding; `big`: bytes of two large ones."""
    r = random.Random(seed)
    for name in ("config.json", "sub/deep/statistics.json", "a b+c#%ü.txt"):
        write(folder, name, json.dumps({"name": name, "seed": seed, "n": r.random()}))
    write(folder, "copy/one.txt", f"same {seed}")
    write(folder, "copy/two.txt", f"same {seed}")
    write(folder, "empty.txt", b"")
    write(folder, "small.bin", r.randbytes(70000))
    for i in (1, 2) if big else ():
        write(folder, f"model-{i}.safetensors", r.randbytes(big + 12345 * i))
    return folder


def package(folder, weights, revision="main"):
    with open(MANIFEST, encoding="utf-8") as f:
        m = json.load(f)
    m["weights"].update(repo_id=weights, revision=revision, allow_patterns=["*.json", "model-*"], ignore_patterns=["sub/"])
    write(folder, "tt_kernel_manifest.json", json.dumps(m, indent=2))
    write(folder, "README.md", "---\ntags:\n- tt-model-cache\n---\n# package\n")
    write(folder, "code/run.sh", "#!/bin/sh\n")
    write(folder, "image/oci-layout", '{"imageLayoutVersion":"1.0.0"}')
    return folder


def files_of(folder):
    out = {}
    for d, _, names in os.walk(folder):
        for n in names:
            path = os.path.join(d, n)
            out[os.path.relpath(path, folder)] = path
    return out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def check_cache(cache):
    """Nothing in the cache is wrong, complete or not."""
    for model in os.listdir(cache) if os.path.isdir(cache) else ():
        blobs = os.path.join(cache, model, "blobs")
        for name in os.listdir(blobs) if model.startswith("models--") and os.path.isdir(blobs) else ():
            if name.endswith(".incomplete"):
                continue
            data = read(os.path.join(blobs, name))
            found = hashlib.sha256(data).hexdigest() if len(name) == 64 else git_sha1(data)
            assert found == name, f"{model}: blob {name} hashes to {found}"
        snapshots = os.path.join(cache, model, "snapshots")
        for name, path in (files_of(snapshots) if os.path.isdir(snapshots) else {}).items():
            target = os.readlink(path)
            up = "../" * (name.count("/") + 1)
            assert target.startswith(up + "blobs/"), f"{name} -> {target}"
            assert os.path.isfile(path), f"{name} dangles"


def check_snapshot(cache, repo, source, only=None):
    """The snapshot of refs/main is the source, byte for byte. Its folder."""
    model = os.path.join(cache, "models--" + repo.replace("/", "--"))
    commit = read(os.path.join(model, "refs/main")).decode()
    assert len(commit) == 40, commit
    folder = os.path.join(model, "snapshots", commit)
    want = {n: p for n, p in files_of(source).items() if only is None or only(n)}
    got = files_of(folder)
    assert sorted(want) == sorted(got), f"{sorted(set(want) ^ set(got))} differ"
    for name, path in want.items():
        assert read(path) == read(got[name]), f"{name}: other bytes"
    check_cache(cache)
    left = [n for n in os.listdir(os.path.join(model, "blobs")) if n.endswith(".incomplete")]
    assert not left, left
    return folder


def environment(home, hub=None, **more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("GR00T_", "HF_", "HUGGINGFACE_", "XDG_", "TT_")) and "proxy" not in k.lower()}
    clean.update(HOME=home, **more)
    if hub is not None:
        clean["HF_ENDPOINT"] = hub.url
    return clean


def cache_of(home):
    return os.path.join(home, ".cache/huggingface/hub")


def pull(*args, env, timeout=240, wrapper=()):
    p = subprocess.run([*wrapper, BIN, "pull", *args], env=env, capture_output=True, timeout=timeout, check=False)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    assert TOKEN not in p.out + p.err, "the token is in the output"
    return p
