/* SPDX-License-Identifier: MIT */
/* src/cli/lens.c -- quern lens: what a model would say after each layer, where its heads look, and which value makes
 * the difference between two texts. */
#include "cli/lens.h"
#include "cli/model.h"
#include "cli/taps.h"
#include <stdlib.h>
#include <string.h>

#define MAX_PROMPT_BYTES ((size_t)1 << 20)

static const cli_usage usage = {
    .command = "lens",
    .arguments = "MODEL [PROMPT]",
    .summary = "Shows what a model would say if it ended after each of its layers: the most likely words, how sure it "
               "is (entropy), and the rank of the word that came. With --attention where each head looks; with --patch "
               "what one layer's value of one token, taken from another prompt, does to the next word.",
    .notes = "The last layer's row is the model's own. After the last token the word that came is the one that the "
             "model finds most likely.\n"
             "Prompts of --patch must have as many tokens; words that are compared are by default those that come "
             "after each.",
    .examples = "What each layer makes of a prompt:\n"
                "quern lens model.gguf \"Once upon a time\"\n"
                "Where the heads of the first two layers look from the last token:\n"
                "quern lens model.gguf \"Once upon a time\" --layers 0-1 --attention\n"
                "Where it is decided who said it:\n"
                "quern lens model.gguf \"My father said that\" --patch \"My mother said that\" --words \" he, she\"\n",
    .min_args = 1,
    .max_args = 2,
};

typedef struct lens_state {
    cli_model_options m;
    cli_tap_options taps;
    const char *file, *layers, *patch, *value, *words, *out;
    int32_t top, position;
    bool attention, json, has_position;
    char *text; /* of the file */
    qn_engine *engine;
    qn_session *session;
    qn_token *ids, *other;
    size_t n_ids, n_other;
    qn_lens *lens;
    qn_lens_grid *grid;
    cli_progress progress;
} lens_state;

char *lens_text(const qn_engine *engine, qn_token token)
{
    const qn_detokenize_options o = {.show_special = true, .keep_prefix = true};
    char *text = NULL, *copy;
    size_t n = 0;
    if (qn_detokenize(qn_engine_tokenizer(engine), &token, 1, &o, &text, &n, NULL) != QN_OK) return calloc(1, 1);
    copy = malloc(n + 1);
    if (copy) memcpy(copy, text, n);
    if (copy) copy[n] = '\0';
    qn_free(text);
    return copy;
}

/* ---- what was asked for ---- */

/* "3", or "0-3". */
static int parse_layers(const lens_state *s, qn_lens_options *o)
{
    char end = 0;
    int first, last;
    qn_engine_info info;
    qn_engine_get_info(s->engine, &info);
    if (!s->layers) return CLI_OK;
    const int n = sscanf(s->layers, "%d-%d%c", &first, &last, &end);
    if (n == 1 && sscanf(s->layers, "%d%c", &first, &end) == 1)
        last = first;
    else if (n != 2)
        return cli_bad_usage("--layers %.32s: a layer, or FIRST-LAST, is expected", s->layers);
    if (first < 0 || last < first || last >= info.n_layer)
        return cli_bad_usage("--layers %.32s: the model has layers 0 to %d", s->layers, info.n_layer - 1);
    o->first_layer = first;
    o->end_layer = last + 1;
    return CLI_OK;
}

static int tokenize(const lens_state *s, const char *text, size_t len, bool bare, qn_token **ids, size_t *n)
{
    qn_error err;
    const qn_tokenize_options o = {.no_bos = bare};
    if (qn_tokenize(qn_engine_tokenizer(s->engine), text, len, &o, ids, n, &err) != QN_OK) return cli_fail_error(&err);
    return CLI_OK;
}

