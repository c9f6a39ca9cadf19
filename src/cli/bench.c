/* SPDX-License-Identifier: MIT */
/* src/cli/bench.c -- quern bench: speed of prompt processing and decoding beside the machine's limit, for every
 * combination of models and option values. The limit's peaks are measured before and after each model's tests; the best
 * counts. */
#include "cli/bench.h"
#include "cli/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODELS 64
#define MAX_VALUES 32
#define MAX_TESTS  10000
#define PEAK_SECONDS \
    0.6f /* 0.2 s a peak: long beside a scheduler's time slice, short beside any test that tells something */

static const cli_usage usage = {
    .command = "bench",
    .arguments = "[MODEL...]",
    .summary = "Measures tokens a second of prompt processing and decoding, each beside the share of what this machine "
               "could do "
               "at most.",
    .notes =
        "Options with a list take several values, such as -b 1,4,8; every combination with every model is a row. "
        "Tests: ppN computes a prompt of N tokens (logits of the last), tgN decodes N steps of one token for each of "
        "the batch's sequences; -p 0 or -n 0 leaves one out. Of an encoder, ppN computes the embeddings of the batch's "
        "texts of N tokens. At depth D each sequence holds D tokens before the clock "
        "starts.\n"
        "Speeds are medians; spread is the interquartile range over the median. The limit comes from read bandwidth "
        "and arithmetic peaks measured in the same run; a model so small that it stays in a cache may pass it. "
        "--roofline without a MODEL measures these alone, of devices too. The limit of a model that a device computes "
        "is "
        "that of the device: the bandwidth of copies within it, and its own rates of products; a model that is divided "
        "has none.",
    .examples = "A prompt of 512 tokens and 128 steps of decoding:\nquern bench model.gguf\n"
                "One and two threads, short and deep contexts, as CSV:\n"
                "quern bench model.gguf -t 1,2 -d 0,2048 -o csv\n"
                "What this machine can do at most:\nquern bench --roofline\n"
                "All layers on a device:\nquern bench model.gguf --device cuda:0\n",
    .max_args = MAX_MODELS,
};

typedef struct bench_ints {
    int32_t v[MAX_VALUES];
    int n;
} bench_ints;
typedef struct bench_names {
    char v[MAX_VALUES][16];
    int n;
} bench_names; /* "" is the default */

typedef struct bench_plan {
    const char *models[MAX_MODELS];
    int n_models;
    bench_ints prompts, steps, depths, batches, threads;
    bench_names kv_types, levels;
    cli_model_options options; /* that all tests share */
    int32_t repetitions;
    float peak_seconds;
    bench_print_fn print;
    bool roofline;
    cli_recording recording;
} bench_plan;

/* ---- lists ---- */

static int parse_ints(const char *option, const char *text, int32_t lo, int32_t hi, bench_ints *out)
{
    const char *p = text;
    size_t len = 0;
    out->n = 0;
    do {
        char number[24];
        int64_t value = 0;
        len = strcspn(p, ",");
        snprintf(number, sizeof(number), "%.*s", (int)(len < sizeof(number) ? len : sizeof(number)), p);
        if (len >= sizeof(number) || !cli_parse_int(number, lo, hi, &value))
            return cli_bad_usage("--%s: \"%.64s\" is no list of whole numbers from %d to %d, such as %d,%d", option,
                                 text, lo, hi, lo + 1, lo + 2);
        if (out->n == MAX_VALUES) return cli_bad_usage("--%s: more than %d values", option, MAX_VALUES);
        out->v[out->n++] = (int32_t)value;
        p += len + 1;
    } while (p[-1]); /* the comma before, or the end */
    return CLI_OK;
}

static bool is_level(const char *name)
{
    qn_cpu_level level;
    return qn_cpu_level_find(name, &level);
}

static bool is_kv_type(const char *name)
{
    qn_dtype dtype;
    return qn_dtype_find(name, &dtype);
}

static int parse_names(const char *option, const char *text, bool (*known)(const char *), const char *all,
                       bench_names *out)
{
    const char *p = text;
    size_t len = 0;
    out->n = 0;
    do {
        if (out->n == MAX_VALUES) return cli_bad_usage("--%s: more than %d values", option, MAX_VALUES);
        char *name = out->v[out->n];
        len = strcspn(p, ",");
        snprintf(name, sizeof(out->v[0]), "%.*s", (int)(len < sizeof(out->v[0]) ? len : 0), p);
        for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
        if (!known(name))
            return cli_bad_usage("--%s: \"%.*s\" is none of %s", option, len > 64 ? 64 : (int)len, p, all);
        out->n++;
        p += len + 1;
    } while (p[-1]);
    return CLI_OK;
}

