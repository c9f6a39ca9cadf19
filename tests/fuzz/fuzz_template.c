/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_template.c -- any text as a template's source, compiled and rendered over a small conversation,
 * within fewer steps and less memory than usual, as jinja2's sandbox would and with what it lacks. What comes out is
 * UTF-8; every failure has one line. */
#include "require.h"
#include "text/jinja/jinja.h"
#include "text/jinja/call.h"
#include "text/utf8.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"h\\u00e9 "
    "<b> 1\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", "
    "\"function\":"
    " {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": [true, null]}}}]},"
    " {\"role\": \"tool\", \"content\": \"7\", \"tool_call_id\": \"c1\"}], \"tools\": [{\"name\": \"f\"}],"
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"n\": 3, \"s\": \"a b c\", \"l\": [3, 1, 2], \"d\": "
    "{\"k\": \"v\"}}";

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status == QN_STATUS_format || status == QN_STATUS_limit || status == QN_STATUS_invalid ||
            status == QN_STATUS_cancelled);
    /* a template may refuse without a word */
    REQUIRE(err->status == status && (err->text[0] || status == QN_STATUS_cancelled) &&
            strlen(err->text) < sizeof err->text);
}

static void use_source(const char *source, size_t n)
{
    qn_jinja *j;
    qn_error err = {0};
    qn_heap h;
    qn_status status = qn__jinja_compile(source, n, &j, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    for (int strict = 0; strict < 2; strict++) {
        const qn_jinja_options options = {.now = 1000000000,
                                          .strict = strict,
                                          .max_steps = 20000,
                                          .max_bytes = 4 << 20};
        qn__jinja_heap_init(&h, &options, &err);
        const qn_val v = qn__parse_json(&h, variables, sizeof variables - 1, true);
        REQUIRE(h.status == QN_OK && v.type == QN_VAL_dict);
        const qn_val text = qn__jinja_render(j, &h, v.d, &options);
        if (h.status != QN_OK)
            check_error(h.status, &err);
        else
            REQUIRE(text.type == QN_VAL_str && qn__utf8_valid_prefix(text.s->data, text.s->n) == text.s->n);
        qn__jinja_heap_deinit(&h);
    }
    qn__jinja_destroy(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 1 << 14) use_source((const char *)data, size);
    return 0;
}
