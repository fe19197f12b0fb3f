#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of what `gr00t serve TARGET` settles before a start (tokenizer, port, words, links of a cache), and of what it says when a start fails.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed". Every test has a home folder of its own; every service started is stopped.
"""
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../cli")]
import pull_hub as ph  # noqa: E402
from serve_home import Home as ServeHome  # noqa: E402
from tap import Skip, contains, equal, run_tests, test  # noqa: E402

COMMIT = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"
TOKENIZER = "Qwen/Qwen3-1.7B"
TMP = DEMO = BARE = ""


class Home(ServeHome):
    def __init__(self, **more):
        super().__init__(TMP, **more)

    def repositories(self):
        return sorted(n for n in os.listdir(self.hub) if n.startswith("models--")) if os.path.isdir(self.hub) else []


class Online:
    """A Hub with the demo without its tokenizer (org/demo), with it (org/whole), a package of org/demo (org/pack), and the tokenizer's repository."""

    def __init__(self, tokenizer=True):
        self.root = tempfile.mkdtemp(prefix="hub", dir=TMP)
        shutil.copytree(BARE, os.path.join(self.root, "org/demo"))
        shutil.copytree(DEMO, os.path.join(self.root, "org/whole"))
        package(os.path.join(self.root, "org/pack"), "org/demo", "main")
        if tokenizer:
            own = shutil.copytree(os.path.join(DEMO, "tokenizer"), os.path.join(self.root, TOKENIZER))
            added = json.loads(ph.read(os.path.join(own, "added_tokens.json")))
            ph.write(own, "tokenizer_config.json", json.dumps({"added_tokens_decoder": {
                str(i): {"content": text, "special": True} for text, i in added.items()}}))  # as the published repository has them
        self.hub = ph.Hub(self.root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hub.__exit__()

    def home(self, **more):
        return Home(HF_ENDPOINT=self.hub.url, **more)


def package(folder, weights, revision=COMMIT):
    """Without image/; its service is this program."""
    ph.write(folder, "tt_kernel_manifest.json", json.dumps({
        "schema_version": "5.1", "name": "pack", "tt_metal_version": "none", "arch": "blackhole", "device_count": 1,
        "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-11-29T00:00:00+00:00", "hostname": "h"},
        "weights": {"repo_id": weights, "revision": revision, "allow_patterns": None, "ignore_patterns": None, "repo_type": "model"},
        "auxiliary_weights": [],
        "container": {
            "image": {"registry": "hf", "repository": "pack", "tag": "tt-model/pack:0123456789ab", "digest": "sha256:" + "1e" * 32},
            "kind": "tt-dit-server", "runtime": {"app": "gr00t.native:app", "mesh_shape_env": "TT_MESH_SHAPE"},
            "serve": {"hardware": "p150", "mesh_device": "P150", "env": {"GR00T_CACHE": "/weight-cache/packed"}},
            "serve_profiles": [{"name": "cpu", "env": {"GR00T_DEVICE": "cpu"}}],
            "default_profile": "cpu", "code_dir": "code", "verify": []}}))
    return folder


def in_cache(home, repo, source):
    folder = os.path.join(home.hub, "models--" + repo.replace("/", "--"), "snapshots", COMMIT)
    shutil.copytree(source, folder)
    return folder


def dangling(folder):
    """The demo with every file a link to a blob that is gone, as in a cache whose blobs were removed."""
    for base, _, names in os.walk(shutil.copytree(DEMO, folder)):
        for n in names:
            os.remove(os.path.join(base, n))
            os.symlink("../../blobs/none", os.path.join(base, n))
    return folder


def taken():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    return s, str(s.getsockname()[1])


def free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


# ---- the tokenizer ----

@test
def serve_fetches_the_tokenizer_with_the_weights_it_is_missing_for():
    with Online() as o:
        for target in ("org/demo", "org/pack"):
            with o.home() as h:
                run = h.done("serve", target)
                contains(run.out, "\u2713 tokenizer  pulled", "\u2713 " + target + " ready")
                contains(" ".join(h.repositories()), "models--org--demo", "models--Qwen--Qwen3-1.7B")
                equal([s["state"] for s in h.ps()], ["ready"])
                ph.check_cache(h.hub)


@test
def weights_that_bring_a_tokenizer_or_a_tokenizer_that_is_here_cost_no_fetch():
    with Online(tokenizer=False) as o:
        with o.home() as h:
            h.done("serve", "org/whole")
            equal(h.repositories(), ["models--org--whole"])
        with o.home() as h:
            h.done("serve", "org/demo", "--tokenizer", os.path.join(DEMO, "tokenizer"))
            equal(h.repositories(), ["models--org--demo"])
        with o.home(GR00T_TOKENIZER_DIR=os.path.join(DEMO, "tokenizer")) as h:
            h.done("serve", BARE)
            equal(h.repositories(), [])


