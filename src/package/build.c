/* SPDX-License-Identifier: Apache-2.0
 *
 * build.c: `package` step by step: manifest, code, root, image, papers, check, publication. All of it happens in a folder beside the
 * target,
 * which takes the target's name at the end in one rename. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gr00t.h"
#include "package/build.h"
#include "package/root.h"
#include "package/stage.h"
#include "package/tree.h"

#define KIND "tt-dit-server"
#define LABEL "org.tenstorrent.tt-model"
enum { DEFAULT_PORT = 8000, FIXED_ENV = 12 };

struct work {
    const struct gr_build *b;
    struct gr_built *built;
    struct gr_manifest m;
    struct gr_tree_temp package, scratch; /* what becomes the package; what nobody keeps */
    struct gr_tree_list code;
    struct gr_root root;
    struct gr_buf notice;
    char program[GR_PATH_BYTES], code_dir[GR_PATH_BYTES], image_dir[GR_PATH_BYTES];
    double since;
};

static void report(struct work *w, enum gr_build_mark mark, const char *label, const char *detail)
{
    const double now = gr_clock_ms();
    if (w->b->step != NULL) {
        w->b->step(w->b->user, mark, label, detail, now - w->since);
    }
    w->since = now;
}

static enum gr_status go_on(const struct work *w, struct gr_err *err)
{
    return w->b->stop == NULL || *w->b->stop == 0 ? GR_OK : gr_fail(err, GR_ERR_CHECK, "interrupted");
}

static const char *keep(struct work *w, const char *text, struct gr_err *err)
{
    const char *kept = gr_manifest_keep(&w->m, text);
    if (kept == NULL) {
        (void)gr_fail(err, GR_ERR_NOMEM, "no memory for the manifest");
    }
    return kept;
}

/* ---- resolve ---- */

/* Sources are looked up from the working folder: whoever names a manifest elsewhere is told where to go. */
static enum gr_status check_roots(const struct work *w, struct gr_err *err)
{
    char beside[GR_PATH_BYTES], folder[GR_PATH_BYTES], here[GR_PATH_BYTES];
    const char *const slash = strrchr(w->b->manifest, '/');
    if (slash != NULL) {
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - w->b->manifest) + 1, w->b->manifest);
    }
    for (int i = 0; i < w->m.n_roots; i++) {
        const char *path = w->m.roots[i].path;
        if (path == NULL || path[0] == '/' || gr_fs_is_dir(path)) {
            continue;
        }
        const char *where = getcwd(here, sizeof here) != NULL ? here : ".";
        if (slash != NULL && gr_path_join(beside, folder, path, err) == GR_OK && gr_fs_is_dir(beside)) {
            return gr_fail(
                err, GR_ERR_INPUT,
                "%s: source: no folder %s in %s, the working folder, where its paths start; `cd %s` and package there",
                w->b->manifest, path, where, folder);
        }
        return gr_fail(err, GR_ERR_INPUT, "%s: source: no folder %s in %s, the working folder, where its paths start",
                       w->b->manifest, path, where);
    }
    return GR_OK;
}

/* A line a warning. */
static void report_doubts(struct work *w)
{
    struct gr_buf doubts = {0};
    gr_manifest_doubts(&w->m, &doubts);
    for (char *line = doubts.data, *end; line != NULL && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        report(w, GR_BUILD_WARNING, "weights", line);
    }
    gr_buf_free(&doubts);
}

