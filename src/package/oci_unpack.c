/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_unpack.c: the root file system of a checked layout. Every name is walked part by part with descriptors that follow no link, so that
 * no
 * entry can be placed outside, whatever links a layer made before. Layer by layer: first its whiteouts, which mean the layers below, then
 * its files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "package/oci_layout.h"
#include "package/oci_tar.h"
#include "package/tree.h"

enum { BLOCK = 256 << 10, FOLDER_MODE = 0755, DEPTH_MAX = 100 }; /* tree.c removes what is twice as deep */
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct unpack {
    const char *layer; /* for messages */
    char where[GR_PATH_BYTES];
    int root;
    uint64_t bytes;
    long n_entries; /* folders made on the way included: a name may bring a hundred */
    char *block;
};

/* ---- names ---- */

/* Without "./" and slashes at the ends; "" is the root itself. */
static enum gr_status clean_name(const struct unpack *u, const char *name, const char *what, char out[GR_PATH_BYTES],
                                 struct gr_err *err)
{
    if (name[0] == '/') {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s %s is absolute", u->layer, what, name);
    }
    const int parts = gr_tree_clean(name, out);
    if (parts == -1) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s %s leads out of the image", u->layer, what, name);
    }
    if (parts < 0 || parts > DEPTH_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s of %zu bytes is too long or more than %d folders deep", u->layer,
                       what, strlen(name), (int)DEPTH_MAX);
    }
    return GR_OK;
}

/* Opens the folder of a clean name. make: missing folders are made; else *fd stays -1 when one is missing. */
static enum gr_status open_parent(struct unpack *u, const char *clean, bool make, int *fd, const char **leaf,
                                  struct gr_err *err)
{
    int at = u->root;
    const char *slash;
    *fd = -1;
    *leaf = clean;
    while ((slash = strchr(*leaf, '/')) != NULL) {
        char part[GR_PATH_BYTES];
        memcpy(part, *leaf, (size_t)(slash - *leaf));
        part[slash - *leaf] = '\0';
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT && make && mkdirat(at, part, FOLDER_MODE) == 0) {
            u->n_entries++;
            next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        const int e = next < 0 ? errno : 0;
        if (at != u->root) {
            (void)close(at);
        }
        if (e == ENOENT && !make) {
            return GR_OK;
        }
        if (e == ENOTDIR || e == ELOOP) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: %s passes through %s, which is no folder but a link or a file",
                           u->layer, clean, part);
        }
        if (e != 0) {
            return gr_fail_errno(err, GR_ERR_IO, e, "%s/%s: cannot unpack", u->where, clean);
        }
        at = next;
        *leaf = slash + 1;
    }
    *fd = at;
    return GR_OK;
}

static void close_parent(const struct unpack *u, int fd)
{
    if (fd >= 0 && fd != u->root) {
        (void)close(fd);
    }
}

/* ---- whiteouts ---- */

static enum gr_status empty_folder(const struct unpack *u, int parent, const char *clean, struct gr_err *err)
{
    const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    int e = d == NULL ? errno : 0;
    struct dirent *entry;
    while (e == 0 && (entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            e = gr_tree_remove_at(parent, entry->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s/%s: cannot obey", u->where, clean);
}

static const char *leaf_of(const char *clean)
{
    const char *slash = strrchr(clean, '/');
    return slash != NULL ? slash + 1 : clean;
}

static enum gr_status obey_whiteout(struct unpack *u, const char *clean, struct gr_err *err)
{
    int parent;
    const char *leaf;
    GR_TRY(open_parent(u, clean, false, &parent, &leaf, err));
    enum gr_status status = GR_OK;
    const char *name = leaf + strlen(WHITEOUT);
    if (parent < 0) {
        return GR_OK;
    }
    if (strcmp(leaf, OPAQUE) == 0) {
        status = empty_folder(u, parent, clean, err);
    } else if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: whiteout %s names nothing", u->layer, clean);
    } else if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) != 0) { /* else a note of some engine */
        const int e = gr_tree_remove_at(parent, name);
        status = e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s/%s: cannot obey", u->where, clean);
    }
    close_parent(u, parent);
    return status;
}

/* ---- entries ---- */

/* A relative target must stay inside; an absolute one means the image's root wherever the image runs. */
static bool climbs_out(const char *clean, const char *target)
{
    long depth = 0;
    if (target[0] == '/') {
        return false;
    }
    for (const char *at = clean; (at = strchr(at, '/')) != NULL; at++) {
        depth++;
    }
    for (const char *at = target; *at != '\0';) {
        const size_t n = strcspn(at, "/");
        depth += n == 2 && at[0] == '.' && at[1] == '.' ? -1 : n > 0 && !(n == 1 && at[0] == '.') ? 1 : 0;
        if (depth < 0) {
            return true;
        }
        at += n + (at[n] == '/');
    }
    return false;
}

static enum gr_status too_large(const struct unpack *u, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_FORMAT, "%s: the image unpacks to more than %llu bytes, the limit here", u->layer,
                   (unsigned long long)GR_OCI_UNPACKED_MAX);
}

