/* SPDX-License-Identifier: MIT */
/* tests/unit/text/reader.c -- answers read back: what a template renders for an assistant's turn is taken apart into
 * the same message, however it is cut; what cannot be read is content. With templates of our own, one for each syntax,
 * and with those of models where ../shared is. */
#include "../base/failing.h"

#include "reader.h"
#include "text/chat/reader.h"
#include "vocab_file.h"

#include <dirent.h>
#include <stdio.h>

/* Sanitizers are ten times as slow, and look for something else, as fuzz_reader does. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CUT_STEP = 31, MUTATIONS = 400 };
#else
enum { CUT_STEP = 1, MUTATIONS = 10000 };
#endif

#define CONTENT "Here: *a* < b, [1] and \\u00fc.\\n\\nSecond line"
#define THOUGHT "First I think.\\n\\nThen {\\\"more\\\": 1} of <it>"

/* ---- rendering a turn ------------------------------------------------------------------------- */

typedef struct said {
    char *text;       /* what the model would say */
    qn_prompt prompt; /* before it; text NULL: the turn's beginning */
    char *want;       /* JSON of the message */
    qn_heap *heap;    /* of what it says */
    qn_val message;
} said;

static qn_chat_template *compiled(const char *name, const char *source)
{
    qn_chat_template *t;
    qn_error err;
    if (qn_chat_template_create(source, strlen(source), &t, &err) != QN_OK) fail_msg("%s: %s", name, err.text);
    return t;
}

static char *rendered(const qn_chat_template *t, const char *messages, bool generation, qn_prompt *out)
{
    qn_error err;
    const qn_chat_options options = {.tools = READER_TOOLS, .no_generation_prompt = !generation, .now = 1};
    if (qn_chat_render(t, messages, &options, out, &err) != QN_OK) fail_msg("%s: %s", messages, err.text);
    char *user = strstr(out->text, "UUU");
    assert_non_null(user);
    return user + 3;
}

/* Where the header's mark ends in a text. */
static char *behind_header(const qn_chat_template *t, char *text)
{
    const qn_mark *m = &t->found.marks[QN_MARK_header];
    for (char *at = text; *at; at++) {
        qn_sym w[512];
        size_t n = 0, len;
        for (; n < 512 && at[n]; n++) w[n] = (unsigned char)at[n];
        if (qn__mark_match(m, w, n, true, "", 0, &len, NULL) == QN_WHOLE_MATCH)
            return at + len + strspn(at + len, "\n");
    }
    return text;
}

/* A template that shows the last turn in another form than the others (with reasoning that nobody wrote) is read in mid
 * conversation. */
static const char *next_turn = "";
#define NEXT ", {\"role\": \"user\", \"content\": \"QQQ\"}"

/* The end of a turn that is not the model's: what it shares with the end of a turn that is content alone. */
static void cut_end(const qn_chat_template *t, char *text)
{
    qn_prompt p;
    char messages[256];
    snprintf(messages, sizeof messages,
             "[{\"role\": \"user\", \"content\": \"UUU\"}, {\"role\": \"assistant\", \"content\": \"AAA\"}%s]",
             next_turn);
    const char *tail = strstr(rendered(t, messages, false, &p), "AAA");
    assert_non_null(tail);
    const size_t n = strlen(text), m = strlen(tail + 3);
    size_t shared = 0;
    while (shared < n && shared < m && text[n - 1 - shared] == tail[2 + m - shared]) shared++;
    while (shared && !strchr("<[\n]", text[n - shared])) shared--;
    text[n - shared] = '\0';
    qn_prompt_deinit(&p);
}

static bool shows(const char *text, const char *word) { return strstr(text, word) != NULL; }

