/* SPDX-License-Identifier: MIT */
/* src/text/jinja/filters_words.c -- wordwrap and urlize, which look at the words of a text: as Python's textwrap and
 * jinja2 3.1 find them. */
#include "text/jinja/rows.h"
#include "text/utf8.h"

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

/* A text by characters: [n] code points, [n + 1] bytes where they begin. */
typedef struct chars {
    const qn_vstr *s;
    const uint32_t *cp, *at;
    uint32_t n;
} chars;

static bool take_apart(qn_heap *h, const qn_vstr *s, chars *c)
{
    uint32_t *cp = NULL, *at = NULL, n = 0;
    if (qn__heap_work(h, QN_WORK_CHAR * (uint64_t)s->n)) {
        cp = qn__heap_alloc(h, ((size_t)s->n_chars + 1) * sizeof *cp);
        at = qn__heap_alloc(h, ((size_t)s->n_chars + 1) * sizeof *at);
    }
    if (!cp || !at) return false;
    for (uint32_t i = 0; i < s->n; n++) {
        at[n] = i;
        i += (uint32_t)qn__utf8_decode(s->data + i, s->n - i, &cp[n]);
    }
    at[n] = s->n;
    *c = (chars){s, cp, at, n};
    return true;
}

static void put(qn_vbuf *b, const chars *c, uint32_t begin, uint32_t end)
{
    qn__buf_part(b, c->s, c->at[begin], c->at[end]);
}

/* ---- wordwrap ---------------------------------------------------------------------------------- */

/* Where lines may be broken: at these, not at every white space. */
static bool is_blank(uint32_t cp) { return cp == ' ' || (cp >= '\t' && cp <= '\r'); }
static bool is_letter(const chars *c, uint32_t i)
{
    return i < c->n && qn__py_word(c->cp[i]) && !qn__py_decimal(c->cp[i]);
}
static bool before_dash(const chars *c, uint32_t i)
{
    return qn__py_word(c->cp[i]) || (c->cp[i] < 0x80 && c->cp[i] && strchr("!\"'&.,?", (int)c->cp[i]));
}

/* The end of two hyphens or more that a word follows; i where there are none. */
static uint32_t dash_end(const chars *c, uint32_t i)
{
    uint32_t end = i;
    while (end < c->n && c->cp[end] == '-') end++;
    return end - i >= 2 && end < c->n && qn__py_word(c->cp[end]) ? end : i;
}

/* A hyphen at i that a line may end behind: in co-op, not in x-ray nor before a number. */
static bool breaks_behind(const chars *c, uint32_t i)
{
    const bool before = i >= 2 && is_letter(c, i - 1) &&
                        (is_letter(c, i - 2) || (i >= 3 && c->cp[i - 2] == '-' && is_letter(c, i - 3)));
    return before && is_letter(c, i + 1) &&
           (is_letter(c, i + 2) || (i + 2 < c->n && c->cp[i + 2] == '-' && is_letter(c, i + 3)));
}

/* The end of what begins at i and is not broken: white space, a dash, a word or its part up to a hyphen. */
static uint32_t chunk_end(const chars *c, uint32_t i, bool at_hyphens)
{
    const bool blank = i < c->n && is_blank(c->cp[i]);
    uint32_t end = i + 1;
    if (i >= c->n) return c->n;
    if (at_hyphens && !blank && i > 0 && before_dash(c, i - 1) && dash_end(c, i) > i) return dash_end(c, i);
    for (; end < c->n && is_blank(c->cp[end]) == blank; end++) {
        if (!at_hyphens || c->cp[end] != '-') continue;
        if (breaks_behind(c, end)) return end + 1;
        if (before_dash(c, end - 1) && dash_end(c, end) > end) return end;
    }
    return end;
}

static bool all_space(const chars *c, uint32_t begin, uint32_t end)
{
    while (begin < end && qn__py_space(c->cp[begin])) begin++;
    return begin == end;
}

typedef struct wrap {
    int64_t width;
    bool break_long, at_hyphens;
    const qn_vstr *by;
} wrap;

/* How much of the word [begin, end) fits in `left` characters: up to its last hyphen there, if it has one. */
static uint32_t cut_of(const chars *c, uint32_t begin, uint32_t end, uint32_t left, const wrap *w)
{
    if (!w->at_hyphens || end - begin <= left) return left;
    for (uint32_t i = left; i-- > 1;) {
        if (c->cp[begin + i] != '-') continue;
        for (uint32_t k = 0; k < i; k++)
            if (c->cp[begin + k] != '-') return i + 1;
        break;
    }
    return left;
}

