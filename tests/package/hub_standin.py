#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loopback stand-in for the Hugging Face Hub (standard library only).

Serves the folders ROOT/<namespace>/<name>/ as model repositories and accepts
uploads into them, speaking the part of the Hub protocol that downloads and
uploads need: repo info, tree listing, resolve with LFS redirect, preupload,
LFS batch (single PUT and multipart), NDJSON commits, repo create / settings /
delete, whoami.  Faults can be injected from the command line or at run time.

    hub_standin.py --root DIR [--port 0] [--port-file F] [options]

Prints one line "READY http://127.0.0.1:PORT" when it listens.

Options of note
  --pin NS/NAME=SHA40     commit id to report for the initial content
  --token TOKEN=USER[:read|write]   (repeat) known tokens; without any, all is open
  --private NS/NAME       needs a token to be seen            (repeat)
  --gated NS/NAME         needs a token listed in --grant     (repeat)
  --grant TOKEN=NS/NAME   access of a token to a gated repo   (repeat)
  --rename OLD=NEW        307-redirect OLD to NEW             (repeat)
  --lfs-min BYTES         files of this size and more are LFS (default 1 MiB)
  --multipart BYTES       LFS uploads larger than this use the multipart form
  --cdn-port N            port of a second listener for signed LFS URLs, so that they are another
                          origin than the Hub, as in reality (default 0: any free port; -1: the
                          same origin.  Clients from 1.x on follow redirects inside the Hub's
                          origin even for HEAD, so -1 only works with older ones)
  --cdn-name HOST         host name in those URLs (default localhost: 1.x compares names only)
  --cdn-expiry SECONDS    signed LFS URLs stop working after this time
  --cdn-reject-auth       400 when a request to a signed URL carries Authorization
  --page N                entries in one tree page (default 1000)
  --fault SPEC            (repeat) see below

Fault SPEC:  KIND[:key=value[,key=value...]]
  kinds   drop (after=BYTES)      close the socket in the middle of a body
          status (code=N [,retry_after=S][,error_code=X][,message=M])
          corrupt (at=OFFSET)     flip one byte of the body
          short (by=BYTES)        send fewer bytes, with a matching Content-Length
          slow (rate=BYTES/S)     throttle the body
          stall (secs=S)          wait before the status line
          norange                 ignore Range, answer 200 with the whole file
          nolength                chunked body without Content-Length
          badetag                 wrong ETag / X-Linked-Etag / oid
          nocommit                leave X-Repo-Commit out
  filter  path=REGEX (on the decoded URL path), method=GET|HEAD|PUT|POST,
          times=N (fire N times, then stop), skip=N (let N matches pass first)

Run-time control
  POST /_standin/faults   JSON list of SPEC strings (replaces the set)
  GET  /_standin/log      JSON list of handled requests;  DELETE empties it
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LFS_EXT = {
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".gguf", ".npz", ".npy",
    ".tar", ".gz", ".zst", ".zip", ".7z", ".h5", ".parquet", ".arrow", ".model", ".pkl",
    ".png", ".jpg", ".jpeg", ".mp4", ".wav",
}
CHUNK = 256 * 1024


def sha256_file(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for b in iter(lambda: f.read(1 << 20), b""):
            h.update(b)
    return h.hexdigest()


def git_oid(path, size):
    h = hashlib.sha1(b"blob %d\0" % size)
    with open(path, "rb") as f:
        for b in iter(lambda: f.read(1 << 20), b""):
            h.update(b)
    return h.hexdigest()


def pointer_oid(sha, size):
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha}\nsize {size}\n".encode()
    return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()


def looks_binary(sample):
    if b"\0" in sample:
        return True
    try:
        sample.decode("utf-8")
        return False
    except UnicodeDecodeError as e:
        return e.start < len(sample) - 4  # a character cut at the end is no proof


