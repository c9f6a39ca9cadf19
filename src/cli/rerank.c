/* SPDX-License-Identifier: MIT */
/* src/cli/rerank.c -- quern rerank: texts in the order of their scores for a query. */
#include "cli/texts.h"
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "rerank",
    .arguments = "MODEL QUERY [TEXT...]",
    .summary = "Scores how well each text answers the query, and prints the best first: score, number and text.",
    .notes = "It takes a reranker, a model with a head that scores. Numbers of texts begin with 0. Scores are what the "
             "head yields; where it yields several, the first.",
    .examples =
        "Two texts:\nquern rerank reranker.gguf \"What is a mill?\" \"A mill grinds.\" \"A moon shines.\"\n"
        "The three best lines of a file:\nquern rerank reranker.gguf \"What is a mill?\" -f texts.txt --top 3\n",
    .min_args = 2,
    .max_args = 2 + CLI_MAX_TEXTS,
};

typedef struct score {
    float value;
    int32_t text;
} score;

static int take(void *ctx, int32_t i, const float *rows, int64_t n_rows, int32_t width)
{
    score *s = ctx;
    (void)n_rows, (void)width;
    s[i] = (score){rows[0], i};
    return CLI_OK;
}

static int best_first(const void *a, const void *b)
{
    const score *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->text - y->text;
}

/* Control characters would let a text write to the terminal, or make it two lines. */
static void put_text(qn_gguf_str text)
{
    for (size_t i = 0; i < text.len; i++) putchar((unsigned char)text.data[i] < ' ' ? ' ' : text.data[i]);
}

static int print_scores(const cli_texts *t, const score *s, int32_t n)
{
    if (t->json) fputs("{\"object\": \"list\", \"results\": [", stdout);
    for (int32_t i = 0; i < n; i++) {
        if (t->json) {
            printf("%s\n  {\"index\": %d, \"relevance_score\": %.9g}", i ? "," : "", s[i].text, (double)s[i].value);
            continue;
        }
        printf("%.9g\t%d\t", (double)s[i].value, s[i].text);
        put_text(t->text[s[i].text]);
        putchar('\n');
    }
    if (t->json) {
        fputs("],\n \"model\": ", stdout);
        cli_put_json(t->info.name, strlen(t->info.name));
        printf(", \"usage\": {\"prompt_tokens\": %lld, \"total_tokens\": %lld}}\n", (long long)t->n_tokens,
               (long long)t->n_tokens);
    }
    return cli_finish_output();
}

static int rerank(cli_texts *t, const char *const *args, int n_args, int32_t top)
{
    if (!args[1][0]) return cli_fail("the query is empty");
    int status = cli_texts_read(t, args + 2, n_args - 2);
    if (status == CLI_OK) status = cli_texts_open(t, args[0]);
    if (status != CLI_OK) return status;
    if (!t->info.n_label)
        return cli_fail("%s is no reranker: it has no head that scores texts (cls.weight, cls.output.weight)", args[0]);
    status = cli_texts_tokenize(t, args[1]);
    if (status == CLI_OK) status = cli_texts_session(t);
    if (status != CLI_OK) return status;
    score *s = malloc((size_t)t->n * sizeof(*s));
    if (!s) return cli_no_memory("out of memory for the scores");
    status = cli_texts_compute(t, &(qn_embedding_options){.pooling = QN_POOLING_rank}, take, s);
    if (status == CLI_OK) {
        qsort(s, (size_t)t->n, sizeof(*s), best_first);
        status = print_scores(t, s, top && top < t->n ? top : t->n);
    }
    free(s);
    return status;
}

int cli_command_rerank(int argc, char **argv)
{
    static const char *args[2 + CLI_MAX_TEXTS];
    cli_texts t = {0};
    int32_t top = 0;
    const cli_option options[] = {
        {"top", 0, CLI_INT, &top, "N", "print the N best only", 1, 1 << 28, NULL},
        CLI_TEXTS_OPTIONS(t),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    status = rerank(&t, args, n_args, top);
    cli_texts_end(&t);
    return status;
}
