#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of `gr00t push` and the other verbs about the Hub, against a loopback Hub with faults.

In: GR00T_BIN, the program. Out: TAP lines.
"""
import fcntl
import hashlib
import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../cli")]
from push_hub import CATALOG, READ, TAG, WRITE, Hub, make_image, make_package, noise, tree, write  # noqa: E402
from tap import contains, done, equal, fails, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
TMP = ""


def fresh():
    return tempfile.mkdtemp(dir=TMP)


def environment(hub=None, token=WRITE, home=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "HUGGINGFACE_", "XDG_", "TT_"))
             and not k.lower().endswith("_proxy")}
    clean["HOME"] = home or os.path.join(TMP, "home")
    os.makedirs(clean["HOME"], exist_ok=True)
    if hub is not None:
        clean["HF_ENDPOINT"] = hub.url
    if token is not None:
        clean["HF_TOKEN"] = token
    return clean


def gr00t(*args, stdin=None, **env):
    p = subprocess.run([BIN, *args], env=environment(**env), input=stdin, capture_output=True, timeout=120, check=False)
    p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    for secret in (WRITE, READ):
        assert secret not in p.out + p.err, "the token is in the output"
    return p


def hub(**options):
    return Hub(fresh(), **options)


def package(**options):
    return make_package(os.path.join(fresh(), "pkg"), **options)


def names(requests):
    return [r["method"] + " " + r["path"].split("?")[0] for r in requests]


def holds(h, folder, repo="org/pkg", others=(".gitattributes",), card=True):
    """The head has exactly the folder's files and these others."""
    there, here = h.files(repo), tree(folder)
    equal(sorted(there), sorted([*here, *others]))
    for path, data in here.items():
        if path != "README.md" or card:
            assert there[path] == data, f"{path} differs"


# ---- what gets there ----

@test
def push_creates_a_private_repository_with_everything_in_one_commit():
    with hub() as h:
        folder = package()
        run = done(gr00t("push", folder, hub=h))
        contains(run.out, "org/pkg created, private", "commit http", "gr00t publish org/pkg")
        holds(h, folder)
        r = h.repo("org/pkg")
        equal((len(r.log), r.private), (2, True))
        contains(h.files("org/pkg")["LICENSE-NOTICE.md"].decode(), "licence")
        info = h.hub.repos["org/pkg"]
        entry = info.commits[info.head]["README.md"]
        front = json.loads(json.dumps(h.handler.card(entry)))
        equal((front["license"], front["license_name"], front["pipeline_tag"]), ("other", "nvidia-license", "robotics"))
        assert TAG in front["tags"] and CATALOG not in front["tags"], front


@test
def a_second_push_sends_nothing():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        head = h.repo("org/pkg").head
        h.faults()
        run = done(gr00t("push", folder, hub=h))
        contains(run.out, "nothing to send")
        equal(h.log("POST", "PUT", "DELETE"), [])
        equal(h.repo("org/pkg").head, head)


@test
def only_what_changed_is_sent():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        blob = "image/blobs/sha256/" + "ab" * 32
        write(os.path.join(folder, blob), noise(50_000, 77))
        write(os.path.join(folder, "code/gr00t/main.c"), "int main(void) { return 99; }\n")
        h.faults()
        done(gr00t("push", folder, hub=h))
        equal(len(h.log("PUT")), 1)
        equal(len([n for n in names(h.log("POST")) if "/commit/" in n]), 1)
        holds(h, folder)


@test
def equal_files_are_sent_once():
    with hub() as h:
        folder = package()
        for i in range(4):
            write(f"{folder}/code/gr00t/copy{i}.dat", noise(20_000, 5))
        h.faults()
        done(gr00t("push", folder, hub=h))
        equal(len(h.log("PUT")), 3)
        holds(h, folder)


@test
def large_files_go_in_parts():
    with hub(multipart=65536) as h:
        folder = package(large=(300_001, 65_536, 65_537, 5_000))
        done(gr00t("push", folder, hub=h))
        parts = [r for r in h.log("PUT") if "/part/" in r["path"]]
        equal(len(parts), 5 + 2)
        equal(len([n for n in names(h.log("POST")) if n.endswith("/complete")]), 2)
        equal(len([n for n in names(h.log("POST")) if n.endswith("/verify")]), 4)
        holds(h, folder)


@test
def more_files_than_one_call_takes():
    with hub() as h:
        folder = package()
        for i in range(300):
            write(f"{folder}/code/many/{i:03}.txt", f"{i}\n")
        done(gr00t("push", folder, hub=h))
        equal(len([n for n in names(h.log("POST")) if "/preupload/" in n]), 2)
        holds(h, folder)


@test
def the_token_goes_to_the_hub_only():
    with hub(multipart=65536) as h:
        done(gr00t("push", package(), hub=h))
        puts = h.log("PUT")
        assert puts and not any(r["auth"] for r in puts), puts
        assert all(r["auth"] for r in h.log() if r["path"].startswith("/api/"))


@test
def stale_files_go_and_authored_files_stay():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        for path in ("docs/notes.md", "code/old/gone.c", "image/blobs/sha256/" + "0" * 64, "my-picture.png"):
            h.add("org/pkg", path, noise(5000, path))
        before = len(h.repo("org/pkg").log)
        write(folder + "/requirements.lock", "other\n")
        run = done(gr00t("push", folder, hub=h))
        contains(run.out, "2 deleted\n✓ commit ")
        holds(h, folder, others=(".gitattributes", "docs/notes.md", "my-picture.png"))
        equal(len(h.repo("org/pkg").log), before + 1)


