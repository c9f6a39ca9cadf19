/* SPDX-License-Identifier: MIT */
/* src/cli/reorder.c -- quern reorder: a model file with its tensors in another order. Everything else is the same: all
 * keys, and every tensor's bytes. */
#include "cli/cli.h"
#include "cli/source.h"
#include <quern/gguf.h>
#include <quern/trace.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "reorder",
    .arguments = "FROM.gguf OUT.gguf",
    .summary = "Writes a model with its tensors in the order in which they are used, so that it is read from the disk "
               "from front to back.",
    .notes = "Converters write layers in the order of their names too: 0, 1, 10, 11, 2. Keys and the bytes of tensors "
             "stay as they are; the parts of a split file become one file.",
    .examples = "Layers in the order of their numbers:\nquern reorder model.gguf sorted.gguf\n"
                "As a recorded run used them:\nquern reorder model.gguf sorted.gguf --trace trace.qtr\n",
    .min_args = 2,
    .max_args = 2,
};

/* Where a tensor goes: those of a smaller group first, in it by number, else as they were. */
typedef struct place {
    const qn_gguf_tensor *tensor;
    size_t group, number, was;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->was > y->was) - (x->was < y->was);
}

/* "enc.blk.12.attn_q.weight": 12, and the length of "enc.blk."; -1: of no layer. */
static int64_t layer_of(const char *name, size_t *prefix)
{
    const char *blk = strstr(name, "blk.");
    if (!blk || (blk != name && blk[-1] != '.')) return -1;
    const char *digits = blk + 4, *end = digits + strspn(digits, "0123456789");
    if (end == digits || *end != '.' || end - digits > 9) return -1;
    *prefix = (size_t)(digits - name);
    return strtol(digits, NULL, 10);
}

/* What comes behind the layers. */
static bool is_last(const char *name) { return strncmp(name, "output", 6) == 0 || strncmp(name, "cls", 3) == 0; }

/* Stacks of layers, such as enc.blk and dec.blk, in the order of their first. */
enum { MAX_STACKS = 16 }; /* more than any model has; what comes beyond them is one stack */

typedef struct stacks {
    struct {
        const char *name;
        size_t len;
    } stack[MAX_STACKS];
    int n;
} stacks;

static int stack_of(stacks *s, const char *name, size_t len)
{
    int i = 0;
    while (i < s->n && (s->stack[i].len != len || memcmp(s->stack[i].name, name, len) != 0)) i++;
    if (i == s->n && i < MAX_STACKS) {
        s->stack[i].name = name;
        s->stack[i].len = len;
        s->n++;
    }
    return i;
}

/* What lies outside layers comes before them, but for outputs. */
static void place_by_layer(place *places, size_t n)
{
    stacks s = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        place *p = &places[i];
        size_t prefix = 0;
        const int64_t layer = layer_of(p->tensor->name, &prefix);
        p->number = layer >= 0 ? (size_t)layer : 0;
        if (layer >= 0)
            p->group = 1 + (size_t)stack_of(&s, p->tensor->name, prefix);
        else
            p->group = is_last(p->tensor->name) ? MAX_STACKS + 2 : 0;
    }
}

static int by_address(const void *a, const void *b)
{
    const qn_gguf_tensor *x = ((const place *)a)->tensor, *y = ((const place *)b)->tensor;
    return (x > y) - (x < y);
}

/* By its first use in a step's graph; what is not used there goes behind. false: nothing is. Tensors of a file lie in
 * an array, in the file's order. */
static bool place_by_plan(const qn_gguf *file, place *places, size_t n, const qn_trace_plan *plan)
{
    size_t next = 0;
    for (size_t i = 0; i < n; i++) places[i].group = 1;
    for (int32_t k = 0; k < plan->n_nodes; k++) {
        const qn_trace_node *node = &plan->nodes[k];
        for (int32_t s = 0; s < node->n_src && node->computes; s++) {
            const char *name = plan->nodes[plan->nodes[node->src[s]].root].name;
            const place key = {.tensor = qn_gguf_tensor_find(file, name)};
            place *p = key.tensor ? bsearch(&key, places, n, sizeof(*places), by_address) : NULL;
            if (!p || p->group == 0) continue;
            p->group = 0;
            p->number = next++;
        }
    }
    return next > 0;
}

