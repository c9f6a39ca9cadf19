/* SPDX-License-Identifier: MIT */
/* src/cli/show.c -- quern show: what a model is, from its header alone. */
#include "cli/card.h"
#include "cli/needs.h"
#include <string.h>

static const cli_usage usage = {
    .command = "show",
    .arguments = "MODEL",
    .summary = "Shows what a model is: architecture, type, parameters, context, license, and what its chat template "
               "was found to want.",
    .notes = "MODEL is a file or a name that \"quern list\" shows; \"quern inspect\" shows all metadata and tensors.",
    .examples = "A model of one's own:\nquern show model.gguf\n"
                "Its chat template:\nquern show model.gguf --template\n",
    .min_args = 1,
    .max_args = 1,
};

static void line(const char *label, const char *text)
{
    if (*text) printf("%-22s %s\n", label, text);
}

static void number(const char *label, uint64_t value)
{
    if (value) printf("%-22s %llu\n", label, (unsigned long long)value);
}

static void print_param(void *ctx, const char *name, const char *value)
{
    (void)ctx;
    char text[128];
    size_t n = 0;
    for (const char *p = value; *p && n < sizeof(text) - 5; p++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, (unsigned char)*p < 32 ? "\\x%02x" : "%c", (unsigned char)*p);
    printf("%-22s %.40s %s\n", "option", name, text);
}

static int print_store(const qn_store_model *m)
{
    qn_error err;
    char *system = NULL;
    if (!m) return CLI_OK;
    line("source", qn_store_kind_name(m->store));
    if (m->n_parts > 1) number("files", (uint64_t)m->n_parts);
    number("adapters", (uint64_t)m->n_adapters);
    if (qn_store_read_params(m, print_param, NULL, &err) != QN_OK) return cli_fail_error(&err);
    if (qn_store_read_system(m, &system, &err) != QN_OK) return cli_fail_error(&err);
    if (system) printf("%-22s %zu bytes\n", "system prompt", strlen(system));
    qn_free(system);
    return CLI_OK;
}

static int print_text(const char *name, const char *path, const qn_gguf *file, const cli_card *card)
{
    const qn_model_facts *f = &card->facts;
    char text[64];
    qn_error err;
    qn_chat_template *t;
    line("model", name);
    if (strcmp(name, path) != 0) line("path", path);
    line("title", f->name);
    line("architecture", f->arch);
    line("type", f->type);
    line("parameters", cli_print_count(text, sizeof(text), f->n_params));
    line("size", cli_print_bytes(text, sizeof(text), qn_gguf_file_bytes(file)));
    number("context", f->n_ctx_train);
    number("layers", f->n_layer);
    number("embedding", f->n_embd);
    number("heads", f->n_head);
    number("key-value heads", f->n_kv_head);
    number("experts", f->n_expert);
    number("vocabulary", f->n_vocab);
    line("tokenizer", f->tokenizer);
    line("license", f->license);
    line("runs", card->runs ? "yes" : "no");
    if (!card->runs) line("reason", card->reason);
    const int status = print_store(cli_model_found(path));
    if (status != CLI_OK) return status;
    if (!card->runs) return cli_finish_output();
    if (qn_chat_template_load(file, NULL, &t, &err) != QN_OK) return cli_fail_error(&err);
    const int printed = cli_print_needs(t);
    qn_chat_template_destroy(t);
    return printed;
}

static int print_json(const char *path, const qn_gguf *file, const cli_card *card)
{
    json_t *root = cli_card_json(card, path, cli_model_found(path));
    qn_chat_template *t = NULL;
    qn_error err;
    if (root && card->runs && qn_chat_template_load(file, NULL, &t, &err) == QN_OK) {
        json_object_set_new(root, "template", json_string(qn_chat_template_source(t)));
        json_object_set_new(root, "needs", cli_needs_json(t));
    }
    qn_chat_template_destroy(t);
    if (root) json_object_set_new(root, "file_bytes", json_integer((json_int_t)qn_gguf_file_bytes(file)));
    int status = root ? CLI_OK : cli_no_memory("out of memory");
    if (root && json_dumpf(root, stdout, JSON_INDENT(1)) != 0)
        status = cli_pipe_closed() ? CLI_PIPE : cli_fail("cannot write the JSON text");
    json_decref(root);
    if (status != CLI_OK) return status;
    putchar('\n');
    return cli_finish_output();
}

static int print_template(const qn_gguf *file)
{
    qn_chat_template *t;
    qn_error err;
    if (qn_chat_template_load(file, NULL, &t, &err) != QN_OK) return cli_fail_error(&err);
    fputs(qn_chat_template_source(t), stdout);
    qn_chat_template_destroy(t);
    return cli_finish_output();
}

int cli_command_show(int argc, char **argv)
{
    bool json = false, template = false;
    const cli_option options[] = {
        {"json", 0, CLI_FLAG, &json, NULL, "everything as JSON, the template's text too", 0, 0, NULL},
        {"template", 0, CLI_FLAG, &template, NULL, "print the chat template and nothing else", 0, 0, NULL},
        CLI_STORE_OPTIONS,
    };
    const char *name = NULL;
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &name, &n_args);
    if (status >= 0) return status;
    if (json && template) return cli_bad_usage("--json and --template exclude each other");
    const char *path = cli_model_path(name);
    qn_gguf *file;
    cli_card card;
    if (!path) return CLI_FAILED;
    cli_card_read(path, NULL, &card, &file);
    if (!file) return cli_fail("%s: %s", path, card.reason);
    status = template ? print_template(file)
             : json   ? print_json(path, file, &card)
                      : print_text(name, path, file, &card);
    qn_gguf_close(file);
    return status;
}
