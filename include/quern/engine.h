/* SPDX-License-Identifier: MIT */
/* quern/engine.h -- loading a language model and computing with it.
 *
 * An engine is a loaded model: mapped weights, their placement on backends, the tokenizer. It is immutable; any number
 * of sessions and threads share it. A session is one context: a KV cache that holds one or several sequences, the
 * scheduler, and what the last decode produced. Sessions of one engine may live in different threads; their
 * computations take turns on the engine's backends.
 *
 * A file that is cut short by somebody else while it is mapped ends the process (SIGBUS), as with any mapping; one that
 * is replaced or deleted stays as it was. In a child of fork, of a moment when no thread computed, what was open goes
 * on with one thread and the same bits, and engines that are opened there have their own; but batchers, decodes in the
 * background, memory (qn_engine_options) and devices are the parent's alone. Logits do not depend on the
 * floating-point state of the calling thread, which is kept.
 *
 * A whole program (examples/generate.c is the complete one):
 *
 *     qn_engine *engine; qn_session *session; qn_error err;
 *     qn_engine_open("model.gguf", NULL, &engine, &err);
 *     qn_session_create(engine, NULL, &session, &err);
 *     qn_tokenize(qn_engine_tokenizer(engine), prompt, strlen(prompt), NULL, &ids, &n, &err);
 *     qn_session_feed(session, 0, ids, n, &err);                       // logits of the last token
 *     qn_sampler_sample(sampler, qn_session_logits(session, -1), &id, &err); */
#ifndef QUERN_ENGINE_H
#define QUERN_ENGINE_H

#include <quern/base.h>
#include <quern/gguf.h>
#include <quern/graph.h>
#include <quern/machine.h>
#include <quern/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- engine ---------------------------------------------------------------------------------- */

typedef struct qn_engine qn_engine;

/* Weights whose name matches `pattern` (* any run of characters, ? one) go to backend number `backend`. First match
 * wins; weights without a match go to backend 0, norms and biases without one to their matrix. A layer's
 * KV cache goes where its attn_k weight is. What a layer computes without a weight or cache, such as sums and
 * activations, goes where its sources are, or where a pattern asks that matches the layer's own name, blk.N ("blk.1",
 * "blk.*"). A pattern that matches nothing is an error. */
typedef struct qn_place_rule {
    const char *pattern;
    int backend;
} qn_place_rule;

typedef struct qn_engine_options {
    /* comma-separated list, at most 8: "cpu" or "cpu:LEVEL", "opencl:0"; NULL is "cpu" at the best level */
    const char *backends;
    int n_threads; /* of each backend; 0: qn_machine.default_threads; at most 256 */
    const qn_place_rule *rules;
    int n_rules;
    bool strict;           /* a node that falls back to another backend than the rules say is an error */
    uint32_t passes_off;   /* QN_PASS_BIT of each graph pass that is switched off; the bits of logits stay */
    qn_gguf_policy policy; /* lazy by default */
    /* bytes that weights and session may take together; 0: what machine and cgroup have free when asked (no limit where
     * the system doesn't tell); UINT64_MAX: no limit. Opening is refused (limit) when what a policy reads and what is
     * copied is more, creating a session when that and all weights are. */
    uint64_t memory_limit;
    /* bytes that the process may use in all, weights included; QN_MEMORY_AUTO: what machine and cgroup have when the
     * engine is opened, less what others are left; 0: nobody asks. Weights get what caches and activations leave: what
     * fits stays in memory, the rest is read ahead of its use by a thread of the engine's own and dropped behind it, so
     * that the kernel need not choose what goes. Logits are the same to the bit, and nothing is different while all
     * fits. Only for weights that are used where the file is mapped, on the CPU; policies that read all of the file
     * need room for all of it. Engines of a process share it: each gets as much as the others for its weights, and what
     * they need less than that; it is divided anew when one is opened or closed. When one is opened, others drop what
     * they have beyond their parts: at once where they don't compute, else when they have. The weights of engines
     * without this count as taken. */
    uint64_t memory;
    qn_progress_fn progress; /* bytes while a policy reads the file; false cancels */
    void *progress_ctx;

    /* Devices by name, as qn_devices_get has them ("cuda:0,opencl:1"): they come before `backends` in the list. NULL:
     * where gpu_layers asks for one and `backends` names none, the first that is not the processor; where there is
     * no other, and layers are asked for, the first (OpenCL on the processor). */
    const char *devices;
    /* Meaningful with gpu_layers_set: how many of the last layers, and then the output too, lie on the devices of the
     * list, shared out by their memory; what is before them lies on the first backend that is none. Rules come first.
     * 0: none; QN_GPU_LAYERS_ALL; QN_GPU_LAYERS_AUTO: as many as fit beside the cache and activations of a session
     * with the options gpu_session (NULL: the defaults), by the exact estimate, before anything is allocated; that
     * may be none, and does not fail for want of a device. */
    int gpu_layers;
    bool gpu_layers_set;
    const struct qn_session_options *gpu_session;
    uint64_t device_memory; /* bytes that may be taken of each device; 0: what is free there */
} qn_engine_options;
#define QN_MEMORY_AUTO UINT64_MAX
enum { QN_GPU_LAYERS_ALL = -1, QN_GPU_LAYERS_AUTO = -2 };