static enum gr_status copy_out(struct unpack *u, struct gr_tar *t, int fd, const char *clean, struct gr_err *err)
{
    for (;;) {
        size_t n = 0;
        GR_TRY(gr_tar_read(t, u->block, BLOCK, &n, err));
        if (n == 0) {
            return GR_OK;
        }
        u->bytes += n;
        if (u->bytes > GR_OCI_UNPACKED_MAX) {
            return too_large(u, err);
        }
        for (size_t at = 0; at < n;) {
            const ssize_t w = write(fd, u->block + at, n - at);
            if (w < 0 && errno == EINTR) {
                continue;
            }
            if (w <= 0) {
                return gr_fail_errno(err, GR_ERR_IO, w < 0 ? errno : EIO, "%s/%s: cannot write", u->where, clean);
            }
            at += (size_t)w;
        }
    }
}

static enum gr_status make_file(struct unpack *u, struct gr_tar *t, int parent, const char *leaf, const char *clean,
                                int mode, struct gr_err *err)
{
    const int fd = openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s/%s: cannot create", u->where, clean);
    }
    enum gr_status status = copy_out(u, t, fd, clean, err);
    (void)fchmod(fd, (mode_t)mode & 0777); /* never set-uid: whoever unpacks owns the file */
    if (close(fd) != 0 && status == GR_OK && errno != EINTR) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s/%s: cannot write", u->where, clean);
    }
    return status;
}

static enum gr_status make_hardlink(struct unpack *u, int parent, const char *leaf, const char *clean, const char *link,
                                    struct gr_err *err)
{
    char target[GR_PATH_BYTES];
    int from = -1;
    const char *name;
    struct stat st;
    GR_TRY(clean_name(u, link, "link target", target, err));
    GR_TRY(open_parent(u, target, false, &from, &name, err));
    enum gr_status status = GR_OK;
    if (from < 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) {
        status =
            gr_fail(err, GR_ERR_FORMAT, "%s: %s is a link to %s, which is no file of the image", u->layer, clean, link);
    } else if (strcmp(clean, target) != 0) {
        const int e = gr_tree_remove_at(parent, leaf);
        if (e != 0 || linkat(from, name, parent, leaf, 0) != 0) {
            status = gr_fail_errno(err, GR_ERR_IO, e != 0 ? e : errno, "%s/%s: cannot link", u->where, clean);
        }
    }
    close_parent(u, from);
    return status;
}

static enum gr_status make_folder(const struct unpack *u, int parent, const char *leaf, const char *clean, int mode,
                                  struct gr_err *err)
{
    struct stat st;
    int e = 0;
    if (fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode)) {
        e = gr_tree_remove_at(parent, leaf);
        e = e != 0 ? e : mkdirat(parent, leaf, FOLDER_MODE) != 0 ? errno : 0;
    }
    /* its owner must be able to fill and to remove it */
    if (e == 0 && fchmodat(parent, leaf, ((mode_t)mode & 01777) | 0700, 0) != 0) {
        e = errno;
    }
    return e == 0 ? GR_OK : gr_fail_errno(err, GR_ERR_IO, e, "%s/%s: cannot create", u->where, clean);
}

static enum gr_status make_entry(struct unpack *u, struct gr_tar *t, const struct gr_tar_item *item, int parent,
                                 const char *leaf, const char *clean, struct gr_err *err)
{
    if (item->kind == GR_TAR_FOLDER) {
        return make_folder(u, parent, leaf, clean, item->mode, err);
    }
    if (item->kind == GR_TAR_HARDLINK) {
        return make_hardlink(u, parent, leaf, clean, item->link, err);
    }
    if (item->kind == GR_TAR_OTHER) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s is a device or a pipe; images hold files, folders and links",
                       u->layer, clean);
    }
    if (item->kind == GR_TAR_SYMLINK && climbs_out(clean, item->link)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s is a link to %s, which leads out of the image", u->layer, clean,
                       item->link);
    }
    const int e = gr_tree_remove_at(parent, leaf);
    if (e != 0) {
        return gr_fail_errno(err, GR_ERR_IO, e, "%s/%s: cannot replace", u->where, clean);
    }
    if (item->kind == GR_TAR_FILE) {
        return make_file(u, t, parent, leaf, clean, item->mode, err);
    }
    return symlinkat(item->link, parent, leaf) == 0
               ? GR_OK
               : gr_fail_errno(err, GR_ERR_IO, errno, "%s/%s: cannot link", u->where, clean);
}

