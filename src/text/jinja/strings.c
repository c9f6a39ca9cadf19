/* SPDX-License-Identifier: MIT */
/* src/text/jinja/strings.c -- methods of strings: Python's, by code points. Every byte of a result has the trust of the
 * byte that it came from. */
#include "text/jinja/rows.h"
#include "text/utf8.h"

#include <utf8proc.h>

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }
static qn_val of(const qn_vstr *s) { return (qn_val){.type = QN_VAL_str, .s = s}; }
static qn_val empty(qn_heap *h) { return qn__str_val(h, "", 0, true); }

bool qn__py_space(uint32_t cp) { return qn__cp_is_space(cp) || (cp >= 0x1C && cp <= 0x1F); }

/* The character at byte `at`, and its length. */
static uint32_t char_at(const qn_vstr *s, uint32_t at, uint32_t *n)
{
    uint32_t cp = 0;
    *n = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
    return cp;
}
/* Where the character before byte `at` begins. */
static uint32_t char_before(const qn_vstr *s, uint32_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)s->data[at] & 0xC0) == 0x80);
    return at;
}

/* ---- case ------------------------------------------------------------------------------------- */

static const struct {
    uint32_t cp;
    const char *upper, *title;
} special[] = {
#define QN_SPECIAL_CASE(cp, upper, title) {cp, upper, title},
#include "text/jinja/special_case.def"
#undef QN_SPECIAL_CASE
};

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }
static bool is_upper(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_LU; }
static bool is_lower(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_LL || cp == 0xAA || cp == 0xBA; }
static bool is_title(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_LT; }
static bool is_cased(uint32_t cp) { return is_upper(cp) || is_lower(cp) || is_title(cp); }

static void put_cp(qn_vbuf *b, uint32_t cp, const qn_vstr *s, uint32_t at)
{
    char out[4];
    qn__buf_like(b, out, (size_t)qn__utf8_encode(cp, out), s, at);
}

static void put_raised(qn_vbuf *b, uint32_t cp, bool title, const qn_vstr *s, uint32_t at)
{
    for (size_t i = 0; cp >= 0xDF && i < sizeof special / sizeof *special; i++)
        if (special[i].cp == cp) {
            const char *text = title ? special[i].title : special[i].upper;
            qn__buf_like(b, text, strlen(text), s, at);
            return;
        }
    put_cp(b, (uint32_t)(title ? utf8proc_totitle((int32_t)cp) : utf8proc_toupper((int32_t)cp)), s, at);
}

static bool ignorable(uint32_t cp) /* Case_Ignorable, nearly: marks, and what stands within words */
{
    const utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' || cp == ':' ||
           cp == 0xB7 || cp == 0x2019;
}

/* A sigma that ends a word. */
static bool is_final(const qn_vstr *s, uint32_t at, uint32_t n)
{
    uint32_t k, i = at;
    bool before = false;
    while (i > 0) {
        i = char_before(s, i);
        const uint32_t cp = char_at(s, i, &k);
        if (ignorable(cp)) continue;
        before = is_cased(cp);
        break;
    }
    if (!before) return false;
    for (i = at + n; i < s->n; i += k) {
        const uint32_t cp = char_at(s, i, &k);
        if (!ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

static void put_lowered(qn_vbuf *b, uint32_t cp, const qn_vstr *s, uint32_t at, uint32_t n)
{
    if (cp == 0x130)
        qn__buf_like(b, "i\xCC\x87", 3, s, at);
    else if (cp == 0x3A3)
        put_cp(b, is_final(s, at, n) ? 0x3C2 : 0x3C3, s, at);
    else
        put_cp(b, (uint32_t)utf8proc_tolower((int32_t)cp), s, at);
}

static void put_folded(qn_vbuf *b, uint32_t cp, const qn_vstr *s, uint32_t at)
{
    utf8proc_int32_t out[8];
    const utf8proc_ssize_t n = utf8proc_decompose_char((int32_t)cp, out, 8, UTF8PROC_CASEFOLD, NULL);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) put_cp(b, (uint32_t)out[i], s, at);
}

qn_val qn__change_case(qn_heap *h, const qn_vstr *s, qn_case how)
{
    qn_vbuf b = {.h = h};
    bool in_word = false;
    for (uint32_t at = 0, n; at < s->n && h->status == QN_OK; at += n) {
        const uint32_t cp = char_at(s, at, &n);
        bool raise = how == QN_CASE_upper, title = false;
        if (how == QN_CASE_title) raise = title = !in_word;
        if (how == QN_CASE_capital) raise = title = at == 0;
        if (how == QN_CASE_swap) raise = is_lower(cp);
        in_word = is_cased(cp);
        if (how == QN_CASE_fold)
            put_folded(&b, cp, s, at);
        else if (how == QN_CASE_swap && !raise && !is_upper(cp))
            qn__buf_part(&b, s, at, at + n);
        else if (raise)
            put_raised(&b, cp, title, s, at);
        else
            put_lowered(&b, cp, s, at, n);
    }
    return qn__buf_val(&b);
}

qn_val qn__method_str_lower(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_lower); }
qn_val qn__method_str_upper(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_upper); }
qn_val qn__method_str_casefold(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_fold); }
qn_val qn__method_str_title(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_title); }
qn_val qn__method_str_capitalize(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_capital); }
qn_val qn__method_str_swapcase(qn_call *c) { return qn__change_case(c->h, c->self.s, QN_CASE_swap); }

