#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of which service a word means: packages of the same name from two places, containers that another tool started, services that were
stopped; and of what is told about one that was killed, of rights of the state, and of certificates for another name.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed". Every test has a home folder of its own; every service started is stopped.
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))
sys.path.insert(0, HERE)
import pull_hub as ph  # noqa: E402
import test_serve_target as st  # noqa: E402
from tap import TESTS, Skip, contains, equal, run_tests, test  # noqa: E402

TESTS.clear()  # those of test_serve_target.py run there


def two_packages(h):
    """org/a and org/b, pulled, both called "pack"."""
    st.hub_snapshot(h)
    entries = {}
    for name in ("org/a", "org/b"):
        st.install(h, name)
        with open(os.path.join(h.cache, "installed.json"), encoding="utf-8") as f:
            entries.update(json.load(f))
    st.write(h.cache, "installed.json", entries)


def start(h, target, *options):
    h.done("serve", target, "--local-only", "--detach", *options)
    return next(s for s in h.ps() if s["target"] == target)


# ---- packages of the same name ----

@test
def two_repositories_with_one_package_name_are_two_services():
    with st.Home() as h:
        two_packages(h)
        a, b = start(h, "org/a"), start(h, "org/b")
        equal(a["name"], "tt-model-pack-cpu")
        assert b["name"].startswith("tt-model-pack-cpu-") and b["port"] != a["port"], b
        for verb in ("curl", "logs", "stop"):
            h.fails(3, verb, "pack", parts=["several targets", a["name"] + " (from org/a)", b["name"] + " (from org/b)"])
        equal({s["target"] for s in h.ps()}, {"org/a", "org/b"}, "an unclear stop stops nothing:")
        h.fails(7, "serve", "org/b", "--local-only", parts=[b["name"] + " runs already at " + b["url"]])
        contains(h.done("logs", "org/b").out, f":{b['port']}")
        contains(h.done("stop", "org/a").out, a["name"] + "  clean", "stopped 1 service(s)")
        equal([s["target"] for s in h.ps()], ["org/b"])
        h.fails(3, "curl", "org/a", parts=["is stopped", "gr00t serve org/a"])
        st.wait("ready", lambda: h.one()["state"] == "ready")
        contains(h.done("curl", "pack").out, "left_arm")  # one of that name is left
        h.fails(7, "serve", "org/b", "--local-only", parts=["runs already"])
        contains(h.done("stop", b["name"]).out, "stopped 1 service(s)")


@test
def a_path_means_what_was_served_from_it_and_nothing_else():
    with st.Home() as h:
        two_packages(h)
        start(h, "org/a")
        folder = st.package(tempfile.mkdtemp(dir=st.TMP))
        contains(h.done("stop", folder).out, "nothing running")
        contains(h.done("stop", "org/b").out, "nothing running")
        h.fails(3, "logs", folder, parts=["no service of"])
        s = start(h, folder)
        contains(h.done("stop", os.path.join(folder, "tt_kernel_manifest.json")).out, s["name"])
        equal(h.one()["target"], "org/a")


@test
def containers_of_packages_with_one_name_have_two_names():
    with st.with_engine("docker") as h:
        two_packages(h)
        st.engine_has(h, st.base_manifest())
        a, b = start(h, "org/a", "--container"), start(h, "org/b", "--container")
        names = [c[c.index("--name") + 1] for c in st.calls(h) if c[1] == "run"]
        equal(names, [a["name"], b["name"]])
        contains(h.done("stop", "org/b").out, b["name"] + "  clean")
        equal(h.one()["name"], a["name"])


# ---- containers of another tool ----

def by_another_tool(h):
    """A container as the vendor's tool starts it: nothing but the engine knows it."""
    pack = st.package(tempfile.mkdtemp(dir=st.TMP))
    st.hub_snapshot(h)
    st.engine_has(h, st.base_manifest())
    h.done("serve", pack, "--container", "--no-weights")
    os.unlink(st.state_file(h, "tt-model-pack-cpu"))
    return pack


