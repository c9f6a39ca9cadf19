/* SPDX-License-Identifier: MIT */
/* tests/unit/text/samples.c -- conversations to learn from: what the assistant says, in templates that mark it, that
 * don't, and that show earlier turns in another form. */
#include "../base/failing.h"

#include <quern/chat.h>
#include <stdio.h>

#define CHATML \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
/* Reasoning of the last turn alone, as Qwen3 has it. */
#define FORGETS \
    "{% for m in messages %}[{{ m.role }}:{% if loop.last and m.reasoning_content %}<{{ m.reasoning_content }}>" \
    "{% endif %}{{ m.content }}]{% endfor %}{% if add_generation_prompt %}[assistant:{% endif %}"
#define MARKS \
    "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }};" \
    "{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}"
#define IN_A_MACRO \
    "{% macro say(x) %}{% generation %}{{ x }};{% endgeneration %}{% endmacro %}{% for m in messages %}" \
    "{{ m.role[0] }}:{% if m.role == 'assistant' %}{{ say(m.content) }}{% else %}{{ m.content }};{% endif %}{% " \
    "endfor %}" \
    "{% if add_generation_prompt %}a:{% endif %}"
#define TALK \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yes\", " \
    "\"reasoning_content\": \"hm\"}, {\"role\": \"user\", \"content\": \"no\"}, {\"role\": \"assistant\", " \
    "\"content\": " \
    "\"ja\", \"reasoning_content\": \"oh\"}, {\"role\": \"user\", \"content\": \"bye\"}]}"

static qn_status make(const char *source, const char *talk, qn_chat_sample **out, size_t *n, qn_error *err)
{
    qn_chat_template *t = NULL;
    qn_status status = qn_chat_template_create(source, strlen(source), &t, err);
    if (status == QN_OK) status = qn_chat_samples_create(t, talk, strlen(talk), NULL, out, n, err);
    qn_chat_template_destroy(t);
    return status;
}

/* want: the samples' texts with what is said between < and >, one after the other. */
static void says(const char *source, const char *talk, const char *want)
{
    qn_chat_sample *s = NULL;
    size_t n = 0, len = 0;
    char have[2048];
    qn_error err;
    if (make(source, talk, &s, &n, &err) != QN_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        for (size_t at = 0; at <= s[i].prompt.len; at++) {
            if (k < s[i].n_said && at == s[i].said[k].end) {
                have[len++] = '}';
                k++;
            }
            if (k < s[i].n_said && at == s[i].said[k].begin) have[len++] = '{';
            if (at < s[i].prompt.len) have[len++] = s[i].prompt.text[at];
        }
        assert_int_equal(k, s[i].n_said);
        have[len++] = '$';
    }
    have[len] = '\0';
    assert_string_equal(have, want);
    qn_chat_samples_destroy(s, n);
}

static void what_is_said(void **state)
{
    (void)state;
    says(CHATML, TALK,
         "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{yes<|im_end|>\n}<|im_start|>user\nno<|im_end|>\n"
         "<|im_start|>assistant\n{ja<|im_end|>\n}$");
    says(FORGETS, TALK, "[user:hi][assistant:{<hm>yes]}$[user:hi][assistant:yes][user:no][assistant:{<oh>ja]}$");
    says(MARKS, TALK, "u:hi;a:{yes;}u:no;a:{ja;}u:bye;$");
    says(IN_A_MACRO, TALK, "u:hi;a:{yes;}u:no;a:{ja;}$");
    /* the assistant begins; two of its turns in a row */
    says(MARKS,
         "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
         "\"b\"}]}",
         "a:{a;}a:{b;}$");
    says(IN_A_MACRO,
         "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
         "\"b\"}]}",
         "a:{a;}a:{b;}$");
}

#define WEIGHED \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"x\", " \
    "\"weight\": " \
    "0}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"y\", \"weight\": 1}]}"

static void weights(void **state)
{
    (void)state;
    says(MARKS, WEIGHED, "u:q;a:x;u:r;a:{y;}$");
    says(IN_A_MACRO, WEIGHED, "u:q;a:x;u:r;a:{y;}$");
}

/* The prompt for a turn ends in characters that the turn begins with, inside of one of several bytes: none is cut. */
static void characters_whole(void **state)
{
    (void)state;
    says("{% for m in messages %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}ä{% endif %}",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"ö\"}]}",
         "q|{ö|}$");
}

static void kwargs_and_tools(void **state)
{
    (void)state;
    says("{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{{ mood }}{% for m in messages %}{{ m.content "
         "}}{% for "
         "c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %};{% endfor %}",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"tool_calls\": "
         "[{\"function\": "
         "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}], \"tools\": [{\"type\": \"function\", \"function\": "
         "{\"name\": \"f\"}}], \"chat_template_kwargs\": {\"mood\": \"!\"}}",
         "f !q;{f{\"a\": 1};}$");
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *source, *talk, *text;
    } cases[] = {
        {CHATML, "[]", "found list, expected an object with messages"},
        {CHATML, "{\"messages\": 1}", "messages: a list is expected"},
        {CHATML, "{\"messages\": [{\"role\": 1}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
         "messages[0].role: found int"},
        {CHATML, "{\"messages\": []}", "no turn of the assistant's"},
        {CHATML, "{\"messages\": [{\"role\": \"assistant\", \"content\": 1}]}", "messages[0].content"},
        {"{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", TALK,
         "messages[1]: the template shows nothing of it"},
        {CHATML, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}], \"chat_template_kwargs\": 3}",
         "chat_template_kwargs: found int"},
        {CHATML, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}], \"tools\": [{\"name\": \"f\"}]}",
         "tools: the template does not show them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_chat_sample *s = NULL;
        size_t n = 0;
        qn_error err;
        assert_int_equal(make(cases[i].source, cases[i].talk, &s, &n, &err), QN_STATUS_invalid);
        if (!strstr(err.text, cases[i].text)) fail_msg("\"%s\" has no \"%s\"", err.text, cases[i].text);
        assert_null(s);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    static const char *const sources[] = {CHATML, FORGETS, MARKS};
    for (int k = 0; k < 3; k++) {
        qn_chat_template *t = NULL;
        assert_int_equal(qn_chat_template_create(sources[k], strlen(sources[k]), &t, NULL), QN_OK);
        for (long at = 0;; at++) {
            qn_chat_sample *s = NULL;
            size_t n = 0;
            qn_error err;
            books_open(at);
            const qn_status status = qn_chat_samples_create(t, TALK, strlen(TALK), NULL, &s, &n, &err);
            const bool failed = books.n_failed > 0;
            if (status == QN_OK) qn_chat_samples_destroy(s, n);
            assert_int_equal(books.bytes, 0);
            qn_set_allocator(NULL);
            assert_true(status == QN_OK || status == QN_STATUS_nomem);
            if (!failed) {
                assert_int_equal(status, QN_OK);
                assert_true(at > 5);
                break;
            }
        }
        qn_chat_template_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),     cmocka_unit_test(weights), cmocka_unit_test(characters_whole),
        cmocka_unit_test(kwargs_and_tools), cmocka_unit_test(refused), cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
