/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain.c -- tool_choice and response_format as one grammar: reasoning as it comes, then content,
 * calls in the model's own syntax, or JSON by a schema. */
#include "text/chat/constrain.h"
#include "text/utf8.h"

#include <stdarg.h>

#define MAX_TOOLS 128

void qn__constrain_fail(qn_constrain *c, qn_status status, const char *fmt, ...)
{
    char text[240];
    va_list args;
    if (c->status != QN_OK) return;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    c->status = qn__fail(c->err, status, __FILE__, __LINE__, "%s", text);
}

int qn__constrain_rule(qn_constrain *c) { return c->n_rules++; }

bool qn__constrain_heap(qn_constrain *c)
{
    const qn_heap *h = &c->reader->heap;
    if (h->status == QN_STATUS_nomem) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    if (h->status != QN_OK)
        qn__constrain_fail(c, h->status, "tools: holding calls to their schemas takes more than %zu MiB",
                           h->max_bytes >> 20);
    return c->status == QN_OK;
}

/* ---- marks at the beginning and the end ---------------------------------------------------------------------- */

bool qn__is_eog_mark(const qn_constrain *c, const char *s, size_t n)
{
    const qn_token token = c->tok ? qn_tokenizer_find(c->tok, s, n) : QN_TOKEN_NONE;
    return token != QN_TOKEN_NONE && qn_tokenizer_is_eog(c->tok, token);
}

void qn__put_last(qn_constrain *c, qn_mark_id id)
{
    const qn_mark *m = &c->found->marks[id];
    size_t n = 0;
    while (n < (size_t)m->n_text) {
        const size_t len = qn__mark_atom(m->text + n, (size_t)m->n_text - n);
        if (qn__is_eog_mark(c, m->text + n, len)) break;
        n += len;
    }
    while (n && qn__sym_is_space((unsigned char)m->text[n - 1])) n--;
    qn__put_literal(c, m->text, n, false);
}

/* Marks that begin the turn, without what of them the prompt has already. */
static void put_first(qn_constrain *c, const qn_mark_id *ids, int n, bool at_start)
{
    char text[512];
    size_t len = 0, from = 0;
    for (int i = 0; i < n; i++) {
        const qn_mark *m = &c->found->marks[ids[i]];
        if (m->n_text <= 0 || (size_t)m->n_text >= sizeof text - len) continue;
        memcpy(text + len, m->text, (size_t)m->n_text);
        len += (size_t)m->n_text;
    }
    if (at_start) {
        const qn_chat_reader *r = c->reader;
        const size_t pending = r->n_in - r->at;
        while (from < len && text[from] == '\n') from++;
        size_t same = 0;
        while (same < pending && from + same < len && (r->in[r->at + same] & 0xFF) == (unsigned char)text[from + same])
            same++;
        if (same == pending) from += same;
    }
    qn__put_literal(c, text + from, len - from, false);
}

/* The first part of a mark that is no white space: what tells that the mark comes. */
static qn_slice sign(const qn_mark *m)
{
    qn_slice s = {m->text, (size_t)m->n_text};
    while (s.n && qn__sym_is_space((unsigned char)*s.s)) s = qn__skip(s, 1);
    return s.n ? qn__less(s, s.n - qn__mark_atom(s.s, s.n)) : s;
}

/* ---- reasoning ------------------------------------------------------------------------------------------------- */

/* Reasoning as it comes, up to and with the mark behind it. */
static void put_reasoning(qn_constrain *c)
{
    const qn_mark *m = &c->found->marks[QN_MARK_think_close];
    const qn_slice close = sign(m);
    qn__put_until(c, close.s, close.n, false);
    const size_t used = (size_t)(close.s - m->text) + close.n;
    qn__put_literal(c, m->text + used, (size_t)m->n_text - used, false);
}

