/* SPDX-License-Identifier: MIT */
/* src/cli/run.c -- quern run: a prompt in, its continuation out, as it comes. */
#include "cli/generation.h"
#include "cli/recording.h"
#include "cli/taps.h"
#include "serve/stop.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PROMPT_BYTES ((size_t)64 << 20)

typedef struct run_options {
    cli_generation gen;
    int32_t n_predict;
    const char *prompt, *file, *stats, *graph_dir;
    cli_tap_options taps;
    bool quiet, special, show_timings;
    cli_strings stop;
    cli_recording recording;
} run_options;

typedef struct run_state {
    run_options o;
    const char *model, *prompt;
    char *prompt_file; /* owned text of the prompt when read */
    size_t prompt_len;
    qn_engine *engine;
    const qn_tokenizer *tok;
    qn_session *session;
    qn_sampler *sampler;
    qn_grammar *grammar;
    qn_matcher *matcher; /* NULL without a grammar */
    qn_token *ids;
    size_t n_ids;
    stop_text stop;
    char *piece;
    size_t piece_size;
    cli_times times;
} run_state;

static const cli_usage usage = {
    .command = "run",
    .arguments = "MODEL [PROMPT]",
    .summary = "Generates text that continues the prompt. The prompt is an argument (or -p), a file (-f), or standard "
               "input (- "
               "or a pipe).",
    .notes = "The text goes to standard output, everything else to standard error.\n"
             "A sampler does nothing while its option is off. Mirostat takes the place of all but penalties and "
             "temperature; --temp 0 that of all but penalties and DRY.",
    .examples = "Go on with a text:\n"
                "quern run model.gguf \"Once upon a time\" -n 100\n"
                "The most likely text, from a pipe and without the prompt before it:\n"
                "printf \"To be, or not\" | quern run model.gguf --temp 0 --quiet -n 20\n"
                "A repeatable draw that avoids repetitions:\n"
                "quern run model.gguf \"O Romeo\" --seed 7 --dry-multiplier 0.8 --xtc-probability 0.5 -n 50\n"
                "JSON that satisfies a schema:\n"
                "quern run model.gguf \"A pear: \" -n 50 --quiet -j '{\"enum\": [\"fruit\", \"animal\"]}'\n",
    .min_args = 1,
    .max_args = 2,
};

static int parse(run_state *s, int argc, char **argv)
{
    run_options *o = &s->o;
    *o = (run_options){.n_predict = 512};
    const cli_option own[] = {
        CLI_OPTION_GROUP("Text"),
        {"predict", 'n', CLI_INT, &o->n_predict, "N",
         "tokens to generate at most; -1: until the context is full (default: 512)", -1, 1 << 30, NULL},
        {"prompt", 'p', CLI_STRING, &o->prompt, "PROMPT", "the prompt, instead of an argument", 0, 0, NULL},
        {"file", 'f', CLI_STRING, &o->file, "FILE",
         "read the prompt from a file, to its last byte: the line break at its end too", 0, 0, NULL},
        {"stop", 0, CLI_STRINGS, &o->stop, "STR", "end before this text (may be repeated)", 0, 0, NULL},
        CLI_GRAMMAR_OPTIONS(o->gen.grammar),
        {"quiet", 'q', CLI_FLAG, &o->quiet, NULL, "don't repeat the prompt", 0, 0, NULL},
        {"special", 0, CLI_FLAG, &o->special, NULL, "show control tokens as text", 0, 0, NULL},
        CLI_GENERATION_OPTIONS(o->gen),
        CLI_OPTION_GROUP("What is seen of it"),
        {"show-timings", 0, CLI_FLAG, &o->show_timings, NULL,
         "say at the end, on standard error, how fast the prompt was read and its continuation written", 0, 0, NULL},
        {"stats", 0, CLI_OUTPUT, &o->stats, "FILE", "write counters and times as JSON; - is standard output", 0, 0,
         NULL},
        {"graph-dir", 0, CLI_STRING, &o->graph_dir, "DIR",
         "write each step's graph, coloured by measured time, to DIR/token_00000.dot ...", 0, 0, NULL},
        CLI_RECORDING_OPTIONS(o->recording),
        CLI_TAP_OPTIONS(o->taps),
        CLI_OPTION_GROUP("Choosing the next token"),
    };
    cli_option options[CLI_N(own) + CLI_N_SAMPLING];
    memcpy(options, own, sizeof(own));
    const char *args[2] = {0};
    int n_args = 0;
    const int status = cli_parse_generation(&usage, &o->gen, options, CLI_N(own), argc, argv, args, &n_args);
    s->model = args[0];
    s->prompt = args[1];
    if (status >= 0) return status;
    if ((s->prompt != NULL) + (o->prompt != NULL) + (o->file != NULL) > 1)
        return cli_bad_usage("a prompt was given twice: as an argument, by --prompt or by --file");
    if (o->prompt) s->prompt = o->prompt;
    return cli_find_generation_model(&s->model, options, CLI_N(own), argc, argv);
}

