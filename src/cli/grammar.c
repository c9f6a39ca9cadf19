/* SPDX-License-Identifier: MIT */
/* src/cli/grammar.c -- grammars and JSON schemas of the command line. */
#include "cli/grammar.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES ((size_t)4 << 20) /* the library reads less, and says so */

int cli_check_grammar(const cli_grammar *g)
{
    const int n = (g->gbnf != NULL) + (g->gbnf_file != NULL) + (g->schema != NULL) + (g->schema_file != NULL);
    if (n > 1) return cli_bad_usage("a grammar was given twice");
    if ((g->trigger.n || g->trigger_after.n) && n == 0)
        return cli_bad_usage("--grammar-trigger wants a grammar: --grammar, --json-schema or one from a file");
    return CLI_OK;
}

/* --grammar-trigger and --grammar-trigger-after, if there are any. */
static qn_status set_lazy(const cli_grammar *g, qn_matcher *matcher, qn_error *err)
{
    const int n = g->trigger.n + g->trigger_after.n;
    if (!n) return QN_OK;
    qn_grammar_trigger *triggers = calloc((size_t)n, sizeof(*triggers));
    if (!triggers) {
        *err = (qn_error){.status = QN_STATUS_nomem, .text = "out of memory"};
        return QN_STATUS_nomem;
    }
    for (int i = 0; i < n; i++) {
        const bool after = i >= g->trigger.n;
        triggers[i].text = after ? g->trigger_after.item[i - g->trigger.n] : g->trigger.item[i];
        triggers[i].after = after;
    }
    const qn_status status =
        qn_matcher_set_lazy(matcher, &(qn_lazy_options){.triggers = triggers, .n_triggers = n}, err);
    free(triggers);
    return status;
}

int cli_create_matcher(const cli_grammar *g, const qn_tokenizer *tok, qn_grammar **grammar, qn_matcher **matcher)
{
    const bool is_schema = g->schema || g->schema_file;
    const char *text = is_schema ? g->schema : g->gbnf, *path = is_schema ? g->schema_file : g->gbnf_file;
    char *read = NULL;
    size_t n = 0;
    qn_error err;
    if (is_schema && text && *text == '@') path = text + 1;
    if (!text && !path) return CLI_OK;
    if (path) {
        text = read = cli_read_text(path, MAX_TEXT_BYTES, &n);
        if (!read) return CLI_FAILED;
        if (strlen(read) < n) {
            n = strlen(read);
            free(read);
            return cli_fail("%s has a zero byte at offset %zu: it is no text", path, n);
        }
    }
    qn_status status =
        is_schema ? qn_grammar_create_schema(text, NULL, grammar, &err) : qn_grammar_create(text, NULL, grammar, &err);
    if (status == QN_OK) status = qn_matcher_create(*grammar, tok, matcher, &err);
    if (status == QN_OK) status = set_lazy(g, *matcher, &err);
    free(read);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}
