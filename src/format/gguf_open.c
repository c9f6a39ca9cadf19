/* SPDX-License-Identifier: MIT */
/* src/format/gguf_open.c -- opening and closing GGUF files, facts about them, and how their tensor bytes come into
 * memory. */
#include "format/gguf_file.h"
#include "format/native.h"
#include "base/metrics.h"
#include <string.h>

qn_status qn__gguf_map_part(qn_gguf *file, qn_gguf_part *part, const char *path, qn_error *err)
{
    part->label = qn__file_label(&file->arena, path);
    if (!part->label) return QN_FAIL_NOMEM(err, strlen(path));
    QN_TRY(qn__map_open(path, &part->map, err));
    part->mapped = true;
    part->data = part->map.data;
    part->size = part->map.size;
    return QN_OK;
}

static qn_status create(const qn_gguf_options *options, const char *path, qn_gguf **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_gguf *file = qn__arena_alloc(&arena, sizeof *file);
    qn_gguf_part *part = qn__arena_alloc(&arena, sizeof *part);
    const char *path_copy = qn__arena_strdup(&arena, path);
    if (!file || !part || !path_copy) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *file + sizeof *part + strlen(path) + 1);
    }
    *file = (qn_gguf){.arena = arena, .path = path_copy, .n_parts = 1, .parts = part};
    *part = (qn_gguf_part){.label = ""};
    file->metadata_only = options && options->metadata_only;
    *out = file;
    return QN_OK;
}

static qn_status name_tensors(qn_gguf *file, qn_error *err)
{
    uint32_t first, second;
    QN_TRY(
        qn__names_build(&file->tensor_index, &file->arena, file->tensors, sizeof *file->tensors, file->n_tensors, err));
    if (!qn__names_twice(&file->tensor_index, &first, &second)) return QN_OK;
    const qn_gguf_info *a = &file->tensors[first], *b = &file->tensors[second];
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "tensor", b->pub.name, strlen(b->pub.name));
    return QN_GGUF_BAD(err, format, file->parts[b->pub.part].label, subject, b->at,
                       "found the same name as at offset %llu of part %d, expected each name once",
                       (unsigned long long)a->at, a->pub.part + 1);
}

static qn_status read_file(qn_gguf *file, qn_error *err)
{
    QN_TRY(qn__gguf_read_part(file, 0, err));
    QN_TRY(qn__gguf_read_split(file, err));
    QN_TRY(name_tensors(file, err));
    QN_COUNT(gguf_parses, 1);
    return QN_OK;
}

qn_status qn_gguf_open(const char *path, const qn_gguf_options *options, qn_gguf **out, qn_error *err)
{
    qn_gguf *file;
    QN_TRY(create(options, path, &file, err));
    qn_status status = qn__gguf_map_part(file, &file->parts[0], path, err);
    if (status == QN_OK) status = read_file(file, err);
    if (status != QN_OK)
        qn_gguf_close(file);
    else
        *out = file;
    return status;
}

qn_status qn_gguf_open_memory(const void *data, size_t size, const qn_gguf_options *options, qn_gguf **out,
                              qn_error *err)
{
    qn_gguf *file;
    QN_TRY(create(options, "", &file, err));
    file->parts[0].data = data;
    file->parts[0].size = size;
    const qn_status status = read_file(file, err);
    if (status != QN_OK)
        qn_gguf_close(file);
    else
        *out = file;
    return status;
}

void qn_gguf_close(qn_gguf *file)
{
    if (!file) return;
    for (int i = 0; i < file->n_parts; i++) {
        qn__free(file->parts[i].kv);
        if (file->parts[i].mapped) qn__map_close(&file->parts[i].map);
    }
    qn__free(file->tensors);
    qn_arena arena = file->arena;
    qn__arena_deinit(&arena);
}

const char *qn_gguf_path(const qn_gguf *file) { return file->path; }
uint32_t qn_gguf_version(const qn_gguf *file) { return file->parts[0].version; }
bool qn_gguf_big_endian(const qn_gguf *file) { return file->parts[0].big_endian; }
uint32_t qn_gguf_alignment(const qn_gguf *file) { return file->parts[0].alignment; }
int qn_gguf_n_parts(const qn_gguf *file) { return file->n_parts; }

uint64_t qn_gguf_file_bytes(const qn_gguf *file)
{
    uint64_t bytes = 0;
    for (int i = 0; i < file->n_parts; i++) bytes += file->parts[i].size;
    return bytes;
}

/* ---- loading policy ---- */

typedef struct load_state {
    qn_progress_fn progress;
    void *ctx;
    uint64_t before, part, total; /* bytes of the parts already done, of this one, and of all */
} load_state;

static bool part_progress(void *ctx, size_t done, size_t total)
{
    (void)total; /* in whole pages, so it may be more than the part has */
    const load_state *state = ctx;
    return state->progress(state->ctx, state->before + (done < state->part ? done : state->part), state->total);
}

static uint64_t data_bytes(const qn_gguf_part *part)
{
    return part->n_tensors > 0 && part->data_start < part->size ? part->size - part->data_start : 0;
}

qn_status qn_gguf_load(const qn_gguf *file, qn_gguf_policy policy, qn_progress_fn progress, void *ctx, qn_error *err)
{
    if (policy == QN_GGUF_lazy) return QN_OK;
    if ((int)policy < 0 || policy >= QN_GGUF_POLICY_COUNT)
        return QN_FAIL(err, invalid, "policy %d; there are 0 to %d", (int)policy, QN_GGUF_POLICY_COUNT - 1);
    load_state state = {.progress = progress, .ctx = ctx};
    for (int i = 0; i < file->n_parts; i++) {
        if (!file->parts[i].mapped)
            return QN_FAIL(err, unsupported,
                           "a loading policy was asked for, expected a file: memory is loaded already");
        state.total += data_bytes(&file->parts[i]);
    }
    for (int i = 0; i < file->n_parts; i++) {
        const qn_gguf_part *part = &file->parts[i];
        const uint64_t bytes = data_bytes(part);
        if (bytes == 0) continue;
        state.part = bytes;
        if (policy == QN_GGUF_ahead) {
            qn__map_read_ahead(&part->map, part->data_start, bytes);
            continue;
        }
        QN_TRY(qn__map_populate(&part->map, part->data_start, bytes, progress ? part_progress : NULL, &state, err));
        if (policy == QN_GGUF_lock) QN_TRY(qn__map_lock(&part->map, part->data_start, bytes, err));
        state.before += bytes;
    }
    return QN_OK;
}

int64_t qn_gguf_resident_bytes(const qn_gguf *file)
{
    int64_t bytes = 0;
    for (int i = 0; i < file->n_parts; i++) {
        const qn_gguf_part *part = &file->parts[i];
        size_t resident = part->size;
        if (part->mapped && !qn__map_resident(&part->map, 0, part->map.size, &resident)) return -1;
        bytes += (int64_t)resident;
    }
    return bytes;
}

const qn_map *qn__gguf_map(const qn_gguf *file, int part)
{
    return file->parts[part].mapped ? &file->parts[part].map : NULL;
}