/* One pass over a layer: its whiteouts, or everything else. *total: bytes of its files. */
static enum gr_status pass(struct unpack *u, struct gr_tar *t, bool whiteouts, uint64_t *total, struct gr_err *err)
{
    struct gr_tar_item item;
    bool end = false;
    for (;;) {
        char clean[GR_PATH_BYTES];
        int parent = -1;
        const char *leaf;
        GR_TRY(gr_tar_next(t, &item, &end, err));
        if (end) {
            return GR_OK;
        }
        if (++u->n_entries > 2L * GR_OCI_ENTRIES_MAX) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: more than %d entries", u->layer, GR_OCI_ENTRIES_MAX);
        }
        GR_TRY(clean_name(u, item.path, "name", clean, err));
        const bool is_whiteout = strncmp(leaf_of(clean), WHITEOUT, strlen(WHITEOUT)) == 0;
        if (whiteouts) {
            if (item.kind == GR_TAR_FILE && item.size > GR_OCI_UNPACKED_MAX - *total) { /* a sparse one has any size */
                return too_large(u, err);
            }
            *total += item.kind == GR_TAR_FILE ? item.size : 0;
            if (is_whiteout) {
                GR_TRY(obey_whiteout(u, clean, err));
            }
            continue;
        }
        if (is_whiteout || clean[0] == '\0') {
            continue;
        }
        GR_TRY(open_parent(u, clean, true, &parent, &leaf, err));
        const enum gr_status status = make_entry(u, t, &item, parent, leaf, clean, err);
        close_parent(u, parent);
        GR_TRY(status);
    }
}

static enum gr_status unpack_layer(struct unpack *u, const char *path, bool gzip, struct gr_err *err)
{
    uint64_t total = 0, room = 0;
    struct gr_tar *t = NULL;
    u->layer = path;
    GR_TRY(gr_tar_open(path, gzip, &t, err));
    enum gr_status status = pass(u, t, true, &total, err);
    gr_tar_close(t);
    t = NULL;
    if (status == GR_OK) {
        status = gr_fs_free_bytes(u->where, &room, err);
    }
    if (status == GR_OK && total > room) {
        status = gr_fail(err, GR_ERR_IO, "%s: %llu bytes to unpack, %llu are free", u->where, (unsigned long long)total,
                         (unsigned long long)room);
    }
    if (status == GR_OK) {
        status = gr_tar_open(path, gzip, &t, err);
    }
    if (status == GR_OK) {
        status = pass(u, t, false, &total, err);
    }
    gr_tar_close(t);
    return status;
}

static enum gr_status unpack_layers(const struct gr_oci_layout *l, const char *root, struct gr_err *err)
{
    struct unpack u = {.root = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), .block = malloc(BLOCK)};
    enum gr_status status = gr_path_join(u.where, "", root, err);
    if (status == GR_OK && u.root < 0) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot open", root);
    } else if (status == GR_OK && u.block == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory to unpack", root);
    }
    for (int i = 0; i < l->n_layers && status == GR_OK; i++) {
        char path[GR_PATH_BYTES];
        status = gr_oci_blob_path(l, &l->layers[i], path, err);
        if (status == GR_OK) {
            status = unpack_layer(&u, path, l->layers[i].gzip, err);
        }
    }
    if (u.root >= 0) {
        (void)close(u.root);
    }
    free(u.block);
    return status;
}

/* Parent folder and last part of a path, for a temporary folder beside it. */
static enum gr_status split(const char *path, char dir[GR_PATH_BYTES], char name[256], struct gr_err *err)
{
    GR_TRY(gr_path_join(dir, "", path, err));
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') {
        dir[--n] = '\0';
    }
    const char *leaf = leaf_of(dir);
    if (leaf[0] == '\0' || strlen(leaf) > 200 || strcmp(leaf, "..") == 0 || strcmp(leaf, ".") == 0) {
        return gr_fail(err, GR_ERR_IO, "%s: cannot be the name of a new folder", path);
    }
    memcpy(name, leaf, strlen(leaf) + 1);
    if (leaf == dir) {
        memcpy(dir, ".", 2);
    } else {
        dir[leaf == dir + 1 ? 1 : leaf - dir - 1] = '\0';
    }
    return GR_OK;
}

enum gr_status gr_oci_unpack(const char *dir, const char *root, struct gr_oci_image *out, struct gr_err *err)
{
    struct gr_oci_layout l;
    struct gr_tree_temp temp = {.lock = -1};
    struct stat st;
    char parent[GR_PATH_BYTES], name[256];
    if (lstat(root, &st) == 0) {
        return gr_fail(err, GR_ERR_IO, "%s: exists already", root);
    }
    GR_TRY(split(root, parent, name, err));
    enum gr_status status = gr_oci_layout_open(dir, &l, err);
    if (status == GR_OK) {
        status = gr_oci_layout_layers(&l, err);
    }
    if (status == GR_OK) {
        status = gr_tree_temp_make(parent, name, "unpack", &temp, err);
    }
    if (status == GR_OK) {
        status = unpack_layers(&l, temp.path, err);
    }
    if (status == GR_OK && (chmod(temp.path, FOLDER_MODE) != 0 || rename(temp.path, root) != 0)) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create", root);
    }
    if (status == GR_OK) {
        temp.path[0] = '\0'; /* it has its name now */
        gr_oci_layout_facts(&l, out);
    }
    gr_tree_temp_drop(&temp);
    gr_oci_layout_free(&l);
    return status;
}