@test
def a_folder_takes_the_place_of_a_file():
    with hub() as h:
        folder = package()
        write(folder + "/code/x", "int x;\n")
        done(gr00t("push", folder, hub=h))
        os.unlink(folder + "/code/x")
        write(folder + "/code/x/y.c", "int y;\n")
        done(gr00t("push", folder, hub=h))
        holds(h, folder)


@test
def another_repository_gets_its_own_commands():
    with hub() as h:
        done(gr00t("push", package(), "--repo", "other/place", hub=h))
        card = h.files("other/place")["README.md"].decode()
        contains(card, "tt model pull other/place", "tt serve other/place", "tt-model pull other/place --with-weights",
                 "tt-model serve other/place")
        assert "org/pkg" not in card, card
        fails(gr00t("push", package(), "--repo", "nowhere", hub=h), 2, "nowhere")


@test
def a_renamed_repository_is_found():
    with hub(rename=["org/old=org/pkg"]) as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        write(folder + "/requirements.lock", "other\n")
        done(gr00t("push", folder, "--repo", "org/old", hub=h))
        equal(h.files("org/pkg")["requirements.lock"], b"other\n")


# ---- faults ----

@test
def a_server_that_stumbles_is_asked_again():
    with hub(multipart=65536) as h:
        folder = package()
        h.faults(*[f"status:code={c},retry_after=0,path={p},times=1" for c, p in (
            (503, "/preupload/"), (500, "objects/batch"), (502, "/part/2"), (429, "/part/1"), (504, "/complete"), (500, "/verify"),
            (503, "/commit/"), (500, "/api/repos/create"), (503, "/api/models/org/pkg$"), (503, "validate-yaml"))])
        run = done(gr00t("push", folder, hub=h))
        contains(run.err, "503", "try 2")
        holds(h, folder)
        equal(len(h.repo("org/pkg").log), 2)


@test
def an_address_that_expired_is_asked_for_again():
    for multipart in (0, 65536):
        with hub(multipart=multipart) as h:
            folder = package()
            h.faults("status:code=403,path=^/_lfs/,method=PUT,times=1")
            done(gr00t("push", folder, hub=h))
            equal(len([n for n in names(h.log("POST")) if n.endswith("objects/batch")]), 2)
            holds(h, folder)


@test
def answers_that_are_lost_do_no_harm():
    with hub(multipart=65536) as h:
        folder = package(large=(200_000, 20_000))
        h.lose = {"create": 1, "PUT": 1, "complete": 1, "commit": 1}
        run = done(gr00t("push", folder, hub=h))
        contains(run.out, "org/pkg created, private")
        holds(h, folder)
        equal(len(h.repo("org/pkg").log), 2, "the commit was made once:")


@test
def a_commit_of_somebody_else_is_not_overwritten():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        write(folder + "/code/gr00t/main.c", "int main(void) { return 5; }\n")
        write(folder + "/image/blobs/sha256/" + "cd" * 32, noise(9000, 3))
        h.before_commit = [lambda r: h.add("org/pkg", "docs/theirs.md", b"theirs\n")]
        fails(gr00t("push", folder, hub=h), 7, "somebody else committed", "run again")
        equal(h.repo("org/pkg").log[0]["title"], "foreign")
        assert b"return 5" not in h.files("org/pkg")["code/gr00t/main.c"]
        h.faults()
        done(gr00t("push", folder, hub=h))
        equal(h.log("PUT"), [], "what was sent is not sent again:")
        holds(h, folder, others=(".gitattributes", "docs/theirs.md"))


@test
def a_commit_of_somebody_else_after_ours_is_no_failure():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        write(folder + "/code/gr00t/main.c", "int main(void) { return 5; }\n")
        h.lose = {"commit": 1}
        h.before_commit = [lambda r: None]
        inner = h.hub.add_commit

        def and_then(r, files, title, pin=None):
            sha = inner(r, files, title, pin)
            if title != "foreign":
                h.add("org/pkg", "docs/theirs.md", b"theirs\n")
            return sha

        h.hub.add_commit = and_then
        done(gr00t("push", folder, hub=h))
        holds(h, folder, others=(".gitattributes", "docs/theirs.md"))


@test
def a_refusal_to_write_is_final():
    with hub() as h:
        folder = package()
        h.faults()
        run = fails(gr00t("push", folder, hub=h, token=READ), 6, "org/pkg", "403")
        equal(len([n for n in names(h.log("POST")) if "create" in n]), 1)
        done(gr00t("push", folder, hub=h))
        write(folder + "/requirements.lock", "other\n")
        h.faults()
        run = fails(gr00t("push", folder, hub=h, token=READ), 6, "403")
        equal(len(h.log("POST")), 1)
        fails(gr00t("push", folder, hub=h, token="hf_wrong"), 6, "token")
        for more in ((), ("--dry-run",), ("--repo", "org/new")):
            fails(gr00t("push", folder, *more, hub=h, token=None), 6, "org/", "no token was sent", h.url + "/settings/tokens", "gr00t login")


@test
def a_push_that_was_broken_off_is_completed_by_the_next():
    with hub() as h:
        folder = package(large=(50_000, 60_000, 70_000))
        done(gr00t("push", folder, hub=h))
        old = h.repo("org/pkg").head
        for i in range(3):
            write(f"{folder}/image/blobs/sha256/{i:064}", noise(30_000 + i, 50 + i))
        h.faults("status:code=403,path=^/_lfs/,method=PUT,skip=2")
        fails(gr00t("push", folder, hub=h), 6, "refuses")
        equal(h.repo("org/pkg").head, old)
        sent = len([r for r in h.log("PUT") if r["status"] == 200])
        equal(sent, 2)
        h.faults()
        done(gr00t("push", folder, hub=h))
        equal(len(h.log("PUT")), 1, "only what was missing:")
        holds(h, folder)


