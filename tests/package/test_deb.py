#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package that tools/deb.sh makes of a build: what is in it, what it says, that it is reproducible, and that what it installs works.

In: GR00T_BIN, the program of a build folder; GR00T_SOURCE_ROOT. Out: TAP lines, then "N passed, N failed". Needs no root: the package is unpacked,
and laid into a dpkg database of its own where dpkg allows that. Skipped without the tools of Debian.
"""
import configparser
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tap import Skip, contains, equal, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./build/src/gr00t"))
ROOT = os.path.abspath(os.environ.get("GR00T_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")))
BUILD = os.path.dirname(os.path.dirname(BIN))
EPOCH = 1700000000
TMP = ""
MADE = {}

EXPECTED = {
    "usr/bin/gr00t": 0o755, "etc/default/gr00t": 0o644, "lib/systemd/system/gr00t.service": 0o644, "lib/systemd/system/gr00t.socket": 0o644,
    "usr/share/doc/gr00t/copyright": 0o644, "usr/share/doc/gr00t/changelog.gz": 0o644, "usr/share/doc/gr00t/LICENSE": 0o644,
    "usr/share/doc/gr00t/LICENSE-NOTICE.md": 0o644, "usr/share/doc/gr00t/OPERATIONS.md": 0o644, "usr/share/doc/gr00t/examples/gr00t.yaml": 0o644,
}


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        raise Skip(f"{BIN} lies in no build folder")


def run(*command, **more):
    p = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)
    assert p.returncode == 0, f"{' '.join(command)}: exit {p.returncode}: {p.stdout[-300:]}{p.stderr[-600:]}"
    return p.stdout


def build(folder, umask=0o022):
    out = os.path.join(TMP, folder)
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "DEBFULLNAME": "A Tester", "DEBEMAIL": "tester@example.org", "LC_ALL": "C.UTF-8"}
    path = run(os.path.join(ROOT, "tools/deb.sh"), "--out", out, BUILD, env=env, preexec_fn=lambda: os.umask(umask)).splitlines()[-1]
    assert os.path.dirname(path) == out, path
    return path


def deb():
    need("dpkg-deb", "dpkg-shlibdeps")
    if "deb" not in MADE:
        MADE["deb"] = build("first")
    return MADE["deb"]


def unpacked():
    if "root" not in MADE:
        MADE["root"] = os.path.join(TMP, "root")
        run("dpkg-deb", "-x", deb(), MADE["root"])
    return MADE["root"]


def read(name):
    with open(os.path.join(unpacked(), name), encoding="utf-8") as f:
        return f.read()


def members():
    p = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb()], capture_output=True, check=True)
    path = os.path.join(TMP, "fsys.tar")
    with open(path, "wb") as f:
        f.write(p.stdout)
    with tarfile.open(path) as t:
        return t.getmembers()


def control(name):
    return run("dpkg-deb", "-f", deb(), name).strip()


@test
def every_file_is_there_with_its_mode_and_belongs_to_root():
    found = {m.name.removeprefix("./"): m for m in members()}
    for name, mode in EXPECTED.items():
        assert name in found, f"no {name}"
        equal(found[name].mode, mode, name)
    for name, m in found.items():
        assert m.isdir() or m.isreg(), f"{name}: neither file nor folder"
        equal((m.uid, m.gid, m.uname, m.gname), (0, 0, "root", "root"), name)
        assert m.mode & 0o7022 == 0, f"{name}: mode {m.mode:o}"
        equal(m.mtime, EPOCH, name)
        assert not name.startswith("usr/local"), name
    assert found["var/lib/gr00t"].isdir(), "no folder for the weights"


@test
def the_manual_is_in_it_where_it_was_built():
    if not os.path.exists(os.path.join(BUILD, "docs/man/gr00t.1")):
        raise Skip("this build has no manual: scdoc is missing")
    with gzip.open(os.path.join(unpacked(), "usr/share/man/man1/gr00t.1.gz"), "rt", encoding="utf-8") as f:
        contains(f.read(), ".SH COMMANDS")


@test
def control_has_what_dpkg_needs():
    equal(control("Package"), "gr00t")
    equal(control("Version"), run(BIN, "--version").split()[1])
    equal(control("Architecture"), run("dpkg", "--print-architecture").strip())
    equal(control("Maintainer"), "A Tester <tester@example.org>")
    equal(os.path.basename(deb()), f"gr00t_{control('Version')}_{control('Architecture')}.deb")
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(unpacked()) for f in files) / 1024
    assert size <= int(control("Installed-Size")) <= size + 200, f"Installed-Size {control('Installed-Size')}, {size:.0f} found"
    info = os.path.join(TMP, "control")
    run("dpkg-deb", "-e", deb(), info)
    with open(os.path.join(info, "conffiles"), encoding="utf-8") as f:
        equal(f.read(), "/etc/default/gr00t\n")
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", os.path.join(info, script))
        assert os.access(os.path.join(info, script), os.X_OK), script
    with open(os.path.join(info, "md5sums"), encoding="utf-8") as f:
        sums = dict(reversed(line.rstrip("\n").split("  ", 1)) for line in f)
    for name in set(EXPECTED) - {"etc/default/gr00t"}:
        with open(os.path.join(unpacked(), name), "rb") as f:
            equal(sums.get(name), hashlib.md5(f.read()).hexdigest(), name)


@test
def depends_covers_every_library_that_the_program_names():
    """Each one is in a package of Depends, and nothing else is."""
    need("objdump")
    wanted = set()
    loaded = dict(re.findall(r"(\S+) => (\S+) \(", run("ldd", BIN)))
    for name in re.findall(r"NEEDED +(\S+)", run("objdump", "-p", os.path.join(unpacked(), "usr/bin/gr00t"))):
        real = os.path.realpath(loaded.get(name, "/lib64/" + name))
        owners = [subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False).stdout.split(":")[0]
                  for path in (real, real.removeprefix("/usr"))]  # a merged /usr: the database may have either
        assert any(owners), f"no package has {real}"
        wanted.add(owners[0] or owners[1])
    equal({d.split()[0] for d in control("Depends").split(", ")}, wanted)
    contains(control("Recommends"), "ca-certificates")


@test
def licences_and_changelog_travel():
    contains(read("usr/share/doc/gr00t/copyright"), "License: Apache-2.0", "/usr/share/common-licenses/Apache-2.0", "Unicode")
    contains(read("usr/share/doc/gr00t/LICENSE"), "Apache License")
    contains(read("usr/share/doc/gr00t/LICENSE-NOTICE.md"), "NVIDIA License", "non-commercial")
    linked = subprocess.run(["objdump", "-p", BIN], capture_output=True, text=True, check=True).stdout
    if "libarchive.so" not in linked:  # then parts of it are inside the program
        contains(read("usr/share/doc/gr00t/copyright.libarchive"), "libarchive")
        contains(control("Built-Using"), "libarchive (= ")
    with gzip.open(os.path.join(unpacked(), "usr/share/doc/gr00t/changelog.gz"), "rt", encoding="utf-8") as f:
        text = f.read()
    assert re.match(rf"gr00t \({re.escape(control('Version'))}\) unstable; urgency=medium\n\n  \[ Added \]\n  \* ", text), text[:120]
    assert text.endswith("\n -- A Tester <tester@example.org>  Tue, 14 Nov 2023 22:13:20 +0000\n"), text[-120:]
    if shutil.which("dpkg-parsechangelog"):
        path = os.path.join(TMP, "changelog")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        equal(run("dpkg-parsechangelog", "-l", path, "-S", "Version").strip(), control("Version"))


@test
def the_same_build_gives_the_same_bytes():
    """Also with another umask."""
    with open(deb(), "rb") as a, open(build("second", umask=0o077), "rb") as b:
        assert a.read() == b.read(), "two runs differ"


def settings(name):
    """NAME=VALUE lines of the settings file."""
    return dict(line.split("=", 1) for line in read(name).splitlines() if re.match(r"[A-Z]", line))


@test
def the_unit_starts_the_installed_program_with_folders_of_its_own():
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=", comment_prefixes="#")
    unit.optionxform = str
    unit.read_string(read("lib/systemd/system/gr00t.service"))
    service = unit["Service"]
    contains(service["ExecStart"], "/usr/bin/gr00t serve ", "$DAEMON_OPTS")
    equal(service["EnvironmentFile"], "-/etc/default/gr00t")
    equal((service["Type"], service["DynamicUser"], service["CacheDirectory"]), ("notify", "yes", "gr00t"))
    assert "/usr/local" not in service["ExecStart"], service["ExecStart"]
    equal(settings("etc/default/gr00t"), {"DAEMON_OPTS": ""})
    text = read("lib/systemd/system/gr00t.service") + read("etc/default/gr00t")
    equal(set(re.findall(r"\b[0-9a-f]{40}\b", text)), {"d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"}, "revision")
    if shutil.which("systemd-analyze"):
        path = os.path.join(TMP, "units", "gr00t.service")
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as f:  # the program is not installed here
            f.write(read("lib/systemd/system/gr00t.service").replace("/usr/bin/gr00t", os.path.join(unpacked(), "usr/bin/gr00t")))
        shutil.copy(os.path.join(unpacked(), "lib/systemd/system/gr00t.socket"), os.path.dirname(path))
        p = subprocess.run(["systemd-analyze", "verify", "--man=no", path, os.path.join(os.path.dirname(path), "gr00t.socket")],
                           capture_output=True, text=True, check=False)
        equal((p.returncode, p.stdout + p.stderr), (0, ""), "systemd-analyze")


@test
def dpkg_takes_it_and_gives_it_back():
    """Into a root of its own. Without a root user and a shell in there dpkg cannot chroot: the scripts are left out then."""
    if os.geteuid() != 0:
        raise Skip("dpkg installs as root only")
    bare = os.path.join(TMP, "bare")
    shutil.copytree(os.path.join(TMP, "control"), os.path.join(TMP, "package", "DEBIAN"))
    for script in ("postinst", "prerm", "postrm"):
        os.remove(os.path.join(TMP, "package", "DEBIAN", script))
    shutil.copytree(unpacked(), os.path.join(TMP, "package"), dirs_exist_ok=True)
    plain = os.path.join(TMP, "plain.deb")
    run("dpkg-deb", "-Znone", "--build", os.path.join(TMP, "package"), plain)
    os.makedirs(os.path.join(bare, "var/lib/dpkg/info"))
    for name in ("status", "available"):
        with open(os.path.join(bare, "var/lib/dpkg", name), "w", encoding="utf-8"):
            pass
    dpkg = ("dpkg", "--root=" + bare, "--force-depends", "--log=/dev/null", "--path-include=/*")
    run(*dpkg, "--install", plain)
    equal(run("dpkg-query", "--admindir=" + bare + "/var/lib/dpkg", "-W", "-f", "${Status}", "gr00t"), "install ok installed")
    run(*dpkg, "--verify", "gr00t")
    run(os.path.join(bare, "usr/bin/gr00t"), "--version")
    with open(os.path.join(bare, "etc/default/gr00t"), "a", encoding="utf-8") as f:
        f.write("GR00T_POLICY=mixed\n")
    run(*dpkg, "--remove", "gr00t")
    assert os.path.exists(os.path.join(bare, "etc/default/gr00t")), "the settings are gone after remove"
    run(*dpkg, "--purge", "gr00t")
    assert not os.path.exists(os.path.join(bare, "etc/default/gr00t")), "the settings are still there after purge"


@test
def the_installed_program_runs_its_demo():
    program = os.path.join(unpacked(), "usr/bin/gr00t")
    env = {"PATH": "/usr/bin:/bin", "HOME": TMP, "GR00T_CACHE": "off"}
    equal(run(program, "--version", env=env), run(BIN, "--version"))
    contains(run("objdump", "-t", program), "no symbols")
    demo = os.path.join(TMP, "demo")
    run(program, "synth", "demo", demo, "--quiet", env=env)
    contains(run(program, "check", demo, os.path.join(demo, "demo/golden"), "--quiet", env=env), "1 of 1 cases within bounds")


@test
def a_folder_without_a_build_is_told():
    need("dpkg-deb", "dpkg-shlibdeps")
    p = subprocess.run([os.path.join(ROOT, "tools/deb.sh"), TMP], capture_output=True, text=True, check=False)
    equal(p.returncode, 1)
    contains(p.stderr, "src/gr00t is missing")
    equal([name for name in os.listdir(TMP) if name.startswith("gr00t_")], [])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as TMP:
        code = run_tests()
    sys.exit(code)
