/* SPDX-License-Identifier: Apache-2.0
 *
 * check_support.c: random numbers, guarded memory, packing and verdicts of the kernel checker; see check.h. */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY_FLOATS = 64, SHOWN = 3, PAGE = 4096 };
#define CANARY_BITS 0x7fa5a5a5u /* a NaN: reading it by mistake shows in the result */

struct gr_kernels check_sets[SETS_MAX];
const char *check_names[SETS_MAX];
int check_set_count;

static uint64_t state = 1;
static struct {
    char *base; /* mapping of `bytes` and one unreadable page behind it */
    size_t bytes;
    float *start; /* what check_slot returned */
} slots[SLOTS];
static char case_text[256];
static const char *group_name = "";
static int failures[SETS_MAX], used[SETS_MAX], cases, lines, broken;

/* splitmix64 */
static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void check_seed(uint64_t seed) { state = seed; }

int check_below(int n) { return (int)(next() >> 33) % n; }

static float uniform(void) { return (float)(next() >> 40) * 0x1p-23f - 1.0f; }

float check_value(enum check_family family)
{
    static float last = 1.0f;
    switch (family) {
    case FAMILY_LARGE:
        return 1e4f * uniform();
    case FAMILY_CANCEL:
        last = last > 0.0f ? -last * (1.0f + 1e-4f * uniform()) : 2.0f + uniform();
        return last;
    case FAMILY_DENORMAL:
        return 1e-40f * uniform();
    case FAMILY_SPREAD:
        return ldexpf(uniform(), check_below(33) - 16);
    case FAMILY_ZERO:
        return check_below(20) == 0 ? 1.0f : check_below(2) == 0 ? 0.0f : -0.0f;
    default:
        return uniform() + uniform() + uniform();
    }
}

void check_fill(float *x, size_t n, enum check_family family)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = check_value(family);
    }
}

float check_canary(void)
{
    const uint32_t bits = CANARY_BITS;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int check_is_canary(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == CANARY_BITS;
}

static void fill_canary(float *x, size_t n)
{
    const float c = check_canary();
    for (size_t i = 0; i < n; i++) {
        memcpy(x + i, &c, sizeof c);
    }
}

void *check_slot(int id, size_t bytes)
{
    const size_t need = (bytes + CANARY_FLOATS * sizeof(float) + PAGE - 1) / PAGE * PAGE;
    if (slots[id].bytes < need) {
        if (slots[id].base != NULL) {
            munmap(slots[id].base, slots[id].bytes + PAGE);
        }
        slots[id].base = mmap(NULL, need + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slots[id].base == MAP_FAILED || mprotect(slots[id].base + need, PAGE, PROT_NONE) != 0) {
            printf("Bail out! no memory for a slot of %zu bytes\n", need);
            exit(1);
        }
        slots[id].bytes = need;
    }
    slots[id].start = (float *)(void *)(slots[id].base + slots[id].bytes - bytes);
    fill_canary(slots[id].start - CANARY_FLOATS, CANARY_FLOATS + bytes / sizeof(float));
    return slots[id].start;
}

float *check_floats(int id, size_t n) { return check_slot(id, n * sizeof(float)); }

void *check_scratch(int slot, size_t bytes) { return check_slot(slot, (bytes + 63) / 64 * 64); }

/* ---- verdicts ---- */

static void on_fault(int number)
{
    char text[512];
    int n = snprintf(text, sizeof text, "Bail out! signal %d (access outside a buffer) in %s: %s\n", number, group_name,
                     case_text);
    ssize_t ignored = write(STDOUT_FILENO, text, n > 0 ? (size_t)n : 0);
    (void)ignored;
    _exit(1);
}

void check_begin(const char *group)
{
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    group_name = group;
    cases = 0;
    memset(failures, 0, sizeof failures);
    memset(used, 0, sizeof used);
}

int check_uses(int s, int own)
{
    used[s] |= own;
    return own;
}

void check_case(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(case_text, sizeof case_text, format, args);
    va_end(args);
    cases++;
}

static void fail(int s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(int s, const char *format, ...)
{
    if (failures[s]++ >= SHOWN) {
        return;
    }
    va_list args;
    va_start(args, format);
    printf("# %s, %s, %s: ", check_names[s], group_name, case_text);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

void check_near(int s, const char *what, int row, int column, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) { /* catches NaN */
        fail(s, "%s[%d][%d] is %.9g, expected %.9g within %.2g", what, row, column, got, want, tolerance);
    }
}

void check_true(int s, const char *what, int ok)
{
    if (!ok) {
        fail(s, "%s", what);
    }
}

void check_same(int s, const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof *a) != 0) {
            fail(s, "%s differs at %zu: %.9g and %.9g", what, i, (double)a[i], (double)b[i]);
            return;
        }
    }
}

