/* SPDX-License-Identifier: Apache-2.0
 *
 * side_files.c: load, edit and parse the JSON files of a snapshot in tests. Editing is text replacement, not a JSON library: a test
 * can so write what no library would. */
#include "side_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr_test.h"

static const char *const names[SIDE_FILES] = {"config.json", "processor_config.json", "embodiment_id.json",
                                              "statistics.json"};

const char *side_file_name(enum side_file which) { return names[which]; }

static char *copy_n(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy == NULL) {
        fail_msg("no memory");
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

/* End of the JSON value that starts at v (behind it). */
static const char *value_end(const char *v)
{
    int depth = 0;
    bool in_string = false;
    const char *p = v;
    for (; *p != '\0'; p++) {
        if (in_string) {
            if (*p == '\\' && p[1] != '\0') {
                p++;
            } else if (*p == '"') {
                in_string = false;
                if (depth == 0) {
                    return p + 1;
                }
            }
        } else if (*p == '"') {
            in_string = true;
        } else if (*p == '{' || *p == '[') {
            depth++;
        } else if (*p == '}' || *p == ']') {
            depth--;
            if (depth <= 0) {
                return depth == 0 ? p + 1 : p;
            }
        } else if (depth == 0 && (*p == ',' || *p == '\n')) {
            return p;
        }
    }
    return p;
}

/* Start of the value behind "key": at or after `from`. */
static const char *value_of(const char *from, const char *key)
{
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *p = strstr(from, quoted);
    if (p == NULL) {
        fail_msg("the file has no %s", quoted);
        return NULL;
    }
    p += strlen(quoted);
    return p + strspn(p, " \n");
}

void side_files_load(struct side_files *files, bool tiny)
{
    char *side = (char *)gr_test_read(gr_test_source("data/snapshot_side_files.json"), NULL);
    for (int i = SIDE_PROCESSOR; i < SIDE_FILES; i++) {
        const char *v = value_of(side, names[i]);
        files->text[i] = copy_n(v, (size_t)(value_end(v) - v));
    }
    files->text[SIDE_CONFIG] =
        (char *)gr_test_read(gr_test_source("tests/data/config/config_%s.json", tiny ? "tiny" : "full"), NULL);
    free(side);
}

void side_files_free(struct side_files *files)
{
    for (int i = 0; i < SIDE_FILES; i++) {
        free(files->text[i]);
        files->text[i] = NULL;
    }
}

static const char *find_anchor(const char *text, const char *anchor)
{
    while (anchor != NULL && *anchor != '\0') {
        size_t n = strcspn(anchor, "|");
        char *part = copy_n(anchor, n);
        text = strstr(text, part);
        if (text == NULL) {
            fail_msg("the file has no anchor %s", part);
        }
        text += n;
        free(part);
        anchor += n + (anchor[n] == '|');
    }
    return text;
}

static void splice(char **text, const char *at, size_t n_old, const char *new_text)
{
    size_t head = (size_t)(at - *text), n_new = strlen(new_text), tail = strlen(at + n_old);
    char *out = malloc(head + n_new + tail + 1);
    if (out == NULL) {
        fail_msg("no memory");
        return;
    }
    memcpy(out, *text, head);
    memcpy(out + head, new_text, n_new);
    memcpy(out + head + n_new, at + n_old, tail + 1);
    free(*text);
    *text = out;
}

void side_files_edit(struct side_files *files, enum side_file which, const char *anchor, const char *old,
                     const char *new_text)
{
    const char *at = strstr(find_anchor(files->text[which], anchor), old);
    if (at == NULL) {
        fail_msg("%s has no %s behind %s", names[which], old, anchor != NULL ? anchor : "its start");
        return;
    }
    splice(&files->text[which], at, strlen(old), new_text);
}

void side_files_set(struct side_files *files, enum side_file which, const char *anchor, const char *key,
                    const char *value)
{
    const char *v = value_of(find_anchor(files->text[which], anchor), key);
    splice(&files->text[which], v, (size_t)(value_end(v) - v), value);
}

void side_files_put(struct side_files *files, enum side_file which, const char *text)
{
    free(files->text[which]);
    files->text[which] = copy_n(text, strlen(text));
}

enum gr_status side_files_parse(const struct side_files *files, const char *tag, struct gr_config **out,
                                struct gr_err *err)
{
    struct gr_config_text t[SIDE_FILES];
    for (int i = 0; i < SIDE_FILES; i++) {
        t[i] = (struct gr_config_text){files->text[i], strlen(files->text[i])};
    }
    const struct gr_config_texts texts = {.config = t[SIDE_CONFIG],
                                          .processor = t[SIDE_PROCESSOR],
                                          .embodiment_id = t[SIDE_IDS],
                                          .statistics = t[SIDE_STATISTICS]};
    return gr_config_parse(&texts, tag, out, err);
}

void side_files_write(const struct side_files *files, const char *dir)
{
    for (int i = 0; i < SIDE_FILES; i++) {
        gr_test_write(gr_test_join(dir, "%s", names[i]), files->text[i], strlen(files->text[i]));
    }
}

struct gr_config *side_files_config(const struct side_files *files, const char *tag)
{
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    gr_test_ok(side_files_parse(files, tag, &cfg, &err), &err);
    return cfg;
}