@test
def an_interrupted_push_says_what_is_kept():
    with hub() as h:
        folder = package()
        h.faults("stall:secs=300,path=^/_lfs/,method=PUT")  # far longer than the end is waited for
        p = subprocess.Popen([BIN, "push", folder], env=environment(hub=h), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while not h.waits_for("PUT") and time.monotonic() < until:
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=60)[1].decode()
        equal(p.returncode, 130, err)
        contains(err, "interrupted", "run again")
        equal(list(h.files("org/pkg")), [".gitattributes"])


@test
def a_card_that_the_hub_refuses_is_named_and_nothing_sent():
    with hub() as h:
        folder = package()
        h.card_errors = ['"license_name" must be a slug', '"pipeline_tag" is unknown']
        fails(gr00t("push", folder, hub=h), 4, '"license_name" must be a slug', '"pipeline_tag" is unknown')
        equal(h.log("PUT"), [])
        equal(list(h.files("org/pkg")), [".gitattributes"])
        h.card_errors = ["you sent " + WRITE]  # gr00t() looks for the token in what is printed
        fails(gr00t("push", folder, hub=h), 4, "refuses its front matter")


@test
def answers_that_make_no_sense_end_the_push():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        write(folder + "/requirements.lock", "other\n")
        head = h.repo("org/pkg").head
        for path, body in (("preupload", b"<html>hello</html>"), ("preupload", b"{}"), ("preupload", b'{"files": [{"path": "../x"}]}'),
                           ("preupload", b'{"files": [{"path": "requirements.lock", "uploadMode": "magic"}]}'), ("commit", b"[]")):
            inner = h.handler.route

            def route(self, p, path=path, body=body, inner=inner):
                if f"/{path}/" not in p:
                    return inner(self, p)
                self.body()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            h.handler.route = route
            run = gr00t("push", folder, hub=h)
            h.handler.route = inner
            fails(run, 5, "answer")
            equal(h.repo("org/pkg").head, head)


# ---- an image that is not what it says ----

def blobs(folder):
    where = folder + "/image/blobs/sha256/"
    return sorted((where + n for n in os.listdir(where)), key=os.path.getsize)


def flip(path):
    with open(path, "r+b") as f:
        f.seek(-20, os.SEEK_END)
        byte = f.read(1)
        f.seek(-20, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))


@test
def a_damaged_image_is_refused_before_anything_is_sent():
    with hub() as h:
        for damage, words in ((lambda f: flip(blobs(f)[-1]), ("blobs/sha256/", "layer is damaged")),
                              (lambda f: flip(blobs(f)[0]), ("blobs/sha256/", "is damaged")),
                              (lambda f: os.truncate(blobs(f)[-1], 1000), ("has 1000 bytes",)),
                              (lambda f: os.unlink(blobs(f)[-1]), ("blobs/sha256/",)),
                              (lambda f: os.unlink(f + "/image/oci-layout"), ("oci-layout",)),
                              (lambda f: shutil.rmtree(f + "/image"), ("/image",))):
            folder = package()
            damage(folder)
            for more in ((), ("--dry-run",)):
                fails(gr00t("push", folder, *more, hub=h), 4, *words, "nothing was sent", "gr00t package")
        equal(h.log(), [])
        assert "org/pkg" not in h.hub.repos
        folder = package()
        make_image(folder, (5000,), seed=9)
        contains(done(gr00t("push", folder, hub=h)).err, "the manifest names the image sha256:", "image/ holds sha256:")


@test
def code_that_is_not_the_images_is_told():
    with hub() as h:
        folder = package()
        assert "code" not in done(gr00t("push", folder, "--dry-run", hub=h)).err
        write(folder + "/code/gr00t/new.c", "int x;\n")
        contains(done(gr00t("push", folder, "--dry-run", hub=h)).err, "/code: files were added, changed or removed", "gr00t package")
        shutil.rmtree(folder + "/code")
        contains(done(gr00t("push", folder, "--dry-run", hub=h)).err, "there is no code/")


# ---- folders that are none ----

@test
def a_folder_that_is_no_package_is_refused():
    fails(gr00t("push", os.path.join(TMP, "nothing")), 3, "nothing")
    fails(gr00t("push", fresh()), 4, "tt_kernel_manifest.json", "gr00t package")
    folder = package()
    fails(gr00t("push", os.path.dirname(folder)), 4, f"it has one in it: `gr00t push {folder}`")
    os.unlink(folder + "/image/index.json")
    fails(gr00t("push", folder), 4, "index.json")
    folder = package()
    os.unlink(folder + "/README.md")
    fails(gr00t("push", folder), 4, "README.md")


@test
def what_is_neither_file_nor_folder_is_refused():
    with hub() as h:
        folder = package()
        for make in (lambda p: os.mkfifo(p + b"pipe"), lambda p: open(p + b"a\nb", "w").close(), lambda p: open(p + b"\xff", "w").close()):
            odd = package()
            make(os.fsencode(odd) + b"/code/")
            fails(gr00t("push", odd, hub=h), 3, "/code/")
        os.symlink("/etc/passwd", folder + "/code/passwd")
        fails(gr00t("push", folder, hub=h), 3, "code/passwd", "symbolic link")
        equal(h.log(), [])