@test
def without_a_tokenizer_no_weights_are_fetched():
    with Online(tokenizer=False) as o:
        for target in ("org/demo", "org/pack"):
            with o.home() as h:
                h.fails(3, "serve", target, parts=["tokenizer could not be pulled"])
                assert "models--org--demo" not in h.repositories(), h.repositories()
                equal(h.ps(), [])


@test
def offline_a_missing_tokenizer_is_told_before_anything_starts():
    with Home(HF_HUB_OFFLINE="1") as h:
        remedy = ["no tokenizer is on this machine", "`gr00t pull --tokenizer`", "--tokenizer"]
        h.fails(4, "serve", BARE, parts=remedy)
        in_cache(h, "org/demo", BARE)
        pack = package(tempfile.mkdtemp(dir=TMP), "org/demo")
        h.fails(4, "serve", pack, parts=remedy)
        h.fails(4, "serve", pack, "--local-only", parts=remedy, env={"HF_HUB_OFFLINE": "0"})
        equal(h.ps(), [])
        h.done("serve", BARE, "--print")  # asks for nothing
        h.done("serve", pack, "--", "--tokenizer=" + os.path.join(DEMO, "tokenizer"))


@test
def info_tells_a_missing_tokenizer():
    with Home(HF_HUB_OFFLINE="1") as h:
        pack = package(tempfile.mkdtemp(dir=TMP), "org/demo")
        verdict = h.done("info", pack).out.splitlines()[-1]
        contains(verdict, "\u2717 cannot be served yet with profile cpu", "no tokenizer", "`gr00t pull --tokenizer`")
        in_cache(h, "org/demo", DEMO)
        equal(h.done("info", pack).out.splitlines()[-1], "\u2713 can be served here with profile cpu (on the CPU)")


@test
def a_boot_that_finds_no_tokenizer_says_so():
    with Home(HF_HUB_OFFLINE="1") as h:
        other = os.path.join(h.dir, "other-cache")  # what the service looks at is not looked at here
        run = h.fails(4, "serve", BARE, "--env", "HF_HUB_CACHE=" + other, parts=["The service found no tokenizer", "exit code 4"])
        contains(run.out, "\u2717 tokenizer missing", "> ", "\u2192 `gr00t pull --tokenizer` fetches it", "--tokenizer DIR")


# ---- links that lead nowhere ----

@test
def a_snapshot_whose_blobs_are_gone_is_told_alike_by_every_verb():
    with Home(HF_HUB_OFFLINE="1") as h:
        folder = dangling(os.path.join(h.dir, "gone"))
        told = ["gone/config.json: is a link to ../../blobs/none, which does not exist", "pull again"]
        h.fails(4, "serve", folder, parts=told)
        h.fails(4, "inspect", folder, parts=told)
        run = h.run("serve", "--model", folder)
        equal(run.returncode, 4)
        contains(run.err, *told)
        equal(h.ps(), [])
        os.symlink("../../blobs/none", os.path.join(folder, "tt_kernel_manifest.json"))
        for target in (folder, os.path.join(folder, "tt_kernel_manifest.json")):
            h.fails(4, "serve", target, parts=["tt_kernel_manifest.json: is a link to ../../blobs/none"])
        # one file of the settings alone
        one = shutil.copytree(DEMO, os.path.join(h.dir, "one"))
        os.remove(os.path.join(one, "statistics.json"))
        os.symlink("../../blobs/none", os.path.join(one, "statistics.json"))
        h.fails(4, "inspect", one, parts=["statistics.json: is a link to ../../blobs/none"])
        os.remove(os.path.join(one, "statistics.json"))
        h.fails(4, "inspect", one, parts=["statistics.json is missing in the snapshot folder"])


# ---- refused before anything is fetched ----

@test
def a_wrong_command_line_fetches_nothing():
    with Online() as o, o.home() as h:
        s, port = taken()
        with s:
            for target in ("org/demo", "org/pack"):
                h.fails(2, "serve", target, "--port", port, parts=[f"port {port} is in use"])
                h.fails(2, "serve", target, "extra", parts=['unexpected word "extra"', '"--"'])
                h.fails(2, "serve", target, "extra", "--", "--threads", "1", parts=['unexpected word "extra"'])
                h.fails(2, "serve", target, "--model", DEMO, parts=["names the weights already"])
                h.fails(2, "serve", target, "--", "--model", DEMO, parts=["names the weights already", "--model"])
                h.fails(2, "serve", target, "--", "--hf-model=org/x", parts=["names the weights already", "--hf-model"])
                h.fails(2, "serve", target, "--", "--host", "::1", parts=["--host belongs before"])
                h.fails(2, "serve", target, "--no-such-option", parts=["unknown option --no-such-option"])
            equal((o.hub.log(), h.repositories()), ([], []))
            # what is here already is not unpacked either
            in_cache(h, "org/demo", DEMO)
            pack = package(tempfile.mkdtemp(dir=TMP), "org/demo")
            h.fails(2, "serve", pack, "--port", port, parts=[f"port {port} is in use"])
            assert not os.path.exists(os.path.join(h.dir, ".cache/tt-model/pack")), "folders were made"
        contains(h.done("serve", DEMO, "--print", "--", "extra", "--more=1").out, "--port 20000 extra --more=1\n")


