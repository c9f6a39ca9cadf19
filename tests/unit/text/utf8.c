/* SPDX-License-Identifier: MIT */
/* tests/unit/text/utf8.c -- where a text stops being UTF-8 is found, at every place, whatever stands before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* What does not begin a character, or begins one that does not go on. */
static const char *const broken[] = {"\x80", "\xBF", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                     "\xF8", "\xFF", "\xC3",     "\xE2\x82",     "\xF0\x9F\x98"};

static void first_broken_byte(void **state)
{
    static const char *const before[] = {"a",        "\xC3\xA4",       "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                                         "abcdefgh", "aaaaaaa\xC3\xA4"};
    (void)state;
    for (size_t k = 0; k < sizeof before / sizeof *before; k++)
        for (size_t b = 0; b < sizeof broken / sizeof *broken; b++)
            for (size_t times = 0; times < 40; times++)
                for (int more = 0; more < 2; more++) {
                    const size_t unit = strlen(before[k]), good = times * unit,
                                 n = good + strlen(broken[b]) + (more ? 20 : 0);
                    char *text = malloc(n); /* of its own, so that a sanitizer sees a byte too many */
                    memset(text, 'z', n);
                    for (size_t i = 0; i < times; i++) memcpy(text + i * unit, before[k], unit);
                    assert_int_equal(qn__utf8_valid_prefix(text, good), good);
                    memcpy(text + good, broken[b], strlen(broken[b]));
                    assert_int_equal(qn__utf8_valid_prefix(text, n), good);
                    free(text);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_broken_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
