# SPDX-License-Identifier: Apache-2.0
"""What the tests of started services share: a user's home of its own, in which the program runs."""
import json
import os
import subprocess
import tempfile

import pull_hub as ph
from tap import contains, equal

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))


class Home:
    """A user's home; what still runs at the end is stopped."""

    def __init__(self, tmp, **more):
        self.dir = tempfile.mkdtemp(prefix="home", dir=tmp)
        self.env = ph.environment(self.dir, **{"GR00T_CACHE": os.path.join(tmp, "cache"), **more})  # packed once for all
        self.cache = os.path.join(self.dir, ".cache/tt-model")
        self.hub = ph.cache_of(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("stop", "--all", "--grace-s", "5")

    def run(self, *args, env=None, timeout=240):
        p = subprocess.run([BIN, *args], env={**self.env, **(env or {})}, capture_output=True, timeout=timeout, check=False,
                           stdin=subprocess.DEVNULL)
        p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
        return p

    def done(self, *args, **more):
        p = self.run(*args, **more)
        assert p.returncode == 0, f"{args}: exit {p.returncode}: {p.err} {p.out[-500:]}"
        return p

    def fails(self, code, *args, parts=(), **more):
        p = self.run(*args, **more)
        assert p.returncode == code, f"{args}: exit {p.returncode}, expected {code}: {p.err} {p.out[-500:]}"
        contains(p.err.splitlines()[-1], "gr00t: ", *parts)
        return p

    def ps(self):
        return json.loads(self.done("ps", "--json").out)

    def one(self):
        all_of_them = self.ps()
        equal(len(all_of_them), 1, "services:")
        return all_of_them[0]
