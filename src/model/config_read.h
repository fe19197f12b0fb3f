/* SPDX-License-Identifier: Apache-2.0
 *
 * config_read.h: reading a JSON object of the snapshot by a table of rules: which keys are followed (with range), which must
 * have the one value we implement, which are ignored. Keys that no rule knows are listed in gr_config.ignored.
 * Every message has the form "file: path.key is FOUND, expected WANTED". Only config.c and embodiment.c use it. */
#ifndef GR_MODEL_CONFIG_READ_H
#define GR_MODEL_CONFIG_READ_H

#include "base/json.h"
#include "model/config.h"

/* Memory that lives as long as the config. Zeroed; NULL with GR_ERR_NOMEM in err. */
enum gr_status gr_config_new(struct gr_config **out, struct gr_err *err);
void *gr_config_alloc(struct gr_config *cfg, size_t n, size_t bytes, struct gr_err *err);
const char *gr_config_copy(struct gr_config *cfg, const char *text, struct gr_err *err);

/* An object inside a file. */
struct gr_scope {
    struct gr_config *cfg;
    const char *file; /* "config.json" */
    char path[256];   /* "" or "diffusion_model_cfg.": stands before the key in messages */
    const struct gr_json *object;
};

/* The root of a file must be an object. */
enum gr_status gr_scope_root(struct gr_config *cfg, const char *file, const struct gr_json *root, struct gr_scope *out,
                             struct gr_err *err);
/* The object under `key`. */
enum gr_status gr_scope_enter(const struct gr_scope *s, const char *key, struct gr_scope *out, struct gr_err *err);
/* GR_ERR_FORMAT: "file: path.key is FOUND, expected WANTED", or "... is missing, ..." when `found` is NULL. */
enum gr_status gr_scope_fail(const struct gr_scope *s, const char *key, const struct gr_json *found, struct gr_err *err,
                             const char *wanted, ...) __attribute__((format(printf, 5, 6)));

enum gr_rule_kind {
    GR_RULE_ELSEWHERE, /* known, read by other code */
    GR_RULE_INT,       /* lo..hi to *to_int */
    GR_RULE_BOOL,      /* to *to_bool */
    GR_RULE_NUMBER,    /* lo..hi to *to_number */
    /* Values other than the one we implement are refused. */
    GR_RULE_ONLY_TRUE,
    GR_RULE_ONLY_FALSE,
    GR_RULE_ONLY_NULL,
    GR_RULE_ONLY_NUMBER, /* lo */
    GR_RULE_ONLY_TEXT,   /* text */
    GR_RULE_TEXT_END     /* a string that ends with `text` */
};

struct gr_rule {
    const char *key;
    enum gr_rule_kind kind;
    bool optional; /* ELSEWHERE always is */
    double lo, hi;
    const char *text;
    int *to_int;
    bool *to_bool;
    double *to_number;
};

/* Applies the rules in order, then lists the keys that neither a rule nor `ignored` knows. ignored: names without influence on results
 * (training, tools), NULL at the end; may be NULL. */
enum gr_status gr_scope_apply(const struct gr_scope *s, const struct gr_rule *rules, size_t n,
                              const char *const *ignored, struct gr_err *err);

/* 1..max distinct non-empty strings under `key`. */
enum gr_status gr_scope_names(const struct gr_scope *s, const char *key, int max, const char ***names, int *n,
                              struct gr_err *err);

/* Index of `name`, -1 when absent. */
int gr_name_index(const char *const *names, int n, const char *name);

/* Python's json module writes NaN and Infinity, which JSON does not have: the parser says "syntax error". When `text` has such a word
 * where a value belongs, writes "line 12: NaN in gr1.state.left_arm.min[0]" and returns true. */
bool gr_find_nonfinite(const struct gr_config_text *text, char *out, size_t cap);

#endif
