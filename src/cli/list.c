/* SPDX-License-Identifier: MIT */
/* src/cli/list.c -- quern list: the models that are on this machine. Of each file only the header is read. */
#include "cli/card.h"
#include <quern/engine.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "list",
    .arguments = "",
    .summary = "Lists the models that Ollama, Hugging Face's tools, LM Studio and llama.cpp have downloaded, and those "
               "in --models-dir: name, source, architecture, type, size, and whether this build runs them.",
    .notes = "A name in the first column can be given wherever a command takes MODEL. What cannot be used is counted, "
             "and listed by --all with the reason: a download that is not finished, a link that leads nowhere, an "
             "architecture that is not known.",
    .examples = "What can be used:\nquern list\n"
                "A folder of one's own too:\nquern list --models-dir .\n"
                "The architectures of which models run:\nquern list --archs\n"
                "For a program:\nquern list --json\n",
    .min_args = 0,
    .max_args = 0,
};

enum { NAME, SOURCE, ARCH, TYPE, SIZE, RUNS, COLUMNS };

/* Those that can be used come before the others. */
typedef struct table {
    char (*cell)[COLUMNS][512]; /* [n] */
    bool *runs;                 /* [n] */
    size_t n, n_run;
    int width[COLUMNS];
} table;

/* Characters, as far as a terminal gives each one place. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void fill_row(char row[COLUMNS][512], const qn_store_model *m, const cli_card *card)
{
    snprintf(row[NAME], 512, "%s", m->name);
    snprintf(row[SOURCE], 512, "%s", qn_store_kind_name(m->store));
    snprintf(row[ARCH], 512, "%s", *card->facts.arch ? card->facts.arch : "-");
    snprintf(row[TYPE], 512, "%s", *card->facts.type ? card->facts.type : "-");
    cli_print_bytes(row[SIZE], 512, m->bytes);
    if (m->bytes == 0) strcpy(row[SIZE], "-");
    snprintf(row[RUNS], 512, "%s%.500s", card->runs ? "yes" : "no: ", card->runs ? "" : card->reason);
}

static void print_row(const table *t, char row[COLUMNS][512])
{
    for (int c = 0; c < COLUMNS; c++) {
        const int pad = t->width[c] - width_of(row[c]);
        if (c == SIZE) printf("%*s", pad, "");
        fputs(row[c], stdout);
        if (c < COLUMNS - 1) printf("%*s", (c == SIZE ? 0 : pad) + 2, "");
    }
    putchar('\n');
}

static void print_rows(const table *t, bool runs)
{
    for (size_t i = 0; i < t->n && !cli_interrupted(); i++)
        if (t->runs[i] == runs) print_row(t, t->cell[i]);
}

static void print_table_of(table *t, const qn_store *store, bool all)
{
    static char head[COLUMNS][512] = {"NAME", "SOURCE", "ARCHITECTURE", "TYPE", "SIZE", "RUNS"};
    for (int c = 0; c < COLUMNS; c++) t->width[c] = width_of(head[c]);
    for (size_t i = 0; i < t->n && !cli_interrupted(); i++) {
        const qn_store_model *m = qn_store_get(store, i);
        cli_card card;
        cli_card_read(m->path, m->problem, &card, NULL);
        fill_row(t->cell[i], m, &card);
        t->runs[i] = card.runs;
        t->n_run += card.runs;
        for (int c = 0; c < COLUMNS && (all || card.runs); c++)
            if (width_of(t->cell[i][c]) > t->width[c]) t->width[c] = width_of(t->cell[i][c]);
    }
    if (all ? t->n : t->n_run) print_row(t, head);
    print_rows(t, true);
    if (all) print_rows(t, false);
}

static int print_table(const qn_store *store, bool all)
{
    table t = {.n = qn_store_n_models(store)};
    t.cell = calloc(t.n + 1, sizeof(*t.cell));
    t.runs = calloc(t.n + 1, sizeof(*t.runs));
    if (t.cell && t.runs) print_table_of(&t, store, all);
    const bool whole = t.cell && t.runs;
    free(t.cell);
    free(t.runs);
    if (!whole) return cli_no_memory("out of memory");
    if (cli_interrupted()) return CLI_INTERRUPTED;
    const int status = cli_finish_output(); /* before the line that comes behind it */
    if (!all && t.n > t.n_run)
        cli_note("%zu %scannot be used; --all lists %s with the reason", t.n - t.n_run, t.n_run ? "more " : "",
                 t.n - t.n_run == 1 ? "it" : "them");
    if (t.n == 0) cli_note("no models are here; --models-dir DIR looks into a folder; " CLI_NO_DOWNLOADS);
    return status;
}

static int dump(const json_t *list)
{
    if (json_dumpf(list, stdout, JSON_INDENT(1)) != 0)
        return cli_pipe_closed() ? CLI_PIPE : cli_fail("cannot write the JSON text");
    putchar('\n');
    return CLI_OK;
}

static int print_json(const qn_store *store)
{
    json_t *list = json_array();
    int status = list ? CLI_OK : cli_no_memory("out of memory");
    for (size_t i = 0; i < qn_store_n_models(store) && status == CLI_OK; i++) {
        const qn_store_model *m = qn_store_get(store, i);
        cli_card card;
        if (cli_interrupted()) status = CLI_INTERRUPTED;
        cli_card_read(m->path, m->problem, &card, NULL);
        if (json_array_append_new(list, cli_card_json(&card, m->path, m)) != 0) status = cli_no_memory("out of memory");
    }
    if (status == CLI_OK) status = dump(list);
    json_decref(list);
    return status == CLI_OK ? cli_finish_output() : status;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* One a line, or an array of JSON, in order of name. */
static int print_archs(bool json)
{
    json_t *list = json_array();
    int status = list ? CLI_OK : cli_no_memory("out of memory");
    size_t n = 0;
    while (qn_architectures()[n]) n++;
    const char **names = malloc((n + 1) * sizeof *names);
    if (!names && status == CLI_OK) status = cli_no_memory("out of memory");
    if (status == CLI_OK) {
        memcpy(names, qn_architectures(), n * sizeof *names);
        qsort(names, n, sizeof *names, by_name);
    }
    for (size_t i = 0; i < n && status == CLI_OK; i++) {
        if (!json)
            puts(names[i]);
        else if (json_array_append_new(list, json_string(names[i])) != 0)
            status = cli_no_memory("out of memory");
    }
    free(names);
    if (json && status == CLI_OK) status = dump(list);
    json_decref(list);
    return status == CLI_OK ? cli_finish_output() : status;
}

int cli_command_list(int argc, char **argv)
{
    bool json = false, archs = false, all = false;
    const cli_option options[] = {
        {"all", 'a', CLI_FLAG, &all, NULL, "what cannot be used too, with the reason", 0, 0, NULL},
        {"json", 0, CLI_FLAG, &json, NULL, "everything as JSON", 0, 0, NULL},
        {"archs", 0, CLI_FLAG, &archs, NULL, "the architectures of which this build runs models, and no models", 0, 0,
         NULL},
        CLI_STORE_OPTIONS,
    };
    int n_args = 0;
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, NULL, &n_args);
    if (status >= 0) return status;
    if (archs) return print_archs(json);
    const qn_store *store = cli_open_store();
    if (!store) return CLI_FAILED;
    return json ? print_json(store) : print_table(store, all);
}
