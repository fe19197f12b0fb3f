/* SPDX-License-Identifier: Apache-2.0
 *
 * http_text.c: the words of HTTP: header lines, the moment to come back, percent-encoding. Dates are read without the locale. */
#include "net/http_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "net/exchange.h"

enum { VALUE_BYTES = 256 };
#define SECONDS_MAX 1e6

bool gr_http_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f) {
            return false;
        }
    }
    return true;
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool gr_http_find(const char *headers, const char *name, const char **value, size_t *n)
{
    size_t name_n = strlen(name);
    for (const char *line = headers; line != NULL && *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        if ((size_t)(end - line) > name_n && line[name_n] == ':' && strncasecmp(line, name, name_n) == 0) {
            const char *from = line + name_n + 1;
            while (from < end && blank(*from)) {
                from++;
            }
            while (end > from && blank(end[-1])) {
                end--;
            }
            *value = from;
            *n = (size_t)(end - from);
            return true;
        }
        line = *end == '\n' ? end + 1 : end;
    }
    return false;
}

bool gr_http_reply_header(const struct gr_http_reply *reply, const char *name, char *out, size_t n)
{
    const char *value = "";
    size_t len = 0;
    bool found = gr_http_find(reply->headers, name, &value, &len);
    snprintf(out, n, "%.*s", (int)len, value);
    return found;
}

/* "Wed, 21 Oct 2015 07:28:00 GMT", the one form that is sent today. */
static bool read_date(const char *text, time_t *out)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4];
    const char *comma = strchr(text, ',');
    if (comma == NULL || sscanf(comma + 1, " %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT", &tm.tm_mday, month, &tm.tm_year,
                                &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6) {
        return false;
    }
    const char *at = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (at == NULL || (at - months) % 3 != 0) {
        return false;
    }
    tm.tm_mon = (int)((at - months) / 3);
    tm.tm_year -= 1900;
    *out = timegm(&tm);
    return true;
}

static bool read_seconds(const char *text, double *out)
{
    size_t digits = strspn(text, "0123456789");
    *out = 0.0;
    for (size_t i = 0; i < digits && *out < SECONDS_MAX; i++) {
        *out = 10.0 * *out + (text[i] - '0');
    }
    return digits > 0;
}

/* Value of a parameter ("t" in `"api";r=0;t=55`). */
static bool read_parameter(const char *text, char name, double *out)
{
    for (const char *at = strchr(text, ';'); at != NULL; at = strchr(at, ';')) {
        at += 1 + strspn(at + 1, " \t");
        if (at[0] == name && at[1] == '=') {
            return read_seconds(at + 2, out);
        }
    }
    return false;
}

double gr_http_retry_after(const struct gr_http_reply *reply)
{
    char text[VALUE_BYTES], date[VALUE_BYTES];
    double seconds = -1.0, remaining = 0.0;
    time_t then = 0, now = 0;
    if (gr_http_reply_header(reply, "Retry-After", text, sizeof text)) {
        if (read_seconds(text, &seconds)) {
            return seconds;
        }
        if (read_date(text, &then)) {
            /* The server's own clock when it tells: ours may be wrong. */
            if (!gr_http_reply_header(reply, "Date", date, sizeof date) || !read_date(date, &now)) {
                now = time(NULL);
            }
            return then > now ? (double)(then - now) : 0.0;
        }
    }
    /* With requests left (r > 0) there is nothing to wait for. */
    if (gr_http_reply_header(reply, "RateLimit", text, sizeof text) && read_parameter(text, 't', &seconds) &&
        !(read_parameter(text, 'r', &remaining) && remaining > 0.0)) {
        return seconds;
    }
    return -1.0;
}

void gr_url_encode(struct gr_buf *out, const char *text, const char *keep)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL || strchr(keep, *text) != NULL) {
            gr_buf_put(out, text, 1);
        } else {
            gr_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
        }
    }
}

void gr_http_reply_free(struct gr_http_reply *reply)
{
    free(reply->url);
    free(reply->headers);
    gr_buf_free(&reply->body);
    *reply = (struct gr_http_reply){0};
}
