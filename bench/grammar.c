/* SPDX-License-Identifier: MIT */
/* bench/grammar.c -- what a mask costs: for each case FOLDER/N.gbnf or N.schema, N.txt (N = 0, 1 ..) the text is
 * tokenized and given to a matcher token by token, with a mask before each and after the last, once with a new grammar
 * and once with a second matcher of it. Times are of the processor, so that neighbours do not show. The first line is
 * of the vocabulary: tokens, the microseconds that its trie takes, and which tokens end a generation. Then a line a
 * case: microseconds to compile, to create the first matcher and the second, and accept() on average; and one a mask:
 * case, token id before which it was made (-1: the end), nanoseconds the first time and the second, tokens that it
 * allows, and whether that one is among them. With a third argument, masks go to FOLDER/N.mask. bench/grammar.py makes
 * the cases, and compares with another engine:
 *
 *     cmake --build build --target bench_grammar && build/bench_grammar VOCAB.gguf FOLDER */
#include <quern/grammar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void check(qn_status status, const char *path, const qn_error *err)
{
    if (status == QN_OK) return;
    fprintf(stderr, "%s: %s\n", path, err->text);
    exit(1);
}

/* Terminated; NULL when there is no such file. */
static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    size_t cap = 1 << 22;
    char *text = malloc(cap);
    if (!text) exit(1);
    *n = fread(text, 1, cap - 1, f);
    text[*n] = '\0';
    fclose(f);
    return text;
}

typedef struct step {
    qn_token id;
    int64_t ns[2];
    int n_allowed;
    bool allowed;
} step;

static int64_t run(const qn_grammar *g, const qn_tokenizer *tok, const qn_token *ids, size_t n, int round, step *steps,
                   int64_t *accept_ns, FILE *masks)
{
    qn_matcher *m;
    qn_error err;
    const size_t words = ((size_t)qn_tokenizer_n_tokens(tok) + 31) / 32;
    const int64_t begin = now_ns();
    check(qn_matcher_create(g, tok, &m, &err), "matcher", &err);
    const int64_t created = now_ns() - begin;
    for (size_t i = 0; i <= n; i++) {
        const uint32_t *mask;
        const int64_t t0 = now_ns();
        check(qn_matcher_mask(m, &mask, &err), "mask", &err);
        steps[i].ns[round] = now_ns() - t0;
        steps[i].id = i < n ? ids[i] : -1;
        steps[i].n_allowed = 0;
        for (size_t w = 0; w < words; w++) steps[i].n_allowed += __builtin_popcount(mask[w]);
        steps[i].allowed = i < n ? mask[ids[i] / 32] >> ids[i] % 32 & 1 : qn_matcher_may_end(m);
        if (masks) fwrite(mask, sizeof *mask, words, masks);
        if (i == n || !steps[i].allowed) break;
        const int64_t t1 = now_ns();
        check(qn_matcher_accept(m, ids[i], &err), "accept", &err);
        *accept_ns += now_ns() - t1;
    }
    qn_matcher_destroy(m);
    return created;
}

/* False when there is no such case. */
static bool run_case(const qn_tokenizer *tok, const char *folder, int number, bool write_masks)
{
    char path[4096];
    qn_grammar *g;
    qn_error err;
    qn_token *ids;
    size_t n_text = 0, n_source = 0, n = 0;
    snprintf(path, sizeof path, "%s/%d.txt", folder, number);
    char *text = read_file(path, &n_text), *source;
    if (!text) return false;
    snprintf(path, sizeof path, "%s/%d.gbnf", folder, number);
    source = read_file(path, &n_source);
    const bool schema = !source;
    if (schema) snprintf(path, sizeof path, "%s/%d.schema", folder, number);
    if (schema && !(source = read_file(path, &n_source))) return false;
    const int64_t begin = now_ns();
    const qn_status status =
        schema ? qn_grammar_create_schema(source, NULL, &g, &err) : qn_grammar_create(source, NULL, &g, &err);
    const int64_t compiled = now_ns() - begin;
    check(status, path, &err);
    check(qn_tokenize(tok, text, n_text, &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n, &err),
          path, &err);
    step *steps = calloc(n + 1, sizeof *steps);
    if (!steps) exit(1);
    snprintf(path, sizeof path, "%s/%d.mask", folder, number);
    FILE *masks = write_masks ? fopen(path, "wb") : NULL;
    int64_t accept_ns = 0, warm_ns = 0;
    const int64_t first = run(g, tok, ids, n, 0, steps, &accept_ns, masks);
    const int64_t second = run(g, tok, ids, n, 1, steps, &warm_ns, NULL);
    if (masks) fclose(masks);
    printf("case %d compile_us %.1f first_us %.1f second_us %.1f accept_us %.2f warm_accept_us %.2f\n", number,
           (double)compiled * 1e-3, (double)first * 1e-3, (double)second * 1e-3,
           (double)accept_ns * 1e-3 / (double)(n + 1), (double)warm_ns * 1e-3 / (double)(n + 1));
    for (size_t i = 0; i <= n; i++)
        printf("%d %d %lld %lld %d %d\n", number, steps[i].id, (long long)steps[i].ns[0], (long long)steps[i].ns[1],
               steps[i].n_allowed, steps[i].allowed);
    free(steps);
    free(text);
    free(source);
    qn_free(ids);
    qn_grammar_destroy(g);
    return true;
}

int main(int argc, char **argv)
{
    qn_gguf *file;
    qn_tokenizer *tok;
    qn_grammar *g;
    qn_matcher *m;
    qn_error err;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_grammar VOCAB.gguf FOLDER [masks]\n");
        return 2;
    }
    check(qn_gguf_open(argv[1], &(qn_gguf_options){.metadata_only = true}, &file, &err), argv[1], &err);
    check(qn_tokenizer_create(file, &tok, &err), argv[1], &err);
    check(qn_grammar_create("root ::= \"x\"", NULL, &g, &err), "grammar", &err);
    const int64_t begin = now_ns();
    check(qn_matcher_create(g, tok, &m, &err), "matcher", &err);
    printf("vocabulary %d trie_us %.1f eog", qn_tokenizer_n_tokens(tok), (double)(now_ns() - begin) * 1e-3);
    for (qn_token t = 0; t < qn_tokenizer_n_tokens(tok); t++)
        if (qn_tokenizer_is_eog(tok, t)) printf(" %d", t);
    putchar('\n');
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    for (int i = 0; run_case(tok, argv[2], i, argc > 3); i++) continue;
    qn_tokenizer_destroy(tok);
    qn_gguf_close(file);
    return 0;
}
