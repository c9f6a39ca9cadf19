/* SPDX-License-Identifier: MIT */
/* src/cli/chat_prompt.c -- what the model reads: the conversation rendered and tokenized, fitted into the context, and
 * computed as far as the cache does not have it. */
#include "cli/chat.h"
#include <stdlib.h>
#include <string.h>

static const char *piece_of(const chat *c, qn_token id)
{
    size_t len;
    return id == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(c->tok, id, &len);
}

int chat_ids_render(const chat *c, size_t first, chat_ids *out)
{
    const char *think = c->o.think;
    const bool level = think && strcmp(think, "on") != 0 && strcmp(think, "off") != 0;
    const qn_chat_options options = {
        .tools = c->tools,
        .kwargs = c->o.kwargs,
        .thinking = !think                      ? 0
                    : strcmp(think, "off") == 0 ? -1
                                                : 1,
        .reasoning_effort = level ? think : NULL,
        .bos = piece_of(c, qn_tokenizer_bos(c->tok)),
        .eos = piece_of(c, qn_tokenizer_eos(c->tok)),
    };
    char *json = NULL;
    qn_error err;
    *out = (chat_ids){0};
    qn_status status = qn_messages_json(c->messages, first, &json, &err);
    if (status == QN_OK) status = qn_chat_render(c->tmpl, json, &options, &out->prompt, &err);
    qn_free(json);
    if (status == QN_STATUS_cancelled) return cli_fail("the model's template refuses the conversation: %s", err.text);
    qn_token *ids = NULL;
    if (status == QN_OK) status = qn_prompt_tokenize(&out->prompt, c->tok, &ids, &out->n, &err);
    if (status == QN_OK) {
        out->n_prompt = out->n;
        out->cap = out->n + 256;
        out->ids = malloc(out->cap * sizeof(*out->ids));
        if (out->ids && out->n) memcpy(out->ids, ids, out->n * sizeof(*ids));
        qn_free(ids);
        if (out->ids && out->n) return CLI_OK;
    }
    const bool empty = status == QN_OK && out->ids;
    chat_ids_deinit(out);
    if (status != QN_OK) return cli_fail_error(&err);
    return empty ? cli_fail("the model's template makes nothing of this conversation") : cli_no_memory("out of memory");
}

int chat_ids_add(chat_ids *ids, qn_token id)
{
    if (ids->n == ids->cap) {
        qn_token *more = realloc(ids->ids, ids->cap * 2 * sizeof(*more));
        if (!more) return cli_no_memory("out of memory");
        ids->ids = more;
        ids->cap *= 2;
    }
    ids->ids[ids->n++] = id;
    return CLI_OK;
}

void chat_ids_deinit(chat_ids *ids)
{
    qn_prompt_deinit(&ids->prompt);
    free(ids->ids);
    *ids = (chat_ids){0};
}

/* ---- a full context ---- */

/* The same with the turns before `first` left out, and with what was said since. */
static int render_from(const chat *c, size_t first, const chat_ids *ids, chat_ids *out)
{
    int status = chat_ids_render(c, first, out);
    for (size_t i = ids->n_prompt; i < ids->n && status == CLI_OK; i++) status = chat_ids_add(out, ids->ids[i]);
    return status;
}

/* The places of user's turns after the present first one: what the conversation may begin with. */
static size_t *beginnings(const chat *c, size_t *n)
{
    const size_t count = qn_messages_count(c->messages);
    size_t *at = malloc((count + 1) * sizeof(*at));
    *n = 0;
    bool passed = false; /* the first turn that is read now */
    for (size_t i = 0; at && i < count; i++) {
        if (i < c->first || strcmp(qn_messages_role(c->messages, i), "user") != 0) continue;
        if (passed) at[(*n)++] = i;
        passed = true;
    }
    return at;
}

/* Leaves out as few of the oldest turns as leave a quarter of the context free; or all but the last, when they leave at
 * least some. *n_turns 0: not even that. */
static int shorten(const chat *c, const chat_ids *ids, chat_ids *out, size_t *first, size_t *n_turns)
{
    const size_t n_ctx = (size_t)qn_session_n_ctx(c->session), most = n_ctx - n_ctx / 4;
    size_t n = 0, *at = beginnings(c, &n), low = 0, high = n;
    int status = at ? CLI_OK : cli_no_memory("out of memory");
    *n_turns = 0;
    while (low < high && status == CLI_OK) { /* the fewest that do: [low, high) are not yet known */
        const size_t mid = low + (high - low) / 2;
        chat_ids tried;
        if ((status = render_from(c, at[mid], ids, &tried)) != CLI_OK) break;
        if (tried.n <= most)
            high = mid;
        else
            low = mid + 1;
        chat_ids_deinit(&tried);
    }
    if (low == n && n) low = n - 1;
    if (n && status == CLI_OK && (status = render_from(c, at[low], ids, out)) == CLI_OK) {
        if (out->n < n_ctx) {
            *first = at[low];
            *n_turns = low + 1;
        } else {
            chat_ids_deinit(out);
        }
    }
    free(at);
    return status;
}

typedef enum choice { CHOICE_stop, CHOICE_drop, CHOICE_shift } choice;

static choice ask(chat *c)
{
    const char *text;
    for (;;) {
        if (chat_input_message(c->input, "[d]rop, [s]hift or [n]othing? ", &text) != CHAT_TYPED_text)
            return CHOICE_stop;
        if (*text == 'd' || *text == 'D') return CHOICE_drop;
        if (*text == 's' || *text == 'S') return CHOICE_shift;
        if (*text == 'n' || *text == 'N' || !*text) return CHOICE_stop;
    }
}

