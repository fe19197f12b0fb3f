/* SPDX-License-Identifier: Apache-2.0
 *
 * blackhole_device.c: the Blackhole device behind device.h: a chip, the whole predict as one resident program on its tiles, weights in its
 * DRAM. A predict writes the inputs, lets the program run once and reads the chunk.
 *
 * A fault of the chip is final: the tiles go into reset, and every later predict of this device fails with what happened. Nothing is computed
 * elsewhere instead. There is no reference path: who wants one compares with another device. */
#include "device/blackhole/blackhole_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "device/blackhole/arena.h"
#include "device/blackhole/bh_request.h"
#include "device/blackhole/chip.h"
#include "device/blackhole/chip_identity.h"
#include "device/blackhole/tensix.h"
#include "device/device.h"

enum {
    TEXT_TOKENS = 24,        /* layout gr1: a sequence of 128 rows */
    CARD_DEADLINE_MS = 5000, /* without a tile packed or an operation completed; a whole predict takes some 50 ms */
    SIM_DEADLINE_MS = 120000 /* the simulator takes 0.2 ms for a product, an operation has thousands */
};

enum { VISION, LLM, ADAPTER, STAGES }; /* before the steps */

/* In the last part of a program nothing is begun beside it: the answer would wait for that. */
enum { LAST_PART = 10 };

/* Of the next predict, what is written while one runs. */
struct ahead {
    uint64_t serial; /* whose inputs; 0: nobody's */
    struct gr_bh_ahead inputs;
    bool failed; /* its own predict will say why */
};

struct gr_device {
    struct gr_device_cfg cfg; /* texts are borrowed until the end of load */
    bool stops;               /* a launch for each tap */
    enum gr_bh_format weights;
    struct gr_dims dims;
    const struct gr_blackhole_stand_in *stand_in;
    struct gr_chip *chip;
    struct gr_bh_request *request;
    struct gr_bh_machine *machine;
    struct gr_chip_identity id;
    struct gr_card_info card;       /* its texts are in id or static */
    struct gr_bh_mark mark[STAGES]; /* their ends */
    gr_next_input_fn next;
    void *next_user;
    struct ahead ahead;
    uint64_t weight_bytes;
    enum gr_cache_state cache;
    char cache_file[GR_PATH_BYTES], cache_note[GR_ERR_MSG_BYTES]; /* "": none */
    struct gr_err fault;                                          /* code GR_OK: none */
};

static const struct gr_blackhole_stand_in *stand_in_now;

void gr_blackhole_use(const struct gr_blackhole_stand_in *s) { stand_in_now = s; }

/* ------------------------------------------------------------------------------------------------------- open and close */

static bool is(const char *text, const char *name) { return text != NULL && strcmp(text, name) == 0; }

static bool known(const char *text, const char *fallback, const char *a, const char *b)
{
    return text == NULL || is(text, fallback) || is(text, a) || is(text, b);
}

static enum gr_status check_settings(const struct gr_device_cfg *cfg, struct gr_err *err)
{
    if (!is(cfg->policy, "auto") || cfg->half != NULL) {
        return gr_fail(err, GR_ERR_USAGE,
                       "%s \"%.40s\" is for the CPU: the number format of weights on a card is bf16 or bfp8_b",
                       cfg->half != NULL ? "16-bit format" : "policy", cfg->half != NULL ? cfg->half : cfg->policy);
    }
    if (!known(cfg->arena, "auto", "bf16", "bfp8_b")) {
        return gr_fail(err, GR_ERR_USAGE, "weight format \"%.40s\" is unknown, expected auto, bf16 or bfp8_b",
                       cfg->arena);
    }
    if (!known(cfg->dit_backend, "megakernel", "ops", "ttnn")) {
        return gr_fail(err, GR_ERR_USAGE, "backend \"%.40s\" is unknown, expected megakernel or ops", cfg->dit_backend);
    }
    if (cfg->command_queues < 0 || cfg->command_queues > 2 || cfg->card < 0) {
        return gr_fail(err, GR_ERR_USAGE, "%d command queues on card %d, expected 1 or 2 on card 0 or higher",
                       cfg->command_queues, cfg->card);
    }
    return GR_OK;
}