static enum gr_status resolve(struct work *w, struct gr_err *err)
{
    char detail[256];
    GR_TRY(gr_manifest_read_yaml(w->b->manifest, NULL, &w->m, err));
    const struct gr_manifest *m = &w->m;
    if (!gr_is_slug(m->name)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: name: \"%.100s\" cannot be the name of a folder and an image",
                       w->b->manifest, m->name);
    }
    if (strcmp(m->kind, KIND) != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: kind: is %.60s, a native package is of kind " KIND, w->b->manifest,
                       m->kind);
    }
    if (m->registry != NULL && strcmp(m->registry, "hf") != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: image.registry: is %.100s, a native package carries its image: use hf",
                       w->b->manifest, m->registry);
    }
    if (w->b->program != NULL) {
        GR_TRY(gr_path_join(w->program, "", w->b->program, err));
    } else {
        const ssize_t n = readlink("/proc/self/exe", w->program, sizeof w->program - 1);
        if (n <= 0) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "cannot find this program's own file; --program names it");
        }
        w->program[n] = '\0';
    }
    GR_TRY(gr_fs_need_file(w->program, GR_ERR_INPUT, err));
    (void)snprintf(detail, sizeof detail, "%s for %s, %d profile%s", m->name, m->arch, m->n_profiles,
                   m->n_profiles == 1 ? "" : "s");
    report(w, GR_BUILD_DONE, "manifest", detail);
    report_doubts(w);
    return check_roots(w, err);
}

static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    while (d != NULL && n <= 2 && readdir(d) != NULL) {
        n++;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return d != NULL && n <= 2; /* "." and ".." */
}

/* An existing target must be a package, or empty: its folder is going to be replaced. */
static enum gr_status check_target(struct work *w, struct gr_err *err)
{
    char manifest[GR_PATH_BYTES];
    struct stat st;
    GR_TRY(gr_path_join(w->built->dir, w->b->out, w->m.name, err));
    if (lstat(w->built->dir, &st) != 0) {
        return GR_OK;
    }
    GR_TRY(gr_path_join(manifest, w->built->dir, GR_MANIFEST_FILE, err));
    if (!S_ISDIR(st.st_mode) || (!gr_fs_is_file(manifest) && !is_empty(w->built->dir))) {
        return gr_fail(err, GR_ERR_INPUT, "%s: exists and is no package; choose another --out or remove it",
                       w->built->dir);
    }
    return GR_OK;
}

/* ---- stage ---- */

static enum gr_status stage(struct work *w, struct gr_err *err)
{
    struct gr_stage s;
    char detail[400];
    GR_TRY(gr_path_join(w->code_dir, w->package.path, "code", err));
    GR_TRY(gr_stage_copy(&w->m, w->code_dir, w->b->out, &s, err));
    GR_TRY(gr_tree_list(w->code_dir, &w->code, err));
    GR_TRY(gr_stage_digest(w->code_dir, w->built->code_sha256, err));
    w->built->n_code = s.n_files;
    w->built->n_dropped = s.n_dropped;
    w->built->code_bytes = s.bytes;
    (void)snprintf(detail, sizeof detail, "%d file%s, %.1f MB%s%s", s.n_files, s.n_files == 1 ? "" : "s",
                   (double)s.bytes / 1e6, s.n_dropped > 0 ? "; left out: " : "", s.dropped);
    report(w, GR_BUILD_DONE, "code", detail);
    return GR_OK;
}

static enum gr_status make_root(struct work *w, struct gr_err *err)
{
    char detail[160];
    gr_card_notice(&w->m, &w->notice);
    if (w->notice.failed || w->notice.data == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the licence notice");
    }
    const struct gr_root_plan plan = {.program = w->program,
                                      .code = w->code_dir,
                                      .files = &w->code,
                                      .scratch = w->scratch.path,
                                      .license = w->b->license != NULL ? w->b->license : "Apache-2.0\n",
                                      .notice = w->notice.data,
                                      .dpkg = "/var/lib/dpkg"};
    GR_TRY(gr_root_make(&plan, &w->root, err));
    w->built->n_libraries = w->root.n_libraries;
    w->built->program_bytes = w->root.program_bytes;
    w->built->root_bytes = w->root.root_bytes;
    (void)snprintf(detail, sizeof detail, "program %.1f MB, %d shared libraries, %.1f MB in all",
                   (double)w->root.program_bytes / 1e6, w->root.n_libraries, (double)w->root.root_bytes / 1e6);
    report(w, GR_BUILD_DONE, "root", detail);
    if (!w->root.certificates) {
        report(w, GR_BUILD_WARNING, "certificates",
               "none found here, so the image cannot pull by https; install ca-certificates and package again");
    }
    return GR_OK;
}

