/* SPDX-License-Identifier: MIT */
/* src/format/gguf_tensors.c -- reading the tensor table of one GGUF file. When it returns, every tensor has a known
 * type, a size that is right for its shape, and bytes that lie inside the file, aligned, and belong to it alone. */
#include "format/gguf_file.h"
#include <stdio.h>
#include <string.h>

/* Ids that were or are in use elsewhere and have no row in QN_DTYPE_ROWS: named so that the message says what the file
 * has. (Removed from the format, only ever used inside computations, or newer than this table.) */
static const struct {
    uint32_t id;
    const char *name;
} foreign[] = {
    {4, "Q4_2"},      {5, "Q4_3"},        {9, "Q8_1"},        {15, "Q8_K"},       {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {41, "Q1_0"},     {42, "Q2_0"},
};

static qn_status unknown_type(qn_gguf_reader *r, uint32_t id, uint64_t at)
{
    char known[320] = "";
    size_t used = 0;
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        if (info->gguf_id < 0 || used >= sizeof known) continue;
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", info->name);
    }
    const char *name = "unknown";
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].id == id) name = foreign[i].name;
    return QN_READ_BAD(r, unsupported, at, "found tensor type %u (%s), expected one of:%s", id, name, known);
}

/* Dimensions in the file run from the innermost out. */
static qn_status read_shape(qn_gguf_reader *r, qn_shape *shape)
{
    const uint64_t at = r->c.pos;
    QN_TRY(qn__gguf_need(r, 4, "its number of dimensions"));
    const uint32_t rank = qn__get_u32(&r->c);
    if (rank < 1 || rank > QN_MAX_RANK)
        return QN_READ_BAD(r, format, at, "found %u dimensions, expected 1 to %d", rank, QN_MAX_RANK);
    QN_TRY(qn__gguf_need(r, 8 * (uint64_t)rank, "dimensions"));
    *shape = (qn_shape){.rank = (int)rank};
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t dim = qn__get_u64(&r->c);
        if (dim == 0 || dim > INT64_MAX)
            return QN_READ_BAD(r, format, at + 4 + 8 * i, "found %llu as dimension %u, expected 1 to 2^63-1",
                               (unsigned long long)dim, i);
        shape->dim[rank - 1 - i] = (int64_t)dim;
    }
    if (qn_shape_numel(shape) < 0) {
        char text[200];
        return QN_READ_BAD(r, format, at + 4, "found the shape %s, expected fewer than 2^63 elements",
                           qn_shape_print(shape, text, sizeof text));
    }
    return QN_OK;
}

static qn_status size_of(qn_gguf_reader *r, qn_gguf_tensor *t, uint64_t at)
{
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    const int64_t row = t->shape.dim[t->shape.rank - 1];
    if (row % info->block_elems != 0)
        return QN_READ_BAD(r, format, at, "found rows of %lld elements of type %s, expected a multiple of %d",
                           (long long)row, info->name, info->block_elems);
    const int64_t row_bytes = qn_dtype_row_bytes(t->dtype, row), rows = qn_shape_numel(&t->shape) / row;
    size_t bytes;
    if (row_bytes <= 0 || !qn__mul_size((size_t)row_bytes, (size_t)rows, &bytes) || bytes > INT64_MAX) {
        char text[200];
        return QN_READ_BAD(r, format, at, "found the shape %s of type %s, expected fewer than 2^63 bytes",
                           qn_shape_print(&t->shape, text, sizeof text), info->name);
    }
    t->size_bytes = bytes;
    return QN_OK;
}

static qn_status read_info(qn_gguf_reader *r, uint64_t number, qn_gguf_info *info)
{
    qn_gguf_tensor *t = &info->pub;
    *info = (qn_gguf_info){.at = r->c.pos};
    QN_TRY(qn__gguf_read_name(r, "tensor", number, QN_GGUF_MAX_NAME, &t->name));
    const uint64_t shape_at = r->c.pos;
    QN_TRY(read_shape(r, &t->shape));
    QN_TRY(qn__gguf_need(r, 12, "its type and offset"));
    const uint64_t type_at = r->c.pos;
    const uint32_t id = qn__get_u32(&r->c);
    if (!qn_dtype_from_gguf(id, &t->dtype)) return unknown_type(r, id, type_at);
    QN_TRY(size_of(r, t, shape_at));
    t->file_offset = qn__get_u64(&r->c); /* from data_start, until that is known */
    t->part = (int)(r->part - r->file->parts);
    if (t->file_offset % r->part->alignment != 0)
        return QN_READ_BAD(r, format, type_at + 4,
                           "found its data at %llu after the start of the data, expected a multiple of "
                           "the alignment %u",
                           (unsigned long long)t->file_offset, r->part->alignment);
    return QN_OK;
}

/* Where a tensor's data ends, while its offset is that in the file; UINT64_MAX where no file reaches. INT64_MAX bounds
 * both summands' scale: offset is the only one that may be larger. */