static void wrap_line(qn_vbuf *b, const chars *c, const wrap *w)
{
    bool any = false; /* lines yet */
    uint32_t at = 0, end = chunk_end(c, 0, w->at_hyphens);
    while (at < c->n && b->h->status == QN_OK) {
        if (any && all_space(c, at, end)) {
            at = end;
            end = chunk_end(c, at, w->at_hyphens);
        }
        const uint32_t begin = at;
        uint32_t last = at; /* where the last chunk of the line begins */
        while (at < c->n && end - begin <= w->width) {
            last = at;
            at = end;
            end = chunk_end(c, at, w->at_hyphens);
        }
        if (at < c->n && end - at > w->width && w->break_long) {
            last = at;
            at += cut_of(c, at, end, (uint32_t)w->width - (at - begin), w);
        } else if (at < c->n && end - at > w->width && at == begin) {
            last = at;
            at = end;
            end = chunk_end(c, at, w->at_hyphens);
        }
        const uint32_t stop = all_space(c, last, at) ? last : at;
        if (stop == begin) continue;
        if (any) qn__buf_str(b, w->by);
        put(b, c, begin, stop);
        any = true;
    }
}

qn_val qn__filter_wordwrap(qn_call *c)
{
    static const qn_vstr newline = {.data = "\n", .n = 1, .n_chars = 1, .trust = QN_TRUST_all};
    wrap w = {qn__arg_int(c, 0, 79), qn__arg_bool(c, 1, true), qn__arg_bool(c, 3, true), &newline};
    chars line;
    qn_vbuf b = {.h = c->h};
    if (!qn__is_str(c->self)) return QN_RAISE(c->h, "wordwrap needs a string, not %s", qn__type_name(c->self));
    if (qn__given(c->args[2]) && c->args[2].type != QN_VAL_none) w.by = qn__arg_str(c, 2);
    const qn_vlist *lines = c->h->status == QN_OK ? qn__split_lines(c->h, c->self.s, false) : NULL;
    for (uint32_t i = 0; lines && i < lines->n && c->h->status == QN_OK; i++) {
        if (w.width <= 0) return QN_RAISE(c->h, "invalid width %lld (must be > 0)", (long long)w.width);
        if (i) qn__buf_str(&b, w.by);
        if (take_apart(c->h, lines->items[i].s, &line)) wrap_line(&b, &line, &w);
    }
    return qn__buf_val(&b);
}

/* ---- urlize ------------------------------------------------------------------------------------ */

typedef struct links {
    chars c; /* escaped */
    qn_vbuf *b;
    const qn_vstr *rel, *target; /* NULL: none */
    const qn_vlist *schemes;     /* NULL: none but http, https and mailto */
    bool trims;
    int64_t trim;
} links;

/* Of the letters that re.IGNORECASE takes for one of a to z the small one. */
static uint32_t fold(uint32_t cp)
{
    if (cp >= 'A' && cp <= 'Z') return cp + 32;
    return cp == 0x130 || cp == 0x131 ? 'i' : cp == 0x17F ? 's' : cp == 0x212A ? 'k' : cp;
}

/* The end of `text` at i, 0 where something else stands; `any_case`: text is lower case. */
static uint32_t literal(const chars *c, uint32_t i, uint32_t end, const char *text, bool any_case)
{
    for (; *text; text++, i++)
        if (i >= end || (any_case ? fold(c->cp[i]) : c->cp[i]) != (unsigned char)*text) return 0;
    return i;
}

static bool is_tld(uint32_t cp) { return fold(cp) >= 'a' && fold(cp) <= 'z'; }
static bool is_idna(uint32_t cp) { return cp == '%' || qn__py_word(cp); }
static bool is_label(uint32_t cp) { return cp == '-' || is_idna(cp); }
static bool is_hex(uint32_t cp) { return qn__py_decimal(cp) || (fold(cp) >= 'a' && fold(cp) <= 'f'); }

static uint32_t run_end(const chars *c, uint32_t i, uint32_t end, bool (*is)(uint32_t cp))
{
    while (i < end && is(c->cp[i])) i++;
    return i;
}

