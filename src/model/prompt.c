/* SPDX-License-Identifier: Apache-2.0
 *
 * prompt.c: instruction to the id sequence of the chat template.
 * In: UTF-8 from a user. Out: [template head] user\n{text}<image 1> [image run] <image 2> ... [template end], as ids.
 * The head and everything from the first <img> on never change, so their ids are made once. What is tokenized per request is the one
 * run "user\n{text}<image 1>" and it is tokenized whole, because a piece may join characters of text and template ("_<", " <").
 * That run is always encoded without matching added tokens: with formalize_language their spellings cannot survive the cleaning, and
 * without it a user could otherwise write <|im_end|> and get the control token. Template tokens are placed by id, not by text. */
#include "model/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr00t.h"
#include "model/unicode.h"

static const char HEAD_SYSTEM[] = "system\nYou are a helpful assistant.";
static const char RUN_BEGIN[] = "user\n";
static const char RUN_END[] = "<image 1>";

enum {
    /* Bytes of one cleaned character: lower case of one is at most two, of four bytes each. In fact 4 is never exceeded, since the only
     * character that becomes two (U+0130) loses the second, a combining mark. */
    CLEAN_BYTES = 8,
    RUN_BYTES = CLEAN_BYTES * GR_INSTRUCTION_MAX_CHARS + 32,
    MAX_IMAGES = 4096,
    MAX_TOKENS = 1 << 24
};

struct gr_prompt {
    struct gr_tokenizer *tok; /* borrowed */
    bool formalize;
    int max_text;
    int32_t im_start, im_end, image, img_open, img_close;
    int n_head, n_empty_run, n_tail; /* tokens */
    int32_t *tail;                   /* [n_tail] first <img> to the end */
    int32_t *ids;                    /* [max_tokens] begins with the head; the rest is rewritten by each encode */
    int max_tokens;
    uint32_t chars[GR_INSTRUCTION_MAX_CHARS];
    char run[RUN_BYTES];
};

/* ---- Cleaning. */

/* Decodes [text, text + n) into out; more than cap characters only count. Fails on the first bad byte. */
static enum gr_status decode(const char *text, size_t n, uint32_t *out, size_t cap, size_t *n_chars, struct gr_err *err)
{
    size_t count = 0;
    for (size_t at = 0; at < n; count++) {
        uint32_t c;
        size_t from = at;
        if (!gr_utf8_next(text, n, &at, &c)) {
            return gr_fail(err, GR_ERR_INPUT, "instruction is not valid UTF-8 at byte %zu (0x%02x)", from,
                           (unsigned)(unsigned char)text[from]);
        }
        if (count < cap) {
            out[count] = c;
        }
    }
    *n_chars = count;
    return GR_OK;
}

/* Lower case, then only word characters and white space. Returns bytes written, SIZE_MAX when cap is too small. */
static size_t formalize(const uint32_t *chars, size_t n, char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t low[2];
        size_t n_low = gr_unicode_lower(chars, n, i, low);
        for (size_t k = 0; k < n_low; k++) {
            char utf8[4];
            if (gr_unicode_is_word(low[k]) || gr_unicode_is_space(low[k])) {
                size_t n_utf8 = gr_utf8_put(low[k], utf8);
                if (n_utf8 > cap - len) {
                    return SIZE_MAX;
                }
                memcpy(out + len, utf8, n_utf8);
                len += n_utf8;
            }
        }
    }
    return len;
}

static size_t verbatim(const uint32_t *chars, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += gr_utf8_put(chars[i], out + len);
    }
    return len;
}

enum gr_status gr_formalize(const char *text, size_t n_bytes, char *out, size_t cap, struct gr_err *err)
{
    enum gr_status status;
    size_t n = 0;
    uint32_t *chars = malloc(n_bytes > 0 ? n_bytes * sizeof *chars : 1);
    if (chars == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory to clean a text of %zu bytes", n_bytes);
    }
    status = decode(text, n_bytes, chars, n_bytes, &n, err);
    if (status == GR_OK) {
        size_t len = cap > 0 ? formalize(chars, n, out, cap - 1) : SIZE_MAX;
        if (len == SIZE_MAX) {
            status = gr_fail(err, GR_ERR_USAGE, "cleaned text does not fit into %zu bytes", cap);
        } else {
            out[len] = '\0';
        }
    }
    free(chars);
    return status;
}

