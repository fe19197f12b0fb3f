/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_cost.c: bh_cost [--RATE VALUE]... SNAPSHOT: builds the denoise program of a snapshot for a rectangle of tiles and prints what
 * an Euler step costs by the model of cost.h, stage by stage. A developer's tool: arithmetic with assumptions, not a measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "device/blackhole/bh_request.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "model/weights.h"

/* Denoise of the published card (SERVING.md, caveats): 15.3 ms for four steps. */
#define PUBLISHED_MS 3.84

struct options {
    struct bh_cost_rates rates;
    double width, height, text_rows, ring_kb, phases, bf16, own_back, pack_functions, whole, max_tokens;
    const char *snapshot;
};
static const struct {
    const char *name;
    size_t offset;
    double value;
    const char *help;
} shape[] = {
    {"width", offsetof(struct options, width), 8, "tiles of the group along x"},
    {"height", offsetof(struct options, height), 6, "and along y"},
    {"whole", offsetof(struct options, whole), 0, "1: a whole predict, on the tiles that it chooses of width x height"},
    {"max_tokens", offsetof(struct options, max_tokens), 128, "its rows of the language model"},
    {"text_rows", offsetof(struct options, text_rows), 35, "most rows that text blocks see"},
    {"ring_kb", offsetof(struct options, ring_kb), 0, "KiB of the ring; 0: two of the longest chunk"},
    {"phases", offsetof(struct options, phases), 3, "fidelity phases of weight products"},
    {"bf16", offsetof(struct options, bf16), 0, "1: weights as bf16, 0: as bfp8_b"},
    {"own_back", offsetof(struct options, own_back), 0, "1: dependencies by addresses, not by the program's `back`"},
    {"pack_functions", offsetof(struct options, pack_functions), 0,
     "1: what if T2 pushed the SFPU's functions, not T1"},
};
enum { SHAPES = sizeof shape / sizeof shape[0], GRID = 140 };

/* ---- the command line ---- */

static int usage(FILE *to)
{
    (void)fprintf(to, "usage: bh_cost [--NAME VALUE]... SNAPSHOT\n\n");
    for (int i = 0; i < SHAPES; i++) {
        (void)fprintf(to, "  --%-18s %7g %-8s %s\n", shape[i].name, shape[i].value, "", shape[i].help);
    }
    (void)fprintf(to, "\nrates, with their sources:\n");
    for (int i = 0; i < bh_cost_rate_count; i++) {
        const struct bh_cost_rate *r = &bh_cost_rate[i];
        (void)fprintf(to, "  --%-18s %7g %-8s %s\n", r->name, r->value, r->unit, r->source);
    }
    return to == stdout ? 0 : 2;
}

static double *find(struct options *o, const char *name)
{
    for (int i = 0; i < SHAPES; i++) {
        if (strcmp(shape[i].name, name) == 0) {
            return (double *)((char *)o + shape[i].offset);
        }
    }
    for (int i = 0; i < bh_cost_rate_count; i++) {
        if (strcmp(bh_cost_rate[i].name, name) == 0) {
            return (double *)((char *)&o->rates + bh_cost_rate[i].offset);
        }
    }
    return NULL;
}

static bool parse(int argc, char **argv, struct options *o)
{
    bh_cost_defaults(&o->rates);
    for (int i = 0; i < SHAPES; i++) {
        *(double *)((char *)o + shape[i].offset) = shape[i].value;
    }
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (o->snapshot != NULL) {
                return false;
            }
            o->snapshot = argv[i];
            continue;
        }
        double *value = find(o, argv[i] + 2);
        char *end = NULL;
        if (value == NULL || i + 1 == argc) {
            return false;
        }
        *value = strtod(argv[++i], &end);
        if (*end != 0 || !(*value >= 0) || *value > 1e9) {
            return false;
        }
    }
    return o->snapshot != NULL && o->width >= 1 && o->width <= 14 && o->height >= 1 && o->height <= 10 &&
           o->phases >= 1 && o->phases <= 4 && o->rates.clock_mhz > 0 && o->rates.dram_gb > 0 &&
           o->rates.dram_percent > 0 && o->rates.unpack_bytes > 0 && o->rates.pack_bytes > 0 && o->rates.noc_bytes > 0;
}

/* ---- the program ---- */

struct network {
    struct gr_config *cfg;
    struct gr_snapshot *snap;
    struct gr_weights *w;
    struct gr_bh_denoise_weights *head;
    uint32_t xy[GRID];
    struct gr_bh_grid grid;
    struct gr_bh_build *build;
    struct gr_bh_request *request;
    const struct gr_bh_program *program;
};

