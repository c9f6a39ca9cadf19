/* SPDX-License-Identifier: MIT */
/* src/text/train/bpe_join.c -- joining the most frequent pair of pieces, again and again.
 *
 * Every different word is a chain of cells, each holding a symbol; a pair of neighbours has its count, kept exact by
 * each join, and a list of the cells where it begins. A join visits those cells only, so the whole takes about as long
 * as the text has characters in different words. The heap's counts may be too high, never too low: a pair's count only
 * falls after the step that made it, and an entry that is out of date goes back with the right one. The order of pairs
 * is total, so the result depends on words and counts alone. */
#include "text/train/bpe_train.h"
#include "text/utf8.h"
#include "text/tokenizer/vocab.h"

#include <string.h>

#define NONE UINT32_MAX
#define DEAD (-1)

typedef qn_bpe_symbol symbol;

typedef struct cell {
    int32_t sym; /* DEAD: joined to the one before it, or no symbol */
    uint32_t prev, next, word;
} cell;

typedef struct pair {
    int32_t left, right;
    int64_t count;
    uint32_t head, tail; /* its places, in the order of the cells */
    bool done;           /* joined, or another way to a piece that is there already */
} pair;

typedef struct place {
    uint32_t cell, next;
} place;
typedef struct entry {
    int64_t count;
    uint32_t pair;
} entry;

typedef struct job {
    qn_bpe_set *set;
    const qn_words *words;
    const qn_bpe_train_options *options;
    int32_t n_joins; /* to be made */
    cell *cells;
    size_t n_cells;
    pair *pairs;
    size_t n_pairs, cap_pairs;
    uint32_t *pair_slots;
    size_t n_pair_slots;
    place *places;
    size_t n_places, cap_places;
    entry *heap;
    size_t n_heap, cap_heap;
    uint32_t *piece_slots; /* symbols by text, to see what is there already */
    size_t n_piece_slots;
    qn_error *err;
} job;

static qn_status grow(void **items, size_t *cap, size_t n, size_t item_bytes, qn_error *err)
{
    size_t bytes, more = *cap ? *cap * 2 : 1024;
    if (n < *cap) return QN_OK;
    if (!qn__mul_size(more, item_bytes, &bytes)) return QN_FAIL_NOMEM(err, SIZE_MAX);
    void *grown = qn__realloc(*items, bytes);
    if (!grown) return QN_FAIL_NOMEM(err, bytes);
    *items = grown;
    *cap = more;
    return QN_OK;
}
#define GROW(j, items, n, cap) \
    do { \
        void *items_ = (j)->items; \
        QN_TRY(grow(&items_, &(j)->cap, (j)->n, sizeof *(j)->items, (j)->err)); \
        (j)->items = items_; \
    } while (0)

/* ---- pairs ---- */

static bool may_join(const job *j, const symbol *a, const symbol *b)
{
    const int max = j->options->max_piece ? j->options->max_piece : 16;
    if (a->alone || b->alone || b->space || a->n_chars + b->n_chars > max) return false;
    return a->last == b->first || a->last >= QN_SCRIPT_SAME || b->first >= QN_SCRIPT_SAME;
}

static size_t pair_slot(const job *j, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h ^ h >> 32) & (j->n_pair_slots - 1);
    for (; j->pair_slots[i] != NONE; i = (i + 1) & (j->n_pair_slots - 1)) {
        const pair *p = &j->pairs[j->pair_slots[i]];
        if (p->left == left && p->right == right) break;
    }
    return i;
}

static qn_status more_pair_slots(job *j)
{
    const size_t n = j->n_pair_slots ? 2 * j->n_pair_slots : 8192;
    uint32_t *slots = qn__alloc(n * sizeof *slots);
    if (!slots) return QN_FAIL_NOMEM(j->err, n * sizeof *slots);
    memset(slots, 0xff, n * sizeof *slots);
    qn__free(j->pair_slots);
    j->pair_slots = slots;
    j->n_pair_slots = n;
    for (size_t i = 0; i < j->n_pairs; i++) slots[pair_slot(j, j->pairs[i].left, j->pairs[i].right)] = (uint32_t)i;
    return QN_OK;
}

