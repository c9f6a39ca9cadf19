/* SPDX-License-Identifier: MIT */
/* src/cli/cli.h -- what commands share: options, messages, progress, output. Commands see the public headers and this.
 *
 * Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 the reader of the output went away. Messages go to
 * standard error, one line each; results to standard output. */
#ifndef QN_CLI_CLI_H
#define QN_CLI_CLI_H

#include <quern/engine.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130, CLI_PIPE = 141 };

/* ---- commands ---- */
typedef struct cli_command {
    char name[16];
    const char *help;
    int (*run)(int argc, char **argv);
} cli_command;
int cli_n_commands(void);
const cli_command *cli_command_get(int i);
/* NULL when there is none of that name. */
const cli_command *cli_command_find(const char *name);
/* Standard error says that there is no such command and which one is near; returns CLI_USAGE. */
int cli_no_command(const char *name);

/* What to do for a model that is not here. */
#define CLI_NO_DOWNLOADS "Quern downloads nothing: get a .gguf by ollama, huggingface-cli or curl"

/* ---- options ---- */
typedef enum cli_kind {
    CLI_FLAG,
    CLI_INT,
    CLI_U64,
    CLI_FLOAT,
    CLI_STRING,
    CLI_STRINGS,
    CLI_OUTPUT,
    CLI_GROUP
} cli_kind;
#define CLI_MAX_STRINGS 16
typedef struct cli_strings {
    const char *item[CLI_MAX_STRINGS];
    int n;
} cli_strings;

/* One option, one row; `at` points to a bool, int32_t, uint64_t, float, const char * or cli_strings by kind; CLI_OUTPUT
 * is a CLI_STRING that names a file to be written, which then must not be one that is read. `set`,
 * when given, says whether the option stood on the command line. Help, manual pages and completions are made of the
 * same rows. */
typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    cli_kind kind;
    void *at;
    const char *argument; /* "N": how help shows the value; a row of values.def says what it stands for */
    const char *help;
    double lo, hi; /* of numbers, both ends in; of CLI_U64: lo -1 takes -1 for 0 */
    bool *set;
} cli_option;

/* A row that is no option: the heading of those that follow it. */
#define CLI_OPTION_GROUP(title) \
    { \
        "", 0, CLI_GROUP, NULL, NULL, title, 0, 0, NULL \
    }

typedef struct cli_usage {
    const char *command, *arguments, *summary; /* "run", "MODEL [PROMPT]"; the arguments' words are in values.def too */
    const char *notes;                         /* shown after the options, a paragraph a line; NULL: none */
    const char *examples;                      /* lines in pairs: what it does, the command */
    int min_args, max_args;
} cli_usage;

/* Options may stand anywhere; `--` ends them; `--name=value` and `--name value`, `-n5` and `-n 5` are the same. args
 * receives up to max_args positional arguments. Returns -1 to go on, or the status to exit with (--help printed, or a
 * message about what is wrong). */
int cli_parse(const cli_usage *usage, const cli_option *options, int n_options, int argc, char **argv,
              const char **args, int *n_args);
/* Which of the options stand on a command line that cli_parse took. given: [n_options], all false. */
void cli_given(const cli_option *options, int n_options, int argc, char **argv, bool *given);
/* CLI_USAGE, with a message, when one of the options given is none of `names` (with spaces between them): in `mode` it
 * would do nothing. */
int cli_only(const cli_option *options, int n_options, int argc, char **argv, const char *names, const char *mode);
/* NULL when there is none of that name. */
const cli_option *cli_find_option(const cli_option *options, int n_options, const char *name, size_t len);
/* One option's value; NULL for a flag. Words of a list are spelled in text as the list has them. -1 to go on, or the
 * status to exit with. */
int cli_store(const cli_option *option, char *text);
/* The same options from a file, one "name = value" a line; a flag's value is true or false, # begins a comment. -1 to
 * go on, or the status to exit with. Strings stay in *text, which is freed with free when the options are no longer
 * used. */
