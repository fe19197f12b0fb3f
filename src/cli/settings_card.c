/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_card.c: which chip, and how the network runs on it. What depends on the chip itself (is it there, may it be opened) is the device's
 * business. */
#include "cli/settings_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/variables.h"
#include "device/blackhole/chip.h"
#include "device/device.h"

enum { ID_MAX = 99999, IDS_MAX = 64 };

static const char *flag_or_env(const char *flag, const char *name)
{
    return flag != NULL ? flag : gr_settings_env(name);
}

enum gr_status gr_settings_device(const char *flag, const char **out, struct gr_err *err)
{
    *out = flag_or_env(flag, "GR00T_DEVICE");
    return *out == NULL || gr_device_find(*out) != NULL
               ? GR_OK
               : gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\", this build has: %s",
                         flag != NULL ? "--device" : "GR00T_DEVICE", *out, gr_device_names);
}

bool gr_settings_on_card(const char *device) { return device != NULL && strcmp(device, "blackhole") == 0; }

/* ---- which chip ---- */

/* "0,2" into ids; *n 0 when text is NULL. */
static enum gr_status visible(const char *text, int *ids, int *n, struct gr_err *err)
{
    *n = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at += *at == ',') {
        char word[16];
        long id;
        const size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (length >= sizeof word || *n == IDS_MAX ||
            gr_settings_int("TT_METAL_VISIBLE_DEVICES", word, 0, ID_MAX, &id, err) != GR_OK) {
            return gr_fail(err, GR_ERR_USAGE, "TT_METAL_VISIBLE_DEVICES is \"%.80s\", expected numbers like 0 or 0,1",
                           text);
        }
        ids[(*n)++] = (int)id;
        at += length;
    }
    return GR_OK;
}

static enum gr_status card_number(const struct gr_engine_flags *f, int *out, struct gr_err *err)
{
    const char *variable = gr_settings_env("TT_DEVICE_ID");
    int ids[IDS_MAX], n;
    long id = 0;
    if (f->device_id != NULL) {
        GR_TRY(gr_settings_int("--device-id", f->device_id, 0, ID_MAX, &id, err));
        *out = (int)id;
        return GR_OK;
    }
    GR_TRY(visible(gr_settings_env("TT_METAL_VISIBLE_DEVICES"), ids, &n, err));
    if (variable != NULL) {
        GR_TRY(gr_settings_int("TT_DEVICE_ID", variable, 0, ID_MAX, &id, err));
    }
    if (n > 0 && id >= n) {
        return gr_fail(err, GR_ERR_USAGE, "TT_DEVICE_ID is %ld, and TT_METAL_VISIBLE_DEVICES lists %d card%s", id, n,
                       n == 1 ? "" : "s");
    }
    *out = n > 0 ? ids[id] : (int)id;
    if (variable == NULL && n == 0 && gr_chip_list(NULL, ids, 1) == 1) {
        *out = ids[0]; /* a container sees the card it was given under that card's number */
    }
    return GR_OK;
}

enum gr_status gr_settings_chip(const struct gr_engine_flags *f, const char **simulator, int *card, struct gr_err *err)
{
    if (f->sim != NULL && f->device_id != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--sim and --device-id name two devices: give one");
    }
    *simulator = f->sim != NULL ? f->sim : f->device_id == NULL ? gr_settings_env("TTSIM_LIB") : NULL;
    return *simulator == NULL ? card_number(f, card, err) : GR_OK;
}

/* ---- how ---- */

static enum gr_status one_of(const char *flag, const char *option, const char *variable, const char *const *names,
                             const char *expected, const char **out, struct gr_err *err)
{
    const char *value = flag_or_env(flag, variable);
    *out = NULL;
    for (int i = 0; value != NULL && names[i] != NULL; i++) {
        *out = strcmp(value, names[i]) == 0 ? value : *out;
    }
    return value == NULL || *out != NULL ? GR_OK
                                         : gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\", expected %s",
                                                   flag != NULL ? option : variable, value, expected);
}

