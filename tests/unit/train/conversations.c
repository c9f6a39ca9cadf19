/* SPDX-License-Identifier: MIT */
/* tests/unit/train/conversations.c -- learning from conversations: ids and masks are those of transformers, neighbours
 * in a row do not see each other, what is too long is cut by rule, and interrupted, resumed, or on other threads the
 * same losses come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

#include "conversations_figures.inc"

#define FOLDER QN_TESTS_DIR "/unit/train/"
#define OUT    QN_BUILD_DIR "/t_train_conversations.gguf"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const qn_special_token special[] = {{"<|im_start|>", QN_TOKEN_control},
                                           {"<|im_end|>", QN_TOKEN_control},
                                           {"<call>", QN_TOKEN_user}};

/* As tests/oracle/conversations.py has it. */
static const qn_train_options tiny = {
    .n_layer = 1,
    .n_embd = 8,
    .n_head = 2,
    .n_ctx = 160,
    .n_vocab = 330,
    .split_digits = true,
    .eval_fraction = -1,
    .n_batch = 1,
    .n_steps = 6,
    .lr = 1e-2f,
    .seed = 3,
    .n_threads = 1,
};

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("no %s", path);
    char *text = malloc(1 << 16);
    *len = fread(text, 1, (1 << 16) - 1, f);
    text[*len] = '\0';
    fclose(f);
    return text;
}

static qn_trainer *create(const qn_train_options *o, const qn_lora_options *lora, const qn_train_corpus *c)
{
    qn_trainer *t = NULL;
    qn_error err;
    if (qn_trainer_create_corpus(o, lora, c, &t, &err) != QN_OK) fail_msg("%s", err.text);
    return t;
}

/* The conversations of the figures. */
static qn_trainer *create_tiny(const qn_train_options *o)
{
    size_t len, n;
    char *text = read_file(FOLDER "conversations.jsonl", &len), *shape = read_file(FOLDER "conversations.jinja", &n);
    const qn_gguf_str texts[] = {{text, len}};
    qn_trainer *t = create(o, NULL,
                           &(qn_train_corpus){.texts = texts,
                                              .n_texts = 1,
                                              .chat = true,
                                              .chat_template = shape,
                                              .special = special,
                                              .n_special = LEN(special),
                                              .eos = "<|im_end|>"});
    free(text);
    free(shape);
    return t;
}

static double step(qn_trainer *t)
{
    qn_train_step s;
    qn_error err;
    if (qn_trainer_step(t, &s, &err) != QN_OK) fail_msg("%s", err.text);
    return s.loss + s.grad_norm;
}

static double evaluate(qn_trainer *t)
{
    qn_train_eval e;
    qn_error err;
    if (qn_trainer_evaluate(t, &e, &err) != QN_OK) fail_msg("%s", err.text);
    return e.loss;
}

/* ---- tokens ---- */

/* Where the part that begins at cell `at` of the rows ends. */
static int64_t part_end(const qn_train_rows *r, int64_t at, int32_t n_ctx)
{
    int64_t end = at + 1;
    while (end % n_ctx && r->part[end] == r->part[at]) end++;
    return end;
}

/* The conversation from `from` to `end` of the figures is this part: fed up to the last token that is said, with the
 * next token as target where that is said. */
static bool is_figure(const qn_train_rows *r, int64_t at, int64_t n, int32_t from, int32_t end)
{
    while (end > from && !figure_said[end - 1]) end--;
    if (end - from - 1 != n) return false;
    for (int32_t i = 0; i < n; i++) {
        const int32_t want = figure_said[from + i + 1] ? figure_ids[from + i + 1] : -1;
        if (r->ids[at + i] != figure_ids[from + i] || r->targets[at + i] != want) return false;
    }
    return true;
}

