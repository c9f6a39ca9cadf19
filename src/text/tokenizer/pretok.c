/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/pretok.c -- runs the steps of a split. PCRE2 gets its memory from Quern's hook (all but JIT code
 * and stacks, which it maps itself); a compiled split is immutable, each call brings its own match data, so threads may
 * share it.
 *
 * Subjects are valid UTF-8 by the caller's word, so PCRE2's own check is off. Each stretch is a subject of its own:
 * nothing looks past its ends, as if it were the whole text. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/pretok.h"
#include "text/utf8.h"

#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

/* No pattern of pretok.def comes near these limits; they keep a mistake in one from hanging or exhausting a process. */
#define MATCH_LIMIT_BASE 10000000u
#define MATCH_LIMIT_LONG ((size_t)256 << 20)
#define HEAP_LIMIT_KIB   (256u * 1024)

/* clang-format off */
#define SPACES "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* clang-format on */

struct qn_pretok {
    const qn_pretok_row *row;
    pcre2_general_context *memory;
    pcre2_code *codes[QN_MAX_STEPS]; /* NULL where a step is no pattern */
    int n_steps;
};

typedef struct match_state {
    pcre2_match_data *data;
    pcre2_match_context *context;
} match_state;

/* ---- rows ---- */

/* clang-format off */
#define QN_RE(pattern) {QN_STEP_regex, pattern},
#define QN_THREES {QN_STEP_threes, NULL},
#define QN_DECIMAL_THREES {QN_STEP_decimal_threes, NULL},
#define QN_RUNS_THREES {QN_STEP_runs_threes, NULL},
/* clang-format on */
#define QN_SPLIT(name, steps) static const qn_step split_##name[QN_MAX_STEPS + 1] = {steps{QN_STEP_end, NULL}};
#define QN_PRETOK(name, split, flags)
#include "text/tokenizer/pretok.def"
#undef QN_SPLIT
#undef QN_PRETOK

enum {
    W = QN_PRETOK_whole_words,
    B = QN_PRETOK_add_bos,
    F = QN_PRETOK_force_bos,
    R = QN_PRETOK_raw,
    E = QN_PRETOK_escape,
    N = QN_PRETOK_newlines,
    M = QN_PRETOK_no_merges,
};

static const qn_pretok_row rows[] = {
#define QN_SPLIT(name, steps)
/* clang-format off */
#define QN_PRETOK(name, split, flags) {name, #split, split_##split, flags},
/* clang-format on */
#include "text/tokenizer/pretok.def"
#undef QN_SPLIT
#undef QN_PRETOK
};

const qn_pretok_row *qn__pretok_rows(size_t *n)
{
    *n = sizeof rows / sizeof *rows;
    return rows;
}

const qn_pretok_row *qn__pretok_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* ---- compiling ---- */

bool qn__pretok_expand(qn_str *out, const char *p)
{
    bool in_class = false;
    for (; *p; p++) {
        if (*p == '\\' && (p[1] == 's' || p[1] == 'S')) {
            const bool inverse = *++p == 'S';
            QN_ASSERT(!inverse || !in_class);
            qn__str_puts(out, in_class ? SPACES : inverse ? "[^" SPACES "]" : "[" SPACES "]");
        } else if (*p == '\\') {
            qn__str_append(out, p++, 2);
        } else {
            if (*p == '[') in_class = true;
            if (*p == ']') in_class = false;
            qn__str_putc(out, *p);
        }
    }
    return !out->failed;
}

static void *hook_alloc(PCRE2_SIZE size, void *ctx)
{
    (void)ctx;
    return qn__alloc(size);
}

static void hook_free(void *ptr, void *ctx)
{
    (void)ctx;
    qn__free(ptr);
}

