/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.c: instruction sets from CPUID, their names, and the number of CPUs this process may use. CPUID alone is not enough:
 * the operating system must save the wide registers (XGETBV), and a container may hold far fewer CPUs than the machine. */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define HAVE_CPUID 1
#else
#define HAVE_CPUID 0
#endif

enum { SMALL_FILE = 1 << 16, MAPS_FILE = 16 << 20, CPUS_MAX = 1 << 16 };

static const struct {
    const char *name;
    unsigned flag;
} levels[] = {
    {"scalar", 0},
    {"avx2", GR_CPU_AVX2},
    {"avxvnni", GR_CPU_AVXVNNI},
    {"avx512", GR_CPU_AVX512},
    {"avx512vnni", GR_CPU_AVX512VNNI},
    {"avx512fp16", GR_CPU_AVX512FP16},
    {"avx512bf16", GR_CPU_AVX512BF16},
    {"amx", GR_CPU_AMX},
};
enum { LEVELS = sizeof levels / sizeof levels[0] };

/* Valgrind 3.19 does not know AVX-512; its preloaded library gives it away. */
static bool under_valgrind(void)
{
    char *maps = NULL;
    size_t n = 0;
    struct gr_err ignored;
    if (gr_fs_read("/proc/self/maps", MAPS_FILE, &maps, &n, &ignored) != GR_OK) {
        return false;
    }
    bool found = strstr(maps, "/vgpreload_") != NULL;
    free(maps);
    return found;
}

#if HAVE_CPUID
static uint64_t saved_states(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool bit(unsigned reg, int i) { return (reg >> i & 1u) != 0; }

/* The tile registers are 8 KiB of state that Linux saves for a process only after it has asked (threads started later inherit it). */
static bool granted_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

static unsigned detect(void)
{
    unsigned a, b, c, d, a1, b1, c1, d1, flags = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27) /* OSXSAVE */ || !bit(c, 28) /* AVX */) {
        return 0;
    }
    uint64_t xcr0 = saved_states();
    bool fma = bit(c, 12), f16c = bit(c, 29);
    if ((xcr0 & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return 0;
    }
    if (!bit(b, 5) || !fma || !f16c) {
        return 0;
    }
    flags |= GR_CPU_AVX2;
    bool has1 = a >= 1 && __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
    if (has1 && bit(a1, 4)) {
        flags |= GR_CPU_AVXVNNI;
    }
    bool wide = (xcr0 & 0xe6) == 0xe6 && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31); /* F, DQ, BW, VL */
    if (wide) {
        flags |= GR_CPU_AVX512;
        flags |= bit(c, 11) ? GR_CPU_AVX512VNNI : 0u;
        flags |= bit(d, 23) ? GR_CPU_AVX512FP16 : 0u;
        flags |= has1 && bit(a1, 5) ? GR_CPU_AVX512BF16 : 0u;
        /* 17 and 18: tile configuration and data in XCR0; 22, 24, 25: AMX-BF16, AMX-TILE, AMX-INT8. */
        bool amx = (xcr0 & 0x60000) == 0x60000 && bit(d, 22) && bit(d, 24) && bit(d, 25);
        flags |= amx && granted_tiles() ? GR_CPU_AMX : 0u;
    }
    return flags;
}
#else
static unsigned detect(void) { return 0; }
#endif

unsigned gr_cpu_detect(void)
{
    unsigned flags = detect();
    if ((flags & ~(unsigned)GR_CPU_AVX2) != 0 && under_valgrind()) {
        flags &= GR_CPU_AVX2;
    }
    return flags;
}

/* Index of the level called text[0..n), -1 when there is none. */
static int find_level(const char *text, size_t n)
{
    for (int i = 0; i < LEVELS; i++) {
        if (strlen(levels[i].name) == n && memcmp(levels[i].name, text, n) == 0) {
            return i;
        }
    }
    return -1;
}

