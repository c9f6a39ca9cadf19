/* SPDX-License-Identifier: MIT */
/* src/cli/inspect.c -- quern inspect: metadata and tensors of a GGUF file, as text, JSON or CSV, and verification.
 * Touches no tensor page unless asked to verify. */
#include "cli/source.h"
#include <jansson.h>
#include <quern/gguf.h>
#include <string.h>

static const cli_usage usage = {
    .command = "inspect",
    .arguments = "MODEL",
    .summary = "Shows the metadata and the tensors of a GGUF file; --verify reads all of it and looks for damage.",
    .notes =
        "CSV columns: name, file_offset, size_bytes, type, layer, component, n_dims, dim0.. (outermost first); expert "
        "tensors have one row an expert.\n"
        "Exit status 1 when --verify finds something.",
    .examples = "What is in a file:\nquern inspect model.gguf\n"
                "Is it whole?\nquern inspect model.gguf --verify\n"
                "The tensors for a spreadsheet:\nquern inspect model.gguf --csv > tensors.csv\n",
    .min_args = 1,
    .max_args = 1,
};

/* ---- rows: a tensor, or one expert of it ---- */

typedef struct tensor_row {
    const qn_gguf_tensor *t;
    int64_t expert; /* -1: not split */
    uint64_t offset, bytes;
    qn_shape shape;
    int layer;          /* -1 outside layers */
    char component[80]; /* the name without "blk.N." and ".weight" */
} tensor_row;

/* A row takes some 200 bytes of text: a file that says it has an expert a byte must not become that. */
enum { MOST_EXPERTS = 4096, LEAST_EXPERT_BYTES = 32 };

static bool is_experts(const qn_gguf_tensor *t)
{
    const int64_t n = t->shape.rank == 3 ? t->shape.dim[0] : 0;
    return strstr(t->name, "_exps.") && n > 0 && n <= MOST_EXPERTS && t->size_bytes / (uint64_t)n >= LEAST_EXPERT_BYTES;
}

static void describe(const qn_gguf_tensor *t, int64_t expert, tensor_row *row)
{
    *row = (tensor_row){.t = t, .expert = expert, .offset = t->file_offset, .bytes = t->size_bytes, .shape = t->shape};
    const char *name = t->name;
    int end = 0;
    if (sscanf(name, "blk.%d.%n", &row->layer, &end) == 1 && end > 0)
        name += end;
    else
        row->layer = -1;
    size_t len = strlen(name);
    if (len > 7 && strcmp(name + len - 7, ".weight") == 0) len -= 7;
    snprintf(row->component, sizeof(row->component), "%.*s", (int)len, name);
    if (expert < 0) return;
    row->bytes = t->size_bytes / (uint64_t)t->shape.dim[0];
    row->offset += row->bytes * (uint64_t)expert;
    row->shape = (qn_shape){2, {t->shape.dim[1], t->shape.dim[2]}};
}

typedef int (*row_fn)(void *ctx, const tensor_row *row);

static int each_row(const qn_gguf *file, bool split_experts, row_fn fn, void *ctx)
{
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        const bool split = split_experts && is_experts(t);
        for (int64_t e = split ? 0 : -1; e < (split ? t->shape.dim[0] : 0); e++) {
            tensor_row row;
            describe(t, e, &row);
            const int status = fn(ctx, &row);
            if (status != CLI_OK) return status;
        }
    }
    return CLI_OK;
}

/* ---- CSV ---- */

static int csv_row(void *ctx, const tensor_row *row)
{
    (void)ctx;
    cli_put_csv(row->t->name);
    if (row->expert >= 0) printf("[%lld]", (long long)row->expert);
    printf(",%llu,%llu,%s,", (unsigned long long)row->offset, (unsigned long long)row->bytes,
           qn_dtype_get(row->t->dtype)->name);
    if (row->layer >= 0) printf("%d", row->layer);
    putchar(',');
    cli_put_csv(row->component);
    printf(",%d", row->shape.rank);
    for (int i = 0; i < QN_MAX_RANK; i++) {
        putchar(',');
        if (i < row->shape.rank) printf("%lld", (long long)row->shape.dim[i]);
    }
    putchar('\n');
    return CLI_OK;
}

/* ---- text ---- */

static int text_row(void *ctx, const tensor_row *row)
{
    (void)ctx;
    char shape[128];
    printf("%-36s %-8s %-20s %12llu bytes at %llu\n", row->t->name, qn_dtype_get(row->t->dtype)->name,
           qn_shape_print(&row->shape, shape, sizeof(shape)), (unsigned long long)row->bytes,
           (unsigned long long)row->offset);
    return CLI_OK;
}