@test
def git_folders_are_left_out():
    with hub() as h:
        folder = package()
        write(folder + "/.git/config", "[core]\n")
        done(gr00t("push", folder, hub=h))
        assert not any(p.startswith(".git/") for p in h.files("org/pkg"))


# ---- visibility and catalog ----

@test
def visibility_changes_only_when_asked():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, "--public", hub=h))
        equal(h.repo("org/pkg").private, False)
        write(folder + "/requirements.lock", "2\n")
        assert "is p" not in done(gr00t("push", folder, hub=h)).out
        equal(h.repo("org/pkg").private, False)
        contains(done(gr00t("push", folder, "--private", hub=h)).out, "org/pkg is private now")
        equal(h.repo("org/pkg").private, True)
        done(gr00t("push", folder, hub=h))
        equal(h.repo("org/pkg").private, True)
        contains(done(gr00t("push", folder, "--public", hub=h)).out, "org/pkg is public now")
    for pair in (("--publish", "--private"), ("--public", "--private")):
        fails(gr00t("push", folder, *pair), 2, "exclude each other")


@test
def a_listing_survives_a_push_and_ends_with_private():
    with hub() as h:
        folder = package()
        contains(done(gr00t("push", folder, "--publish", hub=h)).out, "in the catalog")
        equal(h.repo("org/pkg").private, False)

        def tags():
            r = h.repo("org/pkg")
            return h.handler.card(r.commits[r.head]["README.md"])["tags"]

        assert CATALOG in tags() and TAG in tags(), tags()
        write(folder + "/requirements.lock", "2\n")
        done(gr00t("push", folder, hub=h))
        assert CATALOG in tags(), tags()
        done(gr00t("push", folder, "--private", hub=h))
        assert CATALOG not in tags() and TAG in tags(), tags()
        equal(h.repo("org/pkg").private, True)


@test
def a_listing_needs_performance_and_limitations():
    with hub() as h:
        for card, words in (({"performance": None, "limitations": "  "}, ("card.performance", "card.limitations")),
                            ({"performance": ""}, ("card.performance is",)), ({"limitations": None}, ("card.limitations is",))):
            folder = package(card=card)
            fails(gr00t("push", folder, "--publish", hub=h), 4, *words)
            equal(h.log(), [])
        done(gr00t("push", package(card={"performance": None}), hub=h))
        fails(gr00t("publish", "org/pkg", hub=h), 4, "card.performance is")
        equal(h.repo("org/pkg").private, True)


@test
def publish_and_unpublish_change_one_file_of_the_repository():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        before = h.files("org/pkg")
        run = done(gr00t("publish", "org/pkg", hub=h))
        contains(run.out, "org/pkg", "public now", "listed")
        equal(h.repo("org/pkg").private, False)
        after = h.files("org/pkg")
        equal([p for p in after if after[p] != before.get(p)], ["README.md"])
        contains(after["README.md"].decode(), f"- {CATALOG}\n", "license_name: nvidia-license", "A robot policy.")
        n = len(h.repo("org/pkg").log)
        contains(done(gr00t("publish", "org/pkg", hub=h)).out, "already")
        equal(len(h.repo("org/pkg").log), n)
        h.lose = {"commit": 1}
        contains(done(gr00t("unpublish", "org/pkg", hub=h)).out, "no longer", "stays public")
        equal(h.files("org/pkg"), before)
        contains(done(gr00t("unpublish", "org/pkg", hub=h)).out, "not in the catalog")
        fails(gr00t("publish", "org/none", hub=h), 3, "org/none")
        fails(gr00t("publish", "org/pkg@main", hub=h), 2, "ORG/NAME")


# ---- dry run and JSON ----

@test
def a_dry_run_writes_nothing():
    with hub() as h:
        folder = package()
        run = done(gr00t("push", folder, "--dry-run", hub=h))
        contains(run.out, "create", "org/pkg", "send", "code/gr00t/main.c", "nothing was written")
        equal({r["method"] for r in h.log()}, {"GET"})
        assert "org/pkg" not in h.hub.repos
        done(gr00t("push", folder, hub=h))
        h.add("org/pkg", "docs/notes.md", b"mine\n")
        h.add("org/pkg", "code/old.c", b"old\n")
        write(folder + "/requirements.lock", "2\n")
        head = h.repo("org/pkg").head
        h.faults()
        plan = json.loads(done(gr00t("push", folder, "--public", "--dry-run", "--json", hub=h)).out)
        steps = {(s["action"], s["path"]) for s in plan["steps"]}
        for want in (("replace", "requirements.lock"), ("unchanged", "README.md"), ("keep", "docs/notes.md"), ("delete", "code/old.c"),
                     ("public", "org/pkg")):
            assert want in steps, (want, steps)
        equal((plan["sent"], plan["deleted"], plan["commit"], plan["dry_run"]), (1, 1, None, True))
        equal({r["method"] for r in h.log()}, {"GET"})
        equal((h.repo("org/pkg").head, h.repo("org/pkg").private), (head, True))


@test
def a_dry_run_marks_what_is_replaced():
    with hub() as h:
        folder = package()
        contains(done(gr00t("push", folder, "--dry-run", hub=h)).out, "send")
        done(gr00t("push", folder, hub=h))
        h.add("org/pkg", "README.md", b"---\nlicense: mit\n---\nedited on the Hub\n")
        run = done(gr00t("push", folder, "--dry-run", hub=h))
        equal([x.split()[0] for x in run.out.splitlines() if x.endswith(" README.md")], ["replace"])
        contains(run.out, "1 to send")


