/* SPDX-License-Identifier: MIT */
/* src/serve/answers.h -- the one internal request, whatever dialect it came in, and its answers as they come.
 *
 * A dialect fills an `ask` out of its body; ask_start makes answers of it, hands them to the batcher, and replies. The
 * pump then turns tokens into pieces (content, reasoning, calls) and gives them to the dialect's functions. */
#ifndef QN_SERVE_ANSWERS_H
#define QN_SERVE_ANSWERS_H

#include "serve/exchange.h"
#include "serve/stop.h"

enum { MAX_STOPS = 32, MAX_STOP_BYTES = 4096, MAX_ANSWERS = 128 };

typedef struct id_list {
    qn_token *ids;
    size_t n;
} id_list;

/* What is asked of the model. All zero but `sampler` is a plain request. Strings are borrowed from the body, which
 * stays with the answers. */
typedef struct ask {
    json_t *body; /* owned */
    /* a conversation, or a text, or ids */
    json_t *messages, *tools; /* owned; in OpenAI's form */
    const char *text;
    size_t text_len;
    bool special;     /* control tokens are found in the text */
    id_list *prompts; /* [n_prompts] owned: or several of ids, each answered n times */
    int n_prompts;

    qn_chat_options chat; /* what isn't filled in by ask_start: thinking, effort, kwargs, .. */
    char *kwargs;         /* owned (malloc) */
    const char *tool_choice;
    bool single_call;
    char *schema;                            /* owned (malloc): JSON schema of content */
    bool schema_loose;                       /* what of it cannot be held is left out */
    const char *schema_field, *prompt_field; /* of the request, where they were said; NULL: messages, or prompt */
    const char *gbnf;
    qn_sampler_params sampler;
    qn_logit_bias *bias; /* owned (malloc) */
    const char *stop[MAX_STOPS];
    int n_stop, n, max_tokens;
    bool only_reads; /* its answer has no token: the prompt is in the cache then */
    bool has_order;
    char order[QN_SAMPLER_COUNT + 1]; /* of samplers */
    const char **breakers;            /* owned (malloc): of DRY, NULL at the end; NULL: as the sampler has them */
    bool progress, timings;           /* are told while the prompt is read; with each piece */
    bool shift;                       /* beyond the context, up to max_tokens */
    int n_keep, n_discard; /* then: as llama-server's, without the token that every prompt begins with; -1: all of it */
    bool logprobs, stream, include_usage, no_cache, echo, return_ids;
    int n_top;
    int budget; /* tokens of thoughts, after which they are ended; 0: none */
    qn_lora_use loras[QN_MAX_LORAS];
    int n_loras;
    json_t *own; /* owned: what the dialect keeps until the end */
    const char *model;
} ask;

/* With what the exchange's model has for requests that say nothing. */
void ask_init(ask *q, const exchange *x);
void ask_deinit(ask *q);
/* Fields that OpenAI's, llama-server's and Ollama's options have in common; see sampling.c. */
bool ask_sampling(ask *q, const fields *f);
uint64_t ask_seed(const ask *q, int k); /* of answer k */
bool ask_stops(ask *q, const fields *f, const char *name);
bool ask_bias(ask *q, const model *m, const fields *f);
bool ask_ban(ask *q, qn_token token, problem *p);
/* A schema of the content, that was said in a field. */
bool ask_schema(ask *q, const json_t *schema, const char *field, problem *p);
/* How many tokens the answer has at most: < 0 as many as fit. */
void ask_most(ask *q, int64_t n);
bool ask_limits(ask *q, const fields *f); /* .. by all the names that it has */
/* What llama-server's requests say beyond those; see extras.c. */
bool ask_extras(ask *q, exchange *x, const fields *f);
/* ---- lora.c ---- */
/* The model's adapters, as they act when a request says nothing, or the one that it named with the model; then what it
 * says: "lora". */
void ask_loras_init(ask *q, const exchange *x);
bool ask_loras(ask *q, const model *m, const fields *f);
/* Takes the ask. Replies, now or when the answers have come. */
void ask_start(exchange *x, ask *q, problem *p);
/* All of it: what `read` makes of the body is answered, or the problem that it left. */
void ask_serve(exchange *x, bool (*read)(ask *q, exchange *x, problem *p));
/* The rendered prompt and its ids, into q->prompts. */
bool ask_prompt(ask *q, const model *m, qn_prompt *prompt, problem *p);
bool ask_add_prompt(ask *q, const qn_token *ids, size_t n, problem *p); /* copied */
/* Behind the last prompt. */
bool ask_extend_prompt(ask *q, const qn_token *ids, size_t n, problem *p);

/* ---- answers ---- */

typedef enum piece_kind { PIECE_content, PIECE_reasoning, PIECE_call, PIECE_arguments, PIECE_call_end } piece_kind;
struct piece {
    piece_kind kind;
    int call;         /* its number in the answer */
    const char *text; /* of a call: its name */
    size_t len;
};

