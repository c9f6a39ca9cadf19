/* SPDX-License-Identifier: MIT */
/* src/format/safetensors_file.h -- what the safetensors_*.c files share.
 *
 * Always true of an open file: the data of each part is its tensors one after the other from the first byte to the
 * last, as the format demands: no overlap, no hole. Names are unique over all parts; sizes fit shapes and types. */
#ifndef QN_FORMAT_SAFETENSORS_FILE_H
#define QN_FORMAT_SAFETENSORS_FILE_H

#include "format/gguf_file.h"
#include <quern/safetensors.h>

/* Limits; docs/FORMATS.md gives each one's reason. */
#define QN_SAFETENSORS_MAX_HEADER  ((uint64_t)100000000) /* the format's own */
#define QN_SAFETENSORS_MAX_INDEX   ((size_t)64 << 20)
#define QN_SAFETENSORS_MAX_TENSORS ((size_t)1 << 20)
#define QN_SAFETENSORS_MAX_NAME    1023
#define QN_SAFETENSORS_MAX_PARTS   512

typedef struct qn_safetensors_type {
    const char *name;
    int bits;
    qn_dtype dtype;
} qn_safetensors_type;
/* The row number of a type, or -1. */
int qn__safetensors_type_find(const char *name);
int qn__safetensors_type_of(qn_dtype dtype);
const qn_safetensors_type *qn__safetensors_type_get(int row);

typedef struct qn_safetensors_info {
    /* first, so that a pointer to it is a pointer to the entry; pub.name first for the name index */
    qn_safetensors_tensor pub;
    uint64_t begin; /* from the start of the part's data */
    uint64_t at;    /* where its entry starts in the header */
} qn_safetensors_info;

typedef struct qn_safetensors_part {
    qn_map map; /* all zero for memory */
    bool mapped;
    const char *label;   /* "NAME: " for messages, "" for memory */
    const uint8_t *data; /* the whole part */
    uint64_t size;
} qn_safetensors_part;

struct qn_safetensors {
    qn_arena arena; /* this struct is its first allocation */
    bool keep_unsupported;
    int n_parts;
    qn_safetensors_part *parts;
    qn_safetensors_info *tensors;
    size_t n_tensors, cap_tensors;
    qn_name_index tensor_index;
    qn_safetensors_meta *meta; /* of the first part */
    size_t n_meta, cap_meta;
    qn_name_index meta_index;
};

/* Parses a part whose data, size and label are set: appends its tensors, and takes the metadata of the first. */
qn_status qn__safetensors_read_part(qn_safetensors *file, int part, qn_error *err);
/* Maps a file as the next part and reads it. file->parts has room. */
qn_status qn__safetensors_add_part(qn_safetensors *file, const char *path, qn_error *err);
/* Builds the name index; a name that comes twice is an error. */
qn_status qn__safetensors_name(qn_safetensors *file, qn_error *err);
/* Opens all shards that an index names. */
qn_status qn__safetensors_read_index(qn_safetensors *file, const char *path, qn_error *err);

#endif