/* The path is a GGUF file (or the first part of a split one) of a known architecture, or the error names the
 * architecture, tokenizer, tensor or type and what is supported. */
QN_API qn_status qn_engine_open(const char *path, const qn_engine_options *options, qn_engine **out, qn_error *err);
/* Whether this build runs the model in an open file: its architecture, hyperparameters, tensors and tokenizer, by the
 * header alone. What opening says beyond this is about vocabularies that contradict themselves, memory and backends. */
QN_API qn_status qn_engine_check(const qn_gguf *file, qn_error *err);
/* After all its sessions. */
QN_API void qn_engine_close(qn_engine *engine);

QN_API const qn_tokenizer *qn_engine_tokenizer(const qn_engine *engine);
QN_API const qn_gguf *qn_engine_file(const qn_engine *engine);

/* What is made of a text's hidden states, those that its tokens have after the last norm: ROW(NAME, number in files).
 * none: each token's own; mean: their average; first, last: that of one token; rank: scores of the model's head. unset:
 * what the file says (pooling_type), and where it says nothing mean for an encoder and last for others. */
/* clang-format off */
#define QN_POOLING_ROWS(ROW) ROW(none, 0) ROW(mean, 1) ROW(first, 2) ROW(last, 3) ROW(rank, 4)
/* clang-format on */
typedef enum qn_pooling {
    QN_POOLING_unset,
#define QN_POOLING_ENUM(name, id) QN_POOLING_##name,
    QN_POOLING_ROWS(QN_POOLING_ENUM)
#undef QN_POOLING_ENUM
} qn_pooling;
#define QN_POOLING_LISTED(name, id) ", " #name
#define QN_POOLING_NAMES            (&(QN_POOLING_ROWS(QN_POOLING_LISTED))[2]) /* "none, mean, .." */
QN_API const char *qn_pooling_name(qn_pooling pooling);
QN_API bool qn_pooling_find(const char *name, qn_pooling *out);

typedef struct qn_engine_info {
    char arch[64], name[128];
    int32_t n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_kv_head, n_embd_head, n_ff;
    uint64_t n_params;     /* elements of all weights */
    uint64_t weight_bytes; /* of all weights, as stored */
    /* of these, not used in place but copied (a foreign byte order, a backend with its own memory) */
    uint64_t copied_bytes;
    double load_seconds;
    uint64_t load_bytes; /* read by the loading policy or copied; mapped weights are read when they are first used */
    double load_gb_s;    /* at which speed; 1 GB = 1e9 bytes; 0 when nothing was */
    int n_threads, n_backends;
    int32_t gpu_layers; /* layers that lie on devices, by gpu_layers of the options */
    char cpu_level[16]; /* of the first backend that is the processor; "" where none is */
    bool encoder;       /* it has no logits: its sessions compute embeddings */
    bool both_ways;     /* tokens see what comes after them too: a text is computed at once */
    qn_pooling pooling; /* by default; never unset */
    int32_t n_embd_out; /* of an embedding: n_embd, unless the model has matrices behind the pooling */
    int32_t n_label;    /* scores of its head; 0: it has none, and pooling rank is refused */
} qn_engine_info;
QN_API void qn_engine_get_info(const qn_engine *engine, qn_engine_info *out);
QN_API const char *qn_engine_backend_name(const qn_engine *engine, int backend); /* "cpu:avx512"; NULL past the last */