/* Milliseconds, before gigabytes are read. A simulator is looked at when it is opened: it is one a process. */
static enum gr_status probe(const struct gr_device_cfg *cfg, struct gr_err *err)
{
    GR_TRY(check_settings(cfg, err));
    if (stand_in_now != NULL) {
        return GR_OK;
    }
    if (!gr_tensix_built()) {
        return gr_fail(err, GR_ERR_DEVICE, GR_TENSIX_NOT_BUILT);
    }
    if (cfg->simulator != NULL) {
        return GR_OK;
    }
    const struct gr_chip_cfg chip = {.id = cfg->card};
    struct gr_chip_identity id;
    bool busy = false;
    GR_TRY(gr_chip_peek(&chip, &id, &busy, err));
    return busy ? gr_fail(err, GR_ERR_DEVICE, "%s: busy: another gr00t holds the card (`gr00t ps` lists services)",
                          id.node)
                : GR_OK;
}

static void close_device(struct gr_device *dev)
{
    if (dev == NULL) {
        return;
    }
    if (dev->machine != NULL) {
        dev->machine->ops->close(dev->machine); /* cores into reset */
    }
    gr_bh_request_free(dev->request);
    gr_chip_close(dev->chip);
    free(dev);
}

static enum gr_status open_chip(struct gr_device *dev, struct gr_err *err)
{
    if (dev->stand_in != NULL) {
        dev->id =
            (struct gr_chip_identity){.sim = true, .columns = dev->stand_in->columns, .channels = GR_CHIP_CHANNELS};
        strcpy(dev->id.node, "stand-in");
        return GR_OK;
    }
    const struct gr_chip_cfg chip = {.sim = dev->cfg.simulator, .id = dev->cfg.card};
    GR_TRY(gr_chip_open(&chip, &dev->chip, err));
    dev->id = *gr_chip_identity(dev->chip);
    return GR_OK;
}

static int tile_rows(const struct gr_device *dev) { return dev->stand_in != NULL ? dev->stand_in->rows : GR_CHIP_ROWS; }

static void describe(struct gr_device *dev)
{
    const struct gr_chip_identity *id = &dev->id;
    struct gr_card_info *c = &dev->card;
    c->simulator = id->sim;
    c->number = id->sim ? 0 : dev->cfg.card;
    c->node = id->node;
    c->board = id->board;
    c->pci = id->pci;
    c->note = id->note[0] != '\0' ? id->note : NULL;
    c->serial = id->board_id;
    memcpy(c->firmware, id->firmware, sizeof c->firmware);
    memcpy(c->driver, id->driver, sizeof c->driver);
    c->aiclk_mhz = id->aiclk_mhz;
    c->dram_mts = id->dram_mhz;
    c->tiles = id->columns * tile_rows(dev);
    c->channels = id->channels;
    c->dit_backend = dev->stops ? "ops" : "megakernel";
    c->arena = dev->weights == GR_BH_BF16 ? "bf16" : "bfp8_b";
    c->command_queues = dev->cfg.command_queues != 0 ? dev->cfg.command_queues : 2;
}