static qn_status compile_step(qn_pretok *p, pcre2_compile_context *context, int i, const char *pattern, qn_error *err)
{
    qn_str expanded = {0};
    int code;
    PCRE2_SIZE where = 0;
    if (!qn__pretok_expand(&expanded, pattern)) {
        qn__str_deinit(&expanded);
        return QN_FAIL_NOMEM(err, strlen(pattern));
    }
    p->codes[i] = pcre2_compile((PCRE2_SPTR)expanded.data, expanded.len, PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE,
                                &code, &where, context);
    qn__str_deinit(&expanded);
    if (!p->codes[i]) {
        char text[128] = "";
        if (code == PCRE2_ERROR_HEAP_FAILED)
            return QN_FAIL(err, nomem, "out of memory: a pre-tokenizer pattern of %s", p->row->name);
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return QN_FAIL(err, internal, "pre-tokenizer %s, step %d, offset %zu: %s", p->row->name, i, (size_t)where,
                       text);
    }
    return QN_OK;
}

qn_status qn__pretok_create(const qn_pretok_row *row, bool jit, qn_pretok **out, qn_error *err)
{
    qn_pretok *p = qn__calloc(1, sizeof *p);
    if (!p) return QN_FAIL_NOMEM(err, sizeof *p);
    p->row = row;
    p->memory = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    pcre2_compile_context *context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    qn_status status = context ? QN_OK : QN_FAIL(err, nomem, "out of memory: contexts of pre-tokenizer %s", row->name);
    for (const qn_step *s = row->steps; status == QN_OK && s->kind != QN_STEP_end; s++) {
        const int i = p->n_steps++;
        if (s->pattern) status = compile_step(p, context, i, s->pattern, err);
        /* Where there is no JIT, or no executable memory, the interpreter does it. */
        if (p->codes[i] && jit) (void)pcre2_jit_compile(p->codes[i], PCRE2_JIT_COMPLETE);
    }
    pcre2_compile_context_free(context);
    if (status != QN_OK) {
        qn__pretok_destroy(p);
        return status;
    }
    *out = p;
    return QN_OK;
}

void qn__pretok_destroy(qn_pretok *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_steps; i++) pcre2_code_free(p->codes[i]);
    pcre2_general_context_free(p->memory);
    qn__free(p);
}

/* ---- matching ---- */

void qn__pretok_match_destroy(void *match)
{
    match_state *m = match;
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    qn__free(m);
}

static match_state *match_state_of(const qn_pretok *p, qn_encoder *e)
{
    match_state *m = e->match;
    if (m) return m;
    m = qn__calloc(1, sizeof *m);
    if (!m) return NULL;
    m->data = pcre2_match_data_create(1, p->memory);
    m->context = pcre2_match_context_create(p->memory);
    if (!m->data || !m->context) {
        qn__pretok_match_destroy(m);
        return NULL;
    }
    pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB);
    e->match = m;
    return m;
}

/* The next match at or after `from`; false when there is none. */
static qn_status next_match(const qn_pretok *p, int step, const match_state *m, const char *text, size_t len,
                            size_t from, bool *found, qn_error *err)
{
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int rc = pcre2_match(p->codes[step], subject, len, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->codes[step], subject, len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
    *found = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return QN_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return QN_FAIL(err, nomem, "out of memory: matching pre-tokenizer %s", p->row->name);
    return QN_FAIL(err, limit, "pre-tokenizer %s, step %d: PCRE2 gave up at byte %zu of a stretch of %zu (error %d)",
                   p->row->name, step, from, len, rc);
}

static qn_status step_regex(const qn_pretok *p, int step, qn_encoder *e, const char *text, size_t begin, size_t end,
                            qn_error *err)
{
    const match_state *m = e->match;
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    const size_t len = end - begin;
    size_t done = 0, from = 0;
    bool found;
    while (from < len) {
        QN_TRY(next_match(p, step, m, text + begin, len, from, &found, err));
        if (!found) break;
        if (span[1] == span[0]) { /* no pattern matches nothing; if one did, the search must still move on */
            from = span[1] + qn__utf8_len(text + begin + span[1], len - span[1] + 1);
            continue;
        }
        if (span[0] > done) qn__splits_add(e, &e->spare, (uint32_t)(begin + span[0]));
        done = from = span[1];
        qn__splits_add(e, &e->spare, (uint32_t)(begin + done));
    }
    if (done < len) qn__splits_add(e, &e->spare, (uint32_t)end);
    return QN_OK;
}

/* ---- digits in threes ---- */

static bool is_number(uint32_t cp, bool decimal_only)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_ND || (!decimal_only && (c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO));
}

