/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_args.c -- the bytes, split at zeros, as a command line: parsed against a table with an option of
 * every kind; each argument as a number, against strtoll and strtod; the whole as a list of tokens; and as stop strings
 * and a text cut in pieces, against a search through the whole. Broken promises trap; leaks and bad accesses are the
 * sanitizers' business. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require_at(int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
    __builtin_trap();
}
#define REQUIRE(x) ((x) ? (void)0 : require_at(__LINE__, #x))

/* What the program says is not wanted here, what the fuzzer says is: so not the streams, but the names are bent. */
static FILE *sink;
#undef stdout
#undef stderr
#define stdout      sink
#define stderr      sink
#define printf(...) fprintf(sink, __VA_ARGS__)
#include "cli/args.c"
#include "cli/common.c"
#include "cli/files.c"
#include "serve/stop.c"
#include "cli/values.c"
#undef printf

/* main.c's, which is not here. */
const cli_command *cli_command_get(int i)
{
    (void)i;
    return NULL;
}
int cli_n_commands(void) { return 0; }
void cli_print_help(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    for (int i = 0; i < n; i++) fprintf(sink, "%s %s %s\n", u->command, options[i].name, options[i].help);
}

enum { MAX_INPUT = 2048, MAX_ARGS = 64 };

/* ---- the command line ---- */

typedef struct parsed {
    bool flag, other_flag, int_set;
    int32_t any_int, small;
    uint64_t u64;
    float any_float, half;
    const char *string;
    cli_strings strings;
} parsed;

/* Inside an argument, and terminated there: what options point to must be the caller's own text. */
static bool is_part(const char *p, char *const *argv, int argc)
{
    for (int i = 1; i < argc; i++)
        if (p >= argv[i] && p <= argv[i] + strlen(argv[i])) return true;
    return false;
}

static void check_values(const parsed *v, char *const *argv, int argc)
{
    REQUIRE(v->small >= -3 && v->small <= 17);
    REQUIRE(v->half >= -0.5f && v->half <= 1024.0f);
    REQUIRE(v->any_float >= -0x1p100f && v->any_float <= 0x1p100f);
    REQUIRE(v->int_set || v->any_int == 77);
    REQUIRE(!v->string || is_part(v->string, argv, argc));
    REQUIRE(v->strings.n >= 0 && v->strings.n <= CLI_MAX_STRINGS);
    for (int i = 0; i < v->strings.n; i++) REQUIRE(is_part(v->strings.item[i], argv, argc));
}

static void parse_line(int argc, char **argv)
{
    parsed v = {.any_int = 77};
    const cli_option options[] = {
        {"flag", 'f', CLI_FLAG, &v.flag, NULL, "a flag", 0, 0, NULL},
        {"flag-too", 0, CLI_FLAG, &v.other_flag, NULL, "another", 0, 0, NULL},
        {"int", 'n', CLI_INT, &v.any_int, "N", "any integer", INT32_MIN, INT32_MAX, &v.int_set},
        {"small", 's', CLI_INT, &v.small, "N", "a small one", -3, 17, NULL},
        {"seed", 0, CLI_U64, &v.u64, "N", "64 bits", 0, 0, NULL},
        {"float", 'x', CLI_FLOAT, &v.any_float, "X", "any number", -0x1p100, 0x1p100, NULL},
        {"half", 0, CLI_FLOAT, &v.half, "X", "from -1/2 on", -0.5, 1024, NULL},
        {"string", 'm', CLI_STRING, &v.string, "TEXT", "a text", 0, 0, NULL},
        {"stop", 0, CLI_STRINGS, &v.strings, "TEXT", "up to sixteen", 0, 0, NULL},
    };
    static const cli_usage usage = {"fuzz", "A [B] [C]", "Parses.", "Notes.", NULL, 1, 3};
    const char *args[3] = {0};
    int n_args = -1;
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    REQUIRE(status == -1 || status == CLI_OK || status == CLI_USAGE);
    REQUIRE(n_args >= 0 && n_args <= 3);
    for (int i = 0; i < n_args; i++) REQUIRE(is_part(args[i], argv, argc));
    REQUIRE(status != -1 || n_args >= 1);
    check_values(&v, argv, argc);
    if (status == CLI_OK) { /* only for one reason */
        bool asked = false;
        for (int i = 1; i < argc; i++) asked |= !strcmp(argv[i], "-h") || !strcmp(argv[i], "--help");
        REQUIRE(asked);
    }
}

/* ---- numbers ---- */

