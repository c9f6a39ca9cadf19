/* SPDX-License-Identifier: MIT */
/* src/text/chat/derive.c -- how a template writes an assistant's turn, found by rendering turns with words that occur
 * nowhere else: what stands between two words is a mark, and what two turns share at their ends belongs to neither
 * word. Texts are compared by their parts (qn__mark_atom), so that no mark is cut within. */
#include "text/chat/derive.h"

/* clang-format off */
#define USER        "{\"role\": \"user\", \"content\": \"qn-user\"}"
#define TURN(...)   "[" USER ", {\"role\": \"assistant\", " __VA_ARGS__ "}]"
#define ANSWER      "\"content\": \"qn-answer\""
#define SILENT      "\"content\": \"\", "
#define THOUGHT     "\"reasoning_content\": \"qn-thought\""
#define CALL(n, arguments) \
    "{\"id\": \"" QN_PROBE_ID "\", \"type\": \"function\", \"function\": {\"name\": \"qn_tool" n "\", " \
    "\"arguments\": {" arguments "}}}"
#define CALLS(...)  "\"tool_calls\": [" __VA_ARGS__ "]"
#define TEXT(n)     "\"qn-value" n "\""
#define SPECIAL(n)  "\"<&\\n'\\\\qn-value" n "\""
#define ONE         CALL("1", "\"qn_arg\": " TEXT("1"))
#define TWO(a, b)   CALL("1", "\"qn_arg\": " a ", \"qn_brg\": " b)
#define TOOL(n) \
    "{\"type\": \"function\", \"function\": {\"name\": \"qn_tool" n "\", \"description\": \"qn-about\", " \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"qn_arg\": {}, \"qn_brg\": {}}}}}"

static const char tools[] = "[" TOOL("1") ", " TOOL("2") "]";
static const struct {
    const char *messages;
    const char *words; /* that must appear, in that order */
    bool calls;
} turns[QN_PROBE_COUNT] = {
    [QN_PROBE_content]       = {TURN(ANSWER), "qn-answer", false},
    [QN_PROBE_thought]       = {TURN(ANSWER ", " THOUGHT), "qn-thought qn-answer", false},
    [QN_PROBE_call]          = {TURN(SILENT CALLS(ONE)), "qn_tool1 qn-value1", true},
    [QN_PROBE_content_call]  = {TURN(ANSWER ", " CALLS(ONE)), "qn-answer qn_tool1 qn-value1", true},
    [QN_PROBE_thought_call]  = {TURN(SILENT THOUGHT ", " CALLS(ONE)), "qn-thought qn_tool1 qn-value1", true},
    [QN_PROBE_no_arguments]  = {TURN(SILENT CALLS(CALL("1", ""))), "qn_tool1", true},
    [QN_PROBE_two_arguments] = {TURN(SILENT CALLS(TWO(TEXT("1"), TEXT("2")))),
                                "qn_tool1 qn_arg qn-value1 qn_brg qn-value2", true},
    [QN_PROBE_numbers]       = {TURN(SILENT CALLS(TWO("471101", "471102"))),
                                "qn_tool1 qn_arg 471101 qn_brg 471102", true},
    [QN_PROBE_special]       = {TURN(SILENT CALLS(TWO(SPECIAL("1"), SPECIAL("2")))),
                                "qn_tool1 qn_arg qn-value1 qn_brg qn-value2", true},
    [QN_PROBE_two_calls]     = {TURN(SILENT CALLS(ONE ", " CALL("2", "\"qn_arg\": " TEXT("2")))),
                                "qn_tool1 qn-value1 qn_tool2 qn-value2", true},
};
static const struct {
    const char *open, *close;
} thinks[] = {
#define QN_THINK(open, close) {open, close},
#include "text/chat/thinks.def"
#undef QN_THINK
};
static const struct {
    qn_syntax syntax;
    bool (*derive)(qn_probe *p);
} rows[] = {
#define QN_SYNTAX(name, example) {{#name, example, qn__read_##name}, qn__derive_##name},
#include "text/chat/syntaxes.def"
#undef QN_SYNTAX
};
/* clang-format on */

/* ---- texts ------------------------------------------------------------------------------------------- */

