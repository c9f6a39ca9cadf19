/* SPDX-License-Identifier: MIT */
/* src/cli/synth.c -- quern synth: a random-weight model in a real model's shape. */
#include "cli/cli.h"
#include <quern/engine.h>

static const cli_usage usage = {
    .command = "synth",
    .arguments = "OUT.gguf",
    .summary = "Writes a model with random weights in a real model's shape, for tests and benchmarks.",
    .notes = "Options after a preset change it. Some types are mixes, such as Q4_K_M.",
    .examples =
        "At a real model's speed, without its sense:\n"
        "quern synth model.gguf --preset tinyllama-1.1b --type Q4_K_M\n"
        "A tiny one of another architecture:\n"
        "quern synth tiny.gguf --arch qwen3 --layers 2 --embd 64 --heads 4 --ff 128 --vocab-size 512 --ctx 256\n",
    .min_args = 1,
    .max_args = 1,
};

int cli_command_synth(int argc, char **argv)
{
    cli_strings set = {0};
    const char *set_list[CLI_MAX_STRINGS + 1] = {0};
    qn_synth_options o = {.set = set_list};
    const char *out = NULL;
    const cli_option options[] = {
        {"preset", 0, CLI_STRING, &o.preset, "PRESET", "a published model's shape", 0, 0, NULL},
        {"arch", 0, CLI_STRING, &o.arch, "ARCH", "architecture (default: the preset's, or llama)", 0, 0, NULL},
        {"layers", 0, CLI_INT, &o.n_layer, "N", "layers", 1, 4096, NULL},
        {"embd", 0, CLI_INT, &o.n_embd, "N", "embedding length", 1, 1 << 20, NULL},
        {"heads", 0, CLI_INT, &o.n_head, "N", "attention heads", 1, 65536, NULL},
        {"kv-heads", 0, CLI_INT, &o.n_kv_head, "N", "key/value heads (default: as many as heads)", 1, 65536, NULL},
        {"head-dim", 0, CLI_INT, &o.n_embd_head, "N", "size of a head (default: embedding / heads)", 2, 65536, NULL},
        {"ff", 0, CLI_INT, &o.n_ff, "N", "feed-forward length", 1, 1 << 22, NULL},
        {"vocab-size", 0, CLI_INT, &o.n_vocab, "N", "tokens of a made-up vocabulary", 260, 1 << 24, NULL},
        {"ctx", 0, CLI_INT, &o.n_ctx, "N", "context length", 1, 1 << 28, NULL},
        {"rope-base", 0, CLI_FLOAT, &o.rope_base, "X", "RoPE frequency base", 1, 1e12, NULL},
        {"tied", 0, CLI_FLAG, &o.tied, NULL, "no output matrix of its own", 0, 0, NULL},
        {"optional", 0, CLI_FLAG, &o.optional, NULL, "also tensors that a file may leave out: biases, RoPE factors", 0,
         0, NULL},
        {"spread", 0, CLI_FLOAT, &o.spread, "X", "standard deviation of the matrices (default: 0.02)", 0, 1, NULL},
        {"set", 0, CLI_STRINGS, &set, "KEY=VALUE", "a hyperparameter, as rope.scaling.factor=4 (may be repeated)", 0, 0,
         NULL},
        {"type", 0, CLI_STRING, &o.type, "ANY_TYPE", "type of the weights (default: F16)", 0, 0, NULL},
        {"vocab", 0, CLI_STRING, &o.vocab, "FROM.gguf", "copy the tokenizer of another file", 0, 0, NULL},
        {"seed", 's', CLI_U64, &o.seed, "S", "seed (default: 0)", 0, 0, NULL},
    };
    int n_args = 0;
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &out, &n_args);
    if (status >= 0) return status;
    if (!o.preset && !o.n_layer && !o.n_embd && !o.n_head)
        return cli_bad_usage("no shape is given: take one by --preset, or say --layers, --embd, --heads, --ff and "
                             "--vocab-size");
    for (int i = 0; i < set.n; i++) set_list[i] = set.item[i];
    cli_progress progress;
    qn_error err;
    cli_progress_init(&progress, "writing");
    const qn_status written = qn_synth(out, &o, cli_progress_step, &progress, &err);
    cli_progress_end(&progress);
    if (written == QN_STATUS_cancelled) return CLI_INTERRUPTED;
    return written == QN_OK ? CLI_OK : cli_fail_error(&err);
}
