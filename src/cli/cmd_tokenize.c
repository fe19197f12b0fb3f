/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_tokenize.c: `gr00t tokenize`: what the language model will read: the cleaned instruction, ids and pieces.
 * DIR is a snapshot or a tokenizer folder. --raw tokenises the text as it is, without prompt. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "base/jsonout.h"
#include "cli/settings.h"
#include "gr00t.h"
#include "model/config.h"
#include "model/prompt.h"
#include "model/tokenizer.h"

/* Without a snapshot: one picture of the published size. */
enum { IMAGE_TOKENS = 81, MAX_TEXT_TOKENS = 8 * GR_INSTRUCTION_MAX_CHARS, PIECES_PER_LINE = 8 };

struct options {
    bool raw, json;
    const char *embodiment, *tokenizer;
};

static const struct gr_arg args[] = {
    {.name = "raw",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, raw),
     .help = "tokenise the text itself: no cleaning, no prompt"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print JSON"},
    {.name = "embodiment",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, embodiment),
     .value = "TAG",
     .help = "robot, for the number of pictures [GR00T_EMBODIMENT, gr1]"},
    {.name = "tokenizer",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, tokenizer),
     .value = "DIR",
     .help = "folder with vocab.json and merges.txt, instead of the search"},
};

struct result {
    int32_t *ids; /* [n], owned */
    size_t n;
    int n_text; /* -1: raw */
    char *formalized;
};

static enum gr_status encode_raw(struct gr_tokenizer *tok, const char *text, struct result *r, struct gr_err *err)
{
    size_t bytes = strlen(text), cap = bytes + 1; /* a token is at least a byte... */
    for (int round = 0; round < 2; round++) {
        free(r->ids);
        r->ids = malloc(cap * sizeof *r->ids);
        if (r->ids == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu tokens", cap);
        }
        GR_TRY(gr_tokenizer_encode(tok, text, bytes, r->ids, cap, &r->n, err));
        if (r->n <= cap) {
            break;
        }
        cap = r->n; /* ...but NFC may make a text longer */
    }
    r->n_text = -1;
    return GR_OK;
}

static enum gr_status encode_prompt(struct gr_tokenizer *tok, const char *text, const struct gr_config *cfg,
                                    struct result *r, struct gr_err *err)
{
    struct gr_prompt *prompt = NULL;
    struct gr_prompt_ids ids;
    int images = cfg != NULL ? cfg->emb.n_cameras * cfg->emb.frames_per_camera : 1;
    int tokens = cfg != NULL ? cfg->dims.vit.tokens : IMAGE_TOKENS;
    bool formalize = cfg != NULL ? cfg->formalize_language : true;
    GR_TRY(gr_prompt_new(tok, images, tokens, MAX_TEXT_TOKENS, formalize, &prompt, err));
    enum gr_status status = gr_prompt_encode(prompt, text, &ids, err);
    if (status == GR_OK) {
        size_t cap = 4 * strlen(text) + 16; /* lower-casing and NFC lengthen a character at most threefold */
        r->n = (size_t)ids.n_tokens;
        r->n_text = ids.n_text;
        r->ids = malloc(r->n * sizeof *r->ids + 1);
        r->formalized = malloc(cap);
        if (r->ids == NULL || r->formalized == NULL) {
            status = gr_fail(err, GR_ERR_NOMEM, "no memory for %zu tokens", r->n);
        } else {
            memcpy(r->ids, ids.ids, r->n * sizeof *r->ids);
            if (formalize) {
                status = gr_formalize(text, strlen(text), r->formalized, cap, err);
            } else {
                strcpy(r->formalized, text);
            }
        }
    }
    gr_prompt_free(prompt);
    return status;
}

/* A piece as text: line breaks and other controls as \n or \xNN, a part of a character as \xNN. */
static void put_piece(struct gr_tokenizer *tok, int32_t id, struct gr_buf *out)
{
    size_t n = 0;
    const char *piece = gr_tokenizer_piece(tok, id, &n);
    for (size_t i = 0; piece != NULL && i < n;) {
        unsigned char c = (unsigned char)piece[i];
        int len = gr_utf8_length(piece + i, n - i);
        if (c == '\n') {
            gr_buf_puts(out, "\\n");
        } else if (len == 0 || c < 0x20 || c == 0x7F) {
            gr_buf_printf(out, "\\x%02x", c);
        } else {
            gr_buf_put(out, piece + i, (size_t)len);
        }
        i += len == 0 ? 1 : (size_t)len;
    }
}

