/* SPDX-License-Identifier: Apache-2.0
 *
 * gr_test.c: paths, files, SHA-256, temporary folders and skipping for the unit tests. */
#include "gr_test.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

enum { PATH_SLOTS = 16, PATH_SIZE = 4096, TEMP_MAX = 256 };

static char temp_dirs[TEMP_MAX][PATH_SIZE];
static int n_temp_dirs;

static char *path_slot(void)
{
    static char slots[PATH_SLOTS][PATH_SIZE];
    static unsigned next;
    return slots[next++ % PATH_SLOTS];
}

static const char *join_v(const char *dir, const char *fmt, va_list ap)
{
    char *out = path_slot();
    int n = snprintf(out, PATH_SIZE, "%s/", dir);
    if (n < 0 || n >= PATH_SIZE) {
        fail_msg("path too long: %s", dir);
    }
    int m = vsnprintf(out + n, (size_t)(PATH_SIZE - n), fmt, ap);
    if (m < 0 || m >= PATH_SIZE - n) {
        fail_msg("path too long below %s", dir);
    }
    return out;
}

const char *gr_test_source_root(void)
{
    const char *root = getenv("GR00T_SOURCE_ROOT");
    return root != NULL && root[0] != '\0' ? root : ".";
}

const char *gr_test_shared_root(void)
{
    static char path[PATH_SIZE];
    const char *env = getenv("GR00T_SHARED");
    if (env != NULL && env[0] != '\0') {
        snprintf(path, sizeof path, "%s", env);
    } else {
        snprintf(path, sizeof path, "%s/../shared", gr_test_source_root());
    }
    char probe[PATH_SIZE + 32];
    snprintf(probe, sizeof probe, "%s/spec/README.md", path);
    return access(probe, R_OK) == 0 ? path : NULL;
}

const char *gr_test_join(const char *dir, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *p = join_v(dir, fmt, ap);
    va_end(ap);
    return p;
}

const char *gr_test_source(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *p = join_v(gr_test_source_root(), fmt, ap);
    va_end(ap);
    return p;
}

const char *gr_test_shared(const char *fmt, ...)
{
    gr_test_need_shared();
    va_list ap;
    va_start(ap, fmt);
    const char *p = join_v(gr_test_shared_root(), fmt, ap);
    va_end(ap);
    return p;
}

void gr_test_skip(const char *fmt, ...)
{
    char why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    fprintf(stderr, "skipped: %s\n", why);
    skip();
    abort(); /* skip() leaves by longjmp; tells the compiler so */
}

void gr_test_need_shared(void)
{
    if (gr_test_shared_root() == NULL) {
        gr_test_skip("the shared folder is absent (set GR00T_SHARED to run the whole lists)");
    }
}

uint8_t *gr_test_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fail_msg("cannot open %s: %s", path, strerror(errno));
    }
    uint8_t *data = NULL;
    size_t len = 0, cap = 0;
    for (;;) {
        if (cap - len < 2) {
            cap = cap == 0 ? 65536 : 2 * cap;
            uint8_t *bigger = realloc(data, cap);
            if (bigger == NULL) {
                fclose(f);
                free(data);
                fail_msg("no memory for %s", path);
            }
            data = bigger;
        }
        size_t got = fread(data + len, 1, cap - len - 1, f);
        len += got;
        if (got == 0) {
            break;
        }
    }
    bool bad = ferror(f) != 0;
    fclose(f);
    if (bad) {
        free(data);
        fail_msg("cannot read %s", path);
    }
    data[len] = 0;
    if (n != NULL) {
        *n = len;
    }
    return data;
}

void gr_test_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        fail_msg("cannot create %s: %s", path, strerror(errno));
    }
    bool ok = n == 0 || fwrite(bytes, 1, n, f) == n;
    ok = fclose(f) == 0 && ok;
    if (!ok) {
        fail_msg("cannot write %s", path);
    }
}

bool gr_test_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

void gr_test_sha256(const void *bytes, size_t n, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (EVP_Digest(bytes, n, md, &len, EVP_sha256(), NULL) != 1 || len != 32) {
        fail_msg("SHA-256 failed");
    }
    for (unsigned i = 0; i < 32; i++) {
        hex[2 * i] = digits[md[i] >> 4];
        hex[2 * i + 1] = digits[md[i] & 15];
    }
    hex[64] = '\0';
}

const char *gr_test_temp_dir(void)
{
    if (n_temp_dirs == TEMP_MAX) {
        fail_msg("more than %d temporary folders", TEMP_MAX);
    }
    const char *base = getenv("TMPDIR");
    char *dir = temp_dirs[n_temp_dirs];
    int n = snprintf(dir, PATH_SIZE, "%s/gr00t-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
    if (n < 0 || n >= PATH_SIZE || mkdtemp(dir) == NULL) {
        fail_msg("cannot make a temporary folder: %s", strerror(errno));
    }
    n_temp_dirs++;
    return dir;
}

int gr_test_temp_clean(void **state)
{
    (void)state;
    while (n_temp_dirs > 0) {
        gr_test_remove_dir(temp_dirs[--n_temp_dirs]);
    }
    return 0;
}

void gr_test_copy_dir(const char *from, const char *to)
{
    if (mkdir(to, 0777) != 0 && errno != EEXIST) {
        fail_msg("cannot create %s: %s", to, strerror(errno));
    }
    DIR *d = opendir(from);
    if (d == NULL) {
        fail_msg("cannot open folder %s: %s", from, strerror(errno));
    }
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        char src[PATH_SIZE], dst[PATH_SIZE]; /* not the ring: this recurses */
        if (snprintf(src, sizeof src, "%s/%s", from, e->d_name) >= PATH_SIZE ||
            snprintf(dst, sizeof dst, "%s/%s", to, e->d_name) >= PATH_SIZE) {
            closedir(d);
            fail_msg("path too long below %s", from);
        }
        struct stat st;
        if (stat(src, &st) != 0) {
            closedir(d);
            fail_msg("cannot stat %s: %s", src, strerror(errno));
        }
        if (S_ISDIR(st.st_mode)) {
            gr_test_copy_dir(src, dst);
        } else {
            size_t n;
            uint8_t *bytes = gr_test_read(src, &n);
            gr_test_write(dst, bytes, n);
            free(bytes);
        }
    }
    closedir(d);
}

void gr_test_remove_dir(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        return;
    }
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char child[PATH_SIZE];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            snprintf(child, sizeof child, "%s/%s", path, e->d_name) >= PATH_SIZE || lstat(child, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            gr_test_remove_dir(child);
        } else {
            unlink(child);
        }
    }
    closedir(d);
    rmdir(path);
}

long gr_test_peak_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

double gr_test_cpu_ms(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void gr_test_check_failure(enum gr_status got, const struct gr_err *err, enum gr_status want, const char *text,
                           const char *call, const char *file, int line)
{
    if (got != want || err->code != want) {
        fail_msg("%s:%d: %s: expected status %s, got %s (%s)", file, line, call, gr_status_name(want),
                 gr_status_name(got), got == GR_OK ? "no message" : err->msg);
    }
    if (err->msg[0] == '\0' || strstr(err->msg, text) == NULL) {
        fail_msg("%s:%d: %s: message \"%s\" does not mention \"%s\"", file, line, call, err->msg, text);
    }
}
