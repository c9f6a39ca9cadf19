/* SPDX-License-Identifier: MIT */
/* src/array/array.h -- inside the tensor room.
 *
 * A qn_tensor is a layout over a qn_storage. A storage's latest value is in its memory, or is a node of the context's
 * pending graph
 * (`value`), or both: an update node of a param over that memory. Always holds:
 *  - `value`, when not an update, is a computed node with memory of its own, row-major in the storage's shape, and the
 * value of no other storage; such a storage has no memory yet.
 *  - `leaf` is the param that stands for the memory in the pending graph; the graph then holds a reference to the
 * storage.
 *  - Once there is memory, it stays: later values are updates of it. So addresses are stable, and a value nobody holds
 * any more is simply not computed. The pending graph is never given away: what is compiled is a copy, so a failure
 * leaves every tensor as it was. */
#ifndef QN_ARRAY_ARRAY_H
#define QN_ARRAY_ARRAY_H

#include "backend/sched.h"
#include "grad/grad.h"
#include <quern/array.h>

#include <stdatomic.h>

/* ---- memory.c: buffers that come and go, kept by size so that a step that repeats itself allocates nothing ---- */
#define QN_MEMORY_CLASSES 160 /* four sizes an octave, from 256 bytes on */
typedef struct qn_memory qn_memory;
struct qn_memory {
    qn_buffer *buffer;
    qn_memory *next;       /* while idle */
    int32_t place, class_; /* class -1: not ours to keep */
    void (*deleter)(void *arg);
    void *arg;
};
qn_status qn__memory_get(qn_context *ctx, int place, uint64_t bytes, qn_memory **out, qn_error *err);
void qn__memory_put(qn_context *ctx, qn_memory *m);
/* Gives back what waits, of all devices. Was there anything? */
bool qn__memory_trim(qn_context *ctx);
/* Did it fail for memory that there may be when what waits is given back? */
static inline bool qn__memory_wants(qn_status status) { return status == QN_STATUS_nomem || status == QN_STATUS_limit; }

/* Equal-sized objects, recycled. Zeroed only by whoever asks. */
typedef struct qn_slab {
    size_t size;
    void *free;
} qn_slab;

/* ---- storages ---- */
typedef struct qn_auto qn_auto; /* an entry of the autograd tape: see tape.h */
typedef struct qn_storage qn_storage;
struct qn_storage {
    qn_context *ctx;
    qn_storage *prev, *next; /* in the list of those with a pending value */
    int32_t refs;            /* handles, tape entries, and the pending graph when there is a leaf */
    uint32_t version;        /* counts writes */
    uint64_t number;         /* of the context's storages, from 1: no other ever had it, whatever has its address */
    uint32_t rebased;        /* counts writes that the tape noted */
    int32_t n_handles;
    qn_auto *keeper;  /* keeps this value for parts that no handle shows: what is written over it, is copied first */
    bool has_own;     /* it is such a value, or was: handles show its front */
    qn_auto *base_fn; /* how the whole of it came to be when the tape noted a write last; let go with the last handle,
                       * since it may keep this very storage */
    qn_dtype dtype;
    int32_t place; /* the device of its memory, also while there is none yet: an index of ctx->backends */
    bool lost;     /* a run failed in the middle: nobody knows the value */
    bool listed;
    bool aside;       /* its pending value could not be computed: other runs leave it out */
    qn_layout layout; /* row-major, offset 0 */
    qn_memory *memory;
    qn_node *value, *leaf;
};

/* What a handle names. Slots are recycled and never unmapped while the context lives, so whether a handle's time is
 * over can always be asked. A handle is the address of its slot with the number of the slot's present use in the bits
 * that such an address leaves free: QN_USE_LOW below (slots are 64 bytes apart) and the 16 above bit 47. It is a
 * number, never dereferenced: of() is the only way in. After the last number a slot is not used again. */
typedef struct qn_slot {
    qn_context *ctx; /* also of a slot that is free */
    uint32_t use;    /* of the present handle; 0 while there is none */
    uint32_t used;   /* the last that there was */
    qn_storage *storage;
    qn_auto *grad_fn;            /* how it was made, or the leaf that it is; NULL: gradients do not concern it */
    qn_auto *frozen;             /* the leaf that it was while it required a gradient, which it still has */
    struct qn_slot *prev, *next; /* in its scope */
    struct qn_scope *scope;
    int32_t refs;
    uint32_t rebased;          /* the storage's count that grad_fn stands for: see rebase.c */
    bool detached;             /* writes through other handles say nothing about this one's gradient */
    uint32_t epoch;            /* of node and node_root */
    qn_node *node, *node_root; /* the view recorded last, of what */
    qn_layout layout;          /* over the storage */
} qn_slot;