/* Behind a host: an end, or a port, and a path, query or fragment. */
static bool rest_is_right(const chars *c, uint32_t i, uint32_t end)
{
    if (i < end && c->cp[i] == ':') {
        const uint32_t port = i + 1;
        i = run_end(c, port, end, qn__py_decimal);
        if (i == port || i - port > 5) return false;
    }
    return i == end || c->cp[i] == '/' || c->cp[i] == '?' || c->cp[i] == '#';
}

static bool is_top(const chars *c, uint32_t i, uint32_t end)
{
    uint32_t stop = run_end(c, i, end, is_tld);
    if (stop - i >= 2 && stop - i <= 63 && rest_is_right(c, stop, end)) return true;
    if ((i = literal(c, i, end, "xn--", true)) == 0) return false;
    stop = run_end(c, i, end, is_idna);
    return stop - i >= 2 && stop - i <= 59 && rest_is_right(c, stop, end);
}

static bool is_well_known(const chars *c, uint32_t i, uint32_t end)
{
    static const char *const names[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const uint32_t stop = literal(c, i, end, names[k], true);
        if (stop && rest_is_right(c, stop, end)) return true;
    }
    return false;
}

/* Labels with dots behind them, `least` characters to `most`, then what `is` says. */
static bool is_domain(const chars *c, uint32_t i, uint32_t end, uint32_t least, uint32_t most,
                      bool (*is)(const chars *, uint32_t, uint32_t))
{
    for (uint32_t stop; (stop = run_end(c, i, end, is_label)) < end && c->cp[stop] == '.'; i = stop + 1) {
        if (stop - i < least || stop - i > most) return false;
        if (is(c, stop + 1, end)) return true;
    }
    return false;
}

static bool is_ipv4(const chars *c, uint32_t i, uint32_t end)
{
    for (int part = 0; part < 4; part++) {
        if (part && (i >= end || c->cp[i++] != '.')) return false;
        const uint32_t stop = run_end(c, i, end, qn__py_decimal);
        if (stop == i || stop - i > 3) return false;
        i = stop;
    }
    return rest_is_right(c, i, end);
}

/* Two groups with colons behind them, then one to six of up to four digits whose colon may be missing, in brackets. */
static bool is_ipv6(const chars *c, uint32_t i, uint32_t end)
{
    if (i >= end || c->cp[i++] != '[') return false;
    for (int group = 0; group < 8; group++) {
        const uint32_t stop = run_end(c, i, end, is_hex);
        if (group >= 2 && stop == i && stop < end && c->cp[stop] == ']') break;
        if (group < 2 && (stop - i > 4 || stop >= end || c->cp[stop] != ':')) return false;
        if (group >= 2 && stop == i && (stop >= end || c->cp[stop] != ':')) return false;
        i = stop - i > 4 ? i + 4 : stop;
        if (i < end && c->cp[i] == ':') i++;
    }
    return i < end && c->cp[i] == ']' && rest_is_right(c, i + 1, end);
}

static bool is_web(const chars *c, uint32_t i, uint32_t end)
{
    const uint32_t http = literal(c, i, end, "http", true);
    const uint32_t s = http && http < end && fold(c->cp[http]) == 's' ? http + 1 : http;
    const uint32_t host = http ? literal(c, s, end, "://", true) : 0, www = literal(c, i, end, "www.", true);
    const uint32_t begin = host ? host : www;
    if (begin && (is_top(c, begin, end) || is_domain(c, begin, end, 1, UINT32_MAX, is_top))) return true;
    if (host && (is_ipv4(c, host, end) || is_ipv6(c, host, end))) return true;
    return is_domain(c, i, end, 2, 63, is_well_known);
}

static bool is_mail(const chars *c, uint32_t i, uint32_t end)
{
    uint32_t at = end, dot = end;
    while (at > i && c->cp[at - 1] != '@') {
        const uint32_t cp = c->cp[--at];
        if (cp == '.' && dot == end) dot = at;
        if (cp != '.' && !qn__py_word(cp) && (cp != '-' || dot == end)) return false;
    }
    return at > i + 1 && dot < end && dot + 1 < end && dot > at && qn__py_word(c->cp[at]);
}

static bool has(const chars *c, uint32_t i, uint32_t end, uint32_t cp)
{
    while (i < end && c->cp[i] != cp) i++;
    return i < end;
}

