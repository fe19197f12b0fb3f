/* SPDX-License-Identifier: Apache-2.0
 *
 * test_args.c: the option parser: values land where the table says, and every mistake has its own message. */
#include "gr_test.h"

#include <string.h>

#include "base/nearest.h"
#include "cli/args.h"

struct options {
    bool flag;
    const char *text, *choice;
    struct gr_arg_int number;
    struct gr_arg_list list;
};

static const char *const colors[] = {"red", "green", NULL};
static const struct gr_arg table[] = {
    {.name = "flag", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, flag), .help = "a flag"},
    {.name = "text",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, text),
     .value = "TEXT",
     .required = true,
     .help = "a text"},
    {.name = "color",
     .kind = GR_ARG_CHOICE,
     .offset = offsetof(struct options, choice),
     .value = "COLOR",
     .choices = colors,
     .help = "a choice\non two lines"},
    {.name = "seed",
     .kind = GR_ARG_INT,
     .offset = offsetof(struct options, number),
     .value = "N",
     .min = 0,
     .max = INT64_MAX,
     .help = "a number"},
    {.name = "list", .kind = GR_ARG_LIST, .offset = offsetof(struct options, list), .value = "X", .help = "many"},
};
enum { N = sizeof table / sizeof table[0], MAX_WORDS = 16 };

struct parsed {
    struct options o;
    struct gr_arg_set set;
    const char **words;
    int n_words, n_plain;
    struct gr_err err;
};

/* Parses a NULL-terminated list of words. Static storage: the words must outlive the call. */
static enum gr_status parse(struct parsed *p, const char *const *argv)
{
    static char copies[MAX_WORDS][128];
    char *list[MAX_WORDS];
    int n = 0;
    for (; argv[n] != NULL; n++) {
        strcpy(copies[n], argv[n]);
        list[n] = copies[n];
    }
    memset(p, 0, sizeof *p);
    p->set = (struct gr_arg_set){table, N, &p->o};
    return gr_args_parse(n, list, &p->set, 1, &p->words, &p->n_words, &p->n_plain, &p->err);
}

static void done(struct parsed *p) { gr_args_free(&p->set, 1, p->words); }

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void values_land_in_their_fields(void **state)
{
    (void)state;
    struct parsed p;
    gr_test_ok(parse(&p, WORDS("one", "--flag", "--text", "-x", "--color=green", "two", "--seed", "9223372036854775807",
                               "--list", "a", "--list=b=c", "--", "--three")),
               &p.err);
    assert_true(p.o.flag);
    assert_string_equal(p.o.text, "-x");
    assert_string_equal(p.o.choice, "green");
    assert_true(p.o.number.given);
    assert_true(p.o.number.value == INT64_MAX);
    assert_int_equal(p.o.list.n, 2);
    assert_string_equal(p.o.list.items[0], "a");
    assert_string_equal(p.o.list.items[1], "b=c");
    assert_int_equal(p.n_words, 3);
    assert_int_equal(p.n_plain, 2);
    assert_string_equal(p.words[0], "one");
    assert_string_equal(p.words[2], "--three");
    gr_test_ok(gr_args_check(&p.set, &p.err), &p.err);
    done(&p);
}

static void what_is_not_given_stays_zero(void **state)
{
    (void)state;
    struct parsed p;
    gr_test_ok(parse(&p, WORDS("word")), &p.err);
    assert_false(p.o.flag);
    assert_null(p.o.text);
    assert_false(p.o.number.given);
    assert_int_equal(p.o.list.n, 0);
    gr_test_fails(gr_args_check(&p.set, &p.err), &p.err, GR_ERR_USAGE, "option --text TEXT is missing");
    done(&p);
}

static void each_mistake_has_its_message(void **state)
{
    (void)state;
    static const struct {
        const char *argv[4];
        const char *message;
    } cases[] = {
        {{"--sed", "1"}, "unknown option --sed, did you mean --seed?"},
        {{"--esed", "1"}, "did you mean --seed?"},
        {{"--nothing-like-it"}, "unknown option --nothing-like-it; --help lists the options"},
        {{"--seed"}, "option --seed needs a value: --seed N"},
        {{"--seed", "--flag"}, "option --seed needs a value"},
        {{"--seed", "-1"}, "--seed is -1, expected 0 to 9223372036854775807"},
        {{"--seed", "9223372036854775808"}, "--seed is 9223372036854775808, expected 0 to"},
        {{"--seed", "1.5"}, "--seed is \"1.5\", expected a whole number"},
        {{"--seed", "0x10"}, "expected a whole number"},
        {{"--seed", " 1"}, "expected a whole number"},
        {{"--seed="}, "expected a whole number"},
        {{"--seed=1", "--seed=2"}, "option --seed is given twice"},
        {{"--text=a", "--text=b"}, "option --text is given twice"},
        {{"--text="}, "option --text has an empty value"},
        {{"--flag=1"}, "option --flag takes no value, found \"1\""},
        {{"--color", "gren"}, "--color is \"gren\", expected red, green; did you mean green?"},
        {{"--color", "mauve"}, "expected red, green"},
        {{"-s"}, "unknown option -s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parsed p;
        gr_test_fails(parse(&p, cases[i].argv), &p.err, GR_ERR_USAGE, cases[i].message);
        done(&p);
    }
}

static void a_single_dash_is_a_word(void **state)
{
    (void)state;
    struct parsed p;
    gr_test_ok(parse(&p, WORDS("-")), &p.err);
    assert_int_equal(p.n_words, 1);
    done(&p);
}

static void help_lists_every_option_of_the_table(void **state)
{
    (void)state;
    struct gr_buf out = {0};
    gr_args_help(&out, table, N);
    assert_non_null(out.data);
    for (int i = 0; i < N; i++) {
        char name[32] = "--";
        strcat(name, table[i].name);
        assert_non_null(strstr(out.data, name));
    }
    assert_non_null(strstr(out.data, "a text (required)\n"));
    assert_non_null(strstr(out.data, "a choice\n                            on two lines\n"));
    gr_buf_free(&out);
}

static const char *color_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

static void nearest_is_near_or_nothing(void **state)
{
    (void)state;
    assert_string_equal(gr_nearest("greeen", GR_ARG_EDITS, color_at, colors, 2), "green");
    assert_string_equal(gr_nearest("gerne", GR_ARG_EDITS, color_at, colors, 2), "green");
    assert_null(gr_nearest("blue", GR_ARG_EDITS, color_at, colors, 2));
    assert_null(gr_nearest("", GR_ARG_EDITS, color_at, colors, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_land_in_their_fields),          cmocka_unit_test(what_is_not_given_stays_zero),
        cmocka_unit_test(each_mistake_has_its_message),         cmocka_unit_test(a_single_dash_is_a_word),
        cmocka_unit_test(help_lists_every_option_of_the_table), cmocka_unit_test(nearest_is_near_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