static int place_by_trace(const qn_gguf *file, place *places, size_t n, const char *path)
{
    qn_trace *trace = NULL;
    qn_trace_info info;
    qn_error err;
    if (qn_trace_open(path, &trace, &err) != QN_OK) return cli_fail_error(&err);
    qn_trace_get_info(trace, &info);
    int64_t step = 0;
    while (step < info.n_steps && (!info.steps[step].plan || !place_by_plan(file, places, n, info.steps[step].plan)))
        step++;
    const bool found = step < info.n_steps;
    qn_trace_close(trace);
    return found ? CLI_OK
                 : cli_fail("%s: no step uses a tensor of %s; record a run of this model", path, qn_gguf_path(file));
}

enum { PIECE = 8 << 20 };

static int write_tensors(qn_gguf_writer *w, const place *places, size_t n, uint64_t total)
{
    cli_progress progress;
    uint64_t done = 0;
    int status = CLI_OK;
    cli_progress_init(&progress, "writing");
    for (size_t i = 0; i < n && status == CLI_OK; i++) {
        const qn_gguf_tensor *t = places[i].tensor;
        for (uint64_t at = 0; at < t->size_bytes && status == CLI_OK; at += PIECE) {
            const uint64_t piece = t->size_bytes - at < PIECE ? t->size_bytes - at : PIECE;
            qn_gguf_write_data(w, (const char *)t->data + at, (size_t)piece);
            done += piece;
            if (!cli_progress_step(&progress, done, total)) status = CLI_INTERRUPTED;
            if (qn_gguf_writer_status(w, NULL) != QN_OK) at = t->size_bytes - piece; /* commit says why */
        }
    }
    cli_progress_end(&progress);
    return status;
}

static int write_file(const qn_gguf *file, const char *out, const place *places, size_t n)
{
    qn_gguf_writer *w = NULL;
    qn_error err;
    uint64_t total = 0;
    if (qn_gguf_writer_create(out, &w, &err) != QN_OK) return cli_fail_error(&err);
    if (qn_gguf_kv_find(file, "general.alignment")) qn_gguf_write_u32(w, "general.alignment", qn_gguf_alignment(file));
    qn_gguf_write_kvs(w, file, "");
    for (size_t i = 0; i < n; i++) {
        qn_gguf_declare(w, places[i].tensor->name, places[i].tensor->dtype, &places[i].tensor->shape);
        total += places[i].tensor->size_bytes;
    }
    const int status = write_tensors(w, places, n, total);
    if (status != CLI_OK) {
        qn_gguf_writer_abort(w);
        return status;
    }
    return qn_gguf_writer_commit(w, &err) == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int reorder(const qn_gguf *file, const char *out, const char *trace)
{
    const size_t n = qn_gguf_n_tensors(file);
    if (qn_gguf_big_endian(file))
        return cli_fail("%s is big-endian: only little-endian files can be reordered", qn_gguf_path(file));
    place *places = calloc(n + 1, sizeof(*places));
    if (!places) return cli_no_memory("out of memory for the list of tensors");
    for (size_t i = 0; i < n; i++) places[i] = (place){.tensor = qn_gguf_tensor_get(file, i), .was = i};
    int status = CLI_OK;
    if (trace)
        status = place_by_trace(file, places, n, trace);
    else
        place_by_layer(places, n);
    qsort(places, n, sizeof(*places), by_place);
    if (status == CLI_OK) status = write_file(file, out, places, n);
    free(places);
    return status;
}

int cli_command_reorder(int argc, char **argv)
{
    const char *args[2] = {0}, *by = NULL, *trace = NULL;
    const cli_option options[] = {
        {"by", 0, CLI_STRING, &by, "ORDER", "what the order comes from (default: layer, by numbers)", 0, 0, NULL},
        {"trace", 0, CLI_STRING, &trace, "FILE", "as a recorded run used them", 0, 0, NULL},
        CLI_STORE_OPTIONS,
    };
    int n_args = 0;
    const int usage_status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (usage_status >= 0) return usage_status;
    if (by && trace) return cli_bad_usage("--by and --trace exclude each other");
    args[0] = cli_model_path(args[0]);
    if (!args[0]) return CLI_FAILED;
    qn_gguf *file = NULL;
    qn_error err;
    if (qn_gguf_open(args[0], NULL, &file, &err) != QN_OK) return cli_fail_error(&err);
    const int status = reorder(file, args[1], trace);
    qn_gguf_close(file);
    return status;
}