enum gr_status gr_settings_card(const struct gr_engine_flags *f, struct gr_options *engine, struct gr_err *err)
{
    static const char *const backends[] = {"megakernel", "ops", "ttnn", NULL}, *const queues[] = {"1", "2", NULL},
                             *const arenas[] = {"auto", "bf16", "bfp8_b", NULL};
    const char *count;
    if (engine->half != NULL || strcmp(engine->precision, "auto") != 0) {
        return gr_fail(err, GR_ERR_USAGE,
                       "%s is for the CPU; on a card --mk-arena-dtype is the number format of the weights",
                       engine->half != NULL ? "--half (GR00T_HALF)" : "--policy (GR00T_POLICY)");
    }
    GR_TRY(gr_settings_chip(f, &engine->simulator, &engine->card, err));
    GR_TRY(one_of(f->dit_backend, "--dit-backend", "GR00T_DIT_BACKEND", backends, "megakernel or ops",
                  &engine->dit_backend, err));
    GR_TRY(one_of(f->mk_arena_dtype, "--mk-arena-dtype", "GR00T_MK_ARENA_DTYPE", arenas, "auto, bf16 or bfp8_b",
                  &engine->arena, err));
    GR_TRY(one_of(f->num_cqs, "--num-cqs", "GR00T_NUM_CQS", queues, "1 or 2", &count, err));
    engine->command_queues = count == NULL ? 0 : count[0] - '0';
    return GR_OK;
}

/* ---- on the CPU ---- */

static const struct gr_variable *variable_of(const char *option)
{
    for (int i = 0; i < gr_n_variables; i++) {
        if (gr_variables[i].flag != NULL && strcmp(gr_variables[i].flag, option) == 0) {
            return &gr_variables[i];
        }
    }
    return NULL;
}

enum gr_status gr_settings_no_card(const struct gr_engine_flags *f, struct gr_err *err)
{
    const struct {
        const char *option, *value;
    } given[] = {{"--device-id", f->device_id}, {"--dit-backend", f->dit_backend}, {"--num-cqs", f->num_cqs}};
    if (f->sim != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--sim is for --device blackhole");
    }
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        const struct gr_variable *v = variable_of(given[i].option);
        if (given[i].value != NULL && strcmp(given[i].value, v->accepted) != 0) {
            return gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\"; on the CPU only \"%s\" is accepted", given[i].option,
                           given[i].value, v->accepted);
        }
    }
    return GR_OK;
}

/* ---- variables of serve ---- */

/* The card takes more values of these, which gr_settings_card reads. */
static bool has_choice(const char *name)
{
    static const char *const names[] = {"GR00T_DIT_BACKEND", "GR00T_NUM_CQS", "TT_DEVICE_ID",
                                        "TT_METAL_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

enum gr_status gr_settings_card_variables(const char *device,
                                          const char *(*flag_of)(const void *user, const char *name), const void *user,
                                          struct gr_err *err)
{
    const bool card = gr_settings_on_card(device);
    struct gr_buf note = {0};
    for (int i = 0; i < gr_n_variables; i++) {
        const struct gr_variable *v = &gr_variables[i];
        const char *flag = v->kind == GR_VARIABLE_CARD ? flag_of(user, v->name) : NULL;
        const char *value = v->kind == GR_VARIABLE_USED ? NULL : flag_or_env(flag, v->name);
        if (value == NULL || (card && has_choice(v->name))) {
            continue;
        }
        if (v->kind == GR_VARIABLE_CARD && strcmp(value, v->accepted) != 0) {
            gr_buf_free(&note);
            return gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\"; %s only \"%s\" is accepted",
                           flag != NULL ? v->flag : v->name, value, card ? "here" : "on the CPU", v->accepted);
        }
        gr_buf_printf(&note, "%s%s=%.60s", note.len > 0 ? ", " : "", v->name, value);
    }
    if (note.len > 0 && !note.failed) {
        gr_log(GR_LOG_INFO, "%s these change nothing: %s", card ? "here" : "on the CPU", note.data);
    }
    gr_buf_free(&note);
    return GR_OK;
}