enum { QN_USE_LOW = 6, QN_USE_BITS = QN_USE_LOW + 16, QN_SLOT_ALIGN = 1 << QN_USE_LOW };
#define QN_SLOT_MASK ((UINT64_C(1) << 48) - QN_SLOT_ALIGN)
_Static_assert(sizeof(void *) == 8, "a handle has room for an address and the number of a use");

/* The slot of a handle, which is alive or was. */
static inline qn_slot *of(const qn_tensor *t) { return (qn_slot *)((uintptr_t)t & QN_SLOT_MASK); }
static inline uint32_t qn__use_of(const qn_tensor *t)
{
    return (uint32_t)((uintptr_t)t & (QN_SLOT_ALIGN - 1)) | (uint32_t)((uintptr_t)t >> 48) << QN_USE_LOW;
}
static inline qn_tensor *qn__handle_of(const qn_slot *s)
{
    return (qn_tensor *)((uintptr_t)s | (s->use & (QN_SLOT_ALIGN - 1)) | (uintptr_t)(s->use >> QN_USE_LOW) << 48);
}
/* Says in the context that the handle has ended. False. */
bool qn__stale(const qn_tensor *t, const char *call);
/* Is that a tensor? False for NULL, whose error the context has already, and for a handle that has ended. */
static inline bool qn__live(const qn_tensor *t, const char *call)
{
    return t != NULL && (of(t)->use == qn__use_of(t) || qn__stale(t, call));
}
#define LIVE(t) qn__live((t), __func__)
/* Is that there, which may not be NULL? Says so when not. */
bool qn__given_at(qn_context *ctx, const void *p, const char *call, const char *what);
#define GIVEN(ctx, p, what) qn__given_at((ctx), (p), __func__, (what))

typedef struct qn_scope {
    qn_slot *first;
    struct qn_scope *outer;
    int64_t n;
} qn_scope;

/* A param of the pending graph: a storage's memory, or a number that an operation was given. */
typedef struct qn_leaf {
    qn_node *node;
    qn_storage *storage; /* NULL for a number */
    uint64_t offset;     /* of the number */
    int32_t place;       /* of the number */
} qn_leaf;

/* Numbers are params, not attributes, so that a learning rate may change without a new graph. */
#define QN_NUMBER_BYTES 16
#define QN_MAX_NUMBERS  4096

typedef struct qn_export qn_export;

/* Looking inside: what the user asked for, and the run before. */
typedef struct qn_looking {
    qn_eval_fn eval;
    void *eval_arg;
    qn_exec *running; /* inside the callback */
    qn_exec *last;    /* of the scheduler's cache; NULL once it may be gone */
    bool timing, last_timed;
    qn_node_times times;
    qn_memory **before; /* of leaves that the run writes, what they held: [n_leaves], NULL without */
} qn_looking;

struct qn_context {
    uint32_t serial;                     /* of the process's contexts, from 1: its name in messages */
    qn_backend *backends[QN_MAX_PLACES]; /* its devices; [n_backends] */
    int32_t n_backends, place;           /* place: where what is made lies */
    bool strict;                         /* no operation runs elsewhere than where its tensors lie */
    qn_sched *sched;
    qn_graph *graph; /* pending */
    uint32_t epoch;  /* of the pending graph */
    int32_t max_pending;
    qn_error error;   /* the first since the last clear */
    qn_error discard; /* where the others go */
    qn_error *latest; /* one of the two */

    qn_arena objects; /* behind the slabs */
    qn_slab storages, autos, memories, scope_slab;
    qn_slot *free_slots;
    qn_memory *idle[QN_MAX_PLACES][QN_MEMORY_CLASSES];
    uint64_t idle_bytes[QN_MAX_PLACES], live_bytes[QN_MAX_PLACES];
    int64_t n_tensors, n_storages;
    uint64_t n_numbered; /* storages so far */
    uint64_t n_runs, n_fallbacks;

    qn_scope outermost, kept; /* of handles outside of every scope; of those that qn_keep took */
    qn_scope *scope;
    qn_storage *pending; /* oldest first */
    qn_storage *pending_last;
    qn_leaf *leaves;
    int32_t n_leaves, cap_leaves;
    qn_storage **outputs; /* scratch of a flush */
    qn_memory **output_memory;
    int32_t cap_outputs;
    uint8_t *numbers;                        /* [QN_MAX_NUMBERS, QN_NUMBER_BYTES] */
    qn_memory *number_memory[QN_MAX_PLACES]; /* NULL until there are numbers on that device */
    int32_t n_numbers;

