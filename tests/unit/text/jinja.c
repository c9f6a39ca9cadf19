/* SPDX-License-Identifier: MIT */
/* tests/unit/text/jinja.c -- the template interpreter beside jinja2 3.1.6 (tests/oracle/templates.py made the figures):
 * the same text where it renders, an error where it raises, the template's own message word for word. Then trust,
 * limits, what is refused, and failing allocations. */
#include "../base/failing.h"

#include "base/str.h"
#include "sha256.h"
#include "text/jinja/jinja.h"

#include <quern/gguf.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define DATA       QN_TESTS_DIR "/unit/text/jinja/"
#define FIXED      INT64_C(1767225600) /* 2026-01-01, as in templates.py */
#define STRICT     (&(qn_jinja_options){.now = FIXED, .strict = true})
#define PERMISSIVE (&(qn_jinja_options){.now = FIXED})

/* Each of these runs to the limit of steps, in sanitizers ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { WORK_STEP = 2 };
#else
enum { WORK_STEP = 1 };
#endif

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*n + 1);
    assert_int_equal(fread(text, 1, *n, f), *n);
    text[*n] = '\0';
    fclose(f);
    return text;
}

static qn_val load(qn_heap *h, const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    assert_non_null(text);
    const qn_val v = qn__parse_json(h, text, n, true);
    free(text);
    assert_int_equal(h->status, QN_OK);
    return v;
}

static qn_val member(qn_val of, const char *key)
{
    qn_val v = {.type = QN_VAL_undefined};
    if (of.type == QN_VAL_dict) qn__dict_find(of.d, key, &v);
    return v;
}

typedef struct outcome {
    qn_status status;
    qn_error err;
    char *text; /* NULL unless QN_OK */
    size_t n;
    char trust[256]; /* a letter a byte: T or u; what fits */
} outcome;

static void run(const qn_jinja *j, const qn_vdict *variables, const qn_jinja_options *options, outcome *o)
{
    qn_heap h;
    qn__jinja_heap_init(&h, options, &o->err);
    const qn_val v = qn__jinja_render(j, &h, variables, options);
    o->status = h.status;
    if (o->status == QN_OK) {
        assert_true(qn__is_str(v));
        o->n = v.s->n;
        o->text = malloc(o->n + 1);
        memcpy(o->text, v.s->data, o->n + 1);
        for (uint32_t i = 0; i < v.s->n && i < sizeof o->trust - 1; i++)
            o->trust[i] = v.s->trust == QN_TRUST_all || (v.s->trust == QN_TRUST_mixed && v.s->map[i]) ? 'T' : 'u';
    }
    qn__jinja_heap_deinit(&h);
}

static outcome render(const char *source, size_t n, const qn_vdict *variables, const qn_jinja_options *options)
{
    outcome o = {0};
    qn_jinja *j;
    o.status = qn__jinja_compile(source, n, &j, &o.err);
    if (o.status != QN_OK) return o;
    run(j, variables, options, &o);
    qn__jinja_destroy(j);
    return o;
}

/* ---- beside jinja2 ----------------------------------------------------------------------------- */

static void compare(const char *what, outcome o, qn_val want)
{
    const qn_val text = member(want, "text"), raised = member(want, "raise");
    if (qn__is_str(text)) {
        if (o.status != QN_OK) fail_msg("%s: %s; jinja2 gives \"%s\"", what, o.err.text, text.s->data);
        if (o.n != text.s->n || memcmp(o.text, text.s->data, o.n) != 0)
            fail_msg("%s:\n%s\njinja2:\n%s", what, o.text, text.s->data);
    } else if (qn__is_str(raised)) {
        assert_int_equal(o.status, QN_STATUS_cancelled);
        assert_string_equal(o.err.text, raised.s->data);
    } else if (o.status == QN_OK) {
        fail_msg("%s: gives \"%s\", jinja2 raises", what, o.text);
    } else {
        if (o.status != QN_STATUS_invalid && o.status != QN_STATUS_format && o.status != QN_STATUS_limit)
            fail_msg("%s: %s: %s", what, qn_status_name(o.status), o.err.text);
        assert_true(o.err.text[0] != '\0');
    }
    free(o.text);
}

static void compare_lines(const char *path, size_t at_least)
{
    qn_heap h;
    size_t n, count = 0;
    qn__jinja_heap_init(&h, STRICT, NULL);
    const qn_val variables = load(&h, DATA "variables.json");
    char *text = read_file(path, &n);
    assert_non_null(text);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        const qn_val row = qn__parse_json(&h, line, (size_t)(end - line), true);
        assert_int_equal(h.status, QN_OK);
        const qn_val template = member(row, "template");
        compare(template.s->data, render(template.s->data, template.s->n, variables.d, STRICT), row);
    }
    assert_true(count >= at_least);
    free(text);
    qn__jinja_heap_deinit(&h);
}