static uint32_t count(const chars *c, uint32_t i, uint32_t end, const char *text)
{
    uint32_t n = 0;
    for (uint32_t stop; i < end; i = stop ? stop : i + 1) n += (stop = literal(c, i, end, text, false)) > 0;
    return n;
}

static void put_link(const links *l, const char *before, uint32_t begin, uint32_t end, bool attributes, uint32_t from,
                     uint32_t to, bool dots)
{
    qn__buf_puts(l->b, "<a href=\"");
    qn__buf_puts(l->b, before);
    put(l->b, &l->c, begin, end);
    qn__buf_puts(l->b, "\"");
    if (attributes && l->rel) {
        qn__buf_puts(l->b, " rel=\"");
        qn__buf_str(l->b, l->rel);
        qn__buf_puts(l->b, "\"");
    }
    if (attributes && l->target) {
        qn__buf_puts(l->b, " target=\"");
        qn__buf_str(l->b, l->target);
        qn__buf_puts(l->b, "\"");
    }
    qn__buf_puts(l->b, ">");
    put(l->b, &l->c, from, to);
    qn__buf_puts(l->b, dots ? "...</a>" : "</a>");
}

/* The scheme of extra_schemes that [begin, end) begins with and goes on after. */
static bool has_scheme(const links *l, uint32_t begin, uint32_t end)
{
    const uint32_t at = l->c.at[begin], n = l->c.at[end] - at;
    for (uint32_t i = 0; l->schemes && i < l->schemes->n; i++) {
        const qn_vstr *s = l->schemes->items[i].s;
        if (s->n < n && memcmp(s->data, l->c.s->data + at, s->n) == 0) return true;
    }
    return false;
}

static void put_middle(const links *l, uint32_t begin, uint32_t end)
{
    const chars *c = &l->c;
    if (is_web(c, begin, end)) {
        const bool whole = literal(c, begin, end, "https://", false) || literal(c, begin, end, "http://", false);
        const int64_t n = end - begin, keep = l->trim >= 0 ? l->trim : n + l->trim < 0 ? 0 : n + l->trim;
        const bool cut = l->trims && n > l->trim;
        put_link(l, whole ? "" : "https://", begin, end, true, begin, cut ? begin + (uint32_t)keep : end, cut);
        return;
    }
    const uint32_t address = literal(c, begin, end, "mailto:", false);
    if (address && is_mail(c, address, end))
        put_link(l, "", begin, end, false, address, end, false);
    else if (begin < end && c->cp[begin] != '@' && !has(c, begin, end, ':') && is_mail(c, begin, end) &&
             !literal(c, begin, end, "www.", false))
        put_link(l, "mailto:", begin, end, false, begin, end, false);
    else if (has_scheme(l, begin, end))
        put_link(l, "", begin, end, true, begin, end, false);
    else
        put(l->b, c, begin, end);
}

/* Brackets before a word and punctuation behind it do not belong to the link, unless they close what it opens. */
static void put_word(const links *l, uint32_t begin, uint32_t end)
{
    static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    const chars *c = &l->c;
    uint32_t first = begin, stop = end;
    for (uint32_t next; first < end; first = next)
        if (c->cp[first] == '(' || c->cp[first] == '<')
            next = first + 1;
        else if (!(next = literal(c, first, end, "&lt;", false)))
            break;
    while (stop > first) {
        const uint32_t cp = c->cp[stop - 1];
        if (cp == ')' || cp == '>' || cp == '.' || cp == ',')
            stop--;
        else if (stop - first >= 4 && literal(c, stop - 4, stop, "&gt;", false))
            stop -= 4;
        else
            break;
    }
    for (int p = 0; p < 3; p++) {
        const uint32_t opened = count(c, first, stop, pairs[p][0]);
        if (opened <= count(c, first, stop, pairs[p][1])) continue;
        uint32_t closed = count(c, stop, end, pairs[p][1]), next;
        for (closed = closed < opened ? closed : opened; closed > 0; closed--) {
            while (!(next = literal(c, stop, end, pairs[p][1], false))) stop++;
            stop = next;
        }
    }
    put(l->b, c, begin, first);
    put_middle(l, first, stop);
    put(l->b, c, stop, end);
}