#define MAX_PARTS 128
static int parts(qn_slice s, qn_slice *out)
{
    int n = 0;
    while (s.n && n < MAX_PARTS) {
        out[n] = qn__less(s, s.n - qn__mark_atom(s.s, s.n));
        s = qn__skip(s, out[n++].n);
    }
    return n;
}

static bool is_blank(qn_slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!qn__sym_is_space((unsigned char)s.s[i])) return false;
    return true;
}

static bool alike(qn_slice a, qn_slice b)
{
    const bool space = qn__sym_is_space((unsigned char)*a.s);
    return space ? qn__sym_is_space((unsigned char)*b.s) : a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

size_t qn__common_prefix(qn_slice a, qn_slice b)
{
    qn_slice x[MAX_PARTS], y[MAX_PARTS];
    const int n = parts(a, x), m = parts(b, y);
    size_t len = 0;
    for (int i = 0; i < n && i < m && alike(x[i], y[i]); i++) len += x[i].n;
    return len;
}

size_t qn__common_suffix(qn_slice a, qn_slice b)
{
    qn_slice x[MAX_PARTS], y[MAX_PARTS];
    const int n = parts(a, x), m = parts(b, y);
    size_t len = 0;
    for (int i = 1; i <= n && i <= m && alike(x[n - i], y[m - i]); i++) len += x[n - i].n;
    return len;
}

bool qn__find_word(qn_slice in, const char *word, qn_slice *before, qn_slice *after)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= in.n; i++) {
        if (memcmp(in.s + i, word, n) != 0) continue;
        if (before) *before = qn__less(in, in.n - i);
        if (after) *after = qn__skip(in, i + n);
        return true;
    }
    return false;
}

bool qn__set_mark(qn_probe *p, qn_mark_id id, qn_slice text)
{
    return qn__mark_make(&p->t->arena, text.s ? text.s : "", text.n, QN_PROBE_ID,
                         p->t->found.nested ? QN_PROBE_KEY : NULL, p->t->found.digits && id == QN_MARK_name_end,
                         &p->t->found.marks[id]);
}

static bool has_words(qn_slice text, const char *words)
{
    char word[32];
    while (*words) {
        const size_t n = strcspn(words, " ");
        memcpy(word, words, n);
        word[n] = '\0';
        if (!qn__find_word(text, word, NULL, &text)) return false;
        words += n + (words[n] == ' ');
    }
    return true;
}

/* What follows the user's word in the rendered conversation. */
static qn_status render(qn_probe *p, const char *messages, const char *with, int thinking, bool generation,
                        qn_slice *out)
{
    static const char user[] = "qn-user";
    qn_heap h;
    *out = (qn_slice){0};
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    const qn_val list = qn__chat_messages(&h, &p->t->needs, qn__parse_json(&h, messages, strlen(messages), true));
    const qn_val given =
        with ? qn__chat_tools(&h, &p->t->needs, qn__parse_json(&h, with, strlen(with), true)) : qn__none();
    const qn_chat_options options = {.no_generation_prompt = !generation, .now = 1, .thinking = thinking};
    const qn_val text = qn__chat_run(p->t, &h, list, given, &options);
    qn_status status = h.status == QN_STATUS_nomem ? QN_STATUS_nomem : QN_OK;
    if (h.status == QN_OK && qn__is_str(text)) {
        const char *hit = NULL;
        for (const char *at = text.s->data; (at = strstr(at, user)); at++) hit = at + sizeof user - 1;
        if (hit) {
            out->n = text.s->n - (size_t)(hit - text.s->data);
            out->s = qn__arena_strndup(&p->arena, hit, out->n);
            if (!out->s) status = QN_STATUS_nomem;
        }
    }
    qn__jinja_heap_deinit(&h);
    return status;
}

static qn_slice last_part(qn_slice s)
{
    qn_slice part[MAX_PARTS];
    const int n = parts(s, part);
    return n ? part[n - 1] : (qn_slice){0};
}

