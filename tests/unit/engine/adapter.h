/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/adapter.h -- adapter files for tiny.h's models, field by field, so that a test can misshape any of
 * them. */
#ifndef QN_TEST_ENGINE_ADAPTER_H
#define QN_TEST_ENGINE_ADAPTER_H

#include "rig.h"

typedef struct adapter {
    const char *path; /* of the base */
    int rank;         /* 0: 4 */
    float alpha;      /* 0: none is written */
    uint32_t seed;
    bool zero_b;
    float times;      /* of every value; 0: 1 */
    const char *only; /* tensors whose name has this in it; NULL: every matrix but the embedding */
    qn_dtype type;
    /* Told before a tensor is declared: may change it, or leave it out (false). */
    bool (*tensor)(char *name, qn_shape *shape);
    bool (*key)(qn_gguf_writer *w, const char *key); /* true: seen to, and left out */
    void (*extra)(qn_gguf_writer *w);                /* declares more; no data is written for it */
} adapter;

static inline void adapter_data(qn_gguf_writer *w, const adapter *o, const char *name, const qn_shape *shape,
                                uint32_t *random)
{
    const int64_t n = qn_shape_numel(shape), row = shape->dim[shape->rank - 1],
                  bytes = qn_dtype_row_bytes(o->type, row) * (n / row);
    float *values = calloc((size_t)n, sizeof(float));
    void *packed = calloc(1, (size_t)bytes);
    assert_true(values && packed);
    const bool zero = o->zero_b && strstr(name, "lora_b");
    for (int64_t i = 0; i < n; i++)
        values[i] = zero ? 0.0f : tiny_random(random) * 0.6f / sqrtf((float)row) * (o->times != 0 ? o->times : 1);
    MUST(qn_pack(o->type, values, packed, n / row, row, NULL, err));
    qn_gguf_write_data(w, packed, (size_t)bytes);
    free(values);
    free(packed);
}

static inline void adapter_text(qn_gguf_writer *w, const adapter *o, const char *key, const char *value)
{
    if (!o->key || !o->key(w, key)) qn_gguf_write_str(w, key, value);
}

/* Writes it and returns the path; a fresh one each time. */
static inline const char *adapter_write(const adapter *o)
{
    static int number;
    static struct {
        char name[2][80];
        qn_shape shape[2];
        bool there[2];
    } pairs[64];
    char file_name[32], arch[64] = "";
    qn_gguf *base = NULL;
    qn_gguf_writer *w = NULL;
    qn_gguf_str text;
    int n = 0;
    snprintf(file_name, sizeof(file_name), "adapter-%d.gguf", number++);
    const char *path = tiny_path(file_name);
    MUST(qn_gguf_open(o->path, NULL, &base, err));
    MUST(qn_gguf_get_str(base, qn_gguf_kv_find(base, "general.architecture"), 0, &text, err));
    memcpy(arch, text.data, text.len);
    MUST(qn_gguf_writer_create(path, &w, err));
    adapter_text(w, o, "general.type", "adapter");
    adapter_text(w, o, "adapter.type", "lora");
    adapter_text(w, o, "general.architecture", arch);
    if (o->alpha != 0) qn_gguf_write_f32(w, "adapter.lora.alpha", o->alpha);
    const int64_t r = o->rank ? o->rank : 4;
    for (size_t i = 0; i < qn_gguf_n_tensors(base); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(base, i);
        if (t->shape.rank != 2 || strstr(t->name, ".bias") || strstr(t->name, "_embd.weight") ||
            strstr(t->name, "_norm.weight") || (o->only && !strstr(t->name, o->only)))
            continue;
        assert_true(n < 64);
        for (int b = 0; b < 2; b++) {
            snprintf(pairs[n].name[b], sizeof(pairs[n].name[b]), "%s.lora_%c", t->name, "ab"[b]);
            pairs[n].shape[b] = b ? qn_shape_of(t->shape.dim[0], r) : qn_shape_of(r, t->shape.dim[1]);
            pairs[n].there[b] = !o->tensor || o->tensor(pairs[n].name[b], &pairs[n].shape[b]);
            if (pairs[n].there[b]) qn_gguf_declare(w, pairs[n].name[b], o->type, &pairs[n].shape[b]);
        }
        n++;
    }
    if (o->extra) o->extra(w);
    uint32_t random = o->seed + 77;
    for (int i = 0; i < n; i++)
        for (int b = 0; b < 2; b++)
            if (pairs[i].there[b]) adapter_data(w, o, pairs[i].name[b], &pairs[i].shape[b], &random);
    qn_gguf_close(base);
    MUST(qn_gguf_writer_commit(w, err));
    return path;
}

#endif