static uint64_t end_of(const qn_gguf_part *part, const qn_gguf_tensor *t)
{
    const uint64_t relative = t->file_offset;
    if (relative > INT64_MAX - part->data_start || t->size_bytes > INT64_MAX - part->data_start - relative)
        return UINT64_MAX;
    return part->data_start + relative + t->size_bytes;
}

/* Makes the offset absolute. last: where the data of all tensors ends. */
static qn_status place(qn_gguf_reader *r, qn_gguf_info *info, uint64_t last)
{
    qn_gguf_tensor *t = &info->pub;
    qn_gguf_part *part = r->part;
    const uint64_t relative = t->file_offset, end = end_of(part, t);
    const bool sane = end != UINT64_MAX, inside = end <= part->size;
    if (!sane || (!inside && !r->file->metadata_only)) {
        qn__gguf_subject(r->subject, "tensor", t->name, strlen(t->name));
        return QN_READ_CUT(r, info->at, last,
                           "found its data at %llu + %llu, %llu bytes long, expected it to end by the end "
                           "of the file at %llu",
                           (unsigned long long)part->data_start, (unsigned long long)relative,
                           (unsigned long long)t->size_bytes, (unsigned long long)part->size);
    }
    t->file_offset = part->data_start + relative;
    t->data = inside ? part->data + t->file_offset : NULL;
    return QN_OK;
}

typedef struct by_offset {
    const qn_gguf_info *tensors;
    uint32_t *order;
} by_offset;

static bool offset_less(const void *ctx, size_t a, size_t b)
{
    const by_offset *by = ctx;
    const uint64_t x = by->tensors[by->order[a]].pub.file_offset, y = by->tensors[by->order[b]].pub.file_offset;
    return x != y ? x < y : by->order[a] < by->order[b];
}

static void offset_swap(void *ctx, size_t a, size_t b)
{
    by_offset *by = ctx;
    const uint32_t tmp = by->order[a];
    by->order[a] = by->order[b];
    by->order[b] = tmp;
}

static qn_status check_overlap(qn_gguf_reader *r, const qn_gguf_info *first, const qn_gguf_info *second)
{
    const uint64_t end = first->pub.file_offset + first->pub.size_bytes;
    if (second->pub.file_offset >= end) return QN_OK;
    char other[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(other, "tensor", first->pub.name, strlen(first->pub.name));
    qn__gguf_subject(r->subject, "tensor", second->pub.name, strlen(second->pub.name));
    return QN_READ_BAD(r, format, second->at,
                       "found its data at %llu, overlapping %s at %llu to %llu, expected no overlap",
                       (unsigned long long)second->pub.file_offset, other, (unsigned long long)first->pub.file_offset,
                       (unsigned long long)end);
}

/* Files nearly always list tensors in the order of their data; only others are sorted. */
static qn_status check_overlaps(qn_gguf_reader *r, const qn_gguf_info *tensors, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = tensors[i - 1].pub.file_offset <= tensors[i].pub.file_offset;
    if (sorted) {
        for (size_t i = 1; i < n; i++) QN_TRY(check_overlap(r, &tensors[i - 1], &tensors[i]));
        return QN_OK;
    }
    by_offset by = {tensors, qn__alloc(n * sizeof *by.order)};
    if (!by.order) return QN_FAIL_NOMEM(r->err, n * sizeof *by.order);
    for (size_t i = 0; i < n; i++) by.order[i] = (uint32_t)i;
    qn__sort(&by, n, offset_less, offset_swap);
    qn_status status = QN_OK;
    for (size_t i = 1; i < n && status == QN_OK; i++)
        status = check_overlap(r, &tensors[by.order[i - 1]], &tensors[by.order[i]]);
    qn__free(by.order);
    return status;
}

qn_status qn__gguf_read_tensors(qn_gguf_reader *r, uint64_t count)
{
    qn_gguf *file = r->file;
    qn_gguf_part *part = r->part;
    part->first_tensor = file->n_tensors;
    for (uint64_t i = 0; i < count; i++) {
        void *items = file->tensors;
        QN_TRY(qn__gguf_grow(&items, &file->cap_tensors, file->n_tensors, sizeof *file->tensors, r->err));
        file->tensors = items;
        QN_TRY(read_info(r, i, &file->tensors[file->n_tensors]));
        file->n_tensors++;
    }
    part->n_tensors = (size_t)count;
    part->data_start = (r->c.pos + part->alignment - 1) / part->alignment * part->alignment;
    if (count == 0) return QN_OK; /* and maybe no list */
    qn_gguf_info *infos = file->tensors + part->first_tensor;
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++)
        if (end_of(part, &infos[i].pub) > last) last = end_of(part, &infos[i].pub);
    for (size_t i = 0; i < count; i++) QN_TRY(place(r, &infos[i], last));
    return check_overlaps(r, infos, (size_t)count);
}
