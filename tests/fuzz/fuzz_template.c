/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_template.c -- two programs in one; the first byte chooses.
 *
 * Even: the rest is a template's source, compiled and rendered over a small conversation, within fewer steps and less
 * memory than usual. Odd: messages, tools and options as JSON, each up to a zero byte, through a template of those
 * below (second byte). What comes out is UTF-8; its spans ascend within it; every failure has one line. */
#include "require.h"
#include "text/jinja/jinja.h"
#include "text/jinja/call.h"
#include "text/utf8.h"

#include <quern/chat.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
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

static const char *const templates[] = {
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[INST]{{ m.content | trim }}[/INST]{% endfor %}",
    "{% if tools %}{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}{% for m in messages %}{{ m.role }}: "
    "{{ m.content or '' }}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>{% endfor "
    "%}\n{% endfor %}",
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.type "
    "}}{{ p.text }}"
    "{% endfor %}{% endif %}{% for c in m.tool_calls %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};"
    "{% endfor %}{% endfor %}{% endfor %}{{ documents }}{{ enable_thinking }}{{ x }}",
};
static qn_chat_template *compiled[LEN(templates)];

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

static void use_conversation(const qn_chat_template *t, const char *messages, const char *tools, const char *kwargs)
{
    qn_prompt p;
    qn_error err = {0};
    const qn_chat_options options = {.tools = *tools ? tools : NULL,
                                     .kwargs = *kwargs ? kwargs : NULL,
                                     .bos = "<s>",
                                     .now = 1000000000,
                                     .continue_final_message = strlen(messages) % 4 == 1};
    const qn_status status = qn_chat_render(t, messages, &options, &p, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    size_t end = 0;
    REQUIRE(strlen(p.text) <= p.len && qn__utf8_valid_prefix(p.text, p.len) == p.len);
    for (size_t i = 0; i < p.n_plain; i++) {
        REQUIRE(p.plain[i].begin >= end && p.plain[i].begin < p.plain[i].end && p.plain[i].end <= p.len);
        end = p.plain[i].end;
    }
    qn_prompt_deinit(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qn_error err = {0};
    for (size_t i = 0; i < LEN(templates) && !compiled[i]; i++)
        REQUIRE(qn_chat_template_create(templates[i], strlen(templates[i]), &compiled[i], &err) == QN_OK);
    if (size < 2 || size > 1 << 14) return 0;
    if (data[0] % 2 == 0) {
        use_source((const char *)data + 1, size - 1);
        return 0;
    }
    char *text = calloc(size + 3, 1);
    REQUIRE(text);
    memcpy(text, data + 2, size - 2);
    const char *part[3] = {text};
    for (int i = 1; i < 3; i++) {
        part[i] = part[i - 1] + strlen(part[i - 1]) + 1;
        if (part[i] > text + size) part[i] = text + size;
    }
    use_conversation(compiled[data[1] % LEN(templates)], part[0], part[1], part[2]);
    free(text);
    return 0;
}
