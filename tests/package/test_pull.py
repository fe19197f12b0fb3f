#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of `gr00t pull` against the loopback Hub with its faults, and against a server that lies.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed".
"""
import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pull_hub as ph  # noqa: E402
import tap  # noqa: E402
from tap import Skip, contains, done, equal, run_tests, test  # noqa: E402

fails = functools.partial(tap.fails, start="gr00t: pull: ")

BIG = 14_000_000  # three parts of a connection
PIN = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"
TMP = ROOT = ""
HUB = None


def home():
    return tempfile.mkdtemp(prefix="home", dir=TMP)


def source(repo):
    return os.path.join(ROOT, repo)


def gets(log, part):
    return [e for e in log if e["method"] == "GET" and part in e["path"]]


# ---- what is there afterwards ----

@test
def a_pull_fills_the_cache_as_the_hubs_clients_do():
    h = home()
    HUB.faults()
    run = done(ph.pull("org/snap", env=ph.environment(h, HUB)))
    folder = ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"))
    equal(run.out.splitlines()[-1], folder)
    model = os.path.dirname(os.path.dirname(folder))
    commit = os.path.basename(folder)
    with open(os.path.join(model, "trees", commit + ".json"), encoding="utf-8") as f:
        tree = json.load(f)
    equal(tree["format_version"], 1)
    equal(sorted(tree["files"]), sorted(ph.files_of(source("org/snap"))))
    config = tree["files"]["config.json"]
    equal(config, {"size": os.path.getsize(source("org/snap/config.json")), "blob_id": ph.git_sha1(ph.read(source("org/snap/config.json")))})
    model_1 = tree["files"]["model-1.safetensors"]
    equal((model_1["size"], model_1["lfs_size"], len(model_1["lfs_sha256"]), len(model_1["blob_id"])), (BIG + 12345, BIG + 12345, 64, 40))
    equal(os.stat(os.path.join(model, "trees", commit + ".json")).st_mode & 0o777, 0o600)
    contains(ph.read(os.path.join(ph.cache_of(h), "CACHEDIR.TAG")).decode(), "Signature: 8a477f597d28d172789f06886806bc55")
    assert os.listdir(os.path.join(ph.cache_of(h), ".locks/models--org--snap"))
    ranges = {e["range"] for e in gets(HUB.log(), "/_cdn/") if e["range"]}
    assert len(ranges) >= 4, f"no parallel ranges: {ranges}"


@test
def a_second_pull_fetches_and_writes_nothing():
    h = home()
    env = ph.environment(h, HUB)
    HUB.faults()
    done(ph.pull("org/snap", env=env))

    def state():
        return {p: os.lstat(p).st_ctime_ns for p in ph.files_of(h).values()} | {
            d: os.lstat(d).st_ctime_ns for d, _, _ in os.walk(h)}
    before = state()
    HUB.faults()
    contains(done(ph.pull("org/snap", env=env)).out, "all of it was there")
    equal([e["path"] for e in HUB.log() if "/resolve/" in e["path"]], [])
    equal(state(), before)
    HUB.faults()
    commit = os.path.basename(ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap")))
    done(ph.pull("org/snap@" + commit, env=env))
    equal(HUB.log(), [], "a complete commit asks nobody:")
    equal(state(), before)


@test
def offline_opens_no_socket():
    h = home()
    HUB.faults()
    offline = ph.environment(h, HUB, HF_HUB_OFFLINE="1")
    for word in ("org/snap", "org/snap@v1", "org/snap@" + "0" * 40):
        fails(ph.pull(word, env=offline), 5, "HF_HUB_OFFLINE forbids the network", "unset it", "copy the cache")
    done(ph.pull("org/snap", "--ignore", "model-*", env=ph.environment(h, HUB)))
    HUB.faults()
    done(ph.pull("org/snap", "--ignore", "model-*", env=offline))
    fails(ph.pull("org/snap", env=offline), 5, "2 of 9 files are not in the Hub cache", "HF_HUB_OFFLINE", "unset it")
    fails(ph.pull("org/pinned@" + PIN, env=offline), 5, "unset it")
    for word in ("ON", "yes", "True"):
        fails(ph.pull("org/tiny", env=ph.environment(h, HUB, HF_HUB_OFFLINE=word)), 5, "HF_HUB_OFFLINE")
    fails(ph.pull("org/tiny", env=ph.environment(h, HUB, HF_HUB_OFFLINE="banana")), 2, 'HF_HUB_OFFLINE is "banana"', "expected 1, on, yes, true")
    equal(HUB.log(), [])
    for word in ("", "0", "off", "No", "FALSE"):
        done(ph.pull("org/tiny", "--dry-run", env=ph.environment(h, HUB, HF_HUB_OFFLINE=word)))


@test
def patterns_choose_files():
    h = home()
    HUB.faults()
    done(ph.pull("org/snap", "--allow", "*.json", "--allow", "copy/", "--ignore", "*two*", env=ph.environment(h, HUB)))
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"),
                      lambda n: (n.endswith(".json") or n.startswith("copy/")) and "two" not in n)
    fails(ph.pull("org/snap", "--allow", "nothing*", env=ph.environment(h, HUB)), 3, "none of its 9 files matches")


@test
def a_dry_run_lists_and_fetches_nothing():
    h = home()
    HUB.faults()
    contains(done(ph.pull("org/snap", "--dry-run", env=ph.environment(h, HUB))).out, "fetch", "model-1.safetensors", "28.1 MB to fetch")
    got = json.loads(done(ph.pull("org/snap", "--dry-run", "--json", env=ph.environment(h, HUB))).out)["repositories"][0]
    equal((got["files"], got["bytes_fetched"], got["kind"], len(got["file_list"])), (9, 0, "snapshot", 9))
    equal(ph.files_of(h), {})


@test
def a_pinned_commit_is_taken_and_no_other():
    h = home()
    HUB.faults()
    out = json.loads(done(ph.pull("org/pinned@" + PIN, "--json", env=ph.environment(h, HUB))).out)["repositories"][0]
    equal(out["commit"], PIN)
    fails(ph.pull("org/pinned@" + "0" * 40, env=ph.environment(h, HUB)), 3, "no such revision", "no other one is taken",
          HUB.url + "/org/pinned/commits/main")
    assert not os.path.exists(os.path.join(ph.cache_of(h), "models--org--pinned/refs"))  # as after snapshot_download(revision=PIN)
    offline = ph.environment(h, HUB, HF_HUB_OFFLINE="1")
    HUB.faults()
    fails(ph.pull("org/pinned", env=offline), 5, f"org/pinned @ main is not in the Hub cache, but org/pinned@{PIN} is: name it")
    done(ph.pull("org/pinned@" + PIN, env=offline))
    find = subprocess.run([ph.BIN, "serve"], env=offline | {"HF_MODEL": "org/pinned"}, capture_output=True, text=True, timeout=60, check=False)
    equal(find.returncode, 4, find.stderr)
    contains(find.stderr, f"but {PIN} is: name that revision")
    for more, words in (({}, "fetches it once HF_HUB_OFFLINE is unset"), ({"HF_HUB_OFFLINE": "0"}, "fetches it\n")):
        find = subprocess.run([ph.BIN, "serve"], env=offline | {"HF_MODEL": "org/none"} | more, capture_output=True, text=True, timeout=60, check=False)
        equal(find.returncode, 4, find.stderr)
        contains(find.stderr, words)
    equal(HUB.log(), [])


@test
def force_fetches_again():
    h = home()
    env = ph.environment(h, HUB)
    done(ph.pull("org/tiny", env=env))
    folder = ph.check_snapshot(ph.cache_of(h), "org/tiny", source("org/tiny"))
    blob = os.path.realpath(os.path.join(folder, "config.json"))
    with open(blob, "r+b") as f:  # same size, another byte: only --force or verify sees it
        f.write(b"X")
    done(ph.pull("org/tiny", env=env))
    done(ph.pull("org/tiny", "--force", env=env))
    ph.check_snapshot(ph.cache_of(h), "org/tiny", source("org/tiny"))
    os.truncate(blob, 3)  # another size is seen
    done(ph.pull("org/tiny", env=env))
    ph.check_snapshot(ph.cache_of(h), "org/tiny", source("org/tiny"))


# ---- faults on the way ----

def mended(*faults, options=(), timeout_s="60", notes=(), only="model-1.safetensors"):
    """One large file, unless all are wanted (None): these tests wait for the stand-in's bytes."""
    h = home()
    HUB.faults(*faults)
    allow = ("--allow", only) if only else ()
    run = done(ph.pull("org/snap", *options, *allow, env=ph.environment(h, HUB, HF_HUB_DOWNLOAD_TIMEOUT=timeout_s)))
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"), (lambda n: n == only) if only else None)
    contains(run.err, *notes)
    return run