static void make_grid(struct network *n, int width, int height)
{
    for (int i = 0; i < width * height; i++) {
        const uint32_t x = 1 + (uint32_t)(i % width), y = 2 + (uint32_t)(i / width);
        n->xy[i] = (x > 7 ? x + 2 : x) | y << 6; /* columns 8 and 9 are no Tensix */
    }
    n->grid =
        (struct gr_bh_grid){.tiles = width * height, .xy = n->xy, .xy0 = n->xy[0], .xy1 = n->xy[width * height - 1]};
}

static enum gr_bh_format weights_of(const struct options *o) { return o->bf16 > 0 ? GR_BH_BF16 : GR_BH_BFP8; }

/* The image token, left out, matters to inputs alone. */
static enum gr_status build_whole(struct network *n, const struct options *o, struct gr_err *err)
{
    const struct gr_bh_request_cfg cfg = {.w = n->w,
                                          .slot = n->cfg->emb.slot,
                                          .max_tokens = (int)o->max_tokens,
                                          .columns = (int)o->width,
                                          .rows = (int)o->height,
                                          .weights = weights_of(o),
                                          .backbone_weights = GR_BH_BF16, /* as the device */
                                          .weight_phases = (int)o->phases};
    GR_TRY(gr_bh_request_new(&cfg, &n->request, err));
    n->program = gr_bh_request_program(n->request);
    return GR_OK;
}

static enum gr_status build(struct network *n, const struct options *o, struct gr_err *err)
{
    GR_TRY(gr_config_open(o->snapshot, "gr1", &n->cfg, err));
    GR_TRY(gr_snapshot_open(o->snapshot, &n->snap, err));
    GR_TRY(gr_weights_open(n->snap, n->cfg, NULL, NULL, &n->w, err));
    if (o->whole > 0) {
        return build_whole(n, o, err);
    }
    GR_TRY(gr_bh_denoise_weights_new(n->w, n->cfg->emb.slot, &n->head, err));
    make_grid(n, (int)o->width, (int)o->height);
    const struct gr_bh_build_cfg cfg = {.grid = &n->grid,
                                        .weights = weights_of(o),
                                        .weight_phases = (int)o->phases,
                                        .ring_bytes = (uint32_t)(o->ring_kb * 1024)};
    GR_TRY(gr_bh_build_new(&cfg, &n->build, err));
    const struct gr_bh_denoise d = {.w = n->head,
                                    .text_rows = (int)o->text_rows,
                                    .image_rows = n->w->dims.vit.tokens,
                                    .steps = n->w->dims.dit.steps};
    gr_bh_emit_denoise(n->build, &d);
    return gr_bh_build_finish(n->build, &n->program, err);
}

static void close_network(struct network *n)
{
    gr_bh_request_free(n->request);
    gr_bh_build_free(n->build);
    gr_bh_denoise_weights_free(n->head);
    gr_weights_free(n->w);
    gr_config_free(n->cfg);
    gr_snapshot_close(n->snap);
}

/* ---- what is printed ---- */

/* A row of counts(). */
static void print_counts(const char *name, const struct bh_cost_sums *s)
{
    printf("%-32s %5llu %8.1f %9.1f %8.1f %7.1f %7.1f %7.1f %8.2f %8.2f %5llu\n", name,
           (unsigned long long)s->operations, (double)s->read_bytes / 1e6, (double)s->passes / 1e3,
           (double)s->elements / 1e3, (double)s->pairs / 1e3, (double)s->functions / 1e3, (double)s->packs / 1e3,
           (double)s->sent_bytes / 1e6, (double)s->multicast_bytes / 1e6, (unsigned long long)s->barriers);
}

static void counts(const struct bh_cost_result *r, const struct bh_cost_stages *st, int round)
{
    printf("\nWork of all tiles (thousands; MB):\n%-32s %5s %8s %9s %8s %7s %7s %7s %8s %8s %5s\n", "stage", "ops",
           "stream", "products", "elements", "pairs", "SFPU", "packs", "sent", "multicast", "barr.");
    for (int i = st->n - 1; i >= 0; i--) {
        const struct bh_cost_sums s = bh_cost_total(r, round, i);
        if (s.operations > 0) {
            print_counts(st->name[i], &s);
        }
    }
    const struct bh_cost_sums s = bh_cost_total(r, round, -1);
    print_counts("together", &s);
}

static void busy(const struct bh_cost_result *r, const struct bh_cost_stages *st, int round, double clock_mhz)
{
    printf("\nBusy, us of the tile with most of it (what the parts would take one after the other):\n%-32s %8s",
           "stage", "time");
    for (int u = 0; u < BH_COST_UNITS; u++) {
        printf(" %8s", bh_cost_unit_name[u]);
    }
    for (int i = st->n - 1; i >= -1; i--) {
        const struct bh_cost_sums s = bh_cost_total(r, round, i);
        if (s.operations > 0) {
            printf("\n%-32s %8.1f", i < 0 ? "together" : st->name[i], s.clocks / clock_mhz);
            for (int u = 0; u < BH_COST_UNITS; u++) {
                printf(" %8.1f", s.busy[u] / clock_mhz);
            }
        }
    }
    printf("\n");
}