@test
def containers_of_another_tool_are_listed_asked_logged_and_stopped():
    with st.with_engine("docker") as h:
        pack = by_another_tool(h)
        s = h.one()
        equal((s["name"], s["state"], s["engine"], s["package"], s["profile"], s["target"], s["other"]),
              ("tt-model-pack-cpu", "ready", "docker", "pack", "cpu", None, True))
        contains(h.done("ps").out, "tt-model-pack-cpu", "pack (started by another tool)", s["url"])
        contains(h.done("curl", "pack").out, "left_arm")
        contains(h.done("logs", "tt-model-pack-cpu").out, "Application startup complete")
        h.fails(7, "serve", pack, "--container", "--no-weights", parts=["tt-model-pack-cpu runs already", "gr00t stop tt-model-pack-cpu"])
        st.install(h)
        contains(h.done("stop", "--all").err, "tt-model-pack-cpu was started by another tool")
        equal(len(h.ps()), 1, "services that are not ours:")
        contains(h.done("stop", "org/pack").out, "tt-model-pack-cpu  clean shutdown")
        equal(h.ps(), [])


@test
def an_engine_that_does_not_answer_hides_no_service_of_ours():
    with st.with_engine("docker") as h:
        h.done("serve", st.DEMO, "--detach")
        equal(len(json.loads(h.done("ps", "--json", env={"ENGINE_FAULT": "silent"}).out)), 1)


# ---- after the end ----

@test
def the_log_of_a_stopped_service_stays_until_the_next_start():
    for options in ((), ("--container",)):
        with st.with_engine("docker") as h:
            two_packages(h)
            st.engine_has(h, st.base_manifest())
            s = start(h, "org/a", *options)
            st.wait("ready", lambda: h.one()["state"] == "ready")
            h.done("stop", "org/a")
            for word in ("org/a", "pack", s["name"]):
                run = h.done("logs", word)
                contains(run.out, "Application startup complete", "Finished server process")
                contains(run.err, s["name"] + " is stopped")
            h.done("logs", "org/a", "-f")  # ends, as nothing more comes
            equal(h.ps(), [])
            h.fails(3, "logs", "org/b", parts=["no service of org/b"])
            start(h, "org/a", *options)
            run = h.done("logs", "org/a")
            assert "is stopped" not in run.err and "Finished server process" not in run.out, run.err + run.out
            equal([x for x in os.listdir(os.path.join(h.cache, "run")) if x.endswith(".stopped")], [])


@test
def a_container_killed_for_its_memory_is_told_with_its_limit():
    with st.with_engine("docker", ENGINE_FAULT="oom") as h:
        pack = st.package(tempfile.mkdtemp(dir=st.TMP))
        st.hub_snapshot(h)
        st.engine_has(h, st.base_manifest())
        run = h.fails(7, "serve", pack, "--container", "--no-weights", parts=["killed; out of memory: limit 512 MB"])
        contains(run.out, "\u2717 out of memory", "give it more memory")
        s = h.one()
        equal((s["state"], s["out_of_memory"]), ("ended", True))
        contains(h.done("ps").out, "ended, out of memory")


# ---- rights, names of certificates ----

@test
def the_state_is_for_nobody_else_whatever_the_umask():
    for mask in (0, 0o277):
        with st.Home() as h:
            os.makedirs(h.cache)
            st.install(h)
            st.hub_snapshot(h)
            old = os.umask(mask)
            try:
                h.done("serve", "org/pack", "--local-only", "--detach")
            finally:
                os.umask(old)
            run = os.path.join(h.cache, "run")
            modes = {x: stat.S_IMODE(os.stat(os.path.join(run, x)).st_mode) for x in os.listdir(run)}
            equal(stat.S_IMODE(os.stat(run).st_mode), 0o700, "run:")
            for end in (".json", ".log"):
                equal(modes["tt-model-pack-cpu" + end], 0o600, f"umask {mask:o} {end}:")
            assert all(m & 0o077 == 0 for m in modes.values()), modes
            h.done("stop", "org/pack")
            equal(stat.S_IMODE(os.stat(os.path.join(run, "tt-model-pack-cpu.stopped")).st_mode), 0o600)