@test
def cut_bodies_go_on_where_they_stopped():
    mended("drop:after=2000000,path=_cdn,times=8")
    first = [(int(e["range"][6:].split("-")[0]), e) for e in gets(HUB.log(), "/_cdn/") if e["status"] == 206]
    cut = [start for start, e in first if e["sent"] == 2000000]
    assert cut, "nothing was cut"
    for start in cut:
        assert start + 2000000 in [s for s, _ in first], f"the range from {start} did not go on"


@test
def short_bodies_are_noticed():
    mended("short:by=1500000,path=_cdn,times=3")


@test
def busy_and_faulty_answers_are_waited_for():
    mended("status:code=429,retry_after=0,times=2,path=/api/", "status:code=503,retry_after=0,times=3,path=resolve",
           "status:code=503,retry_after=0,times=2,path=_cdn", notes=("429", "503", "try 2 of 6"))


@test
def a_stalled_server_is_left():
    mended("stall:secs=6,path=_cdn,times=1", timeout_s="3", notes=("nothing came or went",))


@test
def a_server_without_ranges_or_lengths_is_enough():
    mended("norange:path=_cdn")
    mended("nolength", only=None)
    mended("norange:path=_cdn", "drop:after=9000000,path=_cdn,skip=1,times=1", options=("--connections", "1"))
    equal([e["sent"] for e in gets(HUB.log(), "/_cdn/")][1], 9_000_000, "nothing was cut:")


