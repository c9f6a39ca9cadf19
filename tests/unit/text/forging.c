/* SPDX-License-Identifier: MIT */
/* tests/unit/text/forging.c -- nothing that a conversation holds becomes a control token. Every special token of every
 * vocabulary stands in every place of a conversation, under templates that cut, join and rewrite what they are given,
 * and under those of models where they are beside the checkout, whose own marks are control tokens of a vocabulary made
 * for each. Without such text a prompt has the ids of the same text without spans.
 *
 * The whole is 44 templates x all tokens x all places; a part of it, always the same, runs unless QN_FORGING=all. */
#include "../base/failing.h"

#include "text/tokenizer/vocab.h"
#include "vocab_file.h"

#include <dirent.h>
#include <quern/chat.h>
#include <stdio.h>

enum { MAX_MARKS = 1024, MAX_VOCABS = 32, MAX_TOKENS = 1 << 19, N_PLACES = 24 };

/* A tokenizer and its special tokens: control tokens, and user-defined ones in brackets. */
typedef struct vocab {
    char name[64];
    qn_tokenizer *tok;
    qn_token marks[MAX_MARKS];
    int n;
} vocab;

static vocab vocabs[MAX_VOCABS];
static int n_vocabs, n_own; /* n_own: the repository's, which come first */
static struct {
    long prompts, refused, tokens;
} count;

static bool everything(void)
{
    const char *all = getenv("QN_FORGING");
    return all && strcmp(all, "all") == 0;
}

/* Under a model's template, and where texts are cut in two, every so many vocabularies: sanitizers are ten times as
 * slow. */
static int vocab_step(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return everything() ? 1 : 8;
#else
    return 1;
#endif
}

/* ---- vocabularies ------------------------------------------------------------------------------- */

static const char *text_of(const qn_tokenizer *tok, qn_token id) { return qn_tokenizer_piece(tok, id, NULL); }

static bool is_special(const qn_tokenizer *tok, qn_token id)
{
    const qn_token_kind kind = qn_tokenizer_kind(tok, id);
    const char *text = text_of(tok, id);
    const size_t n = strlen(text);
    if (id == tok->special[QN_SPECIAL_unk]) return false; /* comes of any text that the vocabulary cannot spell */
    return kind == QN_TOKEN_control ||
           (kind == QN_TOKEN_user && n > 2 &&
            ((text[0] == '<' && text[n - 1] == '>') || (text[0] == '[' && text[n - 1] == ']')));
}

static void list_marks(vocab *v)
{
    v->n = 0;
    for (qn_token id = 0; id < qn_tokenizer_n_tokens(v->tok); id++)
        if (is_special(v->tok, id) && v->n < MAX_MARKS) v->marks[v->n++] = id;
}

static void open_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char file[1024];
        qn_gguf *gguf;
        qn_error err;
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".gguf") != 0) continue;
        assert_true(n_vocabs < MAX_VOCABS);
        vocab *v = &vocabs[n_vocabs++];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        snprintf(v->name, sizeof v->name, "%.60s", e->d_name);
        assert_int_equal(qn_gguf_open(file, &(qn_gguf_options){.metadata_only = true}, &gguf, &err), QN_OK);
        assert_int_equal(qn_tokenizer_create(gguf, &v->tok, &err), QN_OK);
        qn_gguf_close(gguf);
        list_marks(v);
    }
    if (dir) closedir(dir);
}