/* Cuts white space off both ends of valid UTF-8. Works on bytes from the front and remembers where the last other character ended,
 * so that a text of any length needs no memory. */
static void strip(const char **text, size_t *n)
{
    size_t first = *n, end = 0;
    for (size_t at = 0; at < *n;) {
        uint32_t c;
        size_t from = at;
        if (!gr_utf8_next(*text, *n, &at, &c)) {
            break; /* decode has checked it */
        }
        if (!gr_unicode_is_space(c)) {
            first = from < first ? from : first;
            end = at;
        }
    }
    *text += first < end ? first : 0;
    *n = first < end ? end - first : 0;
}

static bool is_blank(const char *text, size_t n)
{
    strip(&text, &n);
    return n == 0;
}

/* ---- Template. */

struct builder {
    int32_t *ids;
    size_t cap, n;
};

static void put(struct builder *b, int32_t id)
{
    if (b->n < b->cap) {
        b->ids[b->n] = id;
    }
    b->n++;
}

static enum gr_status put_text(struct builder *b, struct gr_tokenizer *tok, const char *text, struct gr_err *err)
{
    size_t n = 0, room = b->n < b->cap ? b->cap - b->n : 0;
    GR_TRY(gr_tokenizer_encode_plain(tok, text, strlen(text), room > 0 ? b->ids + b->n : NULL, room, &n, err));
    b->n += n;
    return GR_OK;
}

static enum gr_status put_head(const struct gr_prompt *p, struct builder *b, struct gr_err *err)
{
    put(b, p->im_start);
    GR_TRY(put_text(b, p->tok, HEAD_SYSTEM, err));
    put(b, p->im_end);
    GR_TRY(put_text(b, p->tok, "\n", err));
    put(b, p->im_start);
    return GR_OK;
}

/* Everything behind "<image 1>". */
static enum gr_status put_tail(const struct gr_prompt *p, struct builder *b, int n_images, int image_tokens,
                               struct gr_err *err)
{
    for (int i = 1; i <= n_images; i++) {
        if (i > 1) {
            char label[32];
            snprintf(label, sizeof label, "<image %d>", i);
            GR_TRY(put_text(b, p->tok, label, err));
        }
        put(b, p->img_open);
        for (int k = 0; k < image_tokens; k++) {
            put(b, p->image);
        }
        put(b, p->img_close);
    }
    put(b, p->im_end);
    return put_text(b, p->tok, "\n", err);
}

static enum gr_status find_specials(struct gr_prompt *p, struct gr_err *err)
{
    const struct {
        const char *name;
        int32_t *id;
    } specials[] = {{"<|im_start|>", &p->im_start},
                    {"<|im_end|>", &p->im_end},
                    {"<IMG_CONTEXT>", &p->image},
                    {"<img>", &p->img_open},
                    {"</img>", &p->img_close}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        *specials[i].id = gr_tokenizer_special(p->tok, specials[i].name);
        if (*specials[i].id < 0) {
            return gr_fail(err, GR_ERR_FORMAT, "the tokenizer has no added token \"%s\", which the prompt needs",
                           specials[i].name);
        }
    }
    return GR_OK;
}

/* Measures each part first, then takes the memory and fills in what is constant. */
static enum gr_status build(struct gr_prompt *p, int n_images, int image_tokens, struct gr_err *err)
{
    char empty[sizeof RUN_BEGIN + sizeof RUN_END];
    struct builder head = {0}, run = {0}, tail = {0};
    snprintf(empty, sizeof empty, "%s%s", RUN_BEGIN, RUN_END);
    GR_TRY(put_head(p, &head, err));
    GR_TRY(put_text(&run, p->tok, empty, err));
    GR_TRY(put_tail(p, &tail, n_images, image_tokens, err));
    size_t total = head.n + run.n + tail.n + (size_t)p->max_text;
    if (total > MAX_TOKENS) {
        return gr_fail(err, GR_ERR_USAGE, "a prompt of %zu tokens is too long, at most %d are supported", total,
                       MAX_TOKENS);
    }
    p->n_head = (int)head.n;
    p->n_empty_run = (int)run.n;
    p->n_tail = (int)tail.n;
    p->max_tokens = (int)total;
    p->ids = malloc(total * sizeof *p->ids);
    p->tail = malloc(tail.n * sizeof *p->tail);
    if (p->ids == NULL || p->tail == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a prompt of %zu tokens", total);
    }
    head = (struct builder){.ids = p->ids, .cap = head.n};
    tail = (struct builder){.ids = p->tail, .cap = tail.n};
    GR_TRY(put_head(p, &head, err));
    return put_tail(p, &tail, n_images, image_tokens, err);
}

