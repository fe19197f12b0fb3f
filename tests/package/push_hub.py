# SPDX-License-Identifier: Apache-2.0
"""The loopback Hub (hub_standin.py) in this process, with faults that a push can meet and it has no switch for: answers that are lost after the
work was done, a commit of somebody else just before ours, a card that is refused. Also packages to push and a look at what a repository holds.
"""
import argparse
import hashlib
import importlib.util
import io
import json
import os
import random
import shutil
import socket
import struct
import sys
import tarfile
import threading
import time
import zlib
from http.server import ThreadingHTTPServer

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, "hub_standin.py")
MANIFEST = os.path.join(HERE, "../data/manifest/examples/gr00t-native_manifest.json")
WRITE, READ = "hf_test_write_token_1234567890", "hf_test_read_token_0987654321"
TAG, CATALOG = "tt-model-cache", "tt-model-catalog"
CARD = """---
license: other
license_name: nvidia-license
license_link: https://huggingface.co/nvidia/GR00T-N1.6-3B/blob/main/LICENSE
pipeline_tag: robotics
base_model:
- nvidia/GR00T-N1.6-3B
tags:
- blackhole
- p150
- tt-dit-server
- tt-model-cache
- tt-model-container
---

# {name}

A robot policy.

## Quickstart

```
tt model pull {repo}
tt serve {repo}
```

```
tt-model pull {repo} --with-weights
tt-model serve {repo}
```
"""


def standin():
    spec = importlib.util.spec_from_file_location("hub_standin", STANDIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that was killed is no news
            super().handle_error(request, client_address)


class Hub:
    """with Hub(folder, multipart=...) as hub: hub.url, hub.log(), hub.files("org/name"), hub.faults("status:..."), hub.lose = {...}."""

    def __init__(self, tmp, tokens=True, **options):
        root = os.path.join(tmp, "hub-root")
        os.makedirs(root, exist_ok=True)
        plain = {"root": root, "store": None, "port": 0, "port_file": None, "pin": [], "private": [], "gated": [], "grant": [],
                 "rename": [], "fault": [], "lfs_min": 4096, "multipart": 0, "cdn_port": 0, "cdn_name": "localhost", "cdn_expiry": 0,
                 "cdn_reject_auth": True, "page": 1000, "verbose": False,
                 "token": [f"{WRITE}=org:write", f"{READ}=reader:read"] if tokens else []}
        plain.update(options)
        self.module = standin()
        self.hub = self.module.Hub(argparse.Namespace(**plain))
        self.lose = {}           # "commit", "complete", "create", "PUT": answers to lose after the work was done
        self.before_commit = []  # functions of the repository, called once each, just before a commit is looked at
        self.card_errors = None
        self.under_way = []      # "PUT /path" of requests without an answer yet
        self.handler = self.make_handler()
        self.servers = [Server(("127.0.0.1", 0), self.handler) for _ in range(2)]
        for s in self.servers:
            s.daemon_threads = True
            threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.servers[0].server_address[1]}"
        self.hub.cdn = f"http://localhost:{self.servers[1].server_address[1]}"

    def make_handler(self):
        outer = self

        class Handler(self.module.make_handler(self.hub)):
            mute = False
            disable_nagle_algorithm = True  # head and body are two writes: 40 ms an answer otherwise

            def handle_any(self):
                what = f"{self.command} {self.path}"
                with outer.hub.lock:
                    outer.under_way.append(what)
                try:
                    super().handle_any()
                finally:
                    with outer.hub.lock:
                        outer.under_way.remove(what)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

            def take(self, what):
                n = outer.lose.get(what, 0)
                outer.lose[what] = n - 1
                return n > 0

            def json(self, obj, code=200, headers=()):
                if not self.mute:
                    return super().json(obj, code, headers)
                self.mute = False
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def commit(self, r, rev, data):
                with outer.hub.lock:
                    for change in outer.before_commit:
                        change(r)
                    outer.before_commit = []
                self.mute = self.take("commit")
                return super().commit(r, rev, data)

            def create(self):
                self.mute = self.take("create")
                return super().create()

            def lfs_put(self, oid, what, num):
                self.mute = self.take("complete" if what == "complete" else "PUT") if what in (None, "complete") else False
                return super().lfs_put(oid, what, num)

            def route(self, path):
                if path == "/api/validate-yaml" and outer.card_errors is not None:
                    self.body()
                    return self.json({"errors": [{"message": m} for m in outer.card_errors], "warnings": []}, 400)
                return super().route(path)

        return Handler

    def __enter__(self):
        return self

    def __exit__(self, *args):
        for s in self.servers:
            s.shutdown()
            s.server_close()

    def settle(self, limit_s=60):
        """A request is logged after its answer has gone out: the client may be ahead."""
        end = time.monotonic() + limit_s
        while self.under_way and time.monotonic() < end:
            time.sleep(0.002)

    def faults(self, *specs):
        self.settle()
        with self.hub.lock:
            self.hub.faults = [self.module.Fault(s) for s in specs]
            self.hub.log.clear()

    def waits_for(self, method):
        """Is an answer of this method still to come?"""
        with self.hub.lock:
            return any(x.startswith(method + " ") for x in self.under_way)

    def log(self, *methods):
        self.settle()
        with self.hub.lock:
            return [r for r in self.hub.log if not methods or r["method"] in methods]

    def repo(self, rid):
        return self.hub.repos[rid]

    def files(self, rid, commit=None):
        """path -> bytes of the head or of a commit."""
        r = self.hub.repos[rid]
        out = {}
        for path, e in r.commits[commit or r.head].items():
            with open(e.file, "rb") as f:
                out[path] = f.read()
        return out

    def add(self, rid, path, data):
        """A commit of somebody else."""
        with self.hub.lock:
            r = self.hub.repos[rid]
            name = os.path.join(self.hub.store, "foreign-" + hashlib.sha1(path.encode() + data).hexdigest())
            with open(name, "wb") as f:
                f.write(data)
            tree = dict(r.commits[r.head])
            tree[path] = self.hub.entry_from(path, name)
            return self.hub.add_commit(r, tree, "foreign")


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def noise(n, seed):
    return random.Random(seed).randbytes(n)