static void put_think(qn_constrain *c, bool no_reasoning)
{
    static const qn_mark_id open[] = {QN_MARK_think_open};
    const bool within = c->reader->state == QN_READ_reasoning, past = !within && !c->reader->at_start;
    if (!c->found->marks[QN_MARK_think_close].n) return;
    if (within) {
        put_reasoning(c);
    } else if (c->found->thinks && !past && !no_reasoning && c->found->marks[QN_MARK_think_open].n) {
        PUT(c, "( ");
        put_first(c, open, 1, true);
        put_reasoning(c);
        PUT(c, ")? ");
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* The schema of what comes now. */
static void begin_schema(qn_constrain *c, qn_val root, bool strict, bool arguments, bool json)
{
    static const qn_vdict none;
    const qn_schema_options options = {.widen = !strict, .object = arguments && json};
    const bool is_schema = root.type == QN_VAL_dict || root.type == QN_VAL_bool;
    c->root = is_schema ? root : (qn_val){.type = QN_VAL_dict, .d = (qn_vdict *)&none};
    c->strict = strict;
    const bool dialect = !json && qn__arguments_dialect(c, &c->dialect);
    if (!qn__constraining(c)) return;
    const qn_status status =
        qn__schema_open(c->g, &c->root, &options, dialect ? &c->dialect : NULL, &c->schema, c->err);
    if (status != QN_OK) c->status = status;
}

static void end_schema(qn_constrain *c)
{
    qn__schema_close(c->schema);
    c->schema = NULL;
}

static void tool_rule(qn_constrain *c, qn_constrain_tool *t)
{
    const bool json = c->found->syntax->read == qn__read_json;
    const bool plain =
        !c->found->loose && (c->found->syntax->read == qn__read_named || c->found->syntax->read == qn__read_channels);
    begin_schema(c, t->parameters, t->strict, true, json || plain);
    const int arguments = json || plain ? qn__json_rule(c, &c->root) : qn__arguments_rule(c);
    end_schema(c);
    t->arguments = arguments;
    t->rule = qn__constrain_rule(c);
    PUT(c, "\nr%d ::= ", t->rule);
    if (json) qn__put_mark(c, QN_MARK_object_open);
    qn__put_literal(c, t->name.s->data, t->name.s->n, false);
    qn__put_mark(c, json ? QN_MARK_object_mid : QN_MARK_name_end);
    PUT(c, json || plain ? "j%d " : "r%d ", arguments);
    if (json) qn__put_mark(c, QN_MARK_object_close);
}

/* Behind the mark that the first call begins with: rule "calls-rest"; and "calls" with that mark, at the turn's start.
 */
static void calls_rules(qn_constrain *c, qn_constrain_tool *tools, int n, bool several)
{
    const qn_found *f = c->found;
    static const qn_mark_id open[] = {QN_MARK_section_open, QN_MARK_call_open, QN_MARK_array_open};
    for (int i = 0; i < n && qn__constraining(c); i++) tool_rule(c, &tools[i]);
    PUT(c, "\ncall ::= ");
    for (int i = 0; i < n; i++) PUT(c, i ? "| r%d " : "r%d ", tools[i].rule);
    PUT(c, "\ncalls-more ::= ");
    if (several) {
        PUT(c, "( ");
        if (f->array) {
            if (f->marks[QN_MARK_array_sep].n)
                qn__put_mark(c, QN_MARK_array_sep);
            else
                PUT(c, "\", \" ");
        } else if (f->marks[QN_MARK_call_sep].n) {
            qn__put_mark(c, QN_MARK_call_sep);
        } else {
            qn__put_mark(c, QN_MARK_between);
        }
        PUT(c, "call )* ");
    }
    if (f->array) qn__put_mark(c, QN_MARK_array_close);
    if (f->marks[QN_MARK_section_close].n) {
        qn__put_mark(c, QN_MARK_call_close);
        qn__put_last(c, QN_MARK_section_close);
    } else {
        qn__put_last(c, QN_MARK_call_close);
    }
    PUT(c, "\"\"\ncalls ::= ");
    put_first(c, open, f->array ? 3 : 2, true);
    PUT(c, "call calls-more");
    /* what the mark has behind its sign, for calls after content */
    char text[512];
    size_t len = 0, skip = 0;
    for (int i = 0; i < (f->array ? 3 : 2); i++) {
        const qn_mark *m = &f->marks[open[i]];
        if (m->n_text <= 0 || (size_t)m->n_text >= sizeof text - len) continue;
        memcpy(text + len, m->text, (size_t)m->n_text);
        len += (size_t)m->n_text;
    }
    while (skip < len && qn__sym_is_space((unsigned char)text[skip])) skip++;
    skip += qn__mark_atom(text + skip, len - skip);
    PUT(c, "\ncalls-rest ::= ");
    qn__put_literal(c, text + skip, len - skip, false);
    PUT(c, "call calls-more");
}

/* ---- the whole ------------------------------------------------------------------------------------------------------
 */

/* Content without calls; with `calls`, then calls. */
static void put_content(qn_constrain *c, bool calls)
{
    static const qn_mark_id open[] = {QN_MARK_content_open};
    const qn_mark *section = &c->found->marks[QN_MARK_section_open];
    const qn_slice mark = sign(section->n ? section : &c->found->marks[QN_MARK_call_open]);
    put_first(c, open, 1, true);
    PUT(c, "( ");
    qn__put_until(c, mark.s, mark.n, true);
    if (calls) {
        PUT(c, "| ");
        qn__put_until(c, mark.s, mark.n, false);
        PUT(c, "calls-rest ");
    }
    PUT(c, ") ");
}

/* Of texts that content may not begin with: what has come so far of some of them. White space may stand at a SPACE. */
typedef struct bare_node {
    uint32_t cp;
    int child, next; /* the first of the longer ones, the next of as many characters; 0: none */
    bool spaces, whole;
} bare_node;
enum { SPACE = 1, MAX_BARE = 4096 };

static void forbid(qn_constrain *c, bare_node *nodes, int *n, const char *text, size_t len)
{
    int at = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        const int step = qn__utf8_decode(text + i, len - i, &cp);
        i += (size_t)(step ? step : 1);
        if (cp == SPACE) {
            nodes[at].spaces = true;
            continue;
        }
        int to = nodes[at].child;
        while (to && nodes[to].cp != cp) to = nodes[to].next;
        if (!to && *n == MAX_BARE)
            return qn__constrain_fail(c, QN_STATUS_limit, "tools: their names have more than %d bytes", MAX_BARE);
        if (!to) {
            to = (*n)++;
            nodes[to] = (bare_node){.cp = cp, .next = nodes[at].child};
            nodes[at].child = to;
        }
        at = to;
    }
    nodes[at].whole = true;
}

/* A call without a mark is known by how its JSON begins: with the name of a tool, or a key that only calls have. Rule
 * "bare": content that does not begin so. */
static void bare_rules(qn_constrain *c, const qn_constrain_tool *tools, int n_tools)
{
    static const char *const before[] = {"\1{\1\"", "\1[\1{\1\""};
    static const char *const keys[] = {"arguments\"", "parameters\"", "type\"\1:\1\"function\""};
    static const qn_mark_id open[] = {QN_MARK_content_open};
    bare_node *nodes = qn__heap_alloc(&c->reader->heap, MAX_BARE * sizeof *nodes);
    qn_str text = {0};
    int n = 1;
    if (nodes) forbid(c, nodes, &n, "\1" QN_BARE_TAG, sizeof QN_BARE_TAG);
    for (size_t b = 0; nodes && b < 2; b++) {
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            qn__str_clear(&text);
            qn__str_printf(&text, "%s%s", before[b], keys[k]);
            if (!text.failed) forbid(c, nodes, &n, text.data, text.len);
        }
        for (int i = 0; i < n_tools && qn__constraining(c); i++) {
            const char *key = c->found->name_key;
            qn__str_clear(&text);
            qn__str_puts(&text, before[b]);
            if (key) qn__str_printf(&text, "%s\"\1:\1\"", key);
            qn__str_append(&text, tools[i].name.s->data, tools[i].name.s->n);
            qn__str_puts(&text, key ? "\"" : "\"\1:");
            if (!text.failed) forbid(c, nodes, &n, text.data, text.len);
        }
    }
    c->text.failed |= text.failed || !nodes;
    qn__str_deinit(&text);
    const int first = c->n_rules;
    c->n_rules += n;
    PUT(c, "\nbare-any ::= [\\t\\n\\r\\x20-\\U0010FFFF]*");
    for (int i = 0; i < n && qn__constraining(c) && !c->text.failed; i++) {
        if (nodes[i].whole) continue;
        PUT(c, "\nr%d ::= \"\" ", first + i);
        if (nodes[i].spaces) PUT(c, "| [ \\t\\n\\r] r%d ", first + i);
        for (int k = nodes[i].child; k; k = nodes[k].next)
            if (!nodes[k].whole) PUT(c, "| [\\U%08X] r%d ", nodes[k].cp, first + k);
        PUT(c, "| [^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f%s", nodes[i].spaces ? " \\t\\n\\r" : "");
        for (int k = nodes[i].child; k; k = nodes[k].next) PUT(c, "\\U%08X", nodes[k].cp);
        PUT(c, "] bare-any ");
    }
    PUT(c, "\nbare ::= ");
    put_first(c, open, 1, true);
    PUT(c, "r%d", first);
}

