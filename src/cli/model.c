/* SPDX-License-Identifier: MIT */
/* src/cli/model.c -- opening a model as the options say. */
#include "cli/model.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* "PATTERN=I" into a rule; the text is cut at the '=' in a copy that lives as long as the process's arguments. */
static int parse_rule(const char *text, char *pattern, size_t size, qn_place_rule *rule)
{
    const char *equals = strrchr(text, '=');
    int64_t backend = 0;
    if (!equals || equals == text || (size_t)(equals - text) >= size || !cli_parse_int(equals + 1, 0, 7, &backend))
        return cli_bad_usage("--place: \"%.64s\" is not PATTERN=I with I from 0 to 7, such as blk.1?.*=1", text);
    memcpy(pattern, text, (size_t)(equals - text));
    pattern[equals - text] = '\0';
    *rule = (qn_place_rule){pattern, (int)backend};
    return CLI_OK;
}

int cli_parse_lora(const char *text, char *path, size_t size, float *scale)
{
    const char *colon = strrchr(text, ':');
    double value = 1;
    size_t len = strlen(text);
    /* else the colon is part of the name */
    if (colon && cli_parse_float(colon + 1, -1e6, 1e6, &value)) len = (size_t)(colon - text);
    if (len == 0 || len >= size) return cli_bad_usage("--lora: \"%.64s\" is not FILE or FILE:SCALE", text);
    memcpy(path, text, len);
    path[len] = '\0';
    *scale = (float)value;
    return CLI_OK;
}

/* The option's table has checked the names. */
static uint32_t passes_off(const cli_strings *names)
{
    uint32_t off = 0;
    qn_pass pass;
    for (int i = 0; i < names->n; i++)
        if (qn_pass_find(names->item[i], &pass)) off |= 1u << pass;
    return off;
}