static enum gr_status open_device(const struct gr_device_cfg *cfg, struct gr_device **out, struct gr_err *err)
{
    GR_TRY(check_settings(cfg, err));
    if (cfg->max_images != 1) {
        return gr_fail(err, GR_ERR_DEVICE,
                       "an observation of this embodiment has %d pictures, the program for the card takes one",
                       cfg->max_images);
    }
    struct gr_device *dev = calloc(1, sizeof *dev);
    if (dev == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the Blackhole device");
    }
    dev->cfg = *cfg;
    dev->stand_in = stand_in_now;
    dev->stops = is(cfg->dit_backend, "ops") || is(cfg->dit_backend, "ttnn");
    dev->weights = is(cfg->arena, "bf16") ? GR_BH_BF16 : GR_BH_BFP8;
    const double start = gr_clock_ms();
    const enum gr_status status = open_chip(dev, err);
    if (status != GR_OK) {
        close_device(dev);
        return status;
    }
    describe(dev);
    dev->card.open_ms = gr_clock_ms() - start;
    *out = dev;
    return GR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ load */

static double since(double *mark)
{
    const double last = *mark;
    *mark = gr_clock_ms();
    return *mark - last;
}

static void place_marks(struct gr_device *dev, const struct gr_bh_program *p)
{
    static const char *const last[STAGES] = {[VISION] = "mlp1.out", [LLM] = "llm.out", [ADAPTER] = "state_features"};
    for (int i = 0; i < p->taps; i++) {
        for (int stage = 0; stage < STAGES; stage++) {
            if (strcmp(p->tap[i].name, last[stage]) == 0) {
                dev->mark[stage].after = p->tap[i].after;
            }
        }
    }
}

static enum gr_status build(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err)
{
    const struct gr_bh_request_cfg cfg = {.w = w,
                                          .slot = dev->cfg.slot,
                                          .max_tokens = dev->cfg.max_tokens,
                                          .image_token = dev->cfg.image_token,
                                          .columns = dev->id.columns,
                                          .rows = tile_rows(dev),
                                          .weights = dev->weights,
                                          .backbone_weights = GR_BH_BF16}; /* the language model in bfp8_b: PCC 0.997 */
    GR_TRY(gr_bh_request_new(&cfg, &dev->request, err));
    const struct gr_bh_program *p = gr_bh_request_program(dev->request);
    dev->card.tiles_used = p->grid->tiles;
    dev->card.operations = p->executed;
    dev->card.l1_bytes = GR_BH_L1_END - GR_BH_PROGRAM;
    dev->card.l1_used = p->l1_used;
    dev->card.uploads_overlap = dev->card.command_queues > 1 && !dev->stops;
    place_marks(dev, p);
    return GR_OK;
}

static enum gr_status new_machine(struct gr_device *dev, struct gr_err *err)
{
    const struct gr_bh_grid *grid = gr_bh_request_grid(dev->request);
    if (dev->stand_in != NULL) {
        return dev->stand_in->machine(dev->stand_in->user, grid, &dev->machine, err);
    }
    return gr_bh_machine_chip(dev->chip, grid, gr_chip_is_sim(dev->chip) ? SIM_DEADLINE_MS : CARD_DEADLINE_MS,
                              &dev->machine, err);
}

static void keep_cache_texts(struct gr_device *dev, const struct gr_bh_arena *arena)
{
    dev->cache = gr_bh_arena_cache(arena);
    dev->weight_bytes = gr_bh_arena_bytes(arena);
    snprintf(dev->cache_file, sizeof dev->cache_file, "%s", gr_bh_arena_file(arena));
    snprintf(dev->cache_note, sizeof dev->cache_note, "%s", gr_bh_arena_note(arena));
}

static void add_line(void *user, const char *text) { gr_buf_printf(user, "%s\n", text); }

/* What rounding has done to each matrix, beside the packed file of a start that packed: matrix, relative rms error, largest first. Nothing depends on
 * it: one that cannot be written is not there. */
static void write_report(const struct gr_device *dev, const struct gr_bh_arena *arena)
{
    static const char ending[] = ".gr00t";
    char path[GR_PATH_BYTES + sizeof ".errors.tsv"];
    struct gr_buf text = {0};
    struct gr_err ignored;
    const size_t n = strlen(dev->cache_file);
    if (dev->cache != GR_CACHE_WRITTEN || n < sizeof ending) {
        return;
    }
    snprintf(path, sizeof path, "%.*s.errors.tsv", (int)(n - (sizeof ending - 1)), dev->cache_file);
    gr_bh_arena_report(arena, add_line, &text);
    if (text.len > 0 && !text.failed) {
        (void)gr_fs_write(path, text.data, text.len, &ignored);
    }
    gr_buf_free(&text);
}

/* The host's copy of the arena is given back: the card has it now, and a start reads it from the cache. */
static enum gr_status put_weights(struct gr_device *dev, struct gr_err *err)
{
    char digest[160];
    const struct gr_device_cfg *c = &dev->cfg;
    struct gr_bh_arena *arena = NULL;
    double mark = gr_clock_ms();
    snprintf(digest, sizeof digest, "%s, content %s", c->weights_digest != NULL ? c->weights_digest : "",
             c->weights_content != NULL ? c->weights_content : "");
    const struct gr_bh_arena_cfg cfg = {.weights = dev->weights,
                                        .threads = c->threads,
                                        .cache_dir = c->cache_dir,
                                        .weights_digest = digest,
                                        .progress = c->progress,
                                        .progress_user = c->progress_user};
    const struct gr_bh_program *p = gr_bh_request_program(dev->request);
    GR_TRY(gr_bh_arena_open(p->plan, p->grid->tiles, &cfg, &arena, err));
    dev->card.pack_ms = since(&mark);
    keep_cache_texts(dev, arena);
    write_report(dev, arena);
    const enum gr_status status = gr_bh_arena_upload(arena, dev->machine, err);
    dev->card.upload_ms = since(&mark);
    gr_bh_arena_close(arena);
    return status;
}

static enum gr_status load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err)
{
    (void)calibration; /* formats are not chosen by measuring */
    double mark = gr_clock_ms();
    dev->dims = w->dims;
    GR_TRY(build(dev, w, err));
    dev->card.build_ms = since(&mark);
    GR_TRY(new_machine(dev, err));
    GR_TRY(put_weights(dev, err));
    mark = gr_clock_ms();
    GR_TRY(gr_bh_program_load(gr_bh_request_program(dev->request), dev->machine, err));
    dev->card.start_ms = since(&mark);
    return GR_OK;
}