static int parse(int argc, char **argv, bench_plan *plan)
{
    const char *prompts = "512", *steps = "128", *depths = "0", *batches = "1", *threads = NULL, *kv_types = "f16",
               *levels = NULL, *format = "md";
    plan->repetitions = 5;
    plan->peak_seconds = PEAK_SECONDS;
    const cli_option options[] = {
        {"prompt", 'p', CLI_STRING, &prompts, "LIST", "tokens of a prompt (default: 512; 0: no such test)", 0, 0, NULL},
        {"predict", 'n', CLI_STRING, &steps, "LIST", "decoding steps (default: 128; 0: no such test)", 0, 0, NULL},
        {"depth", 'd', CLI_STRING, &depths, "LIST", "tokens in the cache before (default: 0)", 0, 0, NULL},
        {"batch", 'b', CLI_STRING, &batches, "LIST", "sequences that decode at once, texts of an encoder (default: 1)",
         0, 0, NULL},
        {"repetitions", 'r', CLI_INT, &plan->repetitions, "N", "timed repetitions after one warm-up (default: 5)", 1,
         1000, NULL},
        {"peak-time", 0, CLI_FLOAT, &plan->peak_seconds, "X",
         "seconds for measuring the machine's peaks, before and after the tests (default: 0.6)", 0.01, 60, NULL},
        {"threads", 't', CLI_STRING, &threads, "LIST",
         "threads that compute (default: physical cores within the quota)", 0, 0, NULL},
        {"cpu", 0, CLI_STRING, &levels, "LEVELS", "at most this level of instructions, as `quern doctor` names them", 0,
         0, NULL},
        {"kv-type", 0, CLI_STRING, &kv_types, "KV_TYPES", "types of the KV cache (default: F16)", 0, 0, NULL},
        {"no-pass", 0, CLI_STRINGS, &plan->options.no_pass, "PASS",
         "switch a graph pass off (may be repeated); results stay", 0, 0, NULL},
        CLI_PLACE_OPTIONS(plan->options),
        CLI_MEMORY_OPTIONS(plan->options),
        {"output", 'o', CLI_STRING, &format, "FORMAT", "form of the table (default: md)", 0, 0, NULL},
        {"roofline", 0, CLI_FLAG, &plan->roofline, NULL,
         "show the limits too, what bounds them, and the rates that were reached", 0, 0, NULL},
        CLI_RECORDING_OPTIONS(plan->recording),
    };
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, plan->models, &plan->n_models);
    if (status >= 0) return status;
    if (plan->n_models == 0 && !plan->roofline)
        return cli_bad_usage("an argument is missing; usage: quern bench MODEL..., or quern bench --roofline");
    plan->print = bench_find_format(format);
    plan->threads = (bench_ints){{0}, 1}; /* 0 and "": the defaults */
    plan->levels = (bench_names){{""}, 1};
    status = parse_ints("prompt", prompts, 0, 1 << 20, &plan->prompts);
    if (status == CLI_OK) status = parse_ints("predict", steps, 0, 1 << 20, &plan->steps);
    if (status == CLI_OK) status = parse_ints("depth", depths, 0, 1 << 24, &plan->depths);
    if (status == CLI_OK) status = parse_ints("batch", batches, 1, 256, &plan->batches);
    if (status == CLI_OK && threads) status = parse_ints("threads", threads, 1, 256, &plan->threads);
    if (status == CLI_OK && levels) status = parse_names("cpu", levels, is_level, QN_CPU_LEVEL_NAMES, &plan->levels);
    if (status == CLI_OK) status = parse_names("kv-type", kv_types, is_kv_type, QN_KV_TYPE_NAMES, &plan->kv_types);
    return status == CLI_OK ? -1 : status;
}

/* ---- tests ---- */

static int32_t most(const bench_ints *list)
{
    int32_t x = 0;
    for (int i = 0; i < list->n; i++)
        if (list->v[i] > x) x = list->v[i];
    return x;
}

