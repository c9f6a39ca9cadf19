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

/* An argument's text or a file's, freed with free; NULL where there is neither. */
static int read_text(const char *text, const char *path, char **out)
{
    size_t n = 0;
    *out = NULL;
    if (!text && !path) return CLI_OK;
    *out = path ? cli_read_text(path, MAX_TEXT_BYTES, &n) : strdup(text);
    if (!*out) return path ? CLI_FAILED : cli_no_memory("out of memory");
    const size_t zero = strlen(*out);
    if (!path || zero == n) return CLI_OK;
    free(*out);
    *out = NULL;
    return cli_fail("%s has a zero byte at offset %zu: it is no text", path, zero);
}

int cli_schema_text(const cli_grammar *g, char **text)
{
    const bool file = g->schema && *g->schema == '@';
    return read_text(file ? NULL : g->schema, file ? g->schema + 1 : g->schema_file, text);
}

int cli_create_matcher(const cli_grammar *g, const qn_tokenizer *tok, qn_grammar **grammar, qn_matcher **matcher)
{
    char *schema = NULL, *gbnf = NULL;
    qn_error err;
    int read = cli_schema_text(g, &schema);
    if (read == CLI_OK && !schema) read = read_text(g->gbnf, g->gbnf_file, &gbnf);
    if (read != CLI_OK || (!schema && !gbnf)) return read;
    qn_status status =
        schema ? qn_grammar_create_schema(schema, NULL, grammar, &err) : qn_grammar_create(gbnf, NULL, grammar, &err);
    if (status == QN_OK) status = qn_matcher_create(*grammar, tok, matcher, &err);
    if (status == QN_OK) status = set_lazy(g, *matcher, &err);
    free(schema);
    free(gbnf);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}
