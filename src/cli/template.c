/* SPDX-License-Identifier: MIT */
/* src/cli/template.c -- quern template: exactly what a model would read of a conversation, and what its template wants.
 */
#include "cli/needs.h"
#include "cli/source.h"
#include <quern/messages.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES ((size_t)64 << 20)

typedef struct template_options {
    const char *messages, *tools, *kwargs, *prompt, *system, *name, *template_file, *effort, *thinking;
    bool tokens, source, info, no_generation_prompt, continue_final, show_plain;
} template_options;

static const cli_usage usage = {
    .command = "template",
    .arguments = "MODEL",
    .summary = "Prints the prompt that a model's chat template makes of a conversation, byte for byte; with --tokens, "
               "its ids.",
    .notes = "Messages are a JSON array as OpenAI's clients send it.\n"
             "MODEL may also be a template's source, FILE.jinja. Of a GGUF file only the metadata is read.",
    .examples = "What the model reads when somebody says hello:\nquern template model.gguf -p hello\n"
                "A conversation with tools, as token ids:\n"
                "quern template model.gguf --messages chat.json --tools tools.json --tokens\n",
    .min_args = 1,
    .max_args = 1,
};

static char *read_all(const char *path)
{
    size_t n;
    char *text = cli_read_text(path, MAX_TEXT_BYTES, &n);
    if (text && strlen(text) != n) {
        cli_fail("%s: a NUL byte in a text", path);
        free(text);
        text = NULL;
    }
    return text;
}

/* Freed with qn_free; NULL after a message. */
static char *messages_of(const template_options *o)
{
    char *json = NULL, *text = o->messages ? read_all(o->messages) : NULL;
    qn_messages *m = NULL;
    qn_error err;
    if (o->messages && !text) return NULL;
    qn_status status = qn_messages_create(&m, &err);
    if (status == QN_OK && o->system) status = qn_messages_add(m, "system", o->system, &err);
    if (status == QN_OK)
        status = text ? qn_messages_add_json(m, text, &err) : qn_messages_add(m, "user", o->prompt, &err);
    if (status == QN_OK) status = qn_messages_json(m, 0, &json, &err);
    if (status != QN_OK) cli_fail_error(&err);
    qn_messages_destroy(m);
    free(text);
    return json;
}

static int print_tokens(const qn_prompt *p, const qn_gguf *file)
{
    qn_tokenizer *tok;
    qn_token *ids;
    size_t n;
    qn_error err;
    if (!file) return cli_bad_usage("--tokens needs a model, a template's source has no vocabulary");
    if (qn_tokenizer_create(file, &tok, &err) != QN_OK) return cli_fail_error(&err);
    const qn_status status = qn_prompt_tokenize(p, tok, &ids, &n, &err);
    if (status == QN_OK) {
        putchar('[');
        for (size_t i = 0; i < n; i++) printf("%s%d", i ? ", " : "", ids[i]);
        puts("]");
        qn_free(ids);
    }
    qn_tokenizer_destroy(tok);
    return status == QN_OK ? cli_finish_output() : cli_fail_error(&err);
}

static const char *special_text(const qn_gguf *file, const char *key, char *out, size_t size)
{
    const qn_gguf_kv *id = file ? qn_gguf_kv_find(file, key) : NULL;
    const qn_gguf_kv *tokens = file ? qn_gguf_kv_find(file, "tokenizer.ggml.tokens") : NULL;
    uint64_t i;
    qn_gguf_str s;
    if (!id || !tokens || qn_gguf_get_u64(file, id, 0, &i, NULL) != QN_OK ||
        qn_gguf_get_str(file, tokens, i, &s, NULL) != QN_OK || s.len >= size)
        return NULL;
    memcpy(out, s.data, s.len);
    out[s.len] = '\0';
    return out;
}

static int print_prompt(const qn_chat_template *t, const qn_gguf *file, const template_options *o)
{
    char bos[256], eos[256];
    qn_prompt prompt;
    qn_error err;
    int status = CLI_FAILED;
    char *messages = messages_of(o), *tools = o->tools ? read_all(o->tools) : NULL;
    const int thinking = !o->thinking ? 0 : strcmp(o->thinking, "on") == 0 ? 1 : -1;
    const qn_chat_options options = {
        .tools = tools,
        .kwargs = o->kwargs,
        .no_generation_prompt = o->no_generation_prompt,
        .continue_final_message = o->continue_final,
        .thinking = thinking,
        .reasoning_effort = o->effort,
        .bos = special_text(file, "tokenizer.ggml.bos_token_id", bos, sizeof bos),
        .eos = special_text(file, "tokenizer.ggml.eos_token_id", eos, sizeof eos),
    };
    if (messages && (tools || !o->tools)) {
        if (qn_chat_render(t, messages, &options, &prompt, &err) != QN_OK) {
            status = cli_fail_error(&err);
        } else {
            if (o->tokens)
                status = print_tokens(&prompt, file);
            else if (o->show_plain) {
                for (size_t i = 0; i < prompt.n_plain; i++)
                    printf("%zu %zu\n", prompt.plain[i].begin, prompt.plain[i].end);
                status = cli_finish_output();
            } else {
                fwrite(prompt.text, 1, prompt.len, stdout);
                status = cli_finish_output();
            }
            qn_prompt_deinit(&prompt);
        }
    }
    qn_free(messages);
    free(tools);
    return status;
}

