/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_card.h: options and variables about the card. With --device blackhole they choose it and what runs on it; on the CPU the values of the
 * card's own package pass and change nothing. */
#ifndef GR_CLI_SETTINGS_CARD_H
#define GR_CLI_SETTINGS_CARD_H

#include "cli/settings.h"

/* --device, GR00T_DEVICE; NULL: not given. GR_ERR_USAGE: this build has none of that name. */
enum gr_status gr_settings_device(const char *flag, const char **out, struct gr_err *err);
bool gr_settings_on_card(const char *device); /* NULL is allowed */

/* Which chip, by flags->sim and flags->device_id, else TTSIM_LIB, else TT_DEVICE_ID (with TT_METAL_VISIBLE_DEVICES its place in that list), else the
 * first of that list, else the first card there is, else 0. *simulator NULL: *card. GR_ERR_USAGE: a value that is none, both flags. */
enum gr_status gr_settings_chip(const struct gr_engine_flags *flags, const char **simulator, int *card,
                                struct gr_err *err);
/* Members of *engine about the card. GR_ERR_USAGE: a value that is none, options for the CPU. */
enum gr_status gr_settings_card(const struct gr_engine_flags *flags, struct gr_options *engine, struct gr_err *err);
/* On the CPU: refuses what only a card can do. */
enum gr_status gr_settings_no_card(const struct gr_engine_flags *flags, struct gr_err *err);

/* The variables of the card for `serve`, before the weights are looked for: GR_ERR_USAGE for a value that `device` does not take; those that change
 * nothing are logged in one line. flag(user, NAME): the option given for the variable, NULL: none. */
enum gr_status gr_settings_card_variables(const char *device, const char *(*flag)(const void *user, const char *name),
                                          const void *user, struct gr_err *err);

#endif