@test
def gaps_of_a_card_are_named():
    with hub() as h:
        folder = package()
        assert "warning" not in done(gr00t("push", folder, "--dry-run", hub=h)).err
        write(folder + "/README.md", "---\ntags:\n- tt-model-cache\n---\n\n# x\n\nlicense: in the text\n")
        os.unlink(folder + "/LICENSE-NOTICE.md")
        run = done(gr00t("push", folder, "--dry-run", hub=h))
        contains(run.err, "no license;", "no pipeline_tag", "no base_model", "no LICENSE-NOTICE.md")
        assert "no tags" not in run.err


@test
def push_prints_json():
    with hub() as h:
        out = json.loads(done(gr00t("push", package(), "--json", hub=h)).out)
        equal((out["repo"], out["created"], out["private"], out["catalog"], out["deleted"]), ("org/pkg", True, True, False, 0))
        equal(out["commit"], h.repo("org/pkg").head)


# ---- search ----

@test
def search_finds_packages():
    with hub(tokens=False) as h:
        done(gr00t("push", package(), hub=h, token=None))
        done(gr00t("push", package(), "--repo", "org/second", "--publish", hub=h, token=None))
        write(h.hub.root + "/org/plain/README.md", "---\ntags:\n- robotics\n---\n")
        h.hub.scan("org/plain")
        rows = json.loads(done(gr00t("search", "--json", hub=h)).out)
        equal([r["id"] for r in rows], ["org/pkg", "org/second"])
        equal(sorted(rows[0]), ["downloads", "id", "last_modified", "private"])
        equal([r["private"] for r in rows], [True, False])
        equal([r["id"] for r in json.loads(done(gr00t("search", "SECOND", "--json", hub=h)).out)], ["org/second"])
        equal([r["id"] for r in json.loads(done(gr00t("search", "--catalog", "--json", hub=h)).out)], ["org/second"])
        equal(len(json.loads(done(gr00t("search", "--limit", "1", "--json", hub=h)).out)), 1)
        equal(json.loads(done(gr00t("search", "--arch", "wormhole_b0", "--json", hub=h)).out), [])
        equal(len(json.loads(done(gr00t("search", "--arch", "blackhole", "--json", hub=h)).out)), 2)
        contains(done(gr00t("search", hub=h)).out, "org/pkg", "private", "org/second")
        contains(done(gr00t("search", "nothing like it & more", hub=h)).out, "no packages found")
        fails(gr00t("search", "--limit", "0", hub=h), 2, "limit")


# ---- what was pulled ----

def install(home, rid="org/pkg", name="gr00t-n1.6-3b-native", weights=True, **card):
    """State as a pull leaves it."""
    state = home + "/.cache/tt-model"
    folder = make_package(os.path.join(fresh(), "p"), repo=rid, card=card)
    with open(folder + "/tt_kernel_manifest.json", encoding="utf-8") as f:
        m = json.load(f)
    m["name"] = name
    manifest = write(f"{state}/pulled/{rid.replace('/', '__')}/tt_kernel_manifest.json", json.dumps(m, indent=2) + "\n")
    listed = {}
    if os.path.exists(state + "/installed.json"):
        with open(state + "/installed.json", encoding="utf-8") as f:
            listed = json.load(f)
    commit = "1" * 40
    listed[rid] = {"repo_id": rid, "container": True, "image": "tt-model/x:1", "revision": commit, "manifest": manifest,
                   "arch": "blackhole", "image_digest": "sha256:" + "0" * 64, "image_loaded_id": None, "profile": "cpu",
                   "profiles": ["cpu", "p150"]}
    write(state + "/installed.json", json.dumps(listed))
    cache = home + "/.cache/huggingface/hub"
    shutil.copytree(folder, f"{cache}/models--{rid.replace('/', '--')}/snapshots/{commit}")
    if weights:
        write(f"{cache}/models--nvidia--GR00T-N1.6-3B/snapshots/{m['weights']['revision']}/config.json", "{}")
    write(f"{state}/{name}/cache/x", "kernels")
    write(f"{state}/{name}/root-0123456789ab/usr/bin/gr00t", "program")
    return manifest


@test
def list_shows_what_can_be_served():
    home = fresh()
    contains(done(gr00t("list", home=home)).out, "no packages pulled")
    equal(json.loads(done(gr00t("list", "--json", home=home)).out), [])
    install(home)
    run = done(gr00t("list", home=home))
    contains(run.out, "✓ ", "org/pkg", "blackhole")
    manifest = home + "/.cache/tt-model/pulled/org__pkg/tt_kernel_manifest.json"
    with open(manifest, encoding="utf-8") as f:
        m = json.load(f)
    m["auxiliary_weights"] = [{"repo_id": "org/extra", "revision": "2" * 40}]
    write(manifest, json.dumps(m))
    contains(done(gr00t("list", home=home)).out, "✗ ", "not all of its weights", "--with-weights")
    write(f"{home}/.cache/huggingface/hub/models--org--extra/snapshots/{'2' * 40}/x", "x")
    contains(done(gr00t("list", home=home)).out, "✓ ")
    shutil.rmtree(home + "/.cache/huggingface/hub/models--nvidia--GR00T-N1.6-3B")
    contains(done(gr00t("list", home=home)).out, "✗ ", "no weights", "--with-weights")
    shutil.rmtree(home + "/.cache/huggingface/hub/models--org--pkg")
    rows = json.loads(done(gr00t("list", "--json", home=home)).out)
    equal((rows[0]["id"], rows[0]["can_serve"]), ("org/pkg", False))
    contains(rows[0]["missing"], "not complete")
    write(home + "/.cache/tt-model/installed.json", "{")
    fails(gr00t("list", home=home), 4, "installed.json")


