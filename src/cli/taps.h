/* SPDX-License-Identifier: MIT */
/* src/cli/taps.h -- options of commands that look into a model's values, and change them. */
#ifndef QN_CLI_TAPS_H
#define QN_CLI_TAPS_H

#include "cli/cli.h"
#include <quern/tap.h>

typedef struct cli_tap_options {
    cli_strings tap;            /* PATTERN[@TOKENS]=ACTION */
    cli_strings vector, scaled; /* FILE; FILE:X */
    const char *range;          /* START-END of layers */
    bool hash;                  /* of all values into the recording */
    const char *values;         /* pattern: what these are like into the recording */
} cli_tap_options;

/* clang-format off */
#define CLI_TAP_OPTIONS(t) \
    {"tap", 0, CLI_STRINGS, &(t).tap, "TAP", \
        "PATTERN[@TOKENS]=ACTION: look at values, or change them (may be repeated; docs/TRACING.md)", 0, 0, NULL}, \
    {"trace-hash", 0, CLI_FLAG, &(t).hash, NULL, \
        "with --trace: a hash of every value too, so that quern trace diff finds the first that differs", 0, 0, NULL}, \
    {"trace-values", 0, CLI_STRING, &(t).values, "PATTERN", \
        "with --trace: what these values are like, such as 'l_out-*' or '*', for quern trace stats and report", 0, 0, \
        NULL}, \
    {"control-vector", 0, CLI_STRINGS, &(t).vector, "FILE", \
        "add a control vector's directions to what layers give (may be repeated)", 0, 0, NULL}, \
    {"control-vector-scaled", 0, CLI_STRINGS, &(t).scaled, "FILE[:SCALE]", "the same, SCALE times", 0, 0, NULL}, \
    {"control-vector-layer-range", 0, CLI_STRING, &(t).range, "FIRST-LAST", "only in these layers, such as 4-9", 0, \
        0, NULL}
/* clang-format on */

/* CLI_OK, or the message of what cannot be tapped: CLI_USAGE. */
int cli_set_taps(qn_session *session, const cli_tap_options *t);
/* Writes what is left, and prints what taps without a file have to say to standard error. */
int cli_end_taps(qn_session *session, const cli_tap_options *t);

#endif
