/* SPDX-License-Identifier: MIT */
/* src/cli/texts.h -- what `quern embed` and `quern rerank` share: texts from the command line and files, their tokens,
 * and a session that fits them. */
#ifndef QN_CLI_TEXTS_H
#define QN_CLI_TEXTS_H

#include "cli/model.h"

/* Texts of a command line: at most so many; a file (-f) has as many lines as it likes. */
#define CLI_MAX_TEXTS 1000

typedef struct cli_texts {
    cli_model_options m;
    const char *file;
    int32_t batch;
    bool json;
    char *read; /* what came from the file */
    qn_gguf_str *text;
    qn_embedding_text *tokens;
    int32_t n, cap;
    int64_t n_tokens;
    qn_engine *engine;
    qn_session *session;
    qn_engine_info info;
} cli_texts;

/* clang-format off */
#define CLI_TEXTS_OPTIONS(t) \
    {"file", 'f', CLI_STRING, &(t).file, "FILE", "read texts from a file, one a line; - is standard input", \
        0, 0, NULL}, \
    {"batch", 'b', CLI_INT, &(t).batch, "N", "tokens computed at once (default: 512, or the longest text's)", \
        1, 1 << 20, NULL}, \
    {"json", 0, CLI_FLAG, &(t).json, NULL, "print JSON, as OpenAI's servers answer", 0, 0, NULL}, \
    CLI_MODEL_OPTIONS((t).m)
/* clang-format on */

/* Each returns CLI_OK or prints a message; cli_texts_end comes after them in any case. */
int cli_texts_read(cli_texts *t, const char *const *args, int n_args);
int cli_texts_open(cli_texts *t, const char *model);
/* query: NULL, or what each text is paired with. */
int cli_texts_tokenize(cli_texts *t, const char *query);
int cli_texts_session(cli_texts *t);
/* Results of all texts, a few at a time: rows are each text's in turn, `width` numbers a row. */
typedef int (*cli_texts_fn)(void *ctx, int32_t i, const float *rows, int64_t n_rows, int32_t width);
int cli_texts_compute(cli_texts *t, const qn_embedding_options *options, cli_texts_fn each, void *ctx);
void cli_texts_end(cli_texts *t);
/* A JSON string on standard output. */
void cli_put_json(const char *text, size_t len);

#endif
