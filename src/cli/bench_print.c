/* SPDX-License-Identifier: MIT */
/* src/cli/bench_print.c -- a table of results as Markdown, CSV or JSON. The three hold the same figures; Markdown
 * rounds them. A table without rows is one of machines. */
#include "cli/bench.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TEST_NAME(row) (row)->prompt ? "pp" : "tg", (row)->n

/* Of a model that is divided between backends: what is read and multiplied, and no limit. */
static bench_limit limit_of(const bench_table *t, const bench_row *row)
{
    const qn_machine_peaks peaks =
        row->device >= 0 ? bench_device_limit(&t->devices[row->device].peaks) : t->machines[row->machine].peaks;
    bench_limit limit = bench_limit_of(row, &peaks);
    if (row->divided) limit.tokens_per_second = 0;
    return limit;
}

static const char *bound_of(const bench_limit *limit)
{
    return limit->tokens_per_second <= 0 ? "" : limit->by_memory ? "memory" : "arithmetic";
}

/* Of the whole run. */
static double tests_a_second(const bench_row *row) { return row->tokens_per_second / ((double)row->n * row->batch); }

/* ---- Markdown ---- */

typedef struct md_column {
    const char *title;
    bool left, roofline;
} md_column;

/* clang-format off */
static const md_column columns[] = {
    {"model", true, false},  {"test", true, false},          {"depth", false, false},     {"batch", false, false},
    {"KV", true, false},     {"threads", false, false},      {"tokens/s", false, false},  {"spread", false, false},
    {"of limit", false, false}, {"limit tokens/s", false, true}, {"limited by", true, true}, {"GB/s", false, true},
    {"Gop/s", false, true},  {"memory", false, false},       {"load", false, false},
};
/* clang-format on */
enum { N_COLUMNS = CLI_N(columns), CELL = 80 };
typedef char md_line[N_COLUMNS][CELL];

/* The file's name without folder and ending, and without what would break a table. */
static void short_name(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    size_t len = strlen(name);
    if (len > 5 && strcmp(name + len - 5, ".gguf") == 0) len -= 5;
    snprintf(out, size, "%.*s", len > size ? (int)size : (int)len, name);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127 || *p == '|') *p = '?';
}

static void md_cells(const bench_table *t, const bench_row *row, md_line cell)
{
    const bench_machine *m = &t->machines[row->machine];
    const bench_limit limit = limit_of(t, row);
    int i = 0;
    short_name(row->model, cell[i++], CELL);
    snprintf(cell[i++], CELL, "%s%d", TEST_NAME(row));
    snprintf(cell[i++], CELL, "%d", row->depth);
    snprintf(cell[i++], CELL, "%d", row->batch);
    snprintf(cell[i++], CELL, "%s", row->kv_type);
    if (*row->backends)
        snprintf(cell[i++], CELL, "%s", row->backends);
    else
        snprintf(cell[i++], CELL, "%d, %s", m->peaks.threads, m->cpu_level);
    snprintf(cell[i++], CELL, "%.2f", row->tokens_per_second);
    snprintf(cell[i++], CELL, "%.1f %%", 100 * row->spread);
    if (limit.tokens_per_second > 0) {
        snprintf(cell[i], CELL, "%.1f %%", 100 * row->tokens_per_second / limit.tokens_per_second);
        snprintf(cell[i + 1], CELL, "%.2f", limit.tokens_per_second);
    }
    i += 2;
    snprintf(cell[i++], CELL, "%s", bound_of(&limit));
    snprintf(cell[i++], CELL, "%.2f", limit.bytes * tests_a_second(row) * 1e-9);
    snprintf(cell[i++], CELL, "%.1f", limit.ops * tests_a_second(row) * 1e-9);
    snprintf(cell[i++], CELL, "%.1f MiB", (double)row->peak_bytes / (1 << 20));
    snprintf(cell[i++], CELL, "%.3f s", row->load_seconds);
}

static void md_print(md_line cell, const int *width, bool roofline)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (roofline || !columns[i].roofline) printf(columns[i].left ? "| %-*s " : "| %*s ", width[i], cell[i]);
    puts("|");
}