static void put_response(qn_constrain *c, const char *schema, bool loose)
{
    static const qn_mark_id open[] = {QN_MARK_content_open};
    const qn_val value = qn__parse_json(&c->reader->heap, schema, strlen(schema), false);
    if (c->reader->heap.status == QN_STATUS_nomem) {
        qn__constrain_fail(c, QN_STATUS_nomem, "out of memory for the response schema");
        return;
    }
    if (c->reader->heap.status != QN_OK) {
        qn__constrain_fail(c, QN_STATUS_format, "response schema: this is no JSON");
        return;
    }
    begin_schema(c, value, !loose, false, true);
    const int rule = qn__json_rule(c, &c->root);
    end_schema(c);
    PUT(c, "\nresponse ::= ");
    put_first(c, open, 1, true);
    PUT(c, "j%d ", rule);
    qn__put_last(c, QN_MARK_turn_close);
}

/* All tools, or the one of that name. */
static int pick(qn_constrain *c, const char *name, qn_constrain_tool *out)
{
    const qn_val list = c->reader->tools;
    int n = 0;
    if (list.type == QN_VAL_list && list.l->n > MAX_TOOLS)
        qn__constrain_fail(c, QN_STATUS_limit, "tools: %u of them, more than %d", list.l->n, MAX_TOOLS);
    for (uint32_t i = 0; list.type == QN_VAL_list && i < list.l->n && n < MAX_TOOLS; i++) {
        const qn_val f = qn__member(list.l->items[i], "function"), strict = qn__member(f, "strict");
        const qn_val own = qn__member(f, "name");
        if (!qn__is_str(own) || (name && !qn__str_is(own, name))) continue;
        out[n++] = (qn_constrain_tool){.name = own,
                                       .parameters = qn__member(f, "parameters"),
                                       .strict = strict.type == QN_VAL_bool && strict.b};
    }
    if (!n && name) qn__constrain_fail(c, QN_STATUS_invalid, "tool_choice: there is no tool \"%.60s\"", name);
    return n;
}

