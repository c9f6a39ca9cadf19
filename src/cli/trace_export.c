/* SPDX-License-Identifier: MIT */
/* src/cli/trace_export.c -- quern trace export: the events, one by one, for other programs. Times are nanoseconds from
 * the trace's start in all of them; Chrome's are microseconds with three decimals. Names are inert: controls and broken
 * UTF-8 are replaced. */
#include "cli/trace.h"
#include "cli/trace_perfetto.h"
#include <string.h>

typedef struct writing {
    FILE *out;
    bool first;
} writing;

/* The node's name, its operation where it has none, the mark's text, or the kind. */
static const char *title_of(const qn_trace_event *e)
{
    if (e->node) return e->node->name[0] ? e->node->name : e->node->op;
    return e->text ? e->text : qn_trace_kind_name(e->kind);
}

/* ---- CSV ---- */

static void put_csv(FILE *out, const char *text)
{
    char safe[512];
    trace_safe(safe, sizeof safe, text);
    const bool formula = strchr("=+-@", safe[0]) != NULL && safe[0]; /* a table program would compute it */
    fprintf(out, "\"%s", formula ? "'" : "");
    for (const char *p = safe; *p; p++) fprintf(out, *p == '"' ? "\"\"" : "%c", *p);
    fputc('"', out);
}

static void csv_head(writing *w)
{
    fputs("kind,name,operation,layer,node,step,phase,thread,member,begin_ns,ns,wait_ns,weight_bytes,cache_bytes,act_"
          "bytes,ops\n",
          w->out);
}

static bool csv_event(void *ctx, const qn_trace_event *e)
{
    writing *w = ctx;
    qn_trace_cost c = {0};
    if (e->node && e->step) c = qn_trace_cost_of(e->node, e->step);
    fprintf(w->out, "%s,", qn_trace_kind_name(e->kind));
    put_csv(w->out, title_of(e));
    fputc(',', w->out);
    const char *op = e->node ? e->node->op : "";
    if (strspn(op, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(op)) /* as all of ours are */
        fputs(op, w->out);
    else
        put_csv(w->out, op);
    fputc(',', w->out);
    if (e->node)
        fprintf(w->out, "%d,%d,", e->node->layer, e->node->id);
    else
        fputs(",,", w->out);
    if (e->step)
        fprintf(w->out, "%llu,%s,", (unsigned long long)e->step->number, qn_trace_phase_name(e->step->phase));
    else
        fputs(",,", w->out);
    fprintf(w->out, "%u,%d,%lld,%lld,%lld,%.0f,%.0f,%.0f,%.0f\n", e->lane->id, e->lane->member, (long long)e->begin_ns,
            (long long)e->ns, (long long)e->wait_ns, c.weight_bytes, c.cache_bytes, c.act_bytes, c.ops);
    return !ferror(w->out);
}

/* ---- JSON ---- */

static void json_head(writing *w) { fputs("[", w->out); }
static void json_foot(writing *w) { fputs("\n]\n", w->out); }

static bool json_event(void *ctx, const qn_trace_event *e)
{
    writing *w = ctx;
    fprintf(w->out, "%s\n{\"kind\": \"%s\", \"name\": ", w->first ? "" : ",", qn_trace_kind_name(e->kind));
    w->first = false;
    trace_put_json(w->out, title_of(e));
    if (e->node) {
        fputs(", \"operation\": ", w->out);
        trace_put_json(w->out, e->node->op);
        fprintf(w->out, ", \"layer\": %d, \"node\": %d", e->node->layer, e->node->id);
    }
    if (e->step)
        fprintf(w->out, ", \"step\": %llu, \"phase\": \"%s\"", (unsigned long long)e->step->number,
                qn_trace_phase_name(e->step->phase));
    fprintf(w->out, ", \"thread\": %u, \"member\": %d, \"begin_ns\": %lld, \"ns\": %lld, \"wait_ns\": %lld}",
            e->lane->id, e->lane->member, (long long)e->begin_ns, (long long)e->ns, (long long)e->wait_ns);
    return !ferror(w->out);
}

/* ---- Chrome ---- */

static void chrome_head(writing *w) { fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", w->out); }
static void chrome_foot(writing *w) { fputs("\n]}\n", w->out); }

static void put_us(FILE *out, int64_t ns)
{
    const uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    fprintf(out, "%s%llu.%03llu", ns < 0 ? "-" : "", (unsigned long long)(n / 1000), (unsigned long long)(n % 1000));
}

static bool chrome_event(void *ctx, const qn_trace_event *e)
{
    writing *w = ctx;
    fprintf(w->out, "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"cat\": \"%s\", \"name\": ", w->first ? "" : ",",
            e->lane->id, qn_trace_kind_name(e->kind));
    w->first = false;
    trace_put_json(w->out, title_of(e));
    fputs(", \"ts\": ", w->out);
    put_us(w->out, e->begin_ns);
    fputs(", \"dur\": ", w->out);
    put_us(w->out, e->ns);
    fputs(", \"args\": {\"wait_us\": ", w->out);
    put_us(w->out, e->wait_ns);
    if (e->node) {
        fputs(", \"operation\": ", w->out);
        trace_put_json(w->out, e->node->op);
        fprintf(w->out, ", \"layer\": %d", e->node->layer);
    }
    if (e->step) fprintf(w->out, ", \"step\": %llu", (unsigned long long)e->step->number);
    fputs("}}", w->out);
    return !ferror(w->out);
}

/* ---- the action ---- */

typedef struct format {
    size_t flag; /* of trace_options */
    void (*head)(writing *w);
    qn_trace_event_fn event;
    void (*foot)(writing *w);
} format;

static const format formats[] = {
    {offsetof(trace_options, chrome), chrome_head, chrome_event, chrome_foot},
    {offsetof(trace_options, csv), csv_head, csv_event, NULL},
    {offsetof(trace_options, json), json_head, json_event, json_foot},
};

typedef struct exporting {
    const trace_options *o;
    qn_trace *t;
} exporting;

static int write_all(void *ctx, FILE *out)
{
    const exporting *x = ctx;
    qn_error err;
    writing w = {out, true};
    if (x->o->perfetto) return trace_write_perfetto(x->t, out);
    for (int i = 0; i < CLI_N(formats); i++) {
        if (!*(const bool *)((const char *)x->o + formats[i].flag)) continue;
        formats[i].head(&w);
        if (qn_trace_walk(x->t, formats[i].event, &w, &err) != QN_OK) return cli_fail_error(&err);
        if (formats[i].foot) formats[i].foot(&w);
    }
    return CLI_OK;
}

int trace_write_file(const char *path, int (*write)(void *ctx, FILE *out), void *ctx)
{
    cli_output o;
    if (strcmp(path, "-") == 0) {
        const int status = write(ctx, stdout);
        return status == CLI_OK ? cli_finish_output() : status;
    }
    const int status = cli_output_open(&o, path);
    return status == CLI_OK ? cli_output_close(&o, write(ctx, o.file)) : status;
}

int trace_export(const trace_options *o, const char *const *files)
{
    qn_trace *t = NULL;
    bool damaged = false;
    if (o->json + o->csv + o->chrome + o->perfetto != 1)
        return cli_bad_usage("export needs exactly one of --chrome, --perfetto, --csv and --json");
    int status = trace_open(files[0], &t, &damaged);
    if (status == CLI_OK) {
        exporting x = {o, t};
        status = trace_write_file(o->out ? o->out : "-", write_all, &x);
    }
    qn_trace_close(t);
    return status == CLI_OK && damaged ? CLI_FAILED : status;
}
