/* SPDX-License-Identifier: MIT */
/* src/text/train/bpe_train.c -- training a BPE vocabulary by SentencePiece's rules: which characters get a piece, and
 * what the vocabulary looks like in the end. Words are counted in bpe_words.c, joined in bpe_join.c. */
#include "text/train/bpe_train.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOKENS   (1 << 20)
#define N_META       3
#define N_BYTES      256

#define MAX_SPECIAL  64 /* bytes */
#define MAX_SPECIALS 1024

typedef qn_bpe_letter letter;

struct qn_bpe_trainer {
    qn_bpe_train_options options;
    qn_words words;
};

typedef struct job {
    const qn_bpe_train_options *options;
    const qn_words *words;
    qn_scripts *scripts;
    qn_bpe_set set;
    uint64_t n_covered;
    qn_error *err;
} job;

/* ---- letters ---- */

static bool letter_less(const letter *a, const letter *b)
{
    return a->count != b->count ? a->count > b->count : a->cp < b->cp;
}

/* Heap sort, n log n whatever the counts are. */
static void sort_letters(letter *l, size_t n)
{
    for (size_t start = n / 2, end = n; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            const letter top = l[0];
            l[0] = l[--end];
            l[end] = top;
        }
        for (size_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && letter_less(&l[child], &l[child + 1])) child++;
            if (!letter_less(&l[root], &l[child])) break;
            const letter tmp = l[root];
            l[root] = l[child];
            l[child] = tmp;
        }
    }
}

/* A space that is no piece would come out of bytes as U+2581 and not as a space, so it is a piece however rare it is.
 */
static void require_space(job *j, size_t n)
{
    size_t i = 0;
    while (i < n && j->set.letters[i].cp != ' ') i++;
    if (i == n || i < j->set.n_letters) return;
    const letter space = j->set.letters[i];
    memmove(&j->set.letters[j->set.n_letters + 1], &j->set.letters[j->set.n_letters],
            (i - j->set.n_letters) * sizeof space);
    j->set.letters[j->set.n_letters++] = space;
    j->n_covered += space.count;
}

static qn_status collect_letters(job *j)
{
    size_t n = 0, n_seen = 0;
    for (size_t p = 0; p < QN_CHAR_PAGES; p++)
        for (size_t i = 0; j->words->chars[p] && i < 256; i++) n += j->words->chars[p][i] > 0;
    j->set.letters = qn__alloc(n * sizeof *j->set.letters);
    if (!j->set.letters) return QN_FAIL_NOMEM(j->err, n * sizeof *j->set.letters);
    for (size_t p = 0; p < QN_CHAR_PAGES; p++)
        for (size_t i = 0; j->words->chars[p] && i < 256; i++)
            if (j->words->chars[p][i] > 0)
                j->set.letters[n_seen++] = (letter){(uint32_t)(p << 8 | i), j->words->chars[p][i]};
    sort_letters(j->set.letters, n);
    /* In single precision, as SentencePiece compares; the last letter of a tie may hang on it. */
    const float wanted = j->options->character_coverage > 0 ? (float)j->options->character_coverage : 0.9995f;
    for (; j->set.n_letters < n; j->set.n_letters++) {
        if ((float)((double)j->n_covered / (double)j->words->n_seen) >= wanted) break;
        j->n_covered += j->set.letters[j->set.n_letters].count;
    }
    require_space(j, n);
    return QN_OK;
}

static bool is_digit(uint32_t cp) { return (cp >= '0' && cp <= '9') || (cp >= 0xff10 && cp <= 0xff19); }

static qn_status make_letter(job *j, uint32_t cp, qn_bpe_symbol *s)
{
    char text[4];
    const bool space = cp == ' ', digit = is_digit(cp);
    const int n = qn__utf8_encode(space ? 0x2581 : cp, text);
    s->text = qn__arena_strndup(&j->set.arena, text, (size_t)n);
    if (!s->text) return QN_FAIL_NOMEM(j->err, 5);
    s->len = (uint32_t)n;
    s->n_chars = 1;
    s->space = space;
    s->alone = cp == '\n' || (digit && j->options->split_digits);
    const bool any = space || j->options->join_scripts || (digit && j->options->join_numbers);
    s->first = s->last = any ? QN_SCRIPT_ANY : qn__script_of(j->scripts, cp);
    return QN_OK;
}