/* Control bytes shown as escapes; at most `max` bytes. */
static void put_string(const char *s, size_t n, size_t max)
{
    putchar('"');
    for (size_t i = 0; i < n && i < max; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c == '\n')
            fputs("\\n", stdout);
        else if (c < 32 || c == 127)
            printf("\\x%02x", c);
        else if (c == '"' || c == '\\')
            printf("\\%c", c);
        else
            putchar(c);
    }
    fputs(n > max ? "\"..." : "\"", stdout);
}

static int print_value(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index)
{
    qn_error err;
    qn_gguf_str str;
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    if (kv->elem == QN_GGUF_str) {
        if (qn_gguf_get_str(file, kv, index, &str, &err) != QN_OK) return cli_fail_error(&err);
        put_string(str.data, str.len, 120);
    } else if (kv->elem == QN_GGUF_bool) {
        if (qn_gguf_get_bool(file, kv, index, &b, &err) != QN_OK) return cli_fail_error(&err);
        fputs(b ? "true" : "false", stdout);
    } else if (kv->elem == QN_GGUF_f32 || kv->elem == QN_GGUF_f64) {
        if (qn_gguf_get_f64(file, kv, index, &f, &err) != QN_OK) return cli_fail_error(&err);
        printf("%g", f);
    } else if (qn_gguf_get_i64(file, kv, index, &i, NULL) == QN_OK) {
        printf("%lld", (long long)i);
    } else if (qn_gguf_get_u64(file, kv, index, &u, NULL) == QN_OK) {
        printf("%llu", (unsigned long long)u);
    } else {
        fputs("...", stdout); /* an array of arrays */
    }
    return CLI_OK;
}

static int print_metadata(const qn_gguf *file)
{
    for (size_t k = 0; k < qn_gguf_n_kv(file); k++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(file, k);
        const bool array = kv->type == QN_GGUF_arr;
        if (array)
            printf("%-44s %s[%llu] = [", kv->key, qn_gguf_type_name(kv->elem), (unsigned long long)kv->count);
        else
            printf("%-44s %s = ", kv->key, qn_gguf_type_name(kv->type));
        for (uint64_t i = 0; i < kv->count && i < 6; i++) {
            if (i) fputs(", ", stdout);
            const int status = print_value(file, kv, i);
            if (status != CLI_OK) return status;
        }
        puts(array ? kv->count > 6 ? ", ...]" : "]" : "");
    }
    return CLI_OK;
}

static void print_summary(const qn_gguf *file)
{
    uint64_t bytes[QN_DTYPE_COUNT] = {0}, params = 0;
    int count[QN_DTYPE_COUNT] = {0};
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        bytes[t->dtype] += t->size_bytes;
        count[t->dtype]++;
        params += (uint64_t)qn_shape_numel(&t->shape);
    }
    printf("GGUF version %u, %s-endian, alignment %u, %llu bytes", qn_gguf_version(file),
           qn_gguf_big_endian(file) ? "big" : "little", qn_gguf_alignment(file),
           (unsigned long long)qn_gguf_file_bytes(file));
    if (qn_gguf_n_parts(file) > 1) printf(" in %d parts", qn_gguf_n_parts(file));
    printf("\n%zu tensors, %.3f M parameters\n", qn_gguf_n_tensors(file), (double)params * 1e-6);
    for (int d = 0; d < QN_DTYPE_COUNT; d++)
        if (count[d])
            printf("  %-8s %5d tensors %14llu bytes\n", qn_dtype_get((qn_dtype)d)->name, count[d],
                   (unsigned long long)bytes[d]);
}

/* ---- JSON ---- */

static json_t *json_value(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index)
{
    qn_gguf_str str;
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    if (kv->elem == QN_GGUF_str) {
        if (qn_gguf_get_str(file, kv, index, &str, NULL) != QN_OK) return json_null();
        json_t *text = json_stringn(str.data, str.len);
        if (text) return text;
        /* Not UTF-8 (a vocabulary may hold anything): its bytes as numbers. */
        json_t *array = json_array();
        for (size_t k = 0; array && k < str.len; k++)
            json_array_append_new(array, json_integer((unsigned char)str.data[k]));
        return array;
    }
    if (kv->elem == QN_GGUF_bool)
        return qn_gguf_get_bool(file, kv, index, &b, NULL) == QN_OK ? json_boolean(b) : json_null();
    if (kv->elem == QN_GGUF_f32 || kv->elem == QN_GGUF_f64) {
        json_t *real = qn_gguf_get_f64(file, kv, index, &f, NULL) == QN_OK ? json_real(f) : NULL;
        return real ? real : json_null(); /* JSON has no NaN and no infinity */
    }
    if (qn_gguf_get_i64(file, kv, index, &i, NULL) == QN_OK) return json_integer(i);
    if (qn_gguf_get_u64(file, kv, index, &u, NULL) == QN_OK) return json_real((double)u);
    return json_null();
}

