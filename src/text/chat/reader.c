/* SPDX-License-Identifier: MIT */
/* src/text/chat/reader.c -- an answer taken apart as it comes: reasoning, content, and where calls begin and end.
 *
 * Symbols wait until it is certain what they are: those that could be the beginning of a mark, and white space before
 * one. Every symbol is looked at a bounded number of times. */
#include "text/chat/reader.h"
#include "text/tokenizer/models.h"
#include "text/utf8.h"

/* ---- input -------------------------------------------------------------------------------------- */

static bool make_room(qn_chat_reader *r, size_t n)
{
    if (r->at == r->n_in) r->at = r->n_in = 0;
    if (r->n_in + n <= r->cap_in) return true;
    if (r->at > r->cap_in / 2) {
        memmove(r->in, r->in + r->at, (r->n_in - r->at) * sizeof *r->in);
        r->n_in -= r->at;
        r->at = 0;
    }
    size_t more = r->cap_in ? r->cap_in : 256;
    while (more < r->n_in + n) more *= 2;
    if (more == r->cap_in) return true;
    qn_sym *p = qn__realloc(r->in, more * sizeof *p);
    if (!p) return !(r->failed = true);
    r->in = p;
    r->cap_in = more;
    return true;
}

static void push(qn_chat_reader *r, const char *text, size_t n, qn_sym special)
{
    if (!make_room(r, n)) return;
    for (size_t i = 0; i < n; i++) r->in[r->n_in++] = (unsigned char)text[i] | special;
}

/* Text of any bytes; the beginning of a character waits in utf8. */
static void push_text(qn_chat_reader *r, const char *text, size_t n)
{
    while (n && r->n_utf8) {
        char c[8];
        uint32_t cp;
        bool may_grow;
        memcpy(c, r->utf8, (size_t)r->n_utf8);
        c[r->n_utf8] = *text;
        const size_t have = (size_t)r->n_utf8 + 1;
        if (qn__utf8_decode(c, have, &cp)) {
            push(r, c, have, 0);
            r->n_utf8 = 0;
            text++, n--;
        } else if (qn__utf8_broken(c, have, &may_grow) == have && may_grow) {
            r->utf8[r->n_utf8++] = *text++;
            n--;
        } else {
            push(r, QN_UTF8_REPLACEMENT, 3, 0);
            r->n_utf8 = 0;
        }
    }
    while (n) {
        const size_t good = qn__utf8_valid_prefix(text, n);
        push(r, text, good, 0);
        text += good;
        n -= good;
        if (!n) return;
        bool may_grow = false;
        const size_t broken = qn__utf8_broken(text, n, &may_grow);
        if (may_grow) {
            memcpy(r->utf8, text, n);
            r->n_utf8 = (int)n;
            return;
        }
        push(r, QN_UTF8_REPLACEMENT, 3, 0);
        text += broken;
        n -= broken;
    }
}

/* ---- calls ---------------------------------------------------------------------------------------- */

/* The bytes of symbols, appended. */
static void put(qn_str *s, const qn_sym *w, size_t n)
{
    for (size_t i = 0; i < n; i++) qn__str_putc(s, (char)(w[i] & 0xFF));
}

void qn__read_take(qn_chat_reader *r, size_t n)
{
    if (!n) return;
    put(&r->raw, r->in + r->at, n);
    r->at += n;
}

qn_literal_result qn__read_literal(qn_chat_reader *r)
{
    size_t n, used;
    const qn_sym *w = qn__window(r, &n);
    const qn_literal_result result = qn__literal_read(&r->literal, w, n, r->end, &used, &r->json);
    qn__read_take(r, used);
    return result;
}

size_t qn__read_spaces(qn_chat_reader *r)
{
    while (r->at < r->n_in && qn__sym_is_space(r->in[r->at])) qn__read_take(r, 1);
    return r->n_in - r->at;
}

static void text(qn_chat_reader *r, const char *s, size_t n)
{
    r->at_start = r->lead = false;
    if (!r->quiet)
        qn__answer_text(&r->answer, r->state == QN_READ_reasoning ? QN_CHAT_reasoning : QN_CHAT_content, s, n);
}

static void next_call(qn_chat_reader *r)
{
    qn_str *const of_one[] = {&r->name, &r->id, &r->key, &r->held};
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++) qn__str_clear(of_one[i]);
    r->step = 0;
    r->announced = r->has_arguments = r->has_keys = false;
    r->parameters = r->schema = qn__absent();
}

void qn__read_begin_call(qn_chat_reader *r)
{
    r->state = QN_READ_call;
    r->in_array = false;
    next_call(r);
}

