#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The repository's own package through its wire manifest: package, serve, smoke, bench http, stop, natively, with the demo snapshot for weights.

In: GR00T_BIN, the program; GR00T_SOURCE_ROOT. Out: TAP lines, then "N passed, N failed". tests/interop/ does the same in containers.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../cli")]
import pull_hub as ph  # noqa: E402
from tap import contains, equal, run_tests, test  # noqa: E402

ROOT = os.path.abspath(os.environ.get("GR00T_SOURCE_ROOT", os.path.join(HERE, "../..")))
TMP = ENV = None


def gr00t(*args, code=0, **more):
    p = subprocess.run([ph.BIN, *args], env=ENV, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL, **more)
    assert p.returncode == code, f"{args}: exit {p.returncode}: {p.stderr[-1000:]} {p.stdout[-500:]}"
    return p.stdout


@test
def package_serve_smoke_bench_and_stop():
    gr00t("synth", "demo", os.path.join(TMP, "demo"))
    gr00t("package", "--no-verify", "--out", os.path.join(TMP, "build"), cwd=ROOT)  # test_package.py has the verify step
    (name,) = os.listdir(os.path.join(TMP, "build"))
    manifest = os.path.join(TMP, "build", name, "tt_kernel_manifest.json")
    pinned = json.loads(ph.read(manifest))
    equal((name, pinned["weights"]["repo_id"], pinned["container"]["default_profile"]), ("gr00t-n1.6-3b-native", "nvidia/GR00T-N1.6-3B", "cpu"))

    out = gr00t("serve", manifest, "--no-weights", "--env", "GR00T_WEIGHTS_DIR=" + os.path.join(TMP, "demo"))
    contains(out, "model built", "warmed up", "ready")
    try:
        (service,) = json.loads(gr00t("ps", "--json"))
        equal((service["name"], service["state"], service["engine"]), (f"tt-model-{name}-cpu", "ready", "native"))
        assert os.readlink(f"/proc/{service['pid']}/exe").startswith(os.path.join(TMP, "home")), "not the program of the image"
        contains(out, service["url"])
        smoke = json.loads(gr00t("smoke", "--url", service["url"], "--json"))
        assert smoke["pass"] and smoke["pcc_actions"] > 0.999, smoke
        bench = json.loads(gr00t("bench", "http", "--url", service["url"], "-n", "20", "--json"))
        equal((bench["ok"], bench["errors"]), (20, {}))
        contains(gr00t("logs", manifest), "Application startup complete")
    finally:
        out = gr00t("stop", manifest)
    contains(out, "clean shutdown", "stopped 1 service(s)")
    equal(json.loads(gr00t("ps", "--json")), [])
    contains(ph.read(service["log"]).decode(), "Shutting down (SIGTERM)", "Finished server process")
    print(f"# smoke PCC {smoke['pcc_actions']:.5f}; 20 predicts over HTTP, p50 {bench['ms']['wall']['p50']} ms")


def main():
    global TMP, ENV
    TMP = os.path.realpath(tempfile.mkdtemp(prefix="gr00t-wire-"))
    ENV = ph.environment(os.path.join(TMP, "home"), HF_HUB_OFFLINE="1")
    try:
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
