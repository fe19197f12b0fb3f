#!/usr/bin/python3 -SE
# SPDX-License-Identifier: Apache-2.0
"""A container engine's command line without containers: `run` starts GR00T_STAND_IN_BIN with the words and variables that the image would get, the
mounts taken back to the folders of this machine. State in ENGINE_DIR: calls.jsonl, images/, containers/NAME.json.

Called as docker or podman. ENGINE_FAULT: "kill" (stop ends with 137), "oom" (what `run` starts is killed for its memory), "refuse" (run fails), "silent" (nothing works), "interrupt" (the caller gets a
SIGINT while it asks), "slow" (`run` takes two seconds), "hang" (nothing ends).
"""
import json
import os
import signal
import sys
import time

DIR = os.environ["ENGINE_DIR"]
FAULT = os.environ.get("ENGINE_FAULT", "")


def path(*parts):
    p = os.path.join(DIR, *parts)
    os.makedirs(os.path.dirname(p), exist_ok=True)
    return p


def load_state(name):
    try:
        with open(path("containers", name + ".json"), encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        sys.exit(f"Error: No such container: {name}")


def save_state(name, state):
    with open(path("containers", name + ".json"), "w", encoding="utf-8") as f:
        json.dump(state, f)


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def image_file(ref):
    return path("images", ref.encode().hex())


def run(args):
    env, mounts, labels, devices, host, name, i = {}, {}, {}, [], "", "", 0
    while args[i].startswith("--"):
        if args[i] in ("--detach", "--rm"):
            i += 1
            continue
        value = args[i + 1]
        if args[i] == "--name":
            name = value
        elif args[i] == "--env":
            env.update([value.split("=", 1)] if "=" in value else [(value, os.environ[value])])
        elif args[i] == "--volume":
            mounts.update([reversed(value.rsplit(":", 1))])
        elif args[i] == "--label":
            labels.update([value.split("=", 1)])
        elif args[i] == "--device":
            devices.append(value.split(":")[0])
        elif args[i] == "--publish":
            host = value.rsplit(":", 2)[0] if value.count(":") > 1 else "0.0.0.0"
        elif args[i] == "--entrypoint":
            return 0  # tt-smi
        i += 2
    if FAULT == "refuse":
        print("docker: Error response from daemon: something is wrong.", file=sys.stderr)
        return 125
    for k, v in env.items():
        for there, here in mounts.items():
            if v == there or v.startswith(there + "/"):
                env[k] = here + v[len(there):]
    words = args[i + 1:]
    words[words.index("--host") + 1] = "127.0.0.1"
    import subprocess  # slow to load, and most calls have no use for it

    with open(path("logs", name), "wb") as log:
        p = subprocess.Popen([os.environ["GR00T_STAND_IN_BIN"], *words], env={"HOME": DIR, "PATH": "/usr/bin:/bin", **env},
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    state = {"pid": p.pid, "code": 0, "port": words[words.index("--port") + 1], "host": host, "labels": labels, "devices": devices, "image": args[i]}
    if FAULT == "oom":
        p.kill()
        p.wait()
        state["code"] = 137
    save_state(name, state)
    print("0123456789abcdef")
    return 0


def stop(name):
    state = load_state(name)
    os.kill(state["pid"], signal.SIGKILL if FAULT == "kill" else signal.SIGTERM)
    while runs(state["pid"]):
        time.sleep(0.01)
    state["code"] = 137 if FAULT == "kill" else 0
    save_state(name, state)


def logs(args):
    name, follow = args[-1], "--follow" in args
    pid = load_state(name)["pid"]
    with open(path("logs", name), "rb") as f:
        while True:
            alive = runs(pid)
            piece = f.read()
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            if not piece and (not follow or not alive):
                return
            time.sleep(0.01)


def inspected(name):
    state = load_state(name)
    return {"Name": "/" + name, "State": {"Running": runs(state["pid"])},
            "Config": {"Labels": state["labels"], "Image": state["image"]},
            "HostConfig": {"Devices": [{"PathOnHost": d} for d in state["devices"]], "IpcMode": "host"},
            "NetworkSettings": {"Ports": {state["port"] + "/tcp": [{"HostIp": state["host"], "HostPort": state["port"]}]}}}


def main():
    args = sys.argv[1:]
    with open(path("calls.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps([os.path.basename(sys.argv[0]), *args]) + "\n")
    if FAULT == "silent":
        sys.exit("Cannot connect to the Docker daemon")
    if FAULT == "hang" or (FAULT == "slow" and args[0] == "run"):
        time.sleep(1000 if FAULT == "hang" else 2)
    if FAULT == "interrupt" and args[0] == "info":
        os.kill(os.getppid(), signal.SIGINT)
    if args[0] == "--version":
        print("Docker version 28.0.0" if "docker" in sys.argv[0] else "podman version 5.4.2")
    elif args[0] == "info":
        print("[name=seccomp,profile=default]" if "docker" in sys.argv[0] else "false")
    elif args[0] == "load":
        import tarfile  # the same

        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as t:
            files = {m.name: t.extractfile(m).read() for m in t if m.isfile()}
        entry = json.loads(files["manifest.json"])[0]
        with open(image_file(entry["RepoTags"][0]), "w", encoding="utf-8") as f:
            f.write("sha256:" + entry["Config"].rsplit("/", 1)[1])
    elif args[:2] == ["image", "inspect"]:
        try:
            with open(image_file(args[-1]), encoding="utf-8") as f:
                print(f.read())
        except FileNotFoundError:
            sys.exit("Error: No such image")
    elif args[:2] == ["container", "inspect"]:
        state = load_state(args[-1])
        if args[2] != "--format":
            print(json.dumps([inspected(name) for name in args[2:]]))
            return 0
        killed = state["code"] == 137 and FAULT != "kill"
        print({"{{.State.Running}}": str(runs(state["pid"])).lower(), "{{.State.ExitCode}}": state["code"],
               "{{.State.OOMKilled}} {{.HostConfig.Memory}}": str(killed).lower() + (" 512000000" if killed else " 0")}.get(args[3], "id"))
    elif args[0] == "inspect":  # as the vendor's front end asks
        state = load_state(args[-1])
        ports = {state["port"] + "/tcp": [{"HostIp": "127.0.0.1", "HostPort": state["port"]}]}
        print("sha256:0123" if args[2] == "{{.Id}}" else str(runs(state["pid"])).lower() + " " + json.dumps(ports))
    elif args[0] == "run":
        return run(args[1:])
    elif args[0] == "stop":
        stop(args[-1])
    elif args[0] == "rm":
        load_state(args[-1])
        os.unlink(path("containers", args[-1] + ".json"))
    elif args[0] == "logs":
        logs(args[1:])
    elif args[0] == "ps":
        for file in sorted(os.listdir(path("containers", ""))):
            if runs(load_state(file[:-5])["pid"]):
                print(file[:-5])  # which it takes as an id too
    else:
        sys.exit(f"unknown: {args}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
