/* SPDX-License-Identifier: MIT */
/* src/text/chat/probe.c -- what a template wants, found out by rendering small conversations with words that occur
 * nowhere else: a form is right when all of its words appear, once encoded and not as Python would print them. */
#include "text/chat/syntax.h"

#define USER      "{\"role\": \"user\", \"content\": \"qn-user\"}"
#define ASSISTANT "{\"role\": \"assistant\", \"content\": \"qn-answer\"}"
#define CALL(id, n) \
    "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"qn_tool" n \
    "\", \"arguments\": {\"qn_arg\": " \
    "\"qn-value" n "\"}}}"
#define RESULT(id, n) "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"qn-result" n "\"}"
#define TOOL(n) \
    "{\"type\": \"function\", \"function\": {\"name\": \"qn_tool" n \
    "\", \"description\": \"qn-about\", \"parameters\": " \
    "{\"type\": \"object\", \"properties\": {\"qn_par\": {\"type\": \"string\", \"description\": \"qn-arg\"}}, " \
    "\"required\": [\"qn_par\"]}}}"

static const char one_tool[] = "[" TOOL("1") "]", two_tools[] = "[" TOOL("1") ", " TOOL("2") "]";
static const char nullable[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"qn_tool1\", \"description\": \"qn-about\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"qn_par\": {\"type\": [\"string\", \"null\"]}}}}}]";
/* As little as clients send: description and parameters are optional. */
static const char only_a_name[] = "[{\"type\": \"function\", \"function\": {\"name\": \"qn_tool1\"}}]";
static const char undescribed[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"qn_tool1\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"qn_par\": {\"type\": \"string\"}}}}}]";
static const char one_call[] =
    "[" USER
    ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [" CALL("call_qn_id1",
                                                                            "1") "]}, " RESULT("call_qn_id1", "1") "]";
static const char two_calls[] =
    "[" USER ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [" CALL("call_qn_id1", "1") ", " CALL(
        "call_qn_id2", "2") "]}, " RESULT("call_qn_id1", "1") ", " RESULT("call_qn_id2", "2") "]";

/* Whether the conversation renders and shows all of `words`, separated by blanks, and none of `not`. */
static bool shows_with(const qn_chat_template *t, const char *messages, const char *tools,
                       const qn_chat_options *options, const char *words, const char *const *never)
{
    qn_heap h;
    bool good = false;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    const qn_val list = qn__chat_messages(&h, &t->needs, qn__parse_json(&h, messages, strlen(messages), true));
    const qn_val with =
        tools ? qn__chat_tools(&h, &t->needs, qn__parse_json(&h, tools, strlen(tools), true)) : qn__none();
    const qn_val text = qn__chat_run(t, &h, list, with, options);
    if (h.status == QN_OK && qn__is_str(text)) {
        char word[32];
        good = true;
        for (const char *p = words; *p && good;) {
            const size_t n = strcspn(p, " ");
            memcpy(word, p, n);
            word[n] = '\0';
            good = strstr(text.s->data, word);
            p += n + (p[n] == ' ');
        }
        for (; never && *never && good; never++) good = !strstr(text.s->data, *never);
    }
    qn__jinja_heap_deinit(&h);
    return good;
}

static bool shows(const qn_chat_template *t, const char *messages, const char *tools, bool generation,
                  const char *words, const char *const *never)
{
    return shows_with(t, messages, tools, &(qn_chat_options){.no_generation_prompt = !generation, .now = 1}, words,
                      never);
}

static void probe_calls(qn_chat_template *t)
{
    /* as Python prints it; encoded twice; no content printed as None */
    static const char *const never[] = {"{'qn_arg'", "\\\"qn_arg", NULL};
    static const char *const never_null[] = {"{'qn_arg'", "\\\"qn_arg", "None", NULL};
    qn_chat_needs *const n = &t->needs;
    n->calls = true;
    for (int form = 0; form < 8; form++) {
        n->arguments_text = form & 1;
        n->call_content_null = form & 2;
        n->short_ids = form & 4;
        if (shows(t, one_call, one_tool, true, "qn_tool1 qn-value1 qn-result1",
                  n->call_content_null ? never_null : never))
            return;
    }
    n->calls = n->arguments_text = n->call_content_null = n->short_ids = false;
}

static void probe_reasoning(qn_chat_template *t)
{
    static const char *const fields[] = {"reasoning_content", "thinking", "reasoning"};
    static const char turn[] = "[" USER ", {\"role\": \"assistant\", \"content\": \"qn-answer\", "
                               "\"reasoning\": \"qn-thought\"}]";
    static const char before_call[] =
        "[" USER ", {\"role\": \"assistant\", \"content\": \"\", \"reasoning\": "
        "\"qn-thought\", \"tool_calls\": [" CALL("call_qn_id1", "1") "]}, " RESULT("call_qn_id1", "1") "]";
    enum { N = sizeof fields / sizeof *fields };
    for (int i = 0; i < 2 * N; i++) { /* some show it only where thinking is on */
        const qn_chat_options last = {.no_generation_prompt = true, .now = 1, .thinking = i / N},
                              next = {.now = 1, .thinking = i / N};
        t->needs.reasoning = fields[i % N];
        if (shows_with(t, turn, NULL, &last, "qn-thought", NULL)) return;
        if (t->needs.calls && shows_with(t, before_call, one_tool, &next, "qn-thought", NULL)) return;
    }
    t->needs.reasoning = NULL;
}

/* Whether a turn with a call is refused for its content beside its reasoning, each of which may be there alone. */
static void probe_thought_or_content(qn_chat_template *t)
{
#define TURN(content, reasoning) \
    "[" USER ", {\"role\": \"assistant\", \"content\": \"" content "\", \"reasoning\": \"" reasoning \
    "\", \"tool_calls\": [" CALL("call_qn_id1", "1") "]}, " RESULT("call_qn_id1", "1") "]"
    if (!t->needs.calls || !t->needs.reasoning) return;
    t->needs.thought_or_content =
        !shows(t, TURN("qn-answer", "qn-thought"), one_tool, true, "qn_tool1 qn-value1", NULL) &&
        shows(t, TURN("", "qn-thought"), one_tool, true, "qn_tool1 qn-value1", NULL) &&
        shows(t, TURN("qn-answer", ""), one_tool, true, "qn_tool1 qn-value1", NULL);
#undef TURN
}

/* Whether the prompt with these options is another than with those. */
static bool differs(const qn_chat_template *t, const qn_chat_options *these, const qn_chat_options *those)
{
    qn_heap h;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    const qn_val list = qn__chat_messages(&h, &t->needs, qn__parse_json(&h, "[" USER "]", strlen("[" USER "]"), true));
    const qn_val one = qn__chat_run(t, &h, list, qn__none(), these),
                 other = qn__chat_run(t, &h, list, qn__none(), those);
    const bool differ = h.status == QN_OK && !qn__val_equal(one, other);
    qn__jinja_heap_deinit(&h);
    return differ;
}

void qn__chat_probe(qn_chat_template *t)
{
    static const char *const python[] = {"'type'", "\"type\"", NULL};
    qn_chat_needs *const n = &t->needs;
    n->system = n->late_system = n->developer = n->several_calls = true;
    for (int form = 0; form < 4; form++) {
        n->empty_tools = form & 1;
        n->content_parts = form & 2;
        if (shows(t, "[" USER "]", NULL, true, "qn-user", n->content_parts ? python : NULL)) break;
        n->empty_tools = n->content_parts = false;
    }
    n->system = shows(t, "[{\"role\": \"system\", \"content\": \"qn-system\"}, " USER "]", NULL, true,
                      "qn-system qn-user", NULL);
    n->late_system = n->system && shows(t,
                                        "[{\"role\": \"system\", \"content\": \"qn-first\"}, " USER ", " ASSISTANT
                                        ", {\"role\": \"system\", \"content\": \"qn-late\"}, " USER "]",
                                        NULL, true, "qn-first qn-user qn-answer qn-late", NULL);
    n->developer = shows(t, "[{\"role\": \"developer\", \"content\": \"qn-developer\"}, " USER "]", NULL, true,
                         "qn-developer qn-user", NULL);
    n->tools = shows(t, "[" USER "]", one_tool, true, "qn_tool1", NULL);
    if (!n->tools) {
        n->flat_tools = true;
        n->tools = n->flat_tools = shows(t, "[" USER "]", one_tool, true, "qn_tool1", NULL);
    }
    n->single_types = n->tools && !shows(t, "[" USER "]", nullable, true, "qn_tool1", NULL);
    n->whole_tools = n->tools && (!shows(t, "[" USER "]", only_a_name, true, "qn_tool1", NULL) ||
                                  !shows(t, "[" USER "]", undescribed, true, "qn_tool1", NULL));
    probe_calls(t);
    if (n->calls)
        n->several_calls =
            shows(t, two_calls, two_tools, true, "qn_tool1 qn-value1 qn-result1 qn_tool2 qn-value2 qn-result2", NULL);
    probe_reasoning(t);
    probe_thought_or_content(t);
    n->thinking_switch =
        differs(t, &(qn_chat_options){.now = 1, .thinking = 1}, &(qn_chat_options){.now = 1, .thinking = -1});
    n->effort_switch = differs(t, &(qn_chat_options){.now = 1, .thinking = 1, .reasoning_effort = "low"},
                               &(qn_chat_options){.now = 1, .thinking = 1, .reasoning_effort = "high"});
}