static void expressions(void **state)
{
    (void)state;
    compare_lines(DATA "expressions.jsonl", 600);
}

static void statements(void **state)
{
    (void)state;
    compare_lines(DATA "statements.jsonl", 120);
}

static const qn_vdict *with_defaults(qn_heap *h, qn_val conversation)
{
    qn_vdict *d = qn__dict_new(h);
    qn__dict_set(h, d, qn__text_val(h, "add_generation_prompt"), qn__bool(true));
    qn__dict_set(h, d, qn__text_val(h, "bos_token"), qn__text_val(h, "<s>"));
    qn__dict_set(h, d, qn__text_val(h, "eos_token"), qn__text_val(h, "</s>"));
    qn__dict_set(h, d, qn__text_val(h, "tools"), qn__none());
    for (uint32_t i = 0; i < conversation.d->n; i++)
        qn__dict_set(h, d, conversation.d->keys[i], conversation.d->values[i]);
    return d;
}

static void templates_of_models(void **state)
{
    (void)state;
    qn_heap h;
    struct stat st;
    if (stat(QN_SHARED_DIR "/templates", &st) != 0) {
        print_message("templates_of_models: skipped, %s/templates is not there\n", QN_SHARED_DIR);
        skip();
    }
    qn__jinja_heap_init(&h, STRICT, NULL);
    const qn_val conversations = load(&h, DATA "conversations.json"), figures = load(&h, DATA "templates.json");
    assert_true(figures.d->n >= 44 && conversations.d->n >= 20);
    for (uint32_t i = 0; i < figures.d->n; i++) {
        char path[512], what[512], hex[65], got[96];
        size_t n;
        qn_jinja *j;
        qn_error err;
        const char *name = figures.d->keys[i].s->data;
        snprintf(path, sizeof path, "%s/templates/%s", QN_SHARED_DIR, name);
        char *source = read_file(path, &n);
        assert_non_null(source);
        if (qn__jinja_compile(source, n, &j, &err) != QN_OK) fail_msg("%s: %s", name, err.text);
        for (uint32_t k = 0; k < conversations.d->n; k++) {
            const char *conversation = conversations.d->keys[k].s->data;
            const qn_val want = member(figures.d->values[i], conversation);
            const qn_vdict *variables = with_defaults(&h, conversations.d->values[k]);
            snprintf(what, sizeof what, "%s, %s", name, conversation);
            outcome o = {0};
            run(j, variables, STRICT, &o);
            if (!qn__is_str(want)) {
                compare(what, o, want);
                continue;
            }
            if (o.status != QN_OK) fail_msg("%s: %s", what, o.err.text);
            sha256_hex(o.text, o.n, hex);
            snprintf(got, sizeof got, "%zu %s", o.n, hex);
            if (strcmp(got, want.s->data) != 0) fail_msg("%s: %s, jinja2 %s:\n%s", what, got, want.s->data, o.text);
            free(o.text);
        }
        qn__jinja_destroy(j);
        free(source);
    }
    qn__jinja_heap_deinit(&h);
}

/* ---- trust ------------------------------------------------------------------------------------- */

/* u is an untrusted "<x>", the rest the template's own. */
static void trusts(const char *source, const char *text, const char *trust)
{
    qn_heap h;
    qn__jinja_heap_init(&h, PERMISSIVE, NULL);
    const char *json =
        "{\"u\": \"<x>\", \"words\": [\"<a\", \"b>\"], \"o\": {\"<k>\": \"<v>\"}, \"ss\": \"stra\\u00dfe\"}";
    const qn_val variables = qn__parse_json(&h, json, strlen(json), false);
    const outcome o = render(source, strlen(source), variables.d, PERMISSIVE);
    if (o.status != QN_OK) fail_msg("%s: %s", source, o.err.text);
    assert_string_equal(o.text, text);
    assert_string_equal(o.trust, trust);
    free(o.text);
    qn__jinja_heap_deinit(&h);
}