/* ---- what all characters are ------------------------------------------------------------------- */

static bool is_alpha(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
static bool is_decimal(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_ND; }
static bool is_digit(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        {0xB2, 0xB3},     {0xB9, 0xB9},     {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0x2070, 0x2070}, {0x2074, 0x2079},
        {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C}, {0x2488, 0x2490}, {0x24EA, 0x24EA}, {0x24F5, 0x24FD},
        {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788}, {0x278A, 0x2792},
    };
    if (is_decimal(cp)) return true;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (cp >= ranges[i][0] && cp <= ranges[i][1]) return true;
    return false;
}
static bool is_numeric(uint32_t cp)
{
    static const char *const cjk = "一二三四五六七八九十百千万億兆〇零两"
                                   "壹贰叁肆伍陆柒捌玖拾佰仟";
    const utf8proc_category_t c = category(cp);
    if (c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO) return true;
    char out[5] = "";
    return cp >= 0x3007 && (out[qn__utf8_encode(cp, out)] = '\0', strstr(cjk, out));
}
static bool is_alnum(uint32_t cp) { return is_alpha(cp) || is_digit(cp) || is_numeric(cp); }
bool qn__py_word(uint32_t cp) { return cp == '_' || is_alnum(cp); }
bool qn__py_decimal(uint32_t cp) { return is_decimal(cp); }
static bool is_ascii(uint32_t cp) { return cp < 0x80; }
static bool is_printable(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return cp == ' ' || !(c == UTF8PROC_CATEGORY_CN || c >= UTF8PROC_CATEGORY_ZS);
}

static qn_val all_are(const qn_call *c, bool (*is)(uint32_t cp), bool if_empty)
{
    const qn_vstr *s = c->self.s;
    if (!qn__heap_work(c->h, QN_WORK_CHAR * (uint64_t)s->n)) return nothing();
    for (uint32_t at = 0, n; at < s->n; at += n)
        if (!is(char_at(s, at, &n))) return qn__bool(false);
    return qn__bool(s->n || if_empty);
}
qn_val qn__method_str_isalpha(qn_call *c) { return all_are(c, is_alpha, false); }
qn_val qn__method_str_isalnum(qn_call *c) { return all_are(c, is_alnum, false); }
qn_val qn__method_str_isdecimal(qn_call *c) { return all_are(c, is_decimal, false); }
qn_val qn__method_str_isdigit(qn_call *c) { return all_are(c, is_digit, false); }
qn_val qn__method_str_isnumeric(qn_call *c) { return all_are(c, is_numeric, false); }
qn_val qn__method_str_isspace(qn_call *c) { return all_are(c, qn__py_space, false); }
qn_val qn__method_str_isascii(qn_call *c) { return all_are(c, is_ascii, true); }
qn_val qn__method_str_isprintable(qn_call *c) { return all_are(c, is_printable, true); }

/* Some character is cased, and all of those are of the one kind. */
static qn_val cased_are(const qn_call *c, bool (*is)(uint32_t cp))
{
    const qn_vstr *s = c->self.s;
    if (!qn__heap_work(c->h, QN_WORK_CHAR * (uint64_t)s->n)) return nothing();
    bool any = false;
    for (uint32_t at = 0, n; at < s->n; at += n) {
        const uint32_t cp = char_at(s, at, &n);
        if (is_cased(cp) && !is(cp)) return qn__bool(false);
        any |= is_cased(cp);
    }
    return qn__bool(any);
}
qn_val qn__method_str_islower(qn_call *c) { return cased_are(c, is_lower); }
qn_val qn__method_str_isupper(qn_call *c) { return cased_are(c, is_upper); }

