#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A robot's control loop against `gr00t serve`, with the standard library alone: one row of a chunk every 1 / action_rate_hz seconds, while
the next chunk is asked for in the background. Rows whose time has passed are skipped; with none left the last target is held.

    python3 examples/loop.py [URL] [SECONDS]

Yours are observe() and command(). What command() must see to first: docs/API.md, "Before it moves a robot"."""
import json
import sys
import threading
import time
import urllib.error
import urllib.request

URL, SECONDS = (sys.argv[1:2] or ["http://127.0.0.1:20000"])[0], float((sys.argv[2:3] or [10])[0])


def ask(path, body=None):
    """The JSON of an answer; a service that is starting or busy (503) is asked again after the pause it names, for a minute at most."""
    end = time.monotonic() + 60
    while True:
        request = urllib.request.Request(URL + path, body and json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            if e.code != 503 or time.monotonic() > end:
                raise RuntimeError(f"{path}: {e.code} {e.read().decode(errors='replace')}") from e
            time.sleep(float(e.headers.get("Retry-After", 1)))


def observe():
    """Picture, joint angles and instruction of this moment; here always the demo's."""
    return DEMO


def command(target):
    """Clip {group: [radians]} to the limits of position and speed, then send it to the motors; here it goes nowhere."""


def plan():
    """One chunk, in a thread of its own, with the moment of its observation."""
    global chunk, asking
    try:
        seen = time.monotonic()
        chunk = seen, ask("/predict", observe())["actions"]
    except (OSError, ValueError, RuntimeError) as e:
        print(f"no chunk: {e}", file=sys.stderr)
        time.sleep(1)
    asking = False


INFO, DEMO = ask("/info")["outputs"], ask("/demo")["request"]
STEP, ROWS = 1 / (INFO["action_rate_hz"] or 20), INFO["action_horizon"]
chunk, asking = None, False
commanded = held = 0
tick = start = time.monotonic()
while tick < start + SECONDS:
    row = ROWS if chunk is None else round((tick - chunk[0]) / STEP)  # row k is for k steps after the observation
    if not asking and row >= ROWS // 2:  # half of it is used up: time to look again
        asking = True
        threading.Thread(target=plan, daemon=True).start()
    if 0 <= row < ROWS:
        command({group: rows[row] for group, rows in chunk[1].items()})
        commanded += 1
    else:
        held += 1  # the motors keep the last target
    tick += STEP
    time.sleep(max(0.0, tick - time.monotonic()))
print(f"{commanded} rows commanded, {held} steps held, {1 / STEP:g} steps a second")
