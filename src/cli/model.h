/* SPDX-License-Identifier: MIT */
/* src/cli/model.h -- options of all commands that compute with a model, and opening it with a progress bar. */
#ifndef QN_CLI_MODEL_H
#define QN_CLI_MODEL_H

#include "cli/cli.h"
#include "cli/source.h"
#include <quern/engine.h>

typedef struct cli_model_options {
    int32_t threads;
    const char *cpu, *kv_type, *backends, *load, *memory_limit, *memory, *gpu_layers, *devices, *device_memory;
    qn_session_options session;      /* what a command knows of it when it opens the engine: for --gpu-layers auto */
    cli_strings place;               /* PATTERN=BACKEND */
    cli_strings lora;                /* FILE[:SCALE] */
    cli_strings no_pass;             /* names of graph passes */
    qn_lora_use loras[QN_MAX_LORAS]; /* [n_loras] what cli_open_engine opened: the model's own first, then `lora` */
    int n_loras;
    bool strict, mlock, populate;
} cli_model_options;

/* Rows to put into a command's option table. */
#define CLI_MODEL_OPTIONS(m) \
    CLI_STORE_OPTIONS, {"threads", 't', \
                        CLI_INT,   &(m).threads, \
                        "N",       "threads that compute (default: physical cores within the quota)", \
                        1,         256, \
                        NULL}, \
        {"cpu", 0, CLI_STRING, &(m).cpu, "LEVEL", "at most this level of instructions, as `quern doctor` names them", \
         0,     0, NULL}, \
        {"kv-type", 0, CLI_STRING, &(m).kv_type, "KV_TYPE", "type of the KV cache (default: F16)", 0, 0, NULL}, \
        CLI_PLACE_OPTIONS(m), \
        {"place",    0,           CLI_STRINGS, \
         &(m).place, "PATTERN=I", "weights and layers (blk.N) whose name matches go to backend number I", \
         0,          0,           NULL}, \
        {"lora", \
         0, \
         CLI_STRINGS, \
         &(m).lora, \
         "LORA.gguf[:SCALE]", \
         "add a low-rank adapter, SCALE times (default: 1; may be repeated)", \
         0, \
         0, \
         NULL}, \
        {"no-pass", 0, CLI_STRINGS, &(m).no_pass, "PASS", "switch a graph pass off (may be repeated); results stay", \
         0,         0, NULL}, \
        {"strict", 0, CLI_FLAG, &(m).strict, NULL, "fail when a node cannot run where it was placed", 0, 0, NULL}, \
        CLI_MEMORY_OPTIONS(m)

/* Where a model is computed. */
/* clang-format off */
#define CLI_PLACE_OPTIONS(m) \
    {"backends", 0, CLI_STRING, &(m).backends, "LIST", "backends to use, such as cpu:avx512,cpu:ref", 0, 0, NULL}, \
    {"gpu-layers", 0, CLI_STRING, &(m).gpu_layers, "LAYERS", \
        "the last N layers and the output go to a device; all; auto: as many as fit there (also -ngl)", 0, 0, NULL}, \
    {"device", 0, CLI_STRING, &(m).devices, "DEVICES", \
        "devices to use, such as cuda:0,opencl:1; `quern doctor` lists them", 0, 0, NULL}, \
    {"device-memory", 0, CLI_STRING, &(m).device_memory, "SIZE", \
        "take no more of each device than that, such as 6G (default: what is free there)", 0, 0, NULL}
/* clang-format on */

/* How weights come into memory, and how much of it may be taken. */
/* clang-format off */
#define CLI_MEMORY_OPTIONS(m) \
    {"load", 0, CLI_STRING, &(m).load, "POLICY", "how weights are read (default: lazy)", 0, 0, NULL}, \
    {"populate", 0, CLI_FLAG, &(m).populate, NULL, "read the weights now: the same as --load populate", 0, 0, NULL}, \
    {"mlock", 0, CLI_FLAG, &(m).mlock, NULL, "keep the weights in memory: the same as --load lock", 0, 0, NULL}, \
    {"memory", 0, CLI_STRING, &(m).memory, "MEMORY", \
        "what the process may use in all: weights that don't fit are read ahead of their use (auto: what there is)", \
        0, 0, NULL}, \
    {"memory-limit", 0, CLI_STRING, &(m).memory_limit, "SIZE", \
        "refuse what takes more, such as 6G; none: never refuse (default: what is free)", 0, 0, NULL}
/* clang-format on */

/* All return CLI_OK or print a message. The engine's model is a path or a name (cli/source.h). The session's other
 * options come from the caller; kv_type is filled in. */
int cli_open_engine(const char *model, cli_model_options *m, qn_engine **out);
/* What the options say of an engine; strings and rules stay in scratch. */
typedef struct cli_engine_scratch {
    char backends[64], patterns[CLI_MAX_STRINGS][128];
    qn_place_rule rules[CLI_MAX_STRINGS];
    qn_session_options session;
} cli_engine_scratch;
int cli_engine_options(const cli_model_options *m, cli_engine_scratch *scratch, qn_engine_options *out);
/* Fills in what the options say of a session. */
int cli_session_options(const cli_model_options *m, qn_session_options *options);
int cli_create_session(qn_engine *engine, const cli_model_options *m, qn_session_options options, qn_session **out);

/* --memory: bytes, QN_MEMORY_AUTO, or 0 where it is not given. */
int cli_parse_memory(const char *text, uint64_t *out);
/* "FILE[:SCALE]" into a path, which is cut out of the text into a buffer of `size`, and a scale, 1 unless there is one.
 */
int cli_parse_lora(const char *text, char *path, size_t size, float *scale);

/* --stats: counters since the process began, as JSON. Times are the command's own. */
typedef struct cli_times {
    uint64_t prompt_tokens, decode_tokens, allocs_after_warmup, masks;
    double prompt_seconds, decode_seconds, mask_seconds; /* masks are part of decoding */
} cli_times;
int cli_write_stats(const char *path, const qn_session *session, const cli_times *times);

#endif
