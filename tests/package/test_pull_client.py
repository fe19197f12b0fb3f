#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gr00t pull` and the Hub's Python client on one cache: each reads what the other wrote, complete or begun.

In: GR00T_BIN, the program; GR00T_HF_PYTHON, interpreters that have huggingface_hub, separated by colons (skipped without). Out: TAP lines, then
"N passed, N failed".
"""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pull_hub as ph  # noqa: E402
from tap import Skip, equal, run_tests, test  # noqa: E402

BIG = 20_000_000
REPO = "org/snap"
TMP = ROOT = ""
HUB = None


def clients():
    found = [p for p in os.environ.get("GR00T_HF_PYTHON", "").split(":") if p]
    if not found:
        raise Skip("GR00T_HF_PYTHON names no interpreter with huggingface_hub (make interop)")
    return found


def fetch(python, h, **options):
    """Folder of the client's snapshot_download."""
    code = "import sys, json, huggingface_hub as h; print(h.snapshot_download(sys.argv[1], **json.loads(sys.argv[2])))"
    env = ph.environment(h, HUB, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
    p = subprocess.run([python, "-c", code, REPO, json.dumps(options)], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert p.returncode == 0, p.stderr[-600:]
    return p.stdout.splitlines()[-1]


def bodies():
    return [e["path"] for e in HUB.log() if e["method"] == "GET" and ("/resolve/" in e["path"] or "/_cdn/" in e["path"])]


def ours(h, *args):
    p = ph.pull(REPO, "--json", *args, env=ph.environment(h, HUB))
    assert p.returncode == 0, p.err
    return json.loads(p.out)["repositories"][0]


def source():
    return os.path.join(ROOT, REPO)


@test
def the_client_reads_what_we_pulled():
    for python in clients():
        h = tempfile.mkdtemp(dir=TMP)
        HUB.faults()
        folder = ours(h)["snapshot"]
        HUB.faults()
        equal(fetch(python, h, local_files_only=True), folder, python)
        equal(HUB.log(), [], python)
        equal(fetch(python, h), folder, python)
        equal(bodies(), [], python)
        ph.check_snapshot(ph.cache_of(h), REPO, source())


@test
def we_read_what_the_client_pulled():
    for python in clients():
        h = tempfile.mkdtemp(dir=TMP)
        HUB.faults()
        folder = fetch(python, h)
        HUB.faults()
        got = ours(h)
        equal((got["snapshot"], got["bytes_fetched"]), (folder, 0), python)
        equal(bodies(), [], python)
        run = ph.pull(REPO, env=ph.environment(h, HUB, HF_HUB_OFFLINE="1"))
        equal(run.returncode, 0, run.err)
        ph.check_snapshot(ph.cache_of(h), REPO, source())


@test
def what_one_began_the_other_ends():
    data = ph.read(os.path.join(source(), "model-1.safetensors"))
    name = ph.hashlib.sha256(data).hexdigest() + ".incomplete"
    for python in clients():
        h = tempfile.mkdtemp(dir=TMP)
        blobs = os.path.join(ph.cache_of(h), "models--org--snap/blobs")
        HUB.faults("slow:rate=2500000,path=_cdn")
        p = subprocess.Popen([ph.BIN, "pull", REPO], env=ph.environment(h, HUB), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while p.poll() is None and not (os.path.exists(os.path.join(blobs, name)) and os.path.getsize(os.path.join(blobs, name)) > 100_000):
            time.sleep(0.002)
        p.kill()
        equal(p.wait(), -9, "it was to be killed on the way:")
        equal(ph.read(os.path.join(blobs, name)), data[:os.path.getsize(os.path.join(blobs, name))], "no hole:")
        HUB.faults()
        fetch(python, h)
        ours(h)
        ph.check_cache(ph.cache_of(h))
        h = tempfile.mkdtemp(dir=TMP)
        blobs = os.path.join(ph.cache_of(h), "models--org--snap/blobs")
        ph.write(blobs, name, data[:7_000_000])  # as a client before 1.0 leaves it
        got = ours(h)
        equal(got["bytes"] - got["bytes_fetched"], 7_000_000)
        equal(fetch(python, h), got["snapshot"])
        ph.check_snapshot(ph.cache_of(h), REPO, source())


def main():
    global TMP, ROOT, HUB
    with tempfile.TemporaryDirectory(prefix="gr00t-pull-client-") as TMP:
        ROOT = os.path.join(TMP, "root")
        ph.snapshot(source(), BIG)
        with ph.Hub(ROOT) as HUB:
            return run_tests()


if __name__ == "__main__":
    sys.exit(main())
