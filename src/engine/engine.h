/* SPDX-License-Identifier: MIT */
/* src/engine/engine.h -- inside the engine room: the two objects, and what their files share.
 *
 * The engine owns file, tokenizer, model, backends and weight buffers; nothing of it changes after open. A chunk of a
 * session is computed in its turn (`turns`), since sessions share the backends' scratch memory. */
#ifndef QN_ENGINE_ENGINE_H
#define QN_ENGINE_ENGINE_H

#include "backend/sched.h"
#include "base/thread.h"
#include "model/build.h"
#include "model/memory.h"
#include <quern/engine.h>

typedef struct qn_pager qn_pager;

struct qn_engine {
    qn_arena arena;
    qn_gguf *file;
    qn_tokenizer *tok;
    qn_model *model;
    qn_backend *backends[QN_MAX_PLACES];
    int n_backends;
    qn_buffer **buffers; /* of weights: [model->n_weights], NULL where a weight shares another's */
    int32_t *hints;      /* [n_layer]: where rules ask for what a layer computes without a weight, -1 where none does */
    uint8_t *places;     /* of weights: [model->n_weights] backend numbers */
    bool strict;
    bool locked; /* the mapped weights are pinned: they are taken from free memory already */
    _Atomic bool warned_size;
    uint32_t passes_off;
    uint64_t memory_limit; /* as in the options */
    uint64_t memory;       /* what the process may use in all; 0: nobody asks */
    uint64_t reserve;      /* of it what is neither weights nor allocated by the library */
    qn_pager *pager;       /* NULL: none */
    /* among the open engines of the process (pager_share.c) */
    struct qn_engine *next_open;
    bool is_open;
    qn_mutex lock;
    qn_turns turns; /* to compute, by sessions */
    qn_lora *loras; /* open adapters, newest first; under lock */
    int32_t last_lora_id;
    qn_engine_info info;
};

/* Nothing of it changes after open, but its place in the list. */
struct qn_lora {
    qn_arena arena;
    qn_engine *engine;
    qn_lora *next;
    qn_gguf *file;
    qn_adapter *adapter;
    qn_buffer **buffers; /* [2 * model->n_weights]: of a and b, where the weight that they are for lies */
};

/* Adapters at work in a session. */
typedef struct qn_taps qn_taps;
typedef struct qn_session_comparison qn_session_comparison;
typedef struct qn_lora_set {
    qn_adapter_use use[QN_MAX_LORAS];
    int32_t n;
} qn_lora_set;
qn_status qn__lora_set(const qn_engine *e, const qn_lora_use *loras, int32_t n, qn_lora_set *out, qn_error *err);
/* Part number i of the engine's open adapters: worst cases of all parts together cover every set. Part 0 is there
 * always. Under lock. */
bool qn__lora_part(const qn_engine *e, int32_t i, qn_lora_set *out);

/* Options with the defaults filled in and checked. */
typedef struct qn_session_shape {
    int32_t n_ctx, n_batch, n_seq, n_ends, n_logits;
    bool embeddings; /* rows of output are hidden states, n_logits of them */
    qn_dtype kv_type;
    qn_lora_set loras;
} qn_session_shape;

/* Where the cache goes: bytes a backend, and each layer's offsets in its backend's buffer. */
typedef struct qn_kv_layout {
    int32_t *place; /* [n_layer] backend of the layer's cache */
    uint64_t bytes[QN_MAX_PLACES];
    uint64_t total_bytes;
} qn_kv_layout;

struct qn_session {
    qn_arena arena;
    qn_engine *engine;
    qn_session_shape shape;
    qn_sched *sched;
    int32_t planned_lora; /* activations have room for every set of adapters with ids up to this one */
    qn_memory memory;
    qn_kv_layout layout;
    qn_kv_desc kv_desc;
    qn_buffer *kv_buffers[QN_MAX_PLACES]; /* NULL where no layer's cache lives */
    qn_buffer *list_buffers[QN_MAX_PLACES];
    /* inputs of one chunk: [n_batch], rows [n_groups, n_batch], spans [n_sights, n_batch, 3 or 4] */
    int32_t *tokens, *pos, *rows, *spans, *out_ids;
    int32_t *list_at, *list_to; /* [qn__list_entries]: entries that ride */
    qn_batch_item *items;       /* [n_batch], of feed */
    float *logits;              /* [n_logits, n_vocab]; or hidden states [n_logits, n_embd], then `sum` */
    int32_t n_logits;           /* rows valid now */
    double *sum;                /* [n_embd] of a text's hidden states; NULL where there are logits */
    bool no_plan_cache;
    bool resizes;    /* its graphs can be brought to another size */
    uint32_t number; /* of the sessions of this process, from 1: in recordings */
    qn_eval_fn eval;
    void *eval_ctx;
    _Atomic bool stop;            /* qn_session_stop */
    const _Atomic bool *unwanted; /* that, or a batcher's: true ends a decode with `cancelled`. NULL: nothing does */
    qn_session_comparison *comparison; /* NULL: none; else `eval` is its */
    qn_exec *running;                  /* while a run is under way, for read_node */
    int32_t running_tokens;            /* somebody's, of that run */
    qn_exec *last;                     /* what ran last, for printing; NULL once it may be gone */
    bool timing, last_timed;
    qn_taps *taps;       /* NULL: none */
    bool warned_ctx;     /* beyond the trained context: said once */
    qn_node_times times; /* measured by the last run */
    qn_session_stats stats;
    qn_turn_taker turn; /* among the engine's sessions */
    double token_s;     /* of computing one token of a chunk, moving average; 0 unknown */
    /* a decode in the background, between start and wait */
    qn_worker *worker; /* from the first one on */
    bool started;
    const qn_batch_item *job_items;
    int32_t n_job_items;
    _Atomic bool job_done;
    qn_status job_status;
    qn_error job_error;
};

