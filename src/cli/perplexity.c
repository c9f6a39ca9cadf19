/* SPDX-License-Identifier: MIT */
/* src/cli/perplexity.c -- quern perplexity: how well a model foretells a text, and how far it is from another. */
#include "cli/model.h"
#include "cli/recording.h"
#include <math.h>
#include <quern/perplexity.h>
#include <stdlib.h>

#define MAX_TEXT_BYTES ((size_t)512 << 20)

static const cli_usage usage = {
    .command = "perplexity",
    .arguments = "MODEL",
    .summary = "Measures how well a model foretells a text: 1 would be perfect, the size of the vocabulary a blind "
               "guess. With --base, or --kl-divergence, also how far its probabilities are from another model's: what "
               "a quantization costs.",
    .notes = "The text is cut into chunks, each computed by itself; the tokens of its second half count. Numbers are "
             "those of llama-perplexity, so that they can be compared, and so are the files of log-probabilities; "
             "numbers of models with different tokenizers cannot be compared.\n"
             "With --base both models are computed side by side, in full precision, and no file is needed. A file has "
             "16 bits for each token of the vocabulary, and thus is large: of 100,000 tokens and a vocabulary of "
             "128,000, 13 GB.",
    .examples = "Of a text:\nquern perplexity model.gguf -f text.txt\n"
                "What the quantization costs:\nquern perplexity model-Q4_K_M.gguf --base model-F16.gguf -f text.txt\n"
                "The same by way of a file:\n"
                "quern perplexity model-F16.gguf -f text.txt --kl-divergence-base model.kld && "
                "quern perplexity model-Q4_K_M.gguf --kl-divergence-base model.kld --kl-divergence\n",
    .min_args = 1,
    .max_args = 1,
};

typedef struct state {
    cli_model_options m, base_m; /* adapters are the model's, not the base's */
    cli_recording recording;
    const char *file, *base, *logits;
    int32_t n_ctx, n_chunks, batch;
    bool compare, json;
    qn_engine *engine, *base_engine;
    qn_session *session, *base_session;
    qn_token *ids;
    size_t n_ids;
    cli_progress progress;
    char what[48];
    qn_perplexity_result result;
    double seconds;
} state;

static int check(const state *s)
{
    if (s->compare && !s->logits) return cli_bad_usage("--kl-divergence compares with --kl-divergence-base FILE");
    if (s->compare && s->base) return cli_bad_usage("--base and --kl-divergence: one of them can be compared with");
    if (s->compare && s->file) return cli_bad_usage("the tokens are in %s; --file is not read beside it", s->logits);
    if (!s->compare && !s->file) return cli_bad_usage("no text: -f FILE is missing; - is standard input");
    if (s->logits && !s->compare && s->logits[0] == '-' && !s->logits[1])
        return cli_bad_usage("log-probabilities go to a file; the results go to standard output");
    return CLI_OK;
}

