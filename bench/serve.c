/* SPDX-License-Identifier: MIT */
/* bench/serve.c -- load on a server of OpenAI's interface, ours or another: N streams at once, a long prompt beside
 * streams, a short question behind a long prompt, /health while a prompt is read, and an idle minute. Prompts are token
 * ids, so that every server reads as much; ends of generation are forbidden. bench/serve.sh runs all of it;
 * `bench_serve` alone tells the options.
 *
 * One thread waits in poll for all connections, so that measuring takes next to nothing of the machine. A gap is the
 * time between two events of a stream that carry text. */
#include "serve.h"

static const char usage[] = "usage: bench_serve [OPTION..] MODE..\n"
                            "\n"
                            "  --port N           of the server on 127.0.0.1 (8080)\n"
                            "  --name TEXT        of the server, in the table (server)\n"
                            "  --model TEXT       asked for by name (none)\n"
                            "  --prompt N         tokens of a prompt (128)\n"
                            "  --tokens N         tokens written by each stream (64)\n"
                            "  --most N           tokens written by streams that are stopped (480)\n"
                            "  --long N           tokens of the long prompt (16384)\n"
                            "  --beside N         streams beside the long prompt (8)\n"
                            "  --seconds N        of idling (60)\n"
                            "  --pid N            of the server, for idle\n"
                            "  --ids LOW-HIGH     ids that prompts are made of (1000-1999)\n"
                            "  --eos N            id of the end of a generation (2)\n"
                            "  --csv FILE         rows are appended: server,mode,streams,figure,value\n"
                            "  --key TEXT         sent as a bearer token\n"
                            "\n"
                            "modes: N (streams at once: 1, 8, 64 ..), beside, behind, health, idle\n";

static void put(const char *mode, int streams, const char *figure, double value, const char *unit)
{
    printf("%-10s %-7s %3d  %-34s %10.2f %s\n", o.name, mode, streams, figure, value, unit);
    fflush(stdout);
    if (!o.csv) return;
    FILE *f = fopen(o.csv, "a");
    if (!f) fail("cannot write %s", o.csv);
    fprintf(f, "%s,%s,%d,%s %s,%.3f\n", o.name, mode, streams, figure, unit, value);
    fclose(f);
}

/* ---- figures --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *x, size_t n, double q)
{
    if (n == 0) return 0;
    qsort(x, n, sizeof(*x), by_value);
    size_t at = (size_t)(q * (double)n);
    return x[at < n ? at : n - 1];
}

/* Of the gaps that overlap [from, to]: what readers see while something goes on. */
static double gap(const stream *s, int n, int64_t from, int64_t to, double q)
{
    size_t most = 1, n_gaps = 0;
    for (int i = 0; i < n; i++) most += (size_t)s[i].n_times;
    double *x = malloc(most * sizeof(*x));
    if (!x) fail("out of memory");
    for (int i = 0; i < n; i++)
        for (int k = 1; k < s[i].n_times; k++)
            if (s[i].times[k] >= from && s[i].times[k - 1] <= to)
                x[n_gaps++] = (double)(s[i].times[k] - s[i].times[k - 1]) * 1e-6;
    const double value = quantile(x, n_gaps, q);
    free(x);
    return value;
}

static double first_token(const stream *s, int n, double q)
{
    double *x = malloc((size_t)n * sizeof(*x));
    if (!x) fail("out of memory");
    for (int i = 0; i < n; i++) x[i] = (double)(s[i].times[0] - s[i].sent_ns) * 1e-6;
    const double value = quantile(x, (size_t)n, q);
    free(x);
    return value;
}

/* Tokens a second in [from, to]. */
static double rate(const stream *s, int n, int64_t from, int64_t to)
{
    int64_t tokens = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < s[i].n_times; k++) tokens += s[i].times[k] > from && s[i].times[k] <= to;
    return (double)tokens / ((double)(to - from) * 1e-9);
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* A number that no prompt of this run, or of one before, began with. */
static uint32_t fresh(void)
{
    static uint32_t n;
    if (!n) n = (uint32_t)now_ns();
    return n += 7919;
}

