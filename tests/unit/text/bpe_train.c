/* SPDX-License-Identifier: MIT */
/* tests/unit/text/bpe_train.c -- the trainer finds the pieces that SentencePiece's own finds, in the same order, with
 * every option that both have (bpe_train_figures.inc, written by tests/oracle/bpe_train_figures.py); its vocabulary
 * goes through a file and cuts a large text into as many tokens as SentencePiece does, and back; portions, order and
 * memory limits. */
#include "unit/base/failing.h"
#include "vocab_file.h"
#include <unistd.h>

#include "bpe_train_figures.inc"

#define SONNETS QN_TESTS_DIR "/text/sonnets.txt"
#define PLAYS   QN_SHARED_DIR "/text/tinyshakespeare.txt"
#define OUT     QN_BUILD_DIR "/t_text_bpe_train.gguf"

static qn_vocab *train(const qn_bpe_train_options *options, const char *text, size_t len)
{
    qn_vocab *v = NULL;
    qn_error err = {0};
    if (qn_bpe_train(options, &(qn_gguf_str){text, len}, 1, &v, &err) != QN_OK) fail_msg("%s", err.text);
    return v;
}

static char *read_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(2 << 20);
    *len = fread(text, 1, 2 << 20, f);
    fclose(f);
    return text;
}

/* 20,000 lines of 8 of the sonnets' words: counts as large as a real text's. The figures' program draws the same. */
static char *draw_text(size_t *len)
{
    const char *words[4096];
    int n_words = 0;
    uint64_t state = 1;
    char *sonnets = read_text(SONNETS, len), *text = malloc(4 << 20), *to = text;
    assert_non_null(sonnets);
    sonnets[*len] = '\0';
    for (char *w = strtok(sonnets, " \n"); w; w = strtok(NULL, " \n")) words[n_words++] = w;
    for (int i = 0; i < 20000 * 8; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        to = stpcpy(to, words[(state >> 33) % (uint64_t)n_words]);
        *to++ = i % 8 == 7 ? '\n' : ' ';
    }
    free(sonnets);
    *len = (size_t)(to - text);
    return text;
}

static char *large_text(const char *name, size_t *len)
{
    return strcmp(name, "drawn") == 0     ? draw_text(len)
           : strcmp(name, "sonnets") == 0 ? read_text(SONNETS, len)
                                          : read_text(PLAYS, len);
}

static void same_pieces_small(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(small_cases); i++) {
        qn_vocab *v = train(&small_cases[i].options, small_text, sizeof small_text - 1);
        const bool bytes = !small_cases[i].options.no_byte_fallback;
        const int32_t first = bytes ? 259 : 3;
        assert_int_equal(v->n_tokens, small_cases[i].options.n_tokens);
        assert_int_equal(v->n_merges + v->n_chars, v->n_tokens - first);
        for (int32_t k = first; k < v->n_tokens; k++) {
            const char *want = small_cases[i].pieces[k - first];
            if (v->pieces[k].len != strlen(want) || memcmp(v->pieces[k].data, want, v->pieces[k].len) != 0)
                fail_msg("%s: token %d is \"%s\", expected \"%s\"", small_cases[i].name, k, v->pieces[k].data, want);
            assert_true(v->scores[k] == -(float)(k - first));
            assert_int_equal(v->kinds[k], QN_TOKEN_normal);
        }
        for (int b = 0; bytes && b < 256; b++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", b);
            assert_string_equal(v->pieces[3 + b].data, name);
            assert_int_equal(v->kinds[3 + b], QN_TOKEN_byte);
        }
        assert_string_equal(v->pieces[v->unk].data, "<unk>");
        assert_string_equal(v->pieces[v->bos].data, "<s>");
        assert_string_equal(v->pieces[v->eos].data, "</s>");
        assert_int_equal(v->add_space_prefix, !small_cases[i].options.no_space_prefix);
        qn_vocab_destroy(v);
    }
}

