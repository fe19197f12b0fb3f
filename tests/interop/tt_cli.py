#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The vendor's `tt` front end with gr00t in the place of tt-model (TT_TOOL_BIN_TT_MODEL): pull, info, profiles, list, search, --dry-run, --print, and
from serve to stop, watched and detached.

`tt` follows a watched serve in the engine by itself, so that those tests need dockerd (own_engines.py); where it cannot be started, a stand-in
for `docker` is on PATH, the others run and these are skipped. `tt` gets a home folder and a Hub of its own, and telemetry is off.
"""
import json
import os
import re
import sys

import interop as it
from interop import ph
from own_engines import Docker
from tap import Skip, contains, equal, test

T = None


class Front:
    """`tt` with everything around it."""

    def __init__(self):
        self.hub, self.engine, self.home = it.hub_with_everything(), None, it.fresh("home")
        self.env = ph.environment(self.home, self.hub, TT_TELEMETRY_DISABLED="1", TT_TOOL_BIN_TT_MODEL=it.BIN, NO_COLOR="1", COLUMNS="200")
        try:
            self.engine = Docker().__enter__()
            self.env.update(self.engine.env)
        except Skip as why:
            print(f"# {why}: a stand-in for docker")
            folder = it.fresh()
            os.symlink(os.path.join(it.ROOT, "tests/package/engine_stand_in.py"), os.path.join(folder, "docker"))
            self.env.update(PATH=folder + ":" + self.env["PATH"], ENGINE_DIR=os.path.join(folder, "state"), GR00T_STAND_IN_BIN=it.BIN)

    def __call__(self, *args, code=0):
        p = it.command(it.venv("tt-*", "tt")[0], *args, env=self.env, code=code, timeout=180)
        p.all = p.out + p.err
        return p

    def own(self, *args, **more):
        return it.gr00t(*args, env=self.env, **more)

    def needs_engine(self):
        if self.engine is None:
            raise Skip("dockerd does not run here")

    def close(self):
        self.own("stop", "--all", code=None)
        if self.engine:
            self.engine.__exit__()
        self.hub.__exit__()


def flat(text):
    """Without frames and the line breaks of tables."""
    return re.sub(r"\s+", " ", re.sub("[\u2500-\u257f]", " ", text))


@test
def pull_brings_package_and_weights_and_every_list_knows_it():
    it.figure(T("--version").out.strip())
    out = flat(T("model", "pull", it.PACKAGE).all)
    contains(out, f"{it.PACKAGE} @ ", f"{it.WEIGHTS} @ {it.COMMIT}", "installed")
    out = flat(T("model", "info", it.PACKAGE).all)
    contains(out, "tt-model bundle (container)", "arch blackhole", "engine tt-dit-server", "installed yes", f"weights {it.WEIGHTS}",
             "profiles cpu", "servable yes", "can be served here with profile cpu")
    contains(flat(T("model", "profiles", it.PACKAGE).all), "* cpu", "No card; the host's CPU computes everything.")
    listed = json.loads(T("model", "list", "--all", "--include-unverified", "--json").out)["models"]
    here = [m for m in listed if m["name"] == it.PACKAGE and m["installed"]]
    equal([(m["engine"], m["weights_repo"], m["cached"]) for m in here], [("tt-dit-server", it.WEIGHTS, True)])
    rows = json.loads(T("model", "search", "native", "--json").out)
    contains(json.dumps(rows), it.PACKAGE)


@test
def dry_run_and_print_show_what_would_run():
    plan = json.loads(T("serve", it.PACKAGE, "--dry-run", "--json").out)
    equal((plan["argv"], plan["installed"], plan["bundle"]["weights_repo"]),
          ([it.BIN, "--verbose", "serve", it.PACKAGE, "--detach"], True, it.WEIGHTS))
    run = T("serve", it.PACKAGE, "--print")
    line = run.out.splitlines()[-1]
    contains(line, "GR00T_DEVICE=cpu", "python -m uvicorn", "--port 20000")
    line = T("serve", it.PACKAGE, "--print", "--", "--threads", "1").out.splitlines()[-1]
    contains(line, "--threads 1")


@test
def a_watched_serve_ends_when_the_service_is_ready_and_the_other_verbs_know_it():
    T.needs_engine()
    port = it.free_port()
    out = flat(T("serve", it.PACKAGE, "--yes", "--port", str(port)).all)
    contains(out, "image ready", "weights ready", "container started", "server started", "model loaded", "endpoint answering", f"{it.PACKAGE} ready",
             f"http://127.0.0.1:{port}/v1")
    it.figure(re.search(r"Ready in [0-9.]+s", out).group(0) + " under tt serve, with the load of the image")
    it.check_service(f"http://127.0.0.1:{port}")
    out = flat(T("model", "ps").all)
    contains(out, it.PACKAGE, str(port), "healthy")
    contains(T("model", "logs", it.PACKAGE).all, "Application startup complete", f"Loading weights: {it.WEIGHTS} @ {it.COMMIT}")
    again = T("serve", it.PACKAGE, "--yes", code=None)
    assert again.returncode != 0, again.all
    contains(flat(again.all), "runs already")
    contains(T("model", "stop", it.PACKAGE).all, "clean shutdown", "stopped 1")
    equal(T.engine("ps", "--all", "--quiet").out, "")


@test
def a_start_that_fails_is_explained_by_tt():
    T.needs_engine()
    run = T("serve", it.PACKAGE, "--yes", "--", "--no-such-option", code=None)
    assert run.returncode != 0, run.all
    contains(flat(run.all), "no-such-option")
    T("model", "stop", it.PACKAGE)


@test
def a_detached_serve_is_natively_there_and_stops():
    port = it.free_port()
    out = flat(T("serve", it.PACKAGE, "--yes", "--detach", "--port", str(port)).all)
    contains(out, f"starts at http://127.0.0.1:{port}")
    it.wait_ready(f"http://127.0.0.1:{port}")
    it.check_service(f"http://127.0.0.1:{port}")
    contains(T("model", "logs", it.PACKAGE).all, "Application startup complete")
    contains(T("model", "stop", it.PACKAGE).all, "clean shutdown")
    contains(T("model", "stop", it.PACKAGE).all, "nothing running")


@test
def push_publish_and_rm_go_through_too():
    T.env["HF_TOKEN"] = ph.TOKEN
    contains(T("model", "push", it.demo_package(), "--repo", "demo-org/again").all, "demo-org/again")
    for verb in ("publish", "unpublish"):
        run = T("model", verb, "demo-org/again", *(["--yes"] if verb == "publish" else []), code=None)
        equal(run.returncode, 0, run.all)
        tags = T.hub.ask("/api/models/demo-org/again/revision/main")["tags"]
        equal("tt-model-catalog" in tags, verb == "publish", f"{tags}")
    T("model", "rm", it.PACKAGE, "--yes", code=0)
    assert it.PACKAGE not in T.own("list").out


def start():
    global T
    T = Front()


if __name__ == "__main__":
    it.venv("tt-*", "tt")
    sys.exit(it.run("tar", setup=start, teardown=lambda: T.close()))
