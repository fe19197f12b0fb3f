/* SPDX-License-Identifier: Apache-2.0
 *
 * test_package_build.c: the parts of `package` that other commands use too or that read foreign files: the card's rewriting, digests of staged code,
 * dpkg's records, ELF headers. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "package/build.h"
#include "package/lock.h"
#include "package/root_elf.h"
#include "package/stage.h"
#include "package/tree.h"

/* ---- card ---- */

static void assert_rewrite(const char *before, const char *to, bool catalog, const char *want)
{
    struct gr_buf card = {0};
    struct gr_err err;
    gr_buf_puts(&card, before);
    gr_test_ok(gr_card_rewrite(&card, "a/b", to, catalog, &err), &err);
    assert_string_equal(card.data != NULL ? card.data : "", want);
    gr_test_ok(gr_card_rewrite(&card, "a/b", to, catalog, &err), &err); /* twice is once, unless the name stays */
    assert_string_equal(card.data != NULL ? card.data : "", want);
    gr_buf_free(&card);
}

static void the_card_changes_its_command_lines_only(void **state)
{
    (void)state;
    assert_rewrite(
        "# a/b\ntt model pull a/b\ntt serve a/b\ntt-model pull  a/b --with-weights\ntt-model serve a/b --port 1\n"
        "see a/b\ntt serve a/bc\n  tt serve a/b\ngr00t pull  a/b\ngr00t serve a/b\ngr00t curl a/b\n",
        "c/d", false,
        "# a/b\ntt model pull c/d\ntt serve c/d\ntt-model pull  c/d --with-weights\ntt-model serve c/d --port 1\n"
        "see a/b\ntt serve a/bc\n  tt serve a/b\ngr00t pull  c/d\ngr00t serve c/d\ngr00t curl a/b\n");
}

static void the_catalog_tag_comes_and_goes_in_the_front_matter(void **state)
{
    (void)state;
    static const char without[] =
        "---\nlicense: mit\ntags:\n- p150\n- tt-model-cache\n- tt-model-container\nx: y\n---\n# n\n"
        "- tt-model-catalog\n";
    static const char with[] = "---\nlicense: mit\ntags:\n- p150\n- tt-model-cache\n- tt-model-catalog\n"
                               "- tt-model-container\nx: y\n---\n# n\n- tt-model-catalog\n";
    assert_rewrite(without, "a/b", true, with);
    assert_rewrite(with, "a/b", true, with);
    assert_rewrite(with, "a/b", false, without);
    assert_rewrite(without, "a/b", false, without);
    /* last in the list, no list, no front matter, nothing at all */
    assert_rewrite("---\ntags:\n- a\n---\n", "a/b", true, "---\ntags:\n- a\n- tt-model-catalog\n---\n");
    assert_rewrite("---\nx: y\n---\n# n\n", "a/b", true, "---\nx: y\ntags:\n- tt-model-catalog\n---\n# n\n");
    assert_rewrite("# n\n", "a/b", true, "---\ntags:\n- tt-model-catalog\n---\n# n\n");
    assert_rewrite("", "a/b", false, "");
}

/* ---- staging ---- */

static void names_that_never_ship_are_known(void **state)
{
    (void)state;
    static const char *const dropped[] = {"__pycache__", "a.pyc",  ".pytest_cache", "x.egg-info",    ".venv",
                                          "venv",        "logs",   "a.log",         "w.safetensors", "w.pt",
                                          "w.pth",       "w.ckpt", "w.bin",         "w.refpt"};
    static const char *const kept[] = {"a.py", "log", "logs2", "bin", "w.bin.gz", "pt", "a.logs", "venv.txt"};
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        assert_true(gr_stage_drops(dropped[i]));
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_false(gr_stage_drops(kept[i]));
    }
}

static void code_is_digested_in_path_order(void **state)
{
    (void)state;
    char hex[65], want[65];
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    assert_int_equal(mkdir(gr_test_join(dir, "a"), 0755), 0);
    assert_int_equal(mkdir(gr_test_join(dir, "a-b"), 0755), 0);
    gr_test_write(gr_test_join(dir, "a-b/y"), "2", 1);
    gr_test_write(gr_test_join(dir, "a/x"), "1", 1); /* part by part "a" stands before "a-b"; by bytes it would not */
    gr_test_write(gr_test_join(dir, "b"), "", 0);
    gr_test_ok(gr_stage_digest(dir, hex, &err), &err);
    gr_test_sha256("a/x1a-b/y2b", 11, want);
    assert_string_equal(hex, want);
    assert_true(gr_tree_compare("a/x", "a-b/y") < 0);
    assert_true(gr_tree_compare("a", "a/x") < 0);
    assert_int_equal(gr_tree_compare("a", "a"), 0);
}

static void removal_never_follows_a_link(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir(), *outside = gr_test_temp_dir();
    char link[4096];
    gr_test_write(gr_test_join(outside, "kept"), "k", 1);
    assert_int_equal(mkdir(gr_test_join(dir, "t"), 0755), 0);
    snprintf(link, sizeof link, "%s/t/link", dir);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(mkdir(gr_test_join(dir, "t/locked"), 0755), 0);
    gr_test_write(gr_test_join(dir, "t/locked/file"), "x", 1);
    assert_int_equal(chmod(gr_test_join(dir, "t/locked"), 0), 0);
    gr_test_ok(gr_tree_remove(gr_test_join(dir, "t"), &err), &err);
    assert_false(gr_test_exists(gr_test_join(dir, "t")));
    assert_true(gr_test_exists(gr_test_join(outside, "kept")));
    gr_test_ok(gr_tree_remove(gr_test_join(dir, "t"), &err), &err); /* absent is fine */
}

