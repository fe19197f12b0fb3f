/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_device.c: `gr00t device`: which Blackhole cards are there, and `gr00t device test`: do they work? The list touches nothing on a card;
 * the test takes the card for itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/settings_card.h"
#include "cli/table.h"
#include "device/blackhole/chip.h"
#include "device/blackhole/chip_identity.h"
#include "device/blackhole/chip_selftest.h"

enum { CARDS_MAX = 64 };
#define NODES "/dev/tenstorrent"

struct options {
    bool json;
    const char *sim, *id;
};

static const struct gr_arg list_args[] = {
    {.name = "sim",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, sim),
     .value = "LIB",
     .help = "list this simulator too: libttsim.so [TTSIM_LIB]"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the list as JSON"},
};
static const struct gr_arg test_args[] = {
    {.name = "device-id",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, id),
     .value = "N",
     .help = "card " NODES "/N [TT_DEVICE_ID, the first there is]"},
    {.name = "sim",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, sim),
     .value = "LIB",
     .help = "the simulator instead of a card: libttsim.so\n[TTSIM_LIB, when no card is named]"},
};

/* ------------------------------------------------------------------------------------------------------------------ list */

struct row {
    struct gr_chip_identity id;
    bool busy;
    struct gr_err fault; /* code GR_OK: none */
};

/* The chip works, but not with this program. */
static bool is_unsupported(const struct row *r)
{
    return r->fault.code != GR_OK && r->id.channels != 0 && r->id.channels < GR_CHIP_CHANNELS;
}

static const char *state_of(const struct row *r)
{
    return is_unsupported(r) ? "unsupported" : r->fault.code != GR_OK ? "error" : r->busy ? "busy" : "free";
}

static void put_versions(struct gr_jw *w, const char *key, const uint32_t *v, int n)
{
    char text[48];
    if (v[0] == 0 && v[1] == 0) {
        gr_jw_put_string(w, key, NULL);
        return;
    }
    snprintf(text, sizeof text, n == 3 ? "%u.%u.%u" : "%u.%u.%u.%u", v[0], v[1], v[2], n == 3 ? 0 : v[3]);
    gr_jw_put_string(w, key, text);
}

static void put_known(struct gr_jw *w, const char *key, uint32_t v)
{
    if (v != 0) {
        gr_jw_put_int(w, key, v);
    } else {
        gr_jw_put_string(w, key, NULL);
    }
}

static void put_json(const struct row *r, struct gr_jw *w)
{
    const struct gr_chip_identity *id = &r->id;
    char serial[20];
    snprintf(serial, sizeof serial, "%016" PRIx64, id->board_id);
    gr_jw_object(w);
    gr_jw_put_string(w, "device", id->node);
    gr_jw_put_string(w, "state", state_of(r));
    gr_jw_put_bool(w, "simulator", id->sim);
    gr_jw_put_string(w, "board", id->board[0] != '\0' ? id->board : NULL);
    gr_jw_put_string(w, "serial", id->board_id != 0 ? serial : NULL);
    gr_jw_put_int(w, "tensix_columns", id->columns);
    gr_jw_put_int(w, "tensix_tiles", id->columns * GR_CHIP_ROWS);
    gr_jw_put_int(w, "dram_channels", id->channels);
    put_versions(w, "firmware", id->firmware, 4);
    put_versions(w, "driver", id->driver, 3);
    put_known(w, "aiclk_mhz", id->aiclk_mhz);
    put_known(w, "axiclk_mhz", id->axiclk_mhz);
    put_known(w, "arcclk_mhz", id->arcclk_mhz);
    put_known(w, "dram_mts", id->dram_mhz);
    if (id->celsius != 0.0f) {
        gr_jw_put_milli(w, "celsius", (double)id->celsius);
    } else {
        gr_jw_put_string(w, "celsius", NULL);
    }
    gr_jw_put_string(w, "pci", id->pci[0] != '\0' ? id->pci : NULL);
    gr_jw_put_string(w, "note", id->note[0] != '\0' ? id->note : NULL);
    gr_jw_put_string(w, "error", r->fault.code != GR_OK ? r->fault.msg : NULL);
    gr_jw_end_object(w);
}

static void head(struct gr_table *t)
{
    static const char *const names[] = {"device", "board", "tiles", "DRAM", "firmware",
                                        "driver", "AICLK", "C",     "PCI",  "state"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        gr_table_cell(t, names[i]);
    }
}

static void put_dotted(struct gr_table *t, const uint32_t *v)
{
    gr_table_cellf(t, v[0] != 0 || v[1] != 0 ? "%u.%u.%u" : "-", v[0], v[1], v[2]);
}