/* --------------------------------------------------------------------------------------------------------------- predict */

static enum gr_status check_input(const struct gr_device *dev, const struct gr_model_input *in, struct gr_err *err)
{
    int image = 0;
    if (in->reference) {
        return gr_fail(err, GR_ERR_USAGE, "the Blackhole device has no reference path");
    }
    if (in->n_images != 1 || in->n_tokens < 1 || in->n_tokens > dev->cfg.max_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "%d images and %d tokens, the device was opened for 1 and at most %d",
                       in->n_images, in->n_tokens, dev->cfg.max_tokens);
    }
    for (int i = 0; i < in->n_tokens; i++) {
        if (in->ids[i] < 0 || in->ids[i] >= dev->dims.llm.vocab) {
            return gr_fail(err, GR_ERR_INPUT, "token %d has id %d, the embedding has %d rows", i, in->ids[i],
                           dev->dims.llm.vocab);
        }
        image += in->ids[i] == dev->cfg.image_token;
    }
    if (image != dev->dims.vit.tokens || image == in->n_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "the prompt has %d image tokens and %d others, expected %d and at least 1",
                       image, in->n_tokens - image, dev->dims.vit.tokens);
    }
    return GR_OK;
}

/* Only to stop there: the same bits with and without. */
static void ignore_tap(void *user, const char *name, const float *values, int rows, int cols)
{
    (void)user;
    (void)name;
    (void)values;
    (void)rows;
    (void)cols;
}

/* Where taps go, and the rows of a sequence: the program's is as long as the longest. */
struct tap_way {
    const struct gr_tap_sink *sink;
    int tokens, longest;
};

static void hand_on_tap(void *user, const char *name, const float *values, int rows, int cols)
{
    const struct tap_way *way = user;
    const bool sequence = strncmp(name, "llm.", 4) == 0 || strncmp(name, "vlln.", 5) == 0;
    way->sink->put(way->sink->user, name, values, sequence && rows == way->longest ? way->tokens : rows, cols, cols);
}

static struct gr_bh_observation observation(const struct gr_model_input *in)
{
    return (struct gr_bh_observation){
        .pixels = in->pixels, .ids = in->ids, .n_tokens = in->n_tokens, .state = in->state, .noise = in->noise};
}

/* A piece of the inputs of who comes next. */
static bool work_ahead(void *user, uint32_t done)
{
    struct gr_device *dev = user;
    struct ahead *a = &dev->ahead;
    struct gr_model_input in;
    struct gr_err ignored;
    const uint32_t executed = gr_bh_request_program(dev->request)->executed;
    if (done > executed - executed / LAST_PART || dev->next == NULL || !dev->next(dev->next_user, &in) ||
        in.serial == 0) {
        return false;
    }
    if (a->serial != in.serial) {
        *a = (struct ahead){.serial = in.serial};
    }
    if (a->failed) {
        return false;
    }
    const struct gr_bh_observation o = observation(&in);
    bool more;
    a->failed = gr_bh_request_ahead(dev->request, dev->machine, &o, done, &a->inputs, &more, &ignored) != GR_OK;
    return more && !a->failed;
}

static void set_next(struct gr_device *dev, gr_next_input_fn next, void *user)
{
    dev->next = next;
    dev->next_user = user;
}

/* Inputs of *in that are there. Whatever was written for somebody else is overwritten from here on. */
static uint32_t take_written(struct gr_device *dev, const struct gr_model_input *in)
{
    const struct ahead a = dev->ahead;
    dev->ahead = (struct ahead){0};
    return in->serial != 0 && a.serial == in->serial && !a.failed ? a.inputs.written : 0;
}