    uint64_t seed, drawn; /* of random numbers: what they follow from, and the counter for the next draw */
    bool grad_off, in_backward;
    bool looked; /* in backward, which cannot be */
    bool ended;  /* destroyed, but not yet let go by all holders */
    qn_looking look;
    qn_auto *tape_newest, *tape_oldest;

    /* the owner, until qn_context_destroy, every DLPack tensor that is out, every module, optimizer and cache */
    _Atomic int64_t holders;
    _Atomic(qn_export *) returned; /* of those, what came back since it was last looked */
    _Atomic int64_t collecting;    /* 0: nobody would look */
};

/* ---- context.c ---- */
/* Where a failing call puts its error: the context's first, or the bin. Use: QN_FAIL(qn__err(ctx), invalid, ...). */
static inline qn_error *qn__err(qn_context *ctx)
{
    if (ctx == NULL) return NULL; /* as an error that nobody asks for */
    ctx->discard.status = QN_OK;
    return ctx->latest = ctx->error.status == QN_OK ? &ctx->error : &ctx->discard;
}
/* What the call that failed just now left there. */
static inline qn_status qn__status(const qn_context *ctx)
{
    return ctx->latest->status != QN_OK ? ctx->latest->status : QN_STATUS_internal;
}
void *qn__slab_get(qn_context *ctx, qn_slab *slab); /* contents undefined; NULL and the error when there is no memory */
void qn__slab_put(qn_slab *slab, void *object);

/* What keeps handles holds their context, so that it may end in any order. */
static inline void qn__context_hold(qn_context *ctx)
{
    atomic_fetch_add_explicit(&ctx->holders, 1, memory_order_relaxed);
}
/* One of the holders goes; with the last one, all that there is. */
void qn__context_let_go(qn_context *ctx);

/* ---- device.c ---- */
static inline int32_t qn__place_of(const qn_tensor *t) { return of(t)->storage->place; }
static inline const char *qn__place_name(const qn_context *ctx, int place) { return ctx->backends[place]->name; }
/* The device of that name; -1 and the error, which begins with `call`, when the context has none. */
int qn__place_find(const qn_context *ctx, const char *call, const char *device, qn_error *err);
/* The first whose memory is the host's, or else 0: for the few numbers that a program makes. */
int qn__place_of_host(const qn_context *ctx);
static inline bool qn__place_is_host(const qn_context *ctx, int place)
{
    return ctx->backends[place]->type->devices == NULL;
}
/* Of tensors that an operation takes together: that of the first but numbers of the host. */
int qn__place_among(qn_tensor *const *t, int n);
/* Where what is made lies from now on; gives where it lay. */
static inline int32_t qn__place_swap(qn_context *ctx, int32_t place)
{
    const int32_t was = ctx->place;
    ctx->place = place;
    return was;
}
/* t there: another handle of it when it is, else a copy, with a gradient where t has one. */
qn_tensor *qn__to_place(qn_tensor *t, int place);
/* The same without another handle: t itself when it is there. NULL for NULL. */
static inline qn_tensor *qn__there(qn_tensor *t, int place)
{
    return t != NULL && qn__place_of(t) != place ? qn__to_place(t, place) : t;
}
/* A number of the host that goes along with y, there: for who gives it a dimension, with which it would go along no
 * more. t itself when it is no such number. */
qn_tensor *qn__number_beside(qn_tensor *t, const qn_tensor *y);
/* Bytes from the host into a storage that has memory, from its start. */
bool qn__storage_fill(qn_storage *s, const void *data, uint64_t bytes);

/* ---- dlpack.c ---- */
/* Ends what came back. By the context's own thread. */
void qn__exports_collect(qn_context *ctx);
/* The same for the last time: from now on, what comes back ends there and then. */
void qn__exports_end(qn_context *ctx);

/* ---- create.c ---- */
typedef struct qn_wrapped {
    void *data;     /* where element [0,0,..] lies */
    bool on_device; /* of `place`: data is what its backend knows the memory by, and */
    int place;
    uint64_t from;              /* bytes from there to element [0,0,..] */
    void (*deleter)(void *arg); /* may be NULL; called once, not when wrapping fails */
    void *arg;
    bool read_only;
} qn_wrapped;
/* qn_scalar of a number that need not fit: integers wrap. */
qn_tensor *qn__scalar(qn_context *ctx, int place, double value, qn_dtype dtype);
qn_tensor *qn__from_data_at(qn_context *ctx, int place, const void *data, qn_shape shape, qn_dtype dtype);
/* A tensor over memory of somebody else. `layout` is relative to how->data, offset 0; its strides may be negative. */
qn_tensor *qn__wrap(qn_context *ctx, const char *name, const qn_layout *layout, qn_dtype dtype, const qn_wrapped *how);