/* Bytes, and what looks like a mark in a template's source: every other one user-defined. */
static void vocab_of_source(const char *source, vocab *v)
{
    static const char *words[256 + MAX_MARKS];
    static unsigned char types[256 + MAX_MARKS];
    static char letters[256][4];
    char *kept[MAX_MARKS];
    size_t n = 256, n_kept = 0;
    vocab_file f;
    qn_error err;
    for (int i = 0; i < 256; i++) words[i] = vf_byte_letter(i, letters[i]), types[i] = 1;
    for (const char *p = source; *p && n_kept < MAX_MARKS - 1; p++) {
        const char close = *p == '<' ? '>' : *p == '[' ? ']' : '\0';
        const size_t len = close ? strcspn(p + 1, "<>[]\n{}'\"") + 2 : 0;
        if (len < 3 || len > 60 || p[len - 1] != close || strchr(p + 1, ' ') < p + len) continue;
        if (close == ']' && strspn(p + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_/@") != len - 2) continue;
        char *word = strndup(p, len);
        bool known = false;
        for (size_t i = 256; i < n && !known; i++) known = strcmp(words[i], word) == 0;
        if (known) {
            free(word);
            continue;
        }
        kept[n_kept++] = word;
        types[n] = n % 2 ? 4 : 3;
        words[n++] = word;
    }
    words[n] = kept[n_kept++] = strdup("<|never written|>");
    types[n++] = 3;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "gpt2");
    vf_str(&f, "tokenizer.ggml.pre", "gpt-2");
    vf_strs(&f, "tokenizer.ggml.tokens", words, n);
    vf_types(&f, types, n);
    vf_strs(&f, "tokenizer.ggml.merges", NULL, 0);
    if (vf_open(&f, &v->tok, &err) != QN_OK) fail_msg("%s", err.text);
    snprintf(v->name, sizeof v->name, "own marks");
    for (size_t i = 0; i < n_kept; i++) free(kept[i]);
    list_marks(v);
}

/* ---- a conversation with something in its places -------------------------------------------------- */

/* @A .. @X are the places. */
static const char MESSAGES[] =
    "[{\"role\": \"system\", \"content\": \"@A\"}, {\"role\": \"user\", \"content\": \"@B\", \"name\": \"@C\"}, "
    "{\"role\": \"assistant\", \"content\": \"@D\", \"reasoning_content\": \"@E\", \"tool_calls\": [{\"id\": \"@F\", "
    "\"type\": \"function\", \"function\": {\"name\": \"@G\", \"arguments\": {\"@H\": \"@I\", \"n\": [\"@J\", "
    "{\"k\": 1}]}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"@F\", \"name\": \"@G\", \"content\": \"@K\"}, "
    "{\"role\": \"assistant\", \"content\": \"@L\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
    "\"text\": \"@M\"}, {\"type\": \"text\", \"text\": \"@N\"}]}]";
static const char PLAIN_MESSAGES[] = "[{\"role\": \"user\", \"content\": \"@B\", \"name\": \"@C\"}, {\"role\": "
                                     "\"assistant\", \"content\": \"@D\"}, {\"role\": \"user\", \"content\": \"@M\"}]";
static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"@G\", \"description\": \"@O\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"@P\": {\"type\": \"string\", \"description\": \"@Q\", \"enum\": [\"@R\"]}}, "
    "\"required\": [\"@P\"]}}}]";
static const char DOCUMENTS[] = "[{\"title\": \"@S\", \"text\": \"@T\", \"content\": \"@T\"}]";
static const char KWARGS[] = "{\"date_string\": \"@U\", \"model_identity\": \"@V\", \"custom_system_prompt\": \"@W\", "
                             "\"x\": \"@X\"}";

/* What stands in a place where nothing is forged. */
static const char *benign(int place)
{
    static const char *const words[] = {"Be  brief.", "two\nlines \xc3\xa9\xe2\x82\xac", "Ann", "It is 7.", "so so"};
    return place == 5    ? "abcdefghi"
           : place == 6  ? "get_time"
           : place == 7  ? "city"
           : place == 15 ? "city"
                         : words[place % 5];
}

static void put_json(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20)
            fprintf(out, "\\u%04x", *p);
        else if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else
            putc_unlocked(*p, out);
    }
}

/* place -1: everywhere. Around what is forged stand letters that say where it was put. */
static char *filled(const char *form, int place, const char *forged)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    for (const char *p = form; *p; p++) {
        const int at = *p == '@' ? p[1] - 'A' : -1;
        if (at < 0) {
            putc_unlocked(*p, out);
            continue;
        }
        p++;
        if (place >= 0 && at != place) {
            put_json(out, benign(at));
            continue;
        }
        fprintf(out, "%c9", 'a' + at);
        put_json(out, forged);
        fprintf(out, "9%c", 'a' + at);
    }
    fclose(out);
    return text;
}