/* Ids with pieces; a run of one id (the picture) is shown once with its count. */
static void print_text(struct gr_tokenizer *tok, const struct result *r, struct gr_buf *out)
{
    if (r->formalized != NULL) {
        gr_buf_line(out, "text    %s\n", r->formalized);
    }
    int on_line = 0;
    for (size_t i = 0; i < r->n;) {
        size_t run = 1;
        while (i + run < r->n && r->ids[i + run] == r->ids[i]) {
            run++;
        }
        size_t shown = run >= 8 ? run : 1;
        gr_buf_puts(out, on_line == 0 ? "tokens  " : "  ");
        gr_buf_printf(out, "%" PRId32, r->ids[i]);
        gr_buf_puts(out, "\"");
        put_piece(tok, r->ids[i], out);
        gr_buf_puts(out, "\"");
        if (shown > 1) {
            gr_buf_printf(out, " x %zu", shown);
        }
        i += shown;
        on_line = (on_line + 1) % PIECES_PER_LINE;
        gr_buf_puts(out, on_line == 0 || i >= r->n ? "\n" : "");
    }
    if (r->n_text >= 0) {
        gr_buf_printf(out, "n_text  %d\nS       %zu\n", r->n_text, r->n);
    } else {
        gr_buf_printf(out, "n       %zu\n", r->n);
    }
}

static void print_json(struct gr_tokenizer *tok, const struct result *r, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "text", r->formalized);
    gr_jw_key(&w, "n_text");
    if (r->n_text >= 0) {
        gr_jw_int(&w, r->n_text);
    } else {
        gr_jw_null(&w);
    }
    gr_jw_put_u64(&w, "seq_len", r->n);
    gr_jw_put_array(&w, "ids");
    for (size_t i = 0; i < r->n; i++) {
        gr_jw_int(&w, r->ids[i]);
    }
    gr_jw_end_array(&w);
    gr_jw_put_array(&w, "pieces");
    for (size_t i = 0; i < r->n; i++) {
        struct gr_buf piece = {0};
        put_piece(tok, r->ids[i], &piece);
        gr_jw_string(&w, piece.data != NULL ? piece.data : "");
        gr_buf_free(&piece);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)n_words;
    const struct options *o = options;
    char config[GR_PATH_BYTES], vocab[GR_PATH_BYTES], found[GR_PATH_BYTES];
    struct gr_config *cfg = NULL;
    struct gr_tokenizer *tok = NULL;
    struct result r = {0};
    enum gr_status status = GR_OK;
    gr_settings_unknown_variables();
    GR_TRY(gr_fs_need_dir(words[0], GR_ERR_FORMAT, err));
    GR_TRY(gr_path_join(config, words[0], "config.json", err));
    GR_TRY(gr_path_join(vocab, words[0], "vocab.json", err));
    /* A folder with a vocabulary is a tokenizer, also when it has a config.json of its own, as Qwen3's have. */
    const bool is_tokenizer = gr_fs_is_file(vocab), is_snapshot = gr_fs_is_file(config) && !is_tokenizer;
    if (is_snapshot && !o->raw &&
        (status = gr_config_open(words[0], gr_settings_embodiment(o->embodiment), &cfg, err)) != GR_OK) {
        goto out;
    }
    const char *folder = words[0];
    if (o->tokenizer != NULL || !is_tokenizer) { /* the search that predict makes */
        if ((status = gr_settings_tokenizer(words[0], o->tokenizer, found, err)) != GR_OK) {
            goto out;
        }
        folder = found;
    }
    if ((status = gr_tokenizer_open(folder, &tok, err)) != GR_OK) {
        goto out;
    }
    status = o->raw ? encode_raw(tok, words[1], &r, err) : encode_prompt(tok, words[1], cfg, &r, err);
    if (status != GR_OK) {
        goto out;
    }
    if (o->json) {
        print_json(tok, &r, &cli->out);
    } else {
        print_text(tok, &r, &cli->out);
    }
out:
    free(r.ids);
    free(r.formalized);
    gr_tokenizer_close(tok);
    gr_config_free(cfg);
    return status;
}

const struct gr_command gr_cmd_tokenize = {
    .name = "tokenize",
    .summary = "Show how an instruction is cleaned and tokenised",
    .synopsis = "DIR TEXT [OPTIONS]",
    .more =
        "DIR is a snapshot or a folder with vocab.json and merges.txt. S is the whole sequence, n_text the instruction's part.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .min_words = 2,
    .max_words = 2,
    .words = "DIR TEXT",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
