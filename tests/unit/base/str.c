/* SPDX-License-Identifier: MIT */
/* tests/unit/base/str.c -- strings, quoting, sizes, numbers, hashing, and indifference to the locale. */
#include "base/str.h"
#include "files.h"
#include <float.h>
#include <locale.h>
#include <math.h>

static void append(void **state)
{
    (void)state;
    books_open(-1);
    qn_str s = {0};
    assert_true(qn__str_puts(&s, "ab"));
    assert_true(qn__str_putc(&s, 'c'));
    assert_true(qn__str_append(&s, "\0x", 2));
    assert_true(qn__str_append(&s, NULL, 0));
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "abc\0x", 6);
    qn__str_clear(&s);
    assert_int_equal(s.len, 0);
    assert_string_equal(s.data, "");
    for (int i = 0; i < 10000; i++) assert_true(qn__str_putc(&s, (char)('a' + i % 26)));
    for (int i = 0; i < 10000; i++) assert_int_equal(s.data[i], 'a' + i % 26);
    assert_int_equal(strlen(s.data), 10000);
    assert_true(books.n_alloc < 20); /* growth is geometric */
    qn__str_deinit(&s);
    qn__str_deinit(&s);
    qn__str_deinit(NULL);
    books_close();
}

static void formatted(void **state)
{
    (void)state;
    qn_str s = {0};
    assert_true(qn__str_printf(&s, "%d %s", 5, "x"));
    assert_string_equal(s.data, "5 x");
    for (int n = 250; n < 262; n++) { /* around the size of the small buffer */
        qn__str_clear(&s);
        assert_true(qn__str_printf(&s, "%*d", n, 1));
        assert_int_equal(s.len, n);
        assert_int_equal(strlen(s.data), n);
        assert_int_equal(s.data[n - 1], '1');
    }
    qn__str_deinit(&s);
}

static void taken(void **state)
{
    (void)state;
    size_t len = 99;
    qn_str s = {0};
    char *p = qn__str_take(&s, &len);
    assert_string_equal(p, "");
    assert_int_equal(len, 0);
    qn_free(p);
    qn__str_puts(&s, "mine");
    p = qn__str_take(&s, NULL);
    assert_string_equal(p, "mine");
    assert_null(s.data);
    qn_free(p);
}

static void sticky_failure(void **state)
{
    (void)state;
    books_open(-1);
    qn_str s = {0};
    assert_true(qn__str_puts(&s, "first"));
    books.countdown = 0; /* the generous growth fails, the exact one works */
    assert_true(qn__str_reserve(&s, s.cap + 1));
    assert_string_equal(s.data, "first");

    assert_false(qn__str_reserve(&s, SIZE_MAX));
    assert_true(s.failed);
    assert_false(qn__str_putc(&s, 'x')); /* although there is room */
    assert_false(qn__str_printf(&s, "y"));
    assert_string_equal(s.data, "first");
    assert_null(qn__str_take(&s, NULL));
    assert_null(s.data);

    qn__str_puts(&s, "again");
    assert_false(qn__str_append(&s, "x", SIZE_MAX)); /* the sum of the lengths overflows */
    assert_true(s.failed);
    assert_string_equal(s.data, "again");
    qn__str_clear(&s); /* a fresh start in the same memory */
    assert_true(qn__str_puts(&s, "ok"));
    qn__str_deinit(&s);
    books_close();
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    long n = 0;
    for (bool done = false; !done; n++) {
        assert_true(n < 100);
        books_open(n);
        qn_str s = {0};
        size_t ok_len = 0;
        for (int i = 0; i < 2000 && !s.failed; i++) {
            if (qn__str_printf(&s, "%d,", i)) ok_len = s.len;
        }
        if (s.failed && s.data != NULL) assert_int_equal(strlen(s.data), ok_len);
        done = books.n_failed == 0;
        const bool failed = s.failed;
        char *p = qn__str_take(&s, NULL);
        assert_true((p == NULL) == failed);
        qn_free(p);
        qn__str_deinit(&s);
        books_close();
    }
    assert_true(n > 4);
}