@test
def info_prints_the_manifest_and_a_verdict():
    home = fresh()
    manifest = install(home)
    with open(manifest, encoding="utf-8") as f:
        text = f.read()
    for target in ("org/pkg", manifest, os.path.dirname(manifest)):
        run = done(gr00t("info", target, home=home))
        assert run.out.startswith(text + "\n"), run.out[-200:]
        contains(run.out[len(text):], "✗ cannot be served yet with profile cpu", "no tokenizer", "gr00t pull --tokenizer")
    tokenizer = home + "/.cache/huggingface/hub/models--Qwen--Qwen3-1.7B"
    write(tokenizer + "/refs/main", "c" * 40)
    for name in ("vocab.json", "merges.txt"):
        write(f"{tokenizer}/snapshots/{'c' * 40}/{name}", "{}")
    contains(done(gr00t("info", "org/pkg", home=home)).out, "✓ can be served here with profile cpu")
    run = fails(gr00t("info", "org/pkg", "--arch", "wormhole_b0", home=home), 4, "made for blackhole")
    contains(run.out, "✗ made for blackhole")
    done(gr00t("info", "org/pkg", "--arch", "blackhole", home=home))
    yaml = write(home + "/tt-model.yaml", "schema: '5.1'\n")
    fails(gr00t("info", yaml, home=home), 2, "gr00t package", "gr00t serve")
    fails(gr00t("info", "no-such-thing", home=home), 2, "no-such-thing")


@test
def info_asks_the_hub_for_what_was_not_pulled():
    with hub() as h:
        folder = package()
        done(gr00t("push", folder, hub=h))
        home = fresh()
        with open(folder + "/tt_kernel_manifest.json", encoding="utf-8") as f:
            text = f.read()
        assert done(gr00t("info", "org/pkg", hub=h, home=home)).out.startswith(text)
        assert done(gr00t("info", "org/pkg@" + h.repo("org/pkg").head, hub=h, home=home)).out.startswith(text)
        contains(done(gr00t("profiles", "org/pkg", hub=h, home=home)).out, "cpu", "p150")
        write(h.hub.root + "/org/plain/README.md", "hello\n")
        h.hub.scan("org/plain")
        fails(gr00t("info", "org/plain", hub=h, home=home), 4, "no package")
        fails(gr00t("info", "org/none", hub=h, home=home), 3, "org/none")


@test
def profiles_marks_the_default():
    home = fresh()
    install(home)
    lines = done(gr00t("profiles", "org/pkg", home=home)).out.splitlines()
    equal([x.split()[:2] for x in lines], [["PROFILE", "HARDWARE"], ["*", "cpu"], ["p150", "p150"]])
    rows = json.loads(done(gr00t("profiles", "org/pkg", "--json", home=home)).out)
    equal([(r["name"], r["default"], r["chips"]) for r in rows], [("cpu", True, 1), ("p150", False, 1)])


@test
def rm_undoes_a_pull():
    home = fresh()
    state, cache = home + "/.cache/tt-model", home + "/.cache/huggingface/hub"
    install(home)
    install(home, rid="org/other", name="other")
    fails(gr00t("rm", "org/none", home=home), 3, "was not pulled")
    fails(gr00t("rm", home=home), 2, "missing")
    fails(gr00t("rm", "--all", home=home), 2, "-y")
    run = done(gr00t("rm", "org/pkg", "--include-weights", home=home))
    contains(run.out, "org/pkg removed", "org/other uses them")
    for gone in (state + "/gr00t-n1.6-3b-native", state + "/pulled/org__pkg", cache + "/models--org--pkg"):
        assert not os.path.exists(gone), gone
    assert os.path.exists(cache + "/models--nvidia--GR00T-N1.6-3B")
    with open(state + "/installed.json", encoding="utf-8") as f:
        equal(list(json.load(f)), ["org/other"])
    done(gr00t("rm", "org/other", "--keep-cache", home=home))
    assert not os.path.exists(state + "/other/root-0123456789ab")
    assert os.path.exists(state + "/other/cache/x") and os.path.exists(cache + "/models--nvidia--GR00T-N1.6-3B")
    install(home)
    install(home, rid="org/other", name="other")
    done(gr00t("rm", "--all", "-y", "--include-weights", home=home))
    assert not os.path.exists(cache + "/models--nvidia--GR00T-N1.6-3B")
    contains(done(gr00t("list", home=home)).out, "no packages pulled")


def cached(home, rid, commit, files, ref=None):
    """A snapshot in the Hub cache, as its clients lay it out."""
    model = f"{home}/.cache/huggingface/hub/models--{rid.replace('/', '--')}"
    for name, data in files.items():
        oid = hashlib.sha256(data).hexdigest()
        write(f"{model}/blobs/{oid}", data)
        path = f"{model}/snapshots/{commit}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink("../" * (2 + name.count("/")) + "blobs/" + oid, path)
    write(f"{model}/trees/{commit}.json", "{}")
    if ref:
        write(f"{model}/refs/{ref}", commit)
    return model