/* ---- image ---- */

/* Fixed values, then what all profiles share; a profile's own come from the launcher. */
static int image_env(const struct gr_manifest *m, struct gr_env *env)
{
    static const struct gr_env fixed[] = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                                          {"HOME", "/home/tt"},
                                          {"USER", "tt"},
                                          {"LOGNAME", "tt"},
                                          {"HF_HOME", "/hf"},
                                          {"TT_METAL_CACHE", "/cache"},
                                          {"GR00T_CACHE", "/cache"},
                                          {"PYTHONPATH", "/opt/tt-metal"},
                                          {"TT_METAL_HOME", "/opt/tt-metal"},
                                          {"TT_METAL_RUNTIME_ROOT", "/opt/tt-metal"}};
    enum { N = sizeof fixed / sizeof fixed[0] };
    _Static_assert(N + 1 <= FIXED_ENV, "room for the fixed variables");
    int n = 0;
    for (; n < N; n++) {
        env[n] = fixed[n];
    }
    if (m->has_weights) {
        env[n++] = (struct gr_env){"HF_MODEL", m->weights.repo};
    }
    for (int i = 0; i < m->serve.n_env; i++) {
        int at = 0;
        while (at < n && strcmp(env[at].name, m->serve.env[i].name) != 0) {
            at++;
        }
        env[at] = m->serve.env[i];
        n += at == n;
    }
    return n;
}

static enum gr_status write_image(struct work *w, const char *profiles, struct gr_env *env, struct gr_err *err)
{
    static const char *entry[] = {"/usr/bin/gr00t"};
    const struct gr_manifest *m = &w->m;
    struct gr_profile p;
    char port[16];
    GR_TRY(gr_manifest_profile(m, NULL, &p, err));
    const int port_number = p.block.port > 0 && p.block.port < 65536 ? (int)p.block.port : DEFAULT_PORT;
    gr_profile_free(&p);
    (void)snprintf(port, sizeof port, "%d", port_number);
    const char *cmd[] = {"serve", "--host", "0.0.0.0", "--port", port};
    struct gr_env labels[] = {{LABEL, m->name},
                              {LABEL ".repo", m->repo != NULL ? m->repo : ""},
                              {LABEL ".weights", m->has_weights ? m->weights.repo : ""},
                              {LABEL ".arch", m->arch},
                              {LABEL ".kind", m->kind},
                              {LABEL ".profiles", profiles}};
    const struct gr_oci_config cfg = {.name = m->name,
                                      .env = env,
                                      .n_env = image_env(m, env),
                                      .entrypoint = {entry, 1},
                                      .cmd = {cmd, sizeof cmd / sizeof cmd[0]},
                                      .user = "1000",
                                      .workdir = "/home/tt/work",
                                      .stop_signal = "SIGTERM",
                                      .labels = labels,
                                      .n_labels = sizeof labels / sizeof labels[0],
                                      .port = port_number,
                                      .stop = w->b->stop};
    /* libraries change rarely: in a layer of their own they are not sent again */
    const struct gr_oci_layer layers[] = {{w->root.base, w->root.n_base}, {w->root.app, w->root.n_app}};
    GR_TRY(gr_path_join(w->image_dir, w->package.path, "image", err));
    return gr_oci_write(w->image_dir, &cfg, layers, 2, &w->built->image, err);
}