@test
def without_home_every_verb_names_the_variable():
    with Home() as h:
        for args in (("serve", DEMO), ("pull", "org/demo"), ("ps",), ("stop", DEMO), ("list",), ("info", "org/demo"), ("logs", DEMO), ("curl", DEMO)):
            for home in (None, "", "relative"):
                env = {k: v for k, v in h.env.items() if k != "HOME"}
                p = subprocess.run([ph.BIN, *args], env={**env, **({} if home is None else {"HOME": home})}, capture_output=True, text=True,
                                   timeout=240, check=False, cwd=h.dir)
                equal(p.returncode, 2, f"{args} {home}: {p.stderr}")
                equal(len(p.stderr.splitlines()), 1, p.stderr)
                contains(p.stderr, "HOME is " + (home or "not set") + ": set it to an absolute path")


# ---- what a failed start says ----

@test
def hints_are_commands_with_the_words_that_were_typed():
    with Home(HF_HUB_OFFLINE="1") as h:
        bad = os.path.join(h.dir, "it's bad")
        shutil.copytree(DEMO, bad)
        ph.write(bad, "config.json", "{}")
        run = h.fails(4, "serve", bad)
        contains(run.out, f"`gr00t logs {shlex.quote(bad)}`")
        pack = package(os.path.join(h.dir, "a pack"), "org/absent")
        run = h.run("serve", pack, "--profile", "cpu", "--tokenizer", os.path.join(DEMO, "tokenizer"))
        assert run.returncode not in (0, 2), run.err
        contains(run.out, "weights missing", f"`gr00t pull org/absent@{COMMIT}` fetches them")
        for text in (run.out, run.err):
            assert "TARGET" not in text and "ORG/NAME" not in text, text
        run = h.run("serve", pack, "--profile", "cpu", "--env", "GR00T_WEIGHTS_DIR=" + bad)
        contains(run.out, f"`gr00t logs {shlex.quote(pack)} --profile cpu`")


# ---- a port that is lost between the choice and the bind ----

@test
def a_port_that_is_lost_meanwhile_leads_to_the_next_one_or_to_a_clear_word():
    with Home() as h, socket.socket(socket.AF_INET6) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            s.bind(("::1", 20000))  # the search, on IPv4, does not see it: as if it came in between
        except OSError as e:
            raise Skip(f"::1 port 20000: {e}") from e
        s.listen()
        if not free(20000):
            raise Skip("another service holds port 20000")
        run = h.done("serve", DEMO, "--host", "::1")
        if "was taken meanwhile" not in run.out and not free(20000):
            raise Skip("another service took port 20000 meanwhile")
        contains(run.out, "port 20000 was taken meanwhile", "ready")
        assert "port in use" not in run.out, run.out
        (one,) = h.ps()
        assert one["port"] > 20000 and one["state"] == "ready", one
        h.done("stop", DEMO)
        run = h.fails(2, "serve", DEMO, "--host", "::1", "--port", "20000", parts=["Something else listens on port 20000", "exit code 2"])
        contains(run.out, "port in use", "another --port")


# ---- killed while it starts a service ----

def orphans(home):
    """Pids of services of this home that no record tells of."""
    run_dir = os.path.join(home.dir, ".cache/tt-model/run")
    known, found = set(), []
    for n in os.listdir(run_dir) if os.path.isdir(run_dir) else ():
        if n.endswith(".json"):
            known.add(json.loads(ph.read(os.path.join(run_dir, n)))["pid"])
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words, env = ph.read(f"/proc/{pid}/cmdline").split(b"\0"), ph.read(f"/proc/{pid}/environ")
        except OSError:
            continue
        if b"--model" in words and f"HOME={home.dir}\0".encode() in env and int(pid) not in known:
            found.append(int(pid))
    return found


@test
def a_launcher_killed_at_any_moment_leaves_no_service_unrecorded():
    with Home() as h:
        for i in range(40):
            p = subprocess.Popen([ph.BIN, "serve", DEMO, "--detach", "--tokenizer", os.path.join(DEMO, "tokenizer")], env=h.env,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            time.sleep(0.0005 * i)
            p.send_signal(signal.SIGKILL)
            p.wait()
            left, until = orphans(h), time.monotonic() + 60
            while left and time.monotonic() < until:  # a child that waits sees its end; a lost service would stay
                time.sleep(0.02)
                left = orphans(h)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            equal(left, [], f"killed after {0.5 * i} ms:")
            h.run("stop", "--all", "--grace-s", "0")


def main():
    global TMP, DEMO, BARE
    TMP = os.path.realpath(tempfile.mkdtemp(prefix="gr00t-resolve-"))
    DEMO, BARE = os.path.join(TMP, "demo"), os.path.join(TMP, "bare")
    try:
        subprocess.run([ph.BIN, "synth", "demo", DEMO], check=True, capture_output=True)
        shutil.copytree(DEMO, BARE)
        shutil.rmtree(os.path.join(BARE, "tokenizer"))
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