static void check_int(const char *text, double lo, double hi)
{
    int64_t got = 424242;
    const bool ok = cli_parse_int(text, lo, hi, &got);
    const size_t sign = text[0] == '-' || text[0] == '+';
    const bool digits = text[sign] && strspn(text + sign, "0123456789") == strlen(text + sign);
    errno = 0;
    const long long want = strtoll(text, NULL, 10);
    /* Both ends of 64 bits may be refused; nothing else that is a number in range, and nothing that isn't may pass. */
    const bool fits = digits && errno == 0 && want < INT64_MAX - 10 && want > INT64_MIN + 10;
    if (ok)
        REQUIRE(digits && errno == 0 && got == want && (double)got >= lo && (double)got <= hi);
    else
        REQUIRE(got == 424242 && !(fits && (double)want >= lo && (double)want <= hi));
}

static void check_float(const char *text, double lo, double hi)
{
    double got = 0.125;
    const bool ok = cli_parse_float(text, lo, hi, &got);
    char *end = NULL;
    const double want = strtod(text, &end);
    if (ok)
        REQUIRE(*text && !*end && got == want && isfinite(got) && got >= lo && got <= hi);
    else
        REQUIRE(got == 0.125);
    if (*text && strspn(text, "0123456789") == strlen(text) && want >= lo && want <= hi) REQUIRE(ok);
}

static void check_tokens(const char *text)
{
    size_t n = SIZE_MAX;
    int32_t *ids = cli_parse_tokens(text, &n);
    if (!ids) return;
    REQUIRE(n <= strlen(text));
    const char *p = text;
    for (size_t i = 0; i < n; i++) {
        p += strcspn(p, "+-0123456789"); /* -0 is a zero */
        char *end = NULL;
        REQUIRE(ids[i] >= 0 && strtoll(p, &end, 10) == ids[i] && end > p);
        p = end;
    }
    REQUIRE(!strpbrk(p, "0123456789")); /* none left out */
    free(ids);
}

/* ---- stop strings ---- */

static size_t first_stop(const char *const *strings, int n, const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++)
        for (int i = 0; i < n; i++) {
            const size_t m = strlen(strings[i]);
            if (m && m <= len - at && memcmp(text + at, strings[i], m) == 0) return at;
        }
    return len;
}

/* All but the last argument stop; the last is the text, in pieces of `step` bytes. */
static void check_stop(const char *const *strings, int n, const char *text, size_t len, size_t step)
{
    static char out[MAX_INPUT + 1];
    size_t n_out = 0, at = 0;
    stop_text s;
    bool going = stop_text_init(&s, strings, n);
    REQUIRE(going);
    while (going && at < len) {
        const size_t k = len - at < step ? len - at : step;
        going = stop_text_push(&s, text + at, k);
        REQUIRE(n_out + s.n_out <= at + k && going == !s.hit);
        memcpy(out + n_out, s.out, s.n_out);
        n_out += s.n_out;
        at += k;
    }
    stop_text_finish(&s);
    REQUIRE(n_out + s.n_out <= len);
    memcpy(out + n_out, s.out, s.n_out);
    n_out += s.n_out;
    REQUIRE(n_out == first_stop(strings, n, text, len) && memcmp(out, text, n_out) == 0);
    stop_text_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[MAX_ARGS + 1] = {0};
    int argc = 1;
    if (!sink) sink = fopen("/dev/null", "w");
    if (!sink || size > MAX_INPUT) return 0;
    argv[0] = strdup("quern");
    for (size_t at = 0; at < size && argc < MAX_ARGS; argc++) { /* each in a block of its own: a byte too far is seen */
        const uint8_t *zero = memchr(data + at, 0, size - at);
        const size_t n = zero ? (size_t)(zero - (data + at)) : size - at;
        argv[argc] = malloc(n + 1);
        memcpy(argv[argc], data + at, n);
        argv[argc][n] = '\0';
        at += n + 1;
    }
    parse_line(argc, argv);
    for (int i = 1; i < argc; i++) {
        check_int(argv[i], -0x1p63, 0x1p63);
        check_int(argv[i], INT32_MIN, INT32_MAX);
        check_int(argv[i], 1, 256);
        check_float(argv[i], -1e300, 1e300);
        check_float(argv[i], 0, 1);
        check_tokens(argv[i]);
    }
    if (argc > 2) {
        const char *const *strings = (const char *const *)&argv[1];
        const char *text = argv[argc - 1];
        const size_t len = strlen(text);
        check_stop(strings, argc - 2, text, len, 1);
        check_stop(strings, argc - 2, text, len, 1 + (size_t)argc);
        check_stop(strings, argc - 2, text, len, len + 1);
    }
    for (int i = 0; i < argc; i++) free(argv[i]);
    return 0;
}