static uint64_t hash_pieces(const qn_vocab *v)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 259; i < v->n_tokens; i++)
        for (size_t k = 0; k <= v->pieces[i].len; k++)
            h = (h ^ (k < v->pieces[i].len ? (uint8_t)v->pieces[i].data[k] : '\n')) * UINT64_C(0x100000001b3);
    return h;
}

static size_t count_tokens(const qn_tokenizer *tok, const char *text, size_t len)
{
    qn_token *ids;
    size_t n;
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n,
                                 NULL),
                     QN_OK);
    qn_free(ids);
    return n;
}

static void same_pieces_large(void **state)
{
    (void)state;
    size_t len;
    for (size_t i = 0; i < ARRAY_LEN(large_cases); i++) {
        char *text = large_text(large_cases[i].text, &len);
        if (!text && strcmp(large_cases[i].text, "plays") == 0) {
            print_message("skipped: no %s\n", PLAYS);
            continue;
        }
        qn_vocab *v =
            train(&(qn_bpe_train_options){.n_tokens = large_cases[i].n_tokens, .character_coverage = 1}, text, len);
        assert_int_equal(v->n_tokens, large_cases[i].n_tokens);
        assert_true(hash_pieces(v) == large_cases[i].hash);
        assert_int_equal(v->n_seen, v->n_covered);
        qn_tokenizer *tok = NULL;
        assert_int_equal(qn_vocab_tokenizer(v, &tok, NULL), QN_OK);
        size_t n = 0;
        for (const char *line = text, *end; line < text + len; line = end + 1) {
            end = memchr(line, '\n', (size_t)(text + len - line));
            if (!end) end = text + len;
            n += count_tokens(tok, line, (size_t)(end - line));
        }
        assert_int_equal(n, large_cases[i].n_encoded); /* the figure's last, empty line has none */
        qn_tokenizer_destroy(tok);
        qn_vocab_destroy(v);
        free(text);
    }
}

static void check_round_trip(const qn_tokenizer *tok, const char *text, size_t len)
{
    qn_token *ids;
    char *back;
    size_t n, back_len;
    assert_int_equal(qn_tokenize(tok, text, len, &(qn_tokenize_options){.no_special = true}, &ids, &n, NULL), QN_OK);
    assert_int_equal(ids[0], qn_tokenizer_bos(tok));
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &back, &back_len, NULL), QN_OK);
    assert_int_equal(back_len, len);
    assert_memory_equal(back, text, len);
    qn_free(ids);
    qn_free(back);
}

/* Through a file and back: the same tokenizer; newlines are pieces where the whole text was trained on. */
static void check_through_a_file(const char *text, size_t len)
{
    size_t n_ids[2];
    for (int whole = 0; whole < 2; whole++) {
        qn_vocab *v = train(&(qn_bpe_train_options){.n_tokens = 1024, .whole_text = whole}, text, len);
        qn_gguf_writer *w;
        qn_gguf *file;
        qn_tokenizer *tok = NULL, *direct = NULL;
        qn_error err = {0};
        assert_int_equal(qn_gguf_writer_create(OUT, &w, NULL), QN_OK);
        qn_vocab_write(v, w);
        if (qn_gguf_writer_commit(w, &err) != QN_OK) fail_msg("%s", err.text);
        assert_int_equal(qn_gguf_open(OUT, NULL, &file, NULL), QN_OK);
        if (qn_tokenizer_create(file, &tok, &err) != QN_OK) fail_msg("%s", err.text);
        qn_gguf_close(file);
        assert_int_equal(qn_vocab_tokenizer(v, &direct, NULL), QN_OK);
        assert_int_equal(qn_tokenizer_n_tokens(tok), v->n_tokens);
        assert_string_equal(qn_tokenizer_model(tok), "llama");
        for (int32_t i = 0; i < v->n_tokens; i++) {
            size_t a, b;
            const char *x = qn_tokenizer_piece(tok, i, &a), *y = qn_tokenizer_piece(direct, i, &b);
            assert_int_equal(a, v->pieces[i].len);
            assert_int_equal(b, a);
            assert_memory_equal(x, v->pieces[i].data, a);
            assert_memory_equal(y, x, a);
            assert_true(qn_tokenizer_score(tok, i) == v->scores[i]);
            assert_int_equal(qn_tokenizer_kind(tok, i), v->kinds[i]);
        }
        check_round_trip(tok, text, len);
        static const char rare[] = "what it never saw: \u00e9 \xf0\x9f\x98\x80\n\n\t x  ";
        check_round_trip(direct, rare, sizeof rare - 1);
        n_ids[whole] = count_tokens(tok, text, len);
        assert_int_equal(count_tokens(direct, text, len), n_ids[whole]);
        const qn_token nl = qn_tokenizer_nl(tok);
        assert_int_equal(qn_tokenizer_kind(tok, nl), whole ? QN_TOKEN_normal : QN_TOKEN_byte);
        qn_tokenizer_destroy(tok);
        qn_tokenizer_destroy(direct);
        qn_vocab_destroy(v);
    }
    print_message("whole text in %zu tokens when trained on lines, %zu when trained on the whole\n", n_ids[0],
                  n_ids[1]);
    assert_true(n_ids[1] < n_ids[0]); /* what whole_text is for */
    unlink(OUT);
}