/* "A,B": each is one token. */
static int parse_words(const lens_state *s, qn_lens_patch_options *o)
{
    const char *comma = s->words ? strchr(s->words, ',') : NULL;
    if (!s->words) return CLI_OK;
    if (!comma) return cli_bad_usage("--words %.32s: two words with a comma between are expected", s->words);
    const char *word[2] = {s->words, comma + 1};
    const size_t len[2] = {(size_t)(comma - s->words), strlen(comma + 1)};
    for (int i = 0; i < 2; i++) {
        qn_token *ids = NULL;
        size_t n = 0;
        const int status = tokenize(s, word[i], len[i], true, &ids, &n);
        if (status != CLI_OK) return status;
        if (n > 0) o->words[i] = ids[0];
        qn_free(ids);
        if (n != 1)
            return cli_bad_usage("--words: \"%.*s\" is %zu tokens; a word that is one token is expected",
                                 (int)(len[i] < 64 ? len[i] : 64), word[i], n);
    }
    o->has_words = true;
    return CLI_OK;
}

static int read_prompts(lens_state *s, const char *prompt)
{
    size_t len = 0;
    if ((prompt != NULL) + (s->file != NULL) != 1)
        return cli_bad_usage("%s", prompt ? "a prompt was given twice: as an argument and by --file"
                                          : "no prompt: give one as an argument, or by --file FILE");
    if (!s->patch && (s->value || s->words))
        return cli_bad_usage("--patch-value and --words are for --patch, which is missing");
    if (s->file) {
        s->text = cli_read_text(s->file, MAX_PROMPT_BYTES, &len);
        if (!s->text) return CLI_FAILED;
        prompt = s->text;
    } else {
        len = strlen(prompt);
    }
    int status = tokenize(s, prompt, len, false, &s->ids, &s->n_ids);
    if (status == CLI_OK && s->patch) status = tokenize(s, s->patch, strlen(s->patch), false, &s->other, &s->n_other);
    if (status != CLI_OK) return status;
    if (s->n_ids == 0) return cli_fail("the prompt is empty and the model has no token to begin with; give some text");
    if (s->patch && s->n_other != s->n_ids)
        return cli_bad_usage("the prompt has %zu tokens, that of --patch %zu: they must have as many", s->n_ids,
                             s->n_other);
    if (s->n_ids > 1 << 20) return cli_fail("%zu tokens are too many to look at", s->n_ids);
    if (s->has_position && (size_t)s->position >= s->n_ids)
        return cli_bad_usage("--position %d: the prompt has tokens 0 to %zu", s->position, s->n_ids - 1);
    return CLI_OK;
}

/* ---- looking ---- */

static int failed(const qn_error *err)
{
    if (err->status == QN_STATUS_cancelled) return CLI_INTERRUPTED;
    return err->status == QN_STATUS_invalid ? cli_bad_usage("%s", err->text) : cli_fail_error(err);
}

static int create_session(lens_state *s)
{
    qn_engine_info info;
    qn_engine_get_info(s->engine, &info);
    if (info.encoder) return cli_fail("%s is an encoder: it has no next word to look at", info.arch);
    const int32_t n = (int32_t)s->n_ids;
    const int32_t batch = s->patch || info.both_ways || n < 64 ? n : 64; /* all of it, where it is computed again */
    const int status =
        cli_create_session(s->engine, &s->m, (qn_session_options){.n_ctx = n, .n_batch = batch}, &s->session);
    return status == CLI_OK ? cli_set_taps(s->session, &s->taps) : status;
}

