/* SPDX-License-Identifier: MIT */
/* src/cli/recording.h -- --trace and its options, of the commands that compute. */
#ifndef QN_CLI_RECORDING_H
#define QN_CLI_RECORDING_H

#include "cli/cli.h"

typedef struct cli_recording {
    const char *file, *ops, *layers, *tokens, *phase, *limit, *last, *if_slow, *metrics;
    bool no_tokens, no_experts, no_faults, on;
} cli_recording;

/* clang-format off */
#define CLI_RECORDING_OPTIONS(r) \
    CLI_OPTION_GROUP("Recording where time goes (quern trace)"), \
    {"trace", 0, CLI_OUTPUT, &(r).file, "FILE", "record every node of every step; see quern trace stats FILE", 0, 0, \
     NULL}, \
    {"trace-ops", 0, CLI_STRING, &(r).ops, "PATTERN", "only these operations, such as linear*,attention", 0, 0, NULL}, \
    {"trace-layers", 0, CLI_STRING, &(r).layers, "RANGES", \
     "only these layers, such as 0,3-5,-1 (-1: outside of layers)", 0, 0, NULL}, \
    {"trace-tokens", 0, CLI_STRING, &(r).tokens, "RANGES", "only steps with these positions, such as 0-9,100-", 0, 0, \
     NULL}, \
    {"trace-phase", 0, CLI_STRING, &(r).phase, "PHASE", "only steps of a prompt, or of decoding", 0, 0, NULL}, \
    {"trace-no-tokens", 0, CLI_FLAG, &(r).no_tokens, NULL, "leave the ids of tokens out", 0, 0, NULL}, \
    {"trace-no-experts", 0, CLI_FLAG, &(r).no_experts, NULL, "leave out which experts were chosen, and their gates", \
     0, 0, NULL}, \
    {"trace-no-faults", 0, CLI_FLAG, &(r).no_faults, NULL, "do not sample page faults and lost cores", 0, 0, NULL}, \
    {"trace-limit", 0, CLI_STRING, &(r).limit, "SIZE", "end the recording when the file has this size", 0, 0, NULL}, \
    {"trace-last", 0, CLI_STRING, &(r).last, "SIZE", \
     "keep the last records in memory; write them at SIGUSR1, an error, or a slow step", 0, 0, NULL}, \
    {"trace-if-slow", 0, CLI_STRING, &(r).if_slow, "X", \
     "with --trace-last: write when a step takes X times the median, such as 3x", 0, 0, NULL}, \
    {"metrics", 0, CLI_OUTPUT, &(r).metrics, "FILE", \
     "write counters, times by operation and histograms at the end, as JSON; as Prometheus reads it to NAME.prom", 0, \
     0, NULL}
/* clang-format on */

/* Starts when --trace was given. CLI_OK, or a message: a model that cannot be opened leaves a file that is there as it
 * was. models: what will be computed with, as it was typed or found. argv: of the command, for who reads the file. */
int cli_recording_start(cli_recording *r, const char *const *models, int n_models, int argc, char **argv);
/* Stops what start has started, writes --metrics, and says on standard error what was lost; `status` is the command's,
 * and what is returned is that, or what went wrong with --metrics where nothing else did. */
int cli_recording_stop(cli_recording *r, int status);
extern bool cli_recorded; /* a file was written */

#endif