static void check_quote(const char *text, size_t n, const char *want)
{
    char buf[256];
    assert_ptr_equal(qn__str_quote(buf, sizeof buf, text, n), buf);
    assert_string_equal(buf, want);
}
#define QUOTE(text, want) check_quote(text, sizeof(text) - 1, want)

static void quoted(void **state)
{
    (void)state;
    QUOTE("", "");
    QUOTE("blk.0.attn_q.weight", "blk.0.attn_q.weight");
    QUOTE("a\nb\0c\x1b[31m\x7f", "a\\x0ab\\x00c\\x1b[31m\\x7f");
    QUOTE("it's \"q\" \\", "it\\x27s \\x22q\\x22 \\x5c");
    QUOTE("\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"); /* 2, 3 and 4 bytes */
    QUOTE("\xc2\xa0", "\xc2\xa0");
    QUOTE("\xc2\x9b", "\\xc2\\x9b"); /* C1 control: the 8-bit escape introducer */
    QUOTE("\x80", "\\x80");          /* a lone continuation byte */
    QUOTE("\xc3(", "\\xc3(");        /* no continuation */
    QUOTE("\xe2\x82", "\\xe2\\x82"); /* cut short */
    QUOTE("\xc0\x80", "\\xc0\\x80"); /* overlong */
    QUOTE("\xe0\x80\xaf", "\\xe0\\x80\\xaf");
    QUOTE("\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf");
    QUOTE("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    QUOTE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
    QUOTE("\xf5\xff\xfe", "\\xf5\\xff\\xfe");
    QUOTE("\xe2\x80\xae"
          "abc",
          "\\xe2\\x80\\xae"
          "abc");                             /* right-to-left override */
    QUOTE("\xe2\x81\xa7", "\\xe2\\x81\\xa7"); /* an isolate */
    QUOTE("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* a line separator */
}

static void quote_cuts(void **state)
{
    (void)state;
    char buf[16];
    assert_string_equal(qn__str_quote(buf, 11, "0123456789", 10), "0123456789"); /* fits exactly */
    assert_string_equal(qn__str_quote(buf, 10, "0123456789", 10), "012345...");
    assert_string_equal(qn__str_quote(buf, 8, "\x01\x01\x01", 3), "\\x01...");
    assert_string_equal(qn__str_quote(buf, 7, "\x01\x01\x01", 3), "..."); /* no half of an escape */
    assert_string_equal(qn__str_quote(buf, 8, "a\xe2\x82\xac\xe2\x82\xac", 7), "a\xe2\x82\xac\xe2\x82\xac");
    assert_string_equal(qn__str_quote(buf, 8, "a\xe2\x82\xac\xe2\x82\xac!", 8), "a\xe2\x82\xac...");
    assert_string_equal(qn__str_quote(buf, 7, "a\xe2\x82\xac\xe2\x82\xac", 7), "a...");
    assert_string_equal(qn__str_quote(buf, 3, "abcdef", 6), "..");
    assert_string_equal(qn__str_quote(buf, 1, "abc", 3), "");
    buf[0] = 'z';
    assert_ptr_equal(qn__str_quote(buf, 0, "abc", 3), buf);
    assert_int_equal(buf[0], 'z');
    for (size_t size = 1; size < sizeof buf; size++) { /* terminated and inside, whatever the size */
        memset(buf, '#', sizeof buf);
        qn__str_quote(buf, size, "a\x01\xe2\x82\xac\xff''''''''''''", 18);
        assert_true(strlen(buf) < size);
        for (size_t i = size; i < sizeof buf; i++) assert_int_equal(buf[i], '#');
    }
}

static void byte_sizes(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *want;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1075, "1.0 KiB"},
        {1076, "1.1 KiB"},
        {1048575, "1.0 MiB"},
        {1048524, "1023.9 KiB"},
        {1048525, "1.0 MiB"},
        {1u << 20, "1.0 MiB"},
        {UINT64_C(5) << 30, "5.0 GiB"},
        {UINT64_C(1) << 40, "1.0 TiB"},
        {UINT64_C(3) << 49, "1.5 PiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char buf[32];
        assert_string_equal(qn__str_bytes(buf, sizeof buf, cases[i].n), cases[i].want);
    }
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"+7", 7},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {
        "",
        "-",
        "+",
        " 1",
        "1 ",
        "1x",
        "0x10",
        "1.0",
        "1e3",
        "--1",
        "+-1",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999",
        "\xd9\xa1",
    };
    int64_t v;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(qn__parse_i64(good[i].text, INT64_MIN, INT64_MAX, &v));
        assert_true(v == good[i].want);
    }
    v = 42;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(qn__parse_i64(bad[i], INT64_MIN, INT64_MAX, &v));
    assert_false(qn__parse_i64("11", 1, 10, &v));
    assert_false(qn__parse_i64("0", 1, 10, &v));
    assert_true(v == 42); /* untouched by failures */
    assert_true(qn__parse_i64("10", 1, 10, &v) && v == 10);
}