qn_val qn__method_str_istitle(qn_call *c)
{
    const qn_vstr *s = c->self.s;
    if (!qn__heap_work(c->h, QN_WORK_CHAR * (uint64_t)s->n)) return nothing();
    bool any = false, in_word = false;
    for (uint32_t at = 0, n; at < s->n; at += n) {
        const uint32_t cp = char_at(s, at, &n);
        if (is_cased(cp) && is_lower(cp) != in_word) return qn__bool(false);
        any |= in_word = is_cased(cp);
    }
    return qn__bool(any);
}

/* ---- ends ------------------------------------------------------------------------------------- */

static bool is_stripped(const qn_vstr *s, uint32_t at, uint32_t n, const qn_vstr *chars)
{
    uint32_t k;
    if (!chars) return qn__py_space(char_at(s, at, &k));
    for (uint32_t i = 0; i < chars->n; i += k) {
        k = (uint32_t)qn__utf8_len(chars->data + i, chars->n - i);
        if (k == n && memcmp(chars->data + i, s->data + at, n) == 0) return true;
    }
    return false;
}

qn_val qn__str_strip(qn_heap *h, const qn_vstr *s, const qn_vstr *chars, bool left, bool right)
{
    uint32_t begin = 0, end = s->n;
    while (left && begin < end) {
        const uint32_t n = (uint32_t)qn__utf8_len(s->data + begin, end - begin);
        if (!is_stripped(s, begin, n, chars)) break;
        begin += n;
    }
    while (right && end > begin) {
        const uint32_t at = char_before(s, end);
        if (!is_stripped(s, at, end - at, chars)) break;
        end = at;
    }
    return qn__str_part(h, s, begin, end);
}

static qn_val strip(qn_call *c, bool left, bool right)
{
    const qn_vstr *chars = c->args[0].type == QN_VAL_none ? NULL : qn__arg_str(c, 0);
    return qn__str_strip(c->h, c->self.s, chars, left, right);
}
qn_val qn__method_str_strip(qn_call *c) { return strip(c, true, true); }
qn_val qn__method_str_lstrip(qn_call *c) { return strip(c, true, false); }
qn_val qn__method_str_rstrip(qn_call *c) { return strip(c, false, true); }

static bool begins(const qn_vstr *s, uint32_t at, uint32_t end, const qn_vstr *with)
{
    return end >= at && end - at >= with->n && memcmp(s->data + at, with->data, with->n) == 0;
}

/* The bytes [*from, *to) of the part that start and end, arguments i and i + 1, mean; false when start is behind. */
static bool range_of(qn_call *c, int i, uint32_t *from, uint32_t *to)
{
    const int64_t n = c->self.s->n_chars;
    int64_t start = qn__arg_int(c, i, 0), end = qn__arg_int(c, i + 1, n);
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (end < 0) end = end + n < 0 ? 0 : end + n;
    if (end > n) end = n;
    if (start > n || start > end) return false;
    *from = qn__str_byte(c->self.s, (uint32_t)start);
    *to = qn__str_byte(c->self.s, (uint32_t)end);
    return true;
}

static qn_val with_affix(qn_call *c, bool prefix)
{
    uint32_t from, to;
    const qn_vstr *s = c->self.s;
    if (!range_of(c, 1, &from, &to)) return qn__bool(false);
    const bool many = c->args[0].type == QN_VAL_list && c->args[0].l->kind == QN_LIST_tuple;
    if (!many && !qn__arg_str(c, 0)) return nothing();
    for (uint32_t i = 0; i < (many ? c->args[0].l->n : 1); i++) {
        const qn_val affix = many ? c->args[0].l->items[i] : c->args[0];
        if (!qn__is_str(affix)) return QN_RAISE(c->h, "a string is needed, not %s", qn__type_name(affix));
        if (affix.s->n > to - from) continue;
        if (begins(s, prefix ? from : to - affix.s->n, to, affix.s)) return qn__bool(true);
    }
    return qn__bool(false);
}
qn_val qn__method_str_startswith(qn_call *c) { return with_affix(c, true); }
qn_val qn__method_str_endswith(qn_call *c) { return with_affix(c, false); }