@test
def rm_removes_a_snapshot_and_what_it_alone_links_to():
    home, old, new = fresh(), "a" * 40, "b" * 40
    model = cached(home, "org/weights", old, {"config.json": b"old", "sub/same.bin": b"same"}, "v1")
    cached(home, "org/weights", new, {"config.json": b"new", "sub/same.bin": b"same"}, "main")
    before = sorted(tree(model))
    run = done(gr00t("rm", "org/weights@v1", "--dry-run", home=home))
    contains(run.out, "would remove snapshot", f"snapshots/{old}", "1 files, 3 B")
    contains(done(gr00t("rm", "org/weights", "--dry-run", home=home)).out, "would remove", "2 snapshots, 3 files, 10 B")
    equal(sorted(tree(model)), before)
    contains(done(gr00t("rm", "org/weights@v1", home=home)).out, "removed snapshot", "1 files, 3 B")
    equal(sorted(os.listdir(model + "/snapshots")), [new])
    equal(os.listdir(model + "/refs"), ["main"])
    equal(os.listdir(model + "/trees"), [new + ".json"])
    left = {name: open(f"{model}/snapshots/{new}/{name}", "rb").read() for name in ("config.json", "sub/same.bin")}
    equal(left, {"config.json": b"new", "sub/same.bin": b"same"})
    equal(len(os.listdir(model + "/blobs")), 2)
    fails(gr00t("rm", "org/weights@v1", home=home), 3, "not in the Hub cache", f"org/weights@{new}")
    fails(gr00t("rm", "org/weights@" + old, home=home), 3, "was not pulled")
    contains(done(gr00t("rm", "org/weights@main", home=home)).out, "removed snapshot")
    assert not os.path.exists(model)
    fails(gr00t("rm", "org/weights@../x", home=home), 2, "no commit")


@test
def rm_of_weights_in_use_asks_first():
    home, other = fresh(), "c" * 40
    install(home)
    model = cached(home, "nvidia/GR00T-N1.6-3B", other, {"x": b"x"})
    fails(gr00t("rm", "nvidia/GR00T-N1.6-3B", home=home), 2, "org/pkg serves with", "-y")
    assert os.path.exists(model + "/snapshots/" + other)
    contains(done(gr00t("rm", "nvidia/GR00T-N1.6-3B", "--dry-run", home=home)).err, "org/pkg serves with")
    done(gr00t("rm", "nvidia/GR00T-N1.6-3B@" + other, home=home))  # no package serves with that revision
    assert os.path.exists(model) and not os.path.exists(model + "/snapshots/" + other)
    done(gr00t("rm", "nvidia/GR00T-N1.6-3B", "-y", home=home))
    assert not os.path.exists(model)


@test
def rm_of_a_repository_behind_a_link_says_that_it_stays():
    home = fresh()
    model = cached(home, "org/weights", "a" * 40, {"x": b"x"})
    elsewhere = home + "/shared"
    os.rename(model, elsewhere)
    os.symlink(elsewhere, model)
    contains(done(gr00t("rm", "org/weights", "--dry-run", home=home)).out, "would remove snapshot", "a link: what it leads to stays")
    contains(done(gr00t("rm", "org/weights", home=home)).out, "removed snapshot", "a link: what it leads to stays")
    assert not os.path.lexists(model) and os.path.exists(elsewhere + "/snapshots/" + "a" * 40 + "/x")