static bool all_open(const stream *s, int n)
{
    for (int i = 0; i < n; i++)
        if (s[i].over) return false;
    return true;
}

static bool all_write(const stream *s, int n)
{
    for (int i = 0; i < n; i++)
        if (s[i].n_times < 2) return false;
    return true;
}

/* Streams that write until they are stopped. */
static stream *begin_streams(int n, int more)
{
    stream *s = calloc((size_t)(n + more), sizeof(*s));
    if (!s) fail("out of memory");
    for (int i = 0; i < n; i++) stream_open(&s[i], &(ask){.seed = fresh(), .prompt = 16, .tokens = o.most});
    while (!all_write(s, n))
        if (!streams_wait(s, n, -1)) fail("the streams ended at once: has the server that many slots?");
    return s;
}

static void end_streams(stream *s, int n)
{
    for (int i = 0; i < n; i++) stream_free(&s[i]);
    free(s);
}

static void watch(stream *s, int n, int64_t ns)
{
    for (const int64_t end = now_ns() + ns; now_ns() < end;) (void)streams_wait(s, n, end - now_ns());
}

/* Short prompts, so that all write at once: what a second of that yields. */
static void run_writing(int n)
{
    stream *s = begin_streams(n, 0);
    const int64_t start = now_ns(), most = start + INT64_C(10000000000);
    while (now_ns() < most && all_open(s, n)) (void)streams_wait(s, n, most - now_ns());
    const int64_t end = now_ns();
    put("streams", n, "tokens/s, all writing", rate(s, n, start, end), "t/s");
    put("streams", n, "between tokens, median", gap(s, n, start, end, 0.5), "ms");
    put("streams", n, "between tokens, p99", gap(s, n, start, end, 0.99), "ms");
    end_streams(s, n);
}

static void run_streams(int n)
{
    stream *s = calloc((size_t)n, sizeof(*s)), *again = calloc((size_t)n, sizeof(*again));
    if (!s || !again) fail("out of memory");
    const int64_t start = now_ns();
    for (int i = 0; i < n; i++) stream_open(&s[i], &(ask){.seed = fresh(), .prompt = o.prompt, .tokens = o.tokens});
    while (streams_wait(s, n, -1)) {}
    const double seconds = (double)(now_ns() - start) * 1e-9;
    put("streams", n, "tokens/s, from request to end", n * o.tokens / seconds, "t/s");
    put("streams", n, "first token, median", first_token(s, n, 0.5), "ms");
    put("streams", n, "first token, p99", first_token(s, n, 0.99), "ms");
    put("streams", n, "between tokens and prompts, p99", gap(s, n, 0, INT64_MAX, 0.99), "ms");
    /* the second turn: the prompt again, and something new */
    for (int i = 0; i < n; i++)
        stream_open(&again[i], &(ask){.seed = s[i].seed, .prompt = o.prompt, .more = 32, .tokens = 4});
    while (streams_wait(again, n, -1)) {}
    put("streams", n, "second turn, first token, median", first_token(again, n, 0.5), "ms");
    for (int i = 0; i < n; i++) {
        stream_free(&s[i]);
        stream_free(&again[i]);
    }
    free(s);
    free(again);
}

static void until_over(stream *s, int n, const stream *which)
{
    while (!which->over)
        if (!streams_wait(s, n, -1)) break;
}

/* Of the answer to a long prompt: its first token may be a control token, which has no text. */
enum { LONG_TOKENS = 8 };
static int64_t first_text(const stream *s)
{
    if (s->n_times == 0) fail("the answer to the long prompt has no text");
    return s->times[0];
}

static double long_alone(void)
{
    stream s = {0};
    stream_open(&s, &(ask){.seed = fresh(), .prompt = o.long_prompt, .tokens = LONG_TOKENS});
    while (streams_wait(&s, 1, -1)) {}
    const double ms = (double)(first_text(&s) - s.sent_ns) * 1e-6;
    stream_free(&s);
    return ms;
}