/* Whether the text ends with a mark (and white space) that a turn closes at once, or behind its reasoning: <x> </x>. */
static bool ends_open(const qn_probe *p, qn_slice s)
{
    const qn_slice part = last_part(s);
    char close[64] = "</";
    if (!part.n) return false;
    if (qn__sym_is_space((unsigned char)*part.s)) return ends_open(p, qn__less(s, part.n));
    if (part.n < 3 || part.n > 60 || *part.s != '<') return false;
    memcpy(close + 2, part.s + 1, part.n - 1);
    for (int i = 0; i < QN_PROBE_COUNT; i++) {
        if (!p->turns[i].s) continue;
        qn_slice before = qn__skip(p->turns[i], s.n);
        if (!qn__find_word(before, "qn-answer", &before, NULL)) qn__find_word(before, QN_PROBE_NAME, &before, NULL);
        if (qn__find_word(before, close, NULL, NULL)) return true;
    }
    return false;
}

/* All turns, cut behind what begins each of them. */
static qn_status render_turns(qn_probe *p)
{
    qn_slice prompts[3];
    for (int i = 0; i < 3; i++)
        QN_TRY(render(p, "[" USER "]", p->t->needs.tools ? tools : NULL, i - 1, true, &prompts[i]));
    for (int i = 0; i < QN_PROBE_COUNT; i++) {
        if (turns[i].calls && !p->t->needs.calls) continue;
        if (i == QN_PROBE_two_calls && !p->t->needs.several_calls) continue;
        const char *with = turns[i].calls || p->t->needs.tools ? tools : NULL;
        QN_TRY(render(p, turns[i].messages, with, 0, false, &p->turns[i]));
        if (p->turns[i].s && !has_words(p->turns[i], turns[i].words)) p->turns[i] = (qn_slice){0};
    }
    qn_slice shared = prompts[1];
    for (int i = 0; i < QN_PROBE_COUNT; i++)
        if (p->turns[i].s && shared.s) shared.n = qn__common_prefix(shared, p->turns[i]);
    for (int i = 0; i < 3; i++) { /* unless the switch stands in the user's turn */
        const size_t n = prompts[i].s ? qn__common_prefix(shared, prompts[i]) : 0;
        if (n) shared.n = n;
    }
    while (ends_open(p, shared)) shared = qn__less(shared, last_part(shared).n);
    p->header = shared;
    if (prompts[1].s) p->prompt = qn__skip(prompts[1], shared.n);
    for (int i = 0; i < QN_PROBE_COUNT; i++)
        if (p->turns[i].s) p->turns[i] = qn__skip(p->turns[i], shared.n);
    return QN_OK;
}

/* Bytes that begin a call in every turn with several, and which the prompt has too where it could go on with one
 * (functionary's >>>), belong to the call. */
static void give_back(qn_probe *p)
{
    qn_slice open, between;
    const qn_slice two = p->turns[QN_PROBE_two_calls];
    if (!two.s || !p->header.n || !qn__find_word(two, QN_PROBE_NAME, &open, &between)) return;
    if (!qn__find_word(between, QN_PROBE_TEXT, NULL, &between)) return;
    if (!qn__find_word(between, QN_PROBE_NAME2, &between, NULL)) return;
    const qn_slice whole = {two.s - p->header.n, p->header.n + open.n};
    const size_t shared = qn__common_suffix(whole, between);
    if (shared <= open.n || shared >= whole.n) return;
    const size_t back = shared - open.n;
    if (is_blank(qn__skip(p->header, p->header.n - back))) return;
    p->header = qn__less(p->header, back);
    for (int i = 0; i < QN_PROBE_COUNT; i++)
        if (p->turns[i].s) p->turns[i] = (qn_slice){p->turns[i].s - back, p->turns[i].n + back};
    p->prompt = (qn_slice){p->prompt.s - back, p->prompt.n + back};
}

/* ---- what is not of calls ------------------------------------------------------------------------------ */

/* White space and the first part that is none. */
static qn_slice first_part(qn_slice s)
{
    size_t n = qn__mark_atom(s.s, s.n);
    if (is_blank(qn__less(s, s.n - n))) n += qn__mark_atom(s.s + n, s.n - n);
    return qn__less(s, s.n - n);
}

static qn_slice literal_slice(const char *s) { return (qn_slice){s, strlen(s)}; }

