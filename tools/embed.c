/* SPDX-License-Identifier: Apache-2.0
 *
 * embed.c: build-time tool: turns files into C arrays, so that the program carries its data.
 *
 *     embed OUT.c NAME=FILE ...
 *
 * Each file becomes `const unsigned char gr_embed_NAME[]` and `const size_t gr_embed_NAME_size`, declared by hand in
 * src/model/embedded.h. The output is the same for the same input, whatever the folder. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what)
{
    fprintf(stderr, "embed: %s: %s\n", what, strerror(errno));
    return 1;
}

static int is_name(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') {
            return 0;
        }
    }
    return n > 0;
}

/* An array needs at least one element in C, so an empty file gets a zero that its size does not count. */
static int embed(FILE *out, const char *name, int name_len, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        return fail(path);
    }
    fprintf(out, "\nconst unsigned char gr_embed_%.*s[] = {", name_len, name);
    unsigned long long n = 0;
    int c;
    while ((c = getc(in)) != EOF) {
        fprintf(out, n % 32 == 0 ? "\n%d," : "%d,", c);
        n++;
    }
    fprintf(out, "%s\n};\nconst size_t gr_embed_%.*s_size = %lluu;\n", n == 0 ? "0" : "", name_len, name, n);
    const int bad = ferror(in);
    if (fclose(in) != 0 || bad) {
        return fail(path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: embed OUT.c NAME=FILE ...\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "wb");
    if (out == NULL) {
        return fail(argv[1]);
    }
    fprintf(out, "/* Made by tools/embed.c from the files under data/. */\n#include \"model/embedded.h\"\n");
    int rc = 0;
    for (int i = 2; i < argc && rc == 0; i++) {
        const char *eq = strchr(argv[i], '=');
        if (eq == NULL || !is_name(argv[i], (size_t)(eq - argv[i]))) {
            fprintf(stderr, "embed: '%s' is not NAME=FILE with a C identifier for the name\n", argv[i]);
            rc = 2;
        } else {
            rc = embed(out, argv[i], (int)(eq - argv[i]), eq + 1);
        }
    }
    const int bad = ferror(out);
    if ((fclose(out) != 0 || bad) && rc == 0) {
        rc = fail(argv[1]);
    }
    if (rc != 0) {
        remove(argv[1]);
    }
    return rc;
}