static said make_turn(const qn_chat_template *t, bool content, bool thought, const char *calls)
{
    said out = {0};
    qn_prompt p, before;
    char *messages = NULL;
    size_t n;
    FILE *f = open_memstream(&messages, &n);
    fprintf(f, "[{\"role\": \"user\", \"content\": \"UUU\"}, {\"role\": \"assistant\", \"content\": \"%s\"%s%s%s%s}%s]",
            content ? CONTENT : "", thought ? ", \"reasoning_content\": \"" THOUGHT "\"" : "",
            calls ? ", \"tool_calls\": [" : "", calls ? calls : "", calls ? "]" : "", next_turn);
    fclose(f);
    char *text = behind_header(t, rendered(t, messages, false, &p));
    out.text = strdup(text);
    cut_end(t, out.text);
    if (content && calls && !shows(out.text, "get_weather")) { /* a template that shows no calls beside content */
        free(out.text);
        free(messages);
        qn_prompt_deinit(&p);
        return make_turn(t, false, thought, calls);
    }
    /* what the template does not show cannot be read */
    content &= shows(text, "Second line");
    thought &= shows(text, "First I think.");
    f = open_memstream(&out.want, &n);
    fprintf(f, "{\"role\": \"assistant\", \"content\": %s%s%s", content ? "\"" CONTENT "\"" : "null",
            thought ? ", \"reasoning_content\": \"" THOUGHT "\"" : "", calls ? ", \"tool_calls\": [" : "");
    fprintf(f, "%s%s}", calls ? calls : "", calls ? "]" : "");
    fclose(f);
    if (thought) { /* where the prompt's end has the mark before reasoning, the turn has none */
        char *end = behind_header(t, rendered(t, "[{\"role\": \"user\", \"content\": \"UUU\"}]", true, &before));
        const char *word = strstr(out.text, "First");
        if (strspn(out.text, " \n") == (size_t)(word - out.text) && *end)
            out.prompt = before;
        else
            qn_prompt_deinit(&before);
    }
    qn_prompt_deinit(&p);
    free(messages);
    out.heap = calloc(1, sizeof *out.heap);
    qn__jinja_heap_init(out.heap, &(qn_jinja_options){0}, NULL);
    out.message = qn__parse_json(out.heap, out.want, strlen(out.want), true);
    assert_int_equal(out.heap->status, QN_OK);
    return out;
}

static void turn_deinit(said *t)
{
    free(t->text);
    free(t->want);
    qn__jinja_heap_deinit(t->heap);
    free(t->heap);
    qn_prompt_deinit(&t->prompt);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* What events add up to. */
typedef struct sum {
    char *content, *reasoning, *names[16], *arguments[16];
    bool ended[16], cut[16];
    int n_calls;
} sum;

static char *joined(char *a, const char *b, size_t n)
{
    const size_t m = a ? strlen(a) : 0;
    a = realloc(a, m + n + 1);
    memcpy(a + m, b, n);
    a[m + n] = '\0';
    return a;
}

static void add_up(sum *s, const qn_chat_event *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int c = e[i].call;
        assert_true(c >= 0 && c < 16);
        switch (e[i].kind) {
        case QN_CHAT_content: s->content = joined(s->content, e[i].text, e[i].len); break;
        case QN_CHAT_reasoning: s->reasoning = joined(s->reasoning, e[i].text, e[i].len); break;
        case QN_CHAT_call:
            assert_int_equal(c, s->n_calls++);
            s->names[c] = joined(NULL, e[i].text, e[i].len);
            break;
        case QN_CHAT_arguments:
            assert_int_equal(c, s->n_calls - 1);
            s->arguments[c] = joined(s->arguments[c], e[i].text, e[i].len);
            break;
        case QN_CHAT_call_end: s->ended[c] = true; break;
        case QN_CHAT_call_cut: s->cut[c] = true; break;
        case QN_CHAT_no_call:
            assert_int_equal(c, --s->n_calls);
            assert_false(s->ended[c]);
            free(s->names[c]);
            free(s->arguments[c]);
            s->names[c] = s->arguments[c] = NULL;
            break;
        }
    }
}

static void sum_deinit(sum *s)
{
    free(s->content);
    free(s->reasoning);
    for (int i = 0; i < s->n_calls; i++) free(s->names[i]), free(s->arguments[i]);
    *s = (sum){0};
}

