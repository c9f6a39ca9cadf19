/* SPDX-License-Identifier: MIT */
/* src/cli/files.c -- the files that a command reads and those it writes: none may be both, and none be written twice.
 * They are compared by device and inode, so that links and other spellings of a path count; one that is not there yet
 * by its folder and name. */
#include "cli/describe.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file, or a place for one: then the folder's numbers, and the name in it. */
typedef struct place {
    dev_t dev;
    ino_t ino;
    const char *name; /* NULL: the file is there */
} place;

/* Of the command line that was parsed last. */
static struct used {
    struct used *next;
    place place;
    const char *path, *option; /* that it is written for; NULL: it is read */
} * used;

/* What is no regular file, such as a terminal or a pipe, may be named as often as one likes. */
static bool find_place(const char *path, place *out)
{
    struct stat st;
    char folder[4096];
    *out = (place){0};
    if (stat(path, &st) != 0) {
        const char *slash = strrchr(path, '/');
        const int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
        out->name = slash ? slash + 1 : path;
        if (n < 0 || (size_t)n >= sizeof folder || stat(folder, &st) != 0) return false;
    } else if (!S_ISREG(st.st_mode)) {
        return false;
    }
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    return true;
}

static bool same_place(const place *a, const place *b)
{
    if (a->dev != b->dev || a->ino != b->ino || !a->name != !b->name) return false;
    return !a->name || strcmp(a->name, b->name) == 0;
}

/* The program's own output may get several texts one after the other. */
static bool is_own_stream(const place *p)
{
    struct stat st;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (!p->name && fstat(fd, &st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino) return true;
    return false;
}

static int refuse_read(const char *path, const char *option)
{
    const bool named = option && *option;
    return cli_bad_usage("%s%s%s%s is what is read; write to another file", named ? "--" : "", named ? option : "",
                         named ? ": " : "", path);
}

/* option: NULL where the file is read, "" where an argument names what is written. */
static int add(const char *path, const char *option)
{
    place p;
    if (strcmp(path, "-") == 0 || !find_place(path, &p) || (!option && p.name)) return CLI_OK;
    for (const struct used *u = used; u; u = u->next) {
        if ((!u->option && !option) || !same_place(&u->place, &p)) continue;
        if (!u->option || !option) return refuse_read(option ? path : u->path, option ? option : u->option);
        if (!is_own_stream(&p))
            return cli_bad_usage("--%s and --%s write to one file, %s; name another for one of them", u->option, option,
                                 path);
    }
    struct used *more = malloc(sizeof *more);
    if (!more) return cli_no_memory("out of memory");
    *more = (struct used){used, p, path, option};
    used = more;
    return CLI_OK;
}

int cli_reads(const char *path)
{
    char part[4096];
    unsigned of = 0;
    int end = 0;
    const size_t len = strlen(path), tail = strlen("-00001-of-00002.gguf");
    int status = add(path, NULL);
    if (len < tail || len >= sizeof part) return status;
    if (sscanf(path + len - tail, "-%*5u-of-%5u.gguf%n", &of, &end) != 1 || (size_t)end != tail) return status;
    for (unsigned i = 1; i <= of && status == CLI_OK; i++) {
        snprintf(part, sizeof part, "%.*s-%05u-of-%05u.gguf", (int)(len - tail), path, i, of);
        status = add(part, NULL);
    }
    /* Their paths are gone with this function; of the file that was named, the message may speak. */
    for (struct used *u = used; u; u = u->next)
        if (u->path == part) u->path = path;
    return status;
}

int cli_may_write(const char *path)
{
    place p;
    if (!used || !find_place(path, &p)) return CLI_OK;
    for (const struct used *u = used; u; u = u->next)
        if (!u->option && same_place(&u->place, &p)) return refuse_read(path, NULL);
    return CLI_OK;
}

/* ---- of a command line ---- */

/* The text of an option or an argument; placeholder: "FILE", "LORA.gguf[:SCALE]", "[MODEL...]". */
static int note_text(const char *placeholder, const char *text)
{
    static char cut[4096]; /* a path without :SCALE; what is kept of it is where it lies */
    const cli_value *value = placeholder ? cli_value_find(placeholder) : NULL;
    if (!value || !text) return CLI_OK;
    if (value->kind == CLI_VALUE_output) return add(text, "");
    if (value->kind != CLI_VALUE_file && value->kind != CLI_VALUE_gguf) return CLI_OK;
    const char *colon = strstr(placeholder, "[:") ? strrchr(text, ':') : NULL;
    if (!colon || access(text, F_OK) == 0) return cli_reads(text);
    snprintf(cut, sizeof cut, "%.*s", (int)(colon - text), text);
    return cli_reads(cut);
}

static int note_option(const cli_option *o)
{
    int status = CLI_OK;
    if (o->kind == CLI_OUTPUT) {
        const char *path = *(const char *const *)o->at;
        return path ? add(path, o->name) : CLI_OK;
    }
    if (o->kind == CLI_STRING) return note_text(o->argument, *(const char *const *)o->at);
    if (o->kind != CLI_STRINGS) return CLI_OK;
    const cli_strings *list = o->at;
    for (int i = 0; i < list->n && status == CLI_OK; i++) status = note_text(o->argument, list->item[i]);
    return status;
}

int cli_note_files(const cli_usage *u, const cli_option *options, int n, const char *const *args, int n_args)
{
    int status = CLI_OK;
    const char *word = u->arguments;
    while (used) { /* of the command line before */
        struct used *next = used->next;
        free(used);
        used = next;
    }
    for (int i = 0; i < n_args && status == CLI_OK; i++) {
        char placeholder[64];
        const size_t len = strcspn(word, " ");
        snprintf(placeholder, sizeof placeholder, "%.*s", (int)len, word);
        if (word[len]) word += len + 1; /* the last word stands for all that follow */
        status = note_text(placeholder, args[i]);
    }
    for (int i = 0; i < n && status == CLI_OK; i++) status = note_option(&options[i]);
    return status;
}