static int print_md(const bench_table *t, int repetitions, bool roofline)
{
    md_line *lines = calloc((size_t)t->n_rows + 2, sizeof(*lines)); /* titles, a rule, rows */
    int width[N_COLUMNS] = {0};
    qn_machine machine;
    if (!lines) return cli_fail("out of memory for %d rows; close other programs, or ask for less", t->n_rows);
    for (int i = 0; i < N_COLUMNS; i++) snprintf(lines[0][i], CELL, "%s", columns[i].title);
    for (int r = 0; r < t->n_rows; r++) md_cells(t, &t->rows[r], lines[r + 2]);
    for (int r = 0; r < t->n_rows + 2; r++)
        for (int i = 0; i < N_COLUMNS; i++)
            if ((int)strlen(lines[r][i]) > width[i]) width[i] = (int)strlen(lines[r][i]);
    for (int i = 0; i < N_COLUMNS; i++) {
        memset(lines[1][i], '-', (size_t)width[i]);
        if (!columns[i].left) lines[1][i][width[i] - 1] = ':';
    }
    qn_machine_get(&machine);
    printf("%s\n\n", machine.cpu_name);
    for (int i = 0; i < t->n_machines; i++) {
        const qn_machine_peaks *p = &t->machines[i].peaks;
        if (p->read_gb_s <= 0) continue; /* a device computes */
        printf("* %d thread%s at %s: reads %.1f GB/s, int8 %.0f Gop/s, f32 %.0f Gflop/s, bf16 %.0f, measured in this "
               "run\n",
               p->threads, p->threads == 1 ? "" : "s", t->machines[i].cpu_level, p->read_gb_s, p->int8_gops,
               p->f32_gflops, p->bf16_gflops);
    }
    for (int i = 0; i < t->n_devices; i++) {
        const qn_device_peaks *p = &t->devices[i].peaks;
        printf("* %s: copies %.1f GB/s, up %.1f, down %.1f, int8 %.0f Gop/s, f16 %.0f Gflop/s, measured in this run\n",
               t->devices[i].name, p->copy_gb_s, p->up_gb_s, p->down_gb_s, p->int8_gops, p->f16_gflops);
    }
    for (int r = 0; r < t->n_rows + 2 && t->n_rows > 0; r++) {
        if (r == 0) putchar('\n');
        md_print(lines[r], width, roofline);
    }
    if (t->n_rows > 0)
        printf("\ntokens/s: median of %d after one warm-up; spread: interquartile range / median; of limit: share of "
               "what reading the weights and the\n"
               "cache once, or multiplying them, allows at the measured peaks; memory: most allocated at a time beside "
               "the mapped file.\n",
               repetitions);
    free(lines);
    return CLI_OK;
}

/* ---- CSV ---- */

static int print_csv(const bench_table *t, int repetitions, bool roofline)
{
    (void)roofline; /* always all columns */
    if (t->n_rows == 0) {
        puts("threads,cpu_level,read_gb_s,int8_gops,f32_gflops,bf16_gflops,device,copy_gb_s,up_gb_s,down_gb_s,f16_"
             "gflops");
        for (int i = 0; i < t->n_machines; i++) {
            const bench_machine *m = &t->machines[i];
            printf("%d,%s,%.6g,%.6g,%.6g,%.6g,,,,,\n", m->peaks.threads, m->cpu_level, m->peaks.read_gb_s,
                   m->peaks.int8_gops, m->peaks.f32_gflops, m->peaks.bf16_gflops);
        }
        for (int i = 0; i < t->n_devices; i++) {
            const qn_device_peaks *p = &t->devices[i].peaks;
            printf(",,,%.6g,,,%s,%.6g,%.6g,%.6g,%.6g\n", p->int8_gops, t->devices[i].name, p->copy_gb_s, p->up_gb_s,
                   p->down_gb_s, p->f16_gflops);
        }
        return CLI_OK;
    }
    puts("model,test,depth,batch,kv_type,tokens_per_second,spread,limit_share,peak_bytes,load_seconds,threads,cpu_"
         "level,limit_tokens_per_second,"
         "limited_by,read_gb_s,int8_gops,f32_gflops,repetitions,bf16_gflops,backends,gb_s,gop_s,host_us,load_gb_s");
    for (int i = 0; i < t->n_rows; i++) {
        const bench_row *row = &t->rows[i];
        const bench_machine *m = &t->machines[row->machine];
        const bench_limit limit = limit_of(t, row);
        char share[32] = "", most[32] = "", host[32] = "";
        if (limit.tokens_per_second > 0) {
            snprintf(share, sizeof(share), "%.4g", row->tokens_per_second / limit.tokens_per_second);
            snprintf(most, sizeof(most), "%.6g", limit.tokens_per_second);
        }
        if (row->device >= 0) snprintf(host, sizeof(host), "%.4g", row->host_us);
        cli_put_csv(row->model);
        printf(",%s%d,%d,%d,%s,%.6g,%.4g,%s,%llu,%.4g,%d,%s,%s,%s,%.6g,%.6g,%.6g,%d,%.6g,%s,%.6g,%.6g,%s,%.4g\n",
               TEST_NAME(row), row->depth, row->batch, row->kv_type, row->tokens_per_second, row->spread, share,
               (unsigned long long)row->peak_bytes, row->load_seconds, m->peaks.threads, m->cpu_level, most,
               bound_of(&limit), m->peaks.read_gb_s, m->peaks.int8_gops, m->peaks.f32_gflops, repetitions,
               m->peaks.bf16_gflops, row->backends, limit.bytes * tests_a_second(row) * 1e-9,
               limit.ops * tests_a_second(row) * 1e-9, host, row->load_gb_s);
    }
    return CLI_OK;
}

