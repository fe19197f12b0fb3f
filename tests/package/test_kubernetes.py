#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contrib/kubernetes/gr00t.yaml: its objects fit together and, where the module kubernetes-validate is installed, the schemas of Kubernetes; its init
container's command fetches the weights and its container's command serves them, with the folders that they would see.

In: GR00T_BIN, GR00T_SOURCE_ROOT. Out: TAP lines, then "N passed, N failed".
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
sys.path.insert(0, HERE)
from pull_hub import STANDIN, Hub  # noqa: E402
from tap import Skip, contains, equal, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
ROOT = os.environ.get("GR00T_SOURCE_ROOT", os.path.join(HERE, "..", ".."))
with open(os.path.join(ROOT, "contrib/kubernetes/gr00t.yaml"), encoding="utf-8") as text:
    DOCUMENTS = list(yaml.safe_load_all(text))
TMP = ""
COMMIT = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"
START_S, END_S = 120, 20


def of(kind):
    return [d for d in DOCUMENTS if d["kind"] == kind]


DEPLOYMENT, SERVICE = of("Deployment")[0], of("Service")[0]
POD = DEPLOYMENT["spec"]["template"]["spec"]
PULL, SERVE = POD["initContainers"][0], POD["containers"][0]


def value_of(container, name):
    return next((e.get("value") for e in container["env"] if e["name"] == name), None)


def mebibytes(quantity):
    number, unit = re.fullmatch(r"(\d+)([MG])i", quantity).groups()
    return int(number) * {"M": 1, "G": 1024}[unit]


@test
def it_has_what_a_cluster_needs_and_nothing_twice():
    equal([d["kind"] for d in DOCUMENTS], ["PersistentVolumeClaim", "PersistentVolumeClaim", "Deployment", "Service"])
    names = [(d["kind"], d["metadata"]["name"]) for d in DOCUMENTS]
    equal(len(set(names)), len(names), "names")
    equal((len(POD["initContainers"]), len(POD["containers"])), (1, 1))


@test
def probes_ask_the_right_routes_on_the_port_that_is_served():
    port = next(p for p in SERVE["ports"] if p["name"] == "http")["containerPort"]
    equal(SERVE["readinessProbe"]["httpGet"], {"path": "/ready", "port": "http"})
    equal(SERVE["livenessProbe"]["httpGet"], {"path": "/health", "port": "http"})
    command = SERVE["command"]
    equal(command[command.index("--port") + 1], str(port))
    equal(command[command.index("--host") + 1], "0.0.0.0")
    equal(SERVICE["spec"]["ports"][0]["targetPort"], "http")
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    equal((annotations["prometheus.io/port"], annotations["prometheus.io/path"]), (str(port), "/metrics"))
    drain_s = int(command[command.index("--drain-s") + 1])
    assert POD["terminationGracePeriodSeconds"] > drain_s, "killed before it has drained"


@test
def labels_lead_to_the_pod():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    for selector in (DEPLOYMENT["spec"]["selector"]["matchLabels"], SERVICE["spec"]["selector"]):
        assert selector and selector.items() <= labels.items(), f"{selector} does not select {labels}"


@test
def volumes_are_claimed_and_mounted_where_the_settings_look():
    claims = {c["metadata"]["name"]: mebibytes(c["spec"]["resources"]["requests"]["storage"]) for c in of("PersistentVolumeClaim")}
    volumes = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in POD["volumes"]}
    equal(set(volumes.values()), set(claims))
    assert claims[volumes["weights"]] >= 7 * 1024 and claims[volumes["cache"]] >= 5 * 1024, f"too small: {claims}"
    mounts = {m["mountPath"]: m for m in SERVE["volumeMounts"]}
    equal({m["name"] for m in mounts.values()}, set(volumes))
    equal(mounts[value_of(SERVE, "HF_HOME")], {"name": "weights", "mountPath": "/hf", "readOnly": True})
    assert not mounts[value_of(SERVE, "GR00T_CACHE")].get("readOnly"), "the cache cannot be written"
    equal([(m["name"], m["mountPath"]) for m in PULL["volumeMounts"]], [("weights", value_of(PULL, "HF_HOME"))])
    equal(DEPLOYMENT["spec"]["strategy"], {"type": "Recreate"}, "two pods cannot share a ReadWriteOnce volume")


@test
def what_is_pulled_is_what_is_served():
    equal(PULL["command"][:3], ["gr00t", "pull", f"{value_of(SERVE, 'HF_MODEL')}@{value_of(SERVE, 'TT_WEIGHTS_REVISION')}"])
    contains(PULL["command"], "--tokenizer")
    equal(value_of(SERVE, "TT_WEIGHTS_REVISION"), COMMIT)
    with open(os.path.join(ROOT, "tt-model.yaml"), encoding="utf-8") as f:
        weights = yaml.safe_load(f)["weights"]
    equal((value_of(SERVE, "HF_MODEL"), COMMIT), (weights["repo"], weights["revision"]))