/* What qn_engine_options.memory came to, since the last plan but for the sums. All 0 without it. Between decodes. */
typedef struct qn_engine_memory {
    uint64_t budget_bytes;              /* for weights */
    uint64_t kept_bytes;                /* stay in memory */
    uint64_t streamed_bytes;            /* are read for each step */
    uint64_t window_bytes;              /* of which so many are in memory at once */
    uint64_t expert_bytes;              /* room for experts */
    uint64_t read_bytes, dropped_bytes; /* so far, by the reading thread */
    uint64_t waits;                     /* how often a node had to wait for it */
    double wait_seconds;
    uint64_t expert_hits, expert_misses; /* chosen ones, by matrix, that had a place or not */
} qn_engine_memory;
/* What the process needs, beside sessions and weights that are copied, to run this model with qn_engine_options.memory:
 * whatever is less is not enough. */
QN_API uint64_t qn_engine_least_memory(const qn_engine *engine);
QN_API void qn_engine_get_memory(const qn_engine *engine, qn_engine_memory *out);

/* The architectures this build knows, NULL-terminated. */
QN_API const char *const *qn_architectures(void);

/* ---- adapters -------------------------------------------------------------------------------- */

/* A low-rank adapter (LoRA) of the engine's model, as `quern train --lora` and others write it (docs/FORMATS.md):
 * sessions that use it add scale (x a^T) b^T to what linear layers yield. Loaded once, any number of sessions share it,
 * each with a scale of its own. */
typedef struct qn_lora qn_lora;
#define QN_MAX_LORAS 16
typedef struct qn_lora_use {
    qn_lora *lora;
    float scale;
} qn_lora_use; /* scale 1 is as trained; 0 is without */

/* format with the tensor's name and both shapes when the adapter does not fit the model. */
QN_API qn_status qn_lora_open(qn_engine *engine, const char *path, qn_lora **out, qn_error *err);
/* After all sessions that were ever given it. What is still open ends with the engine. */
QN_API void qn_lora_close(qn_lora *lora);

/* bytes: of its tensors */
typedef struct qn_lora_info {
    int32_t n_pairs, max_rank;
    float alpha;
    uint64_t bytes;
} qn_lora_info;
QN_API void qn_lora_get_info(const qn_lora *lora, qn_lora_info *out);

/* Adapters merged into their base model, w + scale b a, matrix by matrix in bounded memory: a model of its own, in the
 * base's types or in another type or mix (as qn_synth_options.type). unsupported, with the tensor named, when an
 * adapted one has a type that cannot be packed and none is given. */
typedef struct qn_lora_file {
    const char *path;
    float scale;
} qn_lora_file;
typedef struct qn_lora_export_options {
    const char *type;        /* of the result's matrices; NULL: each keeps its own */
    int n_threads;           /* 0: qn_machine.default_threads; the result does not depend on it */
    qn_progress_fn progress; /* bytes of the base; false cancels */
    void *progress_ctx;
} qn_lora_export_options;
QN_API qn_status qn_lora_export(const char *base, const qn_lora_file *loras, int n_loras, const char *out,
                                const qn_lora_export_options *options, qn_error *err);

/* ---- session --------------------------------------------------------------------------------- */

typedef struct qn_session qn_session;

/* What a cache can hold: ROW(NAME), the most exact first. Blocks are of 32, and so heads must be a multiple of that. */
/* clang-format off */
#define QN_KV_TYPE_ROWS(ROW) \
    ROW(F32) ROW(F16) ROW(BF16) ROW(Q8_0) ROW(Q5_1) ROW(Q5_0) ROW(Q4_1) ROW(IQ4_NL) ROW(Q4_0)
/* clang-format on */
#define QN_KV_TYPE_LISTED(name) ", " #name
#define QN_KV_TYPE_NAMES        (&(QN_KV_TYPE_ROWS(QN_KV_TYPE_LISTED))[2]) /* "F32, F16, .." */

