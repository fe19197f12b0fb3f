# SPDX-License-Identifier: Apache-2.0
"""Container engines for these scripts alone: dockerd with its own folders, socket and bridge, podman with its own storage. Nothing of an engine that the
machine uses already is touched; everything is gone afterwards.
"""
import json
import os
import shutil
import signal
import subprocess

import interop as it
from interop import ph

BRIDGE = "gr00t-io0"


class Engine:
    """name: "docker" or "podman"; env: variables with which that command, called by anybody, finds this engine."""

    def __call__(self, *args, code=0, **more):
        return it.command(self.name, *args, env={**os.environ, **self.env}, code=code, **more)

    def load(self, layout):
        """The image's name in the engine, loaded as a layout's tar from stdin."""
        tag = json.loads(ph.read(os.path.join(layout, "manifest.json")))[0]["RepoTags"][0]
        with subprocess.Popen(["tar", "-C", layout, "-cf", "-", *sorted(ph.files_of(layout))], stdout=subprocess.PIPE) as tar:
            p = subprocess.run([self.name, "load"], stdin=tar.stdout, env={**os.environ, **self.env}, capture_output=True, text=True, check=False, timeout=120)
        assert p.returncode == 0 and tag in p.stdout, p.stdout + p.stderr
        return tag

    def run_detached(self, image, port, *options, words=None):
        """A container that serves the demo snapshot; its id."""
        words = words or ("python", "-m", "uvicorn", "--host", "0.0.0.0", "--port", str(port), "--lifespan", "on", "gr00t.native:app")
        return self("run", "--detach", *self.network(port), "--volume", it.demo_snapshot() + ":/models:ro", "--env", "GR00T_WEIGHTS_DIR=/models",
                    *options, image, *words).out.split()[-1]

    def log(self, container):
        p = self("logs", container)
        return p.out + p.err

    def inspect(self, container, template):
        return self("container", "inspect", "--format", template, container).out.strip()


def free_network():
    """An address of a private network that no interface here has."""
    taken = it.command("ip", "-o", "-4", "addr").out
    return next(f"172.31.{n}.1" for n in range(77, 255) if f"172.31.{n}." not in taken)


class Docker(Engine):
    name = "docker"

    def __enter__(self):
        missing = [t for t in ("dockerd", "containerd", "runc", "ip") if not shutil.which(t)]
        if missing or os.getuid() != 0:
            raise it.tap.Skip(f"{', '.join(missing)} not installed (./setup.sh --interop)" if missing else "dockerd starts as root only")
        self.dir = it.fresh("docker")
        sock = os.path.join(self.dir, "sock")
        self.env = {"DOCKER_HOST": "unix://" + sock, "DOCKER_CONFIG": os.path.join(self.dir, "config")}
        self.containerd = os.path.join(self.dir, "exec/containerd/containerd.sock")
        it.command("ip", "link", "del", BRIDGE, code=None)  # of a run that was killed
        it.command("ip", "link", "add", BRIDGE, "type", "bridge")
        it.command("ip", "addr", "add", free_network() + "/24", "dev", BRIDGE)
        it.command("ip", "link", "set", BRIDGE, "up")
        log = os.path.join(self.dir, "dockerd.log")
        with open(log, "wb") as f:
            self.process = subprocess.Popen(
                ["dockerd", "--config-file", ph.write(self.dir, "daemon.json", "{}"), "--data-root", self.dir + "/data", "--exec-root", self.dir + "/exec",
                 "--pidfile", self.dir + "/pid", "--host", "unix://" + sock, "--bridge", BRIDGE, "--iptables=false", "--ip6tables=false",
                 "--ip-masq=false"], stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True)
        try:
            it.wait("dockerd", lambda: self.process.poll() is not None or self("version", code=None).returncode == 0)
            assert self.process.poll() is None
        except AssertionError:
            why = ph.read(log).decode("utf-8", "replace").splitlines()[-1:]
            self.__exit__()
            raise it.tap.Skip(f"dockerd does not start here: {why}") from None
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            for container in self("ps", "--all", "--quiet", code=None).out.split():
                self("rm", "--force", container, code=None)
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        it.command("ip", "link", "del", BRIDGE, code=None)

    def network(self, port):
        return "--publish", f"127.0.0.1:{port}:{port}"

    def version(self):
        return "dockerd " + self("version", "--format", "{{.Server.Version}}").out.strip()


class Podman(Engine):
    """With runc and the machine's own network: what works without systemd, netavark and CAP_SYS_RESOURCE."""

    name = "podman"

    def __enter__(self):
        if not shutil.which("podman"):
            raise it.tap.Skip("podman is not installed (./setup.sh --interop)")
        self.dir = it.fresh("podman")
        self.env = {
            "CONTAINERS_CONF": ph.write(self.dir, "containers.conf", """[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""),
            "CONTAINERS_STORAGE_CONF": ph.write(self.dir, "storage.conf", f"""[storage]
driver = "overlay"
graphroot = "{self.dir}/graph"
runroot = "{self.dir}/run"
"""),
        }
        return self

    def __exit__(self, *_):
        self("rm", "--all", "--force", code=None)
        self("rmi", "--all", "--force", code=None)
        it.command("umount", self.dir + "/graph/overlay", code=None)

    def network(self, _port):
        return ()

    def version(self):
        return self("--version").out.strip().replace("version ", "") + ", runc"
