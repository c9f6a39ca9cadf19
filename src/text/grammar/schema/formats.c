/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/formats.c -- formats of strings, as patterns: a format is asserted, unlike what JSON schema
 * does of itself. Each follows its RFC but for leap seconds, which only Z and +00:00 have. */
#include "text/grammar/schema/schema.h"

#define YEAR      "([0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})" /* not 0000 */
/* clang-format off */
#define DAYS /* but for the 29th of February */ \
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])" \
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)" \
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
/* clang-format on */
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE      "(" YEAR "-" DAYS "|" LEAP_YEAR "-02-29)"
#define HOUR      "([01][0-9]|2[0-3])"
#define FRACTION  "(\\.[0-9]+)?"
#define TIME \
    "(" HOUR ":[0-5][0-9]:[0-5][0-9]" FRACTION "([Zz]|[+-]" HOUR ":[0-5][0-9])|23:59:60" FRACTION "([Zz]|[+-]00:00))"

#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  OCTET "(\\." OCTET "){3}"
#define H     "[0-9A-Fa-f]{1,4}"
#define IPV6 \
    "((" H ":){7}" H "|(" H ":){6}" IPV4 "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H \
    ":){1,4}(:" H "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H "){1,6}|:((:" H \
    "){1,7}|:)|(" H ":){1,5}:" IPV4 "|(" H ":){1,4}(:" H "){0,1}:" IPV4 "|(" H ":){1,3}(:" H "){0,2}:" IPV4 "|(" H \
    ":){1,2}(:" H "){0,3}:" IPV4 "|" H ":(:" H "){0,4}:" IPV4 "|:(:" H "){0,5}:" IPV4 ")"

#define ATEXT    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL    "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define LOCAL    "(" ATEXT "(\\." ATEXT ")*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")"
#define DOMAIN   "(" LABEL "(\\." LABEL ")*|\\[(" IPV4 "|IPv6:" IPV6 ")\\])"
#define EMAIL    LOCAL "@" DOMAIN

#define PCT      "%[0-9A-Fa-f]{2}"
#define PCHAR    "([A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define TAIL     "(/" PCHAR "*)*"
#define QUERY    "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define ROOTLESS "/(" PCHAR "+" TAIL ")?|" PCHAR "+" TAIL "|"
#define URI \
    "[A-Za-z][A-Za-z0-9+.-]*:(//(([A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(\\[(" IPV6 \
    "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|([A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*)(:[0-9]*)?" TAIL \
    "|" ROOTLESS ")" QUERY

const char *qn__format_pattern(const qn_vstr *name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "[Tt]" TIME "$"},
        {"uuid", "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
        {"ipv4", "^" IPV4 "$"},
        {"ipv6", "^" IPV6 "$"},
        {"email", "^(" EMAIL ")$"},
        {"uri", "^(" URI ")$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strlen(formats[i].name) == name->n && memcmp(formats[i].name, name->data, name->n) == 0)
            return formats[i].pattern;
    return NULL;
}

/* ---- formats that are long ------------------------------------------------------------------------------------- */

static qn_status pattern_within(qn_arena *arena, const char *pattern, int64_t max, qn_nfa *out, qn_error *err)
{
    qn_nfa length;
    QN_TRY(qn__regex_compile(arena, pattern, strlen(pattern), out, err));
    for (int i = 0; i < 2; i++) QN_TRY(qn__nfa_not(arena, out, out, err)); /* in one state at a time */
    QN_TRY(qn__nfa_reduce(arena, out, err));
    QN_TRY(qn__nfa_length(arena, 0, max, &length, err));
    return qn__nfa_both(arena, out, &length, out, err);
}

/* RFC 5321: of at most 64 and 255 characters; fewer where both would be more than max. */
static qn_status email_within(qn_arena *arena, int64_t max, qn_nfa *out, qn_error *err)
{
    const int64_t local = max >= 180 ? 64 : max / 3, domain = max - local - 1;
    qn_nfa rest;
    QN_TRY(pattern_within(arena, "^" LOCAL "@$", local + 1, out, err));
    QN_TRY(pattern_within(arena, "^" DOMAIN "$", domain < 253 ? domain : 253, &rest, err));
    return qn__nfa_then(arena, out, &rest, out, err);
}

/* Scheme and host have their own most, the path and what follows what is left; without a host at most 512. */
static qn_status uri_within(qn_arena *arena, int64_t max, qn_nfa *out, qn_error *err)
{
#define SCHEME  "[A-Za-z][A-Za-z0-9+.-]{0,14}:"
#define HOST(n) "(\\[" IPV6 "\\]|([A-Za-z0-9._~!$&'()*+,;=-]|" PCT "){0," n "})(:[0-9]{0,5})?"
    enum {
        SCHEME_MAX = 16,
        PORT_MAX = 6,
        IPV6_MAX = 47,
        SHORT_MAX = 3 * 16,
        LONG_MAX = 3 * 80,
        USER_MAX = 3 * 21 + 1,
        BEHIND_MAX = 1760
    };
    const bool is_long = max >= 600;
    const int64_t before = SCHEME_MAX + 2 + (is_long ? USER_MAX + LONG_MAX : SHORT_MAX) + PORT_MAX;
    const int64_t rest = max - SCHEME_MAX < 512 ? max - SCHEME_MAX : 512, behind = max - before;
    const char *host = is_long ? "^" SCHEME "//(([A-Za-z0-9._~!$&'()*+,;=:-]|" PCT "){0,21}@)?" HOST("80") "$"
                               : "^" SCHEME "//" HOST("16") "$";
    qn_nfa path, other;
    _Static_assert(IPV6_MAX <= SHORT_MAX, "an address is no longer than another host");
    QN_TRY(qn__regex_compile(arena, host, strlen(host), out, err));
    QN_TRY(pattern_within(arena, "^" TAIL QUERY "$", behind < BEHIND_MAX ? behind : BEHIND_MAX, &path, err));
    QN_TRY(qn__nfa_then(arena, out, &path, out, err));
    QN_TRY(qn__regex_compile(arena, "^" SCHEME "$", strlen("^" SCHEME "$"), &other, err));
    QN_TRY(pattern_within(arena, "^(" ROOTLESS ")" QUERY "$", rest, &path, err));
    QN_TRY(qn__nfa_then(arena, &other, &path, &other, err));
    return qn__nfa_either(arena, out, &other, out, err);
}

static bool copy_of(qn_arena *arena, const qn_nfa *from, qn_nfa *to)
{
    const size_t n = (size_t)from->n_states, n_edges = n ? (size_t)from->begin[n] : 0;
    *to = (qn_nfa){.n_states = from->n_states,
                   .begin = qn__arena_array(arena, n + 1, sizeof *to->begin),
                   .edges = qn__arena_array(arena, n_edges + 1, sizeof *to->edges),
                   .accept = qn__arena_array(arena, n + 1, sizeof *to->accept)};
    if (!to->begin || !to->edges || !to->accept) return false;
    if (n) memcpy(to->begin, from->begin, (n + 1) * sizeof *to->begin);
    if (n_edges) memcpy(to->edges, from->edges, n_edges * sizeof *to->edges);
    if (n) memcpy(to->accept, from->accept, n * sizeof *to->accept);
    return true;
}

bool qn__format_within(qn_arena *arena, const char *pattern, int64_t min, int64_t max, qn_nfa *out, qn_status *status,
                       qn_error *err)
{
    enum { LEAST = 100, MOST_MIN = 50 };
    qn_arena work;
    qn_nfa length, made;
    const bool email = strcmp(pattern, "^(" EMAIL ")$") == 0, uri = strcmp(pattern, "^(" URI ")$") == 0;
    if ((!email && !uri) || max < LEAST || min > MOST_MIN) return false;
    qn__arena_init(&work, 0);
    *status = email ? email_within(&work, max, &made, err) : uri_within(&work, max, &made, err);
    if (*status == QN_OK && min > 2) { /* neither has fewer */
        *status = qn__nfa_length(&work, min, -1, &length, err);
        if (*status == QN_OK) *status = qn__nfa_both(&work, &made, &length, &made, err);
    }
    if (*status == QN_OK && !copy_of(arena, &made, out))
        *status = QN_FAIL(err, nomem, "out of memory: %d states of a format", made.n_states);
    qn__arena_deinit(&work);
    return true;
}