static qn_status make_symbols(job *j)
{
    const int32_t n_tokens = j->options->n_tokens ? j->options->n_tokens : 4096;
    const int32_t n_others = N_META + j->options->n_special + (j->options->no_byte_fallback ? 0 : N_BYTES);
    if (j->set.n_letters > (size_t)(n_tokens > n_others ? n_tokens - n_others : 0))
        return QN_FAIL(j->err, invalid,
                       "found %zu different characters and %d other tokens, more than a vocabulary of %d tokens holds; "
                       "one of at least %zu does",
                       j->set.n_letters, n_others, n_tokens, j->set.n_letters + (size_t)n_others);
    j->set.cap_symbols = n_tokens - n_others;
    j->set.symbols = qn__calloc((size_t)j->set.cap_symbols, sizeof *j->set.symbols);
    if (!j->set.symbols) return QN_FAIL_NOMEM(j->err, (size_t)j->set.cap_symbols * sizeof *j->set.symbols);
    for (size_t i = 0; i < j->set.n_letters; i++, j->set.n_symbols++)
        QN_TRY(make_letter(j, j->set.letters[i].cp, &j->set.symbols[i]));
    return QN_OK;
}

/* ---- the vocabulary ---- */

typedef struct made_vocab {
    qn_vocab pub; /* first */
    qn_arena arena;
    qn_gguf_str *pieces;
    float *scores;
    int32_t *kinds;
} made_vocab;

static bool add_token(made_vocab *v, const char *text, size_t len, float score, int32_t kind)
{
    const char *copy = qn__arena_strndup(&v->arena, text, len);
    v->pieces[v->pub.n_tokens] = (qn_gguf_str){copy, len};
    v->scores[v->pub.n_tokens] = score;
    v->kinds[v->pub.n_tokens++] = kind;
    return copy != NULL;
}

static bool add_tokens(made_vocab *v, const job *j)
{
    char name[8];
    const int32_t n_letters = (int32_t)j->set.n_letters;
    int32_t rank = 0;
    bool ok = add_token(v, "<unk>", 5, 0, QN_TOKEN_unknown) && add_token(v, "<s>", 3, 0, QN_TOKEN_control) &&
              add_token(v, "</s>", 4, 0, QN_TOKEN_control);
    for (int32_t i = 0; ok && i < j->options->n_special; i++) {
        const qn_special_token *s = &j->options->special[i];
        ok = add_token(v, s->text, strlen(s->text), 0, (int32_t)s->kind);
    }
    for (int b = 0; ok && b < N_BYTES && !j->options->no_byte_fallback; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        ok = add_token(v, name, 6, 0, QN_TOKEN_byte);
    }
    for (int32_t i = n_letters; ok && i < j->set.n_symbols; i++)
        ok = add_token(v, j->set.symbols[i].text, j->set.symbols[i].len, -(float)rank++, QN_TOKEN_normal);
    for (int32_t i = 0; ok && i < n_letters; i++)
        ok = add_token(v, j->set.symbols[i].text, j->set.symbols[i].len, -(float)rank++, QN_TOKEN_normal);
    return ok;
}

/* Two tokens of one spelling: the text was not cut at the special one. */
static qn_status check_pieces(const job *j)
{
    for (int32_t i = 0; i < j->options->n_special; i++) {
        const char *text = j->options->special[i].text;
        const size_t len = strlen(text);
        for (int32_t k = 0; k < j->set.n_symbols; k++)
            if (j->set.symbols[k].len == len && memcmp(j->set.symbols[k].text, text, len) == 0)
                return QN_FAIL(j->err, invalid, "special token \"%s\": the text has this as a piece, too", text);
    }
    return QN_OK;
}