static int read_prompt(run_state *s)
{
    const char *path = s->o.file;
    if (s->prompt && strcmp(s->prompt, "-") != 0) {
        s->prompt_len = strlen(s->prompt);
        return CLI_OK;
    }
    if (!path && !s->prompt && isatty(STDIN_FILENO))
        return cli_bad_usage("no prompt: give one as an argument, with -f FILE, or on standard input");
    s->prompt_file = cli_read_text(path ? path : "-", MAX_PROMPT_BYTES, &s->prompt_len);
    s->prompt = s->prompt_file;
    return s->prompt ? CLI_OK : CLI_FAILED;
}

/* ---- setting up ---- */

static int set_up(run_state *s)
{
    qn_error err;
    s->o.gen.model.session = (qn_session_options){.n_ctx = s->o.gen.n_ctx, .n_batch = s->o.gen.n_batch};
    int status = cli_open_engine(s->model, &s->o.gen.model, &s->engine);
    if (status != CLI_OK) return status;
    s->tok = qn_engine_tokenizer(s->engine);
    if (qn_tokenize(s->tok, s->prompt, s->prompt_len, NULL, &s->ids, &s->n_ids, &err) != QN_OK)
        return cli_fail_error(&err);
    if (s->n_ids == 0) return cli_fail("the prompt is empty and the model has no token to begin with; give some text");
    status = cli_create_session(s->engine, &s->o.gen.model, s->o.gen.model.session, &s->session);
    if (status != CLI_OK) return status;
    if (s->n_ids > (size_t)qn_session_n_ctx(s->session))
        return cli_fail("the prompt has %zu tokens, the context only %d; shorten it or ask for more with -c %zu",
                        s->n_ids, qn_session_n_ctx(s->session), s->n_ids + 256);
    status = cli_create_sampler(&s->o.gen.sampling, s->tok, qn_session_n_ctx(s->session), &s->sampler);
    if (status == CLI_OK) status = cli_create_matcher(&s->o.gen.grammar, s->tok, &s->grammar, &s->matcher);
    if (status == CLI_OK) status = cli_set_taps(s->session, &s->o.taps);
    if (status != CLI_OK) return status;
    qn_session_set_timing(s->session, s->o.graph_dir != NULL);
    s->piece_size = qn_tokenizer_max_piece(s->tok) + 8;
    s->piece = malloc(s->piece_size);
    if (!s->piece || !stop_text_init(&s->stop, s->o.stop.item, s->o.stop.n)) return cli_no_memory("out of memory");
    return CLI_OK;
}

/* ---- generating ---- */

static int feed_prompt(run_state *s)
{
    qn_error err;
    cli_progress progress;
    cli_progress_init(&progress, "prompt");
    const int64_t start = cli_now_ns();
    const size_t step = (size_t)qn_session_n_batch(s->session);
    qn_status status = QN_OK;
    cli_interrupt_stops(s->session);
    for (size_t i = 0; i < s->n_ids && status == QN_OK; i += step) {
        const size_t n = s->n_ids - i < step ? s->n_ids - i : step;
        status = qn_session_feed(s->session, 0, s->ids + i, n, &err);
        if (status == QN_OK && !cli_progress_step(&progress, i + n, s->n_ids)) break;
    }
    cli_interrupt_stops(NULL);
    cli_progress_end(&progress);
    if (status != QN_OK && !(status == QN_STATUS_cancelled && cli_interrupted())) return cli_fail_error(&err);
    for (size_t i = 0; i < s->n_ids; i++) qn_sampler_accept(s->sampler, s->ids[i]);
    s->times.prompt_tokens = s->n_ids;
    s->times.prompt_seconds = (double)(cli_now_ns() - start) * 1e-9;
    return cli_interrupted() ? CLI_INTERRUPTED : CLI_OK;
}

/* Text that has come is passed through the stop strings; false when output ended or failed. */
static bool put(run_state *s, const char *text, int64_t len)
{
    const bool go_on = stop_text_push(&s->stop, text, len > 0 ? (size_t)len : 0);
    fwrite(s->stop.out, 1, s->stop.n_out, stdout);
    return fflush(stdout) == 0 && go_on;
}

/* The graph of the step that just ran, for --graph-dir. */
static int write_graph(run_state *s, int32_t step)
{
    char path[4096], *text = NULL;
    qn_error err;
    if (!s->o.graph_dir) return CLI_OK;
    if ((size_t)snprintf(path, sizeof(path), "%s/token_%05d.dot", s->o.graph_dir, step) >= sizeof(path))
        return cli_fail("--graph-dir: the path is too long");
    if (qn_session_print_last(s->session, -1, QN_GRAPH_dot, &text, &err) != QN_OK) return cli_fail_error(&err);
    const int status = cli_write_text(path, text, strlen(text));
    qn_free(text);
    return status;
}