@test
def headers_that_lie_are_not_needed():
    mended("nocommit", only=None)


@test
def wrong_bytes_never_get_a_name():
    one = ("--connections", "1")  # requests in a known order
    mended("corrupt:path=_cdn,at=1000,times=1", options=one, notes=("model-1.safetensors hashes to", "begins again"))
    mended("corrupt:path=_cdn,at=10000000,skip=1,times=1", options=one, notes=("model-1.safetensors hashes to", "begins again"))
    mended("corrupt:path=resolve/.*config.json,at=1,times=1", notes=("config.json hashes to",), only="config.json")
    h = home()
    HUB.faults("corrupt:path=_cdn,at=100")
    fails(ph.pull("org/snap", "--allow", "model-1*", env=ph.environment(h, HUB)), 4, "twice", "hashes to")
    ph.check_cache(ph.cache_of(h))
    HUB.faults("badetag")
    fails(ph.pull("org/snap", "--allow", "small.bin", env=ph.environment(h, HUB)), 4, "small.bin hashes to")
    HUB.faults()
    done(ph.pull("org/snap", "--allow", "model-1*", "--allow", "small.bin", env=ph.environment(h, HUB)))
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"), lambda n: n in ("model-1.safetensors", "small.bin"))


@test
def tries_end():
    h = home()
    HUB.faults("status:code=503,retry_after=0")
    fails(ph.pull("org/tiny", env=ph.environment(h, HUB)), 5, "fault of its own", "503")
    HUB.faults("status:code=429,retry_after=0")
    fails(ph.pull("org/tiny", env=ph.environment(h, HUB)), 5, "too many requests", "HF_TOKEN")
    equal(len(HUB.log()), 6)
    fails(ph.pull("org/tiny", env=ph.environment(h) | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "true"}), 5, "not in the Hub cache")


