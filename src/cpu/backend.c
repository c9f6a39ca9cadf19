/* SPDX-License-Identifier: MIT */
/* src/cpu/backend.c -- the CPU as a backend: its table, opening, and buffers in host memory. Two of them may be open
 * at once at different levels; they share nothing, and neither reads the other's buffers. */
#include "cpu/program.h"
#include "backend/values.h"

#include <stdio.h>
#include <string.h>

static void cpu_close(qn_backend *be)
{
    qn_cpu *cpu = (qn_cpu *)be;
    if (!cpu) return;
    qn__pool_leave(cpu->pool);
    qn__free(cpu->tiles);
    qn__free(cpu);
}

static qn_status cpu_open(const qn_backend_options *options, qn_backend **out, qn_error *err)
{
    static const qn_backend_options none;
    if (!options) options = &none;
    if (options->n_threads < 0 || options->n_threads > QN_MAX_THREADS)
        return QN_FAIL(err, invalid, "cpu: %d threads, 1 to %d expected, or 0 for the default", options->n_threads,
                       QN_MAX_THREADS);
    qn_cpu_level level = options->level_set ? options->level : QN_CPU_LEVEL_COUNT - 1;
    char quoted[128];
    if ((unsigned)level >= QN_CPU_LEVEL_COUNT)
        return QN_FAIL(err, invalid, "cpu: level %d, 0 to %d expected", (int)level, QN_CPU_LEVEL_COUNT - 1);
    if (options->which && !qn_cpu_level_find(options->which, &level))
        return QN_FAIL(err, invalid, "cpu level \"%s\" is not known; there are %s",
                       qn__str_quote(quoted, sizeof(quoted), options->which, strlen(options->which)),
                       QN_CPU_LEVEL_NAMES);
    qn_cpu *cpu = qn__calloc(1, sizeof(*cpu));
    if (!cpu) return QN_FAIL_NOMEM(err, sizeof(*cpu));

    cpu->base.type = &qn__backend_cpu;
    cpu->base.alignment = QN_ALIGN_CPU;
    cpu->kernels = qn__kernels_get(level);
    if (options->name)
        snprintf(cpu->base.name, sizeof(cpu->base.name), "%s", options->name);
    else
        snprintf(cpu->base.name, sizeof(cpu->base.name), "cpu:%s", qn_cpu_level_name(cpu->kernels->level));

    const qn_status status = qn__pool_join(options->n_threads, &cpu->pool, err);
    if (status != QN_OK) {
        cpu_close(&cpu->base);
        return status;
    }
    cpu->n_threads = qn__pool_size(cpu->pool);
    const size_t tiles_bytes = (size_t)cpu->n_threads * (QN_MM_TILE_BYTES + QN_TASK_SIDE_BYTES);
    cpu->tiles = qn__alloc(tiles_bytes);
    if (!cpu->tiles) {
        cpu_close(&cpu->base);
        return QN_FAIL_NOMEM(err, tiles_bytes);
    }
    *out = &cpu->base;
    return QN_OK;
}

static qn_status buffer_create(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    if (bytes > SIZE_MAX / 2) return QN_FAIL_NOMEM(err, bytes);
    qn_buffer *buffer = qn__calloc(1, sizeof(*buffer));
    if (!buffer) return QN_FAIL_NOMEM(err, sizeof(*buffer));
    buffer->host = qn__alloc_aligned((size_t)bytes, QN_ALIGN_CPU);
    if (!buffer->host) {
        qn__free(buffer);
        return QN_FAIL_NOMEM(err, bytes);
    }
    buffer->backend = be;
    buffer->bytes = bytes;
    *out = buffer;
    return QN_OK;
}

static qn_status buffer_wrap(qn_backend *be, const void *host, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    qn_buffer *buffer = qn__calloc(1, sizeof(*buffer));
    if (!buffer) return QN_FAIL_NOMEM(err, sizeof(*buffer));
    *buffer = (qn_buffer){.backend = be, .bytes = bytes, .host = (void *)(uintptr_t)host, .read_only = true};
    *out = buffer;
    return QN_OK;
}

static void buffer_destroy(qn_buffer *buffer)
{
    if (!buffer) return;
    if (!buffer->read_only && !buffer->borrowed) qn__free(buffer->host);
    qn__free(buffer);
}

static qn_status upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    if (buffer->read_only)
        return QN_FAIL(err, invalid, "%s: this buffer is a read-only mapping", buffer->backend->name);
    if (bytes > 0) memcpy((uint8_t *)buffer->host + offset, src, (size_t)bytes);
    return QN_OK;
}

static qn_status download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, qn_error *err)
{
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    if (bytes > 0) memcpy(dst, (const uint8_t *)buffer->host + offset, (size_t)bytes);
    return QN_OK;
}

static bool accepts(const qn_backend *be, const qn_node *node, qn_error *err)
{
    const qn_cpu_op *op = qn__cpu_op(node->op);
    if (op) return op->accepts(((const qn_cpu *)be)->kernels, node, err);
    QN_FAIL(err, unsupported, "%s computes nothing", qn_node_op_name(node));
    return false;
}

static uint64_t scratch(const qn_backend *be, const qn_node *node)
{
    const qn_cpu_op *op = qn__cpu_op(node->op);
    return op && op->scratch ? op->scratch(((const qn_cpu *)be)->kernels, node) : 0;
}

static bool shared(qn_backend *be) { return qn__pool_shared(((qn_cpu *)be)->pool); }

const qn_backend_type qn__backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .buffer_create = buffer_create,
    .buffer_wrap = buffer_wrap,
    .buffer_destroy = buffer_destroy,
    .upload = upload,
    .download = download,
    .accepts = accepts,
    .scratch = scratch,
    .is_shared = qn__cpu_is_shared,
    .pages = true,
    .compile = qn__cpu_compile,
    .rebind = qn__cpu_rebind,
    .resize = qn__cpu_resize,
    .program_destroy = qn__cpu_program_destroy,
    .run = qn__cpu_run,
    .shared = shared,
    .stops = true,
};