@test
def rm_refuses_what_is_being_pulled():
    home = fresh()
    model = cached(home, "org/weights", "a" * 40, {"x": b"x"})
    oid = "d" * 64
    write(f"{model}/blobs/{oid}.incomplete", b"y")
    lock = write(f"{home}/.cache/huggingface/hub/.locks/models--org--weights/{oid}.lock", b"")
    with open(lock, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        fails(gr00t("rm", "org/weights", home=home), 7, "is being pulled")
    done(gr00t("rm", "org/weights", home=home))
    assert not os.path.exists(model)


@test
def rm_of_a_package_at_its_revision_and_of_another_one():
    home = fresh()
    state, model = home + "/.cache/tt-model", home + "/.cache/huggingface/hub/models--org--pkg"
    install(home)
    cached(home, "org/pkg", "e" * 40, {"x": b"x"}, "old")
    write(model + "/refs/main", "1" * 40)
    done(gr00t("rm", "org/pkg@old", home=home))
    assert os.path.exists(state + "/pulled/org__pkg") and os.listdir(model + "/snapshots") == ["1" * 40]
    listed = open(state + "/installed.json", encoding="utf-8").read()
    contains(done(gr00t("rm", "org/pkg@main", "--dry-run", home=home)).out, "would remove cache", "would remove package", "would remove manifest")
    equal(open(state + "/installed.json", encoding="utf-8").read(), listed)
    assert os.path.exists(state + "/gr00t-n1.6-3b-native/cache/x") and os.path.exists(model)
    contains(done(gr00t("rm", "org/pkg@main", home=home)).out, "org/pkg removed")
    assert not os.path.exists(state + "/pulled/org__pkg") and not os.path.exists(model)


@test
def rm_keeps_what_a_package_of_the_same_name_uses():
    home = fresh()
    mine = home + "/.cache/tt-model/gr00t-n1.6-3b-native"
    install(home)
    install(home, rid="fork/pkg")
    contains(done(gr00t("rm", "org/pkg", home=home)).out, "stay: fork/pkg has the same name")
    assert os.path.exists(mine + "/cache/x") and os.path.exists(mine + "/root-0123456789ab")
    done(gr00t("rm", "fork/pkg", home=home))
    assert not os.path.exists(mine)


@test
def rm_makes_no_path_of_a_foreign_name():
    home = fresh()
    keep = write(home + "/.cache/precious", "x")
    manifest = install(home, name="../..")
    with open(home + "/.cache/tt-model/installed.json", encoding="utf-8") as f:
        listed = json.load(f)
    listed["../../.."] = dict(listed["org/pkg"], repo_id="../../..", manifest=manifest)
    write(home + "/.cache/tt-model/installed.json", json.dumps(listed))
    gr00t("rm", "--all", "-y", home=home)
    assert os.path.exists(keep)


@test
def rm_leaves_the_tools_own_folders():
    home = fresh()
    state = home + "/.cache/tt-model"
    install(home, name="run")
    install(home, rid="org/other", name="other")
    keep = write(state + "/run/tt-model-x-cpu.log", "log\n")
    done(gr00t("rm", "org/pkg", home=home))
    assert os.path.exists(keep) and os.path.exists(state + "/pulled/org__other") and not os.path.exists(state + "/run/cache")


@test
def rm_refuses_what_is_being_served():
    home = fresh()
    install(home)
    with open("/proc/self/stat", encoding="utf-8") as f:
        start = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as f:
        boot = f.read().strip()
    name = "tt-model-gr00t-n1.6-3b-native-cpu"
    write(f"{home}/.cache/tt-model/run/{name}.json", json.dumps(
        {"name": name, "target": "org/pkg", "package": "gr00t-n1.6-3b-native", "profile": "cpu", "engine": "native", "pid": os.getpid(),
         "start": start, "boot": boot, "port": 20000, "cards": False, "image": "", "log": "/tmp/x.log", "url": "http://127.0.0.1:20000"}))
    fails(gr00t("rm", "org/pkg", home=home), 7, "being served", "gr00t stop")
    assert os.path.exists(home + "/.cache/tt-model/pulled/org__pkg")


# ---- login ----

def token_file(home):
    return home + "/.cache/huggingface/token"


@test
def login_keeps_a_token_that_the_hub_knows():
    with hub() as h:
        home = fresh()
        secret = write(home + "/t", f"  {WRITE}\n")
        run = done(gr00t("login", "--token-file", secret, hub=h, token=None, home=home))
        contains(run.out, "logged in as org", token_file(home))
        with open(token_file(home), encoding="ascii") as f:
            equal(f.read(), WRITE)
        equal(stat.S_IMODE(os.stat(token_file(home)).st_mode), 0o600)
        done(gr00t("push", package(), hub=h, token=None, home=home))
        os.chmod(token_file(home), 0o644)
        contains(done(gr00t("login", stdin=(READ + "\n").encode(), hub=h, token=None, home=home)).out, "reader")
        equal(stat.S_IMODE(os.stat(token_file(home)).st_mode), 0o600)
        with open(token_file(home), encoding="ascii") as f:
            equal(f.read(), READ)


@test
def login_refuses_what_is_no_token():
    with hub() as h:
        home = fresh()
        run = fails(gr00t("login", stdin=b"hf_unknown_token\n", hub=h, token=None, home=home), 6, "token")
        assert "hf_unknown" not in run.err
        for text in (b"", b"two words\n", b"\xff\xfe\n", b"x" * 5000):
            fails(gr00t("login", stdin=text, hub=h, token=None, home=home), 2, "standard input")
        assert not os.path.exists(token_file(home))
        fails(gr00t("login", "--token-file", home + "/none", hub=h, token=None, home=home), 3, "none")
        fails(gr00t("login", "--token", "x", "--token-file", "y", hub=h, token=None, home=home), 2, "exclude")


@test
def login_warns_about_a_token_on_the_command_line():
    with hub() as h:
        home = fresh()
        run = done(gr00t("login", "--token", WRITE, hub=h, token=None, home=home))
        contains(run.err, "warning", "can be seen")
        assert os.path.exists(token_file(home))


@test
def a_token_on_the_command_line_is_soon_out_of_the_process_list():
    with hub() as h:
        h.faults("stall:secs=300,path=whoami")
        p = subprocess.Popen([BIN, "login", "--token", WRITE], env=environment(hub=h, token=None, home=fresh()), stderr=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        contains(p.stderr.readline().decode(), "can be seen")
        until, seen = time.monotonic() + 60, WRITE.encode()
        while WRITE.encode() in seen and time.monotonic() < until:
            time.sleep(0.02)
            with open(f"/proc/{p.pid}/cmdline", "rb") as f:
                seen = f.read()
        p.kill()  # the hub does not answer for as long
        p.communicate(timeout=60)
        assert b"login" in seen and WRITE.encode() not in seen, seen


@test
def login_goes_where_the_environment_says():
    with hub() as h:
        home = fresh()
        for variable, value, path in (("HF_HOME", home + "/hf", home + "/hf/token"), ("HF_TOKEN_PATH", home + "/a/b", home + "/a/b")):
            env = environment(hub=h, token=None, home=home)
            env[variable] = value
            p = subprocess.run([BIN, "login"], env=env, input=WRITE.encode(), capture_output=True, timeout=60, check=False)
            equal(p.returncode, 0, p.stderr)
            equal(stat.S_IMODE(os.stat(path).st_mode), 0o600)


@test
def login_shows_nothing_of_what_is_typed():
    with hub() as h:
        env = environment(hub=h, token=None, home=fresh())
        pid, fd = pty.fork()
        if pid == 0:
            try:
                os.execve(BIN, [BIN, "login"], env)
            finally:
                os._exit(127)
        shown = b""
        while b"not shown" not in shown:
            shown += os.read(fd, 1000)
        until = time.monotonic() + 60
        while termios.tcgetattr(fd)[3] & termios.ECHO and time.monotonic() < until:
            time.sleep(0.01)
        os.write(fd, WRITE.encode() + b"\n")
        while True:
            try:
                piece = os.read(fd, 1000)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, shown)
        assert WRITE.encode() not in shown, shown
        contains(shown.decode("utf-8", "replace"), "logged in as org")


def main():
    global TMP
    TMP = tempfile.mkdtemp(prefix="gr00t-push-")
    try:
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