@test
def containers_are_locked_down_and_have_room():
    equal(PULL["image"], SERVE["image"])
    assert re.fullmatch(r"registry\.example/[a-z0-9.-]+:[\w.-]+", SERVE["image"]) and not SERVE["image"].endswith(":latest"), SERVE["image"]
    for container in (PULL, SERVE):
        equal(container["securityContext"], {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})
        assert set(container["resources"]) == {"requests", "limits"}, container["name"]
        for amount in container["resources"].values():
            assert set(amount) == {"cpu", "memory"}, container["name"]
    context = POD["securityContext"]
    assert context["runAsNonRoot"] and context["runAsUser"] > 0 and context["fsGroup"] > 0, context
    equal(context["seccompProfile"], {"type": "RuntimeDefault"})
    equal(POD["enableServiceLinks"], False, "the cluster would set GR00T_PORT")
    equal(POD["automountServiceAccountToken"], False)
    serve = SERVE["resources"]
    equal(serve["requests"], serve["limits"], "whole cores and all memory reserved")
    assert mebibytes(serve["limits"]["memory"]) >= 6 * 1024, "a first start needs 6 GB"


@test
def the_schemas_of_kubernetes_accept_it():
    try:
        import kubernetes_validate  # pylint: disable=import-outside-toplevel
        import kubernetes_validate.utils  # pylint: disable=import-outside-toplevel
    except ImportError as why:
        raise Skip("the Python module kubernetes-validate is not installed") from why
    for version in (kubernetes_validate.utils.all_versions()[0], kubernetes_validate.latest_version()):
        for document in DOCUMENTS:
            kubernetes_validate.validate(document, version, strict=True)
    broken = {**SERVICE, "spec": {**SERVICE["spec"], "port": 20000}}
    try:
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("an unknown key passes")


def local(text):
    """A path or word of the manifest as it is here."""
    return re.sub(r"^/(hf|cache)$", lambda m: os.path.join(TMP, m.group(1)), text)


def environment(container, **more):
    env = {e["name"]: local(e["value"]) for e in container["env"] if "value" in e}
    return {"PATH": "/usr/bin:/bin", "HOME": os.path.join(TMP, "no-home"), **env, **more}


def status_of(port, path):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return 0


@test
def its_commands_fetch_and_serve():
    """As in the pod: no home folder, /hf and /cache on volumes; the demo snapshot stands for the weights."""
    if not os.path.exists(STANDIN):
        raise Skip("hub_standin.py is missing")
    repo, other = (os.path.join(TMP, "hub", name) for name in ("nvidia/GR00T-N1.6-3B", "Qwen/Qwen3-1.7B"))
    subprocess.run([BIN, "synth", "demo", repo, "--quiet"], check=True, capture_output=True)
    os.makedirs(other)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        with open(os.path.join(other, name), "w", encoding="utf-8") as f:
            f.write("{}\n")
    with Hub(os.path.join(TMP, "hub"), "--pin", "nvidia/GR00T-N1.6-3B=" + COMMIT) as hub:
        for _ in range(2):  # a new pod on the same volume
            p = subprocess.run([BIN, *PULL["command"][1:]], env=environment(PULL, HF_ENDPOINT=hub.url), capture_output=True, text=True, check=False)
            equal((p.returncode, p.stderr), (0, ""), "pull")
    assert not os.path.exists(os.path.join(TMP, "no-home")), "pull wrote to the home folder"
    command = SERVE["command"][1:]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command[command.index("--port") + 1] = str(port)
    command[command.index("--host") + 1] = "127.0.0.1"
    with open(os.path.join(TMP, "log"), "w+", encoding="utf-8") as log:
        service = subprocess.Popen([BIN, *command], env=environment(SERVE), stdout=log, stderr=log)
        try:
            end = time.monotonic() + START_S
            while status_of(port, SERVE["readinessProbe"]["httpGet"]["path"]) != 200 and service.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
            status = [status_of(port, SERVE[probe]["httpGet"]["path"]) for probe in ("readinessProbe", "livenessProbe")]
            log.seek(0)
            told = log.read()
            equal(status, [200, 200], told[-600:])
            service.send_signal(signal.SIGTERM)
            equal(service.wait(END_S), 0, "exit code")
        finally:
            if service.poll() is None:
                service.kill()
                service.wait()
    assert '"level": "warn' not in told and '"warn"' not in told, told
    assert os.listdir(os.path.join(TMP, "cache")), "nothing was kept in the cache"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as TMP:
        code = run_tests()
    sys.exit(code)