/* What was taken for a call is none. */
static void not_a_call(qn_chat_reader *r)
{
    if (r->announced) qn__answer_end_call(&r->answer, QN_CHAT_no_call);
    r->announced = false;
    r->state = QN_READ_content;
    text(r, r->raw.data ? r->raw.data : "", r->raw.len);
    qn__str_clear(&r->raw);
}

bool qn__read_announce(qn_chat_reader *r)
{
    qn_val function = qn__absent();
    const char *name = r->name.data ? r->name.data : "";
    bool known = false;
    for (uint32_t i = 0; r->tools.type == QN_VAL_list && i < r->tools.l->n && !known; i++) {
        function = qn__member(r->tools.l->items[i], "function");
        if (!qn__given(function)) function = r->tools.l->items[i];
        known = qn__str_is(qn__member(function, "name"), name);
    }
    if (!known && r->found->bare) return false;
    if (!known && (!r->name.len || r->name.len > 64)) return false;
    r->schema = known ? qn__member(function, "parameters") : qn__absent();
    r->parameters = qn__schema_resolve(r->schema, r->schema);
    r->announced = true;
    qn__answer_call(&r->answer, name, r->name.len);
    return true;
}

/* ---- content and reasoning -------------------------------------------------------------------------- */

/* Marks that end a stretch of content or reasoning, and what they lead to. */
typedef struct way {
    int ids[3]; /* marks in a row, -1 ends */
    bool call;
    bool text_at_start; /* as text it counts only at the turn's start */
    bool start_only;
    qn_read_state state;
} way;

static const way from_content[] = {
    {{QN_MARK_content_close, QN_MARK_section_open, QN_MARK_call_open}, true, false, false, QN_READ_call},
    {{QN_MARK_section_open, QN_MARK_call_open, -1}, true, false, false, QN_READ_call},
    {{QN_MARK_call_open, -1, -1}, true, false, false, QN_READ_call},
    {{QN_MARK_think_open, -1, -1}, false, true, false, QN_READ_reasoning},
    {{QN_MARK_think_close, -1, -1}, false, false, true, QN_READ_content},
    {{QN_MARK_content_open, -1, -1}, false, false, true, QN_READ_content},
    {{QN_MARK_turn_close, -1, -1}, false, false, false, QN_READ_content},
};
static const way from_message[] = {
    {{QN_MARK_message_end, -1, -1}, false, false, false, QN_READ_header},
};
static const way from_reasoning[] = {
    {{QN_MARK_think_close, -1, -1}, false, false, false, QN_READ_content},
};

static bool is_special(const qn_mark *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->s[i] < QN_SYM_space && m->s[i] & QN_SYM_special) return true;
    return false;
}

/* Whether all marks of a way stand here in a row. */
static qn_match match_way(const qn_chat_reader *r, const way *to, size_t at, size_t *len)
{
    const qn_sym *w = r->in + at;
    const size_t n = r->n_in - at;
    size_t used = 0;
    bool any = false;
    for (int i = 0; i < 3 && to->ids[i] >= 0; i++) {
        const qn_mark *m = &r->marks[to->ids[i]];
        size_t one;
        if (!m->n) continue;
        if (any)
            while (used < n && qn__sym_is_space(w[used]) && used < QN_MARK_MAX_SPACE) used++;
        const qn_match match = qn__mark_match(m, w + used, n - used, r->end, "", 0, &one, NULL);
        if (match != QN_WHOLE_MATCH) return match;
        used += one;
        any = true;
    }
    *len = used;
    return any ? QN_WHOLE_MATCH : QN_NO_MATCH;
}

static bool may_go(const qn_chat_reader *r, const way *to)
{
    if (to->call && (r->tools.type != QN_VAL_list || !r->found->syntax)) return false;
    if (to->start_only && !r->at_start) return false;
    return !to->text_at_start || r->at_start || is_special(&r->marks[to->ids[0]]);
}

/* A way that leads on from symbol `at`; PART: it could be one. */
static qn_match find_way(const qn_chat_reader *r, size_t at, const way **out, size_t *len)
{
    const bool reasoning = r->state == QN_READ_reasoning;
    const bool channels = r->found->thought_channel;
    const way *ways = channels ? from_message : reasoning ? from_reasoning : from_content;
    const size_t n = channels    ? sizeof from_message / sizeof *ways
                     : reasoning ? sizeof from_reasoning / sizeof *ways
                                 : sizeof from_content / sizeof *ways;
    bool part = false;
    const way *best = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t one;
        if (!may_go(r, &ways[i])) continue;
        const qn_match m = match_way(r, &ways[i], at, &one);
        part |= m == QN_PART_MATCH;
        if (m != QN_WHOLE_MATCH || (best && *len >= one)) continue;
        best = &ways[i];
        *len = one;
    }
    *out = best;
    if (part) return QN_PART_MATCH; /* of a longer one, perhaps */
    if (best) return QN_WHOLE_MATCH;
    if (!reasoning && r->found->bare && r->at_start && r->tools.type == QN_VAL_list) {
        static const way bare = {.ids = {-1, -1, -1}, .call = true, .state = QN_READ_call};
        *out = &bare;
        return qn__bare_match(r, at, len);
    }
    return QN_NO_MATCH;
}

