/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_layer.c: any bytes as the only layer of an image (the rest of the layout is right), unpacked. Nothing may appear outside of the root,
 * and a layer that is refused leaves nothing behind. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/fs.h"
#include "package/oci.h"
#include "package/tree.h"

static char top[256];

static void clean(void)
{
    struct gr_err ignored;
    (void)gr_tree_remove(top, &ignored);
}

static void put(const char *name, const void *data, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/l/%s", top, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || (n > 0 && fwrite(data, 1, n, f) != n) || fclose(f) != 0) {
        abort();
    }
}

static void put_blob(const void *data, size_t n, char hex[GR_DIGEST_HEX_BYTES])
{
    char name[128];
    struct gr_digest *d;
    struct gr_err err;
    if (gr_digest_new(GR_SHA256, &d, &err) != GR_OK) {
        abort();
    }
    gr_digest_add(d, data, n);
    if (gr_digest_end(d, hex, &err) != GR_OK) {
        abort();
    }
    snprintf(name, sizeof name, "blobs/sha256/%s", hex);
    put(name, data, n);
}

static void make_layout(const uint8_t *data, size_t size)
{
    char layer[GR_DIGEST_HEX_BYTES], config[GR_DIGEST_HEX_BYTES], manifest[GR_DIGEST_HEX_BYTES];
    struct gr_buf text = {0};
    put_blob(data, size, layer);
    gr_buf_printf(&text, "{\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}", layer);
    put_blob(text.data, text.len, config);
    const size_t n_config = text.len;
    text.len = 0;
    gr_buf_printf(&text,
                  "{\"config\":{\"digest\":\"sha256:%s\",\"size\":%zu},"
                  "\"layers\":[{\"mediaType\":\"layer.tar\",\"digest\":\"sha256:%s\",\"size\":%zu}]}",
                  config, n_config, layer, size);
    put_blob(text.data, text.len, manifest);
    const size_t n_manifest = text.len;
    text.len = 0;
    gr_buf_printf(&text, "{\"manifests\":[{\"mediaType\":\"image.manifest\",\"digest\":\"sha256:%s\",\"size\":%zu}]}",
                  manifest, n_manifest);
    put("index.json", text.data, text.len);
    put("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
    gr_buf_free(&text);
}

static int count(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (d == NULL) {
        abort();
    }
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[512], root[512];
    struct gr_err err = {0}, ignored;
    struct gr_oci_image image;
    if (top[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        snprintf(top, sizeof top, "%.200s/gr00t-fuzz-XXXXXX", tmp != NULL ? tmp : "/tmp");
        if (mkdtemp(top) == NULL) {
            abort();
        }
        atexit(clean);
    }
    snprintf(path, sizeof path, "%s/l/blobs/sha256", top);
    if (gr_fs_mkdirs(path, &err) != GR_OK) {
        abort();
    }
    make_layout(data, size);
    snprintf(path, sizeof path, "%s/l", top);
    snprintf(root, sizeof root, "%s/root", top);
    const enum gr_status status = gr_oci_unpack(path, root, &image, &err);
    const bool there = access(root, F_OK) == 0;
    if (there != (status == GR_OK) || (status != GR_OK && err.msg[0] == '\0') || count(top) != 3 + there) {
        abort(); /* ".", "..", the layout, and the root */
    }
    (void)gr_tree_remove(root, &ignored);
    (void)gr_tree_remove(path, &ignored);
    return 0;
}
