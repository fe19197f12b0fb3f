# SPDX-License-Identifier: Apache-2.0
"""HTTP by hand: the bytes of a request, a reading socket, replies as objects that check the contract's shapes.

In: bytes and sockets; out: Reply and Raw, whose text form shows what was sent and what came back.
"""
import json
import re
import socket
import struct
import time


def show(blob, limit=700):
    if isinstance(blob, str):
        blob = blob.encode()
    text = repr(bytes(blob[:limit]))[2:-1]
    return text + (f" ... ({len(blob)} bytes)" if len(blob) > limit else "")


def strict_json(blob):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    def pairs(items):
        keys = [k for k, _ in items]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a key twice in {keys}")
        return dict(items)
    return json.loads(blob.decode("utf-8"), parse_constant=refuse, object_pairs_hook=pairs)


class Reply:
    """One HTTP reply. headers: names in lower case."""

    def __init__(self, status, headers, body, sent=b"", ms=0.0):
        self.status, self.headers, self.body, self.sent, self.ms = status, headers, body, sent, ms

    def json(self):
        try:
            return strict_json(self.body)
        except ValueError as e:
            raise AssertionError(f"not strict JSON ({e}): {self}") from None

    def __str__(self):
        return f"{self.status} {self.headers} {show(self.body)}\n  sent: {show(self.sent)}"

    def is_(self, status, *parts):
        want = status if isinstance(status, (tuple, list)) else (status,)
        assert self.status in want, f"status {self.status}, expected {want}: {self}"
        for part in parts:
            assert part in self.body.decode("utf-8", "replace"), f"{part!r} is not in the reply: {self}"
        return self

    def error(self, status, *parts, field=None):
        """An error reply of the contract's shape; parts are in the message, field (when given) equals or starts error.field."""
        self.is_(status)
        assert self.headers.get("content-type", "").startswith("application/json"), f"content type: {self}"
        doc = self.json()
        err = doc.get("error")
        assert isinstance(err, dict) and set(err) == {"code", "message", "field"}, f"error's members: {self}"
        assert isinstance(err["code"], str) and err["code"] and isinstance(err["message"], str) and err["message"], f"code, message: {self}"
        assert err["field"] is None or isinstance(err["field"], str) and err["field"], f"field: {self}"
        assert "detail" in doc, f"no detail: {self}"
        if self.status == 422:
            for d in doc["detail"]:
                assert isinstance(d["type"], str) and d["loc"][0] == "body" and isinstance(d["msg"], str), f"detail of 422: {self}"
            assert doc["detail"], f"detail is empty: {self}"
        else:
            assert isinstance(doc["detail"], str), f"detail of {self.status}: {self}"
        assert not re.search(r"[\x00-\x1f\x7f]", err["message"]), f"control characters in the message: {self}"
        for part in parts:
            assert part.lower() in err["message"].lower(), f"{part!r} is not in the message: {self}"
        if field is not None:
            assert err["field"] and err["field"].startswith(field), f"field {err['field']!r}, expected {field!r}: {self}"
        return self

    def actions(self):
        """The bytes of the actions as sent."""
        self.is_(200)
        m = re.search(rb'"actions":\s*(\{.*?\}),\s*"action_horizon"', self.body, re.S)
        assert m, f"no actions: {self}"
        return m.group(1)

    def steady(self):
        """The whole body without its times."""
        self.is_(200)
        return re.sub(rb'"timing_ms":\s*\{[^}]*\}', b"", self.body)


class Raw:
    """What came back on a raw socket."""

    def __init__(self, sent, got, ended, first_ms, ms):
        self.sent, self.got, self.ended, self.first_ms, self.ms = sent, got, ended, first_ms, ms

    def __str__(self):
        return f"sent: {show(self.sent)}\n  got: {show(self.got, 1500)}\n  ended: {self.ended}, first byte {self.first_ms}, {self.ms:.0f} ms"

    def replies(self, heads=()):
        """The replies in order; heads: indices of replies to HEAD, which have no body. Interim ones are left out."""
        out, rest = [], self.got
        while rest:
            head, sep, rest = rest.partition(b"\r\n\r\n")
            assert sep and head.startswith(b"HTTP/1."), f"no reply where one should start: {show(head)}\n  {self}"
            lines = head.decode("latin-1").split("\r\n")
            status = int(lines[0].split()[1])
            headers = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:])}
            if status == 100:
                continue
            n = 0 if len(out) in heads or status in (204, 304) else int(headers.get("content-length", len(rest)))
            assert len(rest) >= n, f"body cut short, {len(rest)} of {n}: {self}"
            out.append(Reply(status, headers, rest[:n], self.sent, self.ms))
            rest = rest[n:]
        return out

    def one(self, heads=()):
        r = self.replies(heads)
        assert len(r) == 1, f"{len(r)} replies, expected one: {self}"
        return r[0]


def receive(sock, sent, wait, until=None):
    """Reads until the peer closes, `wait` seconds pass, or until(bytes) is true and 50 ms of silence follow."""
    t0, got, first, ended = time.monotonic(), b"", None, "timeout"
    while True:
        enough = until is not None and until(got)
        left = 0.05 if enough else wait - (time.monotonic() - t0)
        if left <= 0:
            break
        sock.settimeout(left)
        try:
            part = sock.recv(1 << 16)
        except (TimeoutError, socket.timeout):
            ended = "open" if enough else "timeout"
            break
        except (ConnectionResetError, BrokenPipeError):
            ended = "reset"
            break
        if not part:
            ended = "closed"
            break
        first = first if first is not None else (time.monotonic() - t0) * 1e3
        got += part
    return Raw(sent, got, ended, first, (time.monotonic() - t0) * 1e3)


def send(sock, blob):
    """A server that has refused may close while we send."""
    try:
        sock.sendall(blob)
        return True
    except (BrokenPipeError, ConnectionResetError):
        return False


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def http(method, target, body=None, headers=None, version="1.1"):
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost"]
    headers = dict(headers or {})
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
        headers.setdefault("Content-Length", str(len(body)))
    lines += [f"{k}: {v}" for k, v in headers.items() if v is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
