/* SPDX-License-Identifier: MIT */
/* src/cli/embed.c -- quern embed: embeddings of texts, a vector a line or as JSON. */
#include "cli/recording.h"
#include "cli/texts.h"
#include <string.h>

static const cli_usage usage = {
    .command = "embed",
    .arguments = "MODEL [TEXT...]",
    .summary = "Computes an embedding of each text and prints it as a line of numbers.",
    .notes = "Encoders such as BERT are embedding models; of other models it is the hidden state of the last token. "
             "With --pooling none every token's is printed, a line each, and an empty line after each text.\n"
             "Special tokens are added as the model's file asks; in a text they are plain text.",
    .examples = "Two texts:\nquern embed model.gguf \"Once upon a time\" \"The end\" --normalize\n"
                "A text a line, as JSON:\nquern embed model.gguf -f texts.txt --json\n",
    .min_args = 1,
    .max_args = 1 + CLI_MAX_TEXTS,
};

typedef struct printer {
    const cli_texts *t;
    bool json, each_token;
} printer;

static void put_row(const float *row, int32_t width, char between)
{
    for (int32_t k = 0; k < width; k++) {
        if (k) putchar(between);
        printf("%.9g", (double)row[k]);
    }
}

static int print_rows(void *ctx, int32_t i, const float *rows, int64_t n_rows, int32_t width)
{
    const printer *p = ctx;
    if (p->json) printf("%s\n  {\"object\": \"embedding\", \"index\": %d, \"embedding\": ", i ? "," : "", i);
    if (p->json && p->each_token) putchar('[');
    for (int64_t r = 0; r < n_rows; r++) {
        if (p->json) fputs(r ? ", [" : "[", stdout);
        put_row(rows + r * width, width, p->json ? ',' : ' ');
        putchar(p->json ? ']' : '\n');
    }
    if (p->each_token) putchar(p->json ? ']' : '\n');
    if (p->json) putchar('}');
    return ferror(stdout) ? cli_finish_output() : CLI_OK;
}

static int embed(cli_texts *t, const char *const *args, int n_args, qn_embedding_options options)
{
    int status = cli_texts_read(t, args + 1, n_args - 1);
    if (status == CLI_OK) status = cli_texts_open(t, args[0]);
    if (status == CLI_OK) status = cli_texts_tokenize(t, NULL);
    if (status == CLI_OK) status = cli_texts_session(t);
    if (status != CLI_OK) return status;
    if (options.pooling == QN_POOLING_unset) options.pooling = t->info.pooling;
    printer p = {t, t->json, options.pooling == QN_POOLING_none};
    if (t->json) fputs("{\"object\": \"list\", \"data\": [", stdout);
    status = cli_texts_compute(t, &options, print_rows, &p);
    if (status != CLI_OK) return status;
    if (t->json) {
        fputs("],\n \"model\": ", stdout);
        cli_put_json(t->info.name, strlen(t->info.name));
        printf(", \"pooling\": \"%s\", \"usage\": {\"prompt_tokens\": %lld, \"total_tokens\": %lld}}\n",
               qn_pooling_name(options.pooling), (long long)t->n_tokens, (long long)t->n_tokens);
    }
    return cli_finish_output();
}

int cli_command_embed(int argc, char **argv)
{
    static const char *args[1 + CLI_MAX_TEXTS];
    cli_texts t = {0};
    const char *pooling = NULL;
    bool normalize = false;
    cli_recording recording = {0};
    const cli_option options[] = {
        {"pooling", 0, CLI_STRING, &pooling, "POOLING",
         "what is made of the tokens' hidden states (default: as the file says, or mean for encoders, else last)", 0, 0,
         NULL},
        {"normalize", 0, CLI_FLAG, &normalize, NULL, "make every vector one of length 1", 0, 0, NULL},
        CLI_TEXTS_OPTIONS(t),
        CLI_RECORDING_OPTIONS(recording),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    qn_embedding_options o = {.normalize = normalize};
    if (pooling && !qn_pooling_find(pooling, &o.pooling))
        return cli_bad_usage("--pooling: \"%.32s\" is no pooling; there are %s", pooling, QN_POOLING_NAMES);
    status = cli_recording_start(&recording, args, 1, argc, argv);
    if (status == CLI_OK) status = embed(&t, args, n_args, o);
    cli_texts_end(&t);
    return cli_recording_stop(&recording, status);
}