@test
def an_address_where_nobody_is_ends_it_soon():
    for url, words in (("http://127.0.0.1:9", "connection refused"), ("http://no-such-host.invalid", "the host name is not known")):
        run = fails(ph.pull("org/tiny", env=ph.environment(home()) | {"HF_ENDPOINT": url}), 5, words, f"HF_ENDPOINT is {url}")
        equal(run.err.count("try "), 1, run.err)
        contains(run.err, "try 2 of 2")


@test
def a_hub_that_goes_away_meanwhile_is_waited_for():
    hub = ph.Hub(ROOT)
    hub.faults("slow:rate=200000,path=_cdn", "slow:rate=200000,path=resolve")
    h = home()
    p = start(h, hub)
    wait_for_bytes(h, 1, p)
    hub.__exit__()
    err = ""
    while "of 6" not in err:
        piece = os.read(p.stderr.fileno(), 4096).decode()
        assert piece, f"exit {p.wait()}: {err}"
        err += piece
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    equal(p.returncode, 130, err)


@test
def signed_addresses_are_asked_for_again():
    with ph.Hub(ROOT, "--cdn-expiry", "2") as hub:
        h = home()
        hub.faults("slow:rate=2000000,path=_cdn,times=1")
        done(ph.pull("org/snap", "--connections", "1", "--allow", "model-1*", env=ph.environment(h, hub)))
        ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"), lambda n: n.startswith("model-1"))
        assert [e for e in hub.log() if e["status"] == 403], "nothing expired"


# ---- the end of a process ----