#define QN_DEFAULT_CTX          8192 /* F16 keys and values of an 8 B Llama: 1 GiB */
typedef struct qn_session_options {
    int32_t n_ctx; /* positions, shared by all sequences; 0: the model's training context, at most QN_DEFAULT_CTX */
    /* tokens computed at once; 0: 512, or where tokens see both ways 8192, or what memory_limit allows; never more than
     * n_ctx */
    int32_t n_batch;
    int32_t n_seq;  /* sequences 0 .. n_seq-1; 0: 1, at most 256 */
    int32_t n_ends; /* prefixes that a batcher keeps (quern/batch.h): layers with a window have cells for their ends */
    qn_dtype kv_type; /* one of QN_KV_TYPE_ROWS; meaningful with kv_type_set, else F16 */
    bool kv_type_set;
    int32_t n_logits; /* rows of logits that one decode may ask for; 0: n_seq */
    bool embeddings;  /* the session is for qn_session_embeddings and has no logits; an encoder's must be */
    /* bytes that the session and the weights may take together; 0: what machine and cgroup have free now (no limit
     * where the system doesn't tell); UINT64_MAX: no limit */
    uint64_t memory_limit;
    bool no_plan_cache;       /* builds and compiles the graph for every decode; for comparing */
    const qn_lora_use *loras; /* as qn_session_set_loras; copied */
    int32_t n_loras;
} qn_session_options;

/* Asks before it allocates: limit, with what is needed, what is free and the largest context that fits, when the exact
 * estimate is beyond memory_limit. A context beyond the one that the model was trained for is logged as a warning,
 * once; with several sequences as soon as one of them gets there. */
QN_API qn_status qn_session_create(qn_engine *engine, const qn_session_options *options, qn_session **out,
                                   qn_error *err);
QN_API void qn_session_destroy(qn_session *session);
QN_API const qn_engine *qn_session_engine(const qn_session *session);
QN_API int32_t qn_session_n_ctx(const qn_session *session);
QN_API int32_t qn_session_n_batch(const qn_session *session);
/* The adapters that act from the next decode on, added in this order; at most QN_MAX_LORAS, all of the session's
 * engine, each once. What the cache holds stays as it was computed. Graphs are kept for every combination: going back
 * to one compiles nothing. A session has room for every set of those adapters that were open when it was created; only
 * for one opened later memory is planned anew, here. On failure the session goes on as before. */
QN_API qn_status qn_session_set_loras(qn_session *session, const qn_lora_use *loras, int32_t n_loras, qn_error *err);

/* What qn_session_create allocates with these options and keeps, computed without allocating it. kv, activations and
 * logits are exact to the byte; tables is everything else, a few KiB over at most. Not counted: compiled graphs, one
 * for each size of batch that is decoded (some 40 KiB a layer; 64 are kept). */
typedef struct qn_estimate {
    uint64_t kv_bytes, activation_bytes, logits_bytes, table_bytes, total_bytes;
    /* of these, in the memory of devices: all, and on each backend of the engine */
    uint64_t device_bytes, backend_bytes[8];
} qn_estimate;
QN_API qn_status qn_engine_estimate(qn_engine *engine, const qn_session_options *options, qn_estimate *out,
                                    qn_error *err);
/* The largest n_ctx (or n_batch) whose estimate is at most `bytes` with the other options as given; 0 when not even 1
 * fits. Monotone in `bytes`. */
QN_API qn_status qn_engine_fit_ctx(qn_engine *engine, const qn_session_options *options, uint64_t bytes, int32_t *n_ctx,
                                   qn_error *err);
QN_API qn_status qn_engine_fit_batch(qn_engine *engine, const qn_session_options *options, uint64_t bytes,
                                     int32_t *n_batch, qn_error *err);

/* One token to compute: position in its sequence (0-based, any order as long as none is taken twice), which sequence,
 * and whether its logits are wanted. */
typedef struct qn_batch_item {
    qn_token token;
    int32_t pos;
    int32_t seq;
    bool logits;
} qn_batch_item;

/* Computes all items, in chunks of n_batch. A token sees its own sequence up to its own position, the items of this
 * call included; in a model whose tokens see both ways (attention.causal is false) all of its sequence that is in the
 * cache, before and after it, and n must not be more than n_batch (limit). A token's logits are bit-identical whatever
 * the thread count, the chunks and the other items are. limit when there are not enough free cells (the message says
 * how many are needed and free), invalid for a token, position or sequence out of range or a position that is taken,
 * state for a position that sees what a window has forgotten, or when tokens come so far out of order that a window has
 * no room for them. On failure no item of the failing chunk is left in the cache; earlier chunks stay. */
