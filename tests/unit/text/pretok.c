/* SPDX-License-Identifier: MIT */
/* tests/unit/text/pretok.c -- pre-tokenizers: every row of pretok.def cuts the torture texts exactly as the models' own
 * patterns do under another regular expression engine (pretok_figures.inc, written by tests/oracle/pretok.py), with
 * PCRE2's JIT and without; no split takes quadratic time on long runs of anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/tokenizer/pretok.h"
#include "text/utf8.h"
#include "pretok_figures.inc"
#include "shorter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TORTURE (sizeof torture / sizeof *torture)
#define N_FIGURES (sizeof figures / sizeof *figures)

/* Whether `name` is one of the words of `list`. */
static bool has_word(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)); p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

static void check_split(const qn_pretok_row *row, const qn_pretok *p, size_t t, const char *want)
{
    qn_encoder e = {0};
    qn_error err = {0};
    if (qn__pretok_split(p, &e, torture[t].text, torture[t].len, &err) != QN_OK)
        fail_msg("%s: %s", row->name, err.text);
    uint32_t begin = 0;
    for (size_t i = 0; i < e.words.n; i++) {
        char *end;
        const unsigned long n = strtoul(want, &end, 10);
        if (e.words.ends[i] - begin != n)
            fail_msg("%s, text %zu: stretch %zu at byte %u has %u bytes, %lu expected", row->name, t, i, begin,
                     e.words.ends[i] - begin, n);
        begin = e.words.ends[i];
        want = end;
    }
    assert_int_equal(begin, torture[t].len);
    assert_true(strspn(want, " ") == strlen(want));
    qn__encoder_deinit(&e);
}

static void check_rows(bool jit)
{
    size_t n, n_names = 0;
    const qn_pretok_row *rows = qn__pretok_rows(&n);
    for (size_t i = 0; i < n; i++) {
        size_t f = 0;
        while (f < N_FIGURES && !has_word(figures[f].names, rows[i].name)) f++;
        if (f == N_FIGURES) fail_msg("no figures for %s", rows[i].name);
        qn_pretok *p;
        qn_error err = {0};
        if (qn__pretok_create(&rows[i], jit, &p, &err) != QN_OK) fail_msg("%s", err.text);
        for (size_t t = 0; t < N_TORTURE; t++) check_split(&rows[i], p, t, figures[f].lengths[t]);
        qn__pretok_destroy(p);
    }
    for (size_t f = 0; f < N_FIGURES; f++) {
        n_names++;
        for (const char *c = figures[f].names; *c; c++) n_names += *c == ' ';
    }
    assert_int_equal(n, n_names);
    assert_true(n >= 60);
}

static void rows_cut_as_the_oracle_does(void **state)
{
    (void)state;
    check_rows(true);
}
static void rows_cut_alike_without_jit(void **state)
{
    (void)state;
    check_rows(false);
}

static void names_are_unique_and_found(void **state)
{
    (void)state;
    size_t n;
    const qn_pretok_row *rows = qn__pretok_rows(&n);
    for (size_t i = 0; i < n; i++) assert_ptr_equal(qn__pretok_find(rows[i].name), &rows[i]);
    assert_null(qn__pretok_find("gpt-2000"));
    assert_null(qn__pretok_find(""));
}

static bool steps_came_before(const qn_pretok_row *rows, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (rows[k].steps == rows[i].steps) return true;
    return false;
}

/* A long run of one thing, and then something that the run can't be joined to. Quadratic search would take many
 * minutes. */
static void long_runs(bool jit, size_t size)
{
    static const char *const units[] = {"a",        "A",        "aA",           "1",  " ",  "\t", "\n",       " \n",
                                        "!",        "\xCC\x81", "\xE4\xB8\x80", "a ", "1a", "'",  "\xC2\xBD", "\x01",
                                        "\xD9\xA1", " '",       "a\xCC\x81"};
    char *text = malloc(size + 8);
    size_t n;
    const qn_pretok_row *rows = qn__pretok_rows(&n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        if (steps_came_before(rows, i)) continue; /* many names share a split */
        qn_pretok *p;
        qn_error err = {0};
        assert_int_equal(qn__pretok_create(&rows[i], jit, &p, &err), QN_OK);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            const size_t unit = strlen(units[u]), len = size / unit * unit;
            qn_encoder e = {0};
            for (size_t k = 0; k < len; k += unit) memcpy(text + k, units[u], unit);
            text[len] = u % 2 ? 'x' : '~';
            if (qn__pretok_split(p, &e, text, len + 1, &err) != QN_OK)
                fail_msg("%s, run of \"%s\": %s", rows[i].name, units[u], err.text);
            assert_int_equal(e.words.ends[e.words.n - 1], len + 1);
            qn__encoder_deinit(&e);
        }
        qn__pretok_destroy(p);
    }
    free(text);
}

static void long_runs_take_linear_time(void **state)
{
    (void)state;
    long_runs(true, 384 * 1024 / SHORTER);
}
static void long_runs_without_jit(void **state)
{
    (void)state;
    long_runs(false, 128 * 1024 / SHORTER);
}

static void white_space_is_unicodes(void **state)
{
    (void)state;
    qn_str s = {0};
    assert_true(qn__pretok_expand(&s, "a[\\s\\]x]\\S\\\\s"));
    assert_non_null(strstr(s.data, "a[\\x09-\\x0d"));
    assert_non_null(strstr(s.data, "\\x{3000}\\]x][^\\x09-"));
    assert_string_equal(s.data + s.len - 3, "\\\\s");
    assert_null(strstr(s.data, "180"));
    qn__str_deinit(&s);
    size_t n = 0;
    for (uint32_t cp = 0; cp < 0x110000; cp++) n += qn__cp_is_space(cp);
    assert_int_equal(n, 25); /* as many code points have White_Space */
    assert_false(qn__cp_is_space(0x180E));
    assert_false(qn__cp_is_space(0x200B));
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_cut_as_the_oracle_does), cmocka_unit_test(rows_cut_alike_without_jit),
        cmocka_unit_test(names_are_unique_and_found),  cmocka_unit_test(long_runs_take_linear_time),
        cmocka_unit_test(long_runs_without_jit),       cmocka_unit_test(white_space_is_unicodes),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
