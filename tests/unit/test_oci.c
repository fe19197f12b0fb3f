/* SPDX-License-Identifier: Apache-2.0
 *
 * test_oci.c: images on disk: written reproducibly, every damage found, and nothing unpacked outside. Hostile layers come from a tar writer of
 * the test's own, so that reader and writer cannot share a mistake. */
#include "gr_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "package/oci.h"

/* ---- a tar and a layout of our own ---- */

static void tar_add(struct gr_buf *b, const char *name, char type, const char *link, const char *content)
{
    static const char zeros[512];
    unsigned char h[512] = {0};
    const size_t n = content != NULL ? strlen(content) : 0;
    memcpy(h, name, strlen(name));
    snprintf((char *)h + 100, 8, "%07o", type == '5' ? 0755 : 0644);
    snprintf((char *)h + 108, 8, "%07o", 0);
    snprintf((char *)h + 116, 8, "%07o", 0);
    snprintf((char *)h + 124, 12, "%011o", (unsigned)n & 07777777);
    snprintf((char *)h + 136, 12, "%011o", 0);
    memset(h + 148, ' ', 8);
    h[156] = (unsigned char)type;
    if (link != NULL) {
        memcpy(h + 157, link, strlen(link));
    }
    memcpy(h + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += h[i];
    }
    snprintf((char *)h + 148, 8, "%06o", sum);
    gr_buf_put(b, h, sizeof h);
    gr_buf_put(b, content, n);
    gr_buf_put(b, zeros, (512 - n % 512) % 512);
}

static void tar_end(struct gr_buf *b)
{
    static const char zeros[1024];
    gr_buf_put(b, zeros, sizeof zeros);
    assert_false(b->failed);
}

static void write_blob(const char *dir, const void *bytes, size_t n, char hex[65])
{
    gr_test_sha256(bytes, n, hex);
    gr_test_write(gr_test_join(dir, "blobs/sha256/%s", hex), bytes, n);
}