static void trust(void **state)
{
    (void)state;
    trusts("<x>{{ u }}", "<x><x>", "TTTuuu");
    trusts("{{ '<' ~ u ~ '>' }}", "<<x>>", "TuuuT");
    trusts("{{ ('<' + u + '>')[1:4] }}", "<x>", "uuu");
    trusts("{{ ('<' + u)[::-1] }}", ">x<<", "uuuT");
    trusts("{{ u|upper }}{{ u.title() }}{{ ss.upper() }}", "<X><X>STRASSE", "uuuuuuuuuuuuu");
    trusts("{{ u|tojson }}", "\"<x>\"", "TuuuT");
    trusts("{{ o|tojson }}", "{\"<k>\": \"<v>\"}", "TTuuuTTTTuuuTT");
    trusts("{{ o }}", "{'<k>': '<v>'}", "TTuuuTTTTuuuTT");
    trusts("{{ u|replace('x', 'y') }}", "<y>", "uTu");
    trusts("{{ 'axb'|replace('x', u) }}", "a<x>b", "TuuuT");
    trusts("{{ words|join }}", "<ab>", "uuuu");
    trusts("{{ words|join('-') }}", "<a-b>", "uuTuu");
    trusts("{{ '<%s>' % u }}", "<<x>>", "TuuuT");
    trusts("{{ '<{}>'.format(u) }}", "<<x>>", "TuuuT");
    trusts("{{ '%5s' % u }}", "  <x>", "TTuuu");
    trusts("{{ u.split('x')[0] }}", "<", "u");
    trusts("{% for c in '<' + u %}{{ c }}{% endfor %}", "<<x>", "Tuuu");
    trusts("{% set t %}<{{ u }}{% endset %}{{ t|trim }}", "<<x>", "Tuuu");
    trusts("{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(u) }}", "[<x>]", "TuuuT");
    trusts("{% filter lower %}A{{ u }}{% endfilter %}", "a<x>", "Tuuu");
    trusts("{{ u|indent(2, true) }}", "  <x>", "TTuuu");
    trusts("{{ u|escape }}", "&lt;x&gt;", "uuuuuuuuu");
    trusts("{{ '<%s'|safe|format(u) }}", "<&lt;x&gt;", "Tuuuuuuuuu");
    trusts("{{ u|string|list|first }}", "<", "u");
    trusts("{{ '{\"a\": \"<\"}'|from_json }}", "{'a': '<'}", "TTTTTTTTTT");
}

/* ---- what jinja2's sandbox lacks --------------------------------------------------------------- */

static void gives(const char *source, const char *text)
{
    const outcome o = render(source, strlen(source), &(qn_vdict){0}, PERMISSIVE);
    if (o.status != QN_OK) fail_msg("%s: %s", source, o.err.text);
    assert_string_equal(o.text, text);
    free(o.text);
}

static void lists_change(void **state)
{
    (void)state;
    gives("{% set x = [1] %}{% set _ = x.append(2) %}{{ x }}{{ x.pop() }}{{ x.pop(0) }}{{ x }}", "[1, 2]21[]");
    gives("{% set x = [3] %}{% set _ = x.extend([1, 2]) %}{% set _ = x.insert(1, 9) %}{{ x }}", "[3, 9, 1, 2]");
    gives("{% set x = [3, 1] %}{% set _ = x.remove(3) %}{% set _ = x.reverse() %}{{ x }}", "[1]");
    gives("{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}, c=3) %}{{ d.pop('a') }}{{ d }}", "1{'b': 2, 'c': 3}");
    gives("{% set d = {} %}{% for i in range(20) %}{% set _ = d.setdefault(i, i * 2) %}{% endfor %}"
          "{% for i in range(15) %}{% set _ = d.pop(i) %}{% endfor %}{{ d }}",
          "{15: 30, 16: 32, 17: 34, 18: 36, 19: 38}");
    gives("{{ [1, 2, 3]|select('odd')|length }}{{ ([1, 2]|map('string'))[1] }}", "22");
    gives("{{ ('[1, {\"a\": null}]'|from_json)[1] }}", "{'a': None}");
    gives("{% set x = [] %}{% set _ = x.append(x) %}{% set y = [] %}{% set _ = y.append(y) %}{{ x == y }}", "False");
    /* the condition of a loop makes the list longer that is being sorted */
    gives("{% set x = [] %}{% for i in range(40) if not i or x.append(i) %}{% set _ = x.append(loop) %}"
          "{{ x|sort(attribute='last')|length }} {{ x|length }}{% endfor %}",
          "1 40");
}

/* ---- limits and refusals ------------------------------------------------------------------------ */

/* After so many steps; 0: the usual ones. */
static void refuses_after(int64_t steps, const char *source, qn_status status, const char *words)
{
    const clock_t begin = clock();
    const qn_jinja_options options = {.now = FIXED, .max_steps = steps};
    const outcome o = render(source, strlen(source), &(qn_vdict){0}, &options);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (o.status != status) fail_msg("%.60s: %s, %s", source, qn_status_name(o.status), o.err.text);
    if (!strstr(o.err.text, words)) fail_msg("%.60s: \"%s\" lacks \"%s\"", source, o.err.text, words);
    assert_true(seconds < 20); /* a second without sanitizers */
    free(o.text);
}