static bool find_reasoning(qn_probe *p, qn_slice think[2])
{
    qn_slice to_content = {0}, to_call = {0};
    const qn_slice thought = p->turns[QN_PROBE_thought], call = p->turns[QN_PROBE_thought_call];
    if (thought.s && qn__find_word(thought, "qn-thought", &think[0], &to_content))
        qn__find_word(to_content, "qn-answer", &to_content, NULL);
    if (call.s && qn__find_word(call, "qn-thought", &think[0], &to_call))
        qn__find_word(to_call, QN_PROBE_NAME, &to_call, NULL);
    if (to_content.s && to_call.s) {
        think[1] = qn__less(to_content, to_content.n - qn__common_prefix(to_content, to_call));
    } else if (to_content.s) {
        qn_slice plain = {0};
        if (p->turns[QN_PROBE_content].s) qn__find_word(p->turns[QN_PROBE_content], "qn-answer", &plain, NULL);
        think[1] = qn__less(to_content, plain.s ? qn__common_suffix(to_content, plain) : 0);
    }
    if (!think[1].s || is_blank(think[1]))
        think[1] = first_part(to_content.s ? to_content : to_call.s ? to_call : literal_slice(""));
    if (!is_blank(think[1])) {
        if (is_blank(think[0])) think[0] = p->prompt; /* the model is made to begin with it */
        return true;
    }
    size_t i = 0;
    while (i < sizeof thinks / sizeof *thinks && !strstr(p->t->source, thinks[i].close)) i++;
    const bool mentioned = i < sizeof thinks / sizeof *thinks;
    if (!mentioned) i = 0;
    think[0] = literal_slice(thinks[i].open);
    think[1] = literal_slice(thinks[i].close);
    return mentioned;
}

static qn_slice trim(qn_slice s)
{
    while (s.n && qn__sym_is_space((unsigned char)*s.s)) s = qn__skip(s, 1);
    while (s.n && qn__sym_is_space((unsigned char)s.s[s.n - 1])) s.n--;
    return s;
}

/* Without the marks of reasoning that is empty. */
static qn_slice strip(qn_slice s, const qn_slice think[2])
{
    for (int i = 0; i < 2; i++) {
        const qn_slice mark = trim(think[i]), rest = trim(s);
        if (mark.n && qn__common_prefix(mark, rest) == mark.n) s = qn__skip(rest, qn__common_prefix(rest, mark));
    }
    return s;
}

static bool frame(qn_probe *p)
{
    qn_slice think[2] = {{0}}, open = {0}, close = {0}, tail = {0}, call_tail = {0}, call_open = {0};
    const qn_slice content = p->turns[QN_PROBE_content], call = p->turns[QN_PROBE_call];
    p->t->found.thinks = find_reasoning(p, think);
    if (content.s) qn__find_word(content, "qn-answer", &open, &tail);
    if (call.s && qn__find_word(call, QN_PROBE_NAME, &call_open, &call_tail)) {
        qn__find_word(call_tail, QN_PROBE_TEXT, NULL, &call_tail);
        p->end = qn__common_suffix(call_tail, tail);
        call_open = strip(call_open, think);
    }
    if (p->turns[QN_PROBE_content_call].s) {
        qn__find_word(p->turns[QN_PROBE_content_call], "qn-answer", NULL, &close);
        qn__find_word(close, QN_PROBE_NAME, &close, NULL);
        close = qn__less(close, qn__common_suffix(close, call_open));
    }
    p->t->found.spaced = open.n && is_blank(open) && !memchr(open.s, '\n', open.n);
    qn_slice end = call.s ? qn__less(tail, qn__common_suffix(tail, call_tail)) : (qn_slice){0};
    /* the header is looked for by its last mark and what follows that */
    qn_slice part[MAX_PARTS], header = p->header;
    int n = parts(header, part), from = n - 1;
    while (from >= 0 && *part[from].s != '<' && *part[from].s != '[') from--;
    if (from < 0)
        for (from = n - 1; from > 0 && is_blank(part[from]);) from--;
    if (from >= 0) header = qn__skip(header, (size_t)(part[from].s - header.s));
    return qn__set_mark(p, QN_MARK_header, header) && qn__set_mark(p, QN_MARK_think_open, think[0]) &&
           qn__set_mark(p, QN_MARK_think_close, think[1]) &&
           qn__set_mark(p, QN_MARK_content_open, strip(open, think)) && qn__set_mark(p, QN_MARK_content_close, close) &&
           qn__set_mark(p, QN_MARK_turn_close, end);
}