/* The end of the run of numbers that begins at `pos`, and how many there are. */
static size_t number_run(const char *text, size_t pos, size_t end, bool decimal_only, size_t *n)
{
    uint32_t cp;
    for (*n = 0; pos < end; ++*n) {
        const int len = qn__utf8_decode(text + pos, end - pos, &cp);
        if (!len || !is_number(cp, decimal_only)) break;
        pos += (size_t)len;
    }
    return pos;
}

static void cut_run(qn_encoder *e, const char *text, size_t pos, size_t end, size_t n, bool cut_begin)
{
    for (size_t i = 0; i < n; i++) {
        if ((n - i) % 3 == 0 && (i || cut_begin)) qn__splits_add(e, &e->spare, (uint32_t)pos);
        pos += qn__utf8_len(text + pos, end - pos);
    }
}

static void step_threes(qn_encoder *e, const char *text, size_t begin, size_t end, bool decimal_only)
{
    size_t n;
    if (number_run(text, begin, end, decimal_only, &n) == end) cut_run(e, text, begin, end, n, false);
    qn__splits_add(e, &e->spare, (uint32_t)end);
}

static void step_runs_threes(qn_encoder *e, const char *text, size_t begin, size_t end)
{
    for (size_t pos = begin; pos < end;) {
        size_t n;
        const size_t stop = number_run(text, pos, end, true, &n);
        cut_run(e, text, pos, stop, n, pos > begin);
        pos = stop < end ? stop + qn__utf8_len(text + stop, end - stop) : end;
    }
    qn__splits_add(e, &e->spare, (uint32_t)end);
}

/* ---- all steps ---- */

static qn_status run_step(const qn_pretok *p, int step, qn_encoder *e, const char *text, size_t begin, size_t end,
                          qn_error *err)
{
    switch (p->row->steps[step].kind) {
    case QN_STEP_regex: return step_regex(p, step, e, text, begin, end, err);
    case QN_STEP_threes: step_threes(e, text, begin, end, false); break;
    case QN_STEP_decimal_threes: step_threes(e, text, begin, end, true); break;
    case QN_STEP_runs_threes: step_runs_threes(e, text, begin, end); break;
    case QN_STEP_end: break;
    }
    return QN_OK;
}

qn_status qn__pretok_split(const qn_pretok *p, qn_encoder *e, const char *text, size_t len, qn_error *err)
{
    const match_state *m = match_state_of(p, e);
    if (!m) return QN_FAIL(err, nomem, "out of memory: match data of pre-tokenizer %s", p->row->name);
    pcre2_set_match_limit(m->context, len < MATCH_LIMIT_LONG ? MATCH_LIMIT_BASE + 8 * (uint32_t)len : UINT32_MAX);
    e->words.n = 0;
    if (len) qn__splits_add(e, &e->words, (uint32_t)len);
    for (int step = 0; step < p->n_steps; step++) {
        size_t begin = 0;
        e->spare.n = 0;
        for (size_t i = 0; i < e->words.n; i++) {
            QN_TRY(run_step(p, step, e, text, begin, e->words.ends[i], err));
            begin = e->words.ends[i];
        }
        const qn_splits t = e->words;
        e->words = e->spare;
        e->spare = t;
        if (e->failed) return QN_FAIL(err, nomem, "out of memory: words of a text of %zu bytes", len);
    }
    return QN_OK;
}