/* A value at a time: a list of a billion numbers takes no memory. */
static int put_json(json_t *value)
{
    if (!value) return cli_no_memory("out of memory");
    const bool put = json_dumpf(value, stdout, JSON_ENCODE_ANY) == 0;
    json_decref(value);
    if (put) return CLI_OK;
    return cli_pipe_closed() ? CLI_PIPE : cli_fail("cannot write the JSON text");
}

static int put_json_metadata(const qn_gguf *file)
{
    int status = CLI_OK;
    for (size_t k = 0; k < qn_gguf_n_kv(file) && status == CLI_OK; k++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(file, k);
        const bool array = kv->type == QN_GGUF_arr;
        fputs(k ? ",\n  " : "\n  ", stdout);
        status = put_json(json_string(kv->key));
        fputs(array ? ": [" : ": ", stdout);
        for (uint64_t i = 0; status == CLI_OK && i < (array ? kv->count : 1); i++) {
            if (i) fputs(", ", stdout);
            status = put_json(json_value(file, kv, i));
        }
        if (array) putchar(']');
    }
    return status;
}

static int json_row(void *ctx, const tensor_row *row)
{
    bool *later = ctx;
    json_t *shape = json_array(), *tensor = NULL;
    for (int i = 0; shape && i < row->shape.rank; i++) json_array_append_new(shape, json_integer(row->shape.dim[i]));
    tensor = json_pack("{s:s, s:s, s:o, s:I, s:I, s:i, s:s}", "name", row->t->name, "type",
                       qn_dtype_get(row->t->dtype)->name, "shape", shape, "file_offset", (json_int_t)row->offset,
                       "size_bytes", (json_int_t)row->bytes, "part", row->t->part, "component", row->component);
    if (tensor && row->layer >= 0) json_object_set_new(tensor, "layer", json_integer(row->layer));
    if (tensor && row->expert >= 0) json_object_set_new(tensor, "expert", json_integer(row->expert));
    fputs(*later ? ",\n  " : "\n  ", stdout);
    *later = true;
    return put_json(tensor);
}

static int print_json(const qn_gguf *file)
{
    bool later = false;
    printf("{\n \"version\": %u,\n \"big_endian\": %s,\n \"alignment\": %u,\n \"parts\": %d,\n \"file_bytes\": %llu,\n "
           "\"metadata\": {",
           qn_gguf_version(file), qn_gguf_big_endian(file) ? "true" : "false", qn_gguf_alignment(file),
           qn_gguf_n_parts(file), (unsigned long long)qn_gguf_file_bytes(file));
    int status = put_json_metadata(file);
    fputs("\n },\n \"tensors\": [", stdout);
    if (status == CLI_OK) status = each_row(file, true, json_row, &later);
    puts("\n ]\n}");
    return status;
}

/* ---- verification ---- */

/* Beside the listing, or, where programs read that, on standard error. */
static void print_finding(void *ctx, const char *tensor, const char *text) { fprintf(ctx, "%s: %s\n", tensor, text); }

int cli_command_inspect(int argc, char **argv)
{
    bool json = false, csv = false, tensors = false, verify = false;
    const cli_option options[] = {
        {"json", 0, CLI_FLAG, &json, NULL, "everything as JSON", 0, 0, NULL},
        {"csv", 0, CLI_FLAG, &csv, NULL, "the tensors as CSV", 0, 0, NULL},
        {"tensors", 0, CLI_FLAG, &tensors, NULL, "only the tensors, one line each", 0, 0, NULL},
        {"verify", 0, CLI_FLAG, &verify, NULL, "read all data and report overlaps, NaN and infinities", 0, 0, NULL},
        CLI_STORE_OPTIONS,
    };
    const char *path = NULL;
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &path, &n_args);
    if (status >= 0) return status;
    if (json + csv + tensors > 1) return cli_bad_usage("--json, --csv and --tensors exclude each other");
    qn_gguf *file = NULL;
    qn_error err;
    path = cli_model_path(path);
    if (!path) return CLI_FAILED;
    if (qn_gguf_open(path, NULL, &file, &err) != QN_OK) return cli_fail_error(&err);
    if (json) {
        status = print_json(file);
    } else if (csv) {
        fputs("name,file_offset,size_bytes,type,layer,component,n_dims", stdout);
        for (int i = 0; i < QN_MAX_RANK; i++) printf(",dim%d", i);
        putchar('\n');
        status = each_row(file, true, csv_row, NULL);
    } else if (tensors) {
        status = each_row(file, false, text_row, NULL);
    } else if (!verify) {
        status = print_metadata(file);
        print_summary(file);
    } else {
        status = CLI_OK;
    }
    if (status == CLI_OK && verify) {
        if (qn_gguf_verify(file, print_finding, json || csv ? stderr : stdout, &err) != QN_OK)
            status = cli_fail_error(&err);
        else if (!json && !csv)
            printf("%s: no damage found in %zu tensors\n", path, qn_gguf_n_tensors(file));
    }
    if (status == CLI_OK) status = cli_finish_output();
    qn_gguf_close(file);
    return status;
}