/* ---- JSON ---- */

static json_t *machine_json(const bench_machine *m)
{
    return json_pack("{s:f, s:f, s:f, s:i, s:s, s:f}", "read_gb_s", m->peaks.read_gb_s, "int8_gops", m->peaks.int8_gops,
                     "f32_gflops", m->peaks.f32_gflops, "threads", m->peaks.threads, "cpu_level", m->cpu_level,
                     "bf16_gflops", m->peaks.bf16_gflops);
}

static json_t *device_json(const bench_device *d)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "name", d->name, "copy_gb_s", d->peaks.copy_gb_s, "up_gb_s",
                     d->peaks.up_gb_s, "down_gb_s", d->peaks.down_gb_s, "int8_gops", d->peaks.int8_gops, "f16_gflops",
                     d->peaks.f16_gflops);
}

static json_t *real_or_null(bool there, double x) { return there ? json_real(x) : json_null(); }

static json_t *row_json(const bench_table *t, const bench_row *row)
{
    char test[24];
    const bench_machine *m = &t->machines[row->machine];
    const bench_limit limit = limit_of(t, row);
    json_t *model = json_string(row->model);
    if (!model) model = json_string("(a path that is not UTF-8)");
    snprintf(test, sizeof(test), "%s%d", TEST_NAME(row));
    const bool limited = limit.tokens_per_second > 0;
    return json_pack("{s:o, s:s, s:i, s:i, s:s, s:f, s:f, s:o, s:I, s:f, s:i, s:s, s:o, s:s, s:s, s:f, s:f, s:o, s:f}",
                     "model", model, "test", test, "depth", row->depth, "batch", row->batch, "kv_type", row->kv_type,
                     "tokens_per_second", row->tokens_per_second, "spread", row->spread, "limit_share",
                     real_or_null(limited, limited ? row->tokens_per_second / limit.tokens_per_second : 0),
                     "peak_bytes", (json_int_t)row->peak_bytes, "load_seconds", row->load_seconds, "threads",
                     m->peaks.threads, "cpu_level", m->cpu_level, "limit_tokens_per_second",
                     real_or_null(limited, limit.tokens_per_second), "limited_by", bound_of(&limit), "backends",
                     row->backends, "gb_s", limit.bytes * tests_a_second(row) * 1e-9, "gop_s",
                     limit.ops * tests_a_second(row) * 1e-9, "host_us", real_or_null(row->device >= 0, row->host_us),
                     "load_gb_s", row->load_gb_s);
}

/* "machine" is the first of "machines": there are more only where several numbers of threads or levels were asked for.
 */
static int print_json(const bench_table *t, int repetitions, bool roofline)
{
    (void)roofline;
    json_t *root = json_object(), *tests = json_array(), *machines = json_array(), *devices = json_array();
    bool made = json_object_set_new(root, "machine", machine_json(&t->machines[0])) == 0;
    for (int i = 0; i < t->n_rows; i++) made = json_array_append_new(tests, row_json(t, &t->rows[i])) == 0 && made;
    for (int i = 0; i < t->n_machines; i++)
        made = json_array_append_new(machines, machine_json(&t->machines[i])) == 0 && made;
    made = json_object_set_new(root, "tests", tests) == 0 && made;
    made = json_object_set_new(root, "repetitions", json_integer(repetitions)) == 0 && made;
    for (int i = 0; i < t->n_devices; i++)
        made = json_array_append_new(devices, device_json(&t->devices[i])) == 0 && made;
    made = json_object_set_new(root, "machines", machines) == 0 && made;
    made = json_object_set_new(root, "devices", devices) == 0 && made;
    char *text = made ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    if (!text) return cli_no_memory("out of memory while writing JSON");
    puts(text);
    free(text);
    return CLI_OK;
}

/* ---- formats ---- */

static const struct {
    const char *name;
    bench_print_fn print;
} formats[] = {{"md", print_md}, {"csv", print_csv}, {"json", print_json}};

bench_print_fn bench_find_format(const char *name)
{
    for (int i = 0; i < CLI_N(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].print;
    return NULL;
}
