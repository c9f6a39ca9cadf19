/* SPDX-License-Identifier: MIT */
/* src/cli/source.c -- finding the file that a MODEL argument stands for. */
#include "cli/source.h"
#include "cli/describe.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OLLAMA_SYSTEM "/usr/share/ollama/.ollama/models"

cli_strings cli_models_dirs;

/* Of the process: the store, and the model that was asked for last. */
static qn_store *store;
static const qn_store_model *found;

qn_store *cli_open_new_store(qn_error *err)
{
    qn_store *opened = NULL;
    for (int i = 0; i < cli_models_dirs.n; i++) {
        struct stat st;
        if (stat(cli_models_dirs.item[i], &st) == 0 && S_ISDIR(st.st_mode)) continue;
        err->status = QN_STATUS_io;
        snprintf(err->text, sizeof(err->text), "--models-dir: %.400s is no folder", cli_models_dirs.item[i]);
        return NULL;
    }
    const qn_store_places places = {
        .folders = cli_models_dirs.item,
        .n_folders = cli_models_dirs.n,
        .home = getenv("HOME"),
        .cache_home = getenv("XDG_CACHE_HOME"),
        .ollama_models = getenv("OLLAMA_MODELS"),
        .ollama_system = OLLAMA_SYSTEM,
        .hf_hub_cache = getenv("HF_HUB_CACHE"),
        .hf_home = getenv("HF_HOME"),
        .llama_cache = getenv("LLAMA_CACHE"),
    };
    return qn_store_open(&places, &opened, err) == QN_OK ? opened : NULL;
}

const qn_store *cli_open_store(void)
{
    qn_error err = {0};
    if (!store && !(store = cli_open_new_store(&err))) cli_fail_error(&err);
    return store;
}

/* ---- names ---- */

static bool ends_in(const char *text, const char *ending)
{
    const size_t n = strlen(text), len = strlen(ending);
    return n > len && strcmp(text + n - len, ending) == 0;
}

/* A file that is there, or what nothing but a path is written as. */
static bool is_path(const char *text)
{
    struct stat st;
    if (stat(text, &st) == 0 && !S_ISDIR(st.st_mode)) return true;
    return text[0] == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0;
}

/* What opens files has the better message for these. */
static bool looks_like_path(const char *text)
{
    struct stat st;
    return stat(text, &st) == 0 || (ends_in(text, ".gguf") && !strstr(text, "://"));
}

/* What of a model's name is compared: the tag too only where one was typed. */
static char *comparable(const char *name, bool tagged)
{
    const char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
    const bool cut = colon && !tagged && (!slash || colon > slash);
    return strndup(name, cut ? (size_t)(colon - name) : strlen(name));
}

static const char *candidate(const void *ctx, int i) { return ((char *const *)ctx)[i]; }

/* Up to three names that are near, with commas between them. */
static void list_near(const char *text, char **names, char *list, size_t size)
{
    const char *near;
    size_t len = 0;
    for (int n = 0; n < 3 && (near = cli_nearest(text, candidate, names)) && *near; n++) {
        char taken[256];
        snprintf(taken, sizeof(taken), "%s", near);
        len += (size_t)snprintf(list + len, size - len, "%s%s", n ? ", " : "", taken);
        for (char **name = names; *name; name++)
            if (strncmp(*name, taken, sizeof(taken) - 1) == 0) **name = '\0';
    }
}

static int no_model(const char *text)
{
    const size_t n = qn_store_n_models(store);
    const char *slash = strrchr(text, '/'), *colon = strrchr(text, ':');
    char list[800] = "", **names = calloc(n + 1, sizeof(*names));
    for (size_t i = 0; names && i < n; i++) {
        names[i] = comparable(qn_store_get(store, i)->name, colon && (!slash || colon > slash));
        if (!names[i]) break;
    }
    if (names) list_near(text, names, list, sizeof(list));
    for (size_t i = 0; names && i < n; i++) free(names[i]);
    free(names);
    if (*list)
        return cli_fail("%.200s: no such file, and no model of that name; near are: %s; " CLI_NO_DOWNLOADS, text, list);
    return cli_fail(
        "%.200s: no such file, and no model of that name; \"quern list\" shows those that are here; " CLI_NO_DOWNLOADS,
        text);
}

