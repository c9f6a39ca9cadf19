/* SPDX-License-Identifier: MIT */
/* src/format/safetensors_open.c -- opening, closing and looking things up. */
#include "format/safetensors_file.h"
#include <string.h>

static qn_status create(const qn_safetensors_options *options, int max_parts, qn_safetensors **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_safetensors *file = qn__arena_alloc(&arena, sizeof *file);
    qn_safetensors_part *parts = qn__arena_array(&arena, (size_t)max_parts, sizeof *parts);
    if (!file || !parts) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *file + (size_t)max_parts * sizeof *parts);
    }
    *file = (qn_safetensors){.arena = arena, .parts = parts};
    file->keep_unsupported = options && options->keep_unsupported;
    *out = file;
    return QN_OK;
}

qn_status qn__safetensors_add_part(qn_safetensors *file, const char *path, qn_error *err)
{
    qn_safetensors_part *part = &file->parts[file->n_parts];
    part->label = qn__file_label(&file->arena, path);
    if (!part->label) return QN_FAIL_NOMEM(err, strlen(path));
    QN_TRY(qn__map_open(path, &part->map, err));
    file->n_parts++; /* so that close sees it */
    part->mapped = true;
    part->data = part->map.data;
    part->size = part->map.size;
    return qn__safetensors_read_part(file, file->n_parts - 1, err);
}

qn_status qn__safetensors_name(qn_safetensors *file, qn_error *err)
{
    uint32_t first, second;
    QN_TRY(
        qn__names_build(&file->tensor_index, &file->arena, file->tensors, sizeof *file->tensors, file->n_tensors, err));
    if (!qn__names_twice(&file->tensor_index, &first, &second)) return QN_OK;
    const qn_safetensors_info *a = &file->tensors[first], *b = &file->tensors[second];
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "tensor", b->pub.name, strlen(b->pub.name));
    return QN_GGUF_BAD(err, format, file->parts[b->pub.part].label, subject, b->at,
                       "found the same name as at offset %llu of part %d, expected each name once",
                       (unsigned long long)a->at, a->pub.part + 1);
}

static bool is_index(const char *path)
{
    const size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, ".json") == 0;
}

qn_status qn_safetensors_open(const char *path, const qn_safetensors_options *options, qn_safetensors **out,
                              qn_error *err)
{
    qn_safetensors *file = NULL;
    const bool index = is_index(path);
    QN_TRY(create(options, index ? QN_SAFETENSORS_MAX_PARTS : 1, &file, err));
    qn_status status = index ? qn__safetensors_read_index(file, path, err) : qn__safetensors_add_part(file, path, err);
    if (status == QN_OK && !index) status = qn__safetensors_name(file, err);
    if (status != QN_OK)
        qn_safetensors_close(file);
    else
        *out = file;
    return status;
}

qn_status qn_safetensors_open_memory(const void *data, size_t size, const qn_safetensors_options *options,
                                     qn_safetensors **out, qn_error *err)
{
    qn_safetensors *file = NULL;
    QN_TRY(create(options, 1, &file, err));
    file->parts[0] = (qn_safetensors_part){.label = "", .data = data, .size = size};
    file->n_parts = 1;
    qn_status status = qn__safetensors_read_part(file, 0, err);
    if (status == QN_OK) status = qn__safetensors_name(file, err);
    if (status != QN_OK)
        qn_safetensors_close(file);
    else
        *out = file;
    return status;
}

void qn_safetensors_close(qn_safetensors *file)
{
    if (!file) return;
    for (int i = 0; i < file->n_parts; i++)
        if (file->parts[i].mapped) qn__map_close(&file->parts[i].map);
    qn__free(file->tensors);
    qn__free(file->meta);
    qn_arena arena = file->arena;
    qn__arena_deinit(&arena);
}

int qn_safetensors_n_parts(const qn_safetensors *file) { return file->n_parts; }

uint64_t qn_safetensors_file_bytes(const qn_safetensors *file)
{
    uint64_t bytes = 0;
    for (int i = 0; i < file->n_parts; i++) bytes += file->parts[i].size;
    return bytes;
}

size_t qn_safetensors_n_tensors(const qn_safetensors *file) { return file->n_tensors; }

const qn_safetensors_tensor *qn_safetensors_tensor_get(const qn_safetensors *file, size_t index)
{
    return index < file->n_tensors ? &file->tensors[index].pub : NULL;
}

const qn_safetensors_tensor *qn_safetensors_tensor_find(const qn_safetensors *file, const char *name)
{
    const int64_t i = qn__names_find(&file->tensor_index, name);
    return i >= 0 ? &file->tensors[i].pub : NULL;
}

size_t qn_safetensors_n_meta(const qn_safetensors *file) { return file->n_meta; }

const qn_safetensors_meta *qn_safetensors_meta_get(const qn_safetensors *file, size_t index)
{
    return index < file->n_meta ? &file->meta[index] : NULL;
}

const qn_safetensors_meta *qn_safetensors_meta_find(const qn_safetensors *file, const char *key)
{
    const int64_t i = qn__names_find(&file->meta_index, key);
    return i >= 0 ? &file->meta[i] : NULL;
}

qn_status qn_safetensors_read(const qn_safetensors *file, const qn_safetensors_tensor *tensor, void *dst, qn_error *err)
{
    const uint16_t probe = 1;
    const bool host_big = *(const uint8_t *)&probe == 0;
    const qn_dtype_info *info = qn_dtype_get(tensor->dtype);
    uint8_t *bytes = dst;
    (void)file;
    if (info->block_bytes == 0) {
        char subject[QN_GGUF_SUBJECT_BYTES];
        return QN_FAIL(err, unsupported, "%s: found type %s, expected one that Quern computes with",
                       qn__gguf_subject(subject, "tensor", tensor->name, strlen(tensor->name)), tensor->type);
    }
    if (tensor->size_bytes > 0) memcpy(dst, tensor->data, tensor->size_bytes);
    if (host_big && info->block_bytes > 1)
        qn__swap_array(dst, tensor->size_bytes / (uint64_t)info->block_bytes, (size_t)info->block_bytes);
    for (uint64_t i = 0; i < tensor->size_bytes && info->class_ == QN_CLASS_boolean; i++) bytes[i] = bytes[i] != 0;
    return QN_OK;
}