/* For every unit the walk as if it took no time: what is gained, by stage. The bound of a stage is the unit that would gain most. */
static enum gr_status gains(const struct bh_cost_run *run, const struct bh_cost_result *base,
                            const struct bh_cost_stages *st, int round, struct gr_err *err)
{
    struct bh_cost_result r[BH_COST_UNITS + 1] = {0};
    enum gr_status status = GR_OK;
    for (int u = 0; u <= BH_COST_UNITS && status == GR_OK; u++) {
        struct bh_cost_run what_if = *run;
        what_if.free_units = u < BH_COST_UNITS ? 1u << u : 0;
        what_if.own_back = run->own_back || u == BH_COST_UNITS;
        status = bh_cost_walk(&what_if, &r[u], err);
    }
    const double mhz = run->rates.clock_mhz;
    if (status == GR_OK) {
        printf(
            "\nGain, us, if a unit took no time, or if operations waited only for what they need (order):\n%-32s %8s",
            "stage", "time");
        for (int u = 0; u < BH_COST_UNITS; u++) {
            printf(" %8s", bh_cost_unit_name[u]);
        }
        printf(" %8s  bound\n", "order");
    }
    for (int i = st->n - 1; i >= -1 && status == GR_OK; i--) {
        const struct bh_cost_sums s = bh_cost_total(base, round, i);
        int most = 0;
        double gain[BH_COST_UNITS + 1];
        for (int u = 0; u <= BH_COST_UNITS; u++) {
            gain[u] = (s.clocks - bh_cost_total(&r[u], round, i).clocks) / mhz;
            most = gain[u] > gain[most] ? u : most;
        }
        if (s.operations > 0) {
            printf("%-32s %8.1f", i < 0 ? "together" : st->name[i], s.clocks / mhz);
            for (int u = 0; u <= BH_COST_UNITS; u++) {
                printf(" %8.1f", gain[u]);
            }
            printf("  %s\n", most < BH_COST_UNITS ? bh_cost_unit_name[most] : "order");
        }
    }
    for (int u = 0; u <= BH_COST_UNITS; u++) {
        bh_cost_free(&r[u]);
    }
    return status;
}

static enum gr_status report(const struct network *n, const struct options *o, struct gr_err *err)
{
    const struct gr_bh_program *p = n->program;
    struct bh_cost_stages st;
    struct bh_cost_result r;
    GR_TRY(bh_cost_stages_new(p, weights_of(o), &st, err));
    const struct bh_cost_run run = {.program = p,
                                    .rates = o->rates,
                                    .own_back = o->own_back > 0,
                                    .pack_functions = o->pack_functions > 0,
                                    .stage = st.stage,
                                    .stages = st.n};
    enum gr_status status = bh_cost_walk(&run, &r, err);
    if (status == GR_OK) {
        const struct gr_bh_head *h = p->list[0];
        const double ms = 1 / o->rates.clock_mhz / 1e3;
        const int step = r.rounds > 3 ? 2 : 1; /* the first fills the ring */
        printf("Arithmetic on the operation lists with assumed rates (--help), not a measurement.\n"
               "%d tiles, %u operations a request, L1 %u of %u bytes, ring %u, lists %zu\n\nms:",
               p->grid->tiles, p->executed, p->l1_used, GR_BH_L1_END, h->ring_bytes, p->list_bytes);
        for (int i = 0; i < r.rounds; i++) {
            printf(i == 0              ? " before %.3f"
                   : i == r.rounds - 1 ? ", after %.3f"
                                       : ", step %.3f",
                   bh_cost_total(&r, i, -1).clocks * ms);
        }
        printf("; request %.3f\nThe published card: %.2f ms a step. Estimate: %.2f ms.\n", r.clocks * ms, PUBLISHED_MS,
               bh_cost_total(&r, step, -1).clocks * ms);
        if (o->whole > 0) {
            printf("\nBefore the steps:\n");
            counts(&r, &st, 0);
            busy(&r, &st, 0, o->rates.clock_mhz);
            printf("\nA step:\n");
        }
        counts(&r, &st, step);
        busy(&r, &st, step, o->rates.clock_mhz);
        status = gains(&run, &r, &st, step, err);
    }
    bh_cost_free(&r);
    bh_cost_stages_free(&st);
    return status;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct network n = {0};
    struct gr_err err = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        return usage(stdout);
    }
    if (!parse(argc, argv, &o)) {
        return usage(stderr);
    }
    enum gr_status status = build(&n, &o, &err);
    if (status == GR_OK) {
        status = report(&n, &o, &err);
    }
    if (status != GR_OK) {
        (void)fprintf(stderr, "bh_cost: %s\n", err.msg);
    }
    close_network(&n);
    return status == GR_OK ? 0 : 1;
}