static void as_transformers_has_them(void **state)
{
    (void)state;
    qn_trainer *t = create_tiny(&tiny);
    const qn_train_rows *r = &t->data.rows;
    const int64_t cells = r->n * tiny.n_ctx;
    bool found[LEN(figure_ends)] = {false};
    int n_parts = 0, n_said = 0;
    for (int64_t at = 0, end; at < cells; at = end) {
        end = part_end(r, at, tiny.n_ctx);
        if (r->part[at] < 0) continue;
        n_parts++;
        for (size_t i = 0; i < LEN(figure_ends); i++)
            if (!found[i] && is_figure(r, at, end - at, i ? figure_ends[i - 1] : 0, figure_ends[i])) {
                found[i] = true;
                break;
            }
    }
    for (size_t i = 0; i < LEN(figure_ends); i++)
        if (!found[i]) fail_msg("conversation %zu is not in the rows", i);
    for (size_t i = 0; i < LEN(figure_said); i++) n_said += figure_said[i];
    assert_int_equal(n_parts, LEN(figure_ends));
    assert_int_equal(t->data.n_tokens, n_said);
    assert_true(r->n < n_parts); /* several share a row */
    qn_trainer_destroy(t);
}

/* ---- attention ---- */

/* The same conversations, one a row. */
static qn_train_rows apart(const qn_train_rows *r, int32_t n_ctx)
{
    qn_train_rows out = {0};
    const size_t most = 64 * (size_t)n_ctx * sizeof(int32_t);
    out.ids = qn__calloc(1, most);
    out.targets = qn__alloc(most);
    out.part = qn__alloc(most);
    out.n_learnt = qn__calloc(64, sizeof *out.n_learnt);
    memset(out.targets, 0xff, most);
    memset(out.part, 0xff, most);
    for (int64_t at = 0, end; at < r->n * n_ctx; at = end) {
        end = part_end(r, at, n_ctx);
        if (r->part[at] < 0) continue;
        const size_t to = (size_t)out.n++ * (size_t)n_ctx, bytes = (size_t)(end - at) * sizeof *r->ids;
        memcpy(out.ids + to, r->ids + at, bytes);
        memcpy(out.targets + to, r->targets + at, bytes);
        memset(out.part + to, 0, bytes);
    }
    return out;
}

static void neighbours_unseen(void **state)
{
    (void)state;
    qn_train_options o = tiny;
    o.n_layer = 2, o.eval_fraction = 0.7f, o.n_steps = 60, o.n_vocab = 0;
    qn_trainer *t = create_tiny(&o);
    for (int i = 0; i < 60; i++) (void)step(t); /* so that attention matters */
    qn_train_data *d = &t->data;
    assert_true(d->held_rows.n >= 2);
    const double together = evaluate(t);
    qn_train_rows packed = d->held_rows;
    d->held_rows = apart(&packed, o.n_ctx);
    d->n_held_windows = d->held_rows.n;
    assert_true(d->held_rows.n > packed.n);
    const double alone = evaluate(t);
    qn__rows_deinit(&d->held_rows);
    d->held_rows = packed;
    d->n_held_windows = packed.n;
    for (int64_t i = 0; i < packed.n * o.n_ctx; i++)
        if (packed.part[i] > 0) packed.part[i] = 0;
    const double seen = evaluate(t);
    print_message("loss %.7f together, %.7f alone, %.7f if they saw each other\n", together, alone, seen);
    assert_true(fabs(together - alone) < 1e-5 * alone);
    assert_true(fabs(seen - alone) > 1e-3 * alone);
    qn_trainer_destroy(t);
}

/* ---- what is too long ---- */

#define TURN(q, a)  "{\"role\": \"user\", \"content\": \"" q "\"}, {\"role\": \"assistant\", \"content\": \"" a "\"}"
#define LINE(turns) "{\"messages\": [" turns "]}\n"

