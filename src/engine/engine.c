/* SPDX-License-Identifier: MIT */
/* src/engine/engine.c -- opening a model: file, tokenizer, architecture, backends, and every weight in its place.
 * Weights are used where the file is mapped; only a backend with memory of its own, or a file of the other byte order,
 * makes a copy. */
#include "engine/pager.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "format/native.h"
#include <stdio.h>
#include <string.h>

static qn_status open_backends(qn_engine *e, const qn_engine_options *options, qn_error *err)
{
    if (options->n_threads < 0 || options->n_threads > QN_MAX_THREADS)
        return QN_FAIL(err, invalid, "%d threads; 1 to %d are possible, 0 is the default", options->n_threads,
                       QN_MAX_THREADS);
    char text[256];
    const char *list = NULL;
    const qn_backend_options each = {.n_threads = options->n_threads, .memory_limit = options->device_memory};
    QN_TRY(qn__engine_list(options, text, sizeof(text), &list, err));
    return qn__backends_open(list, &each, QN_MAX_PLACES, e->backends, &e->n_backends, err);
}

/* ---- open, close, ask ---- */

static void fill_info(qn_engine *e)
{
    const qn_hparams *hp = &e->model->hp;
    qn_engine_info *info = &e->info;
    snprintf(info->arch, sizeof(info->arch), "%s", e->model->arch->name);
    const qn_gguf_kv *kv = qn_gguf_kv_find(e->file, "general.name");
    qn_gguf_str name = {"", 0};
    if (kv) (void)qn_gguf_get_str(e->file, kv, 0, &name, NULL);
    qn__str_quote(info->name, sizeof(info->name), name.data, name.len);
    info->n_vocab = (int32_t)hp->n_vocab;
    info->n_ctx_train = (int32_t)hp->n_ctx_train;
    info->n_embd = (int32_t)hp->n_embd;
    info->n_layer = (int32_t)hp->n_layer;
    info->n_head = (int32_t)hp->n_head;
    info->n_kv_head = (int32_t)hp->n_kv_head;
    info->n_embd_head = (int32_t)hp->n_embd_head_k;
    info->n_ff = (int32_t)hp->n_ff;
    info->n_params = e->model->n_params;
    info->weight_bytes = e->model->weight_bytes;
    info->n_backends = e->n_backends;
    info->encoder = !e->model->top.out;
    info->both_ways = e->model->sees_ahead;
    info->pooling = hp->pooling != QN_POOLING_UNSET_IN_FILE ? (qn_pooling)(hp->pooling + 1)
                    : info->encoder                         ? QN_POOLING_mean
                                                            : QN_POOLING_last;
    info->n_embd_out = (int32_t)(hp->n_embd_out ? hp->n_embd_out : hp->n_embd);
    info->n_label = (int32_t)qn__n_label(e->model);
    for (int i = 0; i < e->n_backends && !*info->cpu_level; i++) { /* of the first that is the processor */
        const char *level = strchr(e->backends[i]->name, ':');
        if (!e->backends[i]->type->devices && level)
            snprintf(info->cpu_level, sizeof(info->cpu_level), "%.15s", level + 1);
    }
}

static bool has_devices(const qn_engine *e)
{
    for (int i = 0; i < e->n_backends; i++)
        if (e->backends[i]->type->memory) return true;
    return false;
}

void qn__devices_take(qn_engine *e, qn_turn_taker *taker)
{
    if (has_devices(e)) qn__turns_take(&e->turns, taker);
}

void qn__devices_give(qn_engine *e, qn_turn_taker *taker)
{
    if (has_devices(e)) qn__pager_give_turn(e, taker);
}

static qn_status bind_model(qn_engine *e, const qn_engine_options *options, int64_t *load_start, qn_error *err)
{
    if (!qn_gguf_kv_find(e->file, "general.architecture"))
        return QN_FAIL(err, format, "general.architecture is missing: this GGUF file holds no model");
    QN_TRY(qn_tokenizer_create(e->file, &e->tok, err));
    QN_TRY(qn__model_load(e->file, qn_tokenizer_n_tokens(e->tok), &e->model, err));
    QN_TRY(qn__engine_plan(e, options, err));
    *load_start = qn__now_ns();
    return qn__engine_load(e, options, err);
}

/* What loading read or copied, and how fast. */
static void fill_load(qn_engine *e, const qn_engine_options *options, int64_t start, int64_t copy_start)
{
    qn_engine_info *info = &e->info;
    const int64_t end = qn__now_ns();
    info->load_seconds = (double)(end - start) * 1e-9;
    info->load_bytes = info->copied_bytes + (qn__reads_now(options->policy) ? qn_gguf_file_bytes(e->file) : 0);
    QN_COUNT(loads, 1);
    QN_COUNT(load_bytes, info->load_bytes);
    if (info->load_bytes) QN_COUNT(load_ns, end - copy_start);
    info->load_gb_s = info->load_bytes ? (double)info->load_bytes / (double)(end - copy_start + 1) : 0;
}