@test
def a_certificate_for_localhost_is_good_enough_for_a_service_of_this_machine():
    if shutil.which("openssl") is None:
        raise Skip("no openssl command")
    with st.Home() as h:
        cert, key = os.path.join(h.dir, "cert.pem"), os.path.join(h.dir, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost"], check=True, capture_output=True)
        h.done("serve", st.DEMO, "--tls-cert", cert, "--tls-key", key)
        s = h.one()
        equal(s["state"], "ready")
        contains(h.done("curl", st.DEMO).out, "left_arm")
        h.fails(5, "curl", "--url", s["url"], "--ca-file", cert)  # an address that somebody names: the name counts
        other = os.path.join(h.dir, "other.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", os.devnull, "-out", other, "-days", "2",
                        "-subj", "/CN=localhost"], check=True, capture_output=True)
        h.fails(5, "curl", st.DEMO, "--ca-file", other)


def main():
    st.TMP = os.path.realpath(tempfile.mkdtemp(prefix="gr00t-names-"))
    st.DEMO = os.path.join(st.TMP, "demo")
    try:
        subprocess.run([st.BIN, "synth", "demo", st.DEMO], check=True, capture_output=True)
        return run_tests()
    finally:
        shutil.rmtree(st.TMP, ignore_errors=True)


@test
def a_docker_that_is_podman_by_another_name_shows_nothing_twice():
    with st.with_engine("podman") as h:
        shim = st.write(h.env["PATH"].split(":")[0], "docker", '#!/bin/sh\nexec podman "$@"\n')
        os.chmod(shim, 0o755)
        pack = st.package(tempfile.mkdtemp(dir=st.TMP))
        st.hub_snapshot(h)
        st.engine_has(h, st.base_manifest())
        h.done("serve", pack, "--engine", "podman", "--no-weights")
        s = h.one()
        equal((s["engine"], s["other"]), ("podman", False))
        contains(h.done("stop", "pack").out, "stopped 1 service(s)")
        equal(h.ps(), [])


@test
def a_docker_that_hangs_holds_up_nothing_for_long():
    with st.with_engine("docker", ENGINE_FAULT="hang") as h:
        h.done("serve", st.DEMO, "--detach")
        for verb in (["ps"], ["logs", st.DEMO], ["stop", st.DEMO], ["curl", st.DEMO]):
            begin = time.monotonic()
            run = h.run(*verb)
            equal(run.returncode, 3 if verb[0] == "curl" else 0, verb[0])
            contains(run.err, "docker has not answered for 3 s")
            assert time.monotonic() - begin < 60, verb  # the stand-in hangs for 1000 s


@test
def a_container_that_only_starts_is_stopped():
    with st.with_engine("docker", ENGINE_FAULT="slow") as h:
        pack = st.package(tempfile.mkdtemp(dir=st.TMP))
        st.hub_snapshot(h)
        st.engine_has(h, st.base_manifest())
        with subprocess.Popen([st.BIN, "serve", pack, "--container", "--no-weights", "--detach"], env=h.env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as p:
            st.wait("the record", lambda: os.path.exists(st.state_file(h, "tt-model-pack-cpu")))
            contains(h.done("stop", pack).out, "tt-model-pack-cpu  clean shutdown", "stopped 1 service(s)")
            equal(p.wait(), 0)
        equal(h.ps(), [])


@test
def what_a_service_from_a_folder_reads_is_not_removed():
    with st.Home() as h:
        snapshot, pack = st.hub_snapshot(h), st.package(tempfile.mkdtemp(dir=st.TMP))
        for target in (pack, snapshot):
            h.done("serve", target, "--local-only", "--detach")
            for word in ("org/demo", "org/demo@" + st.COMMIT):
                h.fails(7, "rm", word, "-y", parts=["org/demo is in use by the service " + h.one()["name"]])
            assert os.path.exists(snapshot + "/config.json")
            h.done("stop", target)
        h.done("rm", "org/demo")
        assert not os.path.exists(snapshot)


if __name__ == "__main__":
    sys.exit(main())
