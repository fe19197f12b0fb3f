/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_names.c: which texts may name a repository, a revision, a file in it; shell patterns over paths. Everything that becomes part of a local path
 * passes one of these first. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "hub/hub.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";

static bool is_part(const char *text, size_t n) { return n > 0 && text[0] != '.' && strspn(text, letters) >= n; }

bool gr_hub_is_id(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash != NULL && strlen(text) < GR_HUB_ID_BYTES && is_part(text, (size_t)(slash - text)) &&
           is_part(slash + 1, strlen(slash + 1)) && strstr(text, "..") == NULL && strstr(text, "--") == NULL;
}

bool gr_hub_is_commit(const char *text) { return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40; }

bool gr_hub_is_revision(const char *text)
{
    const size_t n = strlen(text);
    if (n == 0 || n >= GR_HUB_REVISION_BYTES || text[n - 1] == '/' || strstr(text, "..") != NULL) {
        return false;
    }
    for (const char *part = text; part != NULL;) {
        const char *slash = strchr(part, '/');
        if (!is_part(part, slash != NULL ? (size_t)(slash - part) : strlen(part))) {
            return false;
        }
        part = slash != NULL ? slash + 1 : NULL;
    }
    return true;
}

enum gr_status gr_hub_parse_id(const char *text, char id[GR_HUB_ID_BYTES], char revision[GR_HUB_REVISION_BYTES],
                               struct gr_err *err)
{
    const char *at = strchr(text, '@');
    const size_t n = at != NULL ? (size_t)(at - text) : strlen(text);
    id[0] = revision[0] = '\0';
    if (n < GR_HUB_ID_BYTES) {
        (void)snprintf(id, GR_HUB_ID_BYTES, "%.*s", (int)n, text);
    }
    if (!gr_hub_is_id(id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME or ORG/NAME@REVISION", text);
    }
    if (at != NULL && !gr_hub_is_revision(at + 1)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no commit, branch or tag name", at + 1);
    }
    (void)snprintf(revision, GR_HUB_REVISION_BYTES, "%s", at != NULL ? at + 1 : "");
    return GR_OK;
}

bool gr_hub_is_path(const char *path)
{
    const char *const end = path + strlen(path);
    for (const char *c = path; c < end;) {
        const int n = gr_utf8_length(c, (size_t)(end - c));
        if (n == 0 || (unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\') {
            return false;
        }
        c += n;
    }
    for (const char *part = path;;) {
        const char *slash = strchr(part, '/');
        const size_t n = slash != NULL ? (size_t)(slash - part) : strlen(part);
        if (n == 0 || n > 255 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        if (slash == NULL) {
            return true;
        }
        part = slash + 1;
    }
}

static bool matches_any(const char *const *patterns, int n, const char *path)
{
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(patterns[i]);
        if (len > 0 && patterns[i][len - 1] == '/' ? strncmp(path, patterns[i], len) == 0
                                                   : fnmatch(patterns[i], path, FNM_NOESCAPE) == 0) {
            return true;
        }
    }
    return false;
}

bool gr_hub_matches(const struct gr_hub_patterns *p, const char *path)
{
    return (p->n_allow == 0 || matches_any(p->allow, p->n_allow, path)) && !matches_any(p->ignore, p->n_ignore, path);
}
