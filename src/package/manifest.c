/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c: the memory of a manifest: one pool for all its strings and arrays. */
#include "package/manifest.h"

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