/* The largest session of all tests, for --gpu-layers auto. */
static qn_session_options largest_session(const bench_plan *plan)
{
    const int32_t prompt = most(&plan->prompts), steps = most(&plan->steps), n_seq = most(&plan->batches);
    const int64_t cells = ((int64_t)most(&plan->depths) + (prompt > steps ? prompt : steps)) * n_seq;
    return (qn_session_options){.n_ctx = (int32_t)(cells < 1 << 28 ? cells : 1 << 28), .n_seq = n_seq};
}

/* The tests of one model with one engine, KV type and depth into rows; returns how many there are. rows may be NULL to
 * count. */
static int list_tests(const bench_plan *plan, const bench_row *base, bool encoder, bench_row *rows)
{
    int n = 0;
    for (int i = 0; i < plan->prompts.n; i++) {
        for (int j = 0; j < (encoder ? plan->batches.n : 1) && plan->prompts.v[i] > 0; j++, n++) {
            const int32_t batch = encoder ? plan->batches.v[j] : 1;
            if (rows) rows[n] = *base, rows[n].prompt = true, rows[n].n = plan->prompts.v[i], rows[n].batch = batch;
        }
    }
    for (int i = 0; i < plan->steps.n && !encoder; i++)
        for (int j = 0; j < plan->batches.n && plan->steps.v[i] > 0; j++, n++)
            if (rows) rows[n] = *base, rows[n].n = plan->steps.v[i], rows[n].batch = plan->batches.v[j];
    return n;
}

/* How much of the table is done, in repetitions. */
typedef struct bench_progress {
    cli_progress bar;
    uint64_t done, total;
} bench_progress;

/* Measures, and keeps the best seen: a neighbour on a shared machine only ever makes a peak look lower. */
static int measure_peaks(const bench_plan *plan, bench_machine *m)
{
    qn_machine_peaks now;
    qn_cpu_level level;
    qn_error err;
    if (!*m->cpu_level) return CLI_OK; /* no backend is the processor */
    if (!qn_cpu_level_find(m->cpu_level, &level)) return cli_fail("no peaks are known for level \"%s\"", m->cpu_level);
    if (qn_machine_measure(level, m->peaks.threads, (double)plan->peak_seconds, &now, &err) != QN_OK)
        return cli_fail_error(&err);
    if (now.read_gb_s > m->peaks.read_gb_s) m->peaks.read_gb_s = now.read_gb_s;
    if (now.int8_gops > m->peaks.int8_gops) m->peaks.int8_gops = now.int8_gops;
    if (now.f32_gflops > m->peaks.f32_gflops) m->peaks.f32_gflops = now.f32_gflops;
    if (now.bf16_gflops > m->peaks.bf16_gflops) m->peaks.bf16_gflops = now.bf16_gflops;
    return CLI_OK;
}

/* The entry of a level and threads; a new one when it is the first such. */
static int machine_of(bench_table *t, const char *level, int threads)
{
    for (int i = 0; i < t->n_machines; i++)
        if (t->machines[i].peaks.threads == threads && strcmp(t->machines[i].cpu_level, level) == 0) return i;
    bench_machine *m = &t->machines[t->n_machines];
    m->peaks.threads = threads;
    snprintf(m->cpu_level, sizeof(m->cpu_level), "%s", level);
    return t->n_machines++;
}

/* All tests of an open engine. Rows count as they are finished. */
static int run_engine(const bench_plan *plan, const char *model, qn_engine *engine, const cli_model_options *options,
                      bench_progress *progress, bench_table *t)
{
    qn_engine_info info;
    qn_engine_get_info(engine, &info);
    bench_row base = {.model = model, .machine = machine_of(t, info.cpu_level, info.n_threads)};
    bench_machine *machine = &t->machines[base.machine];
    int status = bench_place(engine, options, t, &base);
    const bool by_processor = base.device < 0 && !base.divided;
    if (status == CLI_OK && by_processor) status = measure_peaks(plan, machine);
    for (int k = 0; k < plan->kv_types.n; k++)
        for (int d = 0; d < plan->depths.n && status == CLI_OK; d++) {
            const cli_model_options m = {.kv_type = plan->kv_types.v[k]};
            memcpy(base.kv_type, plan->kv_types.v[k], sizeof(base.kv_type));
            base.depth = plan->depths.v[d];
            const int n = list_tests(plan, &base, info.encoder, t->rows + t->n_rows);
            for (int i = 0; i < n && status == CLI_OK; i++) {
                status = bench_run(engine, &m, plan->repetitions, &progress->bar, &progress->done, progress->total,
                                   &t->rows[t->n_rows]);
                if (status == CLI_OK) t->n_rows++;
            }
        }
    return status == CLI_OK && by_processor ? measure_peaks(plan, machine) : status;
}

