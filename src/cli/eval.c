/* SPDX-License-Identifier: MIT */
/* src/cli/eval.c -- quern eval: logits of every position of a token list, as a float32 .npy of shape [n_tokens,
 * n_vocab]. */
#include "cli/model.h"
#include "cli/recording.h"
#include "cli/taps.h"
#include <quern/npy.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "eval",
    .arguments = "MODEL",
    .summary = "Computes the logits of every token of a list and writes them as float32 [n_tokens, n_vocab].",
    .notes = "The list is 1,2,3 or a JSON array, or @FILE with either in it.",
    .examples = "Three tokens:\nquern eval model.gguf --tokens 1,2,3 -o logits.npy\n"
                "A text's tokens:\nquern tokenize model.gguf \"Once upon a time\" > ids.json && "
                "quern eval model.gguf --tokens @ids.json -o logits.npy\n"
                "What each layer gives:\n"
                "quern eval model.gguf --tokens 1,2,3 -o logits.npy --tap 'l_out-*=save=values'\n",
    .min_args = 1,
    .max_args = 1,
};

static int write_logits(qn_session *session, const int32_t *ids, size_t n, const char *path)
{
    qn_engine_info info;
    qn_npy_writer *w = NULL;
    qn_error err;
    qn_engine_get_info(qn_session_engine(session), &info);
    const qn_shape shape = qn_shape_of((int64_t)n, info.n_vocab);
    const int32_t batch = qn_session_n_batch(session);
    qn_batch_item *items = calloc((size_t)batch, sizeof(*items));
    if (!items) return cli_no_memory("out of memory");
    cli_progress progress;
    cli_progress_init(&progress, "eval");
    qn_status status = qn_npy_writer_open(path, QN_DTYPE_F32, &shape, &w, &err);
    for (size_t i = 0; i < n && status == QN_OK;) {
        int32_t k = 0;
        for (; k < batch && i < n; k++, i++) items[k] = (qn_batch_item){ids[i], (int32_t)i, 0, true};
        status = qn_session_decode(session, items, k, &err);
        if (status == QN_OK) qn_npy_write(w, qn_session_logits(session, 0), (uint64_t)k * (uint64_t)info.n_vocab);
        if (!cli_progress_step(&progress, i, n)) break;
    }
    cli_progress_end(&progress);
    free(items);
    if (status == QN_OK && !cli_interrupted())
        status = qn_npy_writer_commit(w, &err);
    else if (w)
        qn_npy_writer_abort(w);
    if (status != QN_OK) return cli_fail_error(&err);
    return cli_interrupted() ? CLI_INTERRUPTED : CLI_OK;
}

int cli_command_eval(int argc, char **argv)
{
    cli_model_options m = {0};
    cli_tap_options taps = {0};
    const char *tokens = NULL, *out = NULL, *model = NULL, *stats = NULL;
    int32_t batch = 512;
    bool batch_set = false;
    cli_recording recording = {0};
    const cli_option options[] = {
        {"tokens", 0, CLI_STRING, &tokens, "LIST", "token ids: 1,2,3 or @FILE", 0, 0, NULL},
        {"output", 'o', CLI_OUTPUT, &out, "FILE", "the .npy file to write; - is standard output", 0, 0, NULL},
        {"batch", 'b', CLI_INT, &batch, "N", "tokens computed at once (default: 512, or where they see both ways all)",
         1, 1 << 20, &batch_set},
        {"stats", 0, CLI_OUTPUT, &stats, "FILE", "write counters and times as JSON", 0, 0, NULL},
        CLI_TAP_OPTIONS(taps),
        CLI_MODEL_OPTIONS(m),
        CLI_RECORDING_OPTIONS(recording),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &model, &n_args);
    if (status >= 0) return status;
    if (!tokens || !out)
        return cli_bad_usage("%s is missing; usage: quern eval MODEL --tokens 1,2,3 -o OUT.npy [options]",
                             tokens ? "-o FILE" : "--tokens LIST");
    size_t n = 0;
    int32_t *ids = cli_read_tokens(tokens, &n);
    if (!ids) return CLI_FAILED;
    if (n == 0 || n > 1 << 28) {
        free(ids);
        return cli_fail("%zu tokens; at least one is needed, %d at most", n, 1 << 28);
    }
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    const int64_t start = cli_now_ns();
    status = cli_recording_start(&recording, &model, 1, argc, argv);
    if (status == CLI_OK) status = cli_open_engine(model, &m, &engine);
    qn_engine_info info = {0};
    if (status == CLI_OK) qn_engine_get_info(engine, &info);
    if (status == CLI_OK && info.both_ways && batch_set && batch < (int32_t)n)
        status = cli_bad_usage("--batch %d: tokens of %s see what comes after them, all %zu are computed at once",
                               batch, info.arch, n);
    const int32_t n_batch = batch < (int32_t)n && !info.both_ways ? batch : (int32_t)n;
    if (status == CLI_OK)
        status = cli_create_session(engine, &m,
                                    (qn_session_options){.n_ctx = (int32_t)n, .n_batch = n_batch, .n_logits = n_batch},
                                    &session);
    if (status == CLI_OK) status = cli_set_taps(session, &taps);
    if (status == CLI_OK) status = write_logits(session, ids, n, out);
    if (status == CLI_OK) status = cli_end_taps(session, &taps);
    if (status == CLI_OK && stats)
        status =
            cli_write_stats(stats, session,
                            &(cli_times){.prompt_tokens = n, .prompt_seconds = (double)(cli_now_ns() - start) * 1e-9});
    status = cli_recording_stop(&recording, status);
    free(ids);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return status;
}
