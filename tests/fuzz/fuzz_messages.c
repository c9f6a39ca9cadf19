/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_messages.c -- any text as a conversation out of a file: it is refused with a reason and nothing is
 * added, or it is a list whose JSON reads back to itself, any end of which a template renders or refuses, and whose
 * text becomes no control token. */
#include <quern/chat.h>
#include <quern/messages.h>

#include "require.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ m.reasoning_content }}"
    "{%- for c in m.tool_calls %}[{{ c.function.name }}{{ c.function.arguments|tojson }}]{% endfor %}{% endfor %}";
static qn_chat_template *tmpl;

static char *json_of(const qn_messages *m, size_t first)
{
    char *json;
    REQUIRE(qn_messages_json(m, first, &json, NULL) == QN_OK);
    return json;
}

static void render(const char *json)
{
    qn_prompt p;
    qn_error err;
    if (qn_chat_render(tmpl, json, NULL, &p, &err) != QN_OK) {
        REQUIRE(err.text[0]);
        return;
    }
    for (size_t i = 0; i < p.n_plain; i++)
        REQUIRE(p.plain[i].begin < p.plain[i].end && p.plain[i].end <= p.len &&
                (i == 0 || p.plain[i - 1].end <= p.plain[i].begin));
    qn_prompt_deinit(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qn_messages *m, *again;
    qn_error err = {0};
    char *text = malloc(size + 1);
    if (!tmpl) REQUIRE(qn_chat_template_create(source, sizeof source - 1, &tmpl, NULL) == QN_OK);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    REQUIRE(qn_messages_create(&m, NULL) == QN_OK && qn_messages_create(&again, NULL) == QN_OK);
    if (qn_messages_add_json(m, text, &err) != QN_OK) {
        REQUIRE(err.text[0] && qn_messages_count(m) == 0);
    } else {
        const size_t n = qn_messages_count(m);
        char *json = json_of(m, 0);
        REQUIRE(n > 0 && qn_messages_role(m, n - 1));
        REQUIRE(qn_messages_add_json(again, json, &err) == QN_OK);
        char *twice = json_of(again, 0);
        REQUIRE(qn_messages_count(again) == n && strcmp(json, twice) == 0);
        render(json);
        qn_free(twice);
        qn_free(json);
        json = json_of(m, n / 2);
        render(json);
        qn_free(json);
    }
    /* a text of any bytes is a message, too */
    REQUIRE(qn_messages_add(m, "user", text, &err) == QN_OK);
    qn_messages_destroy(m);
    qn_messages_destroy(again);
    free(text);
    return 0;
}