QN_API qn_status qn_session_decode(qn_session *session, const qn_batch_item *items, int32_t n, qn_error *err);
/* The same with adapters of this call's own, in the place of the session's (qn_session_set_loras): requests with
 * different adapters, a sequence each, share a session so. A sequence's cells were computed with the adapters of their
 * calls; whoever wants an answer as of one set computes all of the sequence with it. Also fails as
 * qn_session_set_loras. */
QN_API qn_status qn_session_decode_with(qn_session *session, const qn_lora_use *loras, int32_t n_loras,
                                        const qn_batch_item *items, int32_t n, qn_error *err);
/* The usual case: appends tokens to a sequence after its last position; logits of the last one only. */
QN_API qn_status qn_session_feed(qn_session *session, int32_t seq, const qn_token *tokens, size_t n, qn_error *err);
/* While `stop` is true, decodes, feeds and embeddings of this session fail with cancelled, the one under way behind the
 * node that is being computed; as after any failure, its chunk is not in the cache, earlier ones are. Where devices
 * compute or taps look on, the chunk goes on to its end first. Threads: any, and signal handlers. */
QN_API void qn_session_stop(qn_session *session, bool stop);

/* The same in the background. start refuses what decode refuses before it computes; then it returns at once, and a
 * thread of the session computes. wait gives decode's status and error; logits are the same to the bit. `items` stay as
 * they are until then. poll says whether wait would return at once. Threads: start, poll, wait and destroy, which
 * waits, belong to whoever uses the session. Between start and wait nothing else may be asked of it: what can fail
 * fails with state, and there are no logits. Other sessions of the engine may decode meanwhile; they take turns. A
 * callback (qn_session_set_eval) comes from the session's thread. The first start creates that thread; later ones
 * allocate nothing. */
QN_API qn_status qn_session_decode_start(qn_session *session, const qn_batch_item *items, int32_t n, qn_error *err);
QN_API bool qn_session_poll(const qn_session *session);
QN_API qn_status qn_session_wait(qn_session *session, qn_error *err);

/* n_vocab floats of the index-th item (counted among those of the last call that wanted logits; negative from the end);
 * NULL when there is none. Valid until the next decode. */
QN_API const float *qn_session_logits(const qn_session *session, int32_t index);
QN_API int32_t qn_session_n_logits(const qn_session *session);

/* ---- embeddings ---- */

/* A text as tokens, with whatever special tokens the model wants at its ends (quern/text.h adds them). */
typedef struct qn_embedding_text {
    const qn_token *tokens;
    int32_t n_tokens;
} qn_embedding_text;
typedef struct qn_embedding_options {
    qn_pooling pooling; /* unset: qn_engine_info.pooling */
    bool normalize;     /* each row is divided by its Euclidean norm; scores (rank) stay as they are */
} qn_embedding_options;

/* Embeddings, or scores, of texts. The session was created with `embeddings`. Each text is computed from position 0 in
 * a sequence that is empty now, as many at once as n_batch, free cells and empty sequences allow, and leaves nothing in
 * the cache; what other sequences hold stays. A text may be as long as there are free cells, where its tokens see both
 * ways also no longer than n_batch.
 *
 * out: F32, the caller's. By pooling: none [tokens of all texts, n_embd_out], text behind text; mean, first,
 * last [n_texts, n_embd_out]; rank [n_texts, n_label]. A text's rows are bit-identical whatever the thread count, the
 * batch and the other texts are. After the first batch of a size nothing allocates. On failure `out` holds anything,
 * and the cache what it held before.
 *
 * invalid: no text, a text without tokens, a token that is not in the vocabulary. limit: a text that is too long; the
 * message has both lengths. state: a session without `embeddings`, or without an empty sequence. unsupported: rank, and
 * the model has no head for it. Threads: as qn_session_decode. */
QN_API qn_status qn_session_embeddings(qn_session *session, const qn_embedding_text *texts, int32_t n_texts,
                                       const qn_embedding_options *options, float *out, qn_error *err);

/* What a reranker reads of a query and a text, of which pooling rank then makes a score: the model's own template
 * (tokenizer.chat_template.rerank) with both filled in, or one behind the other, each with the tokens at its ends that
 * the vocabulary asks for. Both are text, whatever control tokens they spell. *out is freed with qn_free.
 * Thread-safe. */
QN_API qn_status qn_engine_tokenize_pair(const qn_engine *engine, qn_gguf_str query, qn_gguf_str text, qn_token **out,
                                         size_t *n, qn_error *err);

