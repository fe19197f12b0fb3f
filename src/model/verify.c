/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c: hashes the files of a folder and compares. The list of files is what is in the folder plus what the sums file
 * names; where a file's checksum comes from is settled before anything is hashed. */
#include "model/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fs.h"

enum { SHA256_HEX = 64, SHA1_HEX = 40, DEPTH_MAX = 8, SUMS_MAX = 16 << 20, RECORD_MAX = 4096 };
enum { CHUNK = 1 << 20, PROGRESS_STEP = 32 << 20 };

static const char record_end[] = ".metadata"; /* of the name of a download's record */

struct item {
    char *name;                    /* relative, owned */
    char expected[SHA256_HEX + 1]; /* "" when unknown */
    bool git;                      /* expected is the SHA-1 of a git blob */
    bool there;                    /* a regular file behind the name */
    uint64_t bytes;
};

struct list {
    struct item *v;
    size_t n, cap;
};

struct job {
    const char *dir;
    gr_progress_fn progress;
    void *progress_user;
    uint64_t done, total, shown;
    char *chunk; /* [CHUNK] */
};

const char *gr_verify_result_name(enum gr_verify_result result)
{
    static const char *const names[] = {"ok", "mismatch", "missing", "unknown"};
    return names[result];
}

/* ---- list of files ---- */

static struct item *list_add(struct list *list, const char *name)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 16 : 2 * list->cap;
        struct item *v = realloc(list->v, cap * sizeof *v);
        if (v == NULL) {
            return NULL;
        }
        list->v = v;
        list->cap = cap;
    }
    struct item *item = &list->v[list->n];
    *item = (struct item){.name = strdup(name)};
    if (item->name == NULL) {
        return NULL;
    }
    list->n++;
    return item;
}

static void list_free(struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].name);
    }
    free(list->v);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static void list_sort(struct list *list)
{
    if (list->n > 1) {
        qsort(list->v, list->n, sizeof *list->v, by_name);
    }
}

/* Adds the files under dir/sub. Linked folders are not followed: they could lead in circles. */
static enum gr_status scan(const char *dir, const char *sub, int depth, struct list *list, struct gr_err *err)
{
    char path[GR_PATH_BYTES], name[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, sub, err));
    if (depth > DEPTH_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: folders nested deeper than %d", path, (int)DEPTH_MAX);
    }
    DIR *d = opendir(path);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot open folder", path);
    }
    enum gr_status status = GR_OK;
    struct dirent *e;
    while (status == GR_OK && (errno = 0, e = readdir(d)) != NULL) {
        struct stat st;
        if (e->d_name[0] == '.') {
            continue;
        }
        if (sub[0] == '\0') {
            status = gr_path_join(name, e->d_name, "", err);
            name[strlen(e->d_name)] = '\0'; /* without the slash that joins */
        } else {
            status = gr_path_join(name, sub, e->d_name, err);
        }
        if (status != GR_OK || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue; /* gone in between: no file */
        }
        if (S_ISDIR(st.st_mode)) {
            status = scan(dir, name, depth + 1, list, err);
        } else if ((S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && list_add(list, name) == NULL) {
            status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its file list", dir);
        }
    }
    if (status == GR_OK && errno != 0) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read folder", path);
    }
    (void)closedir(d);
    return status;
}

/* ---- where checksums come from ---- */

static bool is_hex(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f') ||
              (text[i] >= 'A' && text[i] <= 'F'))) {
            return false;
        }
    }
    return true;
}

static void copy_hex(char *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i]);
    }
    out[n] = '\0';
}

/* sha256sum marks a line with a backslash when the name has escapes for backslash, line feed or carriage return. */
static bool unescape(char *name)
{
    char *w = name;
    for (const char *r = name; *r != '\0'; r++) {
        if (*r == '\\') {
            r++;
            if (*r != '\\' && *r != 'n' && *r != 'r') {
                return false;
            }
            *w++ = *r == 'n' ? '\n' : *r == 'r' ? '\r' : '\\';
        } else {
            *w++ = *r;
        }
    }
    *w = '\0';
    return true;
}

/* A relative path that stays inside the folder. */
static bool is_inside(const char *name)
{
    if (name[0] == '\0' || name[0] == '/') {
        return false;
    }
    for (const char *p = name; *p != '\0';) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            return false;
        }
        p += n + (p[n] == '/');
    }
    return true;
}