static void go(qn_chat_reader *r, const way *to, size_t spaces, size_t len)
{
    if (to->call) {
        qn__read_begin_call(r);
        qn__read_take(r, spaces + len);
        return;
    }
    r->state = to->state;
    if (to->state == QN_READ_header) { /* which begins here */
        r->at += spaces;
        r->in_header = false;
        return;
    }
    r->at += spaces + len;
    r->lead = true;
    r->at_start = to->ids[0] == QN_MARK_think_close; /* of content */
}

/* White space [at, at + n) that turned out to be text. */
static void put_spaces(qn_chat_reader *r, size_t n)
{
    char line[64];
    size_t from = 0;
    for (size_t i = 0; r->lead && i < n; i++)
        if (r->in[r->at + i] == '\n') from = i + 1;
    if (r->at_start && r->found->spaced) from = n;
    for (size_t i = from; i < n;) {
        size_t m = 0;
        while (i < n && m < sizeof line) line[m++] = (char)r->in[r->at + i++];
        const bool start = r->at_start;
        text(r, line, m);
        r->at_start = start; /* white space begins no content */
    }
    r->at += n;
}

/* A stretch of content or reasoning. */
static bool read_text(qn_chat_reader *r)
{
    size_t n = 0, len = 0;
    const way *to;
    const size_t left = r->n_in - r->at;
    while (n < left && qn__sym_is_space(r->in[r->at + n])) n++;
    if (n == left) {
        if (!n || !r->end) return false;
        if (r->lead)
            r->at += n;
        else
            put_spaces(r, n);
        return false;
    }
    const qn_match m = find_way(r, r->at + n, &to, &len);
    if (m == QN_PART_MATCH) return false;
    if (m == QN_WHOLE_MATCH) return go(r, to, n, len), true;
    if (n) put_spaces(r, n);
    /* on to the next symbol that could be something */
    char line[256];
    size_t i = 0;
    do line[i++] = (char)r->in[r->at++];
    while (r->at < r->n_in && i < sizeof line && !qn__sym_is_space(r->in[r->at]) && !r->starts[r->in[r->at]]);
    text(r, line, i);
    return true;
}

/* ---- a step --------------------------------------------------------------------------------------------- */

static bool read_call(qn_chat_reader *r)
{
    switch (r->found->syntax->read(r)) {
    case QN_STEP_wait: return false;
    case QN_STEP_on: return true;
    case QN_STEP_done:
        if (r->announced) qn__answer_end_call(&r->answer, QN_CHAT_call_end);
        r->announced = false;
        qn__str_clear(&r->raw);
        if (r->in_array) {
            next_call(r);
        } else {
            r->state = QN_READ_after;
        }
        return true;
    default: not_a_call(r); return true;
    }
}

/* Behind a call: what closes it and its section, then another call or content. */
static bool read_after(qn_chat_reader *r)
{
    static const way ways[] = {
        {{QN_MARK_call_sep, QN_MARK_call_open, -1}, true, false, false, QN_READ_call},
        {{QN_MARK_call_close, -1, -1}, false, false, false, QN_READ_after},
        {{QN_MARK_section_close, -1, -1}, false, false, false, QN_READ_after},
        {{QN_MARK_section_more, -1, -1}, false, false, false, QN_READ_after},
    };
    size_t len, n = 0, best_len = 0;
    bool part = false;
    const way *best = NULL;
    const size_t left = r->n_in - r->at;
    while (n < left && qn__sym_is_space(r->in[r->at + n])) n++;
    for (size_t i = 0; n < left && i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].call && !r->marks[QN_MARK_call_sep].n) continue; /* a call's own mark leads on from content, too */
        const qn_match m = match_way(r, &ways[i], r->at + n, &len);
        part |= m == QN_PART_MATCH;
        if (m != QN_WHOLE_MATCH || len <= best_len) continue;
        best = &ways[i];
        best_len = len;
    }
    if (!r->end && (part || n == left)) return false;
    bool waits = false;
    if (!best && qn__read_next_bare(r, n, &waits)) return true;
    if (waits) return false;
    if (r->found->thought_channel) {
        r->state = QN_READ_header;
        r->in_header = false;
        return true;
    }
    if (best && best->call) qn__read_begin_call(r);
    if (best && best->call)
        qn__read_take(r, n + best_len);
    else if (best)
        r->at += n + best_len;
    if (best) return true;
    r->state = QN_READ_content;
    r->lead = true;
    return true;
}