static void refuses(const char *source, qn_status status, const char *words)
{
    refuses_after(0, source, status, words);
}

static void refused_by_name(void **state)
{
    (void)state;
    refuses("a\nb {% import 'x' as y %}", QN_STATUS_format, "line 2, column 6: 'import'");
    refuses("{% include 'x' %}", QN_STATUS_format, "'include'");
    refuses("{% extends 'x' %}", QN_STATUS_format, "'extends'");
    refuses("{{ 1|nosuch }}", QN_STATUS_format, "line 1, column 6: no filter named 'nosuch'");
    refuses("{% if false %}{{ 1 is nosuch }}{% endif %}", QN_STATUS_format, "no test named 'nosuch'");
    refuses("{{ a.b.c }}", QN_STATUS_invalid, "line 1: 'a' is undefined");
    refuses("\n\n{{ {}.b.c }}", QN_STATUS_invalid, "line 3: 'dict object' has no attribute 'b'");
    refuses("{{ \"\xff\" }}", QN_STATUS_format, "byte 4");
}

static char *repeated(const char *begin, const char *middle, size_t n, const char *end)
{
    qn_str s = {0};
    qn__str_puts(&s, begin);
    for (size_t i = 0; i < n; i++) qn__str_puts(&s, middle);
    qn__str_puts(&s, end);
    return qn__str_take(&s, NULL);
}

#define WORK_ON \
    "{% set l = range(99999)|list %}{% set m = range(99999)|list %}{% set s = 'a' * 999999 %}" \
    "{% set t = 'a' * 999999 %}{% set u = '\303\251' * 1000000 %}{% set d = {s: 1} %}"

/* What takes time and no memory: within 0.1 s (10 with sanitizers). The first runs to the usual limit, the others to
 * a twentieth of it (1 s), which is not reached before they begin. */
static void work(void **state)
{
    (void)state;
    static const char *const body[] = {
        "-1 in l",
        "l == m",
        "l|sum",
        "l|max",
        "l.index(99998)",
        "l.count(9)",
        "l|select('eq', 2)|first",
        "l|last",
        "l < m",
        "'b' in s",
        "s == t",
        "s.count('b')",
        "s.find('b')",
        "s.rfind('b')",
        "s.isalpha()",
        "s.islower()",
        "s.istitle()",
        "s|length",
        "{s: 1}[s]",
        "d[s]",
        "u[999999]",
        "u[999998:]",
        "u.find('b')",
        "l.pop(0)",
        "l.insert(0, 1)",
    };
    enum { SOON = 500000 };
    const qn_jinja_options soon = {.now = FIXED, .max_steps = SOON};
    outcome o = render(WORK_ON, strlen(WORK_ON), &(qn_vdict){0}, &soon);
    assert_int_equal(o.status, QN_OK);
    free(o.text);
    for (size_t i = 0; i < ARRAY_LEN(body); i += WORK_STEP) {
        qn_str source = {0};
        qn__str_printf(&source,
                       "%s{%% for i in l %%}{%% for j in m %%}{%% if %s %%}{%% endif %%}{%% endfor %%}{%% endfor %%}",
                       WORK_ON, body[i]);
        const clock_t begin = clock();
        refuses_after(i ? SOON : 0, source.data, QN_STATUS_limit, "");
        if ((double)(clock() - begin) / CLOCKS_PER_SEC > (i ? 1 : 10)) fail_msg("%s takes too long", body[i]);
        qn__str_deinit(&source);
    }
    /* tuples that hold each other many times over */
    refuses("{% set ns = namespace(a=(), b=()) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% set ns.b = "
            "(ns.b, ns.b) %}"
            "{% endfor %}{{ ns.a == ns.b }}",
            QN_STATUS_limit, "steps");
    refuses("{% set ns = namespace(a=()) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: "
            "1} }}",
            QN_STATUS_invalid, "key of a dict");
}

