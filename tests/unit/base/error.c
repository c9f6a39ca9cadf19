/* SPDX-License-Identifier: MIT */
/* tests/unit/base/error.c -- statuses, raising, prefixing, cutting. */
#include "base/error.h"
#include "failing.h"

static void status_rows(void **state)
{
    (void)state;
    assert_string_equal(qn_status_name(QN_STATUS_ok), "ok");
    assert_string_equal(qn_status_name(QN_STATUS_internal), "internal");
    assert_string_equal(qn_status_text(QN_STATUS_nomem), "out of memory");
    assert_int_equal(QN_OK, 0);
    assert_string_equal(qn_status_name(QN_STATUS_COUNT), "unknown");
    assert_string_equal(qn_status_text((qn_status)-1), "unknown");
    assert_string_equal(qn_version(), QN_VERSION);
}

static void fail_fills(void **state)
{
    (void)state;
    qn_error err = {0};
    const int line = __LINE__ + 1;
    assert_int_equal(QN_FAIL(&err, format, "tensor '%s' at %d", "blk.0", 7), QN_STATUS_format);
    assert_int_equal(err.status, QN_STATUS_format);
    assert_string_equal(err.text, "tensor 'blk.0' at 7");
    assert_non_null(strstr(err.file, "error.c"));
    assert_int_equal(err.line, line);
    assert_int_equal(QN_FAIL(NULL, io, "nobody listens"), QN_STATUS_io);
    assert_int_equal(QN_FAIL_NOMEM(&err, 123), QN_STATUS_nomem);
    assert_string_equal(err.text, "out of memory: 123 bytes were asked for");
}

static void one_line(void **state)
{
    (void)state;
    qn_error err;
    QN_FAIL(&err, invalid, "a\nb\r\tc\x1b[2Jd%c", 0x7f);
    assert_string_equal(err.text, "a b  c [2Jd ");
}

static void may_quote_itself(void **state)
{
    (void)state;
    qn_error err;
    QN_FAIL(&err, invalid, "inner");
    QN_FAIL(&err, format, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
}

static void cut_at_a_character(void **state)
{
    (void)state;
    qn_error err;
    char text[700];
    memset(text, 'x', sizeof text);
    memcpy(text + 510, "\xe2\x82\xac", 3); /* a euro sign over the edge of 511 */
    text[699] = '\0';
    QN_FAIL(&err, invalid, "%s", text);
    assert_int_equal(strlen(err.text), 510);
    memset(text, 'y', 699);
    QN_FAIL(&err, invalid, "%s", text);
    assert_int_equal(strlen(err.text), 511);
}

static void prefixed(void **state)
{
    (void)state;
    qn_error err;
    QN_FAIL(&err, format, "bad magic");
    assert_int_equal(qn__prefix(&err, QN_STATUS_format, "'%s'", "m.gguf"), QN_STATUS_format);
    assert_string_equal(err.text, "'m.gguf': bad magic");
    assert_int_equal(qn__prefix(NULL, QN_STATUS_io, "x"), QN_STATUS_io);
    assert_int_equal(qn__prefix(&err, QN_OK, "x"), QN_OK); /* nothing failed: nothing changes */
    assert_string_equal(err.text, "'m.gguf': bad magic");

    char text[600];
    memset(text, 'p', sizeof text);
    text[599] = '\0';
    qn__prefix(&err, QN_STATUS_format, "%s", text); /* a prefix that fills everything */
    assert_int_equal(strlen(err.text), 511);
    assert_int_equal(err.text[510], 'p');
    QN_FAIL(&err, format, "%.500s", text);
    qn__prefix(&err, QN_STATUS_format, "%.500s", text); /* both long: 500 of prefix, colon, blank, the rest */
    assert_int_equal(strlen(err.text), 511);
    assert_int_equal(err.text[500], ':');
}

static qn_status tries(qn_status inner, int *reached)
{
    QN_TRY(inner);
    *reached = 1;
    return QN_OK;
}

static void try_returns(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tries(QN_STATUS_limit, &reached), QN_STATUS_limit);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(QN_OK, &reached), QN_OK);
    assert_int_equal(reached, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_rows),      cmocka_unit_test(fail_fills),         cmocka_unit_test(one_line),
        cmocka_unit_test(may_quote_itself), cmocka_unit_test(cut_at_a_character), cmocka_unit_test(prefixed),
        cmocka_unit_test(try_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