/* A layout with these tars as plain layers; diff: a wrong diff_id for the first one, or NULL. */
static const char *layout_of(struct gr_buf *tars, int n, const char *diff)
{
    const char *dir = gr_test_temp_dir();
    struct gr_buf layers = {0}, diffs = {0}, text = {0};
    char hex[65];
    assert_int_equal(mkdir(gr_test_join(dir, "blobs"), 0755), 0);
    assert_int_equal(mkdir(gr_test_join(dir, "blobs/sha256"), 0755), 0);
    for (int i = 0; i < n; i++) {
        tar_end(&tars[i]);
        write_blob(dir, tars[i].data, tars[i].len, hex);
        gr_buf_printf(
            &layers,
            "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:%s\",\"size\":%zu}",
            i > 0 ? "," : "", hex, tars[i].len);
        gr_buf_printf(&diffs, "%s\"sha256:%s\"", i > 0 ? "," : "", i == 0 && diff != NULL ? diff : hex);
        gr_buf_free(&tars[i]);
    }
    gr_buf_printf(&text,
                  "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Entrypoint\":[\"/bin/a\"]},"
                  "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[%s]}}",
                  diffs.data);
    write_blob(dir, text.data, text.len, hex);
    struct gr_buf manifest = {0};
    gr_buf_printf(&manifest, "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:%s\",\"size\":%zu},\"layers\":[%s]}",
                  hex, text.len, layers.data);
    write_blob(dir, manifest.data, manifest.len, hex);
    text.len = 0;
    gr_buf_printf(&text,
                  "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
                  "\"digest\":\"sha256:%s\",\"size\":%zu}]}",
                  hex, manifest.len);
    gr_test_write(gr_test_join(dir, "index.json"), text.data, text.len);
    gr_test_write(gr_test_join(dir, "oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
    gr_buf_free(&layers);
    gr_buf_free(&diffs);
    gr_buf_free(&text);
    gr_buf_free(&manifest);
    return dir;
}

/* Unpacks; the root is kept for a look, and must not exist after a failure. */
static enum gr_status unpack(const char *layout, const char **root, struct gr_err *err)
{
    struct gr_oci_image image;
    *root = gr_test_join(gr_test_temp_dir(), "root");
    const enum gr_status status = gr_oci_unpack(layout, *root, &image, err);
    struct stat st;
    assert_true((lstat(*root, &st) == 0) == (status == GR_OK));
    return status;
}

static void assert_text(const char *path, const char *want)
{
    size_t n;
    uint8_t *got = gr_test_read(path, &n);
    assert_string_equal((const char *)got, want);
    free(got);
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* ---- writing ---- */

static const char *write_sample(const char *parent, const char *name, struct gr_oci_image *image)
{
    static char source[4096];
    struct gr_err err;
    snprintf(source, sizeof source, "%s/source", parent);
    gr_test_write(source, "hello\n", 6);
    const struct gr_oci_entry lower[] = {{.path = "etc/b", .source = source, .mode = 0644},
                                         {.path = "tmp", .mode = 01777},
                                         {.path = "etc/a", .source = source, .mode = 0755}};
    const struct gr_oci_entry upper[] = {{.path = "usr/bin/link", .link = "program"},
                                         {.path = "usr/bin/program", .source = source, .mode = 0755}};
    const struct gr_oci_layer layers[] = {{lower, 3}, {upper, 2}};
    struct gr_env env[] = {{"HOME", "/home/tt"}}, labels[] = {{"z", "1"}, {"a", "2"}};
    static const char *entry[] = {"/usr/bin/program"}, *cmd[] = {"serve", "--port"};
    const struct gr_oci_config cfg = {.name = "sample",
                                      .env = env,
                                      .n_env = 1,
                                      .entrypoint = {entry, 1},
                                      .cmd = {cmd, 2},
                                      .user = "1000",
                                      .workdir = "/home/tt/work",
                                      .stop_signal = "SIGTERM",
                                      .labels = labels,
                                      .n_labels = 2,
                                      .port = 8000};
    const char *dir = gr_test_join(parent, "%s", name);
    gr_test_ok(gr_oci_write(dir, &cfg, layers, 2, image, &err), &err);
    return dir;
}

static void equal_trees_give_equal_digests_in_any_folder(void **state)
{
    (void)state;
    struct gr_oci_image a, b;
    write_sample(gr_test_temp_dir(), "one", &a);
    sleep(1); /* another second: no clock may leak into a layer */
    write_sample(gr_test_temp_dir(), "another-name", &b);
    assert_string_equal(a.manifest_digest, b.manifest_digest);
    assert_string_equal(a.config_digest, b.config_digest);
    assert_int_equal(a.n_layers, 2);
    assert_true(a.layer_bytes > 0);
}

static void what_was_written_checks_and_unpacks(void **state)
{
    (void)state;
    struct gr_oci_image written, read;
    struct gr_err err;
    struct gr_oci_run run;
    const char *root;
    const char *dir = write_sample(gr_test_temp_dir(), "image", &written);
    gr_test_ok(gr_oci_check(dir, &read, &err), &err);
    assert_string_equal(read.config_digest, written.config_digest);
    assert_string_equal(read.tag, written.tag);
    assert_int_equal(strncmp(read.tag, "tt-model/sample:", 16), 0);
    assert_int_equal(strlen(read.tag), 16 + 12);
    assert_int_equal(read.layer_bytes, written.layer_bytes);
    gr_test_ok(gr_oci_read_run(dir, &run, &err), &err);
    assert_int_equal(run.entrypoint.n, 1);
    assert_string_equal(run.entrypoint.items[0], "/usr/bin/program");
    assert_int_equal(run.cmd.n, 2);
    assert_string_equal(run.cmd.items[1], "--port");
    assert_string_equal(run.env.items[0], "HOME=/home/tt");
    assert_string_equal(run.user, "1000");
    assert_string_equal(run.stop_signal, "SIGTERM");
    gr_oci_run_free(&run);
    gr_test_ok(unpack(dir, &root, &err), &err);
    struct stat st;
    assert_text(gr_test_join(root, "etc/a"), "hello\n");
    assert_int_equal(stat(gr_test_join(root, "etc/a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(stat(gr_test_join(root, "tmp"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 01777);
    assert_text(gr_test_join(root, "usr/bin/link"), "hello\n");
}

static void a_layer_is_a_plain_tar_behind_a_bare_gzip_header(void **state)
{
    (void)state;
    struct gr_oci_image image;
    size_t n;
    const char *dir = write_sample(gr_test_temp_dir(), "image", &image);
    uint8_t *index = gr_test_read(gr_test_join(dir, "manifest.json"), &n);
    const char *layer = strstr(strstr((char *)index, "Layers"), "blobs/");
    assert_non_null(layer);
    uint8_t *gz = gr_test_read(gr_test_join(dir, "%.*s", (int)strcspn(layer, "\""), layer), &n);
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0};
    assert_true(n > 18);
    assert_memory_equal(gz, head, sizeof head); /* no name, no time */
    free(gz);
    free(index);
}

static void a_layout_is_not_written_over_another_or_with_bad_names(void **state)
{
    (void)state;
    struct gr_oci_image image;
    struct gr_err err;
    const char *dir = write_sample(gr_test_temp_dir(), "image", &image);
    struct gr_oci_entry entry = {.path = "a", .mode = 0755};
    const struct gr_oci_layer layer = {&entry, 1};
    const struct gr_oci_config cfg = {.name = "x"};
    gr_test_fails(gr_oci_write(dir, &cfg, &layer, 1, &image, &err), &err, GR_ERR_IO, "exists");
    const char *fresh = gr_test_join(gr_test_temp_dir(), "new");
    static const char *const bad[] = {"/a", "a/../b", "./a", "a//b", "a/", ".wh.a", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        entry.path = bad[i];
        gr_test_fails(gr_oci_write(fresh, &cfg, &layer, 1, &image, &err), &err, GR_ERR_INPUT, "name in an image");
        assert_false(there(fresh));
    }
    entry.path = "a";
    entry.source = "/nonexistent/file";
    gr_test_fails(gr_oci_write(fresh, &cfg, &layer, 1, &image, &err), &err, GR_ERR_INPUT, "/nonexistent/file");
    assert_false(there(fresh));
    const struct gr_oci_entry twice[] = {{.path = "a", .link = "b"}, {.path = "a", .link = "c"}};
    const struct gr_oci_layer two = {twice, 2};
    gr_test_fails(gr_oci_write(fresh, &cfg, &two, 1, &image, &err), &err, GR_ERR_INPUT, "twice");
}

static void the_stream_holds_every_file_once(void **state)
{
    (void)state;
    struct gr_oci_image image;
    struct gr_err err;
    size_t n;
    const char *parent = gr_test_temp_dir();
    const char *dir = write_sample(parent, "image", &image);
    const char *path = gr_test_join(parent, "out.tar");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    gr_test_ok(gr_oci_stream(dir, fd, &err), &err);
    close(fd);
    uint8_t *tar = gr_test_read(path, &n);
    int files = 0;
    char last[101] = "";
    for (size_t at = 0; at + 512 <= n && tar[at] != 0;) {
        char name[101] = "";
        memcpy(name, tar + at, 100);
        if (tar[at + 156] != '0' || strcmp(last, name) >= 0) {
            fail_msg("entry %s of type %c behind %s", name, tar[at + 156], last);
        }
        memcpy(last, name, sizeof last);
        files++;
        const size_t size = strtoul((char *)tar + at + 124, NULL, 8);
        at += 512 + (size + 511) / 512 * 512;
    }
    free(tar);
    assert_int_equal(files, 4 + 3); /* manifest, config, two layers; index.json, manifest.json, oci-layout */
}

/* ---- damage ---- */

static void damage_is_found(void **state)
{
    (void)state;
    struct gr_oci_image image;
    struct gr_err err;
    const char *parent = gr_test_temp_dir();
    const char *dir = write_sample(parent, "image", &image);
    char name[128];
    size_t n;
    const char *bad = gr_test_join(parent, "bad");
    uint8_t *archive = gr_test_read(gr_test_join(dir, "manifest.json"), NULL);
    const char *layer = strstr(strstr((char *)archive, "Layers"), "blobs/");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(layer, "\""), layer);
    free(archive);
    for (int kind = 0; kind < 5; kind++) {
        gr_test_copy_dir(dir, bad);
        const char *path = gr_test_join(bad, "%s", name);
        uint8_t *bytes = gr_test_read(path, &n);
        if (kind == 0) { /* each byte matters: one in the middle */
            bytes[n / 2] ^= 1;
            gr_test_write(path, bytes, n);
            gr_test_fails(gr_oci_check(bad, &image, &err), &err, GR_ERR_FORMAT, "damaged");
        } else if (kind == 1) {
            unlink(path);
            gr_test_fails(gr_oci_check(bad, &image, &err), &err, GR_ERR_FORMAT, "no such file");
        } else if (kind == 2) {
            gr_test_write(path, bytes, n - 1);
            gr_test_fails(gr_oci_check(bad, &image, &err), &err, GR_ERR_FORMAT, "descriptor says");
        } else if (kind == 3) {
            path = gr_test_join(bad, "blobs/sha256/%s", image.config_digest + 7);
            free(bytes);
            bytes = gr_test_read(path, &n);
            bytes[n / 2] ^= 1;
            gr_test_write(path, bytes, n);
            gr_test_fails(gr_oci_check(bad, &image, &err), &err, GR_ERR_FORMAT, "config is damaged");
        } else { /* what an older engine would load is not what was checked */
            gr_test_write(gr_test_join(bad, "manifest.json"), "[{\"Config\":\"x\",\"Layers\":[]}]", 28);
            gr_test_fails(gr_oci_check(bad, &image, &err), &err, GR_ERR_FORMAT, "other blobs");
        }
        const char *root;
        assert_int_not_equal(unpack(bad, &root, &err), GR_OK);
        free(bytes);
        gr_test_remove_dir(bad);
    }
}

static void documents_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index, *text;
    } cases[] = {
        {"{}", "0 manifests"},
        {"{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"digest\":\"sha256:0\"}]}",
         "expected one image's manifest"},
        {"{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":"
         "\"sha256:../../../../../etc/passwd\",\"size\":1}]}",
         "64 hex digits"},
        {"{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":"
         "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\",\"size\":-1}]}",
         "no count of bytes"},
        {"{\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":"
         "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\",\"size\":9999999999}]}",
         "more than the limit"},
        {"[", "index.json"},
    };
    struct gr_oci_image image;
    struct gr_err err;
    struct gr_buf tar = {0};
    tar_add(&tar, "a", '0', NULL, "x");
    const char *dir = layout_of(&tar, 1, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gr_test_write(gr_test_join(dir, "index.json"), cases[i].index, strlen(cases[i].index));
        gr_test_fails(gr_oci_check(dir, &image, &err), &err, GR_ERR_FORMAT, cases[i].text);
    }
    tar_add(&tar, "a", '0', NULL, "x");
    dir = layout_of(&tar, 1, "sha256:0000000000000000000000000000000000000000000000000000000000000000");
    gr_test_fails(gr_oci_check(dir, &image, &err), &err, GR_ERR_FORMAT, "diff_id");
    gr_test_fails(gr_oci_check(gr_test_temp_dir(), &image, &err), &err, GR_ERR_FORMAT, "oci-layout");
}

/* As tools that store an image under several names write it. */
static void one_manifest_under_two_names_is_one_image(void **state)
{
    (void)state;
    struct gr_oci_image image;
    struct gr_err err;
    struct gr_buf tar = {0}, text = {0};
    char *index;
    size_t n;
    tar_add(&tar, "a", '0', NULL, "x");
    const char *dir = layout_of(&tar, 1, NULL);
    assert_int_equal(gr_fs_read(gr_test_join(dir, "index.json"), 4096, &index, &n, &err), GR_OK);
    char *entry = strstr(index, "[{") + 1;
    *strrchr(entry, '}') = '\0'; /* of the whole; then of the list and the entry */
    *strrchr(entry, '}') = '\0';
    static const char name[] = "\"annotations\":{\"org.opencontainers.image.ref.name\":\"latest\"}}";
    gr_buf_printf(&text, "{\"schemaVersion\":2,\"manifests\":[%s,%s,%s,%s]}", entry, name, entry, name);
    gr_test_write(gr_test_join(dir, "index.json"), text.data, text.len);
    gr_test_ok(gr_oci_check(dir, &image, &err), &err);
    char *digest = strstr(strstr(text.data + text.len / 2, "sha256:"), ":"); /* of the second: another manifest */
    digest[1] = digest[1] == '0' ? '1' : '0';
    gr_test_write(gr_test_join(dir, "index.json"), text.data, text.len);
    gr_test_fails(gr_oci_check(dir, &image, &err), &err, GR_ERR_FORMAT, "2 of them called latest");
    free(index);
    gr_buf_free(&text);
}

/* ---- hostile layers ---- */

static void names_that_lead_outside_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *link;
        char type;
        const char *then; /* a file written after it */
        const char *text;
    } cases[] = {
        {"/etc/evil", NULL, '0', NULL, "is absolute"},
        {"../evil", NULL, '0', NULL, "leads out"},
        {"a/../../evil", NULL, '0', NULL, "leads out"},
        {"./../evil", NULL, '5', NULL, "leads out"},
        {"a", "../../evil", '2', NULL, "leads out"},
        {"a/b/c", "../../../x", '2', NULL, "leads out"},
        {"a", "/tmp", '2', "a/evil", "passes through a"},
        {"a", "b", '2', "a/evil", "passes through a"},
        {"a", "../../evil", '1', NULL, "leads out"},
        {"a", "/etc/passwd", '1', NULL, "is absolute"},
        {"a", "missing", '1', NULL, "no file of the image"},
        {"a", NULL, '3', NULL, "device"},
        {"a", NULL, '6', NULL, "device or a pipe"},
        {"a", NULL, '0', "a/b", "passes through a"},
        {"d/.wh...", NULL, '0', NULL, "whiteout"},
        {".wh.", NULL, '0', NULL, "whiteout"},
        {".wh..", NULL, '0', NULL, "whiteout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_buf tar = {0};
        struct gr_err err;
        const char *root;
        tar_add(&tar, "d/keep", '0', NULL, "k");
        tar_add(&tar, cases[i].name, cases[i].type, cases[i].link, NULL);
        if (cases[i].then != NULL) {
            tar_add(&tar, cases[i].then, '0', NULL, "evil");
        }
        struct gr_buf layers[2] = {{0}, tar};
        tar_add(&layers[0], "d/lower", '0', NULL, "k"); /* so that whiteouts have a folder to look into */
        gr_test_fails(unpack(layout_of(layers, 2, NULL), &root, &err), &err, GR_ERR_FORMAT, cases[i].text);
    }
    assert_false(there("/tmp/evil"));
}

static void a_link_into_a_lower_layer_is_not_followed(void **state)
{
    (void)state;
    struct gr_buf layers[2] = {{0}, {0}};
    struct gr_err err;
    const char *root, *outside = gr_test_temp_dir();
    tar_add(&layers[0], "a", '2', outside, NULL);
    tar_add(&layers[1], "a/evil", '0', NULL, "evil");
    gr_test_fails(unpack(layout_of(layers, 2, NULL), &root, &err), &err, GR_ERR_FORMAT, "passes through a");
    assert_false(there(gr_test_join(outside, "evil")));
    /* nor when the link is the target of a hard link, or removed through */
    tar_add(&layers[0], "a", '2', outside, NULL);
    gr_test_write(gr_test_join(outside, "kept"), "k", 1);
    tar_add(&layers[1], "b", '1', "a/kept", NULL);
    gr_test_fails(unpack(layout_of(layers, 2, NULL), &root, &err), &err, GR_ERR_FORMAT, "passes through a");
    tar_add(&layers[0], "a", '2', outside, NULL);
    tar_add(&layers[1], "a/.wh.kept", '0', NULL, NULL);
    gr_test_fails(unpack(layout_of(layers, 2, NULL), &root, &err), &err, GR_ERR_FORMAT, "passes through a");
    tar_add(&layers[0], "a", '2', outside, NULL);
    tar_add(&layers[1], "a/.wh..wh..opq", '0', NULL, NULL);
    gr_test_fails(unpack(layout_of(layers, 2, NULL), &root, &err), &err, GR_ERR_FORMAT, "passes through a");
    assert_true(there(gr_test_join(outside, "kept")));
}

static void a_file_over_a_link_replaces_the_link(void **state)
{
    (void)state;
    struct gr_buf layers[2] = {{0}, {0}};
    struct gr_err err;
    const char *root, *outside = gr_test_temp_dir();
    char target[4096];
    snprintf(target, sizeof target, "%s/file", outside);
    gr_test_write(target, "host", 4);
    tar_add(&layers[0], "a", '2', target, NULL);
    tar_add(&layers[0], "folder/deep/x", '0', NULL, "x");
    tar_add(&layers[1], "./a", '0', NULL, "image");
    tar_add(&layers[1], "folder", '0', NULL, "now a file");
    gr_test_ok(unpack(layout_of(layers, 2, NULL), &root, &err), &err);
    assert_text(gr_test_join(root, "a"), "image");
    assert_text(target, "host");
    assert_text(gr_test_join(root, "folder"), "now a file");
}

static void whiteouts_mean_the_layers_below(void **state)
{
    (void)state;
    struct gr_buf layers[2] = {{0}, {0}};
    struct gr_err err;
    const char *root;
    tar_add(&layers[0], "a/one", '0', NULL, "1");
    tar_add(&layers[0], "a/two", '0', NULL, "2");
    tar_add(&layers[0], "b/sub/old", '0', NULL, "o");
    tar_add(&layers[0], "b/old", '0', NULL, "o");
    tar_add(&layers[0], "c/d/e", '0', NULL, "e");
    tar_add(&layers[1], "a/.wh.one", '0', NULL, NULL);
    tar_add(&layers[1], "b/new", '0', NULL, "n"); /* stands before the mark, and stays */
    tar_add(&layers[1], "b/.wh..wh..opq", '0', NULL, NULL);
    tar_add(&layers[1], ".wh.c", '0', NULL, NULL);
    tar_add(&layers[1], "nowhere/.wh.x", '0', NULL, NULL);
    tar_add(&layers[1], "a/hard", '1', "a/two", NULL);
    gr_test_ok(unpack(layout_of(layers, 2, NULL), &root, &err), &err);
    assert_false(there(gr_test_join(root, "a/one")));
    assert_text(gr_test_join(root, "a/two"), "2");
    assert_text(gr_test_join(root, "a/hard"), "2");
    assert_false(there(gr_test_join(root, "b/old")));
    assert_false(there(gr_test_join(root, "b/sub")));
    assert_text(gr_test_join(root, "b/new"), "n");
    assert_false(there(gr_test_join(root, "c")));
    assert_false(there(gr_test_join(root, "a/.wh.one")));
}

static void rights_of_foreign_files_are_cut(void **state)
{
    (void)state;
    struct gr_buf tar = {0};
    struct gr_err err;
    struct stat st;
    const char *root;
    tar_add(&tar, "a", '0', NULL, "x");
    memcpy(tar.data + 100, "0006755", 7); /* set-uid and set-gid */
    memset(tar.data + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)tar.data[i];
    }
    snprintf(tar.data + 148, 8, "%06o", sum);
    gr_test_ok(unpack(layout_of(&tar, 1, NULL), &root, &err), &err);
    assert_int_equal(stat(gr_test_join(root, "a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
}

static void a_layer_cut_short_is_refused(void **state)
{
    (void)state;
    struct gr_buf tar = {0};
    struct gr_err err;
    const char *root;
    tar_add(&tar, "a", '0', NULL, "some content");
    tar.data[124 + 5] = '7'; /* the header promises more than the tar has */
    memset(tar.data + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)tar.data[i];
    }
    snprintf(tar.data + 148, 8, "%06o", sum);
    gr_test_fails(unpack(layout_of(&tar, 1, NULL), &root, &err), &err, GR_ERR_FORMAT, "damaged layer");
}

/* An entry of type 'S' (sparse, of GNU): no bytes in the layer, and any size on the disk. */
static void sparse(struct gr_buf *tar, const char *name, const char *octal_size)
{
    const size_t at = tar->len;
    tar_add(tar, name, 'S', NULL, NULL);
    char *h = tar->data + at;
    memcpy(h + 257, "ustar  ", 8);
    memset(h + 345, 0, 155);
    snprintf(h + 386, 12, "%s", octal_size); /* offset of the only piece: the end */
    snprintf(h + 398, 12, "%011o", 0);       /* its length */
    snprintf(h + 483, 12, "%s", octal_size); /* real size */
    memset(h + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)h[i];
    }
    snprintf(h + 148, 8, "%06o", sum);
}

static void a_layer_that_grows_without_bound_is_refused_before_it_is_written(void **state)
{
    (void)state;
    struct gr_buf tar = {0};
    struct gr_err err;
    const char *root;
    for (int i = 0; i < 13; i++) { /* 8 GiB each: 104 GiB out of 7 KB */
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        sparse(&tar, name, "77777777777");
    }
    gr_test_fails(unpack(layout_of(&tar, 1, NULL), &root, &err), &err, GR_ERR_FORMAT, "unpacks to more than");
}

static void names_without_end_are_refused_and_leave_nothing(void **state)
{
    (void)state;
    struct gr_buf tar = {0};
    struct gr_err err;
    struct stat st;
    const char *root;
    char name[512] = "", record[600];
    for (int i = 0; i < 101; i++) {
        strcat(name, "d/");
    }
    strcat(name, "f");
    snprintf(record, sizeof record, "%zu path=%s\n", strlen(name) + 10, name);
    assert_int_equal(strlen(record), strlen(name) + 10);
    tar_add(&tar, "x", 'x', NULL, record);
    tar_add(&tar, "short", '0', NULL, "text");
    gr_test_fails(unpack(layout_of(&tar, 1, NULL), &root, &err), &err, GR_ERR_FORMAT, "folders deep");
    assert_int_equal(lstat(root, &st), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_trees_give_equal_digests_in_any_folder),
        cmocka_unit_test(what_was_written_checks_and_unpacks),
        cmocka_unit_test(a_layer_is_a_plain_tar_behind_a_bare_gzip_header),
        cmocka_unit_test(a_layout_is_not_written_over_another_or_with_bad_names),
        cmocka_unit_test(the_stream_holds_every_file_once),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(documents_that_lie_are_refused),
        cmocka_unit_test(one_manifest_under_two_names_is_one_image),
        cmocka_unit_test(names_that_lead_outside_are_refused),
        cmocka_unit_test(a_link_into_a_lower_layer_is_not_followed),
        cmocka_unit_test(a_file_over_a_link_replaces_the_link),
        cmocka_unit_test(whiteouts_mean_the_layers_below),
        cmocka_unit_test(rights_of_foreign_files_are_cut),
        cmocka_unit_test(a_layer_cut_short_is_refused),
        cmocka_unit_test(a_layer_that_grows_without_bound_is_refused_before_it_is_written),
        cmocka_unit_test(names_without_end_are_refused_and_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