/* Words of rel, in order, each once. */
static void add_rel(qn_heap *h, qn_vlist *words, qn_val word)
{
    uint32_t i = 0;
    if (!words || h->status != QN_OK || !qn__heap_work(h, words->n)) return;
    while (i < words->n && qn__val_compare(h, words->items[i], word) < 0) i++;
    if (i < words->n && qn__str_same(words->items[i].s, word.s)) return;
    qn__list_add(h, words, word);
    if (h->status != QN_OK) return;
    for (uint32_t k = words->n - 1; k > i; k--) words->items[k] = words->items[k - 1];
    words->items[i] = word;
}

static const qn_vstr *rel_of(qn_call *c, bool nofollow, qn_val rel)
{
    qn_vlist *words = qn__list_new(c->h, QN_LIST_list, 0);
    qn_vbuf b = {.h = c->h};
    add_rel(c->h, words, qn__text_val(c->h, "noopener"));
    if (nofollow) add_rel(c->h, words, qn__text_val(c->h, "nofollow"));
    if (qn__given(rel) && qn__val_truth(rel)) {
        if (!qn__is_str(rel)) return QN_RAISE(c->h, "rel is a string, not %s", qn__type_name(rel)), NULL;
        qn_call split = {.r = c->r, .h = c->h, .self = rel, .args = {qn__none(), qn__absent()}};
        const qn_val parts = qn__method_str_split(&split);
        for (uint32_t i = 0; c->h->status == QN_OK && i < parts.l->n; i++) add_rel(c->h, words, parts.l->items[i]);
    }
    for (uint32_t i = 0; words && c->h->status == QN_OK && i < words->n; i++) {
        if (i) qn__buf_puts(&b, " ");
        qn__buf_str(&b, words->items[i].s);
    }
    const qn_val v = qn__buf_val(&b);
    return c->h->status == QN_OK ? qn__html_escape(c->h, v.s).s : NULL;
}

/* [\w.+-]{2,}:/{0,2} */
static bool is_scheme(qn_heap *h, const qn_vstr *s)
{
    chars c;
    uint32_t i = 0;
    if (!take_apart(h, s, &c)) return false;
    while (i < c.n && (qn__py_word(c.cp[i]) || c.cp[i] == '.' || c.cp[i] == '+' || c.cp[i] == '-')) i++;
    if (i < 2 || i >= c.n || c.cp[i++] != ':') return false;
    for (int slashes = 0; slashes < 2 && i < c.n && c.cp[i] == '/'; slashes++) i++;
    return i == c.n;
}

static bool read_schemes(qn_call *c, qn_val v, links *l)
{
    if (!qn__given(v) || v.type == QN_VAL_none) return true;
    l->schemes = qn__val_iterate(c->h, v);
    for (uint32_t i = 0; l->schemes && i < l->schemes->n; i++) {
        const qn_val s = l->schemes->items[i];
        if (qn__is_str(s) && is_scheme(c->h, s.s)) continue;
        QN_RAISE(c->h, "extra_schemes has what is no prefix of a URI");
    }
    return c->h->status == QN_OK;
}

static const qn_vstr *escaped(qn_call *c, qn_val v)
{
    qn_val text = qn__to_str(c->h, v);
    if (c->h->status == QN_OK && !text.s->markup) text = qn__html_escape(c->h, text.s);
    return c->h->status == QN_OK ? text.s : NULL;
}

qn_val qn__filter_urlize(qn_call *c)
{
    qn_vbuf b = {.h = c->h};
    const qn_val target = c->args[2];
    links l = {.b = &b, .trims = qn__given(c->args[0]) && c->args[0].type != QN_VAL_none};
    l.trim = qn__arg_int(c, 0, 0);
    l.rel = rel_of(c, qn__arg_bool(c, 1, false), c->args[3]);
    if (!read_schemes(c, c->args[4], &l)) return nothing();
    if (qn__given(target) && qn__val_truth(target)) l.target = escaped(c, target);
    const qn_vstr *text = c->h->status == QN_OK ? escaped(c, c->self) : NULL;
    if (!text || !take_apart(c->h, text, &l.c)) return nothing();
    for (uint32_t i = 0, end; i < l.c.n && c->h->status == QN_OK; i = end) {
        end = i;
        while (end < l.c.n && !qn__py_space(l.c.cp[end])) end++;
        if (end > i) put_word(&l, i, end);
        i = end;
        while (end < l.c.n && qn__py_space(l.c.cp[end])) end++;
        put(&b, &l.c, i, end);
    }
    return qn__buf_val(&b);
}