static void run_beside(void)
{
    const int n = o.beside;
    const double alone = long_alone();
    stream *s = begin_streams(n, 1), *big = &s[n];
    const int64_t start = now_ns();
    watch(s, n, INT64_C(10000000000));
    const int64_t asked = now_ns();
    stream_open(big, &(ask){.seed = fresh(), .prompt = o.long_prompt, .tokens = LONG_TOKENS});
    until_over(s, n + 1, big);
    const int64_t end = first_text(big);
    const double median = gap(s, n, start, asked, 0.5), p99 = gap(s, n, asked, end, 0.99),
                 beside = (double)(end - asked) * 1e-6;
    put("beside", n, "between tokens, median, without", median, "ms");
    put("beside", n, "between tokens, p99, without", gap(s, n, start, asked, 0.99), "ms");
    put("beside", n, "between tokens, p99, with", p99, "ms");
    put("beside", n, "p99 with / median without", p99 / median, "x (at most 2.5)");
    put("beside", n, "long prompt alone", alone, "ms");
    put("beside", n, "long prompt beside streams", beside, "ms");
    put("beside", n, "beside / alone", beside / alone, "x (at most 2.5)");
    end_streams(s, n + 1);
}

/* A long prompt, and two seconds later a question of 32 tokens; n streams beside both. */
static void run_behind(int n)
{
    double median;
    if (n) {
        stream *s = begin_streams(n, 2);
        const int64_t start = now_ns();
        watch(s, n, INT64_C(10000000000));
        median = gap(s, n, start, now_ns(), 0.5);
        stream_open(&s[n], &(ask){.seed = fresh(), .prompt = o.long_prompt, .tokens = 1});
        watch(s, n + 1, INT64_C(2000000000));
        stream_open(&s[n + 1], &(ask){.seed = fresh(), .prompt = 32, .tokens = 4});
        until_over(s, n + 2, &s[n + 1]);
        const double ms = first_token(&s[n + 1], 1, 0.5);
        put("behind", n, "a step, median", median, "ms");
        put("behind", n, "question behind a long prompt", ms, "ms");
        put("behind", n, "in steps", ms / median, "steps (at most 6)");
        if (s[n].over) printf("(the long prompt was over by then: a longer one is needed)\n");
        end_streams(s, n + 2);
        return;
    }
    stream *s = begin_streams(1, 0);
    const int64_t start = now_ns();
    watch(s, 1, INT64_C(5000000000));
    median = gap(s, 1, start, now_ns(), 0.5);
    end_streams(s, 1);
    stream two[2] = {{0}};
    stream_open(&two[0], &(ask){.seed = fresh(), .prompt = o.long_prompt, .tokens = 1});
    watch(two, 1, INT64_C(2000000000));
    stream_open(&two[1], &(ask){.seed = fresh(), .prompt = 32, .tokens = 4});
    until_over(two, 2, &two[1]);
    const double ms = first_token(&two[1], 1, 0.5);
    put("behind", 0, "a step of one stream, median", median, "ms");
    put("behind", 0, "question behind a long prompt", ms, "ms");
    put("behind", 0, "in steps", ms / median, "steps (at most 6)");
    if (two[0].over) printf("(the long prompt was over by then: a longer one is needed)\n");
    stream_free(&two[0]);
    stream_free(&two[1]);
}

/* From connecting to the end of the reply. */
static double health_ms(void)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)o.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char request[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    char reply[4096];
    size_t n = 0;
    ssize_t got = 0;
    const int64_t start = now_ns();
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0 ||
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
        fail("/health: %s", strerror(errno));
    while (n < sizeof(reply) && (got = recv(fd, reply + n, sizeof(reply) - n, 0)) > 0) n += (size_t)got;
    if (n < 12 || memcmp(reply, "HTTP/1.1 200", 12) != 0) fail("/health does not answer 200");
    close(fd);
    return (double)(now_ns() - start) * 1e-6;
}

