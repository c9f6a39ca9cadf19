/* SPDX-License-Identifier: MIT */
/* src/format/gguf_file.h -- what the gguf_*.c files share: the open file, its parts and tables, and how its errors
 * read.
 *
 * Always true of an open file: every offset, count and string in its tables was checked against the bytes that are
 * there, names are unique, and no tensor overlaps another. Values themselves stay in the mapping and are decoded when
 * asked for. */
#ifndef QN_FORMAT_GGUF_FILE_H
#define QN_FORMAT_GGUF_FILE_H

#include "base/cursor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include <quern/gguf.h>

/* Limits on what a header may hold. All are far above anything published; docs/FORMATS.md gives each one's reason. */
#define QN_GGUF_MAX_HEADER       ((uint64_t)1 << 28) /* bytes before the tensor data */
#define QN_GGUF_MAX_KV           ((uint64_t)1 << 16)
#define QN_GGUF_MAX_TENSORS      ((uint64_t)1 << 20)
#define QN_GGUF_MAX_STRINGS      ((uint64_t)1 << 24) /* in one array */
#define QN_GGUF_MAX_KEY          65535
#define QN_GGUF_MAX_NAME         255
#define QN_GGUF_MAX_NESTING      4
#define QN_GGUF_MAX_PARTS        512
#define QN_GGUF_MIN_ALIGN        8
#define QN_GGUF_MAX_ALIGN        ((uint64_t)1 << 20)
#define QN_GGUF_DEFAULT_ALIGN    32

/* Fewest bytes that an entry takes: what a count is checked against before anything is allocated. */
#define QN_GGUF_MIN_KV_BYTES     14 /* key length, one byte of key, type, one byte of value */
#define QN_GGUF_MIN_TENSOR_BYTES 33 /* name length, one byte of name, n_dims, one dimension, type, offset */

/* ---- names: a sorted index. Sorting keeps the worst case at n log n; a table of buckets could be made to degenerate
 * by a file whose keys collide. ---- */
typedef struct qn_name_slot {
    uint64_t hash;
    const char *name;
    uint32_t item;
} qn_name_slot;
typedef struct qn_name_index {
    qn_name_slot *slot; /* [n], by hash, then name, then item */
    size_t n;
} qn_name_index;

/* Each item starts with its name: `const char *` at items + i * stride. Slots come from the arena. */
qn_status qn__names_build(qn_name_index *index, qn_arena *arena, const void *items, size_t stride, size_t n,
                          qn_error *err);
/* Two items of the same name, first < second; false when there are none. */
bool qn__names_twice(const qn_name_index *index, uint32_t *first, uint32_t *second);
/* The item called `name`, or -1. */
int64_t qn__names_find(const qn_name_index *index, const char *name);

typedef bool (*qn_less_fn)(const void *ctx, size_t a, size_t b);
typedef void (*qn_swap_fn)(void *ctx, size_t a, size_t b);
/* Heap sort of n things behind two callbacks: in place, n log n always. */
void qn__sort(void *ctx, size_t n, qn_less_fn less, qn_swap_fn swap);

/* ---- the file ---- */
typedef struct qn_gguf_entry {
    /* first, so that a pointer to it is a pointer to the entry; pub.key first for the name index */
    qn_gguf_kv pub;
    uint64_t end;         /* one past the value, in the file */
    const uint32_t *strs; /* of an array of strings: where each starts (its length field), from pub.offset */
} qn_gguf_entry;

typedef struct qn_gguf_info {
    qn_gguf_tensor pub; /* first, for the same reasons */
    uint64_t at;        /* where its description starts in the header */
} qn_gguf_info;

typedef struct qn_gguf_part {
    qn_map map; /* all zero for memory */
    bool mapped;
    const uint8_t *data;
    uint64_t size;
    const char *label; /* "NAME: " for messages, "" for memory */
    uint32_t version;
    bool big_endian, swap; /* swap: not this machine's order */
    uint32_t alignment;
    uint64_t data_start; /* where tensor data begins */
    qn_gguf_entry *kv;   /* released after reading, but for the first part */
    size_t n_kv;
    qn_name_index kv_index;
    size_t first_tensor, n_tensors;
} qn_gguf_part;

struct qn_gguf {
    qn_arena arena; /* this struct is its first allocation */
    const char *path;
    bool metadata_only;
    int n_parts;
    qn_gguf_part *parts;
    qn_gguf_info *tensors;
    size_t n_tensors, cap_tensors;
    qn_name_index tensor_index;
};

