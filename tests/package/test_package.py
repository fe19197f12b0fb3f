#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of `gr00t package`: what a package folder holds, that it is reproducible, and what is refused.

In: GR00T_BIN, the program. Out: TAP lines, then "N passed, N failed".
One package is built with its verify step and looked at by most tests; the others are built with --no-verify and a small program.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tap import Skip, contains, done, equal, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
ROOT = os.environ.get("GR00T_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "small"
TMP = ""
SMALL = "/bin/true"  # a program with one library: quick to pack; never run, because of --no-verify

MANIFEST = """\
schema: "5.1"
repo: example-org/small
name: small
weights: {repo: example-org/weights, revision: d0814e7ecb19202e7c8468b46098b0b7ef3a6d61}
kind: tt-dit-server
arch: blackhole
image: {registry: hf}
source: {tt_metal: source, code: [pkg, tool.sh], ubuntu: "22.04", python: "3.12"}
runtime: {app: "pkg.native:app", mesh_shape_env: TT_MESH_SHAPE}
serve:
  port: 8001
  hardware: p150
  mesh_device: P150
  env: {GR00T_VERSION: n16}
serve_profiles:
  - {name: cpu, description: No card, env: {GR00T_DEVICE: cpu}}
  - {name: pair, hardware: p300, mesh_device: P300}
default_profile: cpu
card:
  description: "A small package: for tests."
  quickstart: "gr00t curl example-org/small stays"
  performance: "79 ms on two cores."
  limitations: One camera.
  license: {id: other, name: nvidia-license, link: "https://example.org/LICENSE"}
  pipeline_tag: robotics
"""


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "XDG_", "SOURCE_DATE"))}
    clean["HOME"] = os.path.join(TMP, "home")
    clean.update(more)
    return clean


def gr00t(*args, cwd=None, **more):
    p = subprocess.run([BIN, *args], env=environment(**more), cwd=cwd or TMP, capture_output=True, timeout=250, check=False)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    return p


def fails(run, code, *parts):
    assert run.returncode == code, f"exit {run.returncode}, expected {code}: {run.err} {run.out[-300:]}"
    contains(run.err, *parts)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def source(folder, manifest=MANIFEST):
    """A working folder with the authoring file and the tree it names."""
    top = os.path.join(TMP, folder)
    shutil.rmtree(top, ignore_errors=True)
    write(os.path.join(top, "tt-model.yaml"), manifest)
    write(os.path.join(top, "source/pkg/native.py"), "app = None\n")
    write(os.path.join(top, "source/pkg/deep/data.txt"), "data\n")
    write(os.path.join(top, "source/pkg-b/other.txt"), "not listed\n")
    write(os.path.join(top, "source/tool.sh"), "#!/bin/sh\n", 0o755)
    for name in ("__pycache__/native.pyc", "logs/a.txt", "run.log", "w.safetensors", ".venv/x", "x.egg-info/y", "m.bin"):
        write(os.path.join(top, "source/pkg", name), "dropped\n")
    return top


def small(folder, *more, manifest=MANIFEST, out="out", **env):
    top = source(folder, manifest)
    return top, gr00t("package", "--out", out, "--no-verify", "--json", "--program", SMALL, *more, cwd=top, **env)


FULL = {}


def full():
    """The package with this very program in it, built once."""
    if not FULL:
        top = source("full")
        FULL["json"] = json.loads(done(gr00t("package", "tt-model.yaml", "--out", "out", "--json", cwd=top)).out)
        FULL["dir"] = os.path.join(top, "out", NAME)
    return FULL["dir"]


def layers(package):
    image = os.path.join(package, "image")
    archive = json.loads(read(image, "manifest.json"))[0]
    return [os.path.join(image, x) for x in archive["Layers"]]


def image_files(package):
    names = {}
    for path in layers(package):
        with tarfile.open(path) as tar:
            for member in tar:
                names[member.name] = member
    return names


def config(package):
    image = os.path.join(package, "image")
    return json.loads(read(image, json.loads(read(image, "manifest.json"))[0]["Config"]))


