/* SPDX-License-Identifier: MIT */
/* chat.c -- a conversation with a model that can ask for the time. Build against the installed library:
 *     cc chat.c -o chat $(pkg-config --cflags --libs quern) && ./chat MODEL.gguf */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static qn_error err;
#define CHECK(call) \
    if ((call) != QN_OK) exit((fprintf(stderr, "%s\n", err.text), 1))

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_time\", \"description\": \"The time in a city\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}]";

static qn_chat_template *template;
static const qn_tokenizer *tok;
static qn_session *session;
static qn_messages *messages;

/* Prints what the model says and adds it to the messages. Returns how many tools it calls. */
static int reply(qn_sampler *sampler)
{
    char *json;
    qn_prompt prompt;
    qn_token *ids, token;
    size_t n, kept, n_events, n_calls = 0;
    qn_chat_reader *reader;
    const qn_chat_event *e;
    CHECK(qn_messages_json(messages, 0, &json, &err));
    CHECK(qn_chat_render(template, json, &(qn_chat_options){.tools = tools}, &prompt, &err));
    CHECK(qn_prompt_tokenize(&prompt, tok, &ids, &n, &err));
    CHECK(qn_chat_reader_create(template, tok, tools, &prompt, &reader, &err));
    CHECK(qn_session_reuse(session, 0, ids, n, &kept, &err)); /* only what is new is computed */
    CHECK(qn_session_feed(session, 0, ids + kept, n - kept, &err));
    for (bool over = false; !over;) {
        CHECK(qn_sampler_sample(sampler, qn_session_logits(session, -1), &token, &err));
        over = qn_tokenizer_is_eog(tok, token) || qn_session_free_cells(session) == 0;
        CHECK(over ? qn_chat_reader_finish(reader, !qn_tokenizer_is_eog(tok, token), &e, &n_events, &err)
                   : qn_chat_reader_token(reader, token, &e, &n_events, &err));
        for (size_t i = 0; i < n_events; i++) {
            if (e[i].kind == QN_CHAT_content) printf("%.*s", (int)e[i].len, e[i].text);
            n_calls += e[i].kind == QN_CHAT_call_end;
        }
        if (!over && fflush(stdout) == 0) CHECK(qn_session_feed(session, 0, &token, 1, &err));
    }
    qn_free(json);
    putchar('\n');
    CHECK(qn_chat_reader_message(reader, &json, &err));
    CHECK(qn_messages_add_json(messages, json, &err));
    qn_chat_reader_destroy(reader);
    qn_prompt_deinit(&prompt);
    qn_free(ids);
    qn_free(json);
    return (int)n_calls;
}

int main(int argc, char **argv)
{
    qn_engine *engine;
    qn_sampler *sampler;
    char line[4096];
    if (argc < 2) return fprintf(stderr, "usage: %s MODEL.gguf\n", argv[0]), 2;
    CHECK(qn_engine_open(argv[1], NULL, &engine, &err));
    CHECK(qn_session_create(engine, NULL, &session, &err));
    CHECK(qn_chat_template_load(qn_engine_file(engine), NULL, &template, &err));
    tok = qn_engine_tokenizer(engine);
    CHECK(qn_sampler_create(&(qn_sampler_params){.greedy = true}, qn_tokenizer_n_tokens(tok), tok, &sampler, &err));
    CHECK(qn_messages_create(&messages, &err));
    while (printf("> "), fflush(stdout), fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        CHECK(qn_messages_add(messages, "user", line, &err));
        for (int n_calls; (n_calls = reply(sampler)) > 0;)
            while (n_calls-- > 0) CHECK(qn_messages_add_result(messages, NULL, ctime(&(time_t){time(NULL)}), &err));
    }
    return 0;
}
