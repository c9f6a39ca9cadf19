/* SPDX-License-Identifier: MIT */
/* src/model/build.h -- from weights to a graph: the builder's context, and the recorder that makes a forward pass a
 * graph. Errors are sticky in the graph. */
#ifndef QN_MODEL_BUILD_H
#define QN_MODEL_BUILD_H

#include "model/forward.h"
#include "model/kv.h"
#include "model/lora.h"

/* Where the cache of one layer lives: set by the engine. */
typedef struct qn_kv_layer {
    void *k_buffer, *v_buffer; /* of a backend */
    uint64_t k_offset, v_offset;
    void *list_buffer;                 /* the lists of cells on the same backend, of all groups */
    bool list_rides;                   /* its new entries are inputs of a decode graph, which writes them down */
    uint64_t k_row_bytes, v_row_bytes; /* of one cell */
    int32_t group;
} qn_kv_layer;

typedef struct qn_kv_desc {
    qn_kv_layer *layers; /* n_layer */
    qn_dtype type;
    int32_t n_ctx, n_groups;
    qn_kv_size sizes[QN_MAX_GROUPS];
    bool positions; /* behind each group's lists those of the positions of their entries */
    uint64_t list_offset[QN_MAX_GROUPS], list_bytes; /* in the buffer of lists: of groups that a layer uses */
} qn_kv_desc;
/* The sizes of a model's groups, and where their lists lie; every layer's group. */
void qn__kv_groups(const qn_model *m, int32_t n_ctx, int32_t n_batch, int32_t n_seq, int32_t n_ends, qn_kv_desc *kv);

typedef struct qn_build {
    qn_graph *g;
    const qn_model *model;
    const qn_hparams *hp;
    const qn_kv_desc *kv;
    const qn_adapter_use *loras;
    int32_t n_loras;
    int32_t n_tokens;
    qn_node **params;             /* by weight index: made at first use */
    qn_node **cache_k, **cache_v; /* [n_layer]: as they are when the layer has written to them */
    qn_node **lists;              /* [n_layer]: NULL where another layer's serve */
    qn_node **list_now;           /* [n_layer]: all lists of a buffer, I32 [.., 1], with the new entries */
    /* inputs of a decode graph */
    qn_node *tokens;                     /* I32 [n_tokens] */
    qn_node *pos;                        /* I32 [n_tokens] */
    qn_node *rows[QN_MAX_GROUPS];        /* I32 [n_tokens]: the cell of the group that each token is written to */
    qn_node *spans[QN_MAX_SIGHTS];       /* I32 [n_tokens, qn__span_size], one for each of the model's sights */
    qn_node *out_ids;                    /* I32 [n_out] */
    qn_node *list_at, *list_to;          /* I32 [n], [n, 1]: n = qn__list_entries; NULL where none ride */
    qn_node *head_ids;                   /* I32 [n_tokens, n_head], made at first use */
    qn_node *rope_table[QN_TURN_TABLES]; /* rope_table of pos [n_tokens, n_rot], made at first use */
} qn_build;

/* The graph that computes n_tokens and yields "logits" F32 [n_out, n_vocab], or "hidden" [n_out, n_embd], with adapters
 * added in their order. Inputs are named tokens, pos, out_ids, qn__row_names for the groups' cells and qn__span_names
 * for what tokens see. */
typedef struct qn_decode_spec {
    int32_t n_tokens, n_out;
    const qn_adapter_use *loras;
    int32_t n_loras;
    const int32_t *hints; /* [n_layer]: backend asked for what follows no weight or cache, -1 none; NULL: none at all */
    bool hidden;
} qn_decode_spec;
qn_status qn__build_decode(const qn_model *m, const qn_kv_desc *kv, const qn_decode_spec *spec, qn_graph **out,
                           qn_error *err);
/* The graph of what comes after pooling, with adapters as the spec says: "x" F32 [1, n_embd] gives "y", scores
 * [1, n_label] or an embedding. */
qn_status qn__build_head(const qn_model *m, const qn_decode_spec *spec, bool rank, qn_graph **out, qn_error *err);
/* The graph of what comes after the layers, for n rows, with adapters as the spec says: "x" F32 [n, width], what a
 * layer gives, yields "logits" [n, n_vocab]. */
qn_status qn__build_lens(const qn_model *m, const qn_decode_spec *spec, int32_t n, int64_t width, qn_graph **out,
                         qn_error *err);
/* The graph that moves n cached cells of each group: keys of cells `src` rotated by `delta` positions are written to
 * cells `dst`; values go along when copy_v. Inputs: delta, and for the groups qn__src_names and qn__dst_names, all I32
 * [n]. */
qn_status qn__build_shift(const qn_model *m, const qn_kv_desc *kv, int32_t n, bool copy_v, qn_graph **out,
                          qn_error *err);

/* Numbers that say what a token sees: its list, the first entry and the end; for ALiBi its position. */
static inline int32_t qn__span_size(const qn_model *m) { return m->alibi ? 4 : 3; }
/* Entries of lists that ride with n_tokens; a place of -1 is none. */
int32_t qn__list_entries(const qn_model *m, int32_t n_tokens);
/* Bytes of a group's lists, without positions. */
static inline uint64_t qn__list_bytes(const qn_kv_size *size)
{
    return (uint64_t)size->n_seq * (uint64_t)size->row * sizeof(int32_t);
}

/* The inputs of spans, [QN_MAX_SIGHTS], and of cells, [QN_MAX_GROUPS]; a group that no layer uses has none. */
extern const char *const qn__span_names[], *const qn__row_names[], *const qn__src_names[], *const qn__dst_names[];
/* A layer's cache, ROLE-LAYER. */
qn_node *qn__cache(qn_graph *g, qn_role role, int layer, qn_dtype type, int64_t n_cells, int64_t row, void *buffer,
                   uint64_t offset);
qn_node *qn__weight(qn_build *b, const qn_weight *w); /* NULL for NULL */
/* Its context is a qn_build, its values are nodes. */
extern const qn_recorder qn__graph_recorder;
extern const qn_moe_recorder qn__graph_moe_recorder;

#endif