/* ---- storage.c ---- */
/* Without memory or value; one reference. */
qn_storage *qn__storage_new(qn_context *ctx, int place, qn_dtype dtype, const qn_shape *shape);
/* With memory of undefined contents. */
qn_storage *qn__storage_new_resident(qn_context *ctx, int place, qn_dtype dtype, const qn_shape *shape);
void qn__storage_unref(qn_storage *s);
static inline qn_storage *qn__storage_ref(qn_storage *s) { return s->refs++, s; }
void qn__storage_drop_handle(qn_storage *s); /* one handle less; the caller's reference stays */
void qn__storage_list(qn_storage *s);        /* has a pending value from now on */
void qn__storage_unlist(qn_storage *s);
static inline bool qn__is_read_only(const qn_storage *s) { return s->memory != NULL && s->memory->buffer->read_only; }
/* A handle in the present scope; takes over one reference of s, also on failure. */
qn_tensor *qn__tensor_new(qn_context *ctx, qn_storage *s, const qn_layout *layout);
/* Another handle of the same storage. */
qn_tensor *qn__tensor_alias(const qn_tensor *t, const qn_layout *layout);
static inline bool qn__is_whole(const qn_tensor *t)
{
    const qn_slot *s = of(t);
    return s->layout.offset == 0 && qn_layout_is_contiguous(&s->layout) &&
           qn_layout_numel(&s->layout) == qn_layout_numel(&s->storage->layout);
}

/* ---- record.c ---- */
/* Nodes of the pending graph; NULL and the context's error on failure. */
qn_node *qn__node_op(qn_context *ctx, qn_op op, const void *attrs, qn_node *const *src, int n_src);
qn_node *qn__node_view(qn_context *ctx, qn_node *n, const qn_layout *layout); /* n itself when that is its layout */
qn_node *qn__node_of(qn_tensor *t);
qn_node *qn__node_at(qn_storage *s, const qn_layout *layout);
qn_node *qn__node_number(qn_context *ctx, int place, double value, qn_dtype dtype); /* 0-d */
qn_node *qn__node_moved(qn_context *ctx, qn_node *n, int place); /* n itself when it is computed there */
/* Can it run where its sources lie, or where else it may? Says why not. */
bool qn__node_taken(const qn_context *ctx, const qn_node *n, qn_error *err);
/* One element of that dtype, into at most QN_NUMBER_BYTES bytes. */
bool qn__number_write(void *out, double value, qn_dtype dtype, qn_error *err);
/* Is it within the dtype's range? As PyTorch: wraps: of U8, also the numbers that are negative by as much. */
bool qn__number_fits(double value, qn_dtype dtype, bool wraps);
bool qn__number_check(qn_context *ctx, const char *name, double value, qn_dtype dtype); /* an error when not */
/* A new tensor of a node's value. The node was made for it. */
qn_tensor *qn__tensor_of(qn_context *ctx, qn_node *n);
/* t takes the value of y, of t's shape and dtype. Nothing has changed on failure. */
bool qn__store(qn_tensor *t, qn_node *y);
/* The same by an update op, which takes t and then the others. A device that has no kernel for it has the next one
 * compute it on a copy. Who calls sees to the tape. */
bool qn__update(qn_tensor *t, qn_op op, const void *attrs, qn_tensor *const *others, int n_others);
/* How much is recorded, and back to that: whoever had recorded more puts the values of storages back first. */
typedef struct qn_mark {
    int32_t n_nodes, n_leaves, n_numbers;
} qn_mark;
qn_mark qn__mark(const qn_context *ctx);
void qn__roll_back(qn_context *ctx, qn_mark m);
/* Runs what is pending when it has grown too long. */
bool qn__make_room(qn_context *ctx);
/* Room for one more in ctx->leaves. */
bool qn__grow_leaves(qn_context *ctx);
/* The context of all of them; NULL when one is NULL, or, with an error, when they differ, or when they lie on several
 * devices. A 0-d tensor that the host reaches goes with those of any device. */
qn_context *qn__same_context(const char *op, qn_tensor *const *t, int n);
/* The same, wherever they lie. */
qn_context *qn__one_context(const char *op, qn_tensor *const *t, int n);
/* An operation on tensors, types as the op wants them: recorded, with its tape entry. Nothing is run: who may be called
 * often makes room first. */