static void through_a_file(void **state)
{
    (void)state;
    static const char *const names[] = {"drawn", "plays"};
    for (int i = 0; i < 2; i++) {
        size_t len;
        char *text = large_text(names[i], &len);
        if (text) check_through_a_file(text, len);
        free(text);
    }
}

static void assert_same(const qn_vocab *a, const qn_vocab *b)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    for (int32_t i = 0; i < a->n_tokens; i++) {
        assert_int_equal(a->pieces[i].len, b->pieces[i].len);
        assert_memory_equal(a->pieces[i].data, b->pieces[i].data, a->pieces[i].len);
    }
}

/* The mark that stands for a space in pieces is a space in text. */
static void marks_are_spaces(void **state)
{
    (void)state;
    const qn_bpe_train_options options = {.n_tokens = 600};
    static char marked[4 * sizeof small_text];
    size_t n = 0;
    for (const char *c = small_text; *c; c++) {
        if (*c == ' ')
            memcpy(marked + n, "\xE2\x96\x81", 3), n += 3;
        else
            marked[n++] = *c;
    }
    assert_true(n > sizeof small_text + 20);
    qn_vocab *a = train(&options, small_text, sizeof small_text - 1), *b = train(&options, marked, n);
    assert_same(a, b);
    qn_vocab_destroy(a);
    qn_vocab_destroy(b);
}

/* Lines one by one from the last to the first, and from a file: the same pieces as all at once. */
static void portions_and_order(void **state)
{
    (void)state;
    const qn_bpe_train_options options = {.n_tokens = 600};
    qn_vocab *whole = train(&options, small_text, sizeof small_text - 1), *v = NULL;
    qn_bpe_trainer *t;
    assert_int_equal(qn_bpe_trainer_create(&options, &t, NULL), QN_OK);
    for (size_t end = sizeof small_text - 2; end > 0;) {
        size_t start = end;
        while (start > 0 && small_text[start - 1] != '\n') start--;
        assert_int_equal(qn_bpe_trainer_add(t, small_text + start, end - start, NULL), QN_OK);
        end = start ? start - 1 : 0;
    }
    assert_int_equal(qn_bpe_trainer_run(t, &v, NULL), QN_OK);
    assert_same(whole, v);
    qn_vocab_destroy(v);
    assert_int_equal(qn_bpe_trainer_run(t, &v, NULL), QN_OK); /* it may be asked again */
    assert_same(whole, v);
    qn_vocab_destroy(v);
    qn_bpe_trainer_destroy(t);

    FILE *f = fopen(OUT, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(small_text, 1, sizeof small_text - 1, f), sizeof small_text - 1);
    fclose(f);
    assert_int_equal(qn_bpe_trainer_create(&options, &t, NULL), QN_OK);
    assert_int_equal(qn_bpe_trainer_add_file(t, OUT, NULL), QN_OK);
    assert_int_equal(qn_bpe_trainer_add_file(t, QN_BUILD_DIR "/no such file", NULL), QN_STATUS_io);
    assert_int_equal(qn_bpe_trainer_run(t, &v, NULL), QN_OK);
    assert_same(whole, v);
    qn_vocab_destroy(v);
    qn_bpe_trainer_destroy(t);
    qn_vocab_destroy(whole);
    unlink(OUT);
}