qn_val qn__method_str_removeprefix(qn_call *c)
{
    const qn_vstr *s = c->self.s, *affix = qn__arg_str(c, 0);
    return affix && begins(s, 0, s->n, affix) ? qn__str_part(c->h, s, affix->n, s->n) : c->self;
}

qn_val qn__method_str_removesuffix(qn_call *c)
{
    const qn_vstr *s = c->self.s, *affix = qn__arg_str(c, 0);
    const bool ends = affix && affix->n && affix->n <= s->n && begins(s, s->n - affix->n, s->n, affix);
    return ends ? qn__str_part(c->h, s, 0, s->n - affix->n) : c->self;
}

/* ---- finding ---------------------------------------------------------------------------------- */

static int64_t last_find(const qn_vstr *s, const qn_vstr *what, uint32_t from, uint32_t to)
{
    for (uint32_t at = to; at + 1 > from; at--) {
        if (begins(s, at, to, what) && ((unsigned char)s->data[at] & 0xC0) != 0x80) return at;
        if (at == 0) break;
    }
    return -1;
}

static int64_t chars_to(const qn_vstr *s, int64_t byte)
{
    int64_t n = 0;
    for (int64_t i = 0; i < byte; i++) n += ((unsigned char)s->data[i] & 0xC0) != 0x80;
    return n;
}

static qn_val find(qn_call *c, bool last, bool must)
{
    uint32_t from, to;
    int64_t at = -1;
    const qn_vstr *s = c->self.s, *what = qn__arg_str(c, 0);
    if (!what || !qn__heap_work(c->h, s->n)) return nothing();
    if (range_of(c, 1, &from, &to)) {
        at = last ? last_find(s, what, from, to) : qn__str_find(s, what, from);
        if (at + what->n > to) at = -1;
    }
    if (at < 0 && must) return QN_RAISE(c->h, "substring not found");
    return qn__int(at < 0 ? -1 : chars_to(s, at));
}
qn_val qn__method_str_find(qn_call *c) { return find(c, false, false); }
qn_val qn__method_str_rfind(qn_call *c) { return find(c, true, false); }
qn_val qn__method_str_index(qn_call *c) { return find(c, false, true); }
qn_val qn__method_str_rindex(qn_call *c) { return find(c, true, true); }

qn_val qn__method_str_count(qn_call *c)
{
    uint32_t from, to;
    int64_t n = 0;
    const qn_vstr *what = qn__arg_str(c, 0);
    if (!what || !range_of(c, 1, &from, &to)) return qn__int(0);
    if (!what->n) return qn__int(chars_to(c->self.s, to) - chars_to(c->self.s, from) + 1);
    for (int64_t at; (at = qn__str_find(c->self.s, what, from)) >= 0 && at + what->n <= to; n++)
        from = (uint32_t)at + what->n;
    return qn__int(n);
}

qn_val qn__str_replace(qn_heap *h, const qn_vstr *s, const qn_vstr *old, const qn_vstr *by, int64_t count)
{
    qn_vbuf b = {.h = h};
    uint32_t at = 0;
    if (count < 0) count = INT64_MAX;
    if (!old->n) { /* between all characters, and at both ends */
        for (; count > 0 && h->status == QN_OK; count--) {
            qn__buf_str(&b, by);
            if (at == s->n) break;
            const uint32_t n = (uint32_t)qn__utf8_len(s->data + at, s->n - at);
            qn__buf_part(&b, s, at, at + n);
            at += n;
        }
    }
    for (int64_t hit; old->n && count > 0 && (hit = qn__str_find(s, old, at)) >= 0 && h->status == QN_OK; count--) {
        qn__buf_part(&b, s, at, (uint32_t)hit);
        qn__buf_str(&b, by);
        at = (uint32_t)hit + old->n;
    }
    if (!at && !b.n) return of(s);
    qn__buf_part(&b, s, at, s->n);
    return qn__buf_val(&b);
}

qn_val qn__method_str_replace(qn_call *c)
{
    const qn_vstr *old = qn__arg_str(c, 0), *by = qn__arg_str(c, 1);
    return old && by ? qn__str_replace(c->h, c->self.s, old, by, qn__arg_int(c, 2, -1)) : nothing();
}

/* ---- splitting and joining --------------------------------------------------------------------- */