/* The two symbols stand beside each other at this cell, in a word seen `count` times. */
static qn_status add_place(job *j, int32_t left, int32_t right, uint32_t at, int64_t count)
{
    if (left < 0 || right < 0 || !may_join(j, &j->set->symbols[left], &j->set->symbols[right])) return QN_OK;
    if (2 * (j->n_pairs + 1) > j->n_pair_slots) QN_TRY(more_pair_slots(j));
    const size_t slot = pair_slot(j, left, right);
    if (j->pair_slots[slot] == NONE) {
        GROW(j, pairs, n_pairs, cap_pairs);
        j->pairs[j->n_pairs] = (pair){.left = left, .right = right, .head = NONE, .tail = NONE};
        j->pair_slots[slot] = (uint32_t)j->n_pairs++;
    }
    pair *p = &j->pairs[j->pair_slots[slot]];
    GROW(j, places, n_places, cap_places);
    const uint32_t new_place = (uint32_t)j->n_places++;
    j->places[new_place] = (place){at, NONE};
    if (p->head == NONE)
        p->head = new_place;
    else
        j->places[p->tail].next = new_place;
    p->tail = new_place;
    p->count += count;
    return QN_OK;
}

static void lose_place(job *j, int32_t left, int32_t right, int64_t count)
{
    if (left < 0 || right < 0 || !may_join(j, &j->set->symbols[left], &j->set->symbols[right])) return;
    j->pairs[j->pair_slots[pair_slot(j, left, right)]].count -= count;
}

/* ---- words to cells ---- */

static qn_status symbol_map(const job *j, int32_t *page[QN_CHAR_PAGES], qn_arena *arena)
{
    for (size_t i = 0; i < j->set->n_letters; i++) {
        const uint32_t cp = j->set->letters[i].cp;
        int32_t **p = &page[cp >> 8];
        if (!*p) {
            *p = qn__arena_array(arena, 256, sizeof **p);
            if (!*p) return QN_FAIL_NOMEM(j->err, 256 * sizeof **p);
            for (int k = 0; k < 256; k++) (*p)[k] = DEAD;
        }
        (*p)[cp & 255] = (int32_t)i;
    }
    return QN_OK;
}

/* A cell a character; one without a symbol, which coverage left out, stands there as a wall. */
static qn_status fill_cells(job *j, int32_t *const *page)
{
    size_t n = 0;
    for (size_t w = 0; w < j->words->n; w++)
        for (uint32_t i = 0; i < j->words->word[w].len; i++)
            n += ((unsigned char)j->words->text[j->words->word[w].at + i] & 0xc0) != 0x80;
    if (n >= NONE / 4) /* each join adds up to two places and takes a cell */
        return QN_FAIL(j->err, limit,
                       "found %zu characters in different words, expected fewer than 2^30 (see max_word_bytes)", n);
    j->cells = qn__alloc(n * sizeof *j->cells);
    if (!j->cells) return QN_FAIL_NOMEM(j->err, n * sizeof *j->cells);
    for (size_t w = 0; w < j->words->n; w++) {
        const qn_word *word = &j->words->word[w];
        const char *s = j->words->text + word->at;
        uint32_t prev = NONE;
        for (uint32_t i = 0; i < word->len;) {
            uint32_t cp = (unsigned char)s[i];
            i += (uint32_t)(cp < 0x80 ? 1 : qn__utf8_decode(s + i, word->len - i, &cp));
            const uint32_t at = (uint32_t)j->n_cells++;
            j->cells[at] = (cell){page[cp >> 8] ? page[cp >> 8][cp & 255] : DEAD, prev, NONE, (uint32_t)w};
            if (prev != NONE) j->cells[prev].next = at;
            prev = at;
        }
    }
    return QN_OK;
}

static int64_t cell_count(const job *j, const cell *c) { return (int64_t)j->words->word[c->word].count; }

static qn_status lay_out(job *j)
{
    int32_t *page[QN_CHAR_PAGES] = {0};
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_status status = symbol_map(j, page, &arena);
    if (status == QN_OK) status = fill_cells(j, page);
    qn__arena_deinit(&arena);
    for (size_t i = 0; i < j->n_cells && status == QN_OK; i++) {
        const cell *c = &j->cells[i];
        if (c->next != NONE) status = add_place(j, c->sym, j->cells[c->next].sym, (uint32_t)i, cell_count(j, c));
    }
    return status;
}