/* "<64 hex>  name" or "<64 hex> *name". Blank lines and lines that start with '#' are passed over. */
static enum gr_status sums_line(char *line, size_t number, const char *path, struct list *sums, struct gr_err *err)
{
    size_t len = strlen(line);
    if (len > 0 && line[len - 1] == '\r') {
        line[--len] = '\0';
    }
    if (len == 0 || line[0] == '#') {
        return GR_OK;
    }
    bool escaped = line[0] == '\\';
    char *hex = line + escaped;
    char *name = hex + SHA256_HEX + 2;
    if (len < SHA256_HEX + 3 + (size_t)escaped || !is_hex(hex, SHA256_HEX) || hex[SHA256_HEX] != ' ' ||
        (hex[SHA256_HEX + 1] != ' ' && hex[SHA256_HEX + 1] != '*')) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: line %zu: expected 64 hex digits, two blanks and a file name", path,
                       number);
    }
    if (escaped && !unescape(name)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: line %zu: unknown escape in the file name", path, number);
    }
    while (strncmp(name, "./", 2) == 0) {
        name += 2;
    }
    if (!is_inside(name)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: line %zu: '%s' is not a name inside the folder", path, number, name);
    }
    struct item *item = list_add(sums, name);
    if (item == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
    }
    copy_hex(item->expected, hex, SHA256_HEX);
    return GR_OK;
}

static enum gr_status read_sums(const char *path, struct list *sums, struct gr_err *err)
{
    char *text = NULL;
    size_t n = 0, number = 1;
    GR_TRY(gr_fs_read(path, SUMS_MAX, &text, &n, err));
    enum gr_status status = GR_OK;
    if (memchr(text, '\0', n) != NULL) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: is not a text file", path);
    }
    for (char *line = text; status == GR_OK && line != NULL; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        status = sums_line(line, number, path, sums, err);
        line = end == NULL ? NULL : end + 1;
    }
    free(text);
    if (status == GR_OK && sums->n == 0) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: no checksum in it", path);
    }
    list_sort(sums);
    for (size_t i = 1; status == GR_OK && i < sums->n; i++) {
        if (strcmp(sums->v[i].name, sums->v[i - 1].name) == 0) {
            status = gr_fail(err, GR_ERR_FORMAT, "%s: %s is listed twice", path, sums->v[i].name);
        }
    }
    return status;
}

/* Checksums of the sums file go to the files of the folder; names that are only in the sums file join the list. */
static enum gr_status merge_sums(struct list *files, const struct list *sums, struct gr_err *err)
{
    size_t scanned = files->n;
    for (size_t i = 0; i < sums->n; i++) {
        struct item *hit = scanned == 0 ? NULL : bsearch(&sums->v[i], files->v, scanned, sizeof *files->v, by_name);
        if (hit == NULL && (hit = list_add(files, sums->v[i].name)) == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu file names", files->n);
        }
        memcpy(hit->expected, sums->v[i].expected, sizeof hit->expected);
    }
    list_sort(files);
    return GR_OK;
}

/* What the Hub calls a file: 64 hex digits are its SHA-256, 40 its git blob SHA-1. False for anything else. */
static bool set_etag(struct item *item, const char *text, size_t len)
{
    if ((len != SHA256_HEX && len != SHA1_HEX) || !is_hex(text, len)) {
        return false;
    }
    copy_hex(item->expected, text, len);
    item->git = len == SHA1_HEX;
    return true;
}

/* The name of the blob a link of the Hub's cache leads to, ".../blobs/<name>". */
static bool hub_sum(const char *path, struct item *item)
{
    char target[GR_PATH_BYTES];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) {
        return false;
    }
    target[n] = '\0';
    char *slash = strrchr(target, '/');
    if (slash == NULL || slash - target < 5 || memcmp(slash - 5, "blobs", 5) != 0) {
        return false;
    }
    return set_etag(item, slash + 1, strlen(slash + 1));
}

/* Length of the line at text, without its end; *next: behind it. */
static size_t line_length(const char *text, const char **next)
{
    size_t n = strcspn(text, "\n");
    *next = text + n + (text[n] == '\n');
    return n > 0 && text[n - 1] == '\r' ? n - 1 : n;
}

/* A record is three lines: commit (40 hex digits), etag, seconds since 1970. False, and nothing set, for anything else. */
static bool parse_record(const char *text, size_t bytes, struct item *item)
{
    const char *etag, *seconds, *end;
    size_t commit_len = line_length(text, &etag), etag_len = line_length(etag, &seconds);
    size_t seconds_len = line_length(seconds, &end);
    return commit_len == SHA1_HEX && is_hex(text, SHA1_HEX) && seconds_len > 0 &&
           strspn(seconds, "0123456789.") == seconds_len && end == text + bytes && set_etag(item, etag, etag_len);
}