class Fault:
    def __init__(self, spec):
        kind, _, rest = spec.partition(":")
        self.spec, self.kind, self.p = spec, kind.strip(), {}
        if self.kind not in ("drop", "status", "corrupt", "short", "slow", "stall", "norange",
                             "nolength", "badetag", "nocommit"):
            raise ValueError(f"unknown fault kind {self.kind!r}")
        for part in re.split(r",(?=\w+=)", rest) if rest else []:
            k, eq, v = part.partition("=")
            if not eq:
                raise ValueError(f"bad fault parameter {part!r}")
            self.p[k.strip()] = v
        self.path = re.compile(self.p["path"]) if "path" in self.p else None
        self.method = self.p.get("method")
        self.left = int(self.p["times"]) if "times" in self.p else None
        self.skip = int(self.p.get("skip", 0))

    def take(self, method, path):
        if self.method and self.method != method:
            return False
        if self.path and not self.path.search(path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.left is not None:
            if self.left <= 0:
                return False
            self.left -= 1
        return True

    def num(self, key, default=0.0):
        return float(self.p.get(key, default))


class Entry:
    __slots__ = ("path", "size", "oid", "sha256", "file")

    def __init__(self, path, size, oid, sha256, file):
        self.path, self.size, self.oid, self.sha256, self.file = path, size, oid, sha256, file

    @property
    def etag(self):
        return self.sha256 or self.oid

    def tree(self):
        d = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.sha256:
            d["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 135}
        return d


class Repo:
    def __init__(self, rid, private=False):
        self.rid, self.private, self.gated = rid, private, False
        self.commits, self.refs, self.log = {}, {}, []   # sha -> {path: Entry}, name -> sha

    @property
    def head(self):
        return self.refs["main"]


class Hub:
    def __init__(self, a):
        self.a, self.lock, self.cdn = a, threading.RLock(), None
        self.root = os.path.abspath(a.root)
        self.store = os.path.abspath(a.store or os.path.join(self.root, ".standin"))
        os.makedirs(os.path.join(self.store, "lfs"), exist_ok=True)
        self.secret = os.urandom(16)
        self.faults = [Fault(s) for s in a.fault]
        self.log, self.repos, self.parts = [], {}, {}
        self.under_way = 0
        self.tokens, self.grants = {}, set()
        for t in a.token:
            tok, _, who = t.partition("=")
            user, _, role = who.partition(":")
            self.tokens[tok] = (user or "user", role or "write")
        for g in a.grant:
            tok, _, rid = g.partition("=")
            self.grants.add((tok, rid))
        self.renames = dict(r.split("=", 1) for r in a.rename)
        pins = dict(p.split("=", 1) for p in a.pin)
        for ns in sorted(os.listdir(self.root)):
            nsd = os.path.join(self.root, ns)
            if ns.startswith(".") or not os.path.isdir(nsd):
                continue
            for name in sorted(os.listdir(nsd)):
                if os.path.isdir(os.path.join(nsd, name)):
                    self.scan(f"{ns}/{name}", pins.get(f"{ns}/{name}"))
        for rid in a.private:
            self.repo(rid).private = True
        for rid in a.gated:
            self.repo(rid).gated = True

    # -- content ---------------------------------------------------------------
    def is_lfs(self, path, size, sample):
        ext = os.path.splitext(path)[1].lower()
        return size > 0 and (size >= self.a.lfs_min or ext in LFS_EXT or looks_binary(sample))

    def entry_from(self, path, file):
        size = os.path.getsize(file)
        with open(file, "rb") as f:
            sample = f.read(512)
        if self.is_lfs(path, size, sample):
            sha = sha256_file(file)
            return Entry(path, size, pointer_oid(sha, size), sha, file)
        return Entry(path, size, git_oid(file, size), None, file)

    def scan(self, rid, pin=None):
        base, tree = os.path.join(self.root, rid), {}
        for d, dirs, files in os.walk(base):
            dirs[:] = sorted(x for x in dirs if x != ".git")
            for f in sorted(files):
                full = os.path.join(d, f)
                rel = os.path.relpath(full, base).replace(os.sep, "/")
                tree[rel] = self.entry_from(rel, full)
        r = Repo(rid)
        self.repos[rid] = r
        self.add_commit(r, tree, "initial content", pin)
        return r

    def add_commit(self, r, tree, title, pin=None):
        h = hashlib.sha1()
        h.update(r.rid.encode() + b"\0" + str(len(r.log)).encode())
        for p in sorted(tree):
            h.update(f"{p}\0{tree[p].oid}\n".encode())
        sha = pin or h.hexdigest()
        r.commits[sha] = tree
        r.refs["main"] = sha
        r.log.insert(0, {"id": sha, "title": title, "message": "", "authors": [],
                         "date": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())})
        return sha

    def repo(self, rid):
        return self.repos.get(rid) or next(
            (r for k, r in self.repos.items() if k.lower() == rid.lower()), None)

    def resolve_rev(self, r, rev):
        if rev in r.refs:
            return r.refs[rev]
        if rev in r.commits:
            return rev
        hits = [c for c in r.commits if len(rev) >= 7 and c.startswith(rev)]
        return hits[0] if len(hits) == 1 else None

    def lfs_file(self, sha):
        p = os.path.join(self.store, "lfs", sha)
        if os.path.exists(p):
            return p
        for r in self.repos.values():
            for tree in r.commits.values():
                for e in tree.values():
                    if e.sha256 == sha and os.path.exists(e.file):
                        return e.file
        return None

    def sign(self, sha, exp):
        return hmac.new(self.secret, f"{sha}:{exp}".encode(), hashlib.sha256).hexdigest()[:32]


def make_handler(hub):
    class H(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "hub-standin"
        timeout = 120

        # -- plumbing ------------------------------------------------------------
        def log_message(self, fmt, *args):
            if hub.a.verbose:
                sys.stderr.write("%s %s\n" % (self.address_string(), fmt % args))

        def version_string(self):
            return self.server_version

        def send_response(self, code, message=None):
            self.code_sent = code
            super().send_response(code, message)

        def body(self):
            if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
                out = []
                while True:
                    n = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
                    if n == 0:
                        while self.rfile.readline().strip():
                            pass
                        return b"".join(out)
                    out.append(self.rfile.read(n))
                    self.rfile.readline()
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def fault(self, kind):
            for f in self.active:
                if f.kind == kind:
                    return f
            return None

        def hub_url(self):
            return "http://" + (self.headers.get("Host") or "127.0.0.1")

        def cdn_url(self):
            return hub.cdn or self.hub_url()

        def json(self, obj, code=200, headers=()):
            data = json.dumps(obj).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            for k, v in headers:
                self.send_header(k, v)
            self.end_headers()
            if self.command != "HEAD":
                self.payload(data)

        def fail(self, code, error_code=None, message=None, headers=()):
            hs = list(headers)
            if error_code:
                hs.append(("X-Error-Code", error_code))
            if message:
                hs.append(("X-Error-Message", message))
            self.json({"error": message or f"HTTP {code}"}, code, hs)

        def payload(self, data):
            self.wfile.write(data)

        def token(self):
            m = re.match(r"(?i)bearer\s+(\S+)$", self.headers.get("Authorization") or "")
            return m.group(1) if m else None

        # -- access ----------------------------------------------------------------
        def user(self):
            """(user, role); None when a token is needed and missing or wrong."""
            if not hub.tokens:
                return ("user", "write")
            return hub.tokens.get(self.token())

        def find(self, rid, write=False):
            """The repo, or None after an error reply."""
            if rid in hub.renames:
                new = hub.renames[rid]
                loc = self.path.replace(rid, new, 1)
                self.send_response(307)
                self.send_header("Location", loc)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            tok, who, r = self.token(), self.user(), hub.repo(rid)
            if tok and hub.tokens and who is None:
                self.fail(401, None, "Invalid credentials in Authorization header")
                return None
            if r is None or (r.private and who is None):
                if who is None or not tok:
                    self.fail(401 if hub.tokens else 404, "RepoNotFound", "Repository not found")
                else:
                    self.fail(404, "RepoNotFound", "Repository not found")
                return None
            if write and (who is None or who[1] != "write"):
                self.fail(403 if tok else 401, None, "You don't have the rights to write here")
                return None
            if r.gated and not write and (tok, rid) not in hub.grants and \
                    re.search(r"/resolve/|/_cdn/", self.path):
                self.fail(403 if tok else 401, "GatedRepo",
                          f"Access to model {rid} is restricted. You must have access to it.")
                return None
            return r

        def revision(self, r, rev):
            sha = hub.resolve_rev(r, rev)
            if sha is None:
                self.fail(404, "RevisionNotFound", f"Invalid rev id: {rev}")
            return sha

        # -- dispatch --------------------------------------------------------------
        def handle_any(self):
            t0 = time.time()
            self.code_sent = 0
            self.sent = 0
            u = urllib.parse.urlsplit(self.path)
            path, self.q = urllib.parse.unquote(u.path), urllib.parse.parse_qs(u.query)
            self.raw_path = u.path
            try:
                if path.startswith("/_standin/"):
                    self.active = []
                    return self.control(path)
                with hub.lock:
                    hub.under_way += 1
                    self.active = [f for f in hub.faults if f.take(self.command, path)]
                f = self.fault("stall")
                if f:
                    time.sleep(f.num("secs", 1))
                f = self.fault("status")
                if f:
                    self.body()
                    hs = [("Retry-After", f.p["retry_after"])] if "retry_after" in f.p else []
                    return self.fail(int(f.num("code", 503)), f.p.get("error_code"),
                                     f.p.get("message", "injected"), hs)
                self.route(path)
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                self.close_connection = True
            finally:
                if not path.startswith("/_standin/"):
                    with hub.lock:
                        hub.under_way -= 1
                        hub.log.append({
                            "method": self.command, "path": self.path, "status": self.code_sent,
                            "range": self.headers.get("Range"), "sent": self.sent,
                            "auth": bool(self.headers.get("Authorization")),
                            "host": self.headers.get("Host"),
                            "user_agent": self.headers.get("User-Agent"),
                            "faults": [f.spec for f in getattr(self, "active", [])],
                            "ms": int((time.time() - t0) * 1000)})

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

        def control(self, path):
            if path == "/_standin/faults":
                if self.command == "POST":
                    try:
                        new = [Fault(s) for s in json.loads(self.body() or b"[]")]
                    except (ValueError, TypeError) as e:
                        return self.fail(400, None, str(e))
                    with hub.lock:
                        hub.faults = new
                return self.json([f.spec for f in hub.faults])
            if path == "/_standin/log":
                until = time.monotonic() + 30
                while hub.under_way > 0 and time.monotonic() < until:  # logged after the answer has gone out: the client may be ahead
                    time.sleep(0.002)
                with hub.lock:
                    out = list(hub.log)
                    if self.command == "DELETE":
                        hub.log.clear()
                return self.json(out)
            self.fail(404)

        def route(self, path):
            m = self.command
            if path == "/api/whoami-v2":
                who = self.user()
                if who is None or not (self.token() or not hub.tokens):
                    return self.fail(401, None, "Invalid credentials in Authorization header")
                return self.json({"type": "user", "id": "0" * 24, "name": who[0], "fullname": who[0],
                                  "orgs": [], "auth": {"type": "access_token", "accessToken": {
                                      "displayName": "standin", "role": who[1]}}})
            if path == "/api/validate-yaml" and m == "POST":
                self.body()
                return self.json({"errors": [], "warnings": []})
            if path == "/api/repos/create" and m == "POST":
                return self.create()
            if path == "/api/repos/delete" and m == "DELETE":
                return self.delete()
            if path == "/api/models":
                return self.listing()
            g = re.match(r"^/_cdn/([0-9a-f]{64})$", path)
            if g:
                return self.cdn(g.group(1))
            g = re.match(r"^/_lfs/([0-9a-f]{64})(?:/(part|complete|verify)(?:/(\d+))?)?$", path)
            if g:
                return self.lfs_put(*g.groups())
            g = re.match(r"^/([^/]+/[^/]+?)\.git/info/lfs/objects/batch$", path)
            if g and m == "POST":
                return self.lfs_batch(g.group(1))
            g = re.match(r"^/api/models/([^/]+/[^/]+)(?:/(.*))?$", path)
            if g:
                return self.api(g.group(1), g.group(2) or "")
            g = re.match(r"^/([^/]+/[^/]+)/(?:resolve|raw)/(.+)$", path)
            if g:
                return self.resolve(g.group(1), g.group(2))
            self.body()
            self.fail(404, None, "no such route in the stand-in")

        # -- repo API ---------------------------------------------------------------
        def split_rev(self, r, rest):
            """revision and remaining path; a revision may hold slashes (refs/pr/1)."""
            parts = rest.split("/")
            for n in range(len(parts), 0, -1):
                cand = "/".join(parts[:n])
                if hub.resolve_rev(r, cand):
                    return cand, "/".join(parts[n:])
            return parts[0], "/".join(parts[1:])

        def info(self, r, sha, blobs):
            tree = r.commits[sha]
            sib = []
            for p in sorted(tree):
                e, d = tree[p], {"rfilename": p}
                if blobs:
                    d.update(size=e.size, blobId=e.oid)
                    if e.sha256:
                        d["lfs"] = {"sha256": e.sha256, "size": e.size, "pointerSize": 135}
                sib.append(d)
            card, tags = self.card(tree.get("README.md")), []
            tags = list(card.get("tags") or [])
            return {"_id": hashlib.sha1(r.rid.encode()).hexdigest()[:24], "id": r.rid,
                    "modelId": r.rid, "author": r.rid.split("/")[0], "sha": sha,
                    "private": r.private, "gated": "manual" if r.gated else False,
                    "disabled": False, "downloads": 0, "likes": 0, "tags": tags,
                    "lastModified": r.log[0]["date"], "createdAt": r.log[-1]["date"],
                    "cardData": card, "siblings": sib,
                    "usedStorage": sum(e.size for e in tree.values())}

        @staticmethod
        def card(entry):
            """Front matter of a card: scalars and plain lists only."""
            if entry is None:
                return {}
            with open(entry.file, encoding="utf-8", errors="replace") as f:
                text = f.read()
            g = re.match(r"^---\r?\n(.*?)\r?\n---\s*(?:\r?\n|$)", text, re.S)
            out, key = {}, None
            for line in g.group(1).splitlines() if g else []:
                item = re.match(r"^\s*-\s+(.*)$", line)
                pair = re.match(r"^([A-Za-z_][\w-]*):\s*(.*)$", line)
                if item and key:
                    if not isinstance(out.get(key), list):
                        out[key] = []
                    out[key].append(item.group(1).strip().strip("'\""))
                elif pair:
                    key, v = pair.group(1), pair.group(2).strip()
                    if v.startswith("[") and v.endswith("]"):
                        out[key] = [x.strip().strip("'\"") for x in v[1:-1].split(",") if x.strip()]
                    else:
                        out[key] = v.strip("'\"")
            return out

        def listing(self):
            want = self.q.get("filter", []) + self.q.get("tags", [])
            want = [t for w in want for t in w.split(",")]
            term, author = self.q.get("search", [""])[0].lower(), self.q.get("author", [None])[0]
            out = []
            for rid, r in sorted(hub.repos.items()):
                if r.private and self.user() is None:
                    continue
                i = self.info(r, r.head, False)
                if term in rid.lower() and all(t in i["tags"] for t in want) and \
                        author in (None, i["author"]):
                    i.pop("siblings")
                    out.append(i)
            self.json(out[: int(self.q.get("limit", ["1000"])[0])])

        def create(self):
            d = json.loads(self.body() or b"{}")
            who = self.user()
            if who is None:
                return self.fail(401, None, "Invalid credentials in Authorization header")
            if who[1] != "write":
                return self.fail(403, None, "This token has no write role")
            ns = d.get("organization") or who[0]
            rid = f"{ns}/{d.get('name')}"
            url = f"{self.hub_url()}/{rid}"
            if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", rid):
                return self.fail(400, None, f"Invalid repo name {rid}")
            with hub.lock:
                if hub.repo(rid):
                    return self.json({"url": url, "name": rid,
                                      "error": "You already created this model repo"}, 409)
                base = os.path.join(hub.root, rid)
                os.makedirs(base, exist_ok=True)
                with open(os.path.join(base, ".gitattributes"), "w") as f:
                    f.write("".join(f"*{e} filter=lfs diff=lfs merge=lfs -text\n" for e in sorted(LFS_EXT)))
                r = hub.scan(rid)
                r.private = bool(d.get("private")) or d.get("visibility") == "private"
            self.json({"url": url, "name": rid, "id": rid})

        def delete(self):
            d = json.loads(self.body() or b"{}")
            rid = f"{d['organization']}/{d['name']}" if d.get("organization") else d.get("name", "")
            r = self.find(rid, write=True)
            if r is None:
                return
            with hub.lock:
                hub.repos.pop(r.rid, None)
                shutil.rmtree(os.path.join(hub.root, r.rid), ignore_errors=True)
            self.json({})

        def api(self, rid, rest):
            m = self.command
            verb = rest.split("/")[0]
            write = verb in ("commit", "preupload", "settings", "xet-write-token")
            data = self.body() if m in ("POST", "PUT", "DELETE") else b""
            r = self.find(rid, write=write)
            if r is None:
                return
            arg = rest[len(verb) + 1:]
            if rest == "" or verb == "revision":
                sha = self.revision(r, arg or "main")
                if sha:
                    blobs = self.q.get("blobs", [""])[0].lower() in ("1", "true")
                    self.json(self.info(r, sha, blobs), headers=[("X-Repo-Commit", sha)])
                return
            if verb == "refs":
                return self.json({"branches": [{"name": n, "ref": "refs/heads/" + n, "targetCommit": s}
                                               for n, s in r.refs.items()],
                                  "converts": [], "tags": [], "pullRequests": []})
            if verb == "commits":
                return self.json(r.log)
            if verb == "tree":
                return self.tree(r, arg)
            if verb == "paths-info" and m == "POST":
                sha = self.revision(r, arg)
                if not sha:
                    return
                d = json.loads(data)
                paths = d.get("paths") or []
                paths = [paths] if isinstance(paths, str) else paths
                t = r.commits[sha]
                out = []
                for p in paths:
                    if p in t:
                        out.append(t[p].tree())
                    elif any(k.startswith(p.rstrip("/") + "/") for k in t):
                        out.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": p})
                return self.json(out)
            if verb == "settings" and m == "PUT":
                d = json.loads(data or b"{}")
                if "private" in d:
                    r.private = bool(d["private"])
                elif "visibility" in d:
                    r.private = d["visibility"] == "private"
                if "gated" in d:
                    r.gated = bool(d["gated"])
                return self.json({"private": r.private})
            if verb == "preupload" and m == "POST":
                return self.preupload(r, arg, json.loads(data))
            if verb == "commit" and m == "POST":
                return self.commit(r, arg, data)
            self.fail(404, None, f"no route {verb} in the stand-in")

        def tree(self, r, arg):
            rev, sub = self.split_rev(r, arg)
            sha = self.revision(r, rev)
            if not sha:
                return
            t, sub = r.commits[sha], sub.strip("/")
            rec = self.q.get("recursive", [""])[0].lower() in ("1", "true")
            pre = sub + "/" if sub else ""
            out, seen = [], set()
            for p in sorted(t):
                if not p.startswith(pre):
                    continue
                rel = p[len(pre):].split("/")
                for n in range(1, len(rel) if rec else min(2, len(rel))):
                    d = pre + "/".join(rel[:n])
                    if d not in seen:
                        seen.add(d)
                        out.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": d})
                if rec or len(rel) == 1:
                    out.append(t[p].tree())
            if sub and not out:
                return self.fail(404, "EntryNotFound", f"{sub} does not exist on \"{rev}\"")
            n = int(self.q.get("limit", [str(hub.a.page)])[0])
            at = int(self.q.get("cursor", ["0"])[0])
            hs = [("X-Repo-Commit", sha)]
            if at + n < len(out):
                q = {k: v[0] for k, v in self.q.items()}
                q["cursor"] = str(at + n)
                hs.append(("Link", f'<{self.hub_url()}{self.raw_path}?{urllib.parse.urlencode(q)}>; rel="next"'))
            page = out[at:at + n]
            if self.fault("badetag"):
                for e in page:
                    if "lfs" in e:
                        e["lfs"] = dict(e["lfs"], oid="f" * 64)
            self.json(page, headers=hs)

        # -- upload -----------------------------------------------------------------
        def preupload(self, r, rev, d):
            sha = self.revision(r, rev)
            if not sha:
                return
            t, out = r.commits[sha], []
            for f in d.get("files", []):
                sample = base64.b64decode(f.get("sample") or "")
                lfs = hub.is_lfs(f["path"], f["size"], sample)
                x = {"path": f["path"], "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
                if f["path"] in t:
                    x["oid"] = t[f["path"]].etag
                out.append(x)
            self.json({"files": out, "commitOid": sha})

        def lfs_batch(self, rid):
            d = json.loads(self.body())
            upload = d.get("operation") == "upload"
            r = self.find(rid, write=upload)
            if r is None:
                return
            out, base = [], self.hub_url()
            for o in d.get("objects", []):
                oid, size = o["oid"], o["size"]
                x = {"oid": oid, "size": size, "authenticated": True}
                have = hub.lfs_file(oid)
                exp = int(time.time()) + 3600
                if upload and not have:
                    up = f"{base}/_lfs/{oid}"
                    sig = f"?size={size}&exp={exp}&sig={hub.sign(oid, exp)}"
                    act = {"upload": {"href": up + sig, "header": {}},
                           "verify": {"href": up + "/verify" + sig, "header": {}}}
                    mp = hub.a.multipart
                    if mp and size > mp and "multipart" in (d.get("transfers") or []):
                        act["upload"]["href"] = up + "/complete" + sig
                        hd = {"chunk_size": str(mp)}
                        for i in range((size + mp - 1) // mp):
                            hd["%05d" % (i + 1)] = f"{up}/part/{i + 1}{sig}"
                        act["upload"]["header"] = hd
                        x["actions"] = act
                    else:
                        x["actions"] = act
                elif not upload:
                    if have:
                        x["actions"] = {"download": {"href": self.signed(oid), "header": {}}}
                    else:
                        x["error"] = {"code": 404, "message": "Object does not exist"}
                out.append(x)
            any_mp = any("chunk_size" in ((x.get("actions") or {}).get("upload") or {}).get("header", {})
                         for x in out)
            self.json({"transfer": "multipart" if any_mp else "basic", "objects": out},
                      headers=[("X-Lfs", "standin")])

        def signed_ok(self, oid):
            exp, sig = self.q.get("exp", ["0"])[0], self.q.get("sig", [""])[0]
            if sig != hub.sign(oid, exp):
                self.fail(403, None, "SignatureDoesNotMatch")
                return False
            if int(exp) < time.time():
                self.fail(403, None, "AccessDenied: Request has expired")
                return False
            if hub.a.cdn_reject_auth and self.headers.get("Authorization"):
                self.fail(400, None, "Only one auth mechanism allowed")
                return False
            return True

        def lfs_put(self, oid, what, num):
            if what == "verify":
                d = json.loads(self.body() or b"{}")
                f = hub.lfs_file(oid)
                if not f or os.path.getsize(f) != d.get("size"):
                    return self.fail(404, None, "object was not uploaded")
                return self.json({})
            dst = os.path.join(hub.store, "lfs", oid)
            if what == "complete":
                d = json.loads(self.body() or b"{}")
                got = hub.parts.pop(oid, {})
                tmp = dst + ".tmp%d" % threading.get_ident()
                with open(tmp, "wb") as f:
                    for p in sorted(d.get("parts", []), key=lambda p: p["partNumber"]):
                        part = got.get(p["partNumber"])
                        if part is None or part[1] != p["etag"].strip('"'):
                            return self.fail(400, None, f"part {p['partNumber']} is missing or differs")
                        with open(part[0], "rb") as g:
                            shutil.copyfileobj(g, f)
                return self.finish_object(tmp, dst, oid)
            if self.command != "PUT":
                return self.fail(405)
            tmp = dst + f".{what or 'one'}{num or ''}.{threading.get_ident()}"
            left, md = int(self.headers.get("Content-Length") or -1), hashlib.md5()
            with open(tmp, "wb") as f:
                if left < 0:
                    b = self.body()
                    f.write(b)
                    md.update(b)
                while left > 0:
                    b = self.rfile.read(min(left, CHUNK))
                    if not b:
                        self.close_connection = True
                        os.unlink(tmp)
                        return
                    left -= len(b)
                    f.write(b)
                    md.update(b)
            if not self.signed_ok(oid):
                os.unlink(tmp)
                return
            if what == "part":
                keep = dst + f".keep{num}"
                os.replace(tmp, keep)
                with hub.lock:
                    hub.parts.setdefault(oid, {})[int(num)] = (keep, md.hexdigest())
                self.send_response(200)
                self.send_header("ETag", f'"{md.hexdigest()}"')
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.finish_object(tmp, dst, oid)

        def finish_object(self, tmp, dst, oid):
            if sha256_file(tmp) != oid:
                os.unlink(tmp)
                return self.fail(400, None, "BadDigest: content does not match its oid")
            os.replace(tmp, dst)
            self.json({"success": True})

        def commit(self, r, rev, data):
            sha = self.revision(r, rev)
            if not sha:
                return
            head, ops = {}, []
            try:
                for line in data.splitlines():
                    if line.strip():
                        d = json.loads(line)
                        (head.update(d["value"]) if d["key"] == "header" else ops.append(d))
            except (ValueError, KeyError, TypeError) as e:
                return self.fail(400, None, f"malformed NDJSON: {e}")
            if not head.get("summary"):
                return self.fail(400, None, "a commit needs a header line with a summary")
            parent = head.get("parentCommit")
            with hub.lock:
                if parent and not r.head.startswith(parent):
                    return self.fail(412, None, "A commit has happened since. Please refresh and try again.")
                tree, base = dict(r.commits[r.head]), os.path.join(hub.root, r.rid)
                blobs = os.path.join(hub.store, "git")
                os.makedirs(blobs, exist_ok=True)
                for d in ops:
                    k, v = d["key"], d["value"]
                    p = v.get("path", "")
                    if p.startswith("/") or ".." in p.split("/") or not p:
                        return self.fail(400, None, f"invalid path {p!r}")
                    if k == "file":
                        raw = base64.b64decode(v["content"]) if v.get("encoding") == "base64" else v["content"].encode()
                        oid = hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()
                        fp = os.path.join(blobs, oid)
                        with open(fp, "wb") as f:
                            f.write(raw)
                        tree[p] = Entry(p, len(raw), oid, None, fp)
                    elif k == "lfsFile":
                        fp = hub.lfs_file(v["oid"])
                        if v.get("algo") != "sha256" or fp is None:
                            return self.fail(400, None, f"LFS pointer pointed to a file that does not exist: {p}")
                        size = os.path.getsize(fp)
                        if "size" in v and v["size"] != size:
                            return self.fail(400, None, f"wrong size for {p}")
                        tree[p] = Entry(p, size, pointer_oid(v["oid"], size), v["oid"], fp)
                    elif k == "deletedFile":
                        tree.pop(p, None)
                    elif k == "deletedFolder":
                        for q in [q for q in tree if q.startswith(p.rstrip("/") + "/")]:
                            tree.pop(q)
                    else:
                        return self.fail(400, None, f"unknown operation {k!r}")
                old = r.commits[r.head]
                if {p: e.oid for p, e in old.items()} == {p: e.oid for p, e in tree.items()}:
                    new = r.head
                else:
                    for p, e in old.items():          # keep older commits readable
                        if e.file.startswith(base + os.sep) and tree.get(p) is not e:
                            keep = os.path.join(hub.store, "lfs" if e.sha256 else "git", e.etag)
                            if not os.path.exists(keep):
                                shutil.copyfile(e.file, keep)
                            e.file = keep
                    for p in set(old) - set(tree):
                        try:
                            os.unlink(os.path.join(base, p))
                        except OSError:
                            pass
                    for p, e in tree.items():
                        if old.get(p) is not e:
                            dst = os.path.join(base, p)
                            os.makedirs(os.path.dirname(dst), exist_ok=True)
                            shutil.copyfile(e.file, dst)
                    new = hub.add_commit(r, tree, head["summary"])
            self.json({"success": True, "commitOid": new, "commitUrl": f"{self.hub_url()}/{r.rid}/commit/{new}",
                       "hookOutput": "", "pullRequestUrl": None})

        # -- download ----------------------------------------------------------------
        def signed(self, sha, name=None):
            exp = int(time.time() + (hub.a.cdn_expiry or 3600))
            q = {"exp": str(exp), "sig": hub.sign(sha, str(exp))}
            if name:
                q["filename"] = name
            return f"{self.cdn_url()}/_cdn/{sha}?{urllib.parse.urlencode(q)}"

        def resolve(self, rid, rest):
            r = self.find(rid)
            if r is None:
                return
            rev, path = self.split_rev(r, rest)
            sha = self.revision(r, rev)
            if not sha:
                return
            e = r.commits[sha].get(path)
            common = [] if self.fault("nocommit") else [("X-Repo-Commit", sha)]
            common.append(("Access-Control-Expose-Headers",
                           "X-Repo-Commit,X-Linked-Size,X-Linked-Etag,X-Xet-Hash,ETag,Link"))
            if e is None:
                return self.fail(404, "EntryNotFound", "Entry not found", common)
            bad = self.fault("badetag")
            if e.sha256:
                etag = "0" * 64 if bad else e.sha256
                self.send_response(302)
                for k, v in common:
                    self.send_header(k, v)
                self.send_header("X-Linked-Size", str(e.size))
                self.send_header("X-Linked-Etag", f'"{etag}"')
                self.send_header("ETag", f'"{e.oid}"')
                self.send_header("Accept-Ranges", "bytes")
                self.send_header("Location", self.signed(e.sha256, os.path.basename(path)))
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_file(e.file, e.size, "0" * 40 if bad else e.oid, common, path)

        def cdn(self, sha):
            if not self.signed_ok(sha):
                return
            f = hub.lfs_file(sha)
            if f is None:
                return self.fail(404, None, "NoSuchKey")
            name = self.q.get("filename", ["file"])[0]
            self.send_file(f, os.path.getsize(f), sha,
                           [("Content-Disposition", f"inline; filename*=UTF-8''{name}; filename=\"{name}\";")], name)

        def send_file(self, file, size, etag, headers, name):
            lo, hi, code = 0, size - 1, 200
            rng = self.headers.get("Range")
            if rng and not self.fault("norange"):
                g = re.match(r"^bytes=(\d*)-(\d*)$", rng.strip())
                if g and (g.group(1) or g.group(2)):
                    if g.group(1):
                        lo = int(g.group(1))
                        hi = min(int(g.group(2)), size - 1) if g.group(2) else size - 1
                    else:
                        lo, hi = max(0, size - int(g.group(2))), size - 1
                    if lo >= size or lo > hi:
                        return self.fail(416, None, "Requested range not satisfiable",
                                         [("Content-Range", f"bytes */{size}")])
                    code = 206
            length = max(0, hi - lo + 1)
            short = self.fault("short")
            if short:
                length = max(0, length - int(short.num("by", 1)))
            chunked = bool(self.fault("nolength")) and self.command == "GET"
            self.send_response(code)
            for k, v in headers:
                self.send_header(k, v)
            ext = os.path.splitext(name)[1]
            self.send_header("Content-Type", {".json": "application/json", ".md": "text/plain; charset=utf-8"}
                             .get(ext, "application/octet-stream"))
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(length))
            self.send_header("ETag", f'"{etag}"')
            self.send_header("Accept-Ranges", "none" if self.fault("norange") else "bytes")
            if code == 206:
                self.send_header("Content-Range", f"bytes {lo}-{hi}/{size}")
            self.end_headers()
            if self.command == "HEAD":
                return
            drop, slow, corrupt = self.fault("drop"), self.fault("slow"), self.fault("corrupt")
            limit = int(drop.num("after", length // 2)) if drop else None
            flip = int(corrupt.num("at", size // 2)) if corrupt else None
            pos = lo
            with open(file, "rb") as f:
                f.seek(lo)
                while pos < lo + length:
                    n = min(CHUNK, lo + length - pos)
                    if slow:
                        n = min(n, max(1, int(slow.num("rate", 65536) / 10)))
                    if limit is not None:
                        n = min(n, limit - (pos - lo))
                        if n <= 0:
                            self.wfile.flush()
                            self.close_connection = True
                            try:
                                self.connection.shutdown(2)
                            except OSError:
                                pass
                            return
                    b = f.read(n)
                    if flip is not None and pos <= flip < pos + len(b):
                        b = bytearray(b)
                        b[flip - pos] ^= 0x55
                        b = bytes(b)
                    if chunked:
                        self.wfile.write(b"%x\r\n" % len(b) + b + b"\r\n")
                    else:
                        self.wfile.write(b)
                    self.sent += len(b)
                    pos += len(b)
                    if slow:
                        time.sleep(0.1)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")

    return H


def main(argv=None):
    ap = argparse.ArgumentParser(description="Loopback stand-in for the Hugging Face Hub",
                                 epilog="see the head of the file for the fault syntax")
    ap.add_argument("--root", required=True)
    ap.add_argument("--store")
    ap.add_argument("--port", type=int, default=0)
    ap.add_argument("--port-file")
    for name in ("pin", "token", "private", "gated", "grant", "rename", "fault"):
        ap.add_argument("--" + name, action="append", default=[])
    ap.add_argument("--lfs-min", type=int, default=1 << 20)
    ap.add_argument("--multipart", type=int, default=0)
    ap.add_argument("--cdn-port", type=int, default=0)
    ap.add_argument("--cdn-name", default="localhost")
    ap.add_argument("--cdn-expiry", type=float, default=0)
    ap.add_argument("--cdn-reject-auth", action="store_true")
    ap.add_argument("--page", type=int, default=1000)
    ap.add_argument("--verbose", action="store_true")
    a = ap.parse_args(argv)
    hub = Hub(a)
    ThreadingHTTPServer.request_queue_size = 64
    srv = ThreadingHTTPServer(("127.0.0.1", a.port), make_handler(hub))
    srv.daemon_threads = True
    url = f"http://127.0.0.1:{srv.server_address[1]}"
    if a.cdn_port >= 0:
        cdn = ThreadingHTTPServer(("127.0.0.1", a.cdn_port), make_handler(hub))
        cdn.daemon_threads = True
        hub.cdn = f"http://{a.cdn_name}:{cdn.server_address[1]}"
        threading.Thread(target=cdn.serve_forever, daemon=True).start()
    if a.port_file:
        with open(a.port_file + ".tmp", "w") as f:
            f.write(str(srv.server_address[1]))
        os.replace(a.port_file + ".tmp", a.port_file)
    print("READY", url, flush=True)
    try:
        srv.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
