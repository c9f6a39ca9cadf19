/* SPDX-License-Identifier: MIT */
/* src/cli/card.c -- what can be said of a model without computing with it. */
#include "cli/card.h"
#include <quern/engine.h>
#include <string.h>

/* The name of the file is in another column already. */
static const char *without_path(const char *text, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *at = strstr(text, name);
    const size_t n = strlen(name);
    if (!at || strncmp(at + n, ": ", 2) != 0) return text;
    return at + n + 2;
}

static void no(cli_card *card, const char *text) { snprintf(card->reason, sizeof(card->reason), "%s", text); }

void cli_card_read(const char *path, const char *problem, cli_card *card, qn_gguf **file)
{
    qn_gguf *opened = NULL;
    qn_error err;
    memset(card, 0, sizeof(*card));
    if (file) *file = NULL;
    if (problem) {
        no(card, problem);
        return;
    }
    if (qn_gguf_open(path, NULL, &opened, &err) != QN_OK) {
        no(card, without_path(err.text, path));
        return;
    }
    qn_model_read_facts(opened, &card->facts);
    card->readable = true;
    if (strcmp(card->facts.kind, "adapter") == 0)
        no(card, "an adapter, for --lora");
    else if (qn_engine_check(opened, &err) != QN_OK)
        no(card, err.text);
    else
        card->runs = true;
    if (file)
        *file = opened;
    else
        qn_gguf_close(opened);
}

static const char *scaled(char *buf, size_t size, double value, double step, const char *const *units)
{
    while (value >= step * 0.9995 && units[1]) value /= step, units++;
    snprintf(buf, size, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, *units);
    return buf;
}

const char *cli_print_bytes(char *buf, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", NULL};
    return scaled(buf, size, (double)bytes / 1024, 1024, units);
}

const char *cli_print_count(char *buf, size_t size, uint64_t n)
{
    static const char *const units[] = {"K", "M", "B", "T", NULL};
    return scaled(buf, size, (double)n / 1000, 1000, units);
}

json_t *cli_card_json(const cli_card *card, const char *path, const qn_store_model *model)
{
    const qn_model_facts *f = &card->facts;
    json_t *text = json_string(path); /* NULL when it is not UTF-8 */
    json_t *root =
        json_pack("{s:s?, s:s?, s:o?, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:s?}", "name", model ? model->name : NULL,
                  "source", model ? qn_store_kind_name(model->store) : NULL, "path", text, "kind",
                  card->readable ? f->kind : NULL, "architecture", card->readable ? f->arch : NULL, "type",
                  card->readable ? f->type : NULL, "title", *f->name ? f->name : NULL, "license",
                  *f->license ? f->license : NULL, "runs", card->runs, "reason", card->runs ? NULL : card->reason);
    if (root && card->readable)
        json_object_update_new(root,
                               json_pack("{s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)f->n_params, "context",
                                         (json_int_t)f->n_ctx_train, "layers", (json_int_t)f->n_layer, "embedding",
                                         (json_int_t)f->n_embd, "vocabulary", (json_int_t)f->n_vocab));
    if (root && model)
        json_object_update_new(root, json_pack("{s:I, s:i, s:b, s:b, s:i}", "size_bytes", (json_int_t)model->bytes,
                                               "parts", model->n_parts, "system", model->system != NULL, "params",
                                               model->params != NULL, "adapters", model->n_adapters));
    return root;
}