static enum gr_status run(struct gr_device *dev, const struct gr_model_input *in, float *action, bool *overflow,
                          const struct gr_tap_sink *taps, struct gr_err *err)
{
    const struct gr_bh_observation o = observation(in);
    const gr_bh_tap_fn tap = taps != NULL ? hand_on_tap : dev->stops ? ignore_tap : NULL;
    struct tap_way way = {.sink = taps, .tokens = in->n_tokens, .longest = dev->cfg.max_tokens};
    for (int i = 0; i < STAGES; i++) {
        dev->mark[i].ms = 0;
    }
    dev->machine->mark = dev->mark;
    dev->machine->marks = tap == NULL ? STAGES : 0;
    dev->machine->beside = tap == NULL && dev->card.uploads_overlap ? work_ahead : NULL;
    dev->machine->beside_user = dev;
    GR_TRY(gr_bh_request_inputs(dev->request, dev->machine, &o, take_written(dev, in), err));
    GR_TRY(gr_bh_program_run(gr_bh_request_program(dev->request), dev->machine, tap, &way, err));
    GR_TRY(gr_bh_request_action(dev->request, dev->machine, action, err));
    GR_TRY(gr_bh_request_overflow(dev->request, dev->machine, overflow, err));
    if (taps != NULL) {
        taps->put(taps->user, "action_pred", action, dev->dims.dit.horizon, dev->dims.dit.max_action,
                  dev->dims.dit.max_action);
    }
    return GR_OK;
}

/* A launch cannot be called back: cancelling is for what has not begun, and a card is done in some 50 ms. */
static enum gr_status predict(struct gr_device *dev, const struct gr_model_input *in, float *action,
                              struct gr_timing *time, const struct gr_tap_sink *taps, struct gr_err *err)
{
    const double start = gr_clock_ms();
    GR_TRY(check_input(dev, in, err));
    if (in->cancel != NULL && atomic_load_explicit(in->cancel, memory_order_relaxed)) {
        return gr_fail(err, GR_ERR_BUSY, "cancelled");
    }
    if (dev->fault.code != GR_OK) {
        return gr_fail(err, GR_ERR_DEVICE, "the device has stopped: %.400s", dev->fault.msg);
    }
    bool overflow = false;
    const enum gr_status status = run(dev, in, action, &overflow, taps, err);
    if (status == GR_ERR_DEVICE) {
        struct gr_err ignored;
        dev->fault = *err;
        (void)dev->machine->ops->stop(dev->machine, &ignored);
    }
    GR_TRY(status);
    if (overflow) { /* the card is not at fault */
        return gr_fail(err, GR_ERR_DEVICE,
                       "the network has overflowed: its weights are damaged or of another network (`gr00t verify`), or "
                       "the noise is out of all bounds");
    }
    const double end = gr_clock_ms();
    const struct gr_bh_mark *mark = dev->mark;
    time->vision = time->llm = time->adapter = time->denoise = 0;
    if (mark[ADAPTER].ms > 0) { /* else many launches, or nobody looked in between */
        time->vision = mark[VISION].ms - start;
        time->llm = mark[LLM].ms - mark[VISION].ms;
        time->adapter = mark[ADAPTER].ms - mark[LLM].ms;
        time->denoise = end - mark[ADAPTER].ms;
    }
    time->device = end - start;
    time->n_prefix = 0;
    return GR_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- facts */

static const char *isa(const struct gr_device *dev)
{
    (void)dev;
    return "tensix";
}

static uint64_t weight_bytes(const struct gr_device *dev) { return dev->weight_bytes; }

static struct gr_device_cache cache(const struct gr_device *dev)
{
    const bool kept = dev->cache == GR_CACHE_WARM || dev->cache == GR_CACHE_WRITTEN;
    return (struct gr_device_cache){.state = dev->cache,
                                    .file = kept ? dev->cache_file : NULL,
                                    .note = dev->cache_note[0] != '\0' ? dev->cache_note : NULL};
}

static const struct gr_card_info *card(const struct gr_device *dev) { return &dev->card; }

const struct gr_device_ops gr_device_blackhole = {.name = "blackhole",
                                                  .text_tokens = TEXT_TOKENS,
                                                  .probe = probe,
                                                  .open = open_device,
                                                  .load = load,
                                                  .predict = predict,
                                                  .set_next = set_next,
                                                  .close = close_device,
                                                  .isa = isa,
                                                  .weight_bytes = weight_bytes,
                                                  .cache = cache,
                                                  .card = card};