/* ---- sequences in the cache ---- */
/* Layers that see a window keep of a sequence what the window looks back on, n_batch tokens and 64, and forget what is
 * older; other layers keep all. So the last tokens can be removed and computed again, but not any number of them: what
 * would leave a sequence whose next token sees what is forgotten fails with state, names the position that can be gone
 * back to, and changes nothing. A model without windows forgets nothing, and removing all is always possible.
 *
 * Positions p0 <= p < p1; p1 < 0 means to the end. */
QN_API int32_t qn_session_seq_len(const qn_session *session, int32_t seq);     /* cells */
QN_API int32_t qn_session_seq_pos_max(const qn_session *session, int32_t seq); /* -1 when empty */
QN_API int32_t qn_session_free_cells(const qn_session *session);
/* The first position from which the sequence can be computed anew when everything from there on is removed; 0 when
 * nothing of it was forgotten. Between this and the end all goes, before it only 0: from the beginning. */
QN_API int32_t qn_session_seq_back(const qn_session *session, int32_t seq);
QN_API qn_status qn_session_seq_remove(qn_session *session, int32_t seq, int32_t p0, int32_t p1, qn_error *err);
/* dst then shares src's cells in the range (no memory moves); what dst had is dropped first. */
QN_API qn_status qn_session_seq_copy(qn_session *session, int32_t src, int32_t dst, int32_t p0, int32_t p1,
                                     qn_error *err);
QN_API qn_status qn_session_seq_keep(qn_session *session, int32_t seq, qn_error *err); /* removes all others */
/* Moves positions by delta and rotates the cached keys with them; cells shared with other sequences are copied first.
 * invalid when a position would become negative or collide; unsupported by models whose positions are learned; state
 * when it would bring the sequence's end within sight of what is forgotten. */
QN_API qn_status qn_session_seq_shift(qn_session *session, int32_t seq, int32_t p0, int32_t p1, int32_t delta,
                                      qn_error *err);
/* Prefix reuse: keeps the longest common prefix of `tokens` and what the sequence holds at positions 0.., removes the
 * rest, and says how many tokens are kept. At most n-1, so that the last token is computed again and gives logits. None
 * when a window has forgotten what the next token would see (qn_session_seq_back). */
QN_API qn_status qn_session_reuse(qn_session *session, int32_t seq, const qn_token *tokens, size_t n, size_t *kept,
                                  qn_error *err);
/* The same for a context that was full, when the oldest of it was left out: after the common prefix, the longest run of
 * the sequence's tokens that goes on with `tokens` is moved there and its keys are rotated, so that only what follows
 * it is computed. What was moved was computed with what is gone before it: the logits are close to those of computing
 * anew, not the same. A run of less than QN_REUSE_MIN_RUN tokens is not worth that. *kept counts prefix and run. A move
 * that fails (nomem) leaves the common prefix alone. */
#define QN_REUSE_MIN_RUN 16
QN_API qn_status qn_session_reuse_shift(qn_session *session, int32_t seq, const qn_token *tokens, size_t n,
                                        size_t *kept, qn_error *err);

/* Saves and restores all sequences. A restored state continues bit-identically. The file names the model's shape and KV
 * types; another model's state is refused (format) and leaves the session as it was. A session with a smaller batch
 * may remember less of it than the one that saved it (qn_session_seq_back). */
QN_API qn_status qn_session_save(qn_session *session, const char *path, qn_error *err);
QN_API qn_status qn_session_restore(qn_session *session, const char *path, qn_error *err);

/* ---- looking inside ---- */
/* Called around each node of every run (quern/graph.h), which waits for it: of this engine's functions it may call only
 * those that read. NULL takes it away. */
QN_API void qn_session_set_eval(qn_session *session, qn_eval_fn fn, void *ctx);
/* Inside the callback, after: the node's values as float32, row-major. bytes = 4 * elements. */
QN_API qn_status qn_session_read_node(qn_session *session, const qn_node *node, float *dst, uint64_t bytes,
                                      qn_error *err);