qn_tensor *qn__apply(qn_op op, const void *attrs, qn_tensor *const *src, int n_src);
/* The same in place: dst takes the value, converted to its dtype. Returns dst. */
qn_tensor *qn__apply_into(qn_tensor *dst, bool in_place, qn_op op, const void *attrs, qn_tensor *const *src, int n_src);

/* ---- flush.c ---- */
/* Runs all that is pending. */
qn_status qn__flush(qn_context *ctx);
/* The same in one run or not at all, for those to whom a part is worse than nothing. Where the run could not begin, the
 * epoch stays, and nothing has changed. */
qn_status qn__flush_whole(qn_context *ctx);
/* The same, where it matters whether `wanted` can be computed (NULL: nothing), or all: what cannot run, for want of
 * memory above all, waits, and so does what depends on it. */
qn_status qn__flush_for(qn_context *ctx, const qn_storage *wanted, bool all);
/* Those nodes alone, by id, which make the storages that are not aside; NULL: all. *began: memory may have changed.
 * only_try: whatever can fail before that is done and undone. */
qn_status qn__flush_part(qn_context *ctx, const uint8_t *part, bool only_try, bool *began, qn_error *err);

/* ---- apart.c: when not all of the pending graph can run ---- */
qn_status qn__flush_apart(qn_context *ctx, const qn_storage *wanted, bool all, qn_error *err);
/* Does, or did, something wait? What nobody can see any more waits no longer. */
bool qn__any_aside(qn_context *ctx);
/* That part has run; the rest stays pending. */
void qn__settle_part(qn_context *ctx, const uint8_t *part, int32_t n_outputs);
/* Nothing of what is pending happens: memory holds what it held, and values that were still to have memory are lost. */
void qn__discard(qn_context *ctx);
/* What waits is lost, also where there is memory: others have gone on without it. Still listed. */
void qn__lose_aside(qn_context *ctx);

/* The storages that somebody can see are outputs of the pending graph, by id of their nodes; and back. */
qn_status qn__mark_outputs(qn_context *ctx, int32_t *n_outputs, qn_error *err);
void qn__unmark_outputs(qn_context *ctx);

/* ---- look.c ---- */
/* Runs e, whose memory is bound, as the user wants to see it. *undone: the user's callback stopped it, or it could not
 * begin, and memory holds what it held. */
qn_status qn__look_run(qn_context *ctx, qn_exec *e, int32_t *stopped, bool *undone, qn_error *err);

/* ---- promote.c: PyTorch's result types ---- */
/* Of two dtypes; false when there is none (block formats). */
bool qn__promote(qn_dtype a, qn_dtype b, qn_dtype *out);
/* Of tensors, where 0-d ones count only for their class. */
bool qn__result_type(const char *op, qn_tensor *const *t, int n, qn_dtype *out);
/* Of a tensor and a number of that class. */
qn_dtype qn__with_number(qn_dtype t, bool is_real);
/* May a result of that dtype be stored in a tensor of the other? As torch.can_cast: real numbers are not cut down to
 * integers behind one's back, nor integers to BOOL. */
bool qn__can_cast(qn_dtype from, qn_dtype to);
static inline bool qn__is_real(qn_dtype d) { return qn_dtype_get(d)->class_ == QN_CLASS_real; }

/* ---- tape.c ---- */
/* Notes how y was made, when gradients flow through it. False on failure. */
bool qn__tape_record(qn_tensor *y, qn_op op, const void *attrs, qn_tensor *const *src, int n_src);
/* Will the gradient of this operation need that source's value? */
bool qn__tape_keeps(const qn_context *ctx, qn_op op, qn_tensor *const *src, int n_src, int source);
bool qn__tape_wanted(const qn_context *ctx, qn_tensor *const *src, int n_src);
void qn__tape_share(qn_tensor *to, const qn_tensor *from); /* `to` is another handle of `from` */
/* May t be written now? Says why not. */
bool qn__tape_writable(const qn_tensor *t, const char *op, qn_tensor *const *src, int n_src);
/* dst takes the value y of that operation, and its gradient goes where that comes from. */
bool qn__tape_store(qn_tensor *dst, qn_node *y, qn_op op, const void *attrs, qn_tensor *const *src, int n_src);
/* Before s, which has a keeper, is written: that gets a copy. */
bool qn__tape_save(qn_storage *s);
void qn__auto_unref(qn_auto *a);

/* ---- rebase.c ---- */
/* grad_fn as it is after writes through other handles. False when there is no memory for it. */
bool qn__tape_refresh(qn_tensor *t);
static inline bool qn__tape_fresh(qn_tensor *t)
{
    return of(t)->rebased == of(t)->storage->rebased || qn__tape_refresh(t);
}

#endif
