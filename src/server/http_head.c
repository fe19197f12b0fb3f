/* SPDX-License-Identifier: Apache-2.0
 *
 * http_head.c: may this head be answered at all? Refuses what two readers could take for requests of different length, what is too
 * long, and what we cannot decode. libmicrohttpd takes the first of several lengths and Transfer-Encoding before Content-Length without a
 * word, and blanks in names; so these checks stand here. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/http_conn.h"

struct facts {
    int n_length, n_coding, n_host, n_bad;
    const char *length, *coding, *expect;
};

/* RFC 9110 5.6.2: a name is made of these. */
static bool is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        const bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return n > 0;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return true;
        }
    }
    return false;
}

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_n, const char *value,
                            size_t value_n)
{
    (void)kind;
    struct facts *f = cls;
    if (!is_token(key, key_n) || (value != NULL && has_control(value, value_n))) {
        f->n_bad++;
        return MHD_YES;
    }
    const char *text = value != NULL ? value : "";
    if (strcasecmp(key, "Content-Length") == 0) {
        f->n_length++;
        f->length = text;
    } else if (strcasecmp(key, "Transfer-Encoding") == 0) {
        f->n_coding++;
        f->coding = text;
    } else if (strcasecmp(key, "Host") == 0) {
        f->n_host++;
    } else if (strcasecmp(key, "Expect") == 0) {
        f->expect = text;
    }
    return MHD_YES;
}

/* Digits only; false also when the number does not fit. */
static bool read_length(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    if (*s == '\0') {
        return false;
    }
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9' || v > (UINT64_MAX - 9) / 10) {
            return false;
        }
        v = v * 10 + (uint64_t)(*s - '0');
    }
    *out = v;
    return true;
}

static struct gr_httpd_refusal check_framing(struct gr_httpd_request *r, const struct facts *f, const char *version)
{
    if (f->n_bad > 0) {
        return (struct gr_httpd_refusal){400, "bad_request", "a header line is malformed"};
    }
    if (f->n_host > 1) {
        return (struct gr_httpd_refusal){400, "bad_request", "several Host headers"};
    }
    if (f->n_length > 1) {
        return (struct gr_httpd_refusal){400, "bad_request", "several Content-Length headers"};
    }
    if (f->n_coding > 0 && f->n_length > 0) {
        return (struct gr_httpd_refusal){400, "bad_request", "Content-Length together with Transfer-Encoding"};
    }
    if (f->n_coding > 0) {
        r->has_body = r->chunked = true;
        if (f->n_coding > 1 || strcasecmp(f->coding, "chunked") != 0 || strcmp(version, "HTTP/1.0") == 0) {
            return (struct gr_httpd_refusal){400, "bad_request", "the only Transfer-Encoding is chunked, in HTTP/1.1"};
        }
    }
    if (f->n_length > 0 && !read_length(f->length, &r->announced)) {
        r->has_body = true;
        return (struct gr_httpd_refusal){400, "bad_request", "Content-Length is no number of bytes"};
    }
    r->has_body = r->has_body || r->announced > 0;
    return (struct gr_httpd_refusal){0};
}

struct gr_httpd_refusal gr_httpd_check_head(struct gr_httpd_request *r, const char *version)
{
    struct facts f = {0};
    (void)MHD_get_connection_values_n(r->mhd, MHD_HEADER_KIND, look, &f);
    r->expects = f.expect != NULL && strcasecmp(f.expect, "100-continue") == 0;
    struct gr_httpd_refusal why = check_framing(r, &f, version);
    if (why.status != 0) {
        return why;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info != NULL && info->header_size > r->http->cfg.limits.head_bytes) {
        return (struct gr_httpd_refusal){431, "head_too_large", "request line and headers are larger than the limit"};
    }
    if (r->announced > r->http->cfg.limits.body_bytes) {
        return (struct gr_httpd_refusal){413, "body_too_large", "the body is larger than the limit"};
    }
    return (struct gr_httpd_refusal){0};
}