/* Reads the text in pieces that end at the byte `at` and every `step` bytes after it; the message is JSON text. */
static char *read_back(const qn_chat_template *t, const qn_prompt *prompt, const char *text, size_t n, size_t at,
                       size_t step, bool cut, sum *s)
{
    qn_chat_reader *r;
    const qn_chat_event *e;
    size_t n_events;
    char *json;
    qn_error err;
    *s = (sum){0};
    if (qn_chat_reader_create(t, NULL, READER_TOOLS, prompt && prompt->text ? prompt : NULL, &r, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (size_t from = 0, to = at < n ? at : n;; from = to, to = to + step < n ? to + step : n) {
        assert_int_equal(qn_chat_reader_text(r, text + from, to - from, &e, &n_events, &err), QN_OK);
        add_up(s, e, n_events);
        if (to == n) break;
    }
    assert_int_equal(qn_chat_reader_finish(r, cut, &e, &n_events, &err), QN_OK);
    add_up(s, e, n_events);
    assert_int_equal(qn_chat_reader_message(r, &json, &err), QN_OK);
    qn_chat_reader_destroy(r);
    return json;
}

static bool text_is(qn_val v, const char *text) { return qn__is_str(v) ? text && strcmp(v.s->data, text) == 0 : !text; }

/* The message is what events add up to; with READ_PART its calls are the first ones of `want`, with READ_ALL it is
 * `want`. */
enum { READ_ANY, READ_PART, READ_ALL };
static bool same(const char *json, const said *want, const sum *s, int how)
{
    qn_heap h;
    qn_error err;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, &err);
    const qn_val a = qn__parse_json(&h, json, strlen(json), true), b = want->message;
    if (h.status != QN_OK) fail_msg("%s: %s", json, err.text);
    const qn_val calls = qn__member(a, "tool_calls"), wanted = qn__member(b, "tool_calls");
    const uint32_t n = calls.type == QN_VAL_list ? calls.l->n : 0, m = wanted.type == QN_VAL_list ? wanted.l->n : 0;
    bool good =
        text_is(qn__member(a, "content"), s->content) && text_is(qn__member(a, "reasoning_content"), s->reasoning);
    good &= n == (uint32_t)s->n_calls && (how == READ_ANY || (how == READ_ALL ? n == m : n <= m));
    static const char *const texts[] = {"content", "reasoning_content"};
    for (int i = 0; i < 2 && how == READ_ALL; i++) {
        const qn_val x = qn__member(a, texts[i]), y = qn__member(b, texts[i]);
        good &= qn__given(x) == qn__given(y) && (!qn__given(x) || qn__val_equal(x, y));
    }
    for (uint32_t i = 0; good && i < n; i++) {
        const qn_val f = qn__member(calls.l->items[i], "function"), text = qn__member(f, "arguments");
        good = text_is(qn__member(f, "name"), s->names[i]) && text_is(text, s->arguments[i] ? s->arguments[i] : "");
        good &= s->cut[i] == qn__given(qn__member(calls.l->items[i], "cut")) && s->ended[i] == !s->cut[i];
        const qn_val got = s->cut[i] || !good ? qn__none() : qn__parse_json(&h, text.s->data, text.s->n, true);
        if (!s->cut[i]) good &= got.type == QN_VAL_dict;
        if (how == READ_ANY || !good) continue;
        const qn_val g = qn__member(wanted.l->items[i], "function");
        good = qn__val_equal(qn__member(f, "name"), qn__member(g, "name"));
        if (good && !s->cut[i]) good = qn__val_equal(got, qn__member(g, "arguments"));
    }
    good &= h.status == QN_OK;
    qn__jinja_heap_deinit(&h);
    return good;
}

static void reads(const char *name, const qn_chat_template *t, const said *turn, size_t n, size_t at, size_t step,
                  bool cut)
{
    sum s;
    const bool whole = n == strlen(turn->text);
    char *json = read_back(t, &turn->prompt, turn->text, n, at, step, cut, &s);
    if (!same(json, turn, &s, whole ? READ_ALL : READ_PART))
        fail_msg("%s, %zu of its bytes, cut at %zu and every %zu:\n%s\nwas read as %s\ninstead of   %s", name, n, at,
                 step, turn->text, json, turn->want);
    qn_free(json);
    sum_deinit(&s);
}

#define CALL(name, arguments) \
    "{\"id\": \"call_1\", \"type\": \"function\", \"function\": {\"name\": \"" name "\", \"arguments\": " arguments "}}"

#define THREE \
    CALL("get_weather", "{\"s\": \"Paris\", \"o\": {\"k\": [1]}}") \
    ", " CALL("add", "{}") ", " CALL("add", "{\"a\": 1, \"b\": -2}")

static void reads_back(const char *name, const qn_chat_template *t)
{
    char call[1024];
    qn_chat_needs needs;
    next_turn = strstr(name, "Nemotron-Nano-v2") ? NEXT : "";
    qn_chat_template_needs(t, &needs);
    for (int form = 0; form < 2 + READER_SHAPES + 4; form++) {
        const bool shape = form >= 2 && form < 2 + READER_SHAPES;
        if (shape)
            snprintf(call, sizeof call,
                     "{\"id\": \"call_1\", \"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
                     "\"arguments\": %s}}",
                     reader_shapes[form - 2]);
        const bool several = form >= 2 + READER_SHAPES;
        if (several && !needs.several_calls && form & 1) continue;
        const char *calls = form < 2 ? NULL : shape ? call : needs.several_calls ? THREE : CALL("get_weather", "{}");
        said turn = make_turn(t, form != 2 + READER_SHAPES && form != 5, form & 1, calls);
        const size_t n = strlen(turn.text);
        reads(name, t, &turn, n, n, n, false);
        reads(name, t, &turn, n, 1, 1, false);
        turn_deinit(&turn);
    }
}

/* A turn with all there is, cut in two at every byte; its prefixes give no error and no call that is not in it, whether
 * the model ended there or was cut. */
static void cut_anywhere(const char *name, const qn_chat_template *t, size_t step)
{
    qn_chat_needs needs;
    char calls[1024];
    qn_chat_template_needs(t, &needs);
    next_turn = strstr(name, "Nemotron-Nano-v2") ? NEXT : "";
    if (needs.several_calls)
        snprintf(calls, sizeof calls, CALL("get_weather", "%s") ", " CALL("get_weather", "%s"), reader_shapes[6],
                 reader_shapes[7]);
    else
        snprintf(calls, sizeof calls, CALL("get_weather", "%s"), reader_shapes[8]);
    said turn = make_turn(t, true, true, calls);
    const size_t n = strlen(turn.text);
    for (size_t at = step > 1 ? (n % step) : 0; at <= n; at += step) {
        reads(name, t, &turn, n, at, n, false);
        reads(name, t, &turn, at, at, n, true);
        reads(name, t, &turn, at, at, n, false);
    }
    turn_deinit(&turn);
}

/* Bytes are changed, dropped and moved: something is read, and it is sound. */
static void mutations(const char *name, const qn_chat_template *t, int n_mutations, uint64_t *seed)
{
    qn_chat_needs needs;
    qn_chat_template_needs(t, &needs);
    next_turn = strstr(name, "Nemotron-Nano-v2") ? NEXT : "";
    said turn =
        make_turn(t, true, true, needs.several_calls ? THREE : CALL("get_weather", "{\"s\": \"Paris\", \"n\": 3}"));
    for (int i = 0; i < n_mutations; i++) {
        sum s;
        size_t n = strlen(turn.text);
        char *text = malloc(n + 64);
        memcpy(text, turn.text, n);
        for (int k = 0; k < 1 + i % 4; k++) {
            *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const size_t at = (size_t)(*seed >> 33) % n, from = (size_t)(*seed >> 13) % n;
            size_t len = 1 + (size_t)(*seed >> 50) % 12;
            if (len > n - at) len = n - at;
            switch (*seed >> 61) {
            case 0:
            case 1:
                if (n - len < 2) break;
                memmove(text + at, text + at + len, n - at - len);
                n -= len;
                break;
            case 2:
            case 3:
            case 4: memmove(text + at, text + (from + len <= n ? from : 0), len); break;
            default: text[at] = (char)(*seed >> 20 | (*seed >> 20 & 0xFF ? 0 : 0x80));
            }
        }
        char *json = read_back(t, &turn.prompt, text, n, n / 2, n, i & 1, &s);
        if (!same(json, &turn, &s, READ_ANY)) fail_msg("%s: %.*s\nwas read as %s", name, (int)n, text, json);
        qn_free(json);
        sum_deinit(&s);
        free(text);
    }
    turn_deinit(&turn);
}

static void own_templates(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < READER_TEMPLATES; i++) {
        qn_chat_needs needs;
        qn_chat_template *t = compiled(reader_templates[i].name, reader_templates[i].source);
        qn_chat_template_needs(t, &needs);
        if (!needs.syntax || strcmp(needs.syntax, reader_templates[i].syntax) != 0)
            fail_msg("%s: found to be %s", reader_templates[i].name, needs.syntax ? needs.syntax : "nothing");
        reads_back(reader_templates[i].name, t);
        cut_anywhere(reader_templates[i].name, t, CUT_STEP);
        mutations(reader_templates[i].name, t, MUTATIONS / READER_TEMPLATES, &seed);
        qn_chat_template_destroy(t);
    }
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 20);
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static void templates_of_models(void **state)
{
    (void)state;
    DIR *dir = opendir(QN_SHARED_DIR "/templates");
    if (!dir) {
        print_message("no ../shared/templates: templates of models are not tried\n");
        skip();
    }
    uint64_t seed = 2;
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        qn_chat_needs needs;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, QN_SHARED_DIR "/templates/%s", e->d_name);
        char *source = read_file(path);
        assert_non_null(source);
        qn_chat_template *t = compiled(e->d_name, source);
        qn_chat_template_needs(t, &needs);
        if (needs.calls) {
            if (!needs.syntax) fail_msg("%s: its syntax was not found", e->d_name);
            reads_back(e->d_name, t);
            cut_anywhere(e->d_name, t, CUT_STEP);
            mutations(e->d_name, t, MUTATIONS / 41, &seed);
            n++;
        }
        qn_chat_template_destroy(t);
        free(source);
    }
    closedir(dir);
    assert_int_equal(n, 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_templates),
        cmocka_unit_test(templates_of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