static qn_status make_vocab(const job *j, qn_vocab **out)
{
    qn_arena arena;
    const size_t cap = (size_t)j->set.n_symbols + (size_t)j->options->n_special + N_META + N_BYTES;
    QN_TRY(check_pieces(j));
    qn__arena_init(&arena, 0);
    made_vocab *v = qn__arena_alloc(&arena, sizeof *v);
    if (v) {
        v->pieces = qn__arena_array(&arena, cap, sizeof *v->pieces);
        v->scores = qn__arena_array(&arena, cap, sizeof *v->scores);
        v->kinds = qn__arena_array(&arena, cap, sizeof *v->kinds);
        v->arena = arena;
    }
    if (!v || !v->pieces || !v->scores || !v->kinds || !add_tokens(v, j)) {
        if (v) arena = v->arena;
        qn__arena_deinit(&arena);
        return QN_FAIL(j->err, nomem, "out of memory: a vocabulary of %zu tokens", cap);
    }
    v->pub.pieces = v->pieces;
    v->pub.scores = v->scores;
    v->pub.kinds = v->kinds;
    v->pub.bos = 1;
    v->pub.eos = 2;
    for (int32_t i = 0; j->options->eos && i < j->options->n_special; i++)
        if (strcmp(j->options->special[i].text, j->options->eos) == 0) v->pub.eos = N_META + i;
    v->pub.add_space_prefix = !j->options->no_space_prefix;
    v->pub.n_chars = (int32_t)j->set.n_letters;
    v->pub.n_merges = j->set.n_symbols - (int32_t)j->set.n_letters;
    v->pub.n_seen = j->words->n_seen;
    v->pub.n_covered = j->n_covered;
    *out = &v->pub;
    return QN_OK;
}

void qn_vocab_destroy(qn_vocab *vocab)
{
    if (!vocab) return;
    qn_arena arena = ((made_vocab *)vocab)->arena;
    qn__arena_deinit(&arena);
}

/* ---- the trainer ---- */

static qn_status check_special(const qn_bpe_train_options *o, int32_t i, qn_error *err)
{
    static const char *const own[] = {"<unk>", "<s>", "</s>"};
    const char *text = o->special[i].text;
    const size_t len = text ? strlen(text) : 0;
    char shown[80];
    bool taken = len == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>', blank = false;
    if (len == 0) return QN_FAIL(err, invalid, "special token %d is empty", i);
    qn__str_quote(shown, sizeof shown, text, len);
    if (len > MAX_SPECIAL)
        return QN_FAIL(err, invalid, "special token \"%s\" has more than %d bytes", shown, MAX_SPECIAL);
    for (size_t k = 0; k < len; k++) blank |= (unsigned char)text[k] <= ' ';
    if (blank || qn__utf8_valid_prefix(text, len) < len)
        return QN_FAIL(err, invalid, "special token \"%s\" has white space or is no UTF-8", shown);
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) taken |= strcmp(text, own[k]) == 0;
    if (taken) return QN_FAIL(err, invalid, "special token \"%s\" is one that every vocabulary has", shown);
    for (int32_t k = 0; k < i; k++)
        if (strcmp(o->special[k].text, text) == 0)
            return QN_FAIL(err, invalid, "special token \"%s\" is there twice", shown);
    if (o->special[i].kind != QN_TOKEN_control && o->special[i].kind != QN_TOKEN_user)
        return QN_FAIL(err, invalid, "special token \"%s\" is of kind %d; control and user are possible", shown,
                       (int)o->special[i].kind);
    return QN_OK;
}

static qn_status check_specials(const qn_bpe_train_options *o, qn_error *err)
{
    bool found = !o->eos;
    if (o->n_special < 0 || o->n_special > MAX_SPECIALS)
        return QN_FAIL(err, invalid, "%d special tokens; at most %d are possible", o->n_special, MAX_SPECIALS);
    for (int32_t i = 0; i < o->n_special; i++) {
        QN_TRY(check_special(o, i, err));
        found |= o->eos && strcmp(o->eos, o->special[i].text) == 0;
    }
    return found ? QN_OK : QN_FAIL(err, invalid, "the end of a text, \"%.64s\", is no special token", o->eos);
}