@test
def a_package_has_its_entries_and_its_image_is_small():
    package = full()
    equal(sorted(os.listdir(package)), ["LICENSE-NOTICE.md", "README.md", "code", "image", "requirements.lock",
                                        "tt_kernel_manifest.json"])
    equal(os.listdir(os.path.dirname(package)), [NAME], "left beside the package:")
    out = FULL["json"]
    equal(out["demo"], "1 of 1 cases within bounds")
    assert out["version"].startswith("gr00t "), out
    equal(out["image"]["bytes"], sum(os.path.getsize(x) for x in layers(package)))
    if "asan" not in BIN and "tsan" not in BIN and out["root"]["program_bytes"] < 6e6:  # a release build
        assert out["image"]["bytes"] < 15e6, out["image"]


@test
def code_is_exactly_the_list_and_its_digest_is_in_the_manifest():
    package = full()
    code = os.path.join(package, "code")
    found = sorted(os.path.relpath(os.path.join(d, f), code) for d, _, files in os.walk(code) for f in files)
    equal(found, ["pkg/deep/data.txt", "pkg/native.py", "tool.sh"])
    assert os.access(os.path.join(code, "tool.sh"), os.X_OK)
    h = hashlib.sha256()
    for name in sorted(found, key=lambda x: x.split("/")):
        h.update(name.encode() + open(os.path.join(code, name), "rb").read())
    wire = json.loads(read(package, "tt_kernel_manifest.json"))
    equal(wire["container"]["built"]["code_sha256"], h.hexdigest())
    equal(FULL["json"]["code"]["files"], 3)
    equal(FULL["json"]["code"]["dropped"], 7)
    names = image_files(package)
    for name in found:
        assert names[f"opt/tt-metal/{name}"].isreg(), name


@test
def the_wire_manifest_names_this_image():
    package = full()
    wire = json.loads(read(package, "tt_kernel_manifest.json"))
    c, digest = wire["container"], FULL["json"]["image"]["digest"]
    equal(c["image"], {"registry": "hf", "repository": NAME, "tag": f"tt-model/{NAME}:{digest[7:19]}", "digest": digest})
    equal(c["built"]["repo"], "example-org/small")
    equal(c["runtime"]["lock"], "requirements.lock")
    equal(c["code_dir"], "code")
    assert os.path.isfile(os.path.join(package, "image/blobs/sha256", digest[7:]))
    done(gr00t("manifest", "check", os.path.join(package, "tt_kernel_manifest.json")))


@test
def the_given_checker_accepts_the_wire_manifest():
    checker = os.path.join(HERE, "manifest_check.py")
    p = subprocess.run([sys.executable, checker, "wire", os.path.join(full(), "tt_kernel_manifest.json")],
                       capture_output=True, timeout=60, check=False)
    assert p.returncode == 0, p.stdout.decode() + p.stderr.decode()


@test
def the_image_runs_as_anybody_under_the_names_that_launchers_use():
    package = full()
    c, names = config(package)["config"], image_files(package)
    equal(c["Entrypoint"], ["/usr/bin/gr00t"])
    equal(c["Cmd"], ["serve", "--host", "0.0.0.0", "--port", "8001"])
    equal((c["User"], c["StopSignal"], c["WorkingDir"]), ("1000", "SIGTERM", "/home/tt/work"))
    equal(list(c["ExposedPorts"]), ["8001/tcp"])
    contains(c["Env"], "HF_HOME=/hf", "TT_METAL_CACHE=/cache", "HOME=/home/tt", "PYTHONPATH=/opt/tt-metal", "GR00T_VERSION=n16",
             "HF_MODEL=example-org/weights")
    assert not any(x.startswith("GR00T_DEVICE=") for x in c["Env"]), "a profile's own variable would leak into the others"
    label = "org.tenstorrent.tt-model"
    equal(c["Labels"], {label: NAME, f"{label}.repo": "example-org/small", f"{label}.weights": "example-org/weights",
                        f"{label}.arch": "blackhole", f"{label}.kind": "tt-dit-server", f"{label}.profiles": "cpu,pair"})
    for name in ("tt-smi", "python"):
        equal(names[f"usr/bin/{name}"].linkname, "gr00t")
    equal(names["usr/bin/gr00t"].mode, 0o755)
    for name in ("home/tt", "home/tt/work", "hf", "cache", "weight-cache", "tensor-cache"):
        equal((name, names[name].mode), (name, 0o777))
    equal(names["tmp"].mode, 0o1777)
    with tarfile.open(layers(package)[0]) as tar:
        contains(tar.extractfile("etc/passwd").read().decode(), "tt:x:1000:1000:")