/* ---- the heap ---- */

static size_t pair_text(const job *j, const pair *p, char out[2 * 4 * QN_BPE_MAX_PIECE])
{
    const symbol *a = &j->set->symbols[p->left], *b = &j->set->symbols[p->right];
    memcpy(out, a->text, a->len);
    memcpy(out + a->len, b->text, b->len);
    return a->len + b->len;
}

/* Whether x is to be joined before y: more often, else shorter, else lower, else with the shorter left side. */
static bool before(const job *j, const entry *x, const entry *y)
{
    char text_a[2 * 4 * QN_BPE_MAX_PIECE], text_b[2 * 4 * QN_BPE_MAX_PIECE];
    if (x->count != y->count) return x->count > y->count;
    const pair *a = &j->pairs[x->pair], *b = &j->pairs[y->pair];
    const int n_a = j->set->symbols[a->left].n_chars + j->set->symbols[a->right].n_chars;
    const int n_b = j->set->symbols[b->left].n_chars + j->set->symbols[b->right].n_chars;
    if (n_a != n_b) return n_a < n_b;
    const size_t len_a = pair_text(j, a, text_a), len_b = pair_text(j, b, text_b);
    const int order = memcmp(text_a, text_b, len_a < len_b ? len_a : len_b);
    if (order != 0 || len_a != len_b) return order != 0 ? order < 0 : len_a < len_b;
    return j->set->symbols[a->left].n_chars < j->set->symbols[b->left].n_chars;
}

static void sift_down(job *j, size_t i)
{
    const entry moving = j->heap[i];
    for (size_t child; (child = 2 * i + 1) < j->n_heap; i = child) {
        if (child + 1 < j->n_heap && before(j, &j->heap[child + 1], &j->heap[child])) child++;
        if (!before(j, &j->heap[child], &moving)) break;
        j->heap[i] = j->heap[child];
    }
    j->heap[i] = moving;
}

static qn_status push(job *j, uint32_t p)
{
    if (j->pairs[p].count <= 0) return QN_OK;
    GROW(j, heap, n_heap, cap_heap);
    const entry moving = {j->pairs[p].count, p};
    size_t i = j->n_heap++;
    for (; i > 0 && before(j, &moving, &j->heap[(i - 1) / 2]); i = (i - 1) / 2) j->heap[i] = j->heap[(i - 1) / 2];
    j->heap[i] = moving;
    return QN_OK;
}

/* The next pair to be joined, or NONE. */
static uint32_t pop(job *j)
{
    while (j->n_heap > 0) {
        entry *top = &j->heap[0];
        pair *p = &j->pairs[top->pair];
        const uint32_t best = top->pair;
        const bool gone = p->done || p->count <= 0, exact = p->count == top->count;
        if (gone || exact)
            *top = j->heap[--j->n_heap];
        else
            top->count = p->count;
        if (j->n_heap > 0) sift_down(j, 0);
        if (!gone && exact) return best;
    }
    return NONE;
}

/* ---- joining ---- */

static bool names_no_text(const char *text, size_t len)
{
    return (len == 5 && memcmp(text, "<unk>", 5) == 0) || (len == 3 && memcmp(text, "<s>", 3) == 0) ||
           (len == 4 && memcmp(text, "</s>", 4) == 0) || qn__byte_of_piece(text, len) >= 0;
}

/* A symbol for the pair, unless there is a piece of that text (reached by another way), or one that is no text: then
 * NULL. */