/* The file's own functions name it in their errors; what is found wrong in its content is given the name here. */
static qn_status open_engine(qn_engine *e, const char *path, const qn_engine_options *options, qn_error *err)
{
    const int64_t start = qn__now_ns();
    QN_TRY(qn__check_passes_off(options->passes_off, err));
    e->strict = options->strict;
    e->passes_off = options->passes_off; /* what is planned for layers on devices is what will run */
    QN_TRY(qn_gguf_open(path, NULL, &e->file, err));
    QN_TRY(open_backends(e, options, err));
    int64_t copy_start = 0;
    const qn_status status = bind_model(e, options, &copy_start, err);
    if (status != QN_OK) return qn__prefix(err, status, "%s", path);
    QN_TRY(qn_gguf_load(e->file, options->policy, options->progress, options->progress_ctx, err));
    e->locked = options->policy == QN_GGUF_lock;
    e->memory_limit = options->memory_limit;
    e->memory = qn__memory_of(options->memory);
    e->reserve = options->memory == QN_MEMORY_AUTO ? QN_PAGING_LATER : QN_PAGING_RESERVE;
    e->info.n_threads = options->n_threads ? options->n_threads : qn__default_threads();
    fill_info(e);
    fill_load(e, options, start, copy_start);
    if (e->memory) QN_TRY(qn__pager_create(e, &e->pager, err));
    qn__pager_enter(e);
    qn__log(QN_LOG_info, "loaded %s: %s, %d layers, %llu bytes of weights in %.3f s; read %llu bytes at %.2f GB/s",
            path, e->info.arch, e->info.n_layer, (unsigned long long)e->info.weight_bytes, e->info.load_seconds,
            (unsigned long long)e->info.load_bytes, e->info.load_gb_s);
    return QN_OK;
}

qn_status qn_engine_open(const char *path, const qn_engine_options *options, qn_engine **out, qn_error *err)
{
    static const qn_engine_options defaults;
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_engine *e = qn__arena_alloc(&arena, sizeof(*e));
    if (!e) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof(*e));
    }
    e->arena = arena;
    qn__mutex_init(&e->lock);
    qn__turns_init(&e->turns);
    const int64_t start = qn__now_ns();
    const uint64_t began = qn__trace_begin();
    const uint64_t fp = qn__fp_begin();
    const qn_status status = open_engine(e, path, options ? options : &defaults, err);
    qn__fp_end(fp);
    qn__trace_end(QN_TRACE_load, began);
    QN_OBSERVE(load, qn__now_ns() - start);
    if (status != QN_OK) {
        qn_engine_close(e);
        return status;
    }
    *out = e;
    return QN_OK;
}

qn_status qn_engine_check(const qn_gguf *file, qn_error *err)
{
    qn_model *model = NULL;
    QN_TRY(qn__model_load(file, 0, &model, err));
    qn__model_free(model);
    return qn_tokenizer_check(file, err);
}

void qn_engine_close(qn_engine *e)
{
    if (!e) return;
    while (e->loras) qn_lora_close(e->loras);
    qn__pager_leave(e);
    qn__pager_destroy(e->pager);
    for (int i = 0; e->buffers && i < e->model->n_weights; i++)
        if (e->buffers[i]) e->buffers[i]->backend->type->buffer_destroy(e->buffers[i]);
    for (int i = 0; i < e->n_backends; i++) e->backends[i]->type->close(e->backends[i]);
    qn__model_free(e->model);
    qn_tokenizer_destroy(e->tok);
    qn_gguf_close(e->file);
    qn__turns_deinit(&e->turns);
    qn__mutex_deinit(&e->lock);
    qn_arena arena = e->arena; /* the engine lies inside it */
    qn__arena_deinit(&arena);
}

const qn_tokenizer *qn_engine_tokenizer(const qn_engine *engine) { return engine->tok; }

const qn_gguf *qn_engine_file(const qn_engine *engine) { return engine->file; }

void qn_engine_get_info(const qn_engine *engine, qn_engine_info *out) { *out = engine->info; }

const char *qn_engine_backend_name(const qn_engine *engine, int backend)
{
    return backend >= 0 && backend < engine->n_backends ? engine->backends[backend]->name : NULL;
}

uint64_t qn_engine_least_memory(const qn_engine *engine) { return qn__least_memory(engine); }

void qn_engine_get_memory(const qn_engine *engine, qn_engine_memory *out)
{
    *out = (qn_engine_memory){0};
    if (engine->pager) qn__pager_get(engine->pager, out);
}
