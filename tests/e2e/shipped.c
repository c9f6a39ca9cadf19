/* SPDX-License-Identifier: MIT */
/* tests/e2e/shipped.c -- the model in models/: it loads, speaks, and its bits per byte on sonnets are what NumPy
 * computes (tests/oracle/shakespeare.py); those on the part of the plays that it has not seen are what models/README.md
 * says. With a file as argument: prints the latter of that file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quern/engine.h>

#define MODEL   QN_TESTS_DIR "/../models/shakespeare.gguf"
#define README  QN_TESTS_DIR "/../models/README.md"
#define SONNETS QN_TESTS_DIR "/text/sonnets.txt"
#define TEXT    QN_SHARED_DIR "/text/tinyshakespeare.txt"

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(1 << 22);
    *len = fread(text, 1, (1 << 22) - 1, f);
    text[*len] = '\0';
    fclose(f);
    return text;
}

static qn_engine *open_model(const char *path)
{
    qn_engine *engine = NULL;
    qn_error err;
    if (qn_engine_open(path, NULL, &engine, &err) != QN_OK) fail_msg("%s", err.text);
    return engine;
}

static double surprise(const float *logits, int32_t n, qn_token right)
{
    double top = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) top = fmax(top, (double)logits[i]);
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - top);
    return top + log(sum) - (double)logits[right];
}

/* In windows of the model's context, each after a beginning-of-sequence token. */
static double bits_per_byte(const char *path, const char *text, size_t bytes)
{
    qn_engine *engine = open_model(path);
    const qn_tokenizer *tok = qn_engine_tokenizer(engine);
    qn_engine_info info;
    qn_engine_get_info(engine, &info);
    qn_token *ids;
    size_t n;
    qn_error err;
    if (qn_tokenize(tok, text, bytes, &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n, &err) !=
        QN_OK)
        fail_msg("%s", err.text);
    const int32_t window = info.n_ctx_train;
    qn_session *session;
    if (qn_session_create(engine, &(qn_session_options){.n_ctx = window, .n_batch = window, .n_logits = window},
                          &session, &err) != QN_OK)
        fail_msg("%s", err.text);
    qn_batch_item *items = calloc((size_t)window, sizeof *items);
    double sum = 0;
    for (size_t at = 0; at < n; at += (size_t)window) {
        const int32_t k = n - at < (size_t)window ? (int32_t)(n - at) : window;
        for (int32_t i = 0; i < k; i++)
            items[i] = (qn_batch_item){i ? ids[at + (size_t)i - 1] : qn_tokenizer_bos(tok), i, 0, true};
        if (qn_session_seq_remove(session, 0, 0, -1, &err) != QN_OK ||
            qn_session_decode(session, items, k, &err) != QN_OK)
            fail_msg("%s", err.text);
        for (int32_t i = 0; i < k; i++)
            sum += surprise(qn_session_logits(session, i), info.n_vocab, ids[at + (size_t)i]);
    }
    free(items);
    qn_free(ids);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return sum / log(2) / (double)bytes;
}

/* As quern train evaluates: the text from the first line that begins in its last tenth on. */
static double held_out(const char *path, const char *text, size_t len)
{
    const char *held = strchr(text + (size_t)((double)len * (1 - (double)0.1f)), '\n') + 1;
    return bits_per_byte(path, held, len - (size_t)(held - text));
}

/* NumPy's float64 says 2.0919; activations of 8 bits and keys of 16 move it in the fourth place. */
static void as_numpy_reads_sonnets(void **state)
{
    (void)state;
    size_t len;
    char *text = read_file(SONNETS, &len);
    assert_non_null(text);
    const double have = bits_per_byte(MODEL, text, len);
    printf("%.4f bits per byte of sonnets\n", have);
    assert_true(fabs(have - 2.0919) < 0.002);
    free(text);
}

static void speaks(void **state)
{
    (void)state;
    qn_engine *engine = open_model(MODEL);
    const qn_tokenizer *tok = qn_engine_tokenizer(engine);
    qn_session *session;
    qn_sampler *sampler;
    qn_token *prompt, id;
    size_t n, n_text;
    qn_error err;
    qn_token said[64];
    char *text;
    if (qn_session_create(engine, NULL, &session, &err) != QN_OK) fail_msg("%s", err.text);
    if (qn_sampler_create(&(qn_sampler_params){.seed = 1}, qn_tokenizer_n_tokens(tok), tok, &sampler, &err) != QN_OK)
        fail_msg("%s", err.text);
    if (qn_tokenize(tok, "ROMEO:\n", 7, NULL, &prompt, &n, &err) != QN_OK) fail_msg("%s", err.text);
    if (qn_session_feed(session, 0, prompt, n, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 0; i < 64; i++) {
        if (qn_sampler_sample(sampler, qn_session_logits(session, -1), &id, &err) != QN_OK) fail_msg("%s", err.text);
        said[i] = id;
        qn_sampler_accept(sampler, id);
        if (qn_session_feed(session, 0, &id, 1, &err) != QN_OK) fail_msg("%s", err.text);
    }
    if (qn_detokenize(tok, said, 64, NULL, &text, &n_text, &err) != QN_OK) fail_msg("%s", err.text);
    printf("%s\n", text);
    int letters = 0, spaces = 0;
    for (size_t i = 0; i < n_text; i++)
        letters += (text[i] | 32) >= 'a' && (text[i] | 32) <= 'z', spaces += text[i] == ' ' || text[i] == '\n';
    /* words of a language */
    assert_true(n_text > 100 && letters * 10 > (int)n_text * 6 && spaces * 10 > (int)n_text &&
                spaces * 3 < (int)n_text);
    qn_free(text);
    qn_free(prompt);
    qn_sampler_destroy(sampler);
    qn_session_destroy(session);
    qn_engine_close(engine);
}

static void as_good_as_its_readme_says(void **state)
{
    (void)state;
    size_t len, n;
    char *text = read_file(TEXT, &len), *readme = read_file(README, &n);
    if (!text) {
        printf("skipped: no " TEXT "\n");
        free(readme);
        skip();
    }
    assert_non_null(readme);
    const char *stated = strstr(readme, "**held out: ");
    assert_non_null(stated);
    const double want = strtod(stated + 12, NULL), have = held_out(MODEL, text, len);
    printf("%.4f bits per byte held out, %.4f stated\n", have, want);
    assert_true(fabs(have - want) < 0.002);
    free(text);
    free(readme);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(speaks), cmocka_unit_test(as_numpy_reads_sonnets),
                                       cmocka_unit_test(as_good_as_its_readme_says)};
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    size_t len;
    char *text = read_file(TEXT, &len);
    if (text) printf("%.4f\n", held_out(argv[1], text, len));
    free(text);
    return text ? 0 : 1;
}
