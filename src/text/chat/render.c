/* SPDX-License-Identifier: MIT */
/* src/text/chat/render.c -- templates from sources and files, and prompts from conversations. */
#include "base/str.h"
#include "text/chat/syntax.h"

/* Of a file that has none: OpenAI's ChatML, where the vocabulary has its tokens; or nothing but the texts. */
static const struct {
    const char *name, *source;
} built_in[] = {
    {"chatml", "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"plain", "{% for m in messages %}{{ m.content }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"},
};
#define N_BUILT_IN (sizeof built_in / sizeof *built_in)

/* ---- calls that a template does not show ----------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *text, *calls;
} unshown[] = {
#define QN_UNSHOWN(text, calls) {text, calls},
#include "text/chat/unshown.def"
#undef QN_UNSHOWN
};
/* clang-format on */

/* Puts before the template what makes contents of calls; its probes find them then as if it showed them. */
static qn_status show_calls(qn_chat_template *t, const char *calls, qn_error *err)
{
    static const char before[] = "{%- set qn_turns = namespace(all=[]) -%}{%- for m in messages -%}"
                                 "{%- if m.tool_calls -%}{%- set calls -%}",
                      behind[] = "{%- endset -%}{%- set qn_turns.all = qn_turns.all + [{'role': m.role, "
                                 "'content': (m.content or '') + calls}] -%}{%- else -%}{%- set qn_turns.all = "
                                 "qn_turns.all + [m] -%}{%- endif -%}{%- endfor -%}{%- set messages = qn_turns.all -%}";
    qn_jinja *jinja = NULL;
    qn_str s = {0};
    qn__str_puts(&s, before);
    qn__str_puts(&s, calls);
    qn__str_puts(&s, behind);
    qn__str_puts(&s, t->source);
    const qn_status status = s.failed ? QN_FAIL_NOMEM(err, s.len) : qn__jinja_compile(s.data, s.len, &jinja, err);
    qn__str_deinit(&s);
    if (status != QN_OK) return status;
    qn__jinja_destroy(t->jinja);
    t->jinja = jinja;
    t->needs = (qn_chat_needs){.origin = t->origin};
    qn__chat_probe(t);
    return QN_OK;
}

static qn_status show_unshown(qn_chat_template *t, qn_error *err)
{
    if (!t->needs.tools || t->needs.calls) return QN_OK;
    for (size_t i = 0; i < sizeof unshown / sizeof *unshown; i++)
        if (strstr(t->source, unshown[i].text)) return show_calls(t, unshown[i].calls, err);
    return QN_OK;
}

static qn_status create(const char *source, size_t len, const char *origin, qn_chat_template **out, qn_error *err)
{
    qn_chat_template *t = qn__calloc(1, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    qn_status status = qn__jinja_compile(source, len, &t->jinja, err);
    if (status == QN_OK && !(t->source = qn__alloc(len + 1))) status = QN_FAIL_NOMEM(err, len + 1);
    if (status != QN_OK) {
        qn_chat_template_destroy(t);
        return status;
    }
    if (len) memcpy(t->source, source, len);
    t->source[len] = '\0';
    const size_t n = strlen(origin) < sizeof t->origin ? strlen(origin) : sizeof t->origin - 1;
    memcpy(t->origin, origin, n);
    t->needs.origin = t->origin;
    qn__chat_probe(t);
    status = show_unshown(t, err);
    if (status == QN_OK) status = qn__chat_derive(t, err);
    if (status != QN_OK) {
        qn_chat_template_destroy(t);
        return status;
    }
    *out = t;
    return QN_OK;
}

qn_status qn_chat_template_create(const char *source, size_t len, qn_chat_template **out, qn_error *err)
{
    return create(source, len, "source", out, err);
}

static const char *default_for(const qn_gguf *file)
{
    static const char mark[] = "<|im_start|>";
    const qn_gguf_kv *tokens = qn_gguf_kv_find(file, "tokenizer.ggml.tokens");
    for (uint64_t i = 0; tokens && i < tokens->count; i++) {
        qn_gguf_str piece;
        if (qn_gguf_get_str(file, tokens, i, &piece, NULL) != QN_OK) break;
        if (piece.len == sizeof mark - 1 && memcmp(piece.data, mark, piece.len) == 0) return "chatml";
    }
    return "plain";
}

static bool is_built_in(const char *name)
{
    for (size_t i = 0; i < N_BUILT_IN; i++)
        if (strcmp(built_in[i].name, name) == 0) return true;
    return false;
}

qn_status qn__chat_built_in(const char *name, qn_chat_template **out, qn_error *err)
{
    for (size_t i = 0; i < N_BUILT_IN; i++)
        if (strcmp(built_in[i].name, name) == 0)
            return create(built_in[i].source, strlen(built_in[i].source), name, out, err);
    return QN_FAIL(err, invalid, "no chat template named \"%.64s\" is built in", name);
}

qn_status qn_chat_template_load(const qn_gguf *file, const char *name, qn_chat_template **out, qn_error *err)
{
    char key[128] = "tokenizer.chat_template";
    if (name && strlen(name) > 64) return QN_FAIL(err, invalid, "a template's name of more than 64 bytes");
    if (name) strcat(strcat(key, "."), name);
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    if (kv) {
        qn_gguf_str s;
        QN_TRY(qn_gguf_get_str(file, kv, 0, &s, err));
        const qn_status status = create(s.data, s.len, name ? name : "file", out, err);
        return status == QN_OK ? QN_OK : qn__prefix(err, status, "%s", key);
    }
    const char *wanted = name ? name : default_for(file);
    if (is_built_in(wanted)) return qn__chat_built_in(wanted, out, err);
    return QN_FAIL(err, invalid, "the file has no chat template named \"%s\"", name);
}

void qn_chat_template_destroy(qn_chat_template *t)
{
    if (!t) return;
    qn__jinja_destroy(t->jinja);
    qn__arena_deinit(&t->arena);
    qn__free(t->source);
    qn__free(t);
}

const char *qn_chat_template_source(const qn_chat_template *t) { return t->source; }
bool qn_chat_template_thoughts(const qn_chat_template *t, qn_gguf_str *before, qn_gguf_str *behind)
{
    const qn_mark *open = &t->found.marks[QN_MARK_think_open], *close = &t->found.marks[QN_MARK_think_close];
    if (!t->found.thinks || !open->n_text || !close->n_text) return false;
    *before = (qn_gguf_str){open->text, (size_t)open->n_text};
    *behind = (qn_gguf_str){close->text, (size_t)close->n_text};
    return true;
}

void qn_chat_template_needs(const qn_chat_template *t, qn_chat_needs *out) { *out = t->needs; }

/* ---- rendering ---------------------------------------------------------------------------------- */

static void add_all(qn_heap *h, qn_vdict *to, qn_val from, const char *what)
{
    if (h->status != QN_OK) return;
    if (from.type != QN_VAL_dict) QN_RAISE(h, "%s: found %s, expected an object", what, qn__type_name(from));
    for (uint32_t i = 0; from.type == QN_VAL_dict && i < from.d->n; i++)
        qn__dict_set(h, to, from.d->keys[i], from.d->values[i]);
}

static qn_val parse(qn_heap *h, const char *what, const char *text)
{
    if (h->status != QN_OK) return qn__absent();
    const qn_val v = qn__parse_json(h, text, strlen(text), false);
    if (h->status == QN_STATUS_invalid) qn__prefix(h->err, h->status, "%s", what);
    return v;
}

qn_val qn__chat_run(const qn_chat_template *t, qn_heap *h, qn_val messages, qn_val tools, const qn_chat_options *o)
{
    return qn__chat_run_with(t, h, messages, tools, o, qn__absent(), NULL);
}

qn_val qn__chat_run_with(const qn_chat_template *t, qn_heap *h, qn_val messages, qn_val tools, const qn_chat_options *o,
                         qn_val kwargs, qn_jinja_spans *generated)
{
    qn_vdict *v = qn__dict_new(h);
    if (!v || h->status != QN_OK) return (qn_val){.type = QN_VAL_undefined};
    qn__put(h, v, "messages", messages);
    const bool none = tools.type != QN_VAL_list;
    qn_vlist *empty = none && t->needs.empty_tools ? qn__list_new(h, QN_LIST_list, 0) : NULL;
    qn__put(h, v, "tools", empty ? qn__of_list(empty) : tools);
    const qn_val documents = o->documents ? parse(h, "documents", o->documents) : qn__none();
    if (h->status == QN_OK && o->documents && documents.type != QN_VAL_list && documents.type != QN_VAL_none)
        return QN_RAISE(h, "documents: found %s, expected a list", qn__type_name(documents));
    qn__put(h, v, "documents", documents);
    qn__put(h, v, "add_generation_prompt", qn__bool(!o->no_generation_prompt && !o->continue_final_message));
    qn__put(h, v, "bos_token", qn__text_val(h, o->bos ? o->bos : ""));
    qn__put(h, v, "eos_token", qn__text_val(h, o->eos ? o->eos : ""));
    if (o->thinking) {
        qn__put(h, v, "enable_thinking", qn__bool(o->thinking > 0));
        qn__put(h, v, "thinking", qn__bool(o->thinking > 0));
    }
    if (o->reasoning_effort)
        qn__put(h, v, "reasoning_effort", qn__str_val(h, o->reasoning_effort, strlen(o->reasoning_effort), false));
    if (o->kwargs) add_all(h, v, parse(h, "kwargs", o->kwargs), "kwargs");
    if (qn__given(kwargs)) add_all(h, v, kwargs, "chat_template_kwargs");
    return qn__jinja_render(t->jinja, h, v, &(qn_jinja_options){.now = o->now, .generated = generated});
}

/* The end of the last message's content in the text: where the model goes on. */
static uint32_t end_of_content(qn_heap *h, const qn_vstr *text, qn_val messages)
{
    qn_val content = qn__absent();
    if (messages.type == QN_VAL_list && messages.l->n)
        content = qn__member(messages.l->items[messages.l->n - 1], "content");
    if (content.type == QN_VAL_list && content.l->n) content = qn__member(content.l->items[0], "text");
    int64_t last = -1;
    if (qn__is_str(content)) {
        uint32_t n = content.s->n;
        while (n && strchr(" \t\r\n", content.s->data[n - 1])) n--;
        const qn_val stripped = qn__str_part(h, content.s, 0, n);
        for (int64_t at = -1; qn__is_str(stripped) && (at = qn__str_find(text, stripped.s, (uint32_t)(at + 1))) >= 0;)
            last = at + n;
    }
    if (last < 0) QN_RAISE(h, "continue_final_message: the template does not show the last message as it is");
    return last < 0 ? 0 : (uint32_t)last;
}

qn_status qn__chat_take(const qn_vstr *s, qn_prompt *out, qn_error *err)
{
    size_t n = s->trust == QN_TRUST_none && s->n;
    for (uint32_t i = 0; s->trust == QN_TRUST_mixed && i < s->n; i++) n += !s->map[i] && (i == 0 || s->map[i - 1]);
    qn_prompt p = {.text = qn__alloc((size_t)s->n + 1), .len = s->n, .plain = qn__alloc((n + 1) * sizeof *p.plain)};
    if (!p.text || !p.plain) {
        qn_prompt_deinit(&p);
        return QN_FAIL_NOMEM(err, s->n);
    }
    memcpy(p.text, s->data, (size_t)s->n + 1);
    if (s->trust == QN_TRUST_none && s->n) p.plain[p.n_plain++] = (qn_span){0, s->n};
    for (uint32_t i = 0; s->trust == QN_TRUST_mixed && i < s->n; i++) {
        if (s->map[i]) continue;
        if (i == 0 || s->map[i - 1]) p.plain[p.n_plain++] = (qn_span){i, i};
        p.plain[p.n_plain - 1].end = i + 1;
    }
    *out = p;
    return QN_OK;
}

qn_status qn_chat_render(const qn_chat_template *t, const char *messages, const qn_chat_options *options,
                         qn_prompt *out, qn_error *err)
{
    static const qn_chat_options defaults;
    qn_heap h;
    if (!options) options = &defaults;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, err);
    const qn_val list = qn__chat_messages(&h, &t->needs, parse(&h, "messages", messages));
    const qn_val tools =
        options->tools ? qn__chat_tools(&h, &t->needs, parse(&h, "tools", options->tools)) : qn__none();
    qn_val text = qn__chat_run(t, &h, list, tools, options);
    if (h.status == QN_OK && options->continue_final_message)
        text = qn__str_part(&h, text.s, 0, end_of_content(&h, text.s, list));
    const qn_status status = h.status == QN_OK ? qn__chat_take(text.s, out, err) : h.status;
    qn__jinja_heap_deinit(&h);
    return status;
}

void qn_prompt_deinit(qn_prompt *prompt)
{
    if (!prompt) return;
    qn__free(prompt->text);
    qn__free(prompt->plain);
    *prompt = (qn_prompt){0};
}

qn_status qn_prompt_tokenize(const qn_prompt *prompt, const qn_tokenizer *tok, qn_token **out, size_t *n, qn_error *err)
{
    qn_tokenize_options options = {.plain = prompt->plain, .n_plain = prompt->n_plain};
    size_t len = 0;
    const qn_token bos = qn_tokenizer_bos(tok);
    const char *piece = bos == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(tok, bos, &len);
    const bool begins = piece && len && prompt->len >= len && memcmp(prompt->text, piece, len) == 0 &&
                        (!prompt->n_plain || prompt->plain[0].begin >= len);
    options.no_bos = begins || !qn_tokenizer_add_bos(tok);
    return qn_tokenize(tok, prompt->text, prompt->len, &options, out, n, err);
}