/* A text that a template makes longer and longer is gone on with in place; what was made on the way stays. */
static void growing_texts(void **state)
{
    (void)state;
    gives(
        "{% set ns = namespace(s='x' * 5000, old=[]) %}{% for i in range(300) %}{% set _ = ns.old.append(ns.s) %}"
        "{% set ns.s = ns.s ~ i ~ '\303\251' %}{% set side = ns.old[-1] ~ 'side' %}{% if side[-4:] != 'side' %}bad{% "
        "endif %}{% endfor %}"
        "{{ ns.s|length }} {{ ns.old[299]|length }} {{ ns.old[0]|length }} {{ ns.old[1][-3:] }} {{ ns.s[5000:5006] }} "
        "{{ ns.s == ns.old[299] ~ '299\303\251' }} {{ (ns.s + ns.s)|length }}",
        "6090 6086 5000 x0\303\251 0\303\2511\303\2512\303\251 True 12180");
    trusts("{% set ns = namespace(s='t' * 4200) %}{% for i in range(2) %}{% set ns.s = ns.s ~ u ~ '|' %}{% endfor %}{{ "
           "ns.s[4198:] }}",
           "tt<x>|<x>|", "TTuuuTuuuT");
}

static void limits(void **state)
{
    (void)state;
    refuses("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", QN_STATUS_limit, "");
    refuses("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            QN_STATUS_limit, "MiB");
    refuses("{{ 'x' * 9999999999 }}", QN_STATUS_limit, "MiB");
    refuses("{{ '%9999999s' % 1 ~ '{:99999999}'.format(1) ~ 'a'.center(99999999) }}", QN_STATUS_limit, "MiB");
    refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", QN_STATUS_limit, "deep");
    refuses("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", QN_STATUS_limit, "deep");
    refuses("{% macro m() %}{% for x in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}", QN_STATUS_limit, "deep");
    refuses("{% set ns = namespace() %}{% for x in [1, 2] if not ns.l or ns.l.last %}{% set ns.l = loop %}{% endfor %}",
            QN_STATUS_invalid, "condition of a loop");
    refuses("{% set x = [1] %}{% for i in x if x.append(i) %}{% endfor %}", QN_STATUS_limit, "");
    refuses("{% set x = [] %}{% set _ = x.append(x) %}{{ x }}", QN_STATUS_invalid, "deep");
    refuses("{% set x = [] %}{% set _ = x.append(x) %}{{ x|tojson }}", QN_STATUS_invalid, "deep");
    static const struct {
        const char *begin, *middle, *end;
    } deep[] = {{"{{ ", "(", " }}"},
                {"{{ ", "[", " }}"},
                {"{{ ", "not ", "1 }}"},
                {"{{ ", "-", "1 }}"},
                {"{{ 1", "+1", " }}"},
                {"{{ x", ".a", " }}"},
                {"{{ x", "|e", " }}"},
                {"{{ 1 ", "if 1 else 1 ", "}}"},
                {"{{ ", "{1:", " }}"},
                {"", "{% if 1 %}", ""},
                {"{% if 1 %}", "{% elif 1 %}", "{% endif %}"},
                {"{{ x", "[0", " }}"},
                {"", "{% for a in b %}", ""},
                {"{{ ", "x(", " }}"},
                {"{{ 1 ", "< 1 ", "}}"}};
    for (size_t i = 0; i < ARRAY_LEN(deep); i++) {
        char *source = repeated(deep[i].begin, deep[i].middle, 60000, deep[i].end);
        refuses(source, QN_STATUS_format, "");
        qn_free(source);
    }
    char *wide = repeated("{{ 'a'", " ~ 'b'", 60000, " }}");
    const outcome o = render(wide, strlen(wide), &(qn_vdict){0}, PERMISSIVE);
    assert_int_equal(o.status, QN_OK);
    assert_int_equal(o.n, 60001);
    free(o.text);
    qn_free(wide);
}

static void failing_allocations(void **state)
{
    (void)state;
    const char *source = "{% macro m(a, b=[1, {'c': 2}]) %}{{ a|upper }}{{ b|tojson(indent=1) }}{% endmacro %}"
                         "{% for x in range(30) if x is odd %}{{ loop.index }}{{ m('q' ~ x) }}{% endfor %}"
                         "{% set d = dict(a=1) %}{{ '%s' % d }}{{ 'x,y'.split(',')|map('upper')|join('-') }}";
    int failures = 0;
    for (long at = 0;; at++) {
        books_open(at);
        const outcome o = render(source, strlen(source), &(qn_vdict){0}, PERMISSIVE);
        assert_int_equal(books.bytes, 0);
        const bool failed = books.n_failed > 0;
        assert_int_equal(o.status, failed ? QN_STATUS_nomem : QN_OK);
        free(o.text);
        qn_set_allocator(NULL);
        if (!failed) break;
        failures++;
    }
    assert_true(failures > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions),
        cmocka_unit_test(statements),
        cmocka_unit_test(templates_of_models),
        cmocka_unit_test(trust),
        cmocka_unit_test(lists_change),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(work),
        cmocka_unit_test(growing_texts),
        cmocka_unit_test(limits),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
