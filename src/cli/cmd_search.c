/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_search.c: `gr00t search`: packages on the Hub, by name, catalog and chip. */
#include <stdio.h>
#include <string.h>

#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/package_target.h"
#include "cli/table.h"

enum { LIMIT = 50, LIMIT_MAX = 10000, PAGE_MAX = 1000, URL_BYTES = 4096 };

struct options {
    struct gr_arg_int limit;
    bool catalog, json;
    const char *arch;
};

static const struct gr_arg args[] = {
    {.name = "limit",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, limit),
     .value = "N",
     .min = 1,
     .max = LIMIT_MAX,
     .help = "at most so many [50]"},
    {.name = "catalog",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, catalog),
     .help = "only those in the catalog"},
    {.name = "arch",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, arch),
     .value = "NAME",
     .help = "only those for this chip: blackhole, wormhole_b0"},
    {.name = "json",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, json),
     .help = "a JSON list of id, private, downloads, last_modified"},
};

static void put_query(const struct options *o, const char *term, int limit, struct gr_buf *url)
{
    gr_buf_printf(url, "/api/models?limit=%d&filter=%s", limit < PAGE_MAX ? limit : PAGE_MAX, GR_PACKAGE_TAG);
    if (o->catalog) {
        gr_buf_printf(url, "&filter=%s", GR_CATALOG_TAG);
    }
    if (o->arch != NULL) {
        gr_buf_puts(url, "&filter=");
        gr_url_encode(url, o->arch, "");
    }
    if (term != NULL) {
        gr_buf_puts(url, "&search=");
        gr_url_encode(url, term, "");
    }
    gr_buf_puts(url, "&expand=private&expand=downloads&expand=lastModified");
}

/* One row as it will be printed. */
static void put_row(const struct options *o, const struct gr_json *model, struct gr_jw *w, struct gr_table *t)
{
    const struct gr_json *id = gr_json_get(model, "id"), *hidden = gr_json_get(model, "private");
    const struct gr_json *downloads = gr_json_get(model, "downloads"), *date = gr_json_get(model, "lastModified");
    const bool is_private = gr_json_kind(hidden) == GR_JSON_BOOL && gr_json_bool(hidden);
    const char *when = gr_json_kind(date) == GR_JSON_STRING ? gr_json_string(date) : NULL;
    const int64_t count = gr_json_kind(downloads) == GR_JSON_INT ? gr_json_int(downloads) : 0;
    if (gr_json_kind(id) != GR_JSON_STRING || !gr_hub_is_id(gr_json_string(id))) {
        return; /* nothing that could be pulled */
    }
    if (o->json) {
        gr_jw_object(w);
        gr_jw_put_string(w, "id", gr_json_string(id));
        gr_jw_put_bool(w, "private", is_private);
        gr_jw_put_int(w, "downloads", count);
        gr_jw_put_string(w, "last_modified", when);
        gr_jw_end_object(w);
        return;
    }
    gr_table_cell(t, gr_json_string(id));
    gr_table_cell(t, is_private ? "private" : "");
    gr_table_cellf(t, "%lld", (long long)count);
    gr_table_cellf(t, "%.10s", when != NULL ? when : "");
}

static enum gr_status get_page(struct gr_hub *hub, char url[URL_BYTES], struct gr_json **root, struct gr_err *err)
{
    static const char what[] = "the Hub's list of models";
    GR_TRY(gr_hub_get_json(hub, url, what, url, URL_BYTES, root, err));
    return gr_json_kind(*root) == GR_JSON_ARRAY ? GR_OK : gr_fail(err, GR_ERR_NETWORK, "%s is no list", what);
}

static enum gr_status search(struct gr_cli *cli, struct gr_hub *hub, const struct options *o, const char *term,
                             struct gr_err *err)
{
    const int limit = o->limit.given ? (int)o->limit.value : LIMIT;
    struct gr_jw w = {.out = &cli->out};
    struct gr_table t = {.columns = 4, .align = "llrl"};
    struct gr_buf first = {0};
    char url[URL_BYTES];
    int seen = 0;
    put_query(o, term, limit, &first);
    if (first.failed || first.len >= sizeof url) {
        gr_buf_free(&first);
        return gr_fail(err, GR_ERR_USAGE, "the search text is too long");
    }
    memcpy(url, first.data, first.len + 1);
    gr_buf_free(&first);
    if (o->json) {
        gr_jw_array(&w);
    }
    enum gr_status status = GR_OK;
    while (url[0] != '\0' && seen < limit && status == GR_OK) {
        struct gr_json *root = NULL;
        const int before = seen;
        status = get_page(hub, url, &root, err);
        for (size_t i = 0; status == GR_OK && i < gr_json_len(root) && seen < limit; i++, seen++) {
            put_row(o, gr_json_at(root, i), &w, &t);
        }
        gr_json_free(root);
        if (seen == before) {
            break; /* an empty page ends it, whatever it says about a next one */
        }
    }
    if (o->json) {
        gr_jw_end_array(&w);
    } else if (seen == 0 && status == GR_OK) {
        gr_buf_puts(&cli->out, "○ no packages found\n");
    }
    gr_table_print(&t, &cli->out);
    if (status != GR_OK) {
        gr_buf_free(&cli->out); /* half a list is none */
    }
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    struct gr_tool_hub tool = {0};
    enum gr_status status = gr_settings_tool_hub(&tool, err);
    if (status == GR_OK) {
        status = search(cli, tool.hub, options, n_words > 0 ? words[0] : NULL, err);
    }
    gr_tool_hub_free(&tool);
    return status;
}

const struct gr_command gr_cmd_search = {
    .name = "search",
    .summary = "Find packages on the Hub",
    .synopsis = "[TEXT] [--limit N] [--catalog] [--arch NAME] [--json]",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 1,
    .words = "TEXT",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
