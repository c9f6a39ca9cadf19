/* SPDX-License-Identifier: MIT */
/* tests/unit/train/special.c -- where texts spell special tokens: the longest wins, parts of one are text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "train/train.h"

static const qn_special_token special[] = {{"<a>", QN_TOKEN_control},
                                           {"<a><b>", QN_TOKEN_user},
                                           {"|", QN_TOKEN_control}};

static void finds(const char *text, size_t from, size_t end, size_t len)
{
    const qn_gguf_str s = {text, strlen(text)};
    size_t have = 99;
    assert_int_equal(qn__special_next(special, 3, &s, from, &have), end);
    assert_int_equal(have, len);
}

static void longest_wins(void **state)
{
    (void)state;
    finds("x<a>y", 0, 1, 3);
    finds("x<a>y", 2, 5, 0);
    finds("x<a><b>y", 0, 1, 6);
    finds("<a", 0, 2, 0);
    finds("<a|", 0, 2, 1);
    finds("", 0, 0, 0);
    const qn_gguf_str text = {"x<a>", 4};
    size_t len = 99;
    assert_int_equal(qn__special_next(NULL, 0, &text, 0, &len), 4);
    assert_int_equal(len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(longest_wins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