static symbol *make_joined(job *j, const pair *p)
{
    char text[2 * 4 * QN_BPE_MAX_PIECE];
    const size_t len = pair_text(j, p, text);
    const uint64_t h = qn__hash(QN_HASH_INIT, text, len);
    size_t i = (size_t)(h ^ h >> 32) & (j->n_piece_slots - 1);
    if (names_no_text(text, len)) return NULL;
    for (; j->piece_slots[i]; i = (i + 1) & (j->n_piece_slots - 1)) {
        const symbol *s = &j->set->symbols[j->piece_slots[i] - 1];
        if (s->len == len && memcmp(s->text, text, len) == 0) return NULL;
    }
    const symbol *a = &j->set->symbols[p->left], *b = &j->set->symbols[p->right];
    symbol *s = &j->set->symbols[j->set->n_symbols];
    *s = (symbol){.len = (uint32_t)len,
                  .n_chars = (uint16_t)(a->n_chars + b->n_chars),
                  .space = a->space,
                  .first = a->first == QN_SCRIPT_SAME ? b->first : a->first,
                  .last = b->last == QN_SCRIPT_SAME ? a->last : b->last};
    s->text = qn__arena_strndup(&j->set->arena, text, len);
    j->piece_slots[i] = (uint32_t)++j->set->n_symbols;
    return s;
}

static qn_status join_at(job *j, uint32_t best, uint32_t at, int32_t joined)
{
    const pair p = j->pairs[best];
    cell *c = &j->cells[at];
    /* joined since it was listed */
    if (c->sym != p.left || c->next == NONE || j->cells[c->next].sym != p.right) return QN_OK;
    cell *gone = &j->cells[c->next];
    const int64_t count = cell_count(j, c);
    const int32_t before_it = c->prev != NONE ? j->cells[c->prev].sym : DEAD;
    const int32_t after_it = gone->next != NONE ? j->cells[gone->next].sym : DEAD;
    lose_place(j, before_it, p.left, count);
    lose_place(j, p.right, after_it, count);
    c->sym = joined;
    c->next = gone->next;
    gone->sym = DEAD;
    if (c->next != NONE) j->cells[c->next].prev = at;
    QN_TRY(add_place(j, before_it, joined, c->prev, count));
    return add_place(j, joined, after_it, at, count);
}

static qn_status join(job *j, uint32_t best, int32_t joined)
{
    const size_t n_before = j->n_pairs; /* all that is new has the new symbol in it */
    for (uint32_t i = j->pairs[best].head; i != NONE; i = j->places[i].next)
        QN_TRY(join_at(j, best, j->places[i].cell, joined));
    for (size_t i = n_before; i < j->n_pairs; i++) QN_TRY(push(j, (uint32_t)i));
    return QN_OK;
}

static qn_status join_all(job *j)
{
    j->n_piece_slots = 16;
    while (j->n_piece_slots < 2 * (size_t)j->set->cap_symbols) j->n_piece_slots *= 2;
    j->piece_slots = qn__calloc(j->n_piece_slots, sizeof *j->piece_slots);
    if (!j->piece_slots) return QN_FAIL_NOMEM(j->err, j->n_piece_slots * sizeof *j->piece_slots);
    for (size_t i = 0; i < j->n_pairs; i++) QN_TRY(push(j, (uint32_t)i));
    for (int32_t done = 0; done < j->n_joins;) {
        const uint32_t best = pop(j);
        if (best == NONE) break;
        j->pairs[best].done = true;
        const symbol *s = make_joined(j, &j->pairs[best]);
        if (!s) continue;
        if (!s->text) return QN_FAIL(j->err, nomem, "out of memory: a piece of %u bytes", s->len);
        QN_TRY(join(j, best, j->set->n_symbols - 1));
        if (++done % 64 == 0 && j->options->progress &&
            !j->options->progress(j->options->progress_ctx, (uint64_t)done, (uint64_t)j->n_joins))
            return QN_FAIL(j->err, cancelled, "training stopped after %d of %d pieces", done, j->n_joins);
    }
    return QN_OK;
}

qn_status qn__bpe_join(qn_bpe_set *set, const qn_words *words, const qn_bpe_train_options *options, qn_error *err)
{
    job *j = qn__calloc(1, sizeof *j);
    if (!j) return QN_FAIL_NOMEM(err, sizeof *j);
    *j =
        (job){.set = set, .words = words, .options = options, .n_joins = set->cap_symbols - set->n_symbols, .err = err};
    qn_status status = lay_out(j);
    if (status == QN_OK && j->n_pairs > 0) status = join_all(j);
    qn__free(j->cells);
    qn__free(j->pairs);
    qn__free(j->pair_slots);
    qn__free(j->places);
    qn__free(j->heap);
    qn__free(j->piece_slots);
    qn__free(j);
    return status;
}