@test
def licences_travel_with_the_image_and_stand_in_the_card():
    package = full()
    names = image_files(package)
    for name in ("LICENSE", "LICENSE-NOTICE.md"):
        assert names[f"usr/share/doc/gr00t/{name}"].size > 100, name
    for text in (read(package, "LICENSE-NOTICE.md"), read(package, "README.md")):
        contains(text, "example-org/weights", "nvidia-license", "https://example.org/LICENSE", "not part of this package")
    if os.path.isdir("/usr/share/doc/libc6"):
        assert "usr/share/doc/libc6/copyright" in names


@test
def every_library_is_there_and_locked():
    package = full()
    names = image_files(package)
    needed = subprocess.run(["ldd", BIN], capture_output=True, text=True, check=False).stdout
    wanted = set(re.findall(r"^\s*(\S+\.so\S*) => /", needed, re.M))
    assert wanted, needed
    have = {os.path.basename(x) for x in names}
    equal(sorted(wanted - have), [])
    lines = read(package, "requirements.lock").splitlines()
    equal(lines, sorted(set(lines)))
    assert all(re.fullmatch(r"[A-Za-z0-9.+_-]+==\S+", x) for x in lines), lines
    if shutil.which("dpkg-query"):
        for package_name in ("libc6", "libcurl4"):
            p = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package_name], capture_output=True, text=True, check=False)
            if p.returncode == 0:
                assert f"{package_name}=={p.stdout}" in lines, (p.stdout, lines)


@test
def layers_are_sorted_with_time_and_owner_zero():
    for path in layers(full()):
        with open(path, "rb") as f:
            equal(f.read(8), b"\x1f\x8b\x08\0\0\0\0\0")
        with tarfile.open(path) as tar:
            members = tar.getmembers()
        names = [m.name for m in members]
        equal(names, sorted(names))
        equal(len(names), len(set(names)))
        assert all((m.mtime, m.uid, m.gid, m.uname, m.gname) == (0, 0, 0, "", "") for m in members)
        assert all(os.path.dirname(n) == "" or os.path.dirname(n) in names for n in names)


@test
def the_real_tools_take_the_layout():
    script = os.path.join(HERE, "check_oci.sh")
    missing = [t for t in ("skopeo", "umoci", "jq", "sha256sum", "bash") if not shutil.which(t)]
    if missing:
        raise Skip(f"needs {', '.join(missing)}")
    p = subprocess.run(["bash", script, os.path.join(full(), "image")], capture_output=True, text=True, timeout=250, check=False)
    assert p.returncode == 0, "\n".join(x for x in p.stdout.splitlines() if not x.startswith("PASS"))
    contains(p.stdout, " 0 failed")


@test
def two_runs_in_two_folders_give_one_digest():
    _, a = small("repro-a", SOURCE_DATE_EPOCH="1700000000")
    top, b = small("repro-b/deeper", out="elsewhere", SOURCE_DATE_EPOCH="1700000000")
    equal(json.loads(done(a).out)["image"]["manifest_digest"], json.loads(done(b).out)["image"]["manifest_digest"])
    one, two = os.path.join(TMP, "repro-a/out", NAME), os.path.join(top, "elsewhere", NAME)
    p = subprocess.run(["diff", "-r", one, two], capture_output=True, text=True, check=False)
    equal(p.stdout, "")
    contains(read(one, "tt_kernel_manifest.json"), "2023-11-14T22:13:20+00:00")
    # and another input gives another one
    top, _ = small("repro-c")
    write(os.path.join(top, "source/pkg/native.py"), "app = 1\n")
    c = json.loads(done(gr00t("package", "--out", "out", "--no-verify", "--json", "--program", SMALL, cwd=top)).out)
    assert c["image"]["digest"] != json.loads(a.out)["image"]["digest"]