def start(h, hub, *args):
    return subprocess.Popen([ph.BIN, "pull", "org/snap", *args], env=ph.environment(h, hub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_bytes(h, n, p, timeout_s=60):
    blobs = os.path.join(ph.cache_of(h), "models--org--snap/blobs")
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and p.poll() is None:
        try:
            if sum(os.path.getsize(os.path.join(blobs, b)) for b in os.listdir(blobs) if b.endswith(".incomplete")) >= n:
                return
        except FileNotFoundError:
            pass  # nothing yet, or one of them just got its name
        time.sleep(0.01)
    p.kill()
    raise AssertionError(f"exit {p.wait()} before {n} bytes")


@test
def a_killed_pull_is_gone_on_with():
    h = home()
    for at in (1, 9_000_000):
        HUB.faults("slow:rate=2500000,path=_cdn,skip=%d" % (at // 8388608))
        p = start(h, HUB)
        wait_for_bytes(h, at, p)
        p.kill()
        p.communicate()
        ph.check_cache(ph.cache_of(h))
    HUB.faults()
    run = json.loads(done(ph.pull("org/snap", "--json", env=ph.environment(h, HUB))).out)["repositories"][0]
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"))
    assert run["bytes_fetched"] <= run["bytes"] - 9_000_000, run


@test
def an_interrupt_keeps_what_is_there():
    h = home()
    HUB.faults("slow:rate=2500000,path=_cdn")
    p = start(h, HUB)
    wait_for_bytes(h, 1_000_000, p)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=60)[1]
    equal(p.returncode, 130)
    contains(err, "interrupted", "the same command goes on")
    HUB.faults()
    run = json.loads(done(ph.pull("org/snap", "--json", env=ph.environment(h, HUB))).out)["repositories"][0]
    assert run["bytes_fetched"] <= run["bytes"] - 1_000_000, run
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"))


@test
def what_another_client_left_is_hashed_first():
    h = home()
    env = ph.environment(h, HUB)
    blobs = os.path.join(ph.cache_of(h), "models--org--snap/blobs")
    data = ph.read(source("org/snap/model-1.safetensors"))
    oid = ph.hashlib.sha256(data).hexdigest()
    HUB.faults()
    ph.write(blobs, oid + ".incomplete", data[:13_000_000])
    run = json.loads(done(ph.pull("org/snap", "--allow", "model-1*", "--json", env=env)).out)["repositories"][0]
    equal(run["bytes_fetched"], run["bytes"] - 13_000_000)
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"), lambda n: n.startswith("model-1"))
    h = home()
    blobs = os.path.join(ph.cache_of(h), "models--org--snap/blobs")
    for wrong in (b"\0" * 13_000_000, data + b"more", data[:-1] + b"\0"):
        shutil.rmtree(ph.cache_of(h), ignore_errors=True)
        ph.write(blobs, oid + ".incomplete", wrong)
        done(ph.pull("org/snap", "--allow", "model-1*", env=ph.environment(h, HUB)))
        equal(ph.read(os.path.join(blobs, oid)), data)


@test
def two_at_once_share_the_work():
    h = home()
    HUB.faults("slow:rate=2500000,path=_cdn,times=4")
    both = [start(h, HUB) for _ in range(2)]
    for p in both:
        err = p.communicate(timeout=240)[1]
        equal(p.returncode, 0, err)
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"))
    sent = sum(e["sent"] for e in HUB.log() if e["method"] == "GET")
    total = sum(os.path.getsize(p) for p in ph.files_of(source("org/snap")).values())
    assert sent <= total + 200_000, f"{sent} bytes were sent for {total}"


@test
def too_little_room_is_told_before_anything_is_fetched():
    h = home()
    HUB.faults()
    limit = ["sh", "-c", 'ulimit -f 10000 && exec "$@"', "sh"]  # files of 5 or 10 MB at most, by the shell's block
    fails(ph.pull("org/snap", env=ph.environment(h, HUB), wrapper=limit), 3, "not enough room", "GB are needed", "GB are free", "HF_HUB_CACHE")
    equal([e["path"] for e in HUB.log() if "/resolve/" in e["path"]], [])
    done(ph.pull("org/snap", env=ph.environment(h, HUB)))


@test
def a_disk_that_fills_on_the_way_ends_it_and_a_rerun_completes():
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("no user namespaces for a small file system of its own")
    h, out = home(), home()
    os.makedirs(os.path.join(h, ".cache"))
    HUB.faults("slow:rate=2500000,path=_cdn,times=4")
    script = """mount -t tmpfs -o size=48m small "$HOME/.cache" || exit 99
        (while ! ls "$HOME"/.cache/huggingface/hub/*/blobs/*.incomplete; do sleep 0.02; done
         head -c 48000000 /dev/zero > "$HOME/.cache/fill") > /dev/null 2>&1 &
        "$0" pull org/snap; echo "exit $?"; wait
        rm "$HOME/.cache/fill"; "$0" pull org/snap && cp -a "$HOME/.cache/." "$1" """
    p = subprocess.run(["unshare", "-rm", "sh", "-c", script, ph.BIN, os.path.join(out, ".cache")], env=ph.environment(h, HUB),
                       capture_output=True, text=True, timeout=240, check=False)
    if p.returncode == 99:
        raise Skip("no small file system to be had")
    contains(p.stdout, "exit 3")
    contains(p.stderr, "No space left on device", "make room and run it again")
    equal(p.returncode, 0, p.stderr)
    ph.check_snapshot(ph.cache_of(out), "org/snap", source("org/snap"))


# ---- access ----

@test
def refusals_name_the_remedy():
    with ph.Hub(ROOT, "--token", f"{ph.TOKEN}=me", "--private", "org/tiny", "--gated", "org/pinned", "--token", "hf_other=you") as hub:
        h = home()
        none, good = ph.environment(h, hub), ph.environment(h, hub, HF_TOKEN=ph.TOKEN)
        fails(ph.pull("org/tiny", env=none), 6, "no such repository, or it is private and no token was sent", "401", "HF_TOKEN")
        fails(ph.pull("org/none", env=none), 6, "no such repository, or it is private")
        fails(ph.pull("org/none", env=good), 3, "no such repository, or it is private and the token in use may not see it", "404")
        fails(ph.pull("org/tiny", env=ph.environment(h, hub, HF_TOKEN="hf_wrong")), 6, "does not accept the token", "/settings/tokens")
        fails(ph.pull("org/pinned", env=none), 6, "is gated", f"accept its terms at {hub.url}/org/pinned", "no token was sent")
        fails(ph.pull("org/pinned", env=good), 6, "is gated", "has no access yet")
        done(ph.pull("org/tiny", env=good))
        ph.check_snapshot(ph.cache_of(h), "org/tiny", source("org/tiny"))


@test
def the_token_stays_with_the_hub():
    with ph.Hub(ROOT, "--token", f"{ph.TOKEN}=me", "--private", "org/snap", "--cdn-reject-auth") as hub:
        h = home()
        ph.write(h, ".cache/huggingface/token", ph.TOKEN + "\n")
        done(ph.pull("org/snap", "--connections", "1", env=ph.environment(h, hub)))  # so that signed addresses are used again
        log = hub.log()
        assert all(e["auth"] for e in log if "/resolve/" in e["path"]) and not any(e["auth"] for e in gets(log, "/_cdn/"))
        assert gets(log, "/_cdn/")


@test
def a_renamed_repository_is_found_under_both_names():
    with ph.Hub(ROOT, "--rename", "org/old=org/tiny") as hub:
        h = home()
        done(ph.pull("org/old", env=ph.environment(h, hub)))
        ph.check_snapshot(ph.cache_of(h), "org/old", source("org/tiny"))
        done(ph.pull("org/old", env=ph.environment(h, hub, HF_HUB_OFFLINE="1")))


@test
def a_long_listing_comes_in_pages():
    with ph.Hub(ROOT, "--page", "2") as hub:
        h = home()
        done(ph.pull("org/tiny", env=ph.environment(h, hub)))
        ph.check_snapshot(ph.cache_of(h), "org/tiny", source("org/tiny"))


# ---- packages ----

@test
def a_package_is_entered_with_its_weights():
    h = home()
    env = ph.environment(h, HUB)
    HUB.faults()
    fails(ph.pull("org/package", "--arch", "wormhole_b0", env=env), 4, "is for blackhole, not for wormhole_b0")
    assert not os.path.exists(os.path.join(h, ".cache/tt-model"))
    got = json.loads(done(ph.pull("org/package", "--with-weights", "--arch", "blackhole", "--json", env=env)).out)["repositories"]
    equal([(r["kind"], r["id"]) for r in got], [("package", "org/package"), ("weights", "org/snap")])
    ph.check_snapshot(ph.cache_of(h), "org/package", source("org/package"))
    ph.check_snapshot(ph.cache_of(h), "org/snap", source("org/snap"),
                      lambda n: (n.endswith(".json") or n.startswith("model-")) and not n.startswith("sub/"))
    kept = os.path.join(h, ".cache/tt-model/pulled/org__package/tt_kernel_manifest.json")
    equal(ph.read(kept), ph.read(source("org/package/tt_kernel_manifest.json")))
    with open(os.path.join(h, ".cache/tt-model/installed.json"), encoding="utf-8") as f:
        entry = json.load(f)["org/package"]
    equal((entry["repo_id"], entry["container"], entry["arch"], entry["manifest"], entry["revision"]),
          ("org/package", True, "blackhole", kept, got[0]["commit"]))


@test
def the_tokenizer_comes_alone():
    h = home()
    HUB.faults()
    done(ph.pull("--tokenizer", env=ph.environment(h, HUB)))
    ph.check_snapshot(ph.cache_of(h), "Qwen/Qwen3-1.7B", source("Qwen/Qwen3-1.7B"),
                      lambda n: n in ("vocab.json", "merges.txt", "tokenizer_config.json"))


# ---- a server that lies ----

class Liar(http.server.BaseHTTPRequestHandler):
    pages = {}

    def do_GET(self):
        for part, (status, headers, body) in self.pages.items():
            if part in self.path:
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
        self.send_error(404)

    def log_message(self, *_):
        pass


def lied_to(code, pages, *parts):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("L", (Liar,), {"pages": pages}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        h = home()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        fails(ph.pull("org/x", env=ph.environment(h) | {"HF_ENDPOINT": url}), code, *parts)
        equal([n for n in ph.files_of(h) if "snapshots" in n], [])
    finally:
        server.shutdown()
        server.server_close()


@test
def hostile_answers_are_refused():
    info = (200, {}, json.dumps({"id": "org/x", "sha": "a" * 40}).encode())

    def tree(*files):
        return (200, {}, json.dumps([{"type": "file", "size": 3, "oid": "b" * 40, **f} for f in files]).encode())
    lied_to(5, {"/revision/": (200, {}, b"<html>log in</html>")}, "page for people")
    lied_to(5, {"/revision/": (200, {}, b'{"id": "org/x", "sha": "../../x"}')}, "names no commit")
    lied_to(5, {"/revision/": (200, {}, b'{"id": ')}, "cannot be read")
    lied_to(5, {"/revision/": (307, {"Location": "/api/models/org/x/revision/main"}, b"")}, "redirect")
    lied_to(5, {"/revision/": (302, {"Location": "http://127.0.0.1:9/x"}, b"")}, "sends elsewhere")
    for name in ("../evil", "/etc/x", "a/../../b", "a//b", "x\n", ".", "a\\b"):
        lied_to(3, {"/revision/": info, "/tree/": tree({"path": name})}, "no safe name")
    for names in (("a", "a/b"), ("a", "a-b", "a/b"), ("a", "a")):  # "a-b" sorts between a file and its folder
        lied_to(3, {"/revision/": info, "/tree/": tree(*({"path": n} for n in names))}, "exclude each other")
    lied_to(5, {"/revision/": info, "/tree/": (200, {"Link": '<http://127.0.0.1:9/x>; rel="next"'}, b"[]")}, "listing is not complete")
    lied_to(5, {"/revision/": (200, {"X-Long": "y" * 200000}, b"{}")}, "headers is too long")
    lied_to(5, {"/revision/": info, "/tree/": tree({"path": "a", "oid": "../../../../etc/passwd"})}, "without a usable object id")
    lied_to(5, {"/revision/": info, "/tree/": tree({"path": "a", "size": -1})}, "without a size")
    lied_to(3, {"/revision/": info, "/tree/": tree({"path": "a", "size": 2**60})}, "not enough room")
    lied_to(5, {"/revision/": info, "/tree/": (200, {"Link": '</api/models/org/x/tree/' + "a" * 40 + '?recursive=true&expand=false>; rel="next"'},
                                               b"[]")}, "names itself")
    lied_to(4, {"/revision/": info, "/tree/": tree({"path": "a"}), "/resolve/": (200, {}, b"abc")}, "a hashes to", "twice")


@test
def words_on_the_command_line():
    env = ph.environment(home(), HUB)
    fails(ph.pull(env=env), 2, "missing ORG/NAME")
    fails(ph.pull("name", env=env), 2, "no repository")
    fails(ph.pull("../x/y", env=env), 2, "no repository")
    fails(ph.pull("org/x@../y", env=env), 2, "no commit")
    fails(ph.pull("org/tiny", "--connections", "17", env=env), 2, "--connections")
    fails(ph.pull("org/tiny", env=env | {"HF_ENDPOINT": "ftp://x"}), 2, "HF_ENDPOINT")
    run = fails(ph.pull("org/tiny", env=env | {"HF_ENDPOINT": "http://me:s3cret@127.0.0.1:9"}), 2, "HF_ENDPOINT")
    assert "s3cret" not in run.err, run.err
    for name in ("HF_HOME", "HF_TOKEN_PATH"):  # no other place is taken instead
        fails(ph.pull("org/tiny", env=env | {name: "/x" * 4000, "HF_HUB_CACHE": TMP}), 2, name, "too long")
    fails(ph.pull("org/tiny", env=env | {"HF_HUB_DOWNLOAD_TIMEOUT": "soon"}), 2, "HF_HUB_DOWNLOAD_TIMEOUT")
    fails(ph.pull("org/tiny", env=env | {"HF_TOKEN": "a b"}), 2, "token")


def main():
    global TMP, ROOT, HUB
    with tempfile.TemporaryDirectory(prefix="gr00t-pull-") as TMP:
        ROOT = os.path.join(TMP, "root")
        ph.snapshot(source("org/snap"), BIG)
        ph.snapshot(source("org/tiny"), seed=2)
        ph.snapshot(source("org/pinned"), seed=3)
        ph.package(source("org/package"), "org/snap")
        for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "config.json", "model.safetensors"):
            ph.write(source("Qwen/Qwen3-1.7B"), name, name)
        with ph.Hub(ROOT, "--pin", "org/pinned=" + PIN) as HUB:
            return run_tests()


if __name__ == "__main__":
    sys.exit(main())