static int read_ids(state *s)
{
    qn_error err;
    size_t len = 0;
    char *text = s->compare ? NULL : cli_read_text(s->file, MAX_TEXT_BYTES, &len);
    if (s->compare) return CLI_OK;
    if (!text) return CLI_FAILED;
    const qn_status status = qn_tokenize(qn_engine_tokenizer(s->engine), text, len,
                                         &(qn_tokenize_options){.no_special = true}, &s->ids, &s->n_ids, &err);
    free(text);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int create_session(qn_engine *engine, const cli_model_options *m, int32_t n_ctx, int32_t batch, qn_session **out)
{
    const int32_t n_batch = batch < n_ctx ? batch : n_ctx, n_rows = (n_ctx + 1) / 2;
    return cli_create_session(
        engine, m,
        (qn_session_options){.n_ctx = n_ctx, .n_batch = n_batch, .n_logits = n_rows < n_batch ? n_rows : n_batch}, out);
}

static int open_all(state *s, const char *model)
{
    qn_error err;
    qn_perplexity_file_info info;
    int32_t n_ctx = s->n_ctx ? s->n_ctx : 512;
    if (s->compare && qn_perplexity_file_get_info(s->logits, &info, &err) != QN_OK) return cli_fail_error(&err);
    if (s->compare && !s->n_ctx) n_ctx = info.n_ctx;
    int status = cli_open_engine(model, &s->m, &s->engine);
    if (status == CLI_OK && s->base) status = cli_open_engine(s->base, &s->base_m, &s->base_engine);
    if (status == CLI_OK) status = read_ids(s);
    if (status == CLI_OK && s->ids && s->n_ids < (size_t)n_ctx)
        return cli_fail("the text has %zu tokens, a chunk %d; shorter chunks (-c) do with less", s->n_ids, n_ctx);
    if (status == CLI_OK) status = create_session(s->engine, &s->m, n_ctx, s->batch, &s->session);
    if (status == CLI_OK && s->base)
        status = create_session(s->base_engine, &s->base_m, n_ctx, s->batch, &s->base_session);
    return status;
}

static bool each_chunk(void *ctx, const qn_perplexity_result *so_far)
{
    state *s = ctx;
    snprintf(s->what, sizeof s->what, "perplexity %.4f", so_far->ppl.value);
    return cli_progress_step(&s->progress, (uint64_t)so_far->n_chunks_done, (uint64_t)so_far->n_chunks);
}

static int compute(state *s)
{
    qn_error err;
    const qn_perplexity_options o = {.n_ctx = s->n_ctx,
                                     .n_chunks = s->n_chunks,
                                     .base = s->base_session,
                                     .file = s->compare ? s->logits : NULL,
                                     .save = s->compare ? NULL : s->logits,
                                     .each = each_chunk,
                                     .ctx = s};
    snprintf(s->what, sizeof s->what, "perplexity");
    cli_progress_init(&s->progress, s->what);
    cli_interrupt_stops(s->session);
    const int64_t start = cli_now_ns();
    const qn_status status = qn_perplexity(s->session, s->ids, s->n_ids, &o, &s->result, &err);
    s->seconds = (double)(cli_now_ns() - start) * 1e-9;
    cli_interrupt_stops(NULL);
    cli_progress_end(&s->progress);
    if (status == QN_OK) return CLI_OK;
    return err.status == QN_STATUS_cancelled && cli_interrupted() ? CLI_INTERRUPTED : cli_fail_error(&err);
}

/* ---- what is printed ---- */

typedef struct row {
    const char *name, *json;
    const qn_measured *x;
    double scale; /* 100: in percent */
    int digits;
} row;

static const char *const quantile_names[] = {"least", "0.1 %", "1 %",  "5 %",  "10 %",   "25 %",    "median",
                                             "75 %",  "90 %",  "95 %", "99 %", "99.9 %", "greatest"};
_Static_assert(sizeof quantile_names / sizeof *quantile_names == QN_QUANTILE_COUNT, "a name each");

static void print_text(const state *s, const row *rows, int n)
{
    const qn_perplexity_result *r = &s->result;
    for (int i = 0; i < n; i++)
        printf("%-30s %12.*f +/- %.*f%s\n", rows[i].name, rows[i].digits, rows[i].x->value * rows[i].scale,
               rows[i].digits, rows[i].x->error * rows[i].scale, rows[i].scale == 100 ? " %" : "");
    if (r->compared) {
        printf("%-30s %12.3f %%\n", "correlation of ln p and ln q", r->correlation * 100);
        printf("\n%-12s %16s %12s\n", "", "KL divergence", "p - q");
        for (int i = 0; i < QN_QUANTILE_COUNT; i++)
            printf("%-12s %16.6f %10.3f %%\n", quantile_names[i], r->kld_at[i], r->p_difference_at[i] * 100);
        putchar('\n');
    }
    printf("%lld tokens of %d chunks, %.1f s\n", (long long)r->n_tokens, r->n_chunks_done, s->seconds);
}

/* What is no number, or endless, is null. */
static void put_number(const char *before, const char *name, double x)
{
    printf("%s\"%s\": ", before, name);
    if (isfinite(x))
        printf("%.17g", x);
    else
        fputs("null", stdout);
}

static void put_quantiles(const char *name, const double *at)
{
    static const char *const names[] = {
#define QUANTILE_NAME(name, part) #name,
        QN_QUANTILE_ROWS(QUANTILE_NAME)
#undef QUANTILE_NAME
    };
    printf(",\n \"%s\": {", name);
    for (int i = 0; i < QN_QUANTILE_COUNT; i++) put_number(i ? ", " : "", names[i], at[i]);
    putchar('}');
}

static void print_json(const state *s, const row *rows, int n)
{
    const qn_perplexity_result *r = &s->result;
    printf("{\"perplexity\": 1, \"chunks\": %d, \"tokens\": %lld", r->n_chunks_done, (long long)r->n_tokens);
    put_number(", ", "seconds", s->seconds);
    for (int i = 0; i < n; i++) {
        printf(",\n \"%s\": {", rows[i].json);
        put_number("", "value", rows[i].x->value);
        put_number(", ", "error", rows[i].x->error);
        putchar('}');
    }
    if (r->compared) {
        put_number(",\n ", "correlation", r->correlation);
        put_quantiles("kld_at", r->kld_at);
        put_quantiles("p_difference_at", r->p_difference_at);
    }
    puts("}");
}

static int print(const state *s)
{
    const qn_perplexity_result *r = &s->result;
    const row rows[] = {{"perplexity", "ppl", &r->ppl, 1, 4},
                        {"nats a token", "nll", &r->nll, 1, 5},
                        {"perplexity of the base", "base_ppl", &r->base_ppl, 1, 4},
                        {"nats a token of the base", "base_nll", &r->base_nll, 1, 5},
                        {"ratio of perplexities", "ratio", &r->ratio, 1, 5},
                        {"ln of the ratio", "ln_ratio", &r->ln_ratio, 1, 5},
                        {"difference of perplexities", "difference", &r->difference, 1, 5},
                        {"KL divergence", "kld", &r->kld, 1, 6},
                        {"p - q, mean", "p_difference", &r->p_difference, 100, 3},
                        {"p - q, root mean square", "p_rms", &r->p_rms, 100, 3},
                        {"same token most likely", "same_top", &r->same_top, 100, 3}};
    (s->json ? print_json : print_text)(s, rows, r->compared ? CLI_N(rows) : 2);
    return cli_finish_output();
}

int cli_command_perplexity(int argc, char **argv)
{
    state s = {.batch = 512};
    const char *model = NULL;
    const cli_option options[] = {
        {"file", 'f', CLI_STRING, &s.file, "FILE", "the text; - is standard input", 0, 0, NULL},
        {"ctx-size", 'c', CLI_INT, &s.n_ctx, "N", "tokens of a chunk (default: 512, or as the file has)", 4, 1 << 28,
         NULL},
        {"chunks", 0, CLI_INT, &s.n_chunks, "N", "so many chunks at most (default: all of the text)", 1, 1 << 30, NULL},
        {"batch-size", 'b', CLI_INT, &s.batch, "N", "tokens computed at once (default: 512)", 1, 1 << 20, NULL},
        {"base", 0, CLI_STRING, &s.base, "MODEL", "compare with this model, computed side by side", 0, 0, NULL},
        {"kl-divergence-base", 0, CLI_OUTPUT, &s.logits, "FILE",
         "write log-probabilities to this file, or with --kl-divergence compare with those in it", 0, 0, NULL},
        {"kl-divergence", 0, CLI_FLAG, &s.compare, NULL, "compare with --kl-divergence-base; the text is in there too",
         0, 0, NULL},
        {"json", 0, CLI_FLAG, &s.json, NULL, "print JSON (docs/FORMATS.md)", 0, 0, NULL},
        CLI_MODEL_OPTIONS(s.m),
        CLI_RECORDING_OPTIONS(s.recording),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &model, &n_args);
    if (status >= 0) return status;
    s.base_m = s.m;
    s.base_m.lora.n = 0;
    const char *const models[] = {model, s.base};
    status = check(&s);
    if (status == CLI_OK) status = cli_recording_start(&s.recording, models, s.base ? 2 : 1, argc, argv);
    if (status == CLI_OK) status = open_all(&s, model);
    if (status == CLI_OK) status = compute(&s);
    if (status == CLI_OK) status = print(&s);
    status = cli_recording_stop(&s.recording, status);
    qn_session_destroy(s.session);
    qn_session_destroy(s.base_session);
    qn_engine_close(s.engine);
    qn_engine_close(s.base_engine);
    qn_free(s.ids);
    return status;
}