/* What can come next; NULL: everything. */
static bool ask_grammar(run_state *s, const uint32_t **mask, qn_error *err)
{
    if (!s->matcher) return true;
    const int64_t start = cli_now_ns();
    const bool ok = qn_matcher_mask(s->matcher, mask, err) == QN_OK;
    s->times.mask_seconds += (double)(cli_now_ns() - start) * 1e-9;
    s->times.masks++;
    return ok;
}

static int generate(run_state *s)
{
    qn_error err;
    qn_detok detok = {.started = true, .options = {.show_special = s->o.special}};
    uint64_t allocs_warm = 0;
    bool full = false;
    qn_metrics metrics;
    const int64_t start = cli_now_ns();
    for (int32_t n = 0; s->o.n_predict < 0 || n < s->o.n_predict; n++) {
        qn_token id = 0;
        if (cli_interrupted()) break;
        if (write_graph(s, n) != CLI_OK) return CLI_FAILED;
        const uint32_t *mask = NULL;
        if (s->matcher && qn_matcher_must_end(s->matcher)) break;
        if (!ask_grammar(s, &mask, &err)) return cli_fail_error(&err);
        if (qn_sampler_sample_masked(s->sampler, qn_session_logits(s->session, -1), mask, &id, &err) != QN_OK)
            return cli_fail_error(&err);
        if (qn_tokenizer_is_eog(s->tok, id) && !s->o.gen.sampling.ignore_eos) break;
        if (s->matcher && qn_matcher_accept(s->matcher, id, &err) != QN_OK) return cli_fail_error(&err);
        qn_sampler_accept(s->sampler, id);
        if (!put(s, s->piece, qn_detok_push(&detok, s->tok, id, s->piece, s->piece_size))) break;
        s->times.decode_tokens++;
        if (s->o.n_predict >= 0 && n + 1 == s->o.n_predict) break; /* nobody will ask for what follows it */
        full = qn_session_free_cells(s->session) == 0;
        if (full) break;
        if (qn_session_feed(s->session, 0, &id, 1, &err) != QN_OK) return cli_fail_error(&err);
        if (n == 0) { /* the first step compiled the graph of one token */
            qn_metrics_snapshot(&metrics);
            allocs_warm = metrics.allocs;
        }
    }
    s->times.decode_seconds = (double)(cli_now_ns() - start) * 1e-9;
    qn_metrics_snapshot(&metrics);
    s->times.allocs_after_warmup = allocs_warm ? metrics.allocs - allocs_warm : 0;
    if (!s->stop.hit) {
        (void)put(s, s->piece, qn_detok_finish(&detok, s->piece, s->piece_size));
        stop_text_finish(&s->stop);
        fwrite(s->stop.out, 1, s->stop.n_out, stdout);
    }
    fputc('\n', stdout);
    const int status = cli_finish_output();
    if (full) cli_note("the context of %d tokens is full; -c asks for a larger one", qn_session_n_ctx(s->session));
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

static void tell_times(const cli_times *t)
{
    cli_note("prompt %" PRIu64 " tokens in %.2f s, %.1f tokens/s; written %" PRIu64 " in %.2f s, %.1f tokens/s",
             t->prompt_tokens, t->prompt_seconds, (double)t->prompt_tokens / t->prompt_seconds, t->decode_tokens,
             t->decode_seconds, (double)t->decode_tokens / t->decode_seconds);
}

int cli_command_run(int argc, char **argv)
{
    run_state s = {0};
    int status = parse(&s, argc, argv);
    if (status >= 0) return status;
    status = read_prompt(&s);
    if (status == CLI_OK) status = cli_recording_start(&s.o.recording, &s.model, 1, argc, argv);
    if (status == CLI_OK) status = set_up(&s);
    if (status == CLI_OK && !s.o.quiet) {
        fwrite(s.prompt, 1, s.prompt_len, stdout);
        status = cli_finish_output();
    }
    if (status == CLI_OK) status = feed_prompt(&s);
    if (status == CLI_OK) status = generate(&s);
    if (status == CLI_OK || status == CLI_INTERRUPTED) {
        const int taps_status = cli_end_taps(s.session, &s.o.taps);
        if (status == CLI_OK) status = taps_status;
    }
    if ((status == CLI_OK || status == CLI_INTERRUPTED) && s.o.show_timings) tell_times(&s.times);
    if ((status == CLI_OK || status == CLI_INTERRUPTED) && s.o.stats) {
        const int stats_status = cli_write_stats(s.o.stats, s.session, &s.times);
        if (status == CLI_OK) status = stats_status;
    }
    status = cli_recording_stop(&s.o.recording, status);
    stop_text_deinit(&s.stop);
    free(s.piece);
    free(s.prompt_file);
    qn_free(s.ids);
    qn_sampler_destroy(s.sampler);
    qn_matcher_destroy(s.matcher);
    qn_grammar_destroy(s.grammar);
    qn_session_destroy(s.session);
    qn_engine_close(s.engine);
    return status;
}
