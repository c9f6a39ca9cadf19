/* SPDX-License-Identifier: MIT */
/* tests/unit/text/conversation.c -- a conversation as it grows: what is added comes out as JSON that a template takes,
 * what is wrong is refused with its place and changes nothing, and so does every allocation that fails. */
#include "../base/failing.h"

#include <quern/chat.h>
#include <quern/messages.h>

static qn_messages *made(void)
{
    qn_messages *m;
    assert_int_equal(qn_messages_create(&m, NULL), QN_OK);
    return m;
}

static void is(const qn_messages *m, size_t first, const char *want)
{
    char *json = NULL;
    qn_error err;
    if (qn_messages_json(m, first, &json, &err) != QN_OK) fail_msg("%s", err.text);
    assert_string_equal(json, want);
    qn_free(json);
}

#define OK(call) \
    do { \
        qn_error err; \
        if ((call) != QN_OK) fail_msg("%s", err.text); \
    } while (0)

#define SYSTEM "{\"role\": \"system\", \"content\": \"S\"}"
#define USER   "{\"role\": \"user\", \"content\": \"a \\\"b\\\"\\n\\u001b[1m\"}"
#define RESULT "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"4\"}"
#define CALLS \
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", \"function\": {\"name\": \"f\", " \
    "\"arguments\": {\"x\": 1.5}}}], \"more\": [true]}"

static void grows(void **state)
{
    (void)state;
    qn_messages *m = made();
    is(m, 0, "[]");
    OK(qn_messages_add(m, "system", "S", &err));
    OK(qn_messages_add(m, "user", "a \"b\"\n\033[1m", &err));
    OK(qn_messages_add_json(m, CALLS, &err));
    OK(qn_messages_add_result(m, "c1", "4", &err));
    OK(qn_messages_add(m, "user", "u2", &err));
    is(m, 0, "[" SYSTEM ", " USER ", " CALLS ", " RESULT ", {\"role\": \"user\", \"content\": \"u2\"}]");
    is(m, 4, "[" SYSTEM ", {\"role\": \"user\", \"content\": \"u2\"}]");
    is(m, 99, "[" SYSTEM "]");
    assert_int_equal(qn_messages_count(m), 5);
    assert_string_equal(qn_messages_role(m, 2), "assistant");
    assert_string_equal(qn_messages_get(m, 3), RESULT);
    assert_null(qn_messages_role(m, 5));
    assert_null(qn_messages_get(m, 5));
    OK(qn_messages_set(m, 0, "system", "T", &err));
    assert_string_equal(qn_messages_get(m, 0), "{\"role\": \"system\", \"content\": \"T\"}");
    assert_int_equal(qn_messages_count(m), 5);
    qn_messages_truncate(m, 1);
    is(m, 0, "[{\"role\": \"system\", \"content\": \"T\"}]");
    qn_messages_truncate(m, 7);
    assert_int_equal(qn_messages_count(m), 1);
    /* Two bytes that are no UTF-8 are two replacement characters; what is valid stays. */
    OK(qn_messages_add(m, "user", "\xc3\xa4\xff\xc3", &err));
    assert_string_equal(qn_messages_get(m, 1),
                        "{\"role\": \"user\", \"content\": \"\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\"}");
    qn_messages_destroy(m);
    qn_messages_destroy(NULL);
}

/* What was written can be read again, and means the same to a template. */
static void reads_back(void **state)
{
    (void)state;
    static const char all[] = "[" SYSTEM ", " USER ", " CALLS ", " RESULT "]";
    static const char source[] = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}"
                                 "{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %};{% endfor %}";
    qn_messages *m = made();
    qn_chat_template *t;
    qn_prompt p;
    OK(qn_messages_add_json(m, all, &err));
    is(m, 0, all);
    OK(qn_chat_template_create(source, sizeof source - 1, &t, &err));
    OK(qn_chat_render(t, all, NULL, &p, &err));
    assert_string_equal(p.text, "system:S;user:a \"b\"\n\033[1m;assistant:f{\"x\": 1.5};tool:4;");
    qn_prompt_deinit(&p);
    qn_chat_template_destroy(t);
    qn_messages_destroy(m);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
    } bad[] = {
        {"", "messages: JSON, offset 0"},
        {"[" USER, "messages: JSON"},
        {"3", "found int"},
        {"[]", "empty"},
        {"[" USER ", 3]", "messages[1]: found int"},
        {"[" USER ", {\"content\": \"x\"}]", "messages[1].role"},
        {"{\"role\": 7}", "messages[0].role"},
        {"{\"role\": \"user\", \"content\": {}}", "messages[0].content"},
        {"{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}", "image_url"},
        {"{\"role\": \"assistant\", \"tool_calls\": {}}", "messages[0].tool_calls"},
        {"{\"role\": \"assistant\", \"tool_calls\": [{}]}", "messages[0].tool_calls[0].function.name"},
        {"{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\"}}]}",
         "messages[0].tool_calls[0].function.arguments"},
    };
    qn_messages *m = made();
    OK(qn_messages_add(m, "user", "kept", &err));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        qn_error err;
        assert_int_equal(qn_messages_add_json(m, bad[i].json, &err), QN_STATUS_invalid);
        if (!strstr(err.text, bad[i].word)) fail_msg("%s: %s", bad[i].json, err.text);
    }
    qn_error err;
    assert_int_equal(qn_messages_set(m, 1, "user", "x", &err), QN_STATUS_invalid);
    is(m, 0, "[{\"role\": \"user\", \"content\": \"kept\"}]");
    qn_messages_destroy(m);
}

static qn_status work(qn_messages *m, qn_error *err)
{
    char *json;
    qn_status status = qn_messages_add(m, "user", "\xff", err);
    if (status == QN_OK) status = qn_messages_add_json(m, "[" SYSTEM ", " CALLS ", " RESULT "]", err);
    if (status == QN_OK) status = qn_messages_set(m, 1, "user", "y", err);
    if (status == QN_OK) status = qn_messages_json(m, 0, &json, err);
    if (status == QN_OK) qn_free(json);
    return status;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    bool done = false;
    int failures = 0;
    for (long at = 0; !done; at++) {
        books_open(at);
        qn_messages *m = NULL;
        qn_error err;
        qn_status status = qn_messages_create(&m, &err);
        if (status == QN_OK) status = work(m, &err);
        done = books.n_failed == 0;
        /* a string that can't have room to grow goes on with what it needs */
        if (status != QN_OK && status != QN_STATUS_nomem) fail_msg("allocation %ld: %s", at, err.text);
        failures += status != QN_OK;
        assert_true(!done || status == QN_OK);
        const size_t n = m ? qn_messages_count(m) : 0;
        assert_true(n == 0 || n == 1 || n == 4); /* an array is added as a whole */
        qn_messages_destroy(m);
        books_close();
        assert_true(at < 1000);
    }
    assert_true(failures > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grows), cmocka_unit_test(reads_back), cmocka_unit_test(refused),
                                       cmocka_unit_test(every_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
