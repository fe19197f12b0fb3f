/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokenizer_files.c: any bytes as the files of a tokenizer folder. The input is cut at the byte 0x01 into vocab.json, merges.txt,
 * added_tokens.json, tokenizer_config.json and tokenizer.json; a part that begins with '-' is not written. "@" at the start of a
 * vocabulary stands for the 256 single bytes, which mutation would hardly ever leave whole. What opens must encode a text. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz_folder.h"
#include "model/tokenizer.h"

enum { N_FILES = 5 };
static const char *const names[N_FILES] = {"vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json",
                                           "tokenizer.json"};

/* {"!": 0, ..., of all single bytes; the caller's text goes on behind it. */
static void put_bytes(struct gr_buf *b)
{
    int extra = 256, id = 0;
    gr_buf_puts(b, "{");
    for (int byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        gr_buf_printf(b, "\"\\u%04x\": %d, ", (unsigned)(printable ? byte : extra++), id++);
    }
}

static void put_file(const char *name, const uint8_t *data, size_t n)
{
    struct gr_buf b = {0};
    if (n > 0 && data[0] == '@') {
        put_bytes(&b);
        data++;
        n--;
    }
    gr_buf_put(&b, data, n);
    if (b.failed) {
        abort();
    }
    fuzz_put(name, b.data, b.len);
    gr_buf_free(&b);
}

static void use(struct gr_tokenizer *tok)
{
    static const char text[] = "pick the <img> pear, caf\xC3\xA9 \xE7\xAE\xB1 12\n";
    int32_t ids[128];
    size_t n = 0, len;
    struct gr_err err;
    if (gr_tokenizer_encode(tok, text, strlen(text), ids, 128, &n, &err) != GR_OK || n == 0 || n > 128) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= gr_tokenizer_size(tok) || gr_tokenizer_piece(tok, ids[i], &len) == NULL) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_tokenizer *tok = NULL;
    struct gr_err err = {0};
    fuzz_clean();
    for (int i = 0; i < N_FILES && size > 0; i++) {
        const uint8_t *end = memchr(data, 0x01, size);
        size_t n = end != NULL ? (size_t)(end - data) : size;
        if (n > 0 && data[0] != '-') {
            put_file(names[i], data, n);
        }
        size -= end != NULL ? n + 1 : n;
        data += end != NULL ? n + 1 : n;
    }
    if (gr_tokenizer_open(fuzz_folder(), &tok, &err) == GR_OK) {
        use(tok);
    } else if (tok != NULL || err.msg[0] == '\0') {
        abort();
    }
    gr_tokenizer_close(tok);
    return 0;
}