static void put_row(const struct row *r, struct gr_table *t)
{
    const struct gr_chip_identity *id = &r->id;
    gr_table_cell(t, id->node);
    gr_table_cell(t, id->board[0] != '\0' ? id->board : "-");
    gr_table_cellf(t, id->columns != 0 ? "%d" : "-", id->columns * GR_CHIP_ROWS);
    gr_table_cellf(t, id->channels != 0 ? "%d x 4 GiB" : "-", id->channels);
    put_dotted(t, id->firmware);
    put_dotted(t, id->driver);
    gr_table_cellf(t, id->aiclk_mhz != 0 ? "%u" : "-", id->aiclk_mhz);
    gr_table_cellf(t, id->celsius != 0.0f ? "%.0f" : "-", (double)id->celsius);
    gr_table_cell(t, id->pci[0] != '\0' ? id->pci : "-");
    gr_table_cell(t, state_of(r));
}

static void look_at_card(int n, struct row *r)
{
    const struct gr_chip_cfg cfg = {.id = n};
    struct gr_err err = {0};
    if (gr_chip_peek(&cfg, &r->id, &r->busy, &err) != GR_OK) {
        r->fault = err;
    } else { /* as gr_chip_open refuses it */
        (void)gr_chip_check_channels(&r->id, &r->fault);
    }
}

/* Opening is the only look at a simulator; it is this process's own. */
static void look_at_sim(const char *lib, struct row *r)
{
    const struct gr_chip_cfg cfg = {.sim = lib};
    struct gr_chip *chip = NULL;
    struct gr_err err = {0};
    *r = (struct row){.id = {.sim = true, .node = "simulator"}};
    if (gr_chip_open(&cfg, &chip, &err) != GR_OK) {
        r->fault = err;
        return;
    }
    r->id = *gr_chip_identity(chip);
    gr_chip_close(chip);
}

static int look(const char *sim, struct row *rows)
{
    int ids[CARDS_MAX];
    const int n = gr_chip_list(NULL, ids, CARDS_MAX);
    for (int i = 0; i < n; i++) {
        look_at_card(ids[i], &rows[i]);
    }
    if (sim != NULL) {
        look_at_sim(sim, &rows[n]);
    }
    return n + (sim != NULL);
}

static enum gr_status run_list(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                               struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct row rows[CARDS_MAX + 1] = {0};
    const int n = look(o->sim != NULL ? o->sim : gr_settings_env("TTSIM_LIB"), rows);
    struct gr_jw w = {.out = &cli->out};
    struct gr_table t = {.columns = 10, .align = "llrrllrrll"};
    const struct row *faulty = NULL;
    if (o->json) {
        gr_jw_array(&w);
    } else if (n > 0) {
        head(&t);
    }
    for (int i = 0; i < n; i++) {
        if (o->json) {
            put_json(&rows[i], &w);
        } else {
            put_row(&rows[i], &t);
        }
        if (rows[i].id.note[0] != '\0') {
            gr_log(GR_LOG_WARN, "%s: %s", rows[i].id.node, rows[i].id.note);
        }
        if (rows[i].fault.code != GR_OK && faulty != NULL) {
            gr_log(GR_LOG_WARN, "%s", rows[i].fault.msg);
        }
        faulty = faulty == NULL && rows[i].fault.code != GR_OK ? &rows[i] : faulty;
    }
    if (o->json) {
        gr_jw_end_array(&w);
    } else if (n == 0) {
        gr_buf_puts(&cli->out, "no card: there is nothing in " NODES
                               ", where the driver (tt-kmd 2.0.0 or later) lists Tenstorrent cards\n");
    }
    gr_table_print(&t, &cli->out);
    return faulty != NULL ? gr_fail(err, faulty->fault.code, "%s", faulty->fault.msg) : GR_OK;
}

const struct gr_command gr_cmd_device = {
    .name = "device",
    .summary = "List the Blackhole cards of this machine; `device test` tries one",
    .synopsis = "[--sim LIB] [--json]",
    .more =
        "Listing opens no card for work: one that serves is not disturbed. No card is no error. Exit code 7: a card is there and cannot be\n"
        "used.",
    .args = list_args,
    .n_args = sizeof list_args / sizeof list_args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run_list,
};

/* ------------------------------------------------------------------------------------------------------------------ test */

typedef enum gr_status (*check_fn)(struct gr_chip *chip, struct gr_selftest *t, struct gr_err *err);
static const struct {
    const char *name;
    check_fn run;
} checks[] = {{"hello", gr_selftest_hello}, {"memory", gr_selftest_memory}, {"matmul", gr_selftest_matmul}};
enum { N_CHECKS = sizeof checks / sizeof checks[0] };

struct printer {
    struct gr_cli *cli;
    struct gr_err *err;
    enum gr_status written;
};