static int read_template(const char *path, qn_chat_template **t)
{
    qn_error err;
    char *source = read_all(path);
    if (!source) return CLI_FAILED;
    const qn_status status = qn_chat_template_create(source, strlen(source), t, &err);
    free(source);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int open_template(const char *path, const template_options *o, qn_gguf **file, qn_chat_template **t)
{
    qn_error err;
    const size_t n = strlen(path);
    *file = NULL;
    if (n > 6 && strcmp(path + n - 6, ".jinja") == 0) return read_template(path, t);
    path = cli_model_path(path);
    if (!path) return CLI_FAILED;
    if (qn_gguf_open(path, &(qn_gguf_options){.metadata_only = true}, file, &err) != QN_OK) return cli_fail_error(&err);
    const int status = o->template_file                                          ? read_template(o->template_file, t)
                       : qn_chat_template_load(*file, o->name, t, &err) == QN_OK ? CLI_OK
                                                                                 : cli_fail_error(&err);
    if (status != CLI_OK) qn_gguf_close(*file);
    return status;
}

int cli_command_template(int argc, char **argv)
{
    template_options o = {0};
    const cli_option options[] = {
        {"messages", 'm', CLI_STRING, &o.messages, "FILE", "the conversation, a JSON array; - is standard input", 0, 0,
         NULL},
        {"prompt", 'p', CLI_STRING, &o.prompt, "PROMPT", "one message of the user instead", 0, 0, NULL},
        {"system", 0, CLI_STRING, &o.system, "PROMPT", "a system message before it", 0, 0, NULL},
        {"tools", 0, CLI_STRING, &o.tools, "FILE", "tools, a JSON array as OpenAI's", 0, 0, NULL},
        {"template", 0, CLI_STRING, &o.name, "NAME", "another template of the file (tool_use, rag), or chatml, plain",
         0, 0, NULL},
        {"template-file", 0, CLI_STRING, &o.template_file, "FILE", "a template's source in the place of the model's", 0,
         0, NULL},
        {"kwargs", 0, CLI_STRING, &o.kwargs, "JSON", "further variables of the template, an object", 0, 0, NULL},
        {"think", 0, CLI_STRING, &o.thinking, "SWITCH", "sets enable_thinking", 0, 0, NULL},
        {"reasoning-effort", 0, CLI_STRING, &o.effort, "EFFORT", "low, medium or high", 0, 0, NULL},
        {"no-generation-prompt", 0, CLI_FLAG, &o.no_generation_prompt, NULL, "do not begin the assistant's turn", 0, 0,
         NULL},
        {"continue", 0, CLI_FLAG, &o.continue_final, NULL, "end with the last message's content, for going on with it",
         0, 0, NULL},
        {"tokens", 't', CLI_FLAG, &o.tokens, NULL, "print the token ids as a JSON array", 0, 0, NULL},
        {"plain-spans", 0, CLI_FLAG, &o.show_plain, NULL,
         "print the byte ranges that came from messages and tools, in which no control token is found", 0, 0, NULL},
        {"source", 0, CLI_FLAG, &o.source, NULL, "print the template itself", 0, 0, NULL},
        {"info", 0, CLI_FLAG, &o.info, NULL, "print what the template was found to want", 0, 0, NULL},
        CLI_STORE_OPTIONS,
    };
    const char *args[1] = {0};
    int n_args = 0;
    qn_gguf *file;
    qn_chat_template *t;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    if (!o.source && !o.info && !o.messages == !o.prompt)
        return cli_bad_usage("give a conversation with --messages FILE or a message with -p TEXT");
    if (o.name && o.template_file) return cli_bad_usage("a template was given twice");
    status = open_template(args[0], &o, &file, &t);
    if (status != CLI_OK) return status;
    if (o.source) {
        fputs(qn_chat_template_source(t), stdout);
        status = cli_finish_output();
    } else {
        status = o.info ? cli_print_needs(t) : print_prompt(t, file, &o);
    }
    qn_chat_template_destroy(t);
    qn_gguf_close(file);
    return status;
}