static enum gr_status make_image(struct work *w, struct gr_err *err)
{
    struct gr_buf profiles = {0};
    char detail[160];
    struct gr_env *env = calloc((size_t)w->m.serve.n_env + FIXED_ENV, sizeof *env);
    for (int i = 0; i < w->m.n_profiles; i++) {
        gr_buf_printf(&profiles, "%s%s", i > 0 ? "," : "", w->m.profiles[i].name);
    }
    const enum gr_status status = env == NULL || profiles.failed || profiles.data == NULL
                                      ? gr_fail(err, GR_ERR_NOMEM, "no memory for the image's config")
                                      : write_image(w, profiles.data, env, err);
    gr_buf_free(&profiles);
    free(env);
    GR_TRY(status);
    const struct gr_oci_image *image = &w->built->image;
    (void)snprintf(detail, sizeof detail, "%.1f MB compressed, %d layers, %.19s", (double)image->layer_bytes / 1e6,
                   image->n_layers, image->config_digest);
    report(w, GR_BUILD_DONE, "image", detail);
    if (image->layer_bytes > GR_IMAGE_BYTES_GOAL) {
        (void)snprintf(detail, sizeof detail,
                       "%.1f MB, more than %.0f MB: is the program stripped, and what does code/ hold?",
                       (double)image->layer_bytes / 1e6, GR_IMAGE_BYTES_GOAL / 1e6);
        report(w, GR_BUILD_WARNING, "image size", detail);
    }
    return GR_OK;
}

static enum gr_status verify(struct work *w, struct gr_err *err)
{
    char detail[512];
    if (!w->b->verify) {
        report(w, GR_BUILD_NOTE, "verify", "skipped");
        return GR_OK;
    }
    GR_TRY(gr_package_verify(w->image_dir, w->scratch.path, w->b->stop, w->built, err));
    (void)snprintf(detail, sizeof detail, "%s in the image; demo: %s", w->built->version, w->built->demo);
    report(w, GR_BUILD_DONE, "verify", detail);
    if (w->m.verify.n > 0) {
        (void)snprintf(detail, sizeof detail, "%d verify line%s of Python in the manifest: kept, not run",
                       w->m.verify.n, w->m.verify.n == 1 ? "" : "s");
        report(w, GR_BUILD_NOTE, "verify", detail);
    }
    return GR_OK;
}

/* ---- papers ---- */

static enum gr_status fill_manifest(struct work *w, struct gr_err *err)
{
    char text[GR_PATH_BYTES];
    struct gr_manifest *m = &w->m;
    struct gr_profile p;
    struct tm tm;
    const time_t created = (time_t)w->b->created;
    GR_TRY(gr_manifest_profile(m, NULL, &p, err));
    m->device_count = p.chips;
    gr_profile_free(&p);
    if (gmtime_r(&created, &tm) == NULL || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S+00:00", &tm) == 0) {
        return gr_fail(err, GR_ERR_INPUT, "%lld is no time", (long long)w->b->created);
    }
    m->created_at = keep(w, text, err);
    if (gethostname(text, 256) != 0) {
        memcpy(text, "unknown", sizeof "unknown");
    }
    text[255] = '\0';
    m->hostname = keep(w, text, err);
    m->registry = "hf";
    m->repository = m->repository != NULL ? m->repository : m->name;
    m->producer_version = gr_version();
    m->tt_metal_version = "none"; /* no tree of it is built */
    m->image_tag = keep(w, w->built->image.tag, err);
    m->image_digest = keep(w, w->built->image.config_digest, err);
    m->code_sha256 = keep(w, w->built->code_sha256, err);
    m->code_dir = "code";
    m->lock = "requirements.lock";
    return m->created_at != NULL && m->hostname != NULL && m->image_tag != NULL && m->image_digest != NULL &&
                   m->code_sha256 != NULL
               ? GR_OK
               : err->code;
}

