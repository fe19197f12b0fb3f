#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Hub's Python client, each version that ./setup.sh --interop installs: it reads what we pulled and pushed, we read what it did, also both at once.

The shared cache is looked at closer by tests/package/test_pull_client.py, which runs here with these clients.
"""
import json
import os
import re
import subprocess
import sys

import interop as it
from interop import ph
from push_hub import make_package
from tap import contains, equal, test

REPO = "org/pkg"


def clients():
    return it.venv("hf-*", "python")


def client(python, home, hub, code, *args):
    """Output of a few lines of Python with the client as `h`."""
    env = ph.environment(home, hub, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
    return it.command(python, "-c", "import sys, json, huggingface_hub as h\na = sys.argv[1:]\n" + code, *args, env=env).out.strip()


def hub():
    return ph.Hub(it.fresh("hub"), "--lfs-min", "4096", "--multipart", "65536")


def pull(home, h, *args):
    return json.loads(it.gr00t("pull", *args, "--json", env=ph.environment(home, h)).out)["repositories"]


def same(a, b, but=()):
    """Two folders hold the same bytes."""
    a, b = ({n: p for n, p in ph.files_of(x).items() if not n.startswith(tuple(but))} for x in (a, b))
    equal(sorted(a), sorted(b))
    for n in a:
        assert ph.read(a[n]) == ph.read(b[n]), f"{n}: other bytes"
    return len(a)


@test
def a_cache_is_shared_with_every_version():
    versions = [client(p, it.fresh(), None, "print(h.__version__)") for p in clients()]
    equal(len({v.split(".")[0] for v in versions}), len(versions), f"major versions {versions}:")
    it.figure("huggingface_hub " + ", ".join(versions))
    env = dict(os.environ, GR00T_BIN=it.BIN, GR00T_HF_PYTHON=":".join(clients()))
    p = it.command(sys.executable, os.path.join(it.ROOT, "tests/package/test_pull_client.py"), env=env, code=None)
    assert p.returncode == 0, p.out
    it.figure("shared cache: " + p.out.splitlines()[-1])


@test
def the_client_downloads_what_we_pushed():
    for python in clients():
        with hub() as h:
            home, folder = it.fresh(), make_package(os.path.join(it.fresh(), "pkg"))
            it.gr00t("push", folder, "--public", env=ph.environment(home, h, HF_TOKEN=ph.TOKEN))
            got = client(python, home, h, "print(h.snapshot_download(a[0]))", REPO)
            count = same(folder, got, [".gitattributes"])
            it.figure(f"{count} files pushed by gr00t, downloaded by {os.path.basename(os.path.dirname(os.path.dirname(python)))}")
            card = json.loads(client(python, home, h, "print(json.dumps(h.ModelCard.load(a[0]).data.to_dict()))", REPO))
            equal((card["license"], card["license_name"], card["pipeline_tag"]), ("other", "nvidia-license", "robotics"))
            contains(card["tags"], "tt-model-cache", "tt-model-container")


@test
def we_download_what_the_client_pushed():
    for python in clients():
        with hub() as h:
            home, source = it.fresh(), ph.snapshot(it.fresh(), 200_000)
            commit = client(python, home, h, "c = h.HfApi(token='t')\nc.create_repo(a[0], private=True)\n"
                            "print(c.upload_folder(repo_id=a[0], folder_path=a[1]).oid)", "org/theirs", source)
            got = pull(home, h, "org/theirs")[0]
            equal(got["commit"], commit)
            same(source, got["snapshot"], [".gitattributes"])


@test
def a_push_of_ours_on_top_of_a_commit_of_the_client_keeps_it():
    for python in clients():
        with hub() as h:
            home, folder = it.fresh(), make_package(os.path.join(it.fresh(), "pkg"))
            env = ph.environment(home, h, HF_TOKEN=ph.TOKEN)
            it.gr00t("push", folder, env=env)
            client(python, home, h, "c = h.HfApi(token='t')\nc.upload_file(repo_id=a[0], path_in_repo='demo/video.mp4', path_or_fileobj=b'V' * 9000)\n"
                   "c.upload_file(repo_id=a[0], path_in_repo='code/stale.py', path_or_fileobj=b'old')", REPO)
            it.gr00t("push", make_package(folder, seed=2), env=env)
            names = json.loads(client(python, home, h, "print(json.dumps(h.HfApi().list_repo_files(a[0])))", REPO))
            assert "demo/video.mp4" in names and "code/stale.py" not in names, names


@test
def both_fetch_into_one_cache_at_once():
    for python in clients():
        root = it.fresh("hub")
        source = ph.snapshot(os.path.join(root, "org/snap"), 8_000_000)
        with ph.Hub(root) as h:
            h.faults("slow:rate=8000000,path=_cdn")
            home = it.fresh()
            ours = subprocess.Popen([it.BIN, "pull", "org/snap", "--quiet"], env=ph.environment(home, h), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            theirs = client(python, home, h, "print(h.snapshot_download(a[0]))", "org/snap")
            err = ours.communicate(timeout=240)[1]
            equal(ours.returncode, 0, err)
            equal(os.path.realpath(theirs), os.path.realpath(ph.check_snapshot(ph.cache_of(home), "org/snap", source)))


@test
def the_client_counts_our_cache_without_a_warning_and_deletes_from_it():
    for python in clients():
        root = it.fresh("hub")
        ph.snapshot(os.path.join(root, "org/snap"), 100_000)
        with ph.Hub(root) as h:
            home = it.fresh()
            got = pull(home, h, "org/snap")[0]
            code = ("i = h.scan_cache_dir()\nr = next(iter(i.repos))\n"
                    "print(json.dumps([[str(w) for w in i.warnings], r.repo_id, r.nb_files, [x.commit_hash for x in r.revisions]]))\n"
                    "i.delete_revisions(a[0]).execute()")
            warnings, repo, files, commits = json.loads(client(python, home, None, code, got["commit"]))
            warnings = [w for w in warnings if not w.endswith("CACHEDIR.TAG")]  # of newer clients too; before 1.0 it is taken for a repository
            equal((warnings, repo, commits), ([], "org/snap", [got["commit"]]))
            assert files > 5, files
            again = pull(home, h, "org/snap")[0]
            assert again["bytes_fetched"] > 0 and not re.search("incomplete", " ".join(ph.files_of(ph.cache_of(home)))), again
            ph.check_cache(ph.cache_of(home))


if __name__ == "__main__":
    clients()
    sys.exit(it.run())