/* Names of tokens that are no text never become pieces, so the vocabulary stays one without doubles. */
static void reserved_names(void **state)
{
    (void)state;
    static const char text[] =
        "<s> <s> <s> </s> </s> <unk> <unk> <0x41> <0x41>\n<s>a<s>a<s>a</s>b</s><unk>c<unk><0x41>d<0x41>\n";
    qn_vocab *v = train(&(qn_bpe_train_options){.n_tokens = 400, .join_scripts = true, .no_space_prefix = true}, text,
                        sizeof text - 1);
    qn_tokenizer *tok = NULL;
    qn_error err = {0};
    assert_true(v->n_tokens < 400); /* the text has no more pairs */
    if (qn_vocab_tokenizer(v, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_tokenizer_kind(tok, qn_tokenizer_find(tok, "<s>", 3)), QN_TOKEN_control);
    assert_int_equal(qn_tokenizer_kind(tok, qn_tokenizer_find(tok, "<0x41>", 6)), QN_TOKEN_byte);
    qn_tokenizer_destroy(tok);
    qn_vocab_destroy(v);
}

/* Bytes that are no text, zeros, a text without a space in it: nothing of it fails. */
static void odd_texts(void **state)
{
    (void)state;
    static char text[100000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * i * 31 >> 3); /* mostly broken sequences */
    for (int long_word = 0; long_word < 2; long_word++) {
        if (long_word) memset(text, 'a', sizeof text);
        qn_vocab *v = train(&(qn_bpe_train_options){.n_tokens = 700, .whole_text = true}, text, sizeof text);
        qn_tokenizer *tok = NULL;
        assert_int_equal(qn_vocab_tokenizer(v, &tok, NULL), QN_OK);
        const size_t n = count_tokens(tok, text, sizeof text);
        assert_true(long_word ? n <= sizeof text / 16 + 16 : n > 0);
        if (long_word) check_round_trip(tok, text, sizeof text);
        qn_tokenizer_destroy(tok);
        qn_vocab_destroy(v);
    }
}

/* A million different words with room for a fraction of them: memory stays below the limit, the frequent ones are
 * learnt. */
static void bounded_memory(void **state)
{
    (void)state;
    qn_bpe_trainer *t;
    qn_vocab *v = NULL;
    qn_metrics before, after;
    const size_t limit = 1 << 20;
    qn_metrics_reset();
    qn_metrics_snapshot(&before);
    assert_int_equal(qn_bpe_trainer_create(&(qn_bpe_train_options){.n_tokens = 300, .max_word_bytes = limit}, &t, NULL),
                     QN_OK);
    for (unsigned i = 0; i < 1000000; i++) {
        char line[64];
        const int n = snprintf(line, sizeof line, "%x frequent\n", i * 2654435761u);
        assert_int_equal(qn_bpe_trainer_add(t, line, (size_t)n, NULL), QN_OK);
    }
    qn_metrics_snapshot(&after);
    /* Its bound and the counts of characters; growing keeps the old block while the new one is filled. */
    assert_true(after.peak_bytes - before.live_bytes < 2 * limit);
    assert_int_equal(qn_bpe_trainer_run(t, &v, NULL), QN_OK);
    bool found = false;
    for (int32_t i = 0; i < v->n_tokens; i++) found |= strcmp(v->pieces[i].data, "\u2581frequent") == 0;
    assert_true(found);
    qn_vocab_destroy(v);
    qn_bpe_trainer_destroy(t);
}

static bool stop(void *ctx, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return ++*(int *)ctx < 2;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        qn_bpe_train_options options;
        const char *text;
        qn_status status;
        const char *words;
    } cases[] = {
        {{.n_tokens = -1}, "a", QN_STATUS_invalid, "n_tokens -1"},
        {{.n_tokens = (1 << 20) + 1}, "a", QN_STATUS_invalid, "n_tokens 1048577, expected 1 to 1048576"},
        {{.character_coverage = 1.5}, "a", QN_STATUS_invalid, "character_coverage 1.5"},
        {{.character_coverage = -0.1}, "a", QN_STATUS_invalid, "character_coverage -0.1"},
        {{.max_piece = 257}, "a", QN_STATUS_invalid, "max_piece 257"},
        {{.n_tokens = 260},
         "abc",
         QN_STATUS_invalid,
         "found 4 different characters and 259 other tokens, more than a vocabulary of 260"},
        {{.n_tokens = 2}, "a", QN_STATUS_invalid, "one of at least 261 does"},
        {{0}, "", QN_STATUS_invalid, "no text"},
        {{.no_space_prefix = true}, "\n\xff\n", QN_STATUS_invalid, "no text"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        qn_vocab *v = NULL;
        qn_error err = {0};
        const qn_gguf_str text = {cases[i].text, strlen(cases[i].text)};
        assert_int_equal(qn_bpe_train(&cases[i].options, &text, 1, &v, &err), cases[i].status);
        if (!strstr(err.text, cases[i].words)) fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].words);
        assert_null(v);
    }
    int calls = 0;
    qn_vocab *v = NULL;
    const qn_gguf_str text = {small_text, sizeof small_text - 1};
    assert_int_equal(qn_bpe_train(&(qn_bpe_train_options){.n_tokens = 800, .progress = stop, .progress_ctx = &calls},
                                  &text, 1, &v, NULL),
                     QN_STATUS_cancelled);
    assert_int_equal(calls, 2);
    assert_null(v);
    qn_vocab_destroy(NULL);
    qn_bpe_trainer_destroy(NULL);
    assert_int_equal(qn_bpe_train(NULL, &text, 1, &v, NULL), QN_OK); /* all defaults */
    qn_vocab_destroy(v);
}

