/* SPDX-License-Identifier: MIT */
/* src/cli/texts.c -- texts of `quern embed` and `quern rerank`, through a model in batches. */
#include "cli/texts.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)1 << 30)
enum {
    MAX_SEQ = 64, /* texts computed at once */
    GROUP = 256,  /* texts whose results are held at once */
};

/* ---- texts ---- */

static int add(cli_texts *t, const char *text, size_t len)
{
    if (t->n == t->cap) {
        const int32_t cap = t->cap ? t->cap * 2 : 64;
        void *more = cap > 1 << 28 ? NULL : realloc(t->text, (size_t)cap * sizeof(*t->text));
        if (!more) return cli_no_memory("out of memory for the texts");
        t->text = more;
        t->cap = cap;
    }
    t->text[t->n++] = (qn_gguf_str){text, len};
    return CLI_OK;
}

static int add_lines(cli_texts *t)
{
    size_t len = 0, line = 0;
    t->read = cli_read_text(t->file, MAX_FILE_BYTES, &len);
    if (!t->read) return CLI_FAILED;
    for (char *p = t->read, *end = p + len; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        const size_t step = n + (stop != NULL);
        if (n > 0 && p[n - 1] == '\r') n--;
        if (n == 0) return cli_fail("line %zu of %s is empty; a text a line is expected", line + 1, t->file);
        const int status = add(t, p, n);
        if (status != CLI_OK) return status;
        p += step;
    }
    return CLI_OK;
}

int cli_texts_read(cli_texts *t, const char *const *args, int n_args)
{
    for (int i = 0; i < n_args; i++) {
        if (!args[i][0]) return cli_fail("text %d is empty", i);
        const int status = add(t, args[i], strlen(args[i]));
        if (status != CLI_OK) return status;
    }
    const int status = t->file ? add_lines(t) : CLI_OK;
    if (status != CLI_OK) return status;
    return t->n ? CLI_OK : cli_bad_usage("no text: give it as an argument, or a file of lines with -f");
}

int cli_texts_open(cli_texts *t, const char *model)
{
    const int status = cli_open_engine(model, &t->m, &t->engine);
    if (status == CLI_OK) qn_engine_get_info(t->engine, &t->info);
    return status;
}

/* ---- tokens ---- */

int cli_texts_tokenize(cli_texts *t, const char *query)
{
    static const qn_tokenize_options plain = {.no_special = true};
    qn_error err;
    t->tokens = calloc((size_t)t->n, sizeof(*t->tokens));
    if (!t->tokens) return cli_no_memory("out of memory for the texts");
    for (int32_t i = 0; i < t->n; i++) {
        qn_token *ids = NULL;
        size_t n = 0;
        const qn_status status =
            query
                ? qn_engine_tokenize_pair(t->engine, (qn_gguf_str){query, strlen(query)}, t->text[i], &ids, &n, &err)
                : qn_tokenize(qn_engine_tokenizer(t->engine), t->text[i].data, t->text[i].len, &plain, &ids, &n, &err);
        if (status != QN_OK) return cli_fail("text %d: %s", i, err.text);
        t->tokens[i].tokens = ids; /* an array is never NULL, not even for no tokens */
        if (n == 0) return cli_fail("text %d gives no tokens", i);
        if (n > 1 << 28) return cli_fail("text %d has %zu tokens; %d at most", i, n, 1 << 28);
        t->tokens[i].n_tokens = (int32_t)n;
        t->n_tokens += (int64_t)n;
    }
    return CLI_OK;
}

/* ---- computing ---- */

int cli_texts_session(cli_texts *t)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->tokens[i].n_tokens > longest) longest = t->tokens[i].n_tokens;
    int32_t batch = t->batch ? t->batch : 512;
    if (batch > t->n_tokens) batch = (int32_t)t->n_tokens;
    if (!t->batch && t->info.both_ways && batch < longest) batch = longest;
    const qn_session_options options = {.n_ctx = batch > longest ? batch : longest,
                                        .n_batch = batch,
                                        .n_seq = t->n < MAX_SEQ ? t->n : MAX_SEQ,
                                        .embeddings = true};
    return cli_create_session(t->engine, &t->m, options, &t->session);
}

static int compute_group(cli_texts *t, int32_t first, int32_t n, const qn_embedding_options *options, float **rows,
                         cli_texts_fn each, void *ctx)
{
    const bool rank = options->pooling == QN_POOLING_rank;
    const int32_t width = rank ? t->info.n_label : t->info.n_embd_out;
    int64_t n_rows = 0;
    qn_error err;
    for (int32_t i = first; i < first + n; i++)
        n_rows += options->pooling == QN_POOLING_none ? t->tokens[i].n_tokens : 1;
    free(*rows);
    *rows = malloc((size_t)n_rows * (size_t)(width ? width : 1) * sizeof(**rows));
    if (!*rows) return cli_no_memory("out of memory for the results");
    if (qn_session_embeddings(t->session, t->tokens + first, n, options, *rows, &err) != QN_OK)
        return cli_fail_error(&err);
    const float *row = *rows;
    for (int32_t i = first; i < first + n; i++) {
        const int64_t k = options->pooling == QN_POOLING_none ? t->tokens[i].n_tokens : 1;
        const int status = each(ctx, i, row, k, width);
        if (status != CLI_OK) return status;
        row += k * width;
    }
    return CLI_OK;
}

int cli_texts_compute(cli_texts *t, const qn_embedding_options *options, cli_texts_fn each, void *ctx)
{
    float *rows = NULL;
    int status = CLI_OK;
    cli_progress progress;
    cli_progress_init(&progress, "computing");
    for (int32_t i = 0; i < t->n && status == CLI_OK; i += GROUP) {
        status = compute_group(t, i, t->n - i < GROUP ? t->n - i : GROUP, options, &rows, each, ctx);
        if (status == CLI_OK && !cli_progress_step(&progress, (uint64_t)i, (uint64_t)t->n)) status = CLI_INTERRUPTED;
    }
    cli_progress_end(&progress);
    free(rows);
    return status;
}

void cli_texts_end(cli_texts *t)
{
    qn_session_destroy(t->session);
    qn_engine_close(t->engine);
    for (int32_t i = 0; t->tokens && i < t->n; i++) qn_free((void *)(uintptr_t)t->tokens[i].tokens);
    free(t->tokens);
    free(t->text);
    free(t->read);
}

void cli_put_json(const char *text, size_t len)
{
    json_t *value = json_stringn(text, len);
    if (!value) value = json_string("(not UTF-8)");
    if (value) (void)json_dumpf(value, stdout, JSON_ENCODE_ANY);
    json_decref(value);
}