/* The option's table has checked the name. */
static int parse_policy(const cli_model_options *m, qn_gguf_policy *out)
{
#define SAME(name, text) \
    if (m->load && strcmp(m->load, #name) == 0) *out = QN_GGUF_##name;
    QN_GGUF_POLICY_ROWS(SAME)
#undef SAME
    const struct {
        bool on;
        const char *name;
        qn_gguf_policy policy;
    } aliases[] = {{m->populate, "populate", QN_GGUF_populate}, {m->mlock, "mlock", QN_GGUF_lock}};
    bool given = m->load != NULL;
    const char *before = m->load;
    for (int i = 0; i < CLI_N(aliases); i++) {
        if (!aliases[i].on) continue;
        if (given && *out != aliases[i].policy)
            return cli_bad_usage("--%s and --%s%s exclude each other", aliases[i].name, m->load ? "load " : "", before);
        *out = aliases[i].policy;
        given = true;
        before = m->load ? m->load : aliases[i].name;
    }
    return CLI_OK;
}

int cli_parse_memory(const char *text, uint64_t *out)
{
    *out = 0;
    if (!text) return CLI_OK;
    if (strcmp(text, "auto") == 0) *out = QN_MEMORY_AUTO;
    if (*out || (cli_parse_size(text, out) && *out > 0)) return CLI_OK;
    return cli_bad_usage("--memory: \"%.32s\" is no size; sizes are like 800M, 6.5G or auto", text);
}

static int parse_limit(const cli_model_options *m, uint64_t *out)
{
    *out = 0;
    if (!m->memory_limit) return CLI_OK;
    if (strcmp(m->memory_limit, "none") == 0) *out = UINT64_MAX;
    if (*out || cli_parse_size(m->memory_limit, out)) return CLI_OK;
    return cli_bad_usage("--memory-limit: \"%.32s\" is no size; sizes are like 800M, 6.5G or none", m->memory_limit);
}

static int parse_device_memory(const cli_model_options *m, uint64_t *out)
{
    *out = 0;
    if (m->device_memory && !m->devices && !m->gpu_layers && !m->backends)
        return cli_bad_usage("--device-memory needs a device: --device, --gpu-layers or --backends");
    if (!m->device_memory || (cli_parse_size(m->device_memory, out) && *out)) return CLI_OK;
    return cli_bad_usage("--device-memory: \"%.32s\" is no size; sizes are like 800M or 6.5G", m->device_memory);
}

static int parse_layers(const cli_model_options *m, int *out)
{
    int64_t n = 0;
    if (m->gpu_layers && strcmp(m->gpu_layers, "all") == 0)
        n = QN_GPU_LAYERS_ALL;
    else if (m->gpu_layers && strcmp(m->gpu_layers, "auto") == 0)
        n = QN_GPU_LAYERS_AUTO;
    else if (m->gpu_layers && !cli_parse_int(m->gpu_layers, 0, 1 << 20, &n))
        return cli_bad_usage("--gpu-layers: \"%.32s\" is neither a number of layers nor all or auto", m->gpu_layers);
    *out = m->gpu_layers ? (int)n : QN_GPU_LAYERS_ALL; /* a device alone asks for all */
    return CLI_OK;
}

static int open_lora(qn_engine *engine, cli_model_options *m, const char *path, float scale)
{
    qn_error err;
    if (m->n_loras == QN_MAX_LORAS) return cli_fail("more than %d adapters", QN_MAX_LORAS);
    m->loras[m->n_loras].scale = scale;
    if (qn_lora_open(engine, path, &m->loras[m->n_loras].lora, &err) != QN_OK) return cli_fail_error(&err);
    m->n_loras++;
    return CLI_OK;
}

static int open_loras(qn_engine *engine, const qn_store_model *found, cli_model_options *m)
{
    char path[4096];
    int status = CLI_OK;
    m->n_loras = 0;
    for (int i = 0; found && i < found->n_adapters && status == CLI_OK; i++)
        status = open_lora(engine, m, found->adapters[i], 1);
    for (int i = 0; i < m->lora.n && status == CLI_OK; i++) {
        float scale = 1;
        status = cli_parse_lora(m->lora.item[i], path, sizeof(path), &scale);
        if (status == CLI_OK) status = open_lora(engine, m, path, scale);
    }
    return status;
}

int cli_engine_options(const cli_model_options *m, cli_engine_scratch *scratch, qn_engine_options *out)
{
    qn_cpu_level level;
    if (m->cpu && !qn_cpu_level_find(m->cpu, &level))
        return cli_bad_usage("--cpu: \"%.32s\" is no level; there are %s", m->cpu, QN_CPU_LEVEL_NAMES);
    if (m->cpu && m->backends)
        return cli_bad_usage(
            "--cpu and --backends exclude each other; name levels in the list, such as cpu:avx2,cpu:ref");
    if (m->cpu) snprintf(scratch->backends, sizeof(scratch->backends), "cpu:%s", qn_cpu_level_name(level));
    for (int i = 0; i < m->place.n; i++) {
        const int status =
            parse_rule(m->place.item[i], scratch->patterns[i], sizeof(scratch->patterns[i]), &scratch->rules[i]);
        if (status != CLI_OK) return status;
    }
    qn_gguf_policy policy = QN_GGUF_lazy;
    uint64_t memory_limit = 0, memory = 0;
    int wrong = parse_policy(m, &policy);
    uint64_t device_memory = 0;
    int gpu_layers = 0;
    if (wrong == CLI_OK) wrong = parse_limit(m, &memory_limit);
    if (wrong == CLI_OK) wrong = cli_parse_memory(m->memory, &memory);
    if (wrong == CLI_OK) wrong = parse_device_memory(m, &device_memory);
    if (wrong == CLI_OK) wrong = parse_layers(m, &gpu_layers);
    scratch->session = m->session;
    if (wrong == CLI_OK) wrong = cli_session_options(m, &scratch->session);
    if (wrong != CLI_OK) return wrong;
    *out = (qn_engine_options){
        .backends = m->cpu ? scratch->backends : m->backends,
        .n_threads = m->threads,
        .rules = scratch->rules,
        .n_rules = m->place.n,
        .strict = m->strict,
        .passes_off = passes_off(&m->no_pass),
        .policy = policy,
        .memory_limit = memory_limit,
        .memory = memory,
        .devices = m->devices,
        .gpu_layers = gpu_layers,
        .gpu_layers_set = m->gpu_layers || m->devices,
        .gpu_session = &scratch->session,
        .device_memory = device_memory,
    };
    return CLI_OK;
}

int cli_open_engine(const char *model, cli_model_options *m, qn_engine **out)
{
    cli_engine_scratch scratch;
    qn_engine_options options;
    qn_error err;
    const int wrong = cli_engine_options(m, &scratch, &options);
    if (wrong != CLI_OK) return wrong;
    const char *path = cli_model_path(model);
    if (!path) return CLI_FAILED;
    cli_progress progress;
    cli_progress_init(&progress, "loading");
    options.progress = cli_progress_step;
    options.progress_ctx = &progress;
    const qn_status status = qn_engine_open(path, &options, out, &err);
    cli_progress_end(&progress);
    if (status == QN_STATUS_cancelled && cli_interrupted()) return CLI_INTERRUPTED;
    return status == QN_OK ? open_loras(*out, cli_model_found(path), m) : cli_fail_error(&err);
}

int cli_session_options(const cli_model_options *m, qn_session_options *options)
{
    if (m->kv_type) {
        options->kv_type_set = qn_dtype_find(m->kv_type, &options->kv_type);
        if (!options->kv_type_set)
            return cli_bad_usage("--kv-type: \"%.32s\" is no type; there are %s", m->kv_type, QN_KV_TYPE_NAMES);
    }
    options->loras = m->loras;
    options->n_loras = m->n_loras;
    return CLI_OK;
}

int cli_create_session(qn_engine *engine, const cli_model_options *m, qn_session_options options, qn_session **out)
{
    qn_error err;
    const int status = cli_session_options(m, &options);
    if (status != CLI_OK) return status;
    return qn_session_create(engine, &options, out, &err) == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static json_t *metrics_json(void)
{
    qn_metrics m;
    json_t *root = json_object();
    qn_metrics_snapshot(&m);
#define ROW(name, unit, text) json_object_set_new(root, #name, json_integer((json_int_t)m.name));
    QN_METRIC_ROWS(ROW)
#undef ROW
    return root;
}

/* What each operation cost, the dearest first. */
static int by_time(const void *a, const void *b)
{
    const qn_op_metrics *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

static json_t *ops_json(void)
{
    qn_op_metrics rows[512];
    int n = qn_op_metrics_snapshot(rows, CLI_N(rows));
    if (n > CLI_N(rows)) n = CLI_N(rows);
    json_t *list = json_array();
    qsort(rows, (size_t)n, sizeof(rows[0]), by_time);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:f}", "op", rows[i].op, "count", (json_int_t)rows[i].count,
                                              "seconds", (double)rows[i].ns * 1e-9));
    return list;
}

static json_t *memory_json(const qn_session *session)
{
    qn_engine_memory m;
    qn_engine_get_memory(qn_session_engine(session), &m);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "budget_bytes",
                     (json_int_t)m.budget_bytes, "kept_bytes", (json_int_t)m.kept_bytes, "streamed_bytes",
                     (json_int_t)m.streamed_bytes, "window_bytes", (json_int_t)m.window_bytes, "expert_bytes",
                     (json_int_t)m.expert_bytes, "read_bytes", (json_int_t)m.read_bytes, "dropped_bytes",
                     (json_int_t)m.dropped_bytes, "waits", (json_int_t)m.waits, "wait_seconds", m.wait_seconds,
                     "expert_hits", (json_int_t)m.expert_hits, "expert_misses", (json_int_t)m.expert_misses);
}