static void reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double want;
    } good[] = {
        {"0", 0},           {"1", 1},       {"-1.5", -1.5},  {".5", .5},   {"5.", 5},
        {"1e3", 1000},      {"1E-2", 0.01}, {"+2.5e+1", 25}, {"0.1", 0.1}, {"1.7976931348623157e308", DBL_MAX},
        {"5e-324", 5e-324}, {"1e-999", 0},
    };
    static const char *const bad[] = {
        "",    "-",   ".",    "e5",       "1e",    "1e+",   " 1",     "1 ",    "1,5",
        "nan", "inf", "-inf", "infinity", "0x1p3", "1e999", "-1e999", "1.2.3", "1f",
    };
    double v;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(qn__parse_f64(good[i].text, -INFINITY, INFINITY, &v));
        assert_true(v == good[i].want);
    }
    v = 42;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(qn__parse_f64(bad[i], -INFINITY, INFINITY, &v));
    assert_false(qn__parse_f64("1.0001", 0, 1, &v));
    assert_false(qn__parse_f64("0.5", NAN, NAN, &v));
    assert_true(v == 42);
    assert_true(qn__parse_f64("1", 0, 1, &v) && v == 1);
}

/* A host program in a locale with a decimal comma: one that is installed, or one made on the spot where the
 * distribution's locale sources are. */
static void decimal_comma(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(names) && !found; i++) found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) {
        scratch_make("t_base_str");
        char command[1200];
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >'%s/log' 2>&1", scratch,
                 scratch);
        setenv("LOCPATH", scratch, 1);
        found = system(command) == 0 && setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
        unsetenv("LOCPATH");
        remove_tree(scratch);
    }
    if (!found) skip();
    char theirs[16];
    snprintf(theirs, sizeof theirs, "%.1f", 1.5);
    assert_string_equal(theirs, "1,5");
    double v;
    assert_true(qn__parse_f64("1.5", 0, 2, &v) && v == 1.5);
    assert_false(qn__parse_f64("1,5", 0, 2, &v));
    qn_str s = {0};
    qn__str_printf(&s, "%.1f", 1.5);
    assert_string_equal(s.data, "1.5");
    qn__str_deinit(&s);
    snprintf(theirs, sizeof theirs, "%.1f", 1.5);
    assert_string_equal(theirs, "1,5"); /* and theirs is as it was */
    setlocale(LC_ALL, "C");
}

/* Test vectors published with the algorithm (FNV-1a, 64 bit). */
static void hashes(void **state)
{
    (void)state;
    assert_true(qn__hash(QN_HASH_INIT, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(qn__hash(QN_HASH_INIT, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(qn__hash(QN_HASH_INIT, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(qn__hash(qn__hash(QN_HASH_INIT, "foo", 3), "bar", 3) == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append),
        cmocka_unit_test(formatted),
        cmocka_unit_test(taken),
        cmocka_unit_test(sticky_failure),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(quoted),
        cmocka_unit_test(quote_cuts),
        cmocka_unit_test(byte_sizes),
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(decimal_comma),
        cmocka_unit_test(hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