void chat_say_full(chat *c, const chat_ids *ids)
{
    const int32_t n_ctx = qn_session_n_ctx(c->session);
    const bool answering = ids->n > ids->n_prompt;
    qn_engine_info info;
    size_t n;
    qn_engine_get_info(c->engine, &info);
    free(beginnings(c, &n));
    const char *shift = answering && c->o.context_shift && c->o.n_predict < 0 ? "with -n N, --context-shift would go on"
                        : n ? "--context-shift would leave out the oldest turns"
                            : "it is one turn alone",
               *more = n_ctx < info.n_ctx_train ? "-c asks for a larger context"
                                                : "the model was trained for no larger context";
    chat_screen_say(&c->screen, CHAT_alert, "%s: the conversation has %zu tokens, the context %d; %s, %s",
                    answering ? "the answer was cut here, the context is full" : "the context is full", ids->n, n_ctx,
                    shift, more);
}

/* One turn alone: what was said first in the answer goes. Without a number of tokens it would never end, and where the
 * prompt leaves little room every few tokens would cost a shift. */
static bool halve_answer(chat *c, chat_ids *ids)
{
    const size_t n_said = ids->n - ids->n_prompt, n_gone = (n_said + 1) / 2;
    if (!c->o.context_shift || c->o.n_predict < 0 || n_said < (size_t)qn_session_n_ctx(c->session) / 8) return false;
    memmove(ids->ids + ids->n_prompt, ids->ids + ids->n_prompt + n_gone, (n_said - n_gone) * sizeof(*ids->ids));
    ids->n -= n_gone;
    chat_screen_say(&c->screen, CHAT_alert,
                    "The context is full (%zu of %d tokens): the oldest half of the answer is left out, %zu tokens.",
                    ids->n + n_gone, qn_session_n_ctx(c->session), n_gone);
    return true;
}

int chat_ids_fit(chat *c, chat_ids *ids, bool *shift)
{
    const int32_t n_ctx = qn_session_n_ctx(c->session);
    chat_ids shorter;
    size_t first = 0, n_turns = 0;
    *shift = false;
    if (ids->n < (size_t)n_ctx) return CLI_OK;
    const int status = shorten(c, ids, &shorter, &first, &n_turns);
    if (status != CLI_OK) return status;
    if (!n_turns && halve_answer(c, ids)) {
        *shift = true;
        return CLI_OK;
    }
    choice chosen = c->o.context_shift ? CHOICE_shift : CHOICE_stop;
    const bool may_ask = n_turns && c->input && !c->o.context_shift;
    if (may_ask) {
        char turns[48] = "The oldest turn";
        if (n_turns > 1) snprintf(turns, sizeof(turns), "The %zu oldest turns", n_turns);
        chat_screen_say(
            &c->screen, CHAT_alert,
            "The context is full: the conversation has %zu tokens, the context %d. %s (%zu tokens) can be "
            "left out. Drop: what follows is computed anew. Shift: it is moved up as it is, now and whenever "
            "it gets full again; quicker, but not exact.",
            ids->n, n_ctx, turns, ids->n - shorter.n);
        chosen = ask(c);
        if (chosen == CHOICE_shift) c->o.context_shift = true;
    }
    if (!n_turns || chosen == CHOICE_stop) {
        if (!may_ask && ids->n == ids->n_prompt) chat_say_full(c, ids);
        if (n_turns) chat_ids_deinit(&shorter);
        return CLI_FAILED;
    }
    chat_screen_say(&c->screen, CHAT_alert, "The context is full (%zu of %d tokens): %zu %s left out, %zu tokens.",
                    ids->n, n_ctx, n_turns, n_turns == 1 ? "turn is" : "turns are", ids->n - shorter.n);
    chat_ids_deinit(ids);
    *ids = shorter;
    c->first = first;
    *shift = chosen == CHOICE_shift;
    return CLI_OK;
}

/* ---- computing ---- */

/* Between chunks it is told how far it is, so one may not take long; graphs are kept by size, so sizes are few. */
static size_t next_step(size_t step, size_t most, int64_t ns)
{
    enum { FIRST = 128, LEAST = 32 };
    if (step == 0) return most < FIRST ? most : FIRST;
    if (ns < 400000000 && step * 2 <= most) return step * 2;
    if (ns > 1000000000 && step / 2 >= LEAST) return step / 2;
    return step;
}

int chat_ids_compute(chat *c, const chat_ids *ids, bool shift, size_t *n_reused)
{
    qn_error err;
    cli_progress progress;
    const size_t most = (size_t)qn_session_n_batch(c->session);
    qn_status status =
        (shift ? qn_session_reuse_shift : qn_session_reuse)(c->session, 0, ids->ids, ids->n, n_reused, &err);
    if (status != QN_OK) return cli_fail_error(&err);
    cli_progress_init(&progress, "reading");
    size_t step = 0;
    int64_t took = 0;
    cli_interrupt_stops(c->session);
    for (size_t i = *n_reused; i < ids->n && status == QN_OK; i += step) {
        const int64_t start = cli_now_ns();
        step = next_step(step, most, took);
        const size_t n = ids->n - i < step ? ids->n - i : step;
        status = qn_session_feed(c->session, 0, ids->ids + i, n, &err);
        took = cli_now_ns() - start;
        if (status == QN_OK && !cli_progress_step(&progress, i + n - *n_reused, ids->n - *n_reused) && i + n < ids->n)
            status = QN_STATUS_cancelled;
    }
    cli_interrupt_stops(NULL);
    cli_progress_end(&progress);
    if (status == QN_STATUS_cancelled) return CLI_INTERRUPTED;
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}