/* Every allocation of training and of making the tokenizer fails once. */
static void failing_allocations(void **state)
{
    (void)state;
    qn_vocab *want = train(&(qn_bpe_train_options){.n_tokens = 500}, small_text, 4000);
    for (long at = 0;; at++) {
        qn_vocab *v = NULL;
        qn_tokenizer *tok = NULL;
        qn_error err = {0};
        books_open(at);
        qn_status status =
            qn_bpe_train(&(qn_bpe_train_options){.n_tokens = 500}, &(qn_gguf_str){small_text, 4000}, 1, &v, &err);
        if (status == QN_OK) assert_same(want, v);
        if (status == QN_OK) status = qn_vocab_tokenizer(v, &tok, &err);
        const bool failed = books.n_failed > 0;
        qn_tokenizer_destroy(tok);
        qn_vocab_destroy(v);
        books_close();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            assert_true(at > 40);
            break;
        }
        if (status == QN_OK) continue; /* a growing string asked again for less and got it */
        if (status != QN_STATUS_nomem || err.status != QN_STATUS_nomem) fail_msg("allocation %ld: %s", at, err.text);
    }
    qn_vocab_destroy(want);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_pieces_small), cmocka_unit_test(same_pieces_large),  cmocka_unit_test(through_a_file),
        cmocka_unit_test(portions_and_order), cmocka_unit_test(marks_are_spaces), cmocka_unit_test(reserved_names),
        cmocka_unit_test(odd_texts),         cmocka_unit_test(bounded_memory),    cmocka_unit_test(refusals),
        cmocka_unit_test(failing_allocations),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