def layer(size, seed, files=()):
    """A layer of exactly `size` bytes as a gzip stream, and its tar: files (name, bytes), and noise for the rest."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in (*files, (f"usr/share/noise-{seed}", noise(size - 3000, seed))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    tar = out.getvalue().rstrip(b"\0")
    tar += b"\0" * (-len(tar) % 512 + 1024)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(tar) + deflate.flush() + struct.pack("<II", zlib.crc32(tar), len(tar))
    comment = size - 10 - len(body) - 1
    assert comment >= 0, f"{size} bytes are too few"
    return b"\x1f\x8b\x08\x10\0\0\0\0\0\xff" + b"x" * comment + b"\0" + body, tar


def make_image(folder, large, seed=1):
    """image/ of a package: an OCI layout with a layer for each size in `large`. Digest of its config."""
    shutil.rmtree(folder + "/image", ignore_errors=True)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        write(f"{folder}/image/blobs/sha256/{digest}", data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    layers = [layer(n, seed * 100 + i) for i, n in enumerate(large)]
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/usr/bin/gr00t"]}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(t).hexdigest() for _, t in layers]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                                "layers": [blob(z, "layer.v1.tar+gzip") for z, _ in layers]}).encode(), "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    write(folder + "/image/oci-layout", '{"imageLayoutVersion":"1.0.0"}')
    write(folder + "/image/index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return config["digest"]


def code_sum(folder):
    total = hashlib.sha256()
    for path, data in sorted(tree(folder).items()):
        total.update(path.encode() + data)
    return total.hexdigest()


def make_package(folder, repo="org/pkg", seed=1, large=(300_000, 40_000), card=None):
    """A package folder as `gr00t package` leaves it; its image has layers of these sizes."""
    with open(MANIFEST, encoding="utf-8") as f:
        m = json.load(f)
    m["container"]["built"]["repo"] = repo
    m["container"]["card"].update(card or {})
    write(folder + "/README.md", CARD.format(name=m["name"], repo=repo))
    write(folder + "/requirements.lock", f"libcurl4 7.88.{seed}\n")
    write(folder + "/LICENSE-NOTICE.md", "The weights have a licence of their own.\n")
    write(folder + "/code/gr00t/main.c", f"int main(void) {{ return {seed}; }}\n")
    write(folder + "/code/gr00t/empty.txt", b"")
    digest = make_image(folder, large, seed)
    m["container"]["built"].update(image_digest=digest, code_sha256=code_sum(folder + "/code"))
    m["container"]["image"]["digest"] = digest
    write(folder + "/tt_kernel_manifest.json", json.dumps(m, indent=2) + "\n")
    return folder


def tree(folder):
    out = {}
    for d, _, names in os.walk(folder):
        for n in names:
            full = os.path.join(d, n)
            with open(full, "rb") as f:
                out[os.path.relpath(full, folder)] = f.read()
    return out