static qn_val split_spaces(qn_call *c, int64_t max)
{
    const qn_vstr *s = c->self.s;
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, 0);
    uint32_t at = 0, n;
    for (;;) {
        while (at < s->n && qn__py_space(char_at(s, at, &n))) at += n;
        if (at >= s->n || !l) break;
        uint32_t end = at;
        if (max-- == 0) {
            qn__list_add(c->h, l, qn__str_part(c->h, s, at, s->n));
            break;
        }
        while (end < s->n && !qn__py_space(char_at(s, end, &n))) end += n;
        qn__list_add(c->h, l, qn__str_part(c->h, s, at, end));
        at = end;
    }
    return l ? qn__of_list(l) : nothing();
}

static void reverse(qn_vlist *l)
{
    for (uint32_t i = 0; l && i < l->n / 2; i++) {
        const qn_val v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
}

static qn_val rsplit_spaces(qn_call *c, int64_t max)
{
    const qn_vstr *s = c->self.s;
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, 0);
    uint32_t end = s->n, n;
    for (;;) {
        while (end > 0 && qn__py_space(char_at(s, char_before(s, end), &n))) end = char_before(s, end);
        if (end == 0 || !l) break;
        uint32_t at = end;
        if (max-- == 0) {
            qn__list_add(c->h, l, qn__str_part(c->h, s, 0, end));
            break;
        }
        while (at > 0 && !qn__py_space(char_at(s, char_before(s, at), &n))) at = char_before(s, at);
        qn__list_add(c->h, l, qn__str_part(c->h, s, at, end));
        end = at;
    }
    reverse(l);
    return l ? qn__of_list(l) : nothing();
}

static bool separator(qn_call *c, const qn_vstr **sep)
{
    *sep = c->args[0].type == QN_VAL_none ? NULL : qn__arg_str(c, 0);
    if (*sep && !(*sep)->n) QN_RAISE(c->h, "empty separator");
    return c->h->status == QN_OK;
}

qn_val qn__method_str_split(qn_call *c)
{
    const qn_vstr *s = c->self.s, *sep;
    int64_t max = qn__arg_int(c, 1, -1);
    if (!separator(c, &sep)) return nothing();
    if (!sep) return split_spaces(c, max);
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, 0);
    uint32_t at = 0;
    for (int64_t hit; l && max-- != 0 && (hit = qn__str_find(s, sep, at)) >= 0 && c->h->status == QN_OK;) {
        qn__list_add(c->h, l, qn__str_part(c->h, s, at, (uint32_t)hit));
        at = (uint32_t)hit + sep->n;
    }
    qn__list_add(c->h, l, qn__str_part(c->h, s, at, s->n));
    return l ? qn__of_list(l) : nothing();
}

qn_val qn__method_str_rsplit(qn_call *c)
{
    const qn_vstr *s = c->self.s, *sep;
    int64_t max = qn__arg_int(c, 1, -1);
    if (!separator(c, &sep)) return nothing();
    if (!sep) return rsplit_spaces(c, max);
    qn_vlist *l = qn__list_new(c->h, QN_LIST_list, 0);
    uint32_t end = s->n;
    for (int64_t hit; l && max-- != 0 && (hit = last_find(s, sep, 0, end)) >= 0 && c->h->status == QN_OK;) {
        qn__list_add(c->h, l, qn__str_part(c->h, s, (uint32_t)hit + sep->n, end));
        end = (uint32_t)hit;
    }
    qn__list_add(c->h, l, qn__str_part(c->h, s, 0, end));
    reverse(l);
    return l ? qn__of_list(l) : nothing();
}

static qn_val partition(qn_call *c, bool last)
{
    const qn_vstr *s = c->self.s, *sep;
    if (!separator(c, &sep) || !sep) return nothing();
    const int64_t hit = last ? last_find(s, sep, 0, s->n) : qn__str_find(s, sep, 0);
    qn_vlist *l = qn__list_new(c->h, QN_LIST_tuple, 3);
    if (!l) return nothing();
    const qn_val none = empty(c->h);
    if (hit < 0) {
        qn__list_add(c->h, l, last ? none : c->self);
        qn__list_add(c->h, l, none);
        qn__list_add(c->h, l, last ? c->self : none);
    } else {
        qn__list_add(c->h, l, qn__str_part(c->h, s, 0, (uint32_t)hit));
        qn__list_add(c->h, l, of(sep));
        qn__list_add(c->h, l, qn__str_part(c->h, s, (uint32_t)hit + sep->n, s->n));
    }
    return qn__of_list(l);
}
qn_val qn__method_str_partition(qn_call *c) { return partition(c, false); }
qn_val qn__method_str_rpartition(qn_call *c) { return partition(c, true); }