void check_slots(int s)
{
    for (int id = 0; id < SLOTS; id++) {
        for (int i = 1; slots[id].start != NULL && i <= CANARY_FLOATS; i++) {
            if (!check_is_canary(slots[id].start[-i])) {
                fail(s, "wrote %d floats before the start of buffer %d", i, id);
                break;
            }
        }
    }
}

void check_end(void)
{
    for (int s = 0; s < check_set_count; s++) {
        if (!used[s]) {
            continue;
        }
        broken += failures[s] > 0;
        printf("%sok %d - %s %s (%d cases", failures[s] > 0 ? "not " : "", ++lines, check_names[s], group_name, cases);
        printf(failures[s] > 0 ? ", %d failures)\n" : ")\n", failures[s]);
    }
    fflush(stdout);
}

int check_finish(void)
{
    printf("1..%d\n", lines);
    return broken > 0;
}

/* ---- packing ---- */

float check_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Row of w that column c of panel p holds, -1 for a pad column. */
static int column_of(int p, int c, int n, int gate_up)
{
    if (!gate_up) {
        return p * GR_PANEL + c < n ? p * GR_PANEL + c : -1;
    }
    const int i = p * 16 + c % 16;
    return i < n / 2 ? i + (c / 16) * (n / 2) : -1;
}

struct gr_mat check_pack_weights(int slot, const float *w, int n, int k, enum gr_mat_format format, int gate_up)
{
    const int panels = gate_up ? (n / 2 + 15) / 16 : (n + GR_PANEL - 1) / GR_PANEL, k_pad = gr_pad16(k);
    struct gr_mat mat = {.format = format, .n = n, .k = k, .panels = panels};
    const size_t count = (size_t)panels * (size_t)k_pad * GR_PANEL;
    char *data = check_slot(slot, format == GR_MAT_F32 ? count * 4 : count * 2);
    float *f32 = (float *)(void *)data;
    uint16_t *bf16 = (uint16_t *)(void *)data;
    for (int p = 0; p < panels; p++) {
        for (int c = 0; c < GR_PANEL; c++) {
            const int row = column_of(p, c, n, gate_up);
            for (int i = 0; i < k_pad; i++) {
                const float x = row >= 0 && i < k ? w[(size_t)row * (size_t)k + (size_t)i] : 0.0f;
                const size_t line = ((size_t)p * (size_t)k_pad + (size_t)i) * GR_PANEL;
                uint32_t bits;
                memcpy(&bits, &x, sizeof bits);
                if (format == GR_MAT_F32) {
                    f32[line + (size_t)c] = x;
                } else { /* little end first: the low half is column c, the high half column c + 16 */
                    bf16[line + (size_t)(c % 16 * 2 + c / 16)] = (uint16_t)(bits >> 16);
                }
            }
        }
    }
    mat.data = data;
    return mat;
}

size_t check_acts_at(const struct gr_acts *a, int row, int k)
{
    int t = 0;
    while (row >= gr_tile_first(a->m, t + 1)) {
        t++;
    }
    const int first = gr_tile_first(a->m, t), rows = gr_tile_first(a->m, t + 1) - first;
    return (size_t)first * (size_t)a->k_pad + (size_t)(k / GR_CHUNK * rows + row - first) * GR_CHUNK +
           (size_t)(k % GR_CHUNK);
}

struct gr_acts check_pack_acts(int slot, const float *x, int m, int k)
{
    struct gr_acts a = {.m = m, .k = k, .k_pad = gr_pad16(k)};
    a.data = check_floats(slot, (size_t)m * (size_t)a.k_pad);
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < a.k_pad; i += GR_CHUNK) {
            float *to = (float *)a.data + check_acts_at(&a, r, i);
            for (int j = 0; j < GR_CHUNK; j++) {
                to[j] = i + j < k ? x[(size_t)r * (size_t)k + (size_t)(i + j)] : 0.0f;
            }
        }
    }
    return a;
}