static qn_status try_lines(const qn_train_options *o, const char *lines, qn_trainer **t, qn_error *err)
{
    const qn_gguf_str text = {lines, strlen(lines)};
    const char *const name = "talks.jsonl";
    return qn_trainer_create_corpus(o, NULL,
                                    &(qn_train_corpus){.texts = &text, .n_texts = 1, .names = &name, .chat = true}, t,
                                    err);
}

/* Tokens fed of each conversation, in order of length; all go into rows of 160. */
static int lengths(const qn_trainer *t, int64_t out[4])
{
    const qn_train_rows *r = &t->data.rows;
    int n = 0;
    for (int64_t at = 0, end; at < r->n * t->o.n_ctx; at = end) {
        end = part_end(r, at, t->o.n_ctx);
        if (r->part[at] < 0) continue;
        int k = n++;
        for (; k > 0 && out[k - 1] > end - at; k--) out[k] = out[k - 1];
        out[k] = end - at;
    }
    return n;
}

static void cut_by_rule(void **state)
{
    (void)state;
    qn_train_options o = tiny;
    static const char lines[] = LINE(TURN("a", "b")) LINE(TURN("a", "b") ", " TURN("c", "d") ", " TURN("e", "f"))
        LINE(TURN("0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789", "b"));
    qn_trainer *t = NULL;
    qn_error err;
    qn_train_info info;
    int64_t n[4];
    o.n_vocab = 0;
    if (try_lines(&o, lines, &t, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(lengths(t, n), 3);
    qn_trainer_get_info(t, &info);
    assert_int_equal(info.n_cut + info.n_left_out, 0);
    assert_int_equal(info.n_tokens, 10); /* five letters, five ends */
    assert_int_equal(info.n_fed, n[0] + n[1] + n[2]);
    qn_trainer_destroy(t);

    /* one token too few for the three turns, and far too few for the long question */
    assert_true(n[2] > n[1] + 1);
    o.n_ctx = (int32_t)n[1] - 1;
    t = NULL;
    if (try_lines(&o, lines, &t, &err) != QN_OK) fail_msg("%s", err.text);
    qn_trainer_get_info(t, &info);
    assert_int_equal(info.n_conversations, 3);
    assert_int_equal(info.n_cut, 1);
    assert_int_equal(info.n_left_out, 1);
    assert_int_equal(info.n_tokens, 6); /* "b"; "b" and "d"; their ends */
    assert_int_equal(info.n_bytes, 3 + 3 * (int)strlen("<|im_end|>"));
    qn_trainer_destroy(t);

    o.n_ctx = (int32_t)n[1]; /* just enough */
    t = NULL;
    if (try_lines(&o, lines, &t, &err) != QN_OK) fail_msg("%s", err.text);
    qn_trainer_get_info(t, &info);
    assert_int_equal(info.n_cut, 0);
    assert_int_equal(info.n_left_out, 1);
    qn_trainer_destroy(t);

    o.n_ctx = 4;
    t = NULL;
    assert_int_equal(try_lines(&o, lines, &t, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "within ctx, which is 4"));
    assert_null(t);
}

static void errors_name_lines(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *text;
    } cases[] = {
        {LINE(TURN("a", "b")) "\n{\"messages\": [}\n", "talks.jsonl:3: "},
        {"[]\n", "talks.jsonl:1: found list"},
        {"{}\n", "talks.jsonl:1: messages"},
        {LINE("{\"role\": \"user\", \"content\": \"a\"}"), "talks.jsonl:1: messages: no turn of the assistant's"},
        {LINE(TURN("a", "b")) LINE("{\"content\": \"a\"}, " TURN("a", "b")), "talks.jsonl:2: messages[0].role"},
        {LINE("{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 2}"), "talks.jsonl:1: messages[0].weight"},
        {LINE("{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}"), "talks.jsonl:1: messages: no turn"},
        {LINE("{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}"),
         "talks.jsonl:1: messages[0].tool_calls: the template does not show calls"},
        {"{\"messages\": [" TURN("a", "b") "], \"tools\": [{\"function\": {\"name\": \"f\"}}]}",
         "talks.jsonl:1: tools: the template does not show them"},
        {"\n \n", "no conversation"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        qn_trainer *t = NULL;
        qn_error err;
        assert_int_equal(try_lines(&tiny, cases[i].lines, &t, &err), QN_STATUS_invalid);
        if (!strstr(err.text, cases[i].text)) fail_msg("\"%s\" has no \"%s\"", err.text, cases[i].text);
        assert_null(t);
    }
}

/* A template whose marks are no tokens: nothing would end a turn. */
static void turns_must_end(void **state)
{
    (void)state;
    static const char lines[] = LINE(TURN("a", "b"));
    const qn_gguf_str text = {lines, sizeof lines - 1};
    qn_train_corpus c = {.texts = &text,
                         .n_texts = 1,
                         .chat = true,
                         .chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<end>{% endfor %}"};
    qn_train_options o = tiny;
    qn_trainer *t = NULL;
    qn_error err;
    o.n_vocab = 0;
    assert_int_equal(qn_trainer_create_corpus(&o, NULL, &c, &t, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "would never stop"));
    assert_null(t);
    const qn_special_token end = {"<end>", QN_TOKEN_control};
    c.special = &end, c.n_special = 1, c.eos = "<end>";
    t = create(&o, NULL, &c);
    qn_trainer_destroy(t);
}

/* A byte order mark, which editors leave at the beginning, is no part of the first line. */
static void a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    static const char lines[] = "\xef\xbb\xbf" LINE(TURN("a", "b")) LINE(TURN("c", "d"));
    qn_train_options o = tiny;
    o.n_vocab = 0, o.n_ctx = 96;
    qn_trainer *t[2] = {NULL, NULL};
    qn_error err;
    for (int i = 0; i < 2; i++)
        if (try_lines(&o, lines + 3 * i, &t[i], &err) != QN_OK) fail_msg("%s", err.text);
    assert_true(t[0]->data.text_hash == t[1]->data.text_hash);
    for (int i = 0; i < 2; i++) qn_trainer_destroy(t[i]);
}

/* ---- the same bits ---- */

static void resumed_and_on_threads(void **state)
{
    (void)state;
    qn_train_options o = tiny;
    o.n_batch = 2, o.n_accum = 2, o.n_ctx = 96, o.dropout = 0.1f, o.eval_fraction = 0.3f;
    double want[6];
    qn_error err;
    qn_trainer *t = create_tiny(&o);
    qn_metrics first, last;
    for (int i = 0; i < 6; i++) {
        if (i == 1) qn_metrics_snapshot(&first);
        want[i] = step(t);
    }
    qn_metrics_snapshot(&last);
    assert_int_equal(last.allocs, first.allocs);
    assert_int_equal(last.plan_cache_misses, first.plan_cache_misses);
    qn_trainer_destroy(t);
    for (int i = 0; i < 6; i++) assert_true(isfinite(want[i]) && (i == 0 || want[i] != want[i - 1]));

    o.n_threads = 2, o.grad_checkpointing = true;
    t = create_tiny(&o);
    for (int i = 0; i < 3; i++) assert_true(step(t) == want[i]);
    if (qn_trainer_save(t, OUT, &err) != QN_OK) fail_msg("%s", err.text);
    qn_trainer_destroy(t);
    t = create_tiny(&o);
    if (qn_trainer_load(t, OUT, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 3; i < 6; i++) assert_true(step(t) == want[i]);
    qn_trainer_destroy(t);
    /* another text is another training */
    qn_trainer *other = NULL;
    o.n_vocab = 0;
    static const char lines[] = LINE(TURN("a", "b"));
    if (try_lines(&o, lines, &other, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_trainer_load(other, OUT, &err), QN_STATUS_invalid);
    qn_trainer_destroy(other);
    unlink(OUT);
}

/* ---- what comes out, and adapters ---- */

static void adapters_begin_as_their_base(void **state)
{
    (void)state;
    qn_train_options o = tiny;
    o.eval_fraction = 0.3f, o.n_steps = 30, o.n_embd = 32;
    qn_trainer *t = create_tiny(&o);
    for (int i = 0; i < 20; i++) (void)step(t);
    const double own = evaluate(t);
    qn_error err;
    if (qn_trainer_export(t, OUT, NULL, "tiny", &err) != QN_OK) fail_msg("%s", err.text);
    qn_trainer_destroy(t);

    size_t len;
    char *text = read_file(FOLDER "conversations.jsonl", &len);
    const qn_gguf_str texts[] = {{text, len}};
    const qn_lora_options lora = {.base = OUT, .rank = 4};
    const qn_train_options with = {.n_ctx = 160, .n_batch = 1, .eval_fraction = 0.3f, .n_steps = 30, .lr = 1e-2f};
    qn_train_corpus c = {.texts = texts, .n_texts = 1, .chat = true};
    t = create(&with, &lora, &c);
    const double base = evaluate(t);
    double loss = 0, before = 0;
    for (int i = 0; i < 30; i++) {
        qn_train_step s;
        if (qn_trainer_step(t, &s, &err) != QN_OK) fail_msg("%s", err.text);
        if (i < 2) before += s.loss;
        if (i >= 28) loss += s.loss;
    }
    print_message("loss of the base %.6f and %.6f; learning %.3f -> %.3f\n", own, base, before / 2, loss / 2);
    assert_true(fabs(own - base) < 2e-3 * own);
    assert_true(loss < 0.8 * before);
    qn_trainer_destroy(t);

    t = NULL;
    c.special = special, c.n_special = 1;
    assert_int_equal(qn_trainer_create_corpus(&with, &lora, &c, &t, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "special tokens are the base's"));
    assert_null(t);
    /* another template than the base's: fewer tokens, and other losses */
    c.n_special = 0, c.chat_template =
                         "{% for m in messages %}{{ m.role[0] + m.content + m.tool_calls | string + tools | string }}"
                         "<|im_end|>{% endfor %}";
    t = create(&with, &lora, &c);
    assert_true(fabs(evaluate(t) - base) > 1e-3 * base);
    qn_trainer_destroy(t);
    free(text);
    unlink(OUT);
}

/* Plain texts that spell a special token: it is that token, and </s> is text. */
static void texts_spell_tokens(void **state)
{
    (void)state;
    static const char words[] = "one two three<|im_end|>two three one</s> three<|im_start|>one two<|im_end|><|im_end|>";
    char text[8 * sizeof words] = "";
    for (int i = 0; i < 8; i++) strcat(text, words);
    const qn_gguf_str texts[] = {{text, strlen(text)}};
    qn_train_options o = tiny;
    o.n_vocab = 0, o.n_ctx = 8;
    qn_trainer *t =
        create(&o, NULL, &(qn_train_corpus){.texts = texts, .n_texts = 1, .special = special, .n_special = 2});
    int starts = 0, ends = 0, eos = 0;
    for (int64_t i = 0; i < t->data.n_tokens; i++) {
        starts += t->data.tokens[i] == 3;
        ends += t->data.tokens[i] == 4;
        eos += t->data.tokens[i] == 2;
    }
    assert_int_equal(starts, 8);
    assert_int_equal(ends, 24);
    assert_int_equal(eos, 1); /* the end of the text */
    assert_int_equal(t->data.vocab->eos, 2);
    qn_trainer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_transformers_has_them),
        cmocka_unit_test(neighbours_unseen),
        cmocka_unit_test(cut_by_rule),
        cmocka_unit_test(errors_name_lines),
        cmocka_unit_test(turns_must_end),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(resumed_and_on_threads),
        cmocka_unit_test(adapters_begin_as_their_base),
        cmocka_unit_test(texts_spell_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
