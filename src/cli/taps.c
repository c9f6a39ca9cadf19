/* SPDX-License-Identifier: MIT */
/* src/cli/taps.c -- --tap and --control-vector. The latter are taps too: l_out-N=add=FILE:SCALE. */
#include "cli/taps.h"
#include <quern/trace.h>
#include <stdio.h>
#include <string.h>

enum { TAP_TEXT = 4352 };

/* What the caller said is wrong, or a file: the first is a mistake of usage. */
static int refused(const qn_error *err)
{
    return err->status == QN_STATUS_invalid ? cli_bad_usage("%s", err->text) : cli_fail_error(err);
}

static bool writes_recording(const char *tap)
{
    const char *action = strchr(tap, '=');
    return action && (strcmp(action, "=trace") == 0 || strcmp(action, "=record") == 0);
}

static int set_tap(qn_session *session, const char *text)
{
    qn_error err;
    if (writes_recording(text) && !qn_trace_is_on())
        return cli_bad_usage("--tap \"%.64s\" needs a recording, --trace FILE of run and eval", text);
    return qn_session_tap(session, text, &err) == QN_OK ? CLI_OK : refused(&err);
}

static int parse_layers(const char *text, int n_layer, int *first, int *last)
{
    char end = 0;
    *first = 0;
    *last = n_layer - 1;
    if (!text) return CLI_OK;
    if (sscanf(text, "%d-%d%c", first, last, &end) == 2 && *first >= 0 && *last >= *first && *first < n_layer)
        return CLI_OK;
    return cli_bad_usage("--control-vector-layer-range: \"%.32s\" is not FIRST-LAST among layers 0 to %d", text,
                         n_layer - 1);
}

static int add_vector(qn_session *session, const cli_tap_options *t, const char *file, bool scaled)
{
    char text[TAP_TEXT];
    qn_engine_info info;
    int first, last;
    qn_engine_get_info(qn_session_engine(session), &info);
    int status = parse_layers(t->range, info.n_layer, &first, &last);
    if (last > info.n_layer - 1) last = info.n_layer - 1;
    for (int i = first; i <= last && status == CLI_OK; i++) {
        if ((size_t)snprintf(text, sizeof text, "l_out-%d=add=%s%s", i, file, scaled ? "" : ":1") >= sizeof text)
            return cli_bad_usage("--control-vector: the path is too long");
        status = set_tap(session, text);
    }
    return status;
}

static int record_values(qn_session *session, const char *pattern)
{
    char text[TAP_TEXT];
    if ((size_t)snprintf(text, sizeof text, "%s=record", pattern) >= sizeof text)
        return cli_bad_usage("--trace-values: the pattern is too long");
    return set_tap(session, text);
}

int cli_set_taps(qn_session *session, const cli_tap_options *t)
{
    int status = CLI_OK;
    if (t->range && !t->vector.n && !t->scaled.n)
        return cli_bad_usage("--control-vector-layer-range is for --control-vector, which is missing");
    if (t->hash && !qn_trace_is_on()) return cli_bad_usage("--trace-hash needs --trace FILE");
    if (t->values && !qn_trace_is_on()) return cli_bad_usage("--trace-values needs --trace FILE");
    for (int i = 0; i < t->vector.n && status == CLI_OK; i++) status = add_vector(session, t, t->vector.item[i], false);
    for (int i = 0; i < t->scaled.n && status == CLI_OK; i++) status = add_vector(session, t, t->scaled.item[i], true);
    for (int i = 0; i < t->tap.n && status == CLI_OK; i++) status = set_tap(session, t->tap.item[i]);
    if (t->values && status == CLI_OK) status = record_values(session, t->values);
    if (t->hash && status == CLI_OK) status = set_tap(session, "*=trace"); /* of what the others have made of values */
    return status;
}

int cli_end_taps(qn_session *session, const cli_tap_options *t)
{
    qn_error err;
    char *text = NULL;
    if (!session || !t->tap.n) return CLI_OK;
    if (qn_session_tap_report(session, &text, &err) != QN_OK) return cli_fail_error(&err);
    fputs(text, stderr);
    qn_free(text);
    return qn_session_taps_end(session, &err) == QN_OK ? CLI_OK : cli_fail_error(&err);
}
