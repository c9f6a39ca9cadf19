/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_conversation.c -- messages, tools and options as JSON, each up to a zero byte, through one of the
 * templates below, which the first byte chooses. What comes out is UTF-8; its spans ascend within it; every failure has
 * one line. */
#include "require.h"
#include "text/utf8.h"

#include <quern/chat.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    if (size < 1 || size > 1 << 14) return 0;
    char *text = calloc(size + 3, 1);
    REQUIRE(text);
    memcpy(text, data + 1, size - 1);
    const char *part[3] = {text};
    for (int i = 1; i < 3; i++) {
        part[i] = part[i - 1] + strlen(part[i - 1]) + 1;
        if (part[i] > text + size) part[i] = text + size;
    }
    use_conversation(compiled[data[0] % LEN(templates)], part[0], part[1], part[2]);
    free(text);
    return 0;
}
