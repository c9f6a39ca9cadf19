/* SPDX-License-Identifier: MIT */
/* src/cli/sampling.h -- the options of all commands that generate text, and the sampler that they ask for. */
#ifndef QN_CLI_SAMPLING_H
#define QN_CLI_SAMPLING_H

#include "cli/cli.h"
#include <quern/text.h>

typedef int32_t cli_kind_int;
typedef uint64_t cli_kind_u64;
typedef float cli_kind_float;
typedef bool cli_kind_flag;
typedef const char *cli_kind_string;
typedef cli_strings cli_kind_strings;

typedef struct cli_sampling {
#define CLI_SAMPLING(kind, field, ...) cli_kind_##kind field;
#include "cli/sampling.def"
#undef CLI_SAMPLING
} cli_sampling;

enum {
#define CLI_SAMPLING(...) +1
    CLI_N_SAMPLING = 0
#include "cli/sampling.def"
#undef CLI_SAMPLING
};

/* All at their defaults. */
void cli_sampling_init(cli_sampling *s);
/* CLI_N_SAMPLING rows for a command's option table, which point into s. */
void cli_sampling_options(cli_sampling *s, cli_option *rows);
/* What can be said before a model is opened. CLI_OK, or the status of a message. */
int cli_check_sampling(const cli_sampling *s);
/* The parameters for a context of n_ctx tokens, and what they point to. CLI_OK, or the status of a message. */
typedef struct cli_sampler_params {
    qn_sampler_params params;
    char order[QN_SAMPLER_COUNT + 1];
    char *breakers[CLI_MAX_STRINGS + 1];
} cli_sampler_params;
int cli_sampling_params(const cli_sampling *s, const qn_tokenizer *tok, int32_t n_ctx, cli_sampler_params *out);
void cli_sampler_params_deinit(cli_sampler_params *p);
/* The sampler for them. */
int cli_create_sampler(const cli_sampling *s, const qn_tokenizer *tok, int32_t n_ctx, qn_sampler **out);

#endif