@test
def the_umask_changes_neither_the_image_nor_the_rights_of_the_files():
    seen = []
    for mask in (0o022, 0o077):
        top = source("umask")
        shutil.rmtree(os.path.join(top, "out"), ignore_errors=True)
        before = os.umask(mask)
        try:
            run = done(gr00t("package", "--out", "out", "--json", "--no-verify", "--program", SMALL, cwd=top, SOURCE_DATE_EPOCH="1700000000"))
        finally:
            os.umask(before)
        package = os.path.join(top, "out", NAME)
        paths = [package] + [os.path.join(d, x) for d, folders, files in os.walk(package) for x in folders + files]
        modes = {os.path.relpath(p, package): oct(os.stat(p).st_mode & 0o7777) for p in paths}
        equal((modes["."], modes["image/blobs/sha256"], modes["code/tool.sh"], modes["code/pkg"], modes["README.md"], modes["image/index.json"]),
              ("0o755", "0o755", "0o755", "0o755", "0o644", "0o644"))
        seen.append((json.loads(run.out)["image"]["manifest_digest"], modes))
    equal(seen[1], seen[0])


@test
def a_call_in_the_wrong_folder_says_where_to_go():
    empty = os.path.join(TMP, "empty")
    os.makedirs(empty)
    run = gr00t("package", cwd=empty)
    fails(run, 3, f"no tt-model.yaml in {empty}: ", "gr00t package FILE", "docs/PACKAGES.md")
    equal(os.listdir(empty), [])
    top = source("elsewhere")
    manifest = os.path.join(top, "tt-model.yaml")
    fails(gr00t("package", manifest, cwd=empty), 3, f"{manifest}: source: no folder source in {empty}, the working folder", f"`cd {top}/`")
    equal(os.listdir(empty), [])


@test
def weights_that_can_change_are_warned_of():
    _, run = small("unpinned", manifest=MANIFEST.replace("revision: d0814e7ecb19202e7c8468b46098b0b7ef3a6d61", "revision: main"))
    contains(done(run).err, 'gr00t: warning: weights: weights.revision: "main" can move to other weights')
    _, run = small("torn", manifest=MANIFEST.replace("GR00T_VERSION: n16", "TT_WEIGHTS_REVISION: main"))
    fails(run, 4, 'tt-model.yaml:14:30: serve.env.TT_WEIGHTS_REVISION: is "main", but weights.revision is "d0814e7ecb')


@test
def the_card_has_a_complete_front_matter():
    _, run = small("card")
    done(run)
    card = read(TMP, "card/out", NAME, "README.md")
    front, body = card.split("---\n", 2)[1:]
    equal(front, "license: other\nlicense_name: nvidia-license\nlicense_link: https://example.org/LICENSE\n"
                 "pipeline_tag: robotics\nbase_model:\n- example-org/weights\ntags:\n- blackhole\n- p150\n- p300\n"
                 "- tt-dit-server\n- tt-model-cache\n- tt-model-container\n")
    contains(body, "# small\n", "A small package: for tests.", "Runs on **p150** (mesh P150)", "## Quickstart\n",
             "\ntt model pull example-org/small\ntt serve example-org/small\n",
             "\ntt-model pull  example-org/small --with-weights\ntt-model serve example-org/small\n",
             "## Serve profiles", "| `cpu` (default) | p150 | P150 | No card |", "| `pair` | p300 | P300 |",
             "## Expected performance\n\n79 ms on two cores.\n", "## Limitations\n\nOne camera.\n", "## Provenance")


@test
def the_program_as_listed_code_is_not_shipped_twice():
    top = source("listed", MANIFEST.replace("[pkg, tool.sh]", "[pkg, prog]"))
    shutil.copy(SMALL, os.path.join(top, "source/prog"))
    done(gr00t("package", "--out", "out", "--no-verify", "--program", SMALL, cwd=top))
    equal(image_files(os.path.join(top, "out", NAME))["opt/tt-metal/prog"].linkname, "/usr/bin/gr00t")