/* Parses a part whose data, size and label are set: fills its kv table and appends its tensors. */
qn_status qn__gguf_read_part(qn_gguf *file, int part, qn_error *err);
/* The first part is read and belongs to a split file of `count`: finds, opens and reads the others. */
qn_status qn__gguf_read_split(qn_gguf *file, qn_error *err);
/* Opens a file as a part and labels it. */
qn_status qn__gguf_map_part(qn_gguf *file, qn_gguf_part *part, const char *path, qn_error *err);
const qn_gguf_kv *qn__gguf_part_find(const qn_gguf_part *part, const char *key);
qn_status qn__gguf_part_u64(const qn_gguf_part *part, const qn_gguf_kv *kv, uint64_t index, uint64_t *out,
                            qn_error *err);

/* The width of a value type in bytes, 0 for strings and arrays and for what is no type. */
int qn__gguf_type_bytes(uint32_t type);

/* Raises "LABEL: SUBJECT, offset N: MESSAGE". The subject says what is being read: `key "general.name"`. */
qn_status qn__gguf_raise(qn_error *err, qn_status status, const char *file, int line, const char *label,
                         const char *subject, uint64_t offset, const char *fmt, ...) QN_PRINTF(8, 9);
#define QN_GGUF_BAD(err, status, label, subject, offset, ...) \
    qn__gguf_raise((err), QN_STATUS_##status, __FILE__, __LINE__, (label), (subject), (offset), __VA_ARGS__)
/* `key "NAME"`, made safe to print and cut to what a message can carry. */
#define QN_GGUF_SUBJECT_BYTES 160
const char *qn__gguf_subject(char buf[QN_GGUF_SUBJECT_BYTES], const char *kind, const char *name, size_t n);

/* "NAME: " for messages, in the arena; NULL when memory runs out. The end of a long path says more than its beginning.
 */
const char *qn__file_label(qn_arena *arena, const char *path);
/* The length of the valid UTF-8 at the start of `text`: n when all of it is. */
size_t qn__utf8_valid(const void *text, size_t n);
/* Why a key or a tensor name may not be used, or NULL: empty, too long, bad UTF-8, a control character. */
const char *qn__gguf_name_fault(const void *name, uint64_t n, uint64_t max);

/* ---- a header being read: gguf_read.c does the frame and the metadata, gguf_tensors.c the tensor table ---- */
typedef struct qn_gguf_reader {
    qn_gguf *file;
    qn_gguf_part *part;
    qn_cursor c;
    qn_error *err;
    char subject[QN_GGUF_SUBJECT_BYTES]; /* what is being read, for messages */
    char cut[384];                       /* the label of a file that ends too early */
} qn_gguf_reader;
#define QN_READ_BAD(r, status, offset, ...) \
    QN_GGUF_BAD((r)->err, status, (r)->part->label, (r)->subject, (offset), __VA_ARGS__)
/* The same where something reaches behind the file's end, which is at least `needed`: the message begins with that. */
#define QN_READ_CUT(r, offset, needed, ...) \
    QN_GGUF_BAD((r)->err, format, qn__gguf_cut((r), (needed)), (r)->subject, (offset), __VA_ARGS__)
const char *qn__gguf_cut(qn_gguf_reader *r, uint64_t needed);
/* Where `count` items of `bytes` each that begin at `pos` would end; UINT64_MAX where no header reaches. */
uint64_t qn__gguf_end(uint64_t pos, uint64_t count, uint64_t bytes);
/* Fails unless n more bytes are there; `what` completes "expected N bytes of". */
qn_status qn__gguf_need(qn_gguf_reader *r, uint64_t n, const char *what);
/* A length and that many bytes. `what` is "key" or "name", `number` which one; sets the subject to the name read. */
qn_status qn__gguf_read_name(qn_gguf_reader *r, const char *what, uint64_t number, uint64_t max, const char **out);
qn_status qn__gguf_read_tensors(qn_gguf_reader *r, uint64_t count);
/* Makes room for one more item in a table that grows as its entries prove to be there, not as a count claims. */
qn_status qn__gguf_grow(void **items, size_t *cap, size_t n, size_t item_bytes, qn_error *err);

/* One scalar of the file's byte order at any address. */
uint64_t qn__gguf_load(const uint8_t *p, int bytes, bool big_endian);

#endif