/* The peaks alone, of the levels and threads that engines would have. */
static int run_peaks(const bench_plan *plan, bench_table *t)
{
    qn_machine here;
    int status = CLI_OK;
    qn_machine_get(&here);
    for (int l = 0; l < plan->levels.n; l++) {
        qn_cpu_level level = here.level;
        if (*plan->levels.v[l]) qn_cpu_level_find(plan->levels.v[l], &level);
        while (!(here.levels >> level & 1)) level--; /* every machine runs the lowest */
        for (int i = 0; i < plan->threads.n && status == CLI_OK; i++) {
            const int threads = plan->threads.v[i] ? plan->threads.v[i] : here.default_threads;
            status = measure_peaks(plan, &t->machines[machine_of(t, qn_cpu_level_name(level), threads)]);
        }
    }
    return status == CLI_OK ? bench_devices(&plan->options, t) : status;
}

/* Whether all models are there, before minutes are spent on the first. */
static int check_models(const bench_plan *plan)
{
    int status = CLI_OK;
    for (int i = 0; i < plan->n_models && status == CLI_OK; i++) {
        qn_gguf *file = NULL;
        qn_error err;
        const char *path = cli_model_path(plan->models[i]);
        if (!path) return CLI_FAILED;
        if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) status = cli_fail_error(&err);
        qn_gguf_close(file);
    }
    return status;
}

static int run_all(const bench_plan *plan, bench_progress *progress, bench_table *t)
{
    int status = CLI_OK;
    for (int i = 0; i < plan->n_models; i++)
        for (int l = 0; l < plan->levels.n; l++)
            for (int j = 0; j < plan->threads.n && status == CLI_OK; j++) {
                const char *level = plan->levels.v[l];
                cli_model_options m = plan->options;
                m.session = largest_session(plan);
                m.threads = plan->threads.v[j];
                m.cpu = *level ? level : NULL;
                qn_engine *engine = NULL;
                status = cli_open_engine(plan->models[i], &m, &engine);
                if (status == CLI_OK) status = run_engine(plan, plan->models[i], engine, &m, progress, t);
                qn_engine_close(engine);
            }
    return status;
}

int cli_command_bench(int argc, char **argv)
{
    bench_plan plan = {0};
    int status = parse(argc, argv, &plan);
    if (status >= 0) return status;
    const int n_decoder = list_tests(&plan, NULL, false, NULL), n_encoder = list_tests(&plan, NULL, true, NULL);
    const int n_tests = n_decoder > n_encoder ? n_decoder : n_encoder;
    const int64_t n_engines = (int64_t)(plan.n_models ? plan.n_models : 1) * plan.levels.n * plan.threads.n;
    const int64_t n_rows = n_engines * plan.kv_types.n * plan.depths.n * n_tests; /* below 2^42 */
    if (n_tests == 0) return cli_bad_usage("nothing to test: both --prompt and --predict are 0");
    if (n_rows > MAX_TESTS)
        return cli_bad_usage("%lld combinations of models and options; %d are possible", (long long)n_rows, MAX_TESTS);

    bench_table table = {.rows = calloc((size_t)n_rows, sizeof(*table.rows)),
                         .machines = calloc((size_t)n_engines, sizeof(*table.machines))};
    bench_progress progress = {.total = (uint64_t)n_rows * (uint64_t)(plan.repetitions + 1)};
    cli_progress_init(&progress.bar, "bench");
    if (!table.rows || !table.machines)
        status = cli_fail("out of memory for %lld tests; close other programs, or ask for less", (long long)n_rows);
    else
        status = check_models(&plan);
    if (status == CLI_OK) status = cli_recording_start(&plan.recording, plan.models, plan.n_models, argc, argv);
    if (status == CLI_OK) status = plan.n_models ? run_all(&plan, &progress, &table) : run_peaks(&plan, &table);
    cli_progress_end(&progress.bar);
    status = cli_recording_stop(&plan.recording, status);
    /* What was measured before a failure or an interruption is shown all the same; the status tells. */
    if (table.n_rows > 0 || (plan.n_models == 0 && status == CLI_OK)) {
        const int printed = plan.print(&table, plan.repetitions, plan.roofline);
        const int flushed = printed == CLI_OK ? cli_finish_output() : printed;
        if (status == CLI_OK) status = flushed;
    }
    free(table.rows);
    free(table.machines);
    return status;
}
