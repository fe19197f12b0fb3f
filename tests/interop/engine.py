#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image of the repository's package in dockerd and in podman with runc: as any user on a read-only root, under limits, and `gr00t serve --engine`
from pull to stop. Engines of their own (own_engines.py); an engine that cannot be started here is a skipped test.
"""
import json
import os
import shutil
import signal
import sys
import time

import interop as it
from interop import ph
from own_engines import Docker, Podman
from tap import contains, equal, test

MEMORY = 256 << 20


def image():
    return os.path.join(it.demo_package(), "image")


def stopped(engine, container, seconds=60):
    """Stops it; it must end by itself, with 0."""
    start = time.monotonic()
    engine("stop", "--time", str(seconds), container)
    took = time.monotonic() - start
    equal(engine.inspect(container, "{{.State.ExitCode}}"), "0", engine.log(container)[-800:])
    contains(engine.log(container), "Finished server process")
    assert took < seconds, f"stop took {took:.1f} s"
    engine("rm", container)
    return took


def runs_as_anybody(engine):
    tag = engine.load(image())
    longest = 0
    for user in ((), ("--user", "0:0"), ("--user", "12345:54321")):
        port = it.free_port()
        container = engine.run_detached(tag, port, "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *user)
        url = f"http://127.0.0.1:{port}"
        it.wait_ready(url, lambda c=container: engine.log(c))
        it.check_service(url)
        longest = max(longest, stopped(engine, container))
    it.figure(f"{engine.version()}: uid 1000, 0 and 12345, read-only root, no capabilities; stop {longest:.1f} s, exit code 0")
    p = engine("run", "--rm", "--entrypoint", "tt-smi", tag, "-r", "all")
    contains(p.out + p.err, "nothing to reset")


def keeps_to_limits(engine):
    tag, port = engine.load(image()), it.free_port()
    container = engine.run_detached(tag, port, "--memory", str(MEMORY), "--cpus", "1")
    url = f"http://127.0.0.1:{port}"
    it.wait_ready(url, lambda: engine.log(container))
    it.check_service(url)
    info = it.ask(url + "/info")[1]["hardware"]
    equal(info["threads"], 1, info)
    contains(engine.log(container), "threads=1")
    with open(f"/proc/{engine.inspect(container, '{{.State.Pid}}')}/status", encoding="utf-8") as f:
        peak = next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))
    assert peak << 10 < MEMORY, f"{peak} kB"
    stopped(engine, container)
    small = engine.run_detached(tag, port, "--memory", str(16 << 20), "--memory-swap", str(16 << 20))
    it.wait("the end of a service that has too little memory", lambda: engine.inspect(small, "{{.State.Running}}") == "false", 240)
    code = engine.inspect(small, "{{.State.ExitCode}}")
    assert code != "0", engine.log(small)
    engine("rm", small)
    it.figure(f"{engine.name}: 256 MB and 1 CPU: threads={info['threads']} ({info['threads_reason']}), peak {peak / 1024:.0f} MB; with 16 MB exit code {code}")


def served(engine):
    with it.hub_with_everything() as hub:
        home = it.fresh("home")
        env = ph.environment(home, hub, **engine.env)
        port = str(it.free_port())
        run = it.gr00t("serve", it.PACKAGE, "--engine", engine.name, "--port", port, env=env)
        contains(run.out, "pulled", "warmed up", "ready", f"http://127.0.0.1:{port}")
        service = json.loads(it.gr00t("ps", "--json", env=env).out)[0]
        equal((service["engine"], service["state"], service["name"]), (engine.name, "ready", f"tt-model-{it.NAME}-cpu"))
        smoke = it.check_service(service["url"])
        contains(it.gr00t("curl", it.PACKAGE, env=env).out, "left_arm")
        bench = json.loads(it.gr00t("bench", "http", "--url", service["url"], "-n", "10", "--json", env=env).out)
        contains(it.gr00t("logs", it.PACKAGE, env=env).out, "Application startup complete")
        contains(engine.log(service["name"]), f"@ {it.COMMIT}")
        assert it.gr00t("serve", it.PACKAGE, "--engine", engine.name, env=env, code=7).err
        contains(it.gr00t("stop", it.PACKAGE, env=env).out, "clean shutdown")
        equal((json.loads(it.gr00t("ps", "--json", env=env).out), engine("ps", "--all", "--quiet").out), ([], ""))
        again = it.gr00t("serve", it.PACKAGE, "--engine", engine.name, "--local-only", "--detach", env=env)
        assert "loaded" not in again.out, again.out
        it.gr00t("stop", it.PACKAGE, env=env)
        it.figure(f"gr00t serve --engine {engine.name}: pull, boot, smoke (PCC {smoke['pcc_actions']:.5f}), bench p50 {bench['ms']['wall']['p50']:.0f} ms, stop")


def refused(engine):
    """A service that ends at its start: the reason is quoted, nothing is left."""
    home = it.fresh("home")
    env = ph.environment(home, HF_HUB_OFFLINE="1", **engine.env)
    run = it.gr00t("serve", it.demo_package(), "--engine", engine.name, "--no-weights", "--env", "GR00T_WEIGHTS_DIR=/nowhere", env=env, code=None)
    contains(run.out + run.err, "/nowhere: no such folder")
    equal(run.returncode, 4, "exit code, as of the same service without a container:")
    it.gr00t("stop", "--all", env=env)
    equal(engine("ps", "--quiet").out, "")


def hangs(engine):
    """A service that does not react is killed after the grace time, and that is said. The Hub cache is outside HF_HOME here."""
    with it.hub_with_everything() as hub:
        home = it.fresh("home")
        env = ph.environment(home, hub, HF_HUB_CACHE=it.fresh("cache"), **engine.env)
        it.gr00t("serve", it.PACKAGE, "--engine", engine.name, env=env)
        service = json.loads(it.gr00t("ps", "--json", env=env).out)[0]
        contains(engine.log(service["name"]), "Loading pipeline: gr_policy_open(/hf-hub/")
        os.kill(int(engine.inspect(service["name"], "{{.State.Pid}}")), signal.SIGSTOP)
        contains(it.gr00t("stop", it.PACKAGE, "--grace-s", "2", env=env).out, "killed: it did not end in time")
        equal(engine("ps", "--all", "--quiet").out, "")


CHECKS = (runs_as_anybody, keeps_to_limits, served, hangs, refused)


def each(engine):
    failed = []
    with engine() as e:
        for check in CHECKS:
            try:
                check(e)
            except Exception as why:  # the others are worth knowing, and a start of the engine is not cheap
                failed.append(f"{check.__name__}: {why}")
        more = getattr(sys.modules[__name__], "also_" + e.name, None)
        if more:
            more(e)
    assert not failed, "\n# ".join(failed)


def as_user(engine, uid):
    os.chmod(it.TMP, 0o711)
    os.chmod(engine.dir, 0o711)
    os.chmod(engine.env["DOCKER_HOST"].removeprefix("unix://"), 0o666)
    home, program, pack = it.fresh("home"), os.path.join(it.TMP, "gr00t"), os.path.join(it.fresh(), "package")
    shutil.copy(it.BIN, program)
    shutil.copytree(it.demo_package(), pack)
    weights = os.path.join(ph.cache_of(home), "models--" + it.WEIGHTS.replace("/", "--"), "snapshots", it.COMMIT)
    shutil.copytree(it.demo_snapshot(), weights)
    it.command("chown", "-R", f"{uid}:{uid}", home)
    os.chmod(os.path.dirname(pack), 0o711)
    env = ph.environment(home, HF_HUB_OFFLINE="1", **engine.env)

    def as_them(*args):
        return it.command("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", program, *args, env=env, cwd="/")
    try:
        as_them("serve", pack, "--engine", "docker")
        service = json.loads(as_them("ps", "--json").out)[0]
        it.check_service(service["url"])
        equal(engine.inspect(service["name"], "{{.Config.User}}"), f"{uid}:{uid}")
        written = [p for p in ph.files_of(os.path.join(home, ".cache/tt-model")).values() if "packed-" in p]
        equal({os.stat(p).st_uid for p in written}, {uid}, f"packed weights {written}:")
    finally:
        contains(as_them("stop", "--all").out, "clean shutdown")
    it.figure(f"docker: uid {uid} serves as uid {uid}, its packed weights are its own")


def also_docker(engine):
    """A user without rights serves as that user; containerd by itself takes the image under its full name."""
    as_user(engine, 12345)
    tag = engine.load(image())
    tar = os.path.join(it.fresh(), "image.tar")
    it.command("tar", "-C", image(), "-cf", tar, *sorted(ph.files_of(image())))
    ctr = ("ctr", "--address", engine.containerd, "--namespace", "gr00t")
    it.command(*ctr, "images", "import", "--no-unpack", tar)
    contains(it.command(*ctr, "images", "ls", "--quiet").out, "docker.io/" + tag)
    contains(it.command(*ctr, "images", "check").out, "complete")


@test
def podman_with_runc():
    each(Podman)


@test
def dockerd():
    each(Docker)


if __name__ == "__main__":
    sys.exit(it.run("tar"))