static qn_status check_options(const qn_bpe_train_options *o, qn_error *err)
{
    QN_TRY(check_specials(o, err));
    if (o->n_tokens < 0 || o->n_tokens > MAX_TOKENS)
        return QN_FAIL(err, invalid, "found n_tokens %d, expected 1 to %d, or 0 for 4096", o->n_tokens, MAX_TOKENS);
    if (!(o->character_coverage >= 0 && o->character_coverage <= 1))
        return QN_FAIL(err, invalid, "found character_coverage %g, expected above 0 and up to 1, or 0 for 0.9995",
                       o->character_coverage);
    if (o->max_piece < 0 || o->max_piece > QN_BPE_MAX_PIECE)
        return QN_FAIL(err, invalid, "found max_piece %d, expected 1 to %d, or 0 for 16", o->max_piece,
                       QN_BPE_MAX_PIECE);
    return QN_OK;
}

qn_status qn_bpe_trainer_create(const qn_bpe_train_options *options, qn_bpe_trainer **out, qn_error *err)
{
    const qn_bpe_train_options defaults = {0};
    if (!options) options = &defaults;
    QN_TRY(check_options(options, err));
    qn_bpe_trainer *t = qn__calloc(1, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    t->options = *options;
    t->words.max_bytes = options->max_word_bytes ? options->max_word_bytes : (size_t)512 << 20;
    t->words.forget = 1;
    t->words.prefix = !options->no_space_prefix;
    t->words.lines = !options->whole_text;
    *out = t;
    return QN_OK;
}

void qn_bpe_trainer_destroy(qn_bpe_trainer *trainer)
{
    if (!trainer) return;
    qn__words_deinit(&trainer->words);
    qn__free(trainer);
}

qn_status qn_bpe_trainer_add(qn_bpe_trainer *trainer, const char *text, size_t len, qn_error *err)
{
    return qn__words_add(&trainer->words, text, len, err);
}

qn_status qn_bpe_trainer_run(const qn_bpe_trainer *trainer, qn_vocab **out, qn_error *err)
{
    job *j = qn__calloc(1, sizeof *j);
    if (!j) return QN_FAIL_NOMEM(err, sizeof *j);
    j->options = &trainer->options;
    j->words = &trainer->words;
    j->err = err;
    qn__arena_init(&j->set.arena, 0);
    qn_status status = trainer->words.n > 0 ? QN_OK : QN_FAIL(err, invalid, "found no text to train on, expected some");
    if (status == QN_OK) status = qn__scripts_create(&j->scripts, err);
    if (status == QN_OK) status = collect_letters(j);
    if (status == QN_OK) status = make_symbols(j);
    if (status == QN_OK) status = qn__bpe_join(&j->set, j->words, j->options, err);
    if (status == QN_OK) status = make_vocab(j, out);
    qn__scripts_destroy(j->scripts);
    qn__free(j->set.letters);
    qn__free(j->set.symbols);
    qn__arena_deinit(&j->set.arena);
    qn__free(j);
    return status;
}

qn_status qn_bpe_train(const qn_bpe_train_options *options, const qn_gguf_str *texts, size_t n_texts, qn_vocab **out,
                       qn_error *err)
{
    qn_bpe_trainer *t = NULL;
    QN_TRY(qn_bpe_trainer_create(options, &t, err));
    qn_status status = QN_OK;
    for (size_t i = 0; i < n_texts && status == QN_OK; i++)
        status = qn_bpe_trainer_add(t, texts[i].data, texts[i].len, err);
    if (status == QN_OK) status = qn_bpe_trainer_run(t, out, err);
    qn_bpe_trainer_destroy(t);
    return status;
}