typedef struct tool_call {
    char id[40], *name;
    text arguments;
    bool cut;
} tool_call;

typedef struct token_event {
    qn_token token;
    float logprob;
    int32_t top, n_top; /* choice.tops[top ..] */
} token_event;

typedef enum finish { FINISH_stop, FINISH_length, FINISH_calls, FINISH_cancelled, FINISH_error } finish;

struct choice {
    answers *a;
    int index;
    uint64_t id; /* the batcher's */

    /* under server.events_lock: what the executor left */
    choice *next_ready;
    bool listed, over, lost, progressed;
    token_event *events;
    qn_batch_logprob *tops;
    size_t n_events, cap_events, n_tops, cap_tops;
    qn_batch_end end;
    qn_error error;
    qn_batch_usage usage;
    int64_t token_ns; /* when the last one came; 0: none has */
    uint64_t dropped; /* request of the batcher's whose events count no more; 0: none */

    /* the pump's, under answers.lock */
    bool submitted, ended, no_memory;
    qn_chat_reader *reader; /* NULL: plain text */
    qn_detok detok;
    stop_text stop;
    finish finish;
    int stop_index;       /* which of the stop strings came; -1: none */
    size_t logprob_bytes; /* that probabilities take, roughly */
    text content, reasoning;
    tool_call *calls;
    int n_calls, n_reasoning, n_tokens;
    size_t n_told; /* bytes that probabilities were told of */
    bool in_reasoning, in_call;
    bool forced;         /* its thoughts were ended by the budget */
    text said;           /* the tokens so far, as they are in memory, where there is a budget */
    qn_batch_usage base; /* of the time before thoughts were ended */
    json_t *logprobs;    /* of tokens of content that no piece carried yet; of all of them where the reply is whole */
    json_t *waiting;     /* of tokens of which nothing has come yet */
    text token_text;     /* of the token at hand */
    json_t *ids;         /* the tokens; where the dialect wants them */
    qn_batch_usage used;
};

struct answers {
    pthread_mutex_t lock;
    exchange *x;
    const dialect *d;
    ask q;
    qn_prompt prompt;
    qn_grammar *grammar;
    qn_grammar *after; /* of what comes when thoughts were ended by the budget */
    qn_token *closing; /* [n_closing] the mark that ends thoughts */
    size_t n_closing;
    size_t n_prompt; /* of all prompts */
    choice *choices; /* [n]: those of a prompt side by side */
    int n, n_left;
    bool failed, paused, done, started;
    bool stopped; /* somebody asked for its end: what there is counts */
    problem problem;
    char id[48];
    int64_t created;
    json_t *own; /* the dialect's, while it writes */
    int phase, index, n_events;
    text part;
};

/* Hands a choice to the batcher; a->n_left counts it then. */
bool ask_submit(answers *a, choice *c, problem *p);
/* behind: its thoughts are over. */
bool ask_grammar(ask *q, const model *m, const qn_prompt *prompt, bool behind, qn_grammar **out, problem *p);
/* A token of the answer's. */
void choice_push(choice *c, qn_token token);

/* ---- logprobs.c ---- */
/* The probabilities of a token, and of those that were asked for beside it, wait until it shows whether it is content.
 */
void choice_note_logprob(choice *c, const token_event *e, const qn_batch_logprob *tops);

/* ---- thoughts.c ---- */
bool thoughts_prepare(answers *a, problem *p);
/* The budget is used up now. */
bool thoughts_over(const choice *c);
/* Ends them. over: whether the batcher's end of the choice is being looked at; set to whether the choice ends with
 * this. Returns how often the exchange is to be let go for what was dropped. */
int thoughts_end(choice *c, bool *over);
/* Of both parts. Under server.events_lock. */
qn_batch_usage thoughts_usage(const choice *c);

void answers_free(answers *a);
/* The client is gone. */
void answers_cancel(exchange *x);
/* They end with what there is; false where they had ended already. */
bool answers_stop(answers *a);
/* Did it fill the context? Whether it ended there or went on. */
bool choice_truncated(const choice *c);
/* For a line of the log: tokens read, cached, written, times, and how it ended. */
void answers_tell(answers *a, text *out);
/* What was written, into the log (--log-prompts). */
void answers_log(answers *a);
/* On the executor's thread. */
void answers_event(void *choice, const qn_batch_event *e);
/* On the pump's: what came since. */
void choice_pump(choice *c);
/* A reader that doesn't read is waited for. */
void answers_pace(answers *a);

/* ---- what dialects write with ---- */
/* "prefix" and 24 random letters. */
void make_id(char *out, size_t size, const char *prefix);
/* "data: JSON\n\n", with a name "event: NAME\n" before where there is one. Takes the reference. */
void answers_event_out(answers *a, const char *name, json_t *value);
json_t *json_text(const char *data, size_t n);
const char *finish_openai(finish f);

#endif