static enum gr_status write_paper(struct work *w, const char *name, enum gr_status made, struct gr_buf *text,
                                  struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    enum gr_status status = made;
    if (status == GR_OK) {
        status = text->failed || text->data == NULL ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory to write it", name)
                                                    : gr_path_join(path, w->package.path, name, err);
    }
    if (status == GR_OK) {
        status = gr_fs_write(path, text->data, text->len, err);
    }
    gr_buf_free(text);
    return status;
}

static enum gr_status write_papers(struct work *w, struct gr_err *err)
{
    struct gr_buf text = {0};
    GR_TRY(fill_manifest(w, err));
    GR_TRY(write_paper(w, "requirements.lock", GR_OK, &w->root.lock, err));
    GR_TRY(write_paper(w, "LICENSE-NOTICE.md", GR_OK, &w->notice, err));
    GR_TRY(write_paper(w, GR_MANIFEST_FILE, gr_manifest_write_wire(&w->m, &text, err), &text, err));
    GR_TRY(write_paper(w, "README.md", gr_card_write(&w->m, w->built, &text, err), &text, err));
    report(w, GR_BUILD_DONE, "papers", "wire manifest, card, lock, licence notice");
    return GR_OK;
}

/* Out of the way, for a file system that cannot exchange names. */
static enum gr_status move_aside(struct work *w, struct gr_err *err)
{
    char aside[GR_PATH_BYTES];
    GR_TRY(gr_path_join(aside, w->scratch.path, "before", err));
    return rename(w->built->dir, aside) == 0 || errno == ENOENT
               ? GR_OK
               : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot replace", w->built->dir);
}

/* The old package, if there is one, goes away with a temporary folder. Another run may come in between: once more then. */
static enum gr_status publish(struct work *w, struct gr_err *err)
{
    enum { TRIES = 8 };
    GR_TRY(gr_tree_open_to_readers(w->package.path, err));
    for (int i = 0; i < TRIES; i++) {
        GR_TRY(check_target(w, err)); /* what somebody put there meanwhile is not ours to remove */
        if (renameat2(AT_FDCWD, w->package.path, AT_FDCWD, w->built->dir, RENAME_EXCHANGE) == 0) {
            return GR_OK;
        }
        if (errno == EINVAL || errno == ENOSYS) {
            GR_TRY(move_aside(w, err));
        } else if (errno != ENOENT) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot replace", w->built->dir);
        }
        if (rename(w->package.path, w->built->dir) == 0) {
            w->package.path[0] = '\0';
            return GR_OK;
        }
        if (errno != ENOTEMPTY && errno != EEXIST) {
            break;
        }
    }
    return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create", w->built->dir);
}

static enum gr_status build(struct work *w, struct gr_err *err)
{
    GR_TRY(resolve(w, err));
    GR_TRY(check_target(w, err));
    GR_TRY(gr_tree_temp_make(w->b->out, w->m.name, "package", &w->package, err));
    GR_TRY(gr_tree_temp_make(w->b->out, w->m.name, "scratch", &w->scratch, err));
    static enum gr_status (*const steps[])(struct work * w, struct gr_err * err) = {stage,  make_root,    make_image,
                                                                                    verify, write_papers, publish};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        GR_TRY(go_on(w, err));
        GR_TRY(steps[i](w, err));
    }
    return GR_OK;
}

enum gr_status gr_package_build(const struct gr_build *b, struct gr_built *out, struct gr_err *err)
{
    struct work *w = calloc(1, sizeof *w);
    memset(out, 0, sizeof *out);
    if (w == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory to build a package");
    }
    w->b = b;
    w->built = out;
    w->package.lock = w->scratch.lock = -1;
    w->since = gr_clock_ms();
    const enum gr_status status = build(w, err);
    gr_tree_temp_drop(&w->package);
    gr_tree_temp_drop(&w->scratch);
    gr_root_free(&w->root);
    gr_tree_list_free(&w->code);
    gr_buf_free(&w->notice);
    gr_manifest_free(&w->m);
    free(w);
    return status;
}