enum gr_status gr_cpu_mask(const char *name, unsigned *flags, struct gr_err *err)
{
    if (name == NULL) {
        return GR_OK;
    }
    bool list = strchr(name, ',') != NULL;
    unsigned keep = 0;
    for (const char *p = name;; p++) {
        size_t n = strcspn(p, ",");
        int level = find_level(p, n);
        if (level < 0) {
            return gr_fail(err, GR_ERR_USAGE,
                           "unknown instruction set \"%.*s\", expected one of scalar, avx2, avxvnni, "
                           "avx512, avx512vnni, avx512fp16, avx512bf16, amx",
                           (int)(n < 80 ? n : 80), p);
        }
        if ((levels[level].flag & ~*flags) != 0) {
            return gr_fail(err, GR_ERR_DEVICE, "this CPU (%s) has no %s", gr_cpu_name(), levels[level].name);
        }
        for (int i = list ? level : 0; i <= level; i++) {
            keep |= levels[i].flag;
        }
        p += n;
        if (*p == '\0') {
            break;
        }
    }
    *flags &= keep;
    return GR_OK;
}

const char *gr_cpu_best(unsigned flags)
{
    int best = 0;
    for (int i = 1; i < LEVELS; i++) {
        best = (flags & levels[i].flag) != 0 ? i : best;
    }
    return levels[best].name;
}

/* First lines of a small file; false when there is none. */
static bool small_file(const char *dir, const char *name, char *out, size_t cap)
{
    char path[GR_PATH_BYTES];
    char *data = NULL;
    size_t n = 0;
    struct gr_err ignored;
    if (gr_path_join(path, dir, name, &ignored) != GR_OK ||
        gr_fs_read(path, SMALL_FILE, &data, &n, &ignored) != GR_OK) {
        return false;
    }
    bool fits = n < cap;
    if (fits) {
        memcpy(out, data, n + 1);
    }
    free(data);
    return fits;
}

/* Thousandths of a CPU that quota microseconds in each period are, at least 1; 0 when that is no limit. */
static int milli_cpus_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    double milli = 1000.0 * (double)quota / (double)period;
    return milli > 1000.0 * CPUS_MAX ? 1000 * CPUS_MAX : milli < 1.0 ? 1 : (int)milli;
}

static int quota_v2(const char *dir)
{
    char text[128];
    long long quota, period;
    if (!small_file(dir, "cpu.max", text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) {
        return 0; /* "max 100000" */
    }
    return milli_cpus_of(quota, period);
}

static int quota_v1(const char *dir)
{
    char quota[64], period[64];
    if (!small_file(dir, "cpu.cfs_quota_us", quota, sizeof quota) ||
        !small_file(dir, "cpu.cfs_period_us", period, sizeof period)) {
        return 0;
    }
    return milli_cpus_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

static int smaller(int a, int b) { return a == 0 ? b : b == 0 ? a : a < b ? a : b; }

/* Smallest quota from root + group up to root. In a container the group may be named as the host sees it, where nothing
 * is mounted: those steps give nothing and the root, which is then the container's own group, decides. */
static int quota_upwards(const char *root, const char *group, int (*quota_of)(const char *dir))
{
    char path[GR_PATH_BYTES];
    size_t root_len = strlen(root), n = strlen(group);
    int best = 0;
    if (root_len + n >= sizeof path) {
        return 0;
    }
    memcpy(path, root, root_len);
    if (strstr(group, "/..") == NULL) {
        memcpy(path + root_len, group, n);
    } else {
        n = 0;
    }
    for (;;) {
        path[root_len + n] = '\0';
        best = smaller(best, quota_of(path));
        if (n == 0) {
            return best;
        }
        do {
            n--;
        } while (n > 0 && path[root_len + n] != '/');
    }
}

/* True when the comma-separated list text[0..n) has the word "cpu". */
static bool has_cpu(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = strcspn(text + i, ",:");
        if (len == 3 && memcmp(text + i, "cpu", 3) == 0) {
            return true;
        }
        i += len + 1;
    }
    return false;
}

/* One line of the cgroup file: "<number>:<controllers>:<group>". */
static int quota_of_line(const char *line, const char *root)
{
    const char *controllers = strchr(line, ':');
    const char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
        return 0;
    }
    controllers++;
    static const char *const v1_mounts[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
    static const char *const v2_mounts[] = {"", "unified"};
    bool v2 = controllers == group;
    if (!v2 && !has_cpu(controllers, (size_t)(group - controllers))) {
        return 0;
    }
    const char *const *mounts = v2 ? v2_mounts : v1_mounts;
    size_t count = v2 ? sizeof v2_mounts / sizeof *v2_mounts : sizeof v1_mounts / sizeof *v1_mounts;
    int best = 0;
    for (size_t i = 0; i < count; i++) {
        char mount[GR_PATH_BYTES];
        int n = snprintf(mount, sizeof mount, "%s%s%s", root, mounts[i][0] != '\0' ? "/" : "", mounts[i]);
        if (n > 0 && (size_t)n < sizeof mount) {
            best = smaller(best, quota_upwards(mount, group + 1, v2 ? quota_v2 : quota_v1));
        }
    }
    return best;
}

/* The quota in thousandths of a CPU, 0: no limit. */
static int milli_quota(const char *cgroup_file, const char *cgroup_root)
{
    char *text = NULL, *rest = NULL;
    size_t n = 0;
    struct gr_err ignored;
    if (gr_fs_read(cgroup_file, SMALL_FILE, &text, &n, &ignored) != GR_OK) {
        return 0;
    }
    int best = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        best = smaller(best, quota_of_line(line, cgroup_root));
    }
    free(text);
    return best;
}