/* ---- the row ------------------------------------------------------------------------------------------- */

static bool same_calls(qn_heap *h, const char *json, const char *messages)
{
    const qn_val got = qn__member(qn__parse_json(h, json, strlen(json), true), "tool_calls");
    const qn_val list = qn__parse_json(h, messages, strlen(messages), true);
    if (h->status != QN_OK) return false;
    const qn_val want = qn__member(list.l->items[list.l->n - 1], "tool_calls");
    if (got.type != QN_VAL_list || got.l->n != want.l->n) return false;
    for (uint32_t i = 0; i < got.l->n; i++) {
        const qn_val a = qn__member(got.l->items[i], "function"), b = qn__member(want.l->items[i], "function");
        const qn_val text = qn__member(a, "arguments");
        if (!qn__val_equal(qn__member(a, "name"), qn__member(b, "name"))) return false;
        if (!qn__val_equal(qn__parse_json(h, text.s->data, text.s->n, true), qn__member(b, "arguments"))) return false;
    }
    return h->status == QN_OK;
}

/* Whether a turn is read back as what was rendered. */
static qn_status reads(qn_probe *p, qn_probe_turn turn, bool *good)
{
    qn_chat_reader *r;
    const qn_chat_event *events;
    size_t n;
    char *json = NULL;
    qn_heap h;
    *good = true;
    if (!p->turns[turn].s) return QN_OK;
    QN_TRY(qn_chat_reader_create(p->t, NULL, tools, NULL, &r, NULL));
    const qn_slice text = qn__less(p->turns[turn], p->end);
    qn_status status = qn_chat_reader_text(r, text.s, text.n, &events, &n, NULL);
    if (status == QN_OK) status = qn_chat_reader_finish(r, false, &events, &n, NULL);
    if (status == QN_OK) status = qn_chat_reader_message(r, &json, NULL);
    qn_chat_reader_destroy(r);
    if (status != QN_OK) return status;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    *good = same_calls(&h, json, turns[turn].messages);
    status = h.status == QN_STATUS_nomem ? QN_STATUS_nomem : QN_OK;
    qn__jinja_heap_deinit(&h);
    qn_free(json);
    return status;
}

static qn_status find_row(qn_probe *p)
{
    static const qn_probe_turn proof[] = {QN_PROBE_call, QN_PROBE_two_calls, QN_PROBE_numbers, QN_PROBE_special,
                                          QN_PROBE_no_arguments};
    const qn_found before = p->t->found;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool good = rows[i].derive(p);
        if (p->t->arena.failed) return QN_STATUS_nomem;
        p->t->found.syntax = &rows[i].syntax;
        for (size_t k = 0; k < sizeof proof / sizeof *proof && good; k++) QN_TRY(reads(p, proof[k], &good));
        if (good) return QN_OK;
        p->t->found = before;
    }
    return QN_OK;
}

qn_status qn__chat_derive(qn_chat_template *t, qn_error *err)
{
    qn_probe p = {.t = t};
    qn__arena_init(&p.arena, 0);
    qn_status status = render_turns(&p);
    if (status == QN_OK) {
        give_back(&p);
        if (!frame(&p)) status = QN_STATUS_nomem;
    }
    if (status == QN_OK && p.turns[QN_PROBE_call].s) status = find_row(&p);
    qn__arena_deinit(&p.arena);
    if (status == QN_OK && t->found.syntax) {
        const qn_mark *m = &t->found.marks[QN_MARK_section_open];
        if (!m->n) m = &t->found.marks[QN_MARK_call_open];
        char *text = qn__arena_alloc(&t->arena, (size_t)m->n + 1);
        for (int i = 0; text && i < m->n; i++) text[i] = m->s[i] < 0x100 ? (char)m->s[i] : ' ';
        if (!text) status = QN_STATUS_nomem;
        t->needs.syntax = t->found.syntax->name;
        t->needs.call_open = text;
    }
    return status == QN_OK ? QN_OK : QN_FAIL_NOMEM(err, sizeof t->found);
}