static bool render(const qn_chat_template *t, bool simple, int place, const char *forged, qn_prompt *p)
{
    char *messages = filled(simple ? PLAIN_MESSAGES : MESSAGES, place, forged),
         *tools = simple ? NULL : filled(TOOLS, place, forged), *documents = filled(DOCUMENTS, place, forged),
         *kwargs = filled(KWARGS, place, forged);
    qn_error err;
    const qn_chat_options options = {.tools = tools, .documents = documents, .kwargs = kwargs, .now = 1700000000};
    const qn_status status = qn_chat_render(t, messages, &options, p, &err);
    if (status != QN_OK && status != QN_STATUS_cancelled && status != QN_STATUS_invalid)
        fail_msg("%s: %s", qn_status_name(status), err.text);
    *(status == QN_OK ? &count.prompts : &count.refused) += 1;
    free(messages), free(tools), free(documents), free(kwargs);
    return status == QN_OK;
}

/* ---- what must hold -------------------------------------------------------------------------------- */

static bool touched(const qn_prompt *p, size_t begin, size_t end)
{
    for (size_t i = 0; i < p->n_plain; i++)
        if (p->plain[i].begin < end && begin < p->plain[i].end) return true;
    return false;
}

/* How often the template can have written the text of a token. */
static int written(const qn_prompt *p, const char *text)
{
    const size_t n = strlen(text);
    int found = 0;
    for (const char *at = p->text; (at = strstr(at, text)); at++)
        found += !touched(p, (size_t)(at - p->text), (size_t)(at - p->text) + n);
    return found;
}

/* How often the tokenizer adds it to any text, at the ends. */
static int added(const vocab *v, qn_token id)
{
    qn_token *ids;
    size_t n;
    int times = 0;
    assert_int_equal(qn_tokenize(v->tok, "", 0, NULL, &ids, &n, NULL), QN_OK);
    for (size_t i = 0; i < n; i++) times += ids[i] == id;
    qn_free(ids);
    return times;
}

/* No special token but those whose text the template wrote, and none at all where `source` does not have its text. */
static void check_prompt(const char *what, const char *source, const vocab *v, const qn_prompt *p)
{
    static int seen[MAX_TOKENS]; /* 0 between calls */
    qn_token *ids;
    size_t n;
    qn_error err;
    if (qn_prompt_tokenize(p, v->tok, &ids, &n, &err) != QN_OK) fail_msg("%s: %s", what, err.text);
    assert_true(qn_tokenizer_n_tokens(v->tok) <= MAX_TOKENS);
    for (size_t i = 0; i < n; i++) seen[ids[i]]++;
    for (size_t i = 0; i < n; i++) {
        const int times = seen[ids[i]];
        seen[ids[i]] = 0;
        if (times == 0 || !is_special(v->tok, ids[i])) continue;
        const char *text = text_of(v->tok, ids[i]);
        const int may = (strstr(source, text) ? written(p, text) : 0) + added(v, ids[i]);
        if (times > may)
            fail_msg("%s, %s: token %d, %s, comes out %d times, the template wrote it %d times:\n%s", what, v->name,
                     ids[i], text, times, may, p->text);
        count.tokens += times;
    }
    qn_free(ids);
}

/* A template that asks for a mark by name may take a text apart at it and write its own in between. */
static bool asks_for(const char *source, const char *mark)
{
    const size_t n = strlen(mark);
    for (const char *at = source; (at = strstr(at, mark)); at++)
        if (at > source && (at[-1] == '\'' || at[-1] == '"') && at[n] == at[-1]) return true;
    return false;
}

