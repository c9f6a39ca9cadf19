/* SPDX-License-Identifier: MIT */
/* src/cli/recording.c -- see recording.h. A recording that fails never changes the status of what it records. */
#include "cli/recording.h"
#include "cli/source.h"
#include <quern/engine.h>
#include <quern/trace.h>
#include <signal.h>
#include <string.h>

bool cli_recorded;

static void on_usr1(int signal)
{
    (void)signal;
    qn_trace_dump();
}

static int parse(const cli_recording *r, qn_trace_options *o)
{
    const struct {
        const char *name, *text;
        uint64_t *to;
    } sizes[] = {{"--trace-limit", r->limit, &o->limit_bytes}, {"--trace-last", r->last, &o->last_bytes}};
    for (int i = 0; i < CLI_N(sizes); i++)
        if (sizes[i].text && !cli_parse_size(sizes[i].text, sizes[i].to))
            return cli_bad_usage("%s %s: a size such as 64M is expected", sizes[i].name, sizes[i].text);
    if (r->if_slow) {
        char text[32];
        double factor = 0;
        const size_t n = strlen(r->if_slow);
        snprintf(text, sizeof text, "%s", r->if_slow);
        if (n > 0 && n < sizeof text && text[n - 1] == 'x') text[n - 1] = '\0';
        if (n >= sizeof text || !cli_parse_float(text, 1, 1e6, &factor))
            return cli_bad_usage("--trace-if-slow %.32s: a factor such as 3x is expected", r->if_slow);
        if (!r->last) return cli_bad_usage("--trace-if-slow needs --trace-last SIZE");
        o->if_slow = (float)factor;
    }
    return CLI_OK;
}

/* Appends text, or says that there is no room. */
static bool put(char *to, size_t size, const char *text, size_t n)
{
    const size_t used = strlen(to);
    if (n >= size - used) return false;
    memcpy(to + used, text, n);
    to[used + n] = '\0';
    return true;
}

/* As a shell reads it back. */
static bool put_quoted(char *to, size_t size, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=,+@%";
    if (text[0] && text[strspn(text, plain)] == '\0') return put(to, size, text, strlen(text));
    bool room = put(to, size, "'", 1);
    for (; *text && room; text++) room = *text == '\'' ? put(to, size, "'\"'\"'", 5) : put(to, size, text, 1);
    return room && put(to, size, "'", 1);
}

/* What was typed, to be typed again; " .." stands for what there is no room for, and for all that may hold the prompt
 * when tokens shall not be in the file. */
static void join(const cli_recording *r, int argc, char **argv, char *to, size_t size)
{
    const size_t room = size - 3;
    to[0] = '\0';
    for (int i = 0; i < argc; i++) {
        const size_t used = strlen(to);
        if (!(r->no_tokens && i > 0) && (i == 0 || put(to, room, " ", 1)) && put_quoted(to, room, argv[i])) continue;
        strcpy(to + used, " ..");
        break;
    }
}

/* From the header alone; opening the model is part of what is recorded. */
static int check_model(const char *model)
{
    qn_gguf *file = NULL;
    qn_error err;
    const char *path = cli_model_path(model);
    if (!path) return CLI_FAILED;
    qn_status status = qn_gguf_open(path, NULL, &file, &err);
    if (status == QN_OK) status = qn_engine_check(file, &err);
    qn_gguf_close(file);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

int cli_recording_start(cli_recording *r, const char *const *models, int n_models, int argc, char **argv)
{
    char command[1024];
    qn_error err;
    if (!r->file) {
        if (r->ops || r->layers || r->tokens || r->phase || r->no_tokens || r->no_experts || r->no_faults || r->limit ||
            r->last || r->if_slow)
            return cli_bad_usage("options of a recording need --trace FILE");
        return CLI_OK;
    }
    const qn_trace_note notes[] = {{"command", command}};
    qn_trace_options o = {.ops = r->ops,
                          .layers = r->layers,
                          .tokens = r->tokens,
                          .phases = r->phase,
                          .no_tokens = r->no_tokens,
                          .no_experts = r->no_experts,
                          .no_faults = r->no_faults,
                          .notes = notes,
                          .n_notes = CLI_N(notes)};
    int status = parse(r, &o);
    for (int i = 0; i < n_models && status == CLI_OK; i++) status = check_model(models[i]);
    if (status != CLI_OK) return status;
    join(r, argc, argv, command, sizeof command);
    const qn_status started = qn_trace_start(r->file, &o, &err);
    if (started == QN_STATUS_invalid) return cli_bad_usage("--trace: %s", err.text);
    if (started != QN_OK) return cli_fail_error(&err);
    r->on = true;
    if (r->last) {
        struct sigaction act = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
        sigaction(SIGUSR1, &act, NULL);
    }
    return CLI_OK;
}

static int write_metrics(const cli_recording *r)
{
    const size_t n = r->metrics ? strlen(r->metrics) : 0;
    const bool prometheus = n > 5 && strcmp(r->metrics + n - 5, ".prom") == 0;
    qn_error err;
    char *text;
    if (!r->metrics) return CLI_OK;
    if (qn_metrics_print(prometheus ? QN_METRICS_prometheus : QN_METRICS_json, &text, &err) != QN_OK)
        return cli_fail_error(&err);
    const int status = cli_write_text(r->metrics, text, strlen(text));
    qn_free(text);
    return status;
}

/* What left all nodes out. */
static void say_empty(const cli_recording *r)
{
    const struct {
        const char *name, *list;
    } filters[] = {{"ops", r->ops}, {"layers", r->layers}, {"tokens", r->tokens}, {"phase", r->phase}};
    char given[96] = "";
    for (int i = 0; i < CLI_N(filters); i++)
        if (filters[i].list)
            snprintf(given + strlen(given), sizeof given - strlen(given), "%s--trace-%s", *given ? ", " : "",
                     filters[i].name);
    if (*given) cli_note("--trace %s: no node was recorded; none fits %s", r->file, given);
}

static void stop(cli_recording *r, int status)
{
    qn_trace_summary s;
    qn_error err;
    if (!r->on) return;
    r->on = false;
    if (status != CLI_OK && status != CLI_INTERRUPTED) qn_trace_dump();
    if (qn_trace_stop(&s, &err) != QN_OK) {
        cli_note("--trace: %s", err.text);
        return;
    }
    cli_recorded = s.n_files > 0;
    if (status == CLI_OK && !s.any_node && !s.dropped && !s.failed)
        say_empty(r);
    else if (!s.n_files && !r->last && !s.failed)
        cli_note("--trace %s: there was nothing to record; what was there is left as it is", r->file);
    if (s.failed) cli_note("--trace %s: %s; what was written before is there", r->file, s.reason);
    if (s.limited) cli_note("--trace %s: the limit of %s was reached", r->file, r->limit);
    if (s.dropped)
        cli_note("--trace %s: %llu of %llu records were lost: the writer got too little time", r->file,
                 (unsigned long long)s.dropped, (unsigned long long)(s.dropped + s.events));
}

int cli_recording_stop(cli_recording *r, int status)
{
    stop(r, status);
    const int written = write_metrics(r);
    return status != CLI_OK ? status : written;
}