typedef enum choice_kind { CHOICE_auto, CHOICE_none, CHOICE_required, CHOICE_named } choice_kind;

static choice_kind choice_of(const qn_chat_constraint *o)
{
    const char *s = o->tool_choice;
    return !s || strcmp(s, "auto") == 0 ? CHOICE_auto
           : strcmp(s, "none") == 0     ? CHOICE_none
           : strcmp(s, "required") == 0 ? CHOICE_required
                                        : CHOICE_named;
}

/* The rule root; false: there is nothing to hold. */
static bool put_root(qn_constrain *c, const qn_chat_constraint *o)
{
    const choice_kind choice = choice_of(o);
    const qn_found *f = c->found;
    qn_constrain_tool *tools = qn__heap_alloc(&c->reader->heap, MAX_TOOLS * sizeof *tools);
    const int n = qn__constrain_heap(c) ? pick(c, choice == CHOICE_named ? o->tool_choice : NULL, tools) : 0;
    const bool forced = choice == CHOICE_required || choice == CHOICE_named;
    if (forced && !f->syntax)
        qn__constrain_fail(c, QN_STATUS_unsupported,
                           "tool_choice: how this model's template writes calls was not found");
    if (forced && !n) qn__constrain_fail(c, QN_STATUS_invalid, "tool_choice: there are no tools");
    const bool calls = f->syntax && n && choice != CHOICE_none;
    const bool free_content = !forced && !o->response_schema;
    if (free_content && (!f->syntax || !n)) return false;
    if (!qn__constraining(c)) return false;
    const bool several = !o->single_call && c->reader->several_calls;
    if (calls) calls_rules(c, tools, n, several);
    if (o->response_schema && !forced) put_response(c, o->response_schema, o->loose_response);
    if (free_content && f->bare) bare_rules(c, tools, n);
    const bool channels = free_content && f->thought_channel;
    if (channels && !qn__channel_rules(c, tools, calls ? n : 0, several)) return false;
    PUT(c, "\nroot ::= ");
    if (!channels) put_think(c, o->no_reasoning);
    if (forced)
        PUT(c, "calls");
    else if (o->response_schema)
        PUT(c, calls ? "( response | calls )" : "response");
    else if (channels)
        PUT(c, "now");
    else if (f->bare)
        PUT(c, calls ? "( bare | calls )" : "bare");
    else
        put_content(c, calls);
    PUT(c, "\ncall-id ::= [a-zA-Z0-9]{9}\ncall-number ::= [0-9]{1,3}\n"
           "plain-integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17})\n"
           "plain-number ::= plain-integer (\".\" [0-9]{1,17})?\n");
    return qn__constraining(c);
}

qn_status qn_chat_grammar_create(const qn_chat_template *t, const qn_tokenizer *tok, const qn_prompt *prompt,
                                 const qn_chat_constraint *options, qn_grammar **out, qn_error *err)
{
    qn_constrain c = {.found = &t->found, .tok = tok, .err = err};
    qn_status status = qn_chat_reader_create(t, tok, options->tools, prompt, &c.reader, err);
    if (status != QN_OK) return status;
    c.reader->several_calls = t->needs.several_calls;
    c.g = qn__grammar_new(err);
    if (!c.g) c.status = QN_STATUS_nomem;
    const bool any = c.g && put_root(&c, options);
    qn__constrain_heap(&c);
    if (c.status == QN_OK && c.text.failed) c.status = QN_FAIL_NOMEM(err, c.text.len);
    if (c.status == QN_OK && any) c.status = qn__grammar_add_gbnf(c.g, c.text.data, err);
    if (c.status == QN_OK && any) c.status = qn__grammar_complete(c.g, "root", c.text.data, err);
    if (c.status == QN_OK) *out = any ? c.g : NULL;
    if (c.status != QN_OK || !any) qn_grammar_destroy(c.g);
    qn__str_deinit(&c.text);
    qn_chat_reader_destroy(c.reader);
    return c.status;
}