static bool read_header(qn_chat_reader *r)
{
    const qn_step step = qn__read_header(r);
    if (step != QN_STEP_bad) return step != QN_STEP_wait;
    r->in_header = false;
    not_a_call(r);
    return true;
}

static void run(qn_chat_reader *r)
{
    bool on = true;
    while (on && !r->failed && r->at < r->n_in) {
        switch (r->state) {
        case QN_READ_call: on = read_call(r); break;
        case QN_READ_after: on = read_after(r); break;
        case QN_READ_header: on = read_header(r); break;
        default: on = read_text(r);
        }
        r->failed |= r->answer.failed || r->raw.failed || r->name.failed || r->id.failed || r->key.failed ||
                     r->held.failed || r->json.failed || r->heap.status == QN_STATUS_nomem;
    }
}

/* ---- the public face ------------------------------------------------------------------------------------- */

static qn_status result(qn_chat_reader *r, const qn_chat_event **events, size_t *n, qn_error *err)
{
    r->failed |= !qn__answer_events(&r->answer, events, n);
    return r->failed ? QN_FAIL_NOMEM(err, r->n_in) : QN_OK;
}

qn_status qn_chat_reader_text(qn_chat_reader *r, const char *s, size_t len, const qn_chat_event **events, size_t *n,
                              qn_error *err)
{
    qn__answer_clear_events(&r->answer);
    push_text(r, s, len);
    run(r);
    return result(r, events, n, err);
}

static bool is_mark_token(const qn_chat_reader *r, qn_token token)
{
    for (size_t i = 0; i < r->n_mark_tokens; i++)
        if (r->mark_tokens[i] == token) return true;
    return false;
}

static void push_token(qn_chat_reader *r, qn_token token)
{
    size_t len;
    const char *piece = qn_tokenizer_piece(r->tok, token, &len);
    const bool mark = is_mark_token(r, token), control = qn_tokenizer_kind(r->tok, token) == QN_TOKEN_control;
    if (!mark && qn_tokenizer_is_eog(r->tok, token)) return;
    if (mark || control) {
        const int64_t pending = qn_detok_finish(&r->detok, r->piece, r->piece_bytes);
        if (pending > 0) push(r, r->piece, (size_t)pending, 0);
        if (qn__utf8_valid_prefix(piece, len) == len) push(r, piece, len, QN_SYM_special);
        return;
    }
    const int64_t bytes = qn_detok_push(&r->detok, r->tok, token, r->piece, r->piece_bytes);
    if (bytes > 0) push(r, r->piece, (size_t)bytes, 0);
}

qn_status qn_chat_reader_token(qn_chat_reader *r, qn_token token, const qn_chat_event **events, size_t *n,
                               qn_error *err)
{
    if (!r->tok) return QN_FAIL(err, invalid, "this reader was made without a tokenizer: it reads text");
    if (token < 0 || token >= qn_tokenizer_n_tokens(r->tok))
        return QN_FAIL(err, invalid, "token %d: the vocabulary has %d", token, qn_tokenizer_n_tokens(r->tok));
    qn__answer_clear_events(&r->answer);
    push_token(r, token);
    run(r);
    return result(r, events, n, err);
}

static void flush(qn_chat_reader *r)
{
    if (r->n_utf8) push(r, QN_UTF8_REPLACEMENT, 3, 0);
    r->n_utf8 = 0;
    if (!r->tok) return;
    const int64_t pending = qn_detok_finish(&r->detok, r->piece, r->piece_bytes);
    if (pending > 0) push(r, r->piece, (size_t)pending, 0);
}

bool qn_chat_reader_begins_call(const qn_chat_reader *r)
{
    return r->state == QN_READ_call && !r->failed && !r->announced && !r->found->bare;
}

qn_status qn_chat_reader_finish(qn_chat_reader *r, bool cut, const qn_chat_event **events, size_t *n, qn_error *err)
{
    qn__answer_clear_events(&r->answer);
    flush(r);
    r->end = true;
    run(r);
    if (r->state == QN_READ_call && !r->failed && cut && r->announced) {
        qn__answer_end_call(&r->answer, QN_CHAT_call_cut);
    } else if ((r->state == QN_READ_call || r->state == QN_READ_header) && !r->failed) {
        qn__read_take(r, r->n_in - r->at);
        not_a_call(r);
    }
    return result(r, events, n, err);
}

