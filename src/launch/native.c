/* SPDX-License-Identifier: Apache-2.0
 *
 * native.c: a package's own program without an engine: its root file system unpacked once for each image, started through the image's own dynamic loader
 * so that no library of this machine gets in between. */
#include "launch/native.h"

#include <elf.h>
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "package/tree.h"

enum { DIGEST_SHORT = 12, LINKS_MAX = 40, PROGRAM_HEADERS_MAX = 64 };
#define ROOT_PREFIX "root-"

/* ---- unpacking ---- */

/* Removes roots of other images of the package, unless one of its services runs: it may still open files of its own. */
static void remove_others(const struct gr_state_dirs *d, const char *name, const char *folder, const char *keep)
{
    char(*names)[GR_RUN_NAME_BYTES];
    struct gr_err ignored;
    int n;
    bool used = gr_running_list(d, &names, &n, &ignored) != GR_OK;
    for (int i = 0; i < n && !used; i++) {
        struct gr_running r;
        used = gr_running_read(d, names[i], &r, &ignored) == GR_OK && strcmp(r.package, name) == 0 &&
               gr_launch_alive(&r, NULL);
    }
    free(names);
    if (used) {
        return;
    }
    DIR *dir = opendir(folder);
    for (const struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[GR_PATH_BYTES];
        if (strncmp(e->d_name, ROOT_PREFIX, strlen(ROOT_PREFIX)) == 0 && strcmp(e->d_name, keep) != 0 &&
            gr_path_join(path, folder, e->d_name, &ignored) == GR_OK) {
            (void)gr_tree_remove(path, &ignored);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Under a temporary name first: a root that was cut short must not look like one. */
static enum gr_status unpack(const char *image_dir, const char *folder, const char *root, struct gr_err *err)
{
    struct gr_tree_temp temp = {.lock = -1};
    struct gr_oci_image image;
    char inside[GR_PATH_BYTES];
    GR_TRY(gr_fs_mkdirs(folder, err));
    GR_TRY(gr_tree_temp_make(folder, "root", "unpack", &temp, err));
    enum gr_status status = gr_path_join(inside, temp.path, "root", err);
    status = status != GR_OK ? status : gr_oci_unpack(image_dir, inside, &image, err);
    if (status == GR_OK && rename(inside, root) != 0 && !gr_fs_is_dir(root)) { /* another process may have been first */
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot be made", root);
    }
    gr_tree_temp_drop(&temp);
    return status;
}

enum gr_status gr_native_root(const struct gr_state_dirs *d, const char *name, const char *image_dir,
                              struct gr_native_root *out, struct gr_err *err)
{
    struct gr_oci_image image;
    char folder[GR_PATH_BYTES], entry[32];
    memset(out, 0, sizeof *out);
    GR_TRY(gr_state_package(d, name, folder, err));
    GR_TRY(gr_oci_check(image_dir, &image, err));
    (void)snprintf(entry, sizeof entry, ROOT_PREFIX "%.*s", DIGEST_SHORT, image.config_digest + strlen("sha256:"));
    GR_TRY(gr_path_join(out->dir, folder, entry, err));
    if (!gr_fs_is_dir(out->dir)) {
        GR_TRY(unpack(image_dir, folder, out->dir, err));
        remove_others(d, name, folder, entry);
    }
    return gr_oci_read_run(image_dir, &out->run, err);
}

void gr_native_root_free(struct gr_native_root *r)
{
    gr_oci_run_free(&r->run);
    memset(r, 0, sizeof *r);
}

/* ---- paths ---- */

const char *gr_path_below(const char *path, const char *dir)
{
    const size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0') ? path + n : NULL;
}

/* One step of the walk: `name` below `at` (a path in the root, links all resolved). A link goes in front of what is left to walk. */
static bool step(const char *root, const char *name, char at[GR_PATH_BYTES], char rest[GR_PATH_BYTES], int *links)
{
    char here[GR_PATH_BYTES], link[GR_PATH_BYTES], after[GR_PATH_BYTES];
    const size_t end = strlen(at);
    struct stat st;
    if (name[0] == '\0' || strcmp(name, ".") == 0) {
        return true;
    }
    if (strcmp(name, "..") == 0) { /* of the root: the root */
        char *slash = strrchr(at, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
        return true;
    }
    if ((size_t)snprintf(here, sizeof here, "%s%s/%s", root, at, name) >= sizeof here || lstat(here, &st) != 0) {
        return false;
    }
    if (!S_ISLNK(st.st_mode)) {
        return (size_t)snprintf(at + end, GR_PATH_BYTES - end, "/%s", name) < GR_PATH_BYTES - end;
    }
    const ssize_t n = readlink(here, link, sizeof link - 1);
    if (n <= 0 || ++*links > LINKS_MAX) {
        return false;
    }
    link[n] = '\0';
    at[link[0] == '/' ? 0 : end] = '\0';
    memcpy(after, rest, sizeof after);
    return (size_t)snprintf(rest, GR_PATH_BYTES, "%s/%s", link, after) < (size_t)GR_PATH_BYTES;
}

/* Where `path` of the image is here, every link on the way followed as with the root as "/"; "" when it is not there. */
static void inside_root(const char *root, const char *path, char out[GR_PATH_BYTES])
{
    char at[GR_PATH_BYTES] = "", rest[GR_PATH_BYTES], name[GR_PATH_BYTES], given[GR_PATH_BYTES];
    int links = 0;
    out[0] = '\0';
    if ((size_t)snprintf(given, sizeof given, "%s/%s", root, path + strspn(path, "/")) >= sizeof given) {
        return;
    }
    (void)snprintf(rest, sizeof rest, "%s", path);
    while (rest[0] != '\0') {
        const size_t n = strcspn(rest, "/"), taken = n + (rest[n] == '/');
        memcpy(name, rest, n);
        name[n] = '\0';
        memmove(rest, rest + taken, strlen(rest + taken) + 1);
        if (!step(root, name, at, rest, &links)) {
            return;
        }
    }
    if ((size_t)snprintf(out, GR_PATH_BYTES, "%s%s", root, at) >= (size_t)GR_PATH_BYTES) {
        out[0] = '\0';
        return;
    }
    /* The name that the image has for it (programs look at theirs), where this machine finds the same file by it. */
    struct stat own, found;
    if (stat(given, &found) == 0 && stat(out, &own) == 0 && own.st_dev == found.st_dev && own.st_ino == found.st_ino) {
        memcpy(out, given, sizeof given);
    }
}

const char *gr_native_value(const struct gr_launch *l, const char *cache, const char *value, char path[GR_PATH_BYTES])
{
    char own[3][GR_PATH_BYTES + 16];
    (void)snprintf(own[0], sizeof own[0], "%s/cache", cache);
    (void)snprintf(own[1], sizeof own[1], "%s/weights", cache);
    (void)snprintf(own[2], sizeof own[2], "%s/tensors", cache);
    const struct {
        const char *there, *here;
    } mounts[] = {{"/cache", own[0]},
                  {"/weight-cache", own[1]},
                  {"/tensor-cache", own[2]},
                  {"/hf-hub", l->hub_cache},
                  {"/hf", l->hf_home}};
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        const char *below = gr_path_below(value, mounts[i].there);
        if (below != NULL &&
            (size_t)snprintf(path, GR_PATH_BYTES, "%s%s", mounts[i].here, below) < (size_t)GR_PATH_BYTES) {
            return path;
        }
    }
    if (value[0] == '/' && l->root != NULL) {
        inside_root(l->root->dir, value, path);
        return path[0] != '\0' ? path : value;
    }
    return value;
}

/* ---- variables ---- */

void gr_native_image_env(const struct gr_launch *l, const char *cache, struct gr_command_line *c)
{
    static const char *const not_here[] = {"PATH", "HOME", "USER", "LOGNAME", "PYTHONPATH", "LD_LIBRARY_PATH",
                                           "HF_",  "TT_"}; /* of the image's user, and its folders */
    for (int i = 0; i < l->root->run.env.n; i++) {
        const char *entry = l->root->run.env.items[i], *equals = strchr(entry, '=');
        char name[128], path[GR_PATH_BYTES];
        bool skip = equals == NULL || (size_t)(equals - entry) >= sizeof name;
        for (size_t k = 0; k < sizeof not_here / sizeof not_here[0] && !skip; k++) {
            const size_t n = strlen(not_here[k]);
            skip = strncmp(entry, not_here[k], n) == 0 && (not_here[k][n - 1] == '_' || entry[n] == '=');
        }
        if (!skip) {
            (void)snprintf(name, sizeof name, "%.*s", (int)(equals - entry), entry);
            gr_command_line_env(c, name, gr_native_value(l, cache, equals + 1, path));
        }
    }
}

void gr_native_folders(const struct gr_launch *l, const char *cache, struct gr_command_line *c)
{
    static const struct {
        const char *name, *end;
    } folders[] = {{"TT_METAL_CACHE", "/cache"}, {"TT_DIT_CACHE_DIR", "/weights"}, {"TT_CACHE_PATH", "/tensors"}};
    char path[GR_PATH_BYTES + 16];
    struct gr_command_line given = {0}; /* --env goes before */
    gr_command_line_env(&given, "HF_HOME", l->hf_home);
    gr_command_line_env(&given, "HF_HUB_CACHE", l->hub_cache);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", cache, folders[i].end);
        gr_command_line_env(&given, folders[i].name, path);
    }
    for (int i = 0; i < given.n_env; i++) {
        bool there = false;
        for (int k = 0; k < l->n_env; k++) {
            there = there || strcmp(l->env[k].name, given.env[i].name) == 0;
        }
        if (!there) {
            gr_command_line_env(c, given.env[i].name, given.env[i].value);
        }
    }
    c->failed = c->failed || given.failed;
    gr_command_line_free(&given);
}

/* ---- the program ---- */

struct program {
    Elf64_Half machine;
    char loader[256]; /* of a dynamic one; "" of a static one */
};

static enum gr_status read_program(const char *path, struct program *out, struct gr_err *err)
{
    Elf64_Ehdr head;
    int fd;
    size_t size;
    memset(out, 0, sizeof *out);
    GR_TRY(gr_fs_open(path, &fd, &size, err));
    enum gr_status status = size < sizeof head ? gr_fail(err, GR_ERR_FORMAT, "%s is no program", path)
                                               : gr_fs_read_at(fd, path, &head, sizeof head, 0, err);
    if (status == GR_OK && (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
                            head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > PROGRAM_HEADERS_MAX)) {
        status = gr_fail(
            err, GR_ERR_FORMAT,
            "%s is no 64-bit program but perhaps a script: this image needs a container, --container runs it in one",
            path);
    }
    out->machine = status == GR_OK ? head.e_machine : 0;
    for (unsigned i = 0; status == GR_OK && i < head.e_phnum; i++) {
        Elf64_Phdr part;
        status = gr_fs_read_at(fd, path, &part, sizeof part, head.e_phoff + i * sizeof part, err);
        if (status == GR_OK && part.p_type == PT_INTERP) {
            status = part.p_filesz < 2 || part.p_filesz >= sizeof out->loader
                         ? gr_fail(err, GR_ERR_FORMAT, "%s names no loader that can be one", path)
                         : gr_fs_read_at(fd, path, out->loader, part.p_filesz, part.p_offset, err);
            break;
        }
    }
    (void)close(fd);
    return status;
}

/* Folders of the image with shared libraries, "a:b". */
static void library_path(const char *root, char *out, size_t n)
{
    static const char *const folders[] = {"lib/x86_64-linux-gnu",  "usr/lib/x86_64-linux-gnu",  "lib64", "usr/lib64",
                                          "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib",   "usr/lib",
                                          "usr/local/lib"};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[GR_PATH_BYTES];
        inside_root(root, folders[i], path);
        if (gr_fs_is_dir(path) && used + strlen(path) + 2 < n) {
            used += (size_t)snprintf(out + used, n - used, "%s%s", used > 0 ? ":" : "", path);
        }
    }
}

enum gr_status gr_native_program(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err)
{
    char path[GR_PATH_BYTES], loader[GR_PATH_BYTES], libraries[4 * GR_PATH_BYTES];
    struct program p, self;
    if (l->root == NULL) {
        gr_command_line_word(c, "%s", l->program);
        return GR_OK;
    }
    const struct gr_strings *entry = &l->root->run.entrypoint;
    if (entry->n == 0 || entry->items[0][0] != '/') {
        return gr_fail(err, GR_ERR_FORMAT,
                       "the image has no entry program with an absolute path; --container may run it");
    }
    inside_root(l->root->dir, entry->items[0], path);
    if (path[0] == '\0') {
        return gr_fail(err, GR_ERR_FORMAT, "the image's entry program %s is not in it", entry->items[0]);
    }
    GR_TRY(read_program(path, &p, err));
    if (read_program("/proc/self/exe", &self, err) == GR_OK && self.machine != p.machine) {
        return gr_fail(err, GR_ERR_FORMAT, "%s is a program for another kind of machine", path);
    }
    if (p.loader[0] != '\0') {
        inside_root(l->root->dir, p.loader, loader);
        if (loader[0] == '\0') {
            return gr_fail(err, GR_ERR_FORMAT, "the image's program needs %s, which is not in it", p.loader);
        }
        library_path(l->root->dir, libraries, sizeof libraries);
        gr_command_line_word(c, "%s", loader);
        if (strstr(p.loader, "ld-linux") != NULL) { /* glibc's; musl's has no such option and no such cache */
            gr_command_line_word(c, "--inhibit-cache");
        }
        gr_command_line_word(c, "--library-path");
        gr_command_line_word(c, "%s", libraries);
    }
    gr_command_line_word(c, "%s", path);
    for (int i = 1; i < entry->n; i++) {
        gr_command_line_word(c, "%s", entry->items[i]);
    }
    return GR_OK;
}