/* Reads the record of one file and gives its checksum to that file. A file that has a record and is gone joins the list. */
static enum gr_status add_record(const char *folder, char *name, struct list *files, size_t scanned, bool *any,
                                 struct gr_err *err)
{
    char path[GR_PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    struct item record = {.name = name};
    GR_TRY(gr_path_join(path, folder, name, err));
    enum gr_status status = gr_fs_read(path, RECORD_MAX, &text, &bytes, err);
    bool good = status == GR_OK && parse_record(text, bytes, &record);
    free(text);
    if (!good) {
        return status == GR_ERR_NOMEM ? status : GR_OK; /* a record that says nothing */
    }
    name[strlen(name) - strlen(record_end)] = '\0';
    struct item *hit = scanned == 0 ? NULL : bsearch(&record, files->v, scanned, sizeof *files->v, by_name);
    if (hit == NULL && (hit = list_add(files, name)) == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu file names", files->n);
    }
    memcpy(hit->expected, record.expected, sizeof hit->expected);
    hit->git = record.git;
    *any = true;
    return GR_OK;
}

/* The records that the Hub's client keeps beside the files of a download into a folder of the user's choice. */
static enum gr_status add_records(const char *dir, struct list *files, bool *any, struct gr_err *err)
{
    char folder[GR_PATH_BYTES];
    struct list records = {0};
    size_t scanned = files->n;
    GR_TRY(gr_path_join(folder, dir, ".cache/huggingface/download", err));
    if (!gr_fs_is_dir(folder)) {
        return GR_OK;
    }
    enum gr_status status = scan(folder, "", 0, &records, err);
    for (size_t i = 0; status == GR_OK && i < records.n; i++) {
        if (gr_ends_with(records.v[i].name, record_end)) {
            status = add_record(folder, records.v[i].name, files, scanned, any, err);
        }
    }
    list_sort(files);
    list_free(&records);
    return status;
}

/* Drops the sums file from the list. */
static void drop_file(struct list *files, const char *dir, const char *path)
{
    struct stat want, st;
    char full[GR_PATH_BYTES];
    struct gr_err ignored;
    if (stat(path, &want) != 0) {
        return;
    }
    size_t w = 0;
    for (size_t i = 0; i < files->n; i++) {
        struct item *item = &files->v[i];
        bool same = gr_path_join(full, dir, item->name, &ignored) == GR_OK && stat(full, &st) == 0 &&
                    st.st_dev == want.st_dev && st.st_ino == want.st_ino;
        if (same) {
            free(item->name);
        } else {
            files->v[w++] = *item;
        }
    }
    files->n = w;
}

/* ---- hashing ---- */

static void show_progress(struct job *job, bool now)
{
    if (job->progress != NULL && (now || job->done - job->shown >= PROGRESS_STEP)) {
        job->shown = job->done;
        job->progress(job->progress_user, "hash files", job->done, job->total);
    }
}

static enum gr_status hash_stream(struct job *job, int fd, const char *path, struct gr_digest *digest,
                                  struct gr_err *err)
{
    for (;;) {
        ssize_t n = read(fd, job->chunk, CHUNK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read", path);
        }
        if (n == 0) {
            return GR_OK;
        }
        gr_digest_add(digest, job->chunk, (size_t)n);
        job->done += (uint64_t)n;
        show_progress(job, false);
    }
}

/* SHA-256 of the content, or the SHA-1 that git gives a blob: of "blob <size>" NUL content. */
static enum gr_status hash_file(struct job *job, const struct item *item, char found[SHA256_HEX + 1],
                                struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_digest *digest = NULL;
    GR_TRY(gr_path_join(path, job->dir, item->name, err));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot open", path);
    }
    enum gr_status status = gr_digest_new(item->git ? GR_SHA1 : GR_SHA256, &digest, err);
    if (status == GR_OK && item->git) {
        char head[40];
        int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)item->bytes);
        gr_digest_add(digest, head, (size_t)n + 1);
    }
    if (status == GR_OK) {
        status = hash_stream(job, fd, path, digest, err);
    }
    (void)close(fd);
    if (status != GR_OK) {
        gr_digest_free(digest);
        return status;
    }
    return gr_digest_end(digest, found, err) == GR_OK
               ? GR_OK
               : gr_fail(err, GR_ERR_IO, "%s: the OpenSSL of this system offers no %s", path,
                         item->git ? "SHA-1" : "SHA-256");
}

/* ---- the whole ---- */

/* Fills in sizes and the total; checksums out of link names when `linked` (set when there is one) is not NULL. */
static enum gr_status examine(struct job *job, struct list *files, bool *linked, struct gr_err *err)
{
    for (size_t i = 0; i < files->n; i++) {
        struct item *item = &files->v[i];
        char path[GR_PATH_BYTES];
        struct stat st;
        GR_TRY(gr_path_join(path, job->dir, item->name, err));
        item->there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (item->there) {
            item->bytes = (uint64_t)st.st_size;
            job->total += item->bytes;
        }
        if (linked != NULL && hub_sum(path, item)) {
            *linked = true;
        }
    }
    return GR_OK;
}