int cli_parse_file(const char *path, const cli_option *options, int n_options, char **text);
/* Whole-string numbers: false on empty, trailing characters, overflow, or outside [lo, hi]. */
bool cli_parse_int(const char *text, double lo, double hi, int64_t *out);
bool cli_parse_float(const char *text, double lo, double hi, double *out);
/* "1500000", "512M" or "1.5G" (powers of 1024) into bytes. */
bool cli_parse_size(const char *text, uint64_t *out);
#define CLI_N(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- messages ---- */
/* "quern COMMAND: text" on standard error; returns CLI_FAILED or CLI_USAGE. */
int cli_fail(const char *fmt, ...) QN_PRINTF(1, 2);
int cli_fail_error(const qn_error *err);
int cli_no_memory(const char *text); /* what memory is missing for; says what to do about it */
int cli_bad_usage(const char *fmt, ...) QN_PRINTF(1, 2);
void cli_note(const char *fmt, ...) QN_PRINTF(1, 2);
extern const char *cli_name; /* of the running command */

/* ---- progress: a bar on standard error, on a terminal only ---- */
/* How wide the terminal at fd is; 0: it is none, or doesn't say. */
int cli_columns(int fd);
typedef struct cli_progress {
    const char *what;
    bool on, shown;
    int64_t last_ns, start_ns;
    int last_percent;
} cli_progress;
void cli_progress_init(cli_progress *p, const char *what);
/* A qn_progress_fn when ctx is a cli_progress; false once the user interrupted. */
bool cli_progress_step(void *ctx, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *p);
int64_t cli_now_ns(void);

/* ---- files that are read and written ---- */
/* cli_parse notes those of the command line, by the rows of options and values.def, and refuses what is both:
 * CLI_USAGE, with a message. */
int cli_note_files(const cli_usage *usage, const cli_option *options, int n_options, const char *const *args,
                   int n_args);
/* The same for one that is read and found otherwise; of a split model all parts. The path must stay. */
int cli_reads(const char *path);
/* And for one to be written, as cli_output_open asks. */
int cli_may_write(const char *path);

/* ---- output ---- */
/* Flushes standard output; CLI_FAILED with a message when anything written to it was lost. */
int cli_finish_output(void);
/* A CSV field on standard output, quoted where it must be. */
void cli_put_csv(const char *text);
/* The file's whole text, or standard input's for "-"; NULL after a message. Freed with free. */
char *cli_read_text(const char *path, size_t max_bytes, size_t *len);
/* A file that is written by way of a temporary one beside it, so that a full disk leaves no half of it. A symbolic link
 * stays one; a device, a pipe, and what standard output already goes to are written to as they are. Closing takes the
 * status so far: unless it is CLI_OK nothing takes the file's place. Both fail with a message. */
typedef struct cli_output {
    FILE *file;
    const char *path;
    char temporary[4096], target[4096]; /* temporary "": in place */
} cli_output;
int cli_output_open(cli_output *o, const char *path);
int cli_output_close(cli_output *o, int status);
/* Writes text so; "-" is standard output. */
int cli_write_text(const char *path, const char *text, size_t len);

/* ---- interruption ---- */
void cli_catch_signals(void);
bool cli_interrupted(void); /* by the user, or because nobody reads the output any more */
bool cli_pipe_closed(void);
/* From now on an interrupt stops what the session computes, which fails with cancelled; NULL: none does, and the one
 * before can be used again. */
void cli_interrupt_stops(qn_session *session);
/* For a command that goes on after Ctrl-C: reading from a terminal ends with EINTR, and the flag can be cleared. Three
 * that nobody noticed end the program all the same. */
void cli_interrupts_ask(void);
void cli_clear_interrupt(void);
/* For a command that runs until it is ended: SIGTERM interrupts too, and a reader that went away does not. */
void cli_catch_termination(void);
/* For a command that can end early and keep what it has: the first SIGTERM or SIGHUP interrupts, as Ctrl-C does. */
void cli_catch_stop(void);
/* SIGHUP is noted from here on. Whether one came since the last call. */
bool cli_hung_up(void);

/* ---- token lists: "1,2,3", a JSON array, numbers between blanks ---- */
/* NULL after a message; freed with free. */
int32_t *cli_parse_tokens(const char *text, size_t *n);
int32_t *cli_read_tokens(const char *text, size_t *n); /* @FILE is such a list in a file */

#define QN_COMMAND(name, help) int cli_command_##name(int argc, char **argv);
#include "cli/commands.def"
#undef QN_COMMAND

#endif