/* ---- beginning ---------------------------------------------------------------------------------------------- */

static void find_starts(qn_chat_reader *r)
{
    for (int i = 0; i < QN_MARK_COUNT; i++)
        if (r->marks[i].n && r->marks[i].s[0] < QN_SYM_space) r->starts[r->marks[i].s[0]] = true;
}

/* The end of the prompt that the template wrote, from the turn's beginning on, is read in silence. */
static qn_status read_prompt(qn_chat_reader *r, const qn_prompt *p, qn_error *err)
{
    const size_t begin = p->n_plain ? p->plain[p->n_plain - 1].end : 0;
    const qn_mark *header = &r->found->marks[QN_MARK_header]; /* as text */
    size_t from = p->len, len;
    qn_status status = QN_OK;
    qn_sym *w = qn__alloc((p->len - begin + 1) * sizeof *w);
    if (!w) return QN_FAIL_NOMEM(err, p->len);
    for (size_t i = begin; i < p->len; i++) w[i - begin] = (unsigned char)p->text[i];
    for (size_t i = p->len; i-- > begin && header->n;)
        if (qn__mark_match(header, w + (i - begin), p->len - i, true, "", 0, &len, NULL) == QN_WHOLE_MATCH) {
            from = i + len;
            break;
        }
    qn__free(w);
    const char *s = p->text + from;
    const size_t n = p->len - from;
    r->quiet = true;
    if (r->tok && n) {
        qn_token *ids;
        size_t n_ids;
        status = qn_tokenize(r->tok, s, n, &(qn_tokenize_options){.no_bos = true}, &ids, &n_ids, err);
        for (size_t i = 0; status == QN_OK && i < n_ids; i++) push_token(r, ids[i]);
        if (status == QN_OK) qn_free(ids);
        r->detok = (qn_detok){0};
    } else {
        push_text(r, s, n);
    }
    run(r);
    while (r->at < r->n_in && qn__sym_is_space(r->in[r->at])) r->at++;
    r->quiet = false;
    if (r->failed && status == QN_OK) status = QN_FAIL_NOMEM(err, n);
    return status;
}

qn_status qn_chat_reader_create(const qn_chat_template *t, const qn_tokenizer *tok, const char *tools,
                                const qn_prompt *prompt, qn_chat_reader **out, qn_error *err)
{
    static const qn_chat_needs any;
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_chat_reader *r = qn__arena_alloc(&arena, sizeof *r);
    if (!r) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *r);
    }
    *r = (qn_chat_reader){.arena = arena, .found = &t->found, .tok = tok, .at_start = true, .seed = QN_HASH_INIT};
    qn__jinja_heap_init(&r->heap, &(qn_jinja_options){0}, err);
    r->tools = qn__none();
    qn_status status = qn__marks_for(&r->arena, t->found.marks, tok, r->marks, &r->mark_tokens, &r->n_mark_tokens, err);
    if (status == QN_OK && tools) {
        r->tools = qn__chat_tools(&r->heap, &any, qn__parse_json(&r->heap, tools, strlen(tools), false));
        status = r->heap.status;
    }
    r->heap.err = NULL; /* the caller's ends with this call */
    if (status == QN_OK && tok) {
        r->piece_bytes = qn_tokenizer_max_piece(tok) + 8;
        r->piece = qn__arena_alloc(&r->arena, r->piece_bytes);
        if (!r->piece) status = QN_FAIL_NOMEM(err, r->piece_bytes);
    }
    if (t->found.thought_channel) r->state = QN_READ_header;
    find_starts(r);
    if (prompt && status == QN_OK) {
        r->seed = qn__hash(r->seed, prompt->text, prompt->len);
        status = read_prompt(r, prompt, err);
    }
    if (status != QN_OK) {
        qn_chat_reader_destroy(r);
        return status;
    }
    *out = r;
    return QN_OK;
}

void qn_chat_reader_destroy(qn_chat_reader *r)
{
    if (!r) return;
    qn__answer_deinit(&r->answer);
    qn_str *const strings[] = {&r->raw, &r->name, &r->id, &r->key, &r->held, &r->json};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) qn__str_deinit(strings[i]);
    qn__free(r->in);
    qn__jinja_heap_deinit(&r->heap);
    qn_arena arena = r->arena;
    qn__arena_deinit(&arena);
}