static enum gr_status check_item(struct job *job, const struct item *item, char found[SHA256_HEX + 1],
                                 struct gr_verify_file *out, struct gr_verify_counts *counts, struct gr_err *err)
{
    *out = (struct gr_verify_file){.name = item->name, .kind = item->git ? "git" : "sha256", .bytes = item->bytes};
    out->expected = item->expected[0] == '\0' ? NULL : item->expected;
    if (!item->there) {
        out->result = GR_VERIFY_MISSING;
        counts->missing++;
        return GR_OK;
    }
    GR_TRY(hash_file(job, item, found, err));
    out->found = found;
    counts->bytes += item->bytes;
    if (out->expected == NULL) {
        out->result = GR_VERIFY_UNKNOWN;
        counts->unknown++;
    } else if (strcmp(out->expected, found) == 0) {
        out->result = GR_VERIFY_OK;
        counts->ok++;
    } else {
        out->result = GR_VERIFY_MISMATCH;
        counts->mismatch++;
    }
    return GR_OK;
}

static enum gr_status verdict(const char *dir, const struct gr_verify_counts *counts, const char *first_bad,
                              struct gr_err *err)
{
    if (counts->mismatch + counts->missing > 0) {
        return gr_fail(err, GR_ERR_CHECK, "%s: %zu files differ from their checksum, %zu are missing; first: %s", dir,
                       counts->mismatch, counts->missing, first_bad);
    }
    if (counts->ok == 0) {
        return gr_fail(
            err, GR_ERR_CHECK,
            "%s: no checksum is known for any of its %zu files: no SHA256SUMS, and not a download of the Hub's client",
            dir, counts->unknown);
    }
    return GR_OK;
}

/* Everything before hashing: which files, which checksums. */
static enum gr_status collect(struct job *job, const char *sums_path, struct list *files,
                              struct gr_verify_counts *counts, struct gr_err *err)
{
    char own_sums[GR_PATH_BYTES];
    struct list sums = {0};
    GR_TRY(gr_fs_need_dir(job->dir, GR_ERR_FORMAT, err));
    GR_TRY(gr_path_join(own_sums, job->dir, "SHA256SUMS", err));
    if (sums_path == NULL && gr_fs_is_file(own_sums)) {
        sums_path = own_sums;
    }
    GR_TRY(scan(job->dir, "", 0, files, err));
    list_sort(files);
    if (sums_path == NULL) {
        bool linked = false, recorded = false;
        GR_TRY(add_records(job->dir, files, &recorded, err));
        GR_TRY(examine(job, files, &linked, err)); /* a link's name goes before a record */
        counts->source = linked ? "Hub cache" : recorded ? "Hub download" : "none";
        return GR_OK;
    }
    counts->source = "sums file";
    drop_file(files, job->dir, sums_path);
    enum gr_status status = read_sums(sums_path, &sums, err);
    if (status == GR_OK) {
        status = merge_sums(files, &sums, err);
    }
    list_free(&sums);
    return status == GR_OK ? examine(job, files, NULL, err) : status;
}

enum gr_status gr_verify_dir(const char *dir, const char *sums_path, gr_progress_fn progress, void *progress_user,
                             void (*each)(void *user, const struct gr_verify_file *file), void *each_user,
                             struct gr_verify_counts *counts, struct gr_err *err)
{
    struct job job = {.dir = dir, .progress = progress, .progress_user = progress_user, .chunk = malloc(CHUNK)};
    struct list files = {0};
    const char *first_bad = NULL;
    *counts = (struct gr_verify_counts){.source = "none"};
    enum gr_status status = job.chunk == NULL ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory to hash", dir)
                                              : collect(&job, sums_path, &files, counts, err);
    for (size_t i = 0; status == GR_OK && i < files.n; i++) {
        char found[SHA256_HEX + 1];
        struct gr_verify_file file;
        status = check_item(&job, &files.v[i], found, &file, counts, err);
        if (status != GR_OK) {
            break;
        }
        if (first_bad == NULL && (file.result == GR_VERIFY_MISMATCH || file.result == GR_VERIFY_MISSING)) {
            first_bad = file.name;
        }
        if (each != NULL) {
            each(each_user, &file);
        }
    }
    if (status == GR_OK) {
        show_progress(&job, true);
        status = verdict(dir, counts, first_bad, err);
    }
    list_free(&files);
    free(job.chunk);
    return status;
}