static int look(lens_state *s)
{
    qn_error err;
    qn_lens_options o = {.n_top = s->top,
                         .attention = s->attention,
                         .progress = cli_progress_step,
                         .progress_ctx = &s->progress};
    const int status = parse_layers(s, &o);
    if (status != CLI_OK) return status;
    cli_progress_init(&s->progress, "lens");
    const qn_status looked = qn_lens_create(s->session, s->ids, (int32_t)s->n_ids, &o, &s->lens, &err);
    cli_progress_end(&s->progress);
    if (looked != QN_OK) return failed(&err);
    return qn_session_seq_remove(s->session, 0, 0, -1, &err) == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int patch(lens_state *s)
{
    qn_error err;
    qn_lens_patch_options o = {.value = s->value, .progress = cli_progress_step, .progress_ctx = &s->progress};
    if (!s->patch) return CLI_OK;
    const int status = parse_words(s, &o);
    if (status != CLI_OK) return status;
    cli_progress_init(&s->progress, "patch");
    const qn_status patched = qn_lens_patch(s->session, s->ids, s->other, (int32_t)s->n_ids, &o, &s->grid, &err);
    cli_progress_end(&s->progress);
    return patched == QN_OK ? CLI_OK : failed(&err);
}

static int show(const lens_state *s)
{
    char *text = NULL;
    size_t n = 0;
    lens_view v = {.engine = s->engine,
                   .lens = s->lens,
                   .position = s->has_position ? s->position : (int32_t)s->n_ids - 1,
                   .attention = s->attention,
                   .grid = s->grid,
                   .value = s->value ? s->value : "resid_post",
                   .other = s->other};
    qn_lens_get_info(s->lens, &v.info);
    FILE *out = open_memstream(&text, &n);
    if (!out) return cli_no_memory("out of memory");
    (s->json ? lens_print_json : lens_print)(&v, out);
    const bool failed = ferror(out) != 0;
    const bool whole = fclose(out) == 0 && !failed;
    const int status = whole ? cli_write_text(s->out, text, n) : cli_no_memory("out of memory for the tables");
    free(text);
    return status;
}

int cli_command_lens(int argc, char **argv)
{
    lens_state s = {.out = "-"};
    const char *args[2] = {0};
    int n_args = 0;
    const cli_option options[] = {
        {"file", 'f', CLI_STRING, &s.file, "FILE", "read the prompt from a file", 0, 0, NULL},
        {"top", 0, CLI_INT, &s.top, "N", "words of each place (default: 5)", 1, QN_LENS_MAX_TOP, NULL},
        {"layers", 0, CLI_STRING, &s.layers, "RANGES", "only these layers, such as 3 or 0-3", 0, 0, NULL},
        {"position", 0, CLI_INT, &s.position, "P", "the token whose words and heads are listed (default: the last)", 0,
         1 << 20, &s.has_position},
        {"attention", 0, CLI_FLAG, &s.attention, NULL, "where each head looks, too", 0, 0, NULL},
        {"patch", 0, CLI_STRING, &s.patch, "PROMPT", "take one value at a time from this prompt, and compare", 0, 0,
         NULL},
        {"patch-value", 0, CLI_STRING, &s.value, "NAME",
         "which value, such as attn_out or mlp_out (default: resid_post)", 0, 0, NULL},
        {"words", 0, CLI_STRING, &s.words, "LIST", "the two words, such as yes,no, whose logits are compared", 0, 0,
         NULL},
        {"tap", 0, CLI_STRINGS, &s.taps.tap, "TAP", "change values before looking (may be repeated; docs/TRACING.md)",
         0, 0, NULL},
        {"json", 0, CLI_FLAG, &s.json, NULL, "as JSON, all tokens and layers (docs/FORMATS.md)", 0, 0, NULL},
        {"output", 'o', CLI_OUTPUT, &s.out, "FILE", "where to (default: standard output)", 0, 0, NULL},
        CLI_MODEL_OPTIONS(s.m),
    };
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    status = cli_open_engine(args[0], &s.m, &s.engine);
    if (status == CLI_OK) status = read_prompts(&s, args[1]);
    if (status == CLI_OK) status = create_session(&s);
    if (status == CLI_OK) status = look(&s);
    if (status == CLI_OK) status = patch(&s);
    if (status == CLI_OK) status = show(&s);
    if (status == CLI_OK) status = cli_end_taps(s.session, &s.taps);
    qn_lens_grid_destroy(s.grid);
    qn_lens_destroy(s.lens);
    qn_free(s.ids);
    qn_free(s.other);
    free(s.text);
    qn_session_destroy(s.session);
    qn_engine_close(s.engine);
    return status;
}
