/* SPDX-License-Identifier: MIT */
/* src/format/gguf_split.c -- models split over files NAME-00001-of-0000N.gguf. The first part carries the metadata;
 * every part carries split.no (from 0), split.count and split.tensors.count, and a header and data section of its own.
 */
#include "format/gguf_file.h"
#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */

static qn_status part_bad(const qn_gguf_part *part, const char *key, const char *found, uint64_t value,
                          const char *expected, qn_error *err)
{
    const qn_gguf_kv *kv = qn__gguf_part_find(part, key);
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "key", key, strlen(key));
    return QN_GGUF_BAD(err, format, part->label, subject, kv ? kv->offset : 0, "found %s %llu, expected %s", found,
                       (unsigned long long)value, expected);
}

/* An absent key leaves *out alone. */
static qn_status optional_u64(const qn_gguf_part *part, const char *key, uint64_t *out, qn_error *err)
{
    const qn_gguf_kv *kv = qn__gguf_part_find(part, key);
    return kv ? qn__gguf_part_u64(part, kv, 0, out, err) : QN_OK;
}

static qn_status required_u64(const qn_gguf_part *part, const char *key, uint64_t *out, qn_error *err)
{
    if (qn__gguf_part_find(part, key)) return optional_u64(part, key, out, err);
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "key", key, strlen(key));
    return QN_GGUF_BAD(err, format, part->label, subject, 0,
                       "found no such key, expected it in every part of a split file");
}

/* The number of five digits at s, or -1. */
static int five_digits(const char *s)
{
    int value = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return -1;
        value = 10 * value + (s[i] - '0');
    }
    return value;
}

/* Splits NAME-00001-of-0000N.gguf: the length of NAME, which part, of how many. */
static bool parse_name(const char *path, size_t *stem, int *number, int *count)
{
    const size_t len = strlen(path);
    if (len <= SUFFIX_BYTES) return false;
    const char *s = path + len - SUFFIX_BYTES;
    *stem = len - SUFFIX_BYTES;
    *number = s[0] == '-' ? five_digits(s + 1) : -1;
    *count = strncmp(s + 6, "-of-", 4) == 0 ? five_digits(s + 10) : -1;
    return *number >= 1 && *count >= 1 && strcmp(s + 15, ".gguf") == 0;
}

static char *part_path(qn_gguf *file, size_t stem, int number, int count)
{
    return qn__arena_printf(&file->arena, "%.*s-%05d-of-%05d.gguf", (int)stem, file->path, number, count);
}

/* A part other than the first was opened: says which file to open instead. */
static qn_status not_the_first(qn_gguf *file, uint64_t no, uint64_t count, qn_error *err)
{
    char expected[300];
    size_t stem;
    int number, of;
    if (parse_name(file->path, &stem, &number, &of)) {
        const char *name = strrchr(file->path, '/');
        const size_t skip = name ? (size_t)(name + 1 - file->path) : 0;
        snprintf(expected, sizeof expected, "0: open the first part, %.*s-00001-of-%05d.gguf",
                 (int)(stem - (skip < stem ? skip : stem)), file->path + skip, of);
    } else {
        snprintf(expected, sizeof expected, "0: open the first of the %llu parts, NAME-00001-of-%05llu.gguf",
                 (unsigned long long)count, (unsigned long long)count);
    }
    return part_bad(&file->parts[0], "split.no", "part index", no, expected, err);
}

static qn_status check_part(const qn_gguf *file, int index, uint64_t count, qn_error *err)
{
    const qn_gguf_part *part = &file->parts[index];
    char expected[80];
    uint64_t no = 0, own_count = 0;
    QN_TRY(required_u64(part, "split.no", &no, err));
    QN_TRY(required_u64(part, "split.count", &own_count, err));
    snprintf(expected, sizeof expected, "%d from the file's name", index);
    if (no != (uint64_t)index) return part_bad(part, "split.no", "part index", no, expected, err);
    snprintf(expected, sizeof expected, "%llu as in the first part", (unsigned long long)count);
    if (own_count != count) return part_bad(part, "split.count", "a count of", own_count, expected, err);
    if (part->big_endian != file->parts[0].big_endian)
        return QN_GGUF_BAD(err, format, part->label, "header", 4,
                           "found %s-endian numbers, expected the byte order of the first "
                           "part",
                           part->big_endian ? "big" : "little");
    return QN_OK;
}

static qn_status read_others(qn_gguf *file, uint64_t count, qn_error *err)
{
    size_t stem = 0;
    int number = 0, of = 0;
    char expected[80];
    snprintf(expected, sizeof expected, "a file named NAME-00001-of-%05llu.gguf beside its other parts",
             (unsigned long long)count);
    if (!parse_name(file->path, &stem, &number, &of) || number != 1 || (uint64_t)of != count)
        return part_bad(&file->parts[0], "split.count", "a count of", count, expected, err);

    qn_gguf_part *parts = qn__arena_array(&file->arena, (size_t)count, sizeof *parts);
    if (!parts) return QN_FAIL_NOMEM(err, count * sizeof *parts);
    parts[0] = file->parts[0];
    file->parts = parts;
    for (int i = 1; i < (int)count; i++) {
        parts[i].label = "";
        file->n_parts = i + 1; /* so that close sees it */
        const char *path = part_path(file, stem, i + 1, (int)count);
        if (!path) return QN_FAIL_NOMEM(err, strlen(file->path));
        const qn_status status = qn__gguf_map_part(file, &parts[i], path, err);
        if (status != QN_OK) return qn__prefix(err, status, "part %d of %d", i + 1, (int)count);
        QN_TRY(qn__gguf_read_part(file, i, err));
        QN_TRY(check_part(file, i, count, err));
        qn__free(parts[i].kv);
        parts[i].kv = NULL;
        parts[i].n_kv = 0;
        parts[i].kv_index = (qn_name_index){0};
    }
    return QN_OK;
}

qn_status qn__gguf_read_split(qn_gguf *file, qn_error *err)
{
    const qn_gguf_part *first = &file->parts[0];
    char expected[80];
    uint64_t no = 0, count = 0, n_tensors = 0;
    QN_TRY(optional_u64(first, "split.count", &count, err));
    if (count == 0) return QN_OK; /* not split; or merged again by a tool that leaves 0 behind */
    QN_TRY(required_u64(first, "split.no", &no, err));
    if (no != 0) return not_the_first(file, no, count, err);
    snprintf(expected, sizeof expected, "1 to %d parts", QN_GGUF_MAX_PARTS);
    if (count > QN_GGUF_MAX_PARTS) return part_bad(first, "split.count", "a count of", count, expected, err);
    if (count > 1 && !first->mapped)
        return part_bad(first, "split.count", "a count of", count, "1: the parts of a split file open only by path",
                        err);
    QN_TRY(required_u64(first, "split.tensors.count", &n_tensors, err));
    if (count > 1) QN_TRY(read_others(file, count, err));
    first = &file->parts[0];
    snprintf(expected, sizeof expected, "the %zu that the parts hold", file->n_tensors);
    if (n_tensors != file->n_tensors)
        return part_bad(first, "split.tensors.count", "a count of", n_tensors, expected, err);
    return QN_OK;
}