/* ---- origins ---- */

static void a_file_is_traced_to_package_and_version(void **state)
{
    (void)state;
    static const char status[] =
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: i386\nVersion: 9\n\n"
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:1.2-3\n"
        "Description: Version: 7\n\nPackage: other\nArchitecture: all\nVersion: 2";
    struct gr_err err;
    struct gr_buf text = {0};
    const char *dpkg = gr_test_temp_dir();
    char own[4096];
    snprintf(own, sizeof own, "%s/own.so.1", dpkg);
    gr_test_write(own, "abc", 3);
    assert_int_equal(mkdir(gr_test_join(dpkg, "info"), 0755), 0);
    gr_test_write(gr_test_join(dpkg, "status"), status, strlen(status));
    gr_test_write(gr_test_join(dpkg, "info/zlib1g:amd64.list"), "/.\n/lib/x/libz.so.1.2\n/lib/x/libz.so\n", 37);
    gr_test_write(gr_test_join(dpkg, "info/other.list"), "/usr/share/x/y\n/usr/share/x", 27);
    struct gr_owner owners[] = {
        {.path = "/usr/lib/x/libz.so.1.2"}, {.path = "/usr/share/x/y"}, {.path = own}, {.path = "/lib/x/libz.so"}};
    gr_test_ok(gr_lock_owners(dpkg, owners, 4, &err), &err);
    assert_string_equal(owners[0].package, "zlib1g");
    assert_string_equal(owners[0].version, "1:1.2-3");
    assert_string_equal(owners[2].package, "");
    const char *extra = "gr00t==1";
    gr_test_ok(gr_lock_text(owners, 4, &extra, 1, &text, &err), &err);
    assert_string_equal(text.data, "gr00t==1\nother==2\n"
                                   "own.so.1==sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
                                   "zlib1g==1:1.2-3\n");
    gr_buf_free(&text);
    owners[0] = (struct gr_owner){.path = own};
    gr_test_ok(gr_lock_owners("/nonexistent-dpkg", owners, 1, &err), &err); /* another distribution */
    assert_string_equal(owners[0].package, "");
}

/* ---- ELF ---- */

static void this_program_and_its_libraries_are_found(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_libraries libs;
    gr_test_ok(gr_libraries_find("/proc/self/exe", &libs, &err), &err);
    bool libc = false;
    assert_true(libs.loader[0] == '/');
    assert_true(libs.folder[0] == '/');
    for (int i = 0; i < libs.n; i++) {
        assert_true(gr_test_exists(libs.items[i].path));
        libc = libc || strcmp(libs.items[i].name, "libc.so.6") == 0;
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(libs.items[i].name, libs.items[k].name);
        }
    }
    assert_true(libc);
    gr_libraries_free(&libs);
}

static void a_damaged_program_file_is_refused_and_never_read_past_its_end(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_elf *elf = malloc(sizeof *elf);
    size_t n;
    const char *path = gr_test_join(gr_test_temp_dir(), "elf");
    uint8_t *good = gr_test_read("/bin/true", &n);
    assert_non_null(elf);
    gr_test_ok(gr_elf_read("/bin/true", elf, &err), &err);
    assert_int_equal(elf->n_needed >= 1, 1);
    gr_test_write(path, "#!/bin/sh\n", 10);
    gr_test_fails(gr_elf_read(path, elf, &err), &err, GR_ERR_FORMAT, "no 64-bit program");
    for (size_t cut = 0; cut < n;
         cut += cut < 2048 ? 13 : 1021) { /* the address sanitizer and the mapping's end watch */
        gr_test_write(path, good, cut);
        (void)gr_elf_read(path, elf, &err);
    }
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        uint8_t *bad = malloc(n);
        assert_non_null(bad);
        memcpy(bad, good, n);
        for (int k = 0; k < 8; k++) { /* headers and dynamic section: where the offsets are */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const size_t at = (seed >> 33) % (k % 2 == 0 ? 1024 : n);
            bad[at] = (uint8_t)(seed >> 24);
        }
        gr_test_write(path, bad, n);
        (void)gr_elf_read(path, elf, &err);
        free(bad);
    }
    free(good);
    free(elf);
}

/* Several makers in one folder: none may take another's new folder for one that a dead run left. */
static void makers_of_temporary_folders_leave_each_other_alone(void **state)
{
    (void)state;
    enum { MAKERS = 4, ROUNDS = 300 };
    const char *dir = gr_test_temp_dir();
    pid_t children[MAKERS];
    for (int i = 0; i < MAKERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            bool good = true;
            for (int k = 0; k < ROUNDS && good; k++) {
                struct gr_tree_temp t;
                struct gr_err err;
                good = gr_tree_temp_make(dir, "pack", "kind", &t, &err) == GR_OK && access(t.path, F_OK) == 0;
                gr_tree_temp_drop(&t);
            }
            _exit(good ? 0 : 1);
        }
    }
    int bad = 0;
    for (int i = 0; i < MAKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        bad += status != 0;
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_card_changes_its_command_lines_only),
        cmocka_unit_test(the_catalog_tag_comes_and_goes_in_the_front_matter),
        cmocka_unit_test(names_that_never_ship_are_known),
        cmocka_unit_test(code_is_digested_in_path_order),
        cmocka_unit_test(removal_never_follows_a_link),
        cmocka_unit_test(makers_of_temporary_folders_leave_each_other_alone),
        cmocka_unit_test(a_file_is_traced_to_package_and_version),
        cmocka_unit_test(this_program_and_its_libraries_are_found),
        cmocka_unit_test(a_damaged_program_file_is_refused_and_never_read_past_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