/* What was put into a place and came out as it was put is in a span. */
static void check_spans(const char *what, const char *source, const qn_prompt *p, const char *forged)
{
    char around[4200];
    if (asks_for(source, forged)) return;
    for (int place = 0; place < N_PLACES; place++) {
        snprintf(around, sizeof around, "%c9%s9%c", 'a' + place, forged, 'a' + place);
        const size_t n = strlen(around);
        for (const char *at = p->text; (at = strstr(at, around)); at++) {
            const size_t begin = (size_t)(at - p->text);
            bool inside = false;
            for (size_t i = 0; i < p->n_plain; i++)
                inside = inside || (p->plain[i].begin <= begin && begin + n <= p->plain[i].end);
            if (!inside) fail_msg("%s: \"%s\" of place %c is trusted in\n%s", what, forged, 'A' + place, p->text);
        }
    }
}

static void check_render(const char *what, const char *source, const qn_chat_template *t, const vocab *v, int place,
                         const char *forged)
{
    qn_prompt p;
    if (!render(t, false, place, forged, &p) && !render(t, true, place, forged, &p)) return;
    check_spans(what, source, &p, forged);
    check_prompt(what, source, v, &p);
    qn_prompt_deinit(&p);
}

/* Without forged text the spans change nothing. */
static void check_benign(const char *what, const qn_chat_template *t, const vocab *v)
{
    qn_prompt p;
    qn_token *ids, *plain;
    size_t n, n_plain;
    for (int simple = 0; simple < 2; simple++) {
        if (!render(t, simple, N_PLACES, "", &p)) continue;
        assert_int_equal(qn_prompt_tokenize(&p, v->tok, &ids, &n, NULL), QN_OK);
        bool same = false;
        for (int no_bos = 0; no_bos < 2 && !same; no_bos++) {
            assert_int_equal(qn_tokenize(v->tok, p.text, p.len, &(qn_tokenize_options){.no_bos = no_bos}, &plain,
                                         &n_plain, NULL),
                             QN_OK);
            same = n == n_plain && memcmp(ids, plain, n * sizeof *ids) == 0;
            qn_free(plain);
        }
        if (!same) fail_msg("%s, %s: other ids than those of the plain text:\n%s", what, v->name, p.text);
        qn_free(ids);
        qn_prompt_deinit(&p);
    }
}

/* ---- whole: every token in every place ------------------------------------------------------------- */

/* As many marks as fit, with a letter between any two; returns how many. */
static int pack(const vocab *v, int from, char *out, size_t size)
{
    size_t n = 0;
    int i = from;
    out[0] = '\0';
    for (; i < v->n && n + strlen(text_of(v->tok, v->marks[i])) + 3 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > from ? "q" : "", text_of(v->tok, v->marks[i]));
    return i - from;
}

static void check_vocab(const char *what, const char *source, const qn_chat_template *t, const vocab *v, bool places)
{
    unsigned turn = 0; /* which places and tokens are taken when not all are: by names, not by chance */
    char forged[4096];
    for (const char *c = what; *c; c++) turn += (unsigned char)*c;
    for (const char *c = v->name; *c; c++) turn += (unsigned char)*c;
    if (v->n == 0) return;
    if (places || everything() || turn % 4 == 0) check_benign(what, t, v);
    for (int i = 0; i < v->n;) {
        const int n = pack(v, i, forged, sizeof forged);
        assert_true(n > 0);
        for (int place = -1; place < (places || everything() ? N_PLACES : 0); place++)
            if (place < 0 || everything() || (unsigned)place % 4 == turn % 4)
                check_render(what, source, t, v, place, forged);
        i += n;
        turn++;
    }
    /* One at a time: a template looks for its own marks in what it is given. */
    const int step = everything() ? 1 : places ? 4 : v->n;
    for (int i = (int)(turn % (unsigned)step); i < v->n; i += step)
        for (int place = -1; place < (everything() ? N_PLACES : 0); place++)
            check_render(what, source, t, v, place, text_of(v->tok, v->marks[i]));
}

/* places: every place for the first so many vocabularies, a sample for the others, from `first` on. */
static void check_template(const char *name, const char *source, int places, int first)
{
    qn_chat_template *t;
    qn_error err;
    vocab own = {.n = 0};
    if (qn_chat_template_create(source, strlen(source), &t, &err) != QN_OK) fail_msg("%s: %s", name, err.text);
    vocab_of_source(source, &own);
    check_vocab(name, source, t, &own, true);
    for (int i = first; i < n_vocabs; i += places ? 1 : vocab_step())
        check_vocab(name, source, t, &vocabs[i], i < places);
    qn_tokenizer_destroy(own.tok);
    qn_chat_template_destroy(t);
}