/* Rounded down: with a thread more than the quota pays for, all of them stand still for the rest of each period. */
static int whole_cpus(int milli) { return milli == 0 ? 0 : milli < 1000 ? 1 : milli / 1000; }

int gr_cpu_quota(const char *cgroup_file, const char *cgroup_root)
{
    return whole_cpus(milli_quota(cgroup_file, cgroup_root));
}

static int affinity_count(void)
{
    for (int cpus = 1024; cpus <= CPUS_MAX; cpus *= 2) { /* the call refuses a set smaller than the kernel's */
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) {
            return 1;
        }
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) {
            return count;
        }
    }
    return 1;
}

int gr_cpu_count_why(char why[GR_CPU_WHY_BYTES])
{
    int mask = affinity_count(), milli = milli_quota("/proc/self/cgroup", "/sys/fs/cgroup"), quota = whole_cpus(milli);
    if (quota == 0 || quota >= mask) {
        snprintf(why, GR_CPU_WHY_BYTES, "%d CPU%s of the affinity mask", mask, mask == 1 ? "" : "s");
        return mask;
    }
    snprintf(why, GR_CPU_WHY_BYTES, "cgroup quota %d.%0*d of %d CPUs", milli / 1000, milli % 100 == 0 ? 1 : 3,
             milli % 100 == 0 ? milli % 1000 / 100 : milli % 1000, mask);
    return quota;
}

int gr_cpu_count(void)
{
    char why[GR_CPU_WHY_BYTES];
    return gr_cpu_count_why(why);
}

static char cpu_name[64];
static pthread_once_t cpu_name_once = PTHREAD_ONCE_INIT;

static void read_cpu_name(void)
{
    char raw[49] = {0};
#if HAVE_CPUID
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++) {
            unsigned regs[4];
            (void)__get_cpuid(0x80000002u + i, &regs[0], &regs[1], &regs[2], &regs[3]);
            memcpy(raw + 16 * i, regs, 16);
        }
    }
#endif
    size_t w = 0;
    for (const char *p = raw; *p != '\0'; p++) { /* the vendor pads with blanks, also in front */
        if (*p != ' ' || (w > 0 && cpu_name[w - 1] != ' ')) {
            cpu_name[w++] = *p;
        }
    }
    while (w > 0 && cpu_name[w - 1] == ' ') {
        w--;
    }
    cpu_name[w] = '\0';
    if (w == 0) {
        memcpy(cpu_name, "unknown CPU", sizeof "unknown CPU");
    }
}

const char *gr_cpu_name(void)
{
    (void)pthread_once(&cpu_name_once, read_cpu_name);
    return cpu_name;
}