/* A line at once: on a simulator a check takes long. */
static void print_line(void *user, bool passed, const char *name, const char *figures)
{
    struct printer *p = user;
    gr_buf_printf(&p->cli->out, "%s %s: %s\n", passed ? "PASS" : "FAIL", name, figures);
    p->written = p->written == GR_OK ? gr_cli_flush(p->cli, p->err) : p->written;
}

static void print_identity(const struct gr_chip_identity *id, struct gr_buf *out)
{
    gr_buf_printf(out, "%s: %s, %d Tensix tiles, %d DRAM channels, firmware %u.%u.%u.%u", id->node, id->board,
                  id->columns * GR_CHIP_ROWS, id->channels, id->firmware[0], id->firmware[1], id->firmware[2],
                  id->firmware[3]);
    if (!id->sim) {
        gr_buf_printf(out, ", driver %u.%u.%u, PCI %s", id->driver[0], id->driver[1], id->driver[2], id->pci);
    }
    if (id->aiclk_mhz != 0) {
        gr_buf_printf(out, ", AICLK %u MHz, AXICLK %u MHz", id->aiclk_mhz, id->axiclk_mhz);
    }
    if (id->dram_mhz != 0) {
        gr_buf_printf(out, ", GDDR %u MT/s", id->dram_mhz);
    }
    if (id->celsius != 0.0f) {
        gr_buf_printf(out, ", %.1f C", (double)id->celsius);
    }
    gr_buf_puts(out, "\n");
}

/* Without any card the line says what there is besides. */
static enum gr_status open_chip(const struct gr_chip_cfg *cfg, struct gr_chip **chip, struct gr_err *err)
{
    int first;
    struct gr_err why = {0};
    const enum gr_status st = gr_chip_open(cfg, chip, &why);
    if (st == GR_OK) {
        return GR_OK;
    }
    const bool none = cfg->sim == NULL && gr_chip_list(NULL, &first, 1) == 0;
    return gr_fail(err, st, "%s%s", why.msg,
                   none ? " The simulator instead: --sim LIB or TTSIM_LIB, docs/DEVICES.md" : "");
}

static enum gr_status run_checks(struct gr_cli *cli, struct gr_chip *chip, const char *what, struct gr_err *err)
{
    struct printer p = {.cli = cli, .err = err};
    struct gr_selftest t = {.line = print_line, .user = &p};
    print_identity(gr_chip_identity(chip), &cli->out);
    GR_TRY(gr_cli_flush(cli, err));
    for (int i = 0; i < N_CHECKS; i++) {
        if (strcmp(what, "all") == 0 || strcmp(what, checks[i].name) == 0) {
            GR_TRY(checks[i].run(chip, &t, err));
            GR_TRY(p.written);
        }
    }
    return t.failed == 0 ? GR_OK
                         : gr_fail(err, GR_ERR_DEVICE, "%s: %d check%s did not pass", gr_chip_identity(chip)->node,
                                   t.failed, t.failed == 1 ? "" : "s");
}

static enum gr_status run_test(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                               struct gr_err *err)
{
    const struct options *o = options;
    const struct gr_engine_flags named = {.sim = o->sim, .device_id = o->id};
    const char *what = n_words > 0 ? words[0] : "all";
    struct gr_chip_cfg cfg = {0};
    struct gr_chip *chip = NULL;
    bool known = strcmp(what, "all") == 0;
    for (int i = 0; i < N_CHECKS; i++) {
        known = known || strcmp(what, checks[i].name) == 0;
    }
    if (!known) {
        return gr_fail(err, GR_ERR_USAGE, "unknown check \"%.40s\", expected hello, memory, matmul or all", what);
    }
    GR_TRY(gr_settings_chip(&named, &cfg.sim, &cfg.id, err));
    GR_TRY(open_chip(&cfg, &chip, err));
    if (gr_chip_identity(chip)->note[0] != '\0') {
        gr_log(GR_LOG_WARN, "%s: %s", gr_chip_identity(chip)->node, gr_chip_identity(chip)->note);
    }
    const enum gr_status st = run_checks(cli, chip, what, err);
    gr_chip_close(chip);
    return st;
}

const struct gr_command gr_cmd_device_test = {
    .name = "device test",
    .summary = "Try a Blackhole card or the simulator: cores, memory, matrix products",
    .synopsis = "[hello|memory|matmul|all] [--device-id N | --sim LIB]",
    .more =
        "One line a check with its figures. The card must be free; other software on it is disturbed. Exit code 7: no such card, it is\n"
        "busy, or a check did not pass. All checks take some seconds, on the simulator too.",
    .args = test_args,
    .n_args = sizeof test_args / sizeof test_args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 1,
    .words = "check",
    .run = run_test,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
