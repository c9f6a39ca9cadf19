/* SPDX-License-Identifier: MIT */
/* src/cli/trace.c -- quern trace: records a run, and shows, compares and converts what was recorded. */
#include "cli/trace.h"
#include "cli/recording.h"
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "trace",
    .arguments = "ACTION [FILE] [FILE]",
    .summary = "Shows where the time of a recorded run went. Actions:\n"
               "run MODEL [PROMPT] ..: quern run, recorded into trace.qtr or --trace FILE\n"
               "stats FILE: accounts of the threads' time, tables by operation, layer and node\n"
               "report FILE [OTHER]: a page for a browser; of two, also what differs\n"
               "export FILE: the events for other programs\n"
               "diff A B: what takes longer, by name; with --trace-hash the first value that differs\n"
               "advise FILE: what options would give, worked out from the trace\n"
               "watch FILE: follows a recording that grows, until it ends or nothing new comes for a minute; one look\n"
               "where standard output is no terminal",
    .notes = "A trace that was cut or damaged is read up to the damage, which is named; the status is 1 then.\n"
             "Rates are compared with the best that a node of the same trace came to.",
    .examples = "Record a run, and look at it:\n"
                "quern trace run model.gguf \"Once upon a time\" -n 20\n"
                "What the slowest nodes were:\n"
                "quern trace stats trace.qtr --top 20\n"
                "All of it as one page that needs no network, report.html:\n"
                "quern trace report trace.qtr\n"
                "What would make it faster:\n"
                "quern trace advise trace.qtr\n"
                "What it would be like with 4 GB, and a disk of 1.5 GB/s:\n"
                "quern trace advise trace.qtr --memory 4G --disk 1.5\n"
                "A timeline for chrome://tracing and ui.perfetto.dev:\n"
                "quern trace export trace.qtr --chrome -o trace.json\n",
    .min_args = 1,
    .max_args = 3,
};

typedef struct action {
    const char *name;
    int least, most; /* files */
    int (*run)(const trace_options *o, const char *const *files);
    const char *takes; /* options */
} action;
static const action actions[] = {
    {"stats", 1, 1, trace_stats, "top json"},
    {"report", 1, 2, trace_report, "lens output"},
    {"diff", 2, 2, trace_diff, "top json"},
    {"export", 1, 1, trace_export, "json csv chrome perfetto output"},
    {"advise", 1, 1, trace_advise, "json memory disk"},
    {"watch", 1, 1, trace_watch, "top"},
};

/* ---- shared ---- */

int trace_open(const char *path, qn_trace **out, bool *damaged)
{
    qn_error err;
    if (qn_trace_open(path, out, &err) != QN_OK) return cli_fail_error(&err);
    const char *damage = qn_trace_damage(*out);
    *damaged = damage != NULL;
    if (damage) cli_note("%s is damaged %s", path, damage);
    return CLI_OK;
}

/* The length of the UTF-8 character at s, 0 when it is none. */
static size_t character(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                     : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

size_t trace_harmless(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = character(s);
    return *s < 32 || *s == 127 || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) ? 0 : n;
}

const char *trace_safe(char *buf, size_t size, const char *text)
{
    size_t to = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && to + 5 < size;) {
        const size_t n = trace_harmless((const char *)s);
        if (n == 0 || *s == '|' || *s == '\\') {
            to += (size_t)snprintf(buf + to, size - to, "\\x%02x", *s++);
            continue;
        }
        memcpy(buf + to, s, n);
        to += n;
        s += n;
    }
    buf[to] = '\0';
    return buf;
}

void trace_put_json(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const size_t n = character(s);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (*s < 32 || *s == 127 || *s == '"' || *s == '\\' || *s == '<' || *s == '>' || *s == '&')
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}

/* ---- run ---- */

static bool has_file(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--trace") == 0 || strncmp(argv[i], "--trace=", 8) == 0) return true;
    return false;
}

/* `quern run`, with --trace before what was given. */
static int record_run(int argc, char **argv)
{
    static char name[] = "run", option[] = "--trace", file[] = "trace.qtr";
    char **args = calloc((size_t)argc + 4, sizeof *args);
    int n = 0;
    if (!args) return cli_no_memory("out of memory");
    args[n++] = name;
    if (!has_file(argc, argv)) {
        args[n++] = option;
        args[n++] = file;
    }
    for (int i = 2; i < argc; i++) args[n++] = argv[i];
    cli_name = name;
    const int status = cli_command_run(n, args);
    if (status == CLI_OK && cli_recorded && args[1] == option)
        cli_note("trace.qtr is recorded; quern trace report trace.qtr shows it");
    free(args);
    return status;
}

/* ---- the command ---- */

int cli_command_trace(int argc, char **argv)
{
    trace_options o = {.top = 10};
    const char *args[3] = {0};
    int n_args = 0;
    const cli_option options[] = {
        {"top", 0, CLI_INT, &o.top, "N", "stats, diff, watch: rows of each table (default: 10)", 0, 1 << 20, NULL},
        {"json", 0, CLI_FLAG, &o.json, NULL, "stats, diff, export, advise: as JSON", 0, 0, NULL},
        {"csv", 0, CLI_FLAG, &o.csv, NULL, "export: as CSV, a line an event", 0, 0, NULL},
        {"chrome", 0, CLI_FLAG, &o.chrome, NULL, "export: trace events of Chrome, as JSON", 0, 0, NULL},
        {"perfetto", 0, CLI_FLAG, &o.perfetto, NULL, "export: a trace of Perfetto", 0, 0, NULL},
        {"memory", 0, CLI_STRING, &o.memory, "SIZE", "advise: as if the process had so much in all", 0, 0, NULL},
        {"lens", 0, CLI_STRING, &o.lens, "FILE", "report: shows what quern lens --json FILE said, too", 0, 0, NULL},
        {"disk", 0, CLI_STRING, &o.disk, "X",
         "advise: what the disk reads, in GB/s, or measure, which reads the model for some 6 s (default: what the "
         "trace shows)",
         0, 0, NULL},
        {"output", 'o', CLI_OUTPUT, &o.out, "FILE",
         "export: write here (default: standard output); report: likewise (report.html)", 0, 0, NULL},
    };
    if (argc > 1 && strcmp(argv[1], "run") == 0) return record_run(argc, argv);
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    for (int i = 0; i < CLI_N(actions); i++) {
        if (strcmp(args[0], actions[i].name) != 0) continue;
        if (n_args - 1 < actions[i].least || n_args - 1 > actions[i].most)
            return cli_bad_usage(actions[i].least == actions[i].most ? "%s takes %d file%s" : "%s takes %d file%s or 2",
                                 actions[i].name, actions[i].least, actions[i].least > 1 ? "s" : "");
        status = cli_only(options, CLI_N(options), argc, argv, actions[i].takes, actions[i].name);
        return status == CLI_OK ? actions[i].run(&o, args + 1) : status;
    }
    return cli_bad_usage("\"%.32s\" is no action; there are run, stats, report, export, diff, advise and watch",
                         args[0]);
}