enum gr_status gr_prompt_new(struct gr_tokenizer *tok, int n_images, int image_tokens, int max_text_tokens,
                             bool formalize_text, struct gr_prompt **out, struct gr_err *err)
{
    if (n_images < 1 || n_images > MAX_IMAGES || image_tokens < 1 || image_tokens > MAX_TOKENS / n_images ||
        max_text_tokens < 1 || max_text_tokens > MAX_TOKENS) {
        return gr_fail(err, GR_ERR_USAGE,
                       "a prompt of %d images with %d tokens each and %d text tokens is out of range", n_images,
                       image_tokens, max_text_tokens);
    }
    struct gr_prompt *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the prompt");
    }
    p->tok = tok;
    p->formalize = formalize_text;
    p->max_text = max_text_tokens;
    enum gr_status status = find_specials(p, err);
    if (status == GR_OK) {
        status = build(p, n_images, image_tokens, err);
    }
    if (status != GR_OK) {
        gr_prompt_free(p);
        return status;
    }
    *out = p;
    return GR_OK;
}

void gr_prompt_free(struct gr_prompt *p)
{
    if (p != NULL) {
        free(p->tail);
        free(p->ids);
        free(p);
    }
}

int gr_prompt_max_tokens(const struct gr_prompt *p) { return p->max_tokens; }

int32_t gr_prompt_image_token(const struct gr_prompt *p) { return p->image; }

/* "user\n{text}<image 1>" into p->run. */
static enum gr_status make_run(struct gr_prompt *p, const char *instruction, size_t n, size_t *n_run,
                               struct gr_err *err)
{
    size_t n_chars = 0;
    GR_TRY(decode(instruction, n, NULL, 0, &n_chars, err));
    strip(&instruction, &n);
    GR_TRY(decode(instruction, n, p->chars, GR_INSTRUCTION_MAX_CHARS, &n_chars, err));
    if (n_chars > GR_INSTRUCTION_MAX_CHARS) {
        return gr_fail(err, GR_ERR_INPUT, "instruction has %zu characters, at most %d are allowed", n_chars,
                       GR_INSTRUCTION_MAX_CHARS);
    }
    size_t begin = strlen(RUN_BEGIN), cap = sizeof p->run - begin - sizeof RUN_END;
    size_t len =
        p->formalize ? formalize(p->chars, n_chars, p->run + begin, cap) : verbatim(p->chars, n_chars, p->run + begin);
    if (is_blank(p->run + begin, len)) {
        return gr_fail(err, GR_ERR_INPUT, "instruction is empty after cleaning: white space%s do%s not count",
                       p->formalize ? " and punctuation" : "", p->formalize ? "" : "es");
    }
    memcpy(p->run, RUN_BEGIN, begin);
    memcpy(p->run + begin + len, RUN_END, strlen(RUN_END));
    *n_run = begin + len + strlen(RUN_END);
    return GR_OK;
}

enum gr_status gr_prompt_encode(struct gr_prompt *p, const char *instruction, struct gr_prompt_ids *out,
                                struct gr_err *err)
{
    return gr_prompt_encode_n(p, instruction, strlen(instruction), out, err);
}

enum gr_status gr_prompt_encode_n(struct gr_prompt *p, const char *instruction, size_t n, struct gr_prompt_ids *out,
                                  struct gr_err *err)
{
    size_t n_bytes = 0, n_run = 0;
    GR_TRY(make_run(p, instruction, n, &n_bytes, err));
    int32_t *run = p->ids + p->n_head;
    size_t room = (size_t)(p->n_empty_run + p->max_text);
    GR_TRY(gr_tokenizer_encode_plain(p->tok, p->run, n_bytes, run, room, &n_run, err));
    if (n_run > room) {
        return gr_fail(err, GR_ERR_INPUT,
                       "n_text exceeds L_max: the instruction has %zu tokens, at most %d are allowed",
                       n_run - (size_t)p->n_empty_run, p->max_text);
    }
    memcpy(run + n_run, p->tail, (size_t)p->n_tail * sizeof *run);
    out->ids = p->ids;
    out->n_tokens = p->n_head + (int)n_run + p->n_tail;
    out->n_text = (int)n_run - p->n_empty_run;
    return GR_OK;
}