/* Twenty times a second while a long prompt is read, with streams beside it. */
static void run_health(void)
{
    enum { MOST = 1 << 16 };
    static double ms[MOST];
    const int n = o.beside;
    size_t count = 0;
    stream *s = begin_streams(n, 1), *big = &s[n];
    stream_open(big, &(ask){.seed = fresh(), .prompt = o.long_prompt, .tokens = 1});
    while (!big->over && count < MOST) {
        watch(s, n + 1, INT64_C(50000000));
        if (!big->over) ms[count++] = health_ms();
    }
    if (!count) fail("the long prompt was over at once: a longer one is needed");
    put("health", n, "asked", (double)count, "times");
    put("health", n, "median", quantile(ms, count, 0.5), "ms");
    put("health", n, "the slowest", quantile(ms, count, 1), "ms (at most 50)");
    end_streams(s, n + 1);
}

/* User and system time of the process, in milliseconds, to the tick of 10. */
static double cpu_ms(long pid)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof(line), f)) fail("cannot read %s", path);
    fclose(f);
    const char *after = strrchr(line, ')');
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("%s is not what it should be", path);
    return (double)(user + system) * 1000.0 / (double)sysconf(_SC_CLK_TCK);
}

static void run_idle(void)
{
    if (!o.pid) fail("idle needs --pid");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    const double before = cpu_ms(o.pid);
    nanosleep(&(struct timespec){.tv_sec = o.seconds}, NULL);
    put("idle", 0, "CPU a minute", (cpu_ms(o.pid) - before) * 60 / (double)o.seconds, "ms (at most 10)");
}

/* ---- main ------------------------------------------------------------------------------------ */

static long number(const char *option, const char *text, long least, long most)
{
    char *end;
    const long x = strtol(text, &end, 10);
    if (*text == 0 || *end || x < least || x > most) fail("%s: %s is not %ld to %ld", option, text, least, most);
    return x;
}

static void set(const char *option, const char *value)
{
    static const struct {
        const char *name;
        int *to;
        int least, most;
    } numbers[] = {{"--port", &o.port, 1, 65535},          {"--prompt", &o.prompt, 1, 1 << 20},
                   {"--tokens", &o.tokens, 2, 1 << 20},    {"--most", &o.most, 2, 1 << 20},
                   {"--long", &o.long_prompt, 1, 1 << 20}, {"--beside", &o.beside, 1, 1024},
                   {"--seconds", &o.seconds, 1, 86400},    {"--eos", &o.eos, 0, 1 << 24},
                   {"--pid", &o.pid, 1, 1 << 30}};
    static const struct {
        const char *name, **to;
    } texts[] = {{"--name", &o.name}, {"--model", &o.model}, {"--csv", &o.csv}, {"--key", &o.key}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(option, numbers[i].name) != 0) continue;
        *numbers[i].to = (int)number(option, value, numbers[i].least, numbers[i].most);
        return;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(option, texts[i].name) != 0) continue;
        *texts[i].to = value;
        return;
    }
    if (strcmp(option, "--ids") == 0 && sscanf(value, "%d-%d", &o.low, &o.high) == 2 && o.low >= 0 && o.low < o.high)
        return;
    fail("%s %s: see bench_serve --help", option, value);
}

int main(int argc, char **argv)
{
    int n_modes = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (argv[i][0] == '-') {
            if (++i == argc) fail("%s needs a value", argv[i - 1]);
            set(argv[i - 1], argv[i]);
            continue;
        }
        n_modes++;
        if (strcmp(argv[i], "beside") == 0) {
            run_beside();
        } else if (strcmp(argv[i], "behind") == 0) {
            run_behind(0);
            run_behind(o.beside);
        } else if (strcmp(argv[i], "health") == 0) {
            run_health();
        } else if (strcmp(argv[i], "idle") == 0) {
            run_idle();
        } else {
            const int n = (int)number("streams", argv[i], 1, 1024);
            run_writing(n);
            run_streams(n);
        }
    }
    if (!n_modes) fputs(usage, stderr);
    return n_modes ? 0 : 2;
}
