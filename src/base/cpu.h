/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h: what this CPU can do and how many of them this process may use. */
#ifndef GR_BASE_CPU_H
#define GR_BASE_CPU_H

#include "base/err.h"

enum gr_cpu_flags {
    GR_CPU_AVX2 = 1 << 0, /* AVX2, FMA, F16C */
    GR_CPU_AVXVNNI = 1 << 1,
    GR_CPU_AVX512 = 1 << 2, /* F, BW, DQ, VL */
    GR_CPU_AVX512VNNI = 1 << 3,
    GR_CPU_AVX512FP16 = 1 << 4,
    GR_CPU_AVX512BF16 = 1 << 5,
    GR_CPU_AMX = 1 << 6 /* tiles, int8 and bf16; the system grants the tile registers to this process */
};

/* Flags of this CPU and operating system. Without AVX-512 state saved by the system (or under valgrind) that bit is off. */
unsigned gr_cpu_detect(void);
/* Flags limited by a name: "scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512fp16", "avx512bf16", "amx": everything up to and
 * including it, or a list "avx2,avx512". NULL: no limit. GR_ERR_USAGE on an unknown name (lists the known ones),
 * GR_ERR_DEVICE when this CPU lacks it. */
enum gr_status gr_cpu_mask(const char *name, unsigned *flags, struct gr_err *err);
/* Name of the highest set in flags: "scalar" ... "amx". */
const char *gr_cpu_best(unsigned flags);
/* CPUs this process may really use: min(affinity mask, cgroup v1/v2 CPU quota rounded down), at least 1. */
int gr_cpu_count(void);
/* The same with its reason: "2 CPUs of the affinity mask", "cgroup quota 1.5 of 2 CPUs". */
enum { GR_CPU_WHY_BYTES = 64 };
int gr_cpu_count_why(char why[GR_CPU_WHY_BYTES]);
/* The quota part of it: `cgroup_file` as /proc/self/cgroup, `cgroup_root` as /sys/fs/cgroup. CPUs, rounded down, at least 1; 0: no limit.
 * The smallest quota on the way from the process's own group up to the root holds. */
int gr_cpu_quota(const char *cgroup_file, const char *cgroup_root);
/* "Intel(R) Xeon(R) ..." from CPUID; "unknown CPU" elsewhere. */
const char *gr_cpu_name(void);

#endif