static json_t *load_json(const qn_session *session, const qn_engine_info *info)
{
    const qn_gguf *file = qn_engine_file(qn_session_engine(session));
    const int64_t resident = qn_gguf_resident_bytes(file);
    return json_pack("{s:f, s:I, s:f, s:I, s:I, s:o}", "seconds", info->load_seconds, "bytes",
                     (json_int_t)info->load_bytes, "gb_per_second", info->load_gb_s, "weight_bytes",
                     (json_int_t)info->weight_bytes, "copied_bytes", (json_int_t)info->copied_bytes, "resident_bytes",
                     resident < 0 ? json_null() : json_integer((json_int_t)resident));
}

int cli_write_stats(const char *path, const qn_session *session, const cli_times *times)
{
    qn_session_stats stats;
    qn_engine_info info;
    qn_session_get_stats(session, &stats);
    qn_engine_get_info(qn_session_engine(session), &info);
    json_t *root = json_pack("{s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:f, s:i, s:s, s:i, s:i, s:o, s:o, s:o, s:o}",
                             "allocs_after_warmup", (json_int_t)times->allocs_after_warmup, "reserved_bytes",
                             (json_int_t)stats.reserved_bytes, "kv_bytes", (json_int_t)stats.kv_bytes, "prompt_tokens",
                             (json_int_t)times->prompt_tokens, "prompt_seconds", times->prompt_seconds, "decode_tokens",
                             (json_int_t)times->decode_tokens, "decode_seconds", times->decode_seconds, "masks",
                             (json_int_t)times->masks, "mask_seconds", times->mask_seconds, "threads", info.n_threads,
                             "cpu_level", info.cpu_level, "n_splits", stats.n_splits, "n_transfers", stats.n_transfers,
                             "load", load_json(session, &info), "memory", memory_json(session), "metrics",
                             metrics_json(), "ops", ops_json());
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) return cli_no_memory("out of memory while writing statistics");
    const size_t len = strlen(text);
    text[len] = '\n'; /* in the place of the terminator: the length is passed on */
    const int status = cli_write_text(path, text, len + 1);
    free(text);
    return status;
}