static const char *const templates[] = {
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
    "{{ messages }}{{ tools }}{{ documents }}{{ x }}",
    "{{ messages|tojson }}{{ tools|tojson(indent=2) }}{{ documents|tojson }}{{ x|tojson }}",
    "{% for m in messages %}<think>{{ m.reasoning_content }}</think>{% if '</think>' in (m.content or '') %}"
    "{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% else %}{{ m.content }}{% endif %}{% for c in m.tool_calls %}"
    "<tool_call>{{ c.function.name }}{{ c.function.arguments|tojson }}{{ c.id }}</tool_call>{% endfor %}{% endfor %}"
    "{% for t in tools %}[TOOLS]{{ t|tojson }}{% for k, v in t.function.parameters.properties.items() %}{{ k }}: "
    "{{ v.description }} {{ v.enum|join(', ') }}{% endfor %}[/TOOLS]{% endfor %}{{ date_string }}{{ model_identity }}",
    "{% macro show(v) %}{% if v is mapping %}{% for k, x in v|dictsort %}<k>{{ k }}</k>{{ show(x) }}{% endfor %}"
    "{% elif v is string %}{{ v|trim|replace('  ', ' ') }}{% elif v is iterable %}{% for x in v %}{{ show(x) }}"
    "{% endfor %}{% else %}{{ v }}{% endif %}{% endmacro %}{{ show(messages) }}{{ show(tools or []) }}"
    "{{ show(documents or []) }}{{ custom_system_prompt }}",
};

static void in_every_place(void **state)
{
    (void)state;
    char name[32];
    memset(&count, 0, sizeof count);
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        snprintf(name, sizeof name, "template %zu", i);
        check_template(name, templates[i], n_own, 0);
    }
    assert_int_equal(count.refused, 0);
    assert_true(count.prompts > 200 &&
                count.tokens > 500); /* prompts were made, and the template's own marks are there */
    print_message("%ld prompts, %ld special tokens\n", count.prompts, count.tokens);
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    assert_true(f && text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void under_templates_of_models(void **state)
{
    (void)state;
    DIR *dir = opendir(QN_SHARED_DIR "/templates");
    if (!dir) {
        print_message("under_templates_of_models: skipped, %s/templates is not there\n", QN_SHARED_DIR);
        skip();
    }
    int n = 0;
    memset(&count, 0, sizeof count);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[1024];
        if (!strstr(e->d_name, ".jinja")) continue;
        snprintf(path, sizeof path, "%s/templates/%s", QN_SHARED_DIR, e->d_name);
        char *source = read_all(path);
        check_template(e->d_name, source, 0, n % vocab_step());
        free(source);
        n++;
    }
    closedir(dir);
    assert_true(n >= 44 && count.prompts > 3 * count.refused && count.tokens > 1000 / vocab_step());
    print_message("%d templates: %ld prompts, %ld refusals, %ld special tokens\n", n, count.prompts, count.refused,
                  count.tokens);
}

/* ---- cut in two by the template's own operations ----------------------------------------------------- */

