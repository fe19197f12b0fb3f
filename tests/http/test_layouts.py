#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts gr1, gr1_long_text and auto; other embodiments and several cameras.

In and out as serving.py says.
"""
import json
import os
import sys

import serving as s
from serving import base, test

sys.path.insert(0, os.path.join(s.HERE, "..", "cli"))
import odd_snapshots  # noqa: E402


def longest(server, n):
    """Some instruction of exactly n tokens, by the server's own count of words."""
    def count(text):
        return server.post(base(instruction=text)).is_(200).json()["prompt_tokens"]
    step = count("pick pick") - count("pick")
    for first in ("pick", "the", "up", "robot", "pear", "a", "it", "plate"):
        words, rest = divmod(n - count(first), step)
        if rest == 0:
            return first + " pick" * words
    raise AssertionError(f"no instruction of {n} tokens")


def limit(server, n):
    r = server.post(base(instruction=longest(server, n))).is_(200)
    assert r.json()["prompt_tokens"] == n, str(r)
    r = server.post(base(instruction=longest(server, n) + " pick" * 2)).error(400, "n_text", "L_max", str(n), "shorten it", field="instruction")
    assert ("--layout gr1_long_text" in str(r)) == (n == 24), str(r)  # what would help, where something would


@test("PR-04", "gr1 is the default and takes 24 tokens")
def gr1():
    with s.serve("--threads", 1) as server:
        assert server.get("/info").json() and server.post(base()).is_(200).json()["layout"] == "gr1"
        limit(server, 24)


@test("PR-04", "gr1_long_text takes 152 tokens, by flag and by variable, same actions for short texts")
def long_text():
    with s.serve("--threads", 1) as short:
        want = short.post(base()).actions()
    for args, env in ((("--layout", "gr1_long_text"), {}), ((), {"GR00T_LAYOUT": "gr1_long_text"})):
        with s.serve("--threads", 1, *args, env=env) as server:
            r = server.post(base())
            assert r.json()["layout"] == "gr1_long_text" and r.actions() == want
            limit(server, 152)


@test("", "auto takes what the context allows")
def auto():
    with s.serve("--threads", 1, "--layout", "auto") as server:
        r = server.post(base()).is_(200)
        assert r.json()["layout"] == "auto", str(r)
        r = server.post(base(instruction=longest(server, 400))).is_(200)
        assert r.json()["prompt_tokens"] == 400, str(r)


@test("", "an action head with more rows than the layout has tokens, and wider heads than 16-bit attention takes")
def long_horizon():
    small = dict(v_hidden=8, v_mlp=8, v_layers=1, l_hidden=8, l_mlp=8, l_layers=1, l_heads=1, l_kv=1, l_head=4, d_layers=2, d_heads=1,
                 d_hidden=8, d_out=8, steps=1)
    for policy, width in (("exact", 512), ("mixed", 576)):
        model = odd_snapshots.make(s.path("horizon-" + policy), s.DEMO, **small, horizon=1024, max_seq=1024, d_width=width, d_head=width)
        with s.serve("--threads", 1, "--policy", policy, "--cache", "off", model=model) as server:
            server.post(base()).is_(200)


def two_cameras(name):
    """A copy of the demo whose gr1 has two cameras, in this order."""
    def change(doc):
        video = doc["processor_kwargs"]["modality_configs"]["gr1"]["video"]
        video["modality_keys"] = ["head", "wrist"]
    return s.copy_demo(name, processor_config__json=s.edit_json(change))


@test("ST-07", "several cameras: auto matches them by name, gr1 refuses the start")
def cameras():
    model = two_cameras("two-cameras")
    with s.serve("--threads", 1, "--layout", "auto", model=model, env={"GR00T_CACHE": s.path("c-cam")}) as server:
        one = base()["images"][s.CAMERA]
        other = s.base64_text(s.data("images", "bgr_swapped.png"))
        a = server.post(base(images={"head": one, "wrist": other})).is_(200)
        b = server.post(base(images={"wrist": other, "head": one})).is_(200)
        assert a.steady().replace(b" ", b"") == b.steady().replace(b" ", b"") or a.actions() == b.actions(), f"{a}\n{b}"
        c = server.post(base(images={"head": other, "wrist": one})).is_(200)
        assert c.actions() != a.actions(), "the cameras are matched by position"
        assert set(a.json()["images"]) == {"head", "wrist"}
        for images in ({"head": one}, {s.CAMERA: one}, {"head": one, "wrist": other, "x": one}):
            server.post(base(images=images)).error(400, "head", "wrist", field="images")
        doc = server.get("/demo").json()["request"]
        assert set(doc["images"]) == {"head", "wrist"}
        server.post(doc).is_(200)
        for route in ("/info", "/openapi.json"):
            assert "wrist" in server.get(route).is_(200).body.decode(), route
    s.boot_fails((2, 3, 4), "one picture", "--layout auto", model=model, args=("--layout", "gr1"))


@test("ST-11", "another embodiment of the snapshot is served on request")
def embodiment():
    def add(doc):
        modes = doc["processor_kwargs"]["modality_configs"]
        modes["new_embodiment"] = json.loads(json.dumps(modes["gr1"]))
        modes["new_embodiment"]["video"]["modality_keys"] = ["front"]

    def statistics(doc):
        doc["new_embodiment"] = doc["gr1"]
    model = s.copy_demo("embodiments", processor_config__json=s.edit_json(add), statistics__json=s.edit_json(statistics))
    with s.serve("--threads", 1, "--layout", "auto", "--embodiment", "new_embodiment", model=model, env={"GR00T_CACHE": s.path("c-emb")}) as server:
        doc = base()
        r = server.post(dict(doc, images={"front": doc["images"][s.CAMERA]}, embodiment="new_embodiment")).is_(200).json()
        assert r["embodiment"] == "new_embodiment" and r["embodiment_id"] == 0, r["embodiment"]
        server.post(dict(doc, images={"front": doc["images"][s.CAMERA]}, embodiment="gr1")).error(400, "new_embodiment", field="embodiment")
        assert server.post(server.get("/demo").json()["request"]).is_(200)
        assert "front" in server.get("/info").body.decode()
    s.boot_fails((2, 3), "gr1", args=("--embodiment", "nobody"))


if __name__ == "__main__":
    s.main()