static bool ends_line(uint32_t cp)
{
    return (cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

qn_vlist *qn__split_lines(qn_heap *h, const qn_vstr *s, bool keep_ends)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_list, 0);
    uint32_t begin = 0;
    for (uint32_t at = 0, n; l && at < s->n && h->status == QN_OK; at += n) {
        const uint32_t cp = char_at(s, at, &n), end = at;
        if (!ends_line(cp)) continue;
        if (cp == '\r' && at + 1 < s->n && s->data[at + 1] == '\n') n = 2;
        qn__list_add(h, l, qn__str_part(h, s, begin, keep_ends ? at + n : end));
        begin = at + n;
    }
    if (begin < s->n) qn__list_add(h, l, qn__str_part(h, s, begin, s->n));
    return l;
}

qn_val qn__method_str_splitlines(qn_call *c)
{
    qn_vlist *l = qn__split_lines(c->h, c->self.s, qn__arg_bool(c, 0, false));
    return l ? qn__of_list(l) : nothing();
}

qn_val qn__method_str_join(qn_call *c)
{
    const qn_vlist *l = qn__val_iterate(c->h, c->args[0]);
    qn_vbuf b = {.h = c->h};
    for (uint32_t i = 0; l && i < l->n && c->h->status == QN_OK; i++) {
        if (!qn__is_str(l->items[i]))
            return QN_RAISE(c->h, "sequence item %u: expected str instance, %s found", i, qn__type_name(l->items[i]));
        if (i) qn__buf_str(&b, c->self.s);
        qn__buf_str(&b, l->items[i].s);
    }
    return qn__buf_val(&b);
}

/* ---- width ------------------------------------------------------------------------------------ */

qn_val qn__str_pad(qn_heap *h, const qn_vstr *s, int64_t before, int64_t after, const qn_vstr *fill)
{
    if (!fill) fill = &qn__blank;
    if (fill->n_chars != 1) return QN_RAISE(h, "The fill character must be exactly one character long");
    qn_vbuf b = {.h = h};
    qn__buf_repeat(&b, fill, before);
    qn__buf_str(&b, s);
    qn__buf_repeat(&b, fill, after);
    return qn__buf_val(&b);
}

static int64_t missing(qn_call *c)
{
    const int64_t width = qn__arg_int(c, 0, 0);
    return width > c->self.s->n_chars ? width - c->self.s->n_chars : 0;
}
qn_val qn__method_str_ljust(qn_call *c) { return qn__str_pad(c->h, c->self.s, 0, missing(c), qn__arg_str(c, 1)); }
qn_val qn__method_str_rjust(qn_call *c) { return qn__str_pad(c->h, c->self.s, missing(c), 0, qn__arg_str(c, 1)); }
qn_val qn__method_str_center(qn_call *c)
{
    const int64_t n = missing(c), left = n / 2 + (n & qn__arg_int(c, 0, 0) & 1);
    return qn__str_pad(c->h, c->self.s, left, n - left, qn__arg_str(c, 1));
}

qn_val qn__method_str_zfill(qn_call *c)
{
    static const qn_vstr zero = {.data = "0", .n = 1, .n_chars = 1, .trust = QN_TRUST_all};
    const qn_vstr *s = c->self.s;
    const uint32_t sign = s->n && (s->data[0] == '-' || s->data[0] == '+');
    qn_vbuf b = {.h = c->h};
    qn__buf_part(&b, s, 0, sign);
    qn__buf_repeat(&b, &zero, missing(c));
    qn__buf_part(&b, s, sign, s->n);
    return qn__buf_val(&b);
}

qn_val qn__method_str_expandtabs(qn_call *c)
{
    const qn_vstr *s = c->self.s;
    const int64_t size = qn__arg_int(c, 0, 8);
    int64_t column = 0;
    qn_vbuf b = {.h = c->h};
    for (uint32_t at = 0, n; at < s->n && c->h->status == QN_OK; at += n) {
        const uint32_t cp = char_at(s, at, &n);
        if (cp == '\t') {
            for (int64_t i = size > 0 ? size - column % size : 0; i > 0 && c->h->status == QN_OK; i--, column++)
                qn__buf_puts(&b, " ");
            continue;
        }
        column = cp == '\n' || cp == '\r' ? 0 : column + 1;
        qn__buf_part(&b, s, at, at + n);
    }
    return qn__buf_val(&b);
}

qn_val qn__method_str_format(qn_call *c) { return qn__str_format(c->r, c->self.s, c->all); }