/* c is the content: the token's text with a ^ in its middle, or the whole; the template says none of it. */
static const char *const operations[] = {
    "{{ c }}",
    "{{ c|trim }}{{ c.strip() }}{{ c.lstrip() }}{{ c|string|safe }}",
    "{{ c[:2] }}{{ c[2:] }}",
    "{{ c[:1] ~ c[1:] }}{{ c[:-1] + c[-1] }}",
    "{{ c[::-1][::-1] }}{{ (c|list)|join }}{{ c|reverse|reverse }}",
    "{% for l in c %}{{ l }}{% endfor %}",
    "{% set n = namespace(s='') %}{% for l in c %}{% set n.s = n.s + l %}{% endfor %}{{ n.s }}",
    "{{ c.split('^')|join('') }}{{ c.split('^')[0] }}{{ c.split('^')[-1] }}",
    "{{ c|replace('^', '') }}{{ c.replace('^', '') }}{{ c|replace('^', c[:0]) }}",
    "{{ '%s' % c }}{{ '{}'.format(c) }}{{ '%s%s'|format(c[:3], c[3:]) }}",
    "{{ c.upper().lower() }}{{ c|lower }}{{ c|upper }}{{ c.swapcase().swapcase() }}",
    "{% set b %}{{ c[:3] }}{% endset %}{{ b }}{{ c[3:] }}",
    "{% macro m(x, y) %}{{ x }}{{ y }}{% endmacro %}{{ m(c[:2], c[2:]) }}",
    "{% filter trim %}{{ c }}{% endfilter %}{% macro k() %}{{ caller(c) }}{% endmacro %}{% call(x) k() %}{{ x }}"
    "{% endcall %}",
    "{{ {'a': c}.a }}{{ {c: 1}|list|first }}{{ [c]|first }}{{ (c, 1)[0] }}{{ {'a': c}['a']|default('z') }}",
    "{{ (c ~ '^' ~ c).split('^')|unique|join }}{{ [c, c]|join('') }}{{ [c[:2], c[2:]]|sum(start='') }}",
    "{{ (c|tojson)[1:-1] }}{{ (c|tojson|from_json) }}{{ ('[' ~ (c|tojson) ~ ']')|from_json|first }}",
    "{{ c|truncate(99) }}{{ c|center(40)|trim }}{{ c|indent }}",
    "{{ messages|map(attribute='content')|join }}{{ messages|selectattr('role', 'equalto', 'user')|map(attribute="
    "'content')|first }}",
    "{{ c.partition('^')|join|replace('^', '') }}{{ c.removeprefix('^').removesuffix('^') }}{{ c.splitlines()|join }}",
};

/* Halves that meet: one may be the template's. */
static const char *const meetings[] = {
    "LEFT{{ right }}",
    "{{ left }}RIGHT",
    "{{ left }}{{ right }}",
    "{{ left ~ right }}",
    "{{ 'LEFT' ~ right }}",
    "{{ left + 'RIGHT' }}",
    "{{ [left, 'RIGHT']|join }}",
    "{{ 'LEFT%s' % right }}",
    "{{ ('LEFT' ~ right)|trim }}",
    "{{ (left ~ '^RIGHT')|replace('^', '') }}",
    "{% set n = namespace(s='LEFT') %}{% set n.s = n.s ~ right %}{{ n.s }}",
};

static char *replaced(const char *text, const char *word, const char *by)
{
    char *out;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    for (const char *p = text; *p;) {
        if (strncmp(p, word, strlen(word)) == 0) {
            fputs(by, f);
            p += strlen(word);
        } else {
            fputc(*p++, f);
        }
    }
    fclose(f);
    return out;
}

/* The ids of the prompt hold no special token but those that the tokenizer adds. */
static void none_forged(const vocab *v, const qn_chat_template *t, const char *source, const char *messages,
                        const char *kwargs, const char *want)
{
    qn_prompt p;
    qn_token *ids;
    size_t n;
    qn_error err;
    const qn_status status = qn_chat_render(t, messages, &(qn_chat_options){.kwargs = kwargs}, &p, &err);
    if (status != QN_OK) fail_msg("%s: %s: %s", source, messages, err.text);
    if (want && !strstr(p.text, want)) fail_msg("%s: %s is not in %s", source, want, p.text);
    if (qn_prompt_tokenize(&p, v->tok, &ids, &n, &err) != QN_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < n; i++) {
        int times = 0;
        for (size_t k = 0; k < n; k++) times += ids[k] == ids[i];
        if (is_special(v->tok, ids[i]) && times > added(v, ids[i]))
            fail_msg("%s: %s of %s comes out of %s", v->name, text_of(v->tok, ids[i]), source, p.text);
    }
    count.prompts++;
    qn_free(ids);
    qn_prompt_deinit(&p);
}

static char *message_of(const char *content)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fputs("[{\"role\": \"user\", \"content\": \"", f);
    put_json(f, content);
    fputs("\"}]", f);
    fclose(f);
    return text;
}

