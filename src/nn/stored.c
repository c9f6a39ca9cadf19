/* SPDX-License-Identifier: MIT */
/* src/nn/stored.c -- one face for the two formats. */
#include "nn/stored.h"
#include "base/error.h"
#include "base/file.h"
#include "format/native.h"

#include <string.h>

qn_status qn__stored_open(const char *path, qn_stored_file *out, qn_error *err)
{
    qn_map map;
    *out = (qn_stored_file){0};
    QN_TRY(qn__map_open(path, &map, err));
    const bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    qn__map_close(&map);
    return gguf ? qn_gguf_open(path, NULL, &out->gguf, err) : qn_safetensors_open(path, NULL, &out->st, err);
}

void qn__stored_close(qn_stored_file *f)
{
    qn_gguf_close(f->gguf);
    qn_safetensors_close(f->st);
}

size_t qn__stored_count(const qn_stored_file *f)
{
    return f->gguf != NULL ? qn_gguf_n_tensors(f->gguf) : qn_safetensors_n_tensors(f->st);
}

static void of_gguf(const qn_stored_file *f, const qn_gguf_tensor *t, qn_stored *out)
{
    *out =
        (qn_stored){t->name, t->dtype, t->shape, t->size_bytes, qn__gguf_is_native(f->gguf) ? t->data : NULL, t, NULL};
}

static void of_safetensors(const qn_safetensors_tensor *t, qn_stored *out)
{
    *out = (qn_stored){t->name, t->dtype, t->shape, t->size_bytes, t->direct ? t->data : NULL, NULL, t};
}

void qn__stored_get(const qn_stored_file *f, size_t i, qn_stored *out)
{
    if (f->gguf != NULL)
        of_gguf(f, qn_gguf_tensor_get(f->gguf, i), out);
    else
        of_safetensors(qn_safetensors_tensor_get(f->st, i), out);
}

bool qn__stored_find(const qn_stored_file *f, const char *name, qn_stored *out)
{
    const qn_gguf_tensor *g = f->gguf != NULL ? qn_gguf_tensor_find(f->gguf, name) : NULL;
    const qn_safetensors_tensor *s = f->gguf == NULL ? qn_safetensors_tensor_find(f->st, name) : NULL;
    if (g != NULL)
        of_gguf(f, g, out);
    else if (s != NULL)
        of_safetensors(s, out);
    return g != NULL || s != NULL;
}

qn_status qn__stored_read(const qn_stored_file *f, const qn_stored *t, void *dst, qn_error *err)
{
    return t->gguf != NULL ? qn__gguf_tensor_native(f->gguf, t->gguf, dst, err)
                           : qn_safetensors_read(f->st, t->st, dst, err);
}