typedef struct qn_session_stats {
    uint64_t graph_builds, plan_cache_hits, plan_cache_misses; /* one graph serves batches of many sizes */
    uint64_t kv_bytes, reserved_bytes;                         /* activation buffers */
    uint64_t tokens;                                           /* computed since create */
    int32_t n_splits, n_transfers;                             /* of the graph that ran last */
    double seconds;                                            /* spent computing */
    double compile_seconds; /* of these: making graphs, and bringing them to the size of a batch */
} qn_session_stats;
QN_API void qn_session_get_stats(const qn_session *session, qn_session_stats *out);

/* The graph that computes n_tokens at once, optimized and placed, printed; layer -1 prints all. *out is freed with
 * qn_free. */
QN_API qn_status qn_session_print_graph(qn_session *session, int32_t n_tokens, int layer, qn_graph_format format,
                                        char **out, qn_error *err);
/* The same in other colours: not by time, since nothing has run. */
QN_API qn_status qn_session_print_colored(qn_session *session, int32_t n_tokens, int layer, qn_graph_format format,
                                          qn_graph_color color, char **out, qn_error *err);
/* The graph that ran last, as it ran. While timing is on, runs note each node's time and the picture is coloured by
 * it. state when nothing ran since the last change of graphs. */
QN_API void qn_session_set_timing(qn_session *session, bool on);
QN_API qn_status qn_session_print_last(qn_session *session, int layer, qn_graph_format format, char **out,
                                       qn_error *err);
/* The memory plan and "node -> backend" of the graph of n_tokens, as text. */
QN_API qn_status qn_session_print_plan(qn_session *session, int32_t n_tokens, char **out, qn_error *err);
/* What each graph pass did to the graph of n_tokens: QN_PASS_COUNT rows; as a table, with the operations that went and
 * came. */
QN_API qn_status qn_session_get_passes(qn_session *session, int32_t n_tokens, qn_pass_stats *out, qn_error *err);
QN_API qn_status qn_session_print_passes(qn_session *session, int32_t n_tokens, char **out, qn_error *err);

/* ---- what computing costs at least ---- */

/* What one batch must read and compute, whatever computes it: counted node by node over its graph, each weight once. Of
 * experts as many as are chosen on average when all are as likely. */
typedef struct qn_batch_cost {
    double weight_bytes;
    /* products with weights, by the type of the weights: a multiplication and an addition are two */
    double int8_ops, f32_ops, bf16_ops, f16_ops;
    /* of the cache, for each cell that is seen: by layers that see the last `reach` positions, 0 all */
    int n_sights;
    struct {
        double cell_bytes;
        int32_t reach;
    } sights[8];
} qn_batch_cost;
/* Of n_tokens (at most the session's batch), of which n_out want logits, at least 1. */
QN_API qn_status qn_session_get_cost(qn_session *session, int32_t n_tokens, int32_t n_out, qn_batch_cost *out,
                                     qn_error *err);

/* ---- synthetic models ------------------------------------------------------------------------ */

/* A random-weight model in a real model's shape, for tests and benchmarks: written quickly and in bounded memory. The
 * same options give the same bytes on every machine. */
typedef struct qn_synth_options {
    const char *preset; /* a name of qn_synth_presets, or NULL with the fields below */
    const char *arch;   /* NULL: llama; fields that are 0 take the preset's value, or are an error without one */
    int32_t n_layer, n_embd, n_head, n_kv_head, n_ff, n_vocab, n_ctx, n_embd_head;
    float rope_base;
    bool tied;     /* no output.weight; presets know their own */
    bool optional; /* also the tensors that a file may leave out: biases, RoPE factors */
    float spread;  /* standard deviation of the matrices; 0: 0.02, what such models start their training from */
    const char *const *set; /* more hyperparameters, "rope.scaling.factor=4", NULL-terminated; NULL: none */
    const char *type;       /* a dtype of weights or a mix (Q4_K_M, Q5_K_M, Q3_K_M); NULL: F16 */
    const char *vocab;      /* a GGUF file whose tokenizer is copied; NULL makes one up */
    uint64_t seed;
} qn_synth_options;
QN_API qn_status qn_synth(const char *path, const qn_synth_options *options, qn_progress_fn progress, void *ctx,
                          qn_error *err);
QN_API const char *const *qn_synth_presets(void); /* NULL-terminated */
/* What `type` may be: types of weights, and mixes of them. Those that can be packed are types for qn_lora_export and
 * qn_trainer_export too. NULL-terminated. */
QN_API const char *const *qn_synth_types(void);

#ifdef __cplusplus
}
#endif
#endif