/* Compiled when first asked for; behind the last, all are taken away. */
static qn_chat_template *operation(size_t i)
{
    static qn_chat_template *compiled[ARRAY_LEN(operations)];
    char source[1024];
    qn_error err;
    if (i < ARRAY_LEN(operations) && !compiled[i]) {
        snprintf(source, sizeof source, "{%% set c = messages[0].content %%}%s", operations[i]);
        if (qn_chat_template_create(source, strlen(source), &compiled[i], &err) != QN_OK)
            fail_msg("%s is no template: %s", source, err.text);
    }
    for (size_t k = 0; i == ARRAY_LEN(operations) && k < i; k++) qn_chat_template_destroy(compiled[k]);
    return i < ARRAY_LEN(operations) ? compiled[i] : NULL;
}

static void check_operations(const vocab *v, const char *mark)
{
    char middle[256];
    size_t half = strlen(mark) / 2;
    while (((unsigned char)mark[half] & 0xC0) == 0x80) half++;
    snprintf(middle, sizeof middle, "%.*s^%s", (int)half, mark, mark + half);
    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        for (int cut = 0; cut < 2; cut++) {
            char *messages = message_of(cut ? middle : mark);
            none_forged(v, operation(i), operations[i], messages, NULL, i == 0 ? cut ? middle : mark : NULL);
            free(messages);
        }
}

static void check_meetings(const vocab *v, const char *mark)
{
    const size_t len = strlen(mark);
    for (size_t k = 1; k < len; k += everything() ? 1 : len / 2 ? len / 2 : 1) {
        if (((unsigned char)mark[k] & 0xC0) == 0x80) continue; /* characters are not cut */
        char left[256], *kwargs;
        size_t n;
        snprintf(left, sizeof left, "%.*s", (int)k, mark);
        FILE *f = open_memstream(&kwargs, &n);
        fputs("{\"left\": \"", f), put_json(f, left), fputs("\", \"right\": \"", f), put_json(f, mark + k);
        fputs("\"}", f), fclose(f);
        for (size_t i = 0; i < ARRAY_LEN(meetings); i++) {
            char *with_left = replaced(meetings[i], "LEFT", left), *source = replaced(with_left, "RIGHT", mark + k);
            qn_chat_template *t;
            qn_error err;
            if (qn_chat_template_create(source, strlen(source), &t, &err) == QN_OK) {
                none_forged(v, t, source, "[{\"role\": \"user\", \"content\": \"\"}]", kwargs, mark);
                qn_chat_template_destroy(t);
            } else {
                assert_int_equal(err.status, QN_STATUS_format); /* a half spoils the template's text or a literal */
            }
            free(with_left);
            free(source);
        }
        free(kwargs);
    }
}

static void cut_in_two(void **state)
{
    (void)state;
    memset(&count, 0, sizeof count);
    for (int i = 0; i < n_vocabs; i += vocab_step()) {
        const vocab *v = &vocabs[i];
        const int step = everything() || v->n < 8 ? 1 : v->n / 4;
        for (int k = 0; k < v->n; k += step) {
            check_operations(v, text_of(v->tok, v->marks[k]));
            check_meetings(v, text_of(v->tok, v->marks[k]));
        }
    }
    (void)operation(ARRAY_LEN(operations));
    assert_true(count.prompts > 1000 / vocab_step());
    print_message("%ld prompts\n", count.prompts);
}

static int open_vocabs(void **state)
{
    (void)state;
    open_folder(QN_TESTS_DIR "/unit/text/vocab");
    n_own = n_vocabs;
    open_folder(QN_SHARED_DIR "/vocab");
    return n_vocabs >= 10 ? 0 : -1;
}

static int close_vocabs(void **state)
{
    (void)state;
    for (int i = 0; i < n_vocabs; i++) qn_tokenizer_destroy(vocabs[i].tok);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_place),
        cmocka_unit_test(under_templates_of_models),
        cmocka_unit_test(cut_in_two),
    };
    return cmocka_run_group_tests(tests, open_vocabs, close_vocabs);
}
