# SPDX-License-Identifier: Apache-2.0
"""What the interoperation scripts share: tools that must be there (else exit code 77 and "skipped: why"), figures for the report, the demo package
out of the repository's own tt-model.yaml, a Hub on loopback that has it, requests to a running service.

Every script prints TAP lines, lines "figure: ..." and at the end "N passed, N failed"; 0, 1 or 77 is its exit code.
"""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tests/package"), os.path.join(ROOT, "tests/cli")]
import pull_hub as ph  # noqa: E402
import tap  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN") or os.path.join(ROOT, "build/src/gr00t"))
VENVS = os.path.abspath(os.environ.get("INTEROP_DIR") or os.path.join(ROOT, "build/interop"))  # ./setup.sh --interop
COMMIT = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"  # that tt-model.yaml pins
PACKAGE, WEIGHTS = "demo-org/native", "demo-org/weights"
NAME = "gr00t-n1.6-3b-native"
TMP = ""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need(*tools):
    missing = [t for t in tools if not shutil.which(t)]
    if missing:
        skip(f"{', '.join(missing)} not installed (./setup.sh --interop)")


def venv(pattern, program):
    """Programs in the environments that ./setup.sh --interop made, for instance venv("hf-*", "python")."""
    found = sorted(glob.glob(os.path.join(VENVS, pattern, "bin", program)))
    if not found:
        skip(f"no {pattern} in {os.path.relpath(VENVS, ROOT)} (./setup.sh --interop)")
    return found


def figure(text):
    print(f"figure: {text}", flush=True)


def command(*args, env=None, timeout=240, code=0, **more):
    p = subprocess.run(args, env=env, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL, **more)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    assert code is None or p.returncode == code, f"{' '.join(args)[:300]}: exit {p.returncode}: {p.err[-1200:]} {p.out[-800:]}"
    return p


def gr00t(*args, **more):
    return command(BIN, *args, **more)


def fresh(prefix="t"):
    return tempfile.mkdtemp(prefix=prefix, dir=TMP)


def wait(what, check, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = check()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(url, body=None):
    """(status, JSON); (0, None) when nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with opener.open(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)
    except OSError:
        return 0, None


def wait_ready(url, log=lambda: "", seconds=240):
    try:
        wait(url + "/ready", lambda: ask(url + "/ready")[0] == 200, seconds)
    except AssertionError as e:
        raise AssertionError(f"{e}: {log()[-1500:]}") from None


def check_service(url):
    """/health, the model list, the demo predict by plain HTTP and by `gr00t smoke`. The correlation that smoke found."""
    tap.equal(ask(url + "/health")[1]["status"], "ok")
    assert ask(url + "/v1/models")[1]["data"], "no model is listed"
    status, demo = ask(url + "/demo")
    tap.equal(status, 200)
    status, chunk = ask(url + "/predict", demo["request"])
    tap.equal(status, 200, chunk)
    tap.equal(sorted(chunk["actions"]), sorted(demo["expected"]["actions"]))
    return json.loads(gr00t("smoke", "--url", url, "--json").out)


def demo_snapshot():
    folder = os.path.join(TMP, "demo")
    if not os.path.isdir(folder):
        gr00t("synth", "demo", folder)
    return folder


def demo_package():
    """The package of the repository's tt-model.yaml with the demo snapshot for weights. INTEROP_PACKAGE: one that was built before."""
    given = os.environ.get("INTEROP_PACKAGE")
    if given:
        return os.path.abspath(given)
    out = os.path.join(TMP, "package")
    if not os.path.isdir(out):
        build_demo_package(out, os.path.join(TMP, "tt-model.yaml"))
    return os.path.join(out, NAME)


def build_demo_package(out, yaml):
    with open(os.path.join(ROOT, "tt-model.yaml"), encoding="utf-8") as f:
        text = f.read()
    for pattern, new in ((r"(?m)^repo: .*$", f"repo: {PACKAGE}"), (r"(?m)^  repo: nvidia/.*$", f"  repo: {WEIGHTS}"),
                         (r"(?m)^  allow_patterns: .*$", '  allow_patterns: ["model-*.safetensors", "*.json", "*.txt", "LICENSE"]')):
        text, n = re.subn(pattern, new, text)
        tap.equal(n, 1, f"tt-model.yaml, {pattern}:")
    with open(yaml, "w", encoding="utf-8") as f:
        f.write(text)
    return command(BIN, "package", yaml, "--out", out, cwd=ROOT)


def hub_with_everything():
    """A stand-in Hub that has the demo package and its weights at the pinned commit."""
    root = fresh("hub")
    shutil.copytree(demo_package(), os.path.join(root, PACKAGE))
    shutil.copytree(demo_snapshot(), os.path.join(root, WEIGHTS))
    return ph.Hub(root, "--pin", f"{WEIGHTS}={COMMIT}")


def run(*tools, setup=lambda: None, teardown=lambda: None):
    """main() of a script: the tests of its file in a folder of their own, between setup and teardown."""
    global TMP
    need(*tools)
    if not os.access(BIN, os.X_OK):
        skip(f"{os.path.relpath(BIN, ROOT)} is not built (make)")
    TMP = os.path.realpath(tempfile.mkdtemp(prefix="gr00t-interop-"))
    try:
        setup()
        try:
            return tap.run_tests()
        finally:
            teardown()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":  # interop.py FOLDER: the demo package to FOLDER/, for several scripts at once
    os.makedirs(sys.argv[1], exist_ok=True)
    print(build_demo_package(sys.argv[1], os.path.join(sys.argv[1], "tt-model.yaml")).out, end="")
    files = ph.files_of(os.path.join(sys.argv[1], NAME))
    print(f"{len(files)} files, {sum(map(os.path.getsize, files.values())) / 1e6:.1f} MB, verified in the image")