/* ---- engine.c ---- */
/* What touches a device outside of a decode (memory, copies, plans) does it in a turn to compute, since a device is one
 * caller's at a time; nothing is waited for where the engine has none. Before the engine's lock, never within a turn.
 */
void qn__devices_take(qn_engine *e, qn_turn_taker *taker);
void qn__devices_give(qn_engine *e, qn_turn_taker *taker);

/* ---- place.c, before anything is allocated for it ---- */
/* The list of backends that the options ask for; text has room for it. */
qn_status qn__engine_list(const qn_engine_options *options, char *text, size_t size, const char **out, qn_error *err);
/* Fills in places, hints and info.gpu_layers: rules, then gpu_layers, else backend 0. */
qn_status qn__engine_plan(qn_engine *e, const qn_engine_options *options, qn_error *err);

/* ---- weights.c ---- */
/* Every weight goes to its place: where the file is mapped if the backend computes on that memory, else into memory of
 * the backend, in as few pieces as it allows. */
qn_status qn__engine_load(qn_engine *e, const qn_engine_options *options, qn_error *err);
/* Bytes that weights take of backend p, and the largest piece. */
uint64_t qn__weights_bytes(const qn_engine *e, int p);
bool qn__reads_now(qn_gguf_policy policy); /* everything, while it loads */
bool qn__weight_in_place(const qn_engine *e, const qn_backend *be);
/* Where a tensor of a file lies for a backend: in the mapping when it can use that, else a copy of its own (out). */
qn_status qn__engine_place(const qn_gguf *file, const qn_gguf_tensor *t, qn_backend *be, qn_buffer **out,
                           qn_error *err);
qn_status qn__session_shape(const qn_engine *e, const qn_session_options *options, qn_session_shape *out,
                            qn_error *err);
/* Offsets of every layer's cache; arrays come from `arena`. */
qn_status qn__kv_layout(const qn_engine *e, const qn_session_shape *shape, qn_arena *arena, qn_kv_layout *layout,
                        qn_kv_desc *kv, qn_error *err);
/* ---- session_lists.c ---- */
/* What a step of n_tokens, by the sizes of e, adds: with the inputs of e where lists ride; what more has changed, after
 * a fork say, run by run. */
qn_status qn__session_send_lists(qn_session *s, qn_exec *e, int32_t n_tokens, qn_error *err);
/* All of them go up again: a run that did not come to its end may not have written down what rode with it. */
void qn__session_lists_anew(qn_session *s);
/* Lists on a device get their new entries with the inputs of a run, in one transfer. */
static inline bool qn__lists_ride(const qn_backend *be) { return be->type->send != NULL; }
/* Buffers are indexed by place. */
void qn__kv_layout_bind(const qn_kv_layout *layout, qn_kv_desc *kv, uint32_t n_layer, qn_buffer *const *kv_buffers,
                        qn_buffer *const *list_buffers);
/* Numbers that a session keeps for each token of a batch. */
int32_t qn__inputs_a_token(const qn_engine *e);
/* Elements of a row of output. */
int64_t qn__output_width(const qn_engine *e, const qn_session_shape *shape);
/* Bytes of the rows of output and of what pools them. */
uint64_t qn__output_bytes(const qn_engine *e, const qn_session_shape *shape);
/* What a decode graph of that shape is made of. */
qn_decode_spec qn__decode_spec(const qn_engine *e, const qn_session_shape *shape, int32_t n_tokens, int32_t n_out);
/* ---- compare.c ---- */
/* The error that stopped a run, or else what is there. */
qn_status qn__comparison_why(const qn_session *s, qn_status status, qn_error *err);
void qn__session_end_comparison(qn_session *s);

