#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image of the repository's package and the tools of others: check_oci.sh with skopeo and umoci, a registry of our own on loopback there and back,
and a bundle that umoci unpacked run by runc.
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys

import interop as it
from interop import ph
from tap import contains, equal, test

REF = f"demo/{it.NAME}"


def image():
    return os.path.join(it.demo_package(), "image")


def blobs(layout):
    return sorted(os.listdir(os.path.join(layout, "blobs/sha256")))


@test
def the_layout_passes_every_check_of_check_oci():
    p = it.command("bash", os.path.join(it.ROOT, "tests/package/check_oci.sh"), image(), timeout=300, code=None)
    bad = [x for x in p.out.splitlines() if not x.startswith("PASS")]
    equal((p.returncode, len(bad)), (0, 1), p.out + p.err)
    size = sum(os.path.getsize(f) for f in ph.files_of(image()).values())
    it.figure(f"check_oci.sh: {bad[0]}; image/ {size / 1e6:.1f} MB")


@test
def skopeo_reads_labels_user_and_platform():
    seen = json.loads(it.command("skopeo", "inspect", f"oci:{image()}:latest").out)
    config = json.loads(it.command("skopeo", "inspect", "--config", f"oci:{image()}:latest").out)
    equal((seen["Os"], seen["Architecture"]), ("linux", "amd64"))
    labels = seen["Labels"]
    equal({k.rpartition("tt-model")[2]: v for k, v in labels.items() if k.startswith("org.tenstorrent.tt-model")},
          {"": it.NAME, ".repo": it.PACKAGE, ".weights": it.WEIGHTS, ".arch": "blackhole", ".kind": "tt-dit-server", ".profiles": "cpu"})
    equal((config["config"]["User"], config["config"]["Entrypoint"], config["config"].get("StopSignal")), ("1000", ["/usr/bin/gr00t"], "SIGTERM"))


class Registry:
    def __enter__(self):
        self.dir, self.port = it.fresh("registry"), it.free_port()
        config = ph.write(self.dir, "config.yml", f"""version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {self.dir}/store}}}}
http: {{addr: "127.0.0.1:{self.port}"}}
""")
        self.log = os.path.join(self.dir, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log, env=dict(os.environ, OTEL_TRACES_EXPORTER="none"))
        it.wait("the registry", lambda: it.ask(f"http://127.0.0.1:{self.port}/v2/")[0] == 200)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def url(self, tag):
        return f"docker://127.0.0.1:{self.port}/{REF}:{tag}"


@test
def a_registry_gives_back_the_same_digests_and_the_package_still_serves():
    with Registry() as r:
        it.command("skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{image()}:latest", r.url("v1"))
        digest = it.command("skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", r.url("v1")).out.strip()
        pack = os.path.join(it.fresh(), "package")
        shutil.copytree(it.demo_package(), pack)
        shutil.rmtree(os.path.join(pack, "image"))
        back = os.path.join(pack, "image")
        it.command("skopeo", "copy", "-q", "--src-tls-verify=false", r.url("v1"), f"oci:{back}:latest")
    equal(blobs(back), blobs(image()))
    index = [json.loads(ph.read(os.path.join(d, "index.json")))["manifests"][0]["digest"] for d in (image(), back)]
    equal(index, [digest, digest])
    it.figure(f"registry there and back: manifest {digest[:19]}, {len(blobs(back))} blobs identical")
    home = it.fresh("home")
    env = ph.environment(home, HF_HUB_OFFLINE="1")
    it.gr00t("serve", pack, "--no-weights", "--env", "GR00T_WEIGHTS_DIR=" + it.demo_snapshot(), env=env)
    try:
        it.check_service(json.loads(it.gr00t("ps", "--json", env=env).out)[0]["url"])
    finally:
        contains(it.gr00t("stop", "--all", env=env).out, "clean shutdown")


@test
def a_bundle_of_umoci_runs_under_runc():
    bundle, port = os.path.join(it.fresh(), "bundle"), it.free_port()
    it.command("umoci", "unpack", *([] if os.getuid() == 0 else ["--rootless"]), "--image", f"{image()}:latest", bundle)
    file = os.path.join(bundle, "config.json")
    spec = json.loads(ph.read(file))
    equal(spec["process"]["args"][0], "/usr/bin/gr00t")
    equal(spec["process"]["user"]["uid"], 1000)
    spec["process"].update(terminal=False, args=[spec["process"]["args"][0], "python", "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port),
                                                 "--lifespan", "on", "gr00t.native:app"])
    spec["process"]["env"].append("GR00T_WEIGHTS_DIR=/models")
    spec["process"].pop("rlimits", None)
    spec["root"]["readonly"] = True
    spec["mounts"].append({"destination": "/models", "type": "bind", "source": it.demo_snapshot(), "options": ["rbind", "ro"]})
    spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] != "network"]
    ph.write(bundle, "config.json", json.dumps(spec))
    name = "gr00t-interop-" + hashlib.sha1(bundle.encode()).hexdigest()[:8]
    root, log = it.fresh("runc"), os.path.join(bundle, "log")
    os.chmod(it.TMP, 0o755)  # uid 1000 has to pass
    with open(log, "wb") as f:
        p = subprocess.Popen(["runc", "--root", root, "run", "--bundle", bundle, name], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
    try:
        url = f"http://127.0.0.1:{port}"
        it.wait_ready(url, lambda: ph.read(log).decode())
        it.check_service(url)
        it.command("runc", "--root", root, "kill", name, "TERM")
        equal(p.wait(60), 0)
    finally:
        if p.poll() is None:
            it.command("runc", "--root", root, "kill", name, "KILL", code=None)
            p.send_signal(signal.SIGTERM)
            p.wait(30)
        it.command("runc", "--root", root, "delete", "--force", name, code=None)
    contains(ph.read(log).decode(), "Finished server process")


if __name__ == "__main__":
    sys.exit(it.run("skopeo", "umoci", "docker-registry", "runc", "jq"))