@test
def a_second_build_replaces_the_package_and_a_failure_keeps_it():
    top, run = small("again")
    package = os.path.join(top, "out", NAME)
    done(run)
    write(os.path.join(package, "by-hand.txt"), "x")
    write(os.path.join(top, "source/tool.sh"), "#!/bin/sh\nexit 1\n")
    args = ("package", "--out", "out", "--program", SMALL)
    fails(gr00t(*args, cwd=top), 1, "calls itself")  # the verify step runs it, and it is no gr00t
    assert os.path.isfile(os.path.join(package, "by-hand.txt")), "a failed build changed the package"
    equal(os.listdir(os.path.join(top, "out")), [NAME], "left behind:")
    done(gr00t(*args, "--no-verify", cwd=top))
    assert not os.path.exists(os.path.join(package, "by-hand.txt"))
    equal(os.listdir(os.path.join(top, "out")), [NAME], "left behind:")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(x) for x in f.read().split()]


def runs(pid, word):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return word in f.read().split(b"\0")
    except FileNotFoundError:
        return False


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not come so far"
        time.sleep(0.002)


def started_and(top, reached):
    """A build that has come so far. That lasts a moment: a busy machine may not let us see it at the first try."""
    for _ in range(20):
        build = subprocess.Popen([BIN, "package", "--out", "out"], cwd=top, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while build.poll() is None:
            if reached(build.pid):
                return build
            time.sleep(0.002)
        build.communicate()
        shutil.rmtree(os.path.join(top, "out"))
    raise AssertionError("it was never seen to come so far")


@test
def a_signal_ends_the_build_and_leaves_nothing():
    top = source("broken-off")
    out = os.path.join(top, "out")
    demo = lambda pid: [x for x in children_of(pid) if runs(x, b"synth")]  # noqa: E731: the verify step's second child
    cases = (("while it packs", signal.SIGINT, lambda pid: os.path.isdir(out) and any("blobs" in d for d, _, _ in os.walk(out))),
             ("while the image's program runs", signal.SIGTERM, demo))
    for what, sig, reached in cases:
        build = started_and(top, reached)
        try:
            children = children_of(build.pid)
            equal(len(os.listdir(out)), 2, "the folders it works in:")
            build.send_signal(sig)
            err = build.communicate(timeout=60)[1]
            equal((build.returncode, err), (130, b""), what)
            equal(os.listdir(out), [], f"{what}, left:")
            equal([x for x in children if os.path.exists(f"/proc/{x}")], [], f"{what}, still running:")
        finally:
            build.kill()
            build.wait()
    nohup = [sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"]
    build = subprocess.Popen([*nohup, BIN, "package", "--out", "out", "--no-verify", "--program", SMALL], cwd=top, env=environment(), stdout=subprocess.DEVNULL)
    wait_for(lambda: os.listdir(out))
    build.send_signal(signal.SIGHUP)
    equal(build.wait(240), 0, "under nohup:")


@test
def a_killed_build_is_swept_by_the_next():
    top, run = small("swept")
    done(run)
    stale = os.path.join(top, "out", f".{NAME}.package-AAAAAA", "image")
    os.makedirs(stale)
    done(gr00t("package", "--out", "out", "--no-verify", "--program", SMALL, cwd=top))
    equal(os.listdir(os.path.join(top, "out")), [NAME])


@test
def builds_at_the_same_time_all_succeed_and_leave_one_package():
    top, run = small("together")
    done(run)
    shutil.rmtree(os.path.join(top, "out", NAME))
    builds = [subprocess.Popen([BIN, "package", "--out", "out", "--no-verify", "--program", SMALL], cwd=top, env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    said = [b.communicate(timeout=240)[1] for b in builds]
    equal([b.returncode for b in builds], [0] * 6, f"{said}")
    equal(os.listdir(os.path.join(top, "out")), [NAME], "left behind:")
    done(gr00t("manifest", "check", os.path.join("out", NAME), cwd=top))


@test
def a_folder_that_is_no_package_is_never_replaced():
    top = source("mine")
    write(os.path.join(top, "out", NAME, "thesis.txt"), "mine")
    fails(gr00t("package", "--out", "out", "--no-verify", "--program", SMALL, cwd=top), 3, "is no package")
    equal(read(top, "out", NAME, "thesis.txt"), "mine")


@test
def sources_that_are_missing_or_lead_outside_are_refused():
    cases = [
        ("git", MANIFEST.replace("tt_metal: source", "tt_metal: {repo: 'https://example.org/x', ref: main}"), None, 3,
         "is a git repository"),
        ("gone", MANIFEST.replace("tool.sh", "gone.sh"), None, 3, "source/gone.sh"),
        ("root", MANIFEST.replace("tt_metal: source", "tt_metal: nowhere"), None, 3, "tt-model.yaml: source: no folder nowhere in "),
        ("out", MANIFEST, ("/etc/passwd", "pkg/evil"), 3,
         "source/pkg/evil: is a link to /etc/passwd, outside of source: put a copy in place of the link, or list the folder"),
        ("up", MANIFEST, ("..", "pkg/up"), 3, "link to a folder that it is in"),
        ("dangling", MANIFEST, ("gone.txt", "pkg/lost"), 3, "source/pkg/lost: is a link to gone.txt, which cannot be read: remove the link"),
        ("loop", MANIFEST, ("../pkg", "pkg/loop"), 3, "link to a folder that it is in"),
        ("fifo", MANIFEST, "pkg/fifo", 3, "neither a file nor a folder"),
        ("dots", MANIFEST.replace("tool.sh", "../tt-model.yaml"), None, 4, ".."),
        ("kind", MANIFEST.replace("registry: hf", "registry: ghcr.io/example"), None, 4, "image.registry"),
    ]
    for name, manifest, extra, code, text in cases:
        top = source(f"bad-{name}", manifest)
        if isinstance(extra, tuple):
            os.symlink(extra[0], os.path.join(top, "source", extra[1]))
        elif extra:
            os.mkfifo(os.path.join(top, "source", extra))
        fails(gr00t("package", "--out", "out", "--no-verify", "--program", SMALL, cwd=top), code, text)
        assert not os.path.isdir(os.path.join(top, "out")) or not os.listdir(os.path.join(top, "out")), name


@test
def a_link_inside_the_tree_ships_what_it_points_to():
    top = source("inside")
    os.symlink("deep/data.txt", os.path.join(top, "source/pkg/alias.txt"))
    done(gr00t("package", "--out", "out", "--no-verify", "--program", SMALL, cwd=top))
    path = os.path.join(top, "out", NAME, "code/pkg/alias.txt")
    assert not os.path.islink(path)
    equal(read(path), "data\n")


@test
def the_output_folder_is_not_staged_into_itself():
    top = source("self", MANIFEST.replace("[pkg, tool.sh]", "[pkg]"))
    done(gr00t("package", "--out", "source/pkg/build", "--no-verify", "--program", SMALL, cwd=top))
    assert not os.path.exists(os.path.join(top, "source/pkg/build", NAME, "code/pkg/build"))


@test
def steps_are_rows_and_quiet_is_quiet():
    top = source("rows")
    run = done(gr00t("package", "--container", "tt-model.yaml", "--out", "out", "--no-verify", "--program", SMALL, cwd=top))
    rows = run.out.splitlines()
    equal([x.split()[:2] for x in rows[:-1]], [["✓", "manifest"], ["✓", "code"], ["✓", "root"], ["✓", "image"], ["○", "verify"],
                                               ["✓", "papers"], ["✓", "package"]])
    equal(rows[-1], f"→ gr00t push out/{NAME}")
    contains(run.out, "left out: ", "__pycache__", " MB compressed")
    run = done(gr00t("package", "--out", "out", "--no-verify", "--quiet", "--program", SMALL, cwd=top))
    equal(run.out, "")
    fails(gr00t("package", "--out", "out", "--no-verify", cwd=top, SOURCE_DATE_EPOCH="yesterday"), 2, "SOURCE_DATE_EPOCH")
    fails(gr00t("package", "missing.yaml", cwd=top), 3, "missing.yaml")


if __name__ == "__main__":
    TMP = tempfile.mkdtemp(prefix="gr00t-package-")
    try:
        sys.exit(run_tests())
    finally:
        shutil.rmtree(TMP, ignore_errors=True)