const char *cli_model_path(const char *text)
{
    qn_error err;
    if (found && found->path == text) return text;
    found = NULL;
    if (ends_in(text, ".safetensors")) {
        cli_fail("%.200s: models must be GGUF; download the GGUF of it, or convert its folder with llama.cpp's "
                 "convert_hf_to_gguf.py",
                 text);
        return NULL;
    }
    if (is_path(text)) return text;
    if (!cli_open_store()) return NULL;
    const qn_status status = qn_store_find(store, text, &found, &err);
    if (status == QN_OK) return cli_reads(found->path) == CLI_OK ? found->path : NULL;
    if (status == QN_STATUS_state && looks_like_path(text)) return text;
    if (status == QN_STATUS_state)
        no_model(text);
    else
        cli_fail_error(&err);
    return NULL;
}

const qn_store_model *cli_model_found(const char *path) { return found && found->path == path ? found : NULL; }

/* ---- a model's own options ---- */

typedef struct defaults {
    const cli_option *options;
    const bool *given; /* [n] */
    int n, status;
    char *text; /* of the line that says what was set */
    FILE *line;
} defaults;

/* Values that the options point to from then on; they live as long as the program. */
static struct kept {
    struct kept *next;
    char text[];
} * kept;

static char *keep(const char *value)
{
    const size_t n = strlen(value) + 1;
    struct kept *k = malloc(sizeof *k + n);
    if (!k) return NULL;
    memcpy(k->text, value, n);
    k->next = kept;
    kept = k;
    return k->text;
}

static void set_option(defaults *d, const char *option, const char *label, char *value)
{
    const cli_option *o = cli_find_option(d->options, d->n, option, strlen(option));
    if (!o || !value || d->given[o - d->options]) return;
    if (cli_store(o, value) >= 0) return; /* it said so; the command's own default stays */
    fprintf(d->line, "%s%s", ftell(d->line) ? ", " : "", label);
}

const char *cli_param_option(int i, const char **option)
{
    static const struct {
        const char *name, *option;
    } rows[] = {
#define CLI_PARAM(name, option) {name, option},
#include "cli/params.def"
#undef CLI_PARAM
    };
    if (i >= CLI_N(rows)) return NULL;
    *option = rows[i].option;
    return rows[i].name;
}

static void set_param(void *ctx, const char *name, const char *value)
{
    const char *row, *option;
    char label[96];
    for (int i = 0; (row = cli_param_option(i, &option)); i++)
        if (strcmp(row, name) == 0) {
            snprintf(label, sizeof(label), "%s %s", name, value);
            set_option(ctx, option, label, keep(value));
        }
}

int cli_model_defaults(const qn_store_model *model, const cli_option *options, int n, int argc, char **argv)
{
    qn_error err;
    size_t len;
    char *system = NULL;
    if (!model || (!model->params && !model->system)) return -1;
    bool *given = calloc((size_t)n, sizeof(*given));
    defaults d = {.options = options, .given = given, .n = n};
    d.line = given ? open_memstream(&d.text, &len) : NULL;
    if (!d.line) {
        free(given);
        return cli_no_memory("out of memory");
    }
    cli_given(options, n, argc, argv, given);
    qn_status status = qn_store_read_params(model, set_param, &d, &err);
    if (status == QN_OK) status = qn_store_read_system(model, &system, &err);
    if (system) set_option(&d, "system", "system", keep(system));
    qn_free(system);
    const bool written = fclose(d.line) == 0;
    if (status == QN_OK && written && *d.text) cli_note("%s sets: %s", model->name, d.text);
    free(d.text);
    free(given);
    return status == QN_OK ? -1 : cli_fail_error(&err);
}