/* ---- estimate.c ---- */
/* Buffers that exist in name only, for planning before anything is allocated. */
typedef struct qn_stand_in {
    qn_buffer buffer[2 * QN_MAX_PLACES];
} qn_stand_in;
void qn__stand_in(const qn_engine *e, const qn_kv_layout *layout, qn_kv_desc *kv, qn_stand_in *out);
/* The largest graph a session of this shape decodes with, given its adapters. */
qn_status qn__worst_graph(const qn_engine *e, const qn_session_shape *shape, const qn_kv_desc *kv, qn_graph **out,
                          qn_error *err);
/* Of two plans over one set of buffers, which must have room for both. */
void qn__plan_cover(qn_plan *plan, const qn_plan *other);
qn_estimate qn__estimate_of(const qn_engine *e, const qn_session_shape *shape, const qn_kv_layout *layout,
                            const qn_kv_desc *kv, const qn_plan *plan);
/* qn_engine_fit_batch among 1 .. most. */
qn_status qn__fit_batch(qn_engine *e, const qn_session_options *options, int32_t most, uint64_t bytes, int32_t *n_batch,
                        qn_error *err);
/* Bytes that may be taken: what the caller gave, or else what machine and cgroup have; UINT64_MAX unlimited. */
uint64_t qn__memory_limit(uint64_t asked);
/* As qn_engine_options.memory, with a number for QN_MEMORY_AUTO; 0 where the system tells none. */
uint64_t qn__memory_of(uint64_t asked);
/* What an engine with `memory` needs beside its sessions and copies: a window for weights, and the reserve. */
uint64_t qn__least_memory(const qn_engine *e);
/* Bytes of weights that are used where the files are mapped. */
static inline uint64_t qn__mapped_bytes(const qn_engine *e) { return e->info.weight_bytes - e->info.copied_bytes; }
/* Does the session fit beside the weights? *left: bytes that it may take. */
bool qn__session_fits(qn_engine *e, uint64_t asked, const qn_estimate *est, uint64_t *left);
/* The refusal, with both numbers and what would fit. */
qn_status qn__session_too_large(qn_engine *e, const qn_session_options *options, const qn_session_shape *shape,
                                const qn_estimate *est, uint64_t left, qn_error *err);

/* state while a decode is under way in the background. */
qn_status qn__session_idle(const qn_session *s, qn_error *err);
/* invalid for token i of something when it is not in the vocabulary. */
qn_status qn__session_check_token(const qn_session *s, int64_t i, qn_token token, qn_error *err);
/* One more than the last position that can be computed. */
int32_t qn__session_positions(const qn_session *s);
/* limit where tokens see what comes after them and n of them are more than a chunk. */
qn_status qn__session_at_once(const qn_session *s, size_t n, qn_error *err);
/* What decode refuses before it computes; then decode itself. */
qn_status qn__session_check(const qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err);
qn_status qn__session_decode(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err);
/* qn_session_decode_with, of a set that was checked. */
qn_status qn__session_decode_set(qn_session *s, const qn_lora_set *set, const qn_batch_item *items, int32_t n,
                                 qn_error *err);
/* What shapes a graph: the key of the plan cache, of which the adapters in use are part. No padding holes: compared as
 * bytes. */
typedef struct qn_decode_key {
    int32_t kind, n_tokens, n_out;
    struct {
        int32_t id;
        float scale;
    } lora[QN_MAX_LORAS];
} qn_decode_key;
enum { QN_KEY_decode = 1, QN_KEY_shift, QN_KEY_head, QN_KEY_lens };
/* The decode graph as it would run, without compiling it; passes and places may be NULL. */
qn_status qn__session_refined(qn_session *s, int32_t n_tokens, int32_t n_out, qn_graph **graph, qn_pass_report *passes,
                              qn_str *places, qn_error *err);
size_t qn__session_key(const qn_session *s, int32_t kind, int32_t n_tokens, int32_t n_out, qn_decode_key *key);
qn_status qn__session_build(const qn_session *s, int32_t n_tokens, int32_t n_out, qn_graph **out, qn_error *err);
typedef struct qn_sizes {
    int32_t n_tokens, n_out;
} qn_sizes;
/* Finds or builds and compiles a decode graph for n_tokens and n_out. *sizes: those that it computes, which are larger
 * where a backend cannot resize. */
qn_status qn__session_exec(qn_session *s, int32_t n_tokens, int32_t n_out, qn_exec **out, qn_sizes *sizes,
                           qn_error *err);

#endif
