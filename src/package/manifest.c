/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c: the memory of a manifest: one pool for all its strings and arrays; and what is allowed in one, but deserves a warning. */
#include "package/manifest.h"

#include <stdio.h>
#include <string.h>

#include "package/manifest_parts.h"

enum gr_status gr_manifest_begin(struct gr_manifest *m, struct gr_err *err)
{
    *m = (struct gr_manifest){.device_count = -1};
    m->memory = gr_arena_new();
    return m->memory != NULL ? GR_OK : gr_arena_none_left(err);
}

void gr_manifest_free(struct gr_manifest *m)
{
    gr_arena_free(m->memory);
    *m = (struct gr_manifest){0};
}

const char *gr_manifest_keep(struct gr_manifest *m, const char *text)
{
    return gr_arena_text(m->memory, text, strlen(text));
}

static void doubt_revision(const char *where, const char *revision, struct gr_buf *out)
{
    if (revision == NULL) {
        gr_buf_printf(
            out, "%s: no revision, so the weights are whatever is published that day: give the 40 digits of a commit\n",
            where);
    } else if (strlen(revision) != 40 || strspn(revision, "0123456789abcdef") != 40) {
        gr_buf_printf(out, "%s.revision: \"%s\" can move to other weights: give the 40 digits of a commit\n", where,
                      revision);
    }
}

static void doubt_pin(const struct gr_manifest *m, const struct gr_serve_block *block, struct gr_buf *out)
{
    const char *revision = m->weights.revision != NULL ? m->weights.revision : "not given";
    for (int i = 0; i < block->n_env; i++) {
        if (strcmp(block->env[i].name, GR_MANIFEST_PIN) == 0 && strcmp(block->env[i].value, revision) != 0) {
            gr_buf_printf(out, GR_MANIFEST_PIN " is \"%s\"%s%s, but weights.revision is %s\n", block->env[i].value,
                          block->name != NULL ? " in profile " : "", block->name != NULL ? block->name : "", revision);
        }
    }
}

void gr_manifest_doubts(const struct gr_manifest *m, struct gr_buf *out)
{
    if (!m->has_weights) {
        return;
    }
    doubt_revision("weights", m->weights.revision, out);
    for (int i = 0; i < m->n_auxiliary; i++) {
        char where[48];
        (void)snprintf(where, sizeof where, "auxiliary_weights[%d]", i);
        doubt_revision(where, m->auxiliary[i].revision, out);
    }
    doubt_pin(m, &m->serve, out);
    for (int i = 0; i < m->n_profiles; i++) {
        doubt_pin(m, &m->profiles[i], out);
    }
}
