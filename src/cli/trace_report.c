/* SPDX-License-Identifier: MIT */
/* src/cli/trace_report.c -- quern trace report: one HTML file that holds a trace and the page that shows it, and asks
 * nobody for anything. The page's files (src/cli/report) are in the program; index.html names them in their order, and
 * they are written where it names them. Its Content-Security-Policy runs these scripts alone, by their hashes; what
 * comes of a trace is in it only deflated and in base64. */
#include "cli/trace_report.h"
#include <report.inc>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct page_file {
    const char *name, *sha256; /* in hexadecimal */
    const unsigned char *data;
    size_t n;
} page_file;

static const page_file files[] = {
#define ROW(name, array, sha256) {name, sha256, array, sizeof(array) - 1},
    EMBEDDED_HASHED_ROWS(ROW)
#undef ROW
};

static const struct {
    const char *name;
    bool (*fill)(trace_report_source *s, trace_part *p);
} parts[] = {
#define ROW(name, text) {#name, trace_part_##name},
    TRACE_PART_ROWS(ROW)
#undef ROW
};

#define REPORT_MARK "<!doctype html><!-- quern trace report -->"

typedef struct report {
    trace_report_source source[2];
    int n;
} report;

static const page_file *find_file(const char *name, size_t n)
{
    for (int i = 0; i < CLI_N(files); i++)
        if (strlen(files[i].name) == n && memcmp(files[i].name, name, n) == 0) return &files[i];
    return NULL;
}

/* ---- base64 ---- */

static void put_base64(FILE *out, const uint8_t *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[4096];
    size_t to = 0;
    for (size_t i = 0; i < n; i += 3) {
        const size_t more = n - i;
        const uint32_t x = (uint32_t)data[i] << 16 | (more > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                           (more > 2 ? (uint32_t)data[i + 2] : 0);
        line[to++] = digits[x >> 18];
        line[to++] = digits[x >> 12 & 63];
        line[to++] = more > 1 ? digits[x >> 6 & 63] : '=';
        line[to++] = more > 2 ? digits[x & 63] : '=';
        if (to + 4 > sizeof line) to = (fwrite(line, 1, to, out), 0);
    }
    fwrite(line, 1, to, out);
}

static void put_hash(FILE *out, const page_file *f)
{
    uint8_t bytes[32];
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char hex[3] = {f->sha256[2 * i], f->sha256[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(hex, NULL, 16);
    }
    fputs(" 'sha256-", out);
    put_base64(out, bytes, sizeof bytes);
    fputc('\'', out);
}

/* ---- parts ---- */

static int put_deflated(FILE *out, const char *side, const char *name, const trace_part *p)
{
    uLongf n = compressBound((uLong)p->data.n);
    uint8_t *packed = malloc(n);
    if (!packed || compress2(packed, &n, p->data.at, (uLong)p->data.n, 6) != Z_OK) {
        free(packed);
        return cli_no_memory("out of memory for the data of the report");
    }
    fprintf(out, "<script type=\"application/octet-stream\" id=\"%s%s\">", side, name);
    put_base64(out, packed, n);
    fputs("</script>\n", out);
    free(packed);
    return CLI_OK;
}

static int put_part(FILE *out, const char *side, const char *name, bool filled, trace_part *p)
{
    const bool ok = filled && !p->data.failed;
    const int status = !ok              ? cli_no_memory("out of memory for the data of the report")
                       : p->data.n == 0 ? CLI_OK
                                        : put_deflated(out, side, name, p);
    free(p->data.at);
    return status;
}

/* The parts from `first` to before `last`. */
static int put_parts(FILE *out, trace_report_source *source, const char *side, int first, int last)
{
    int status = CLI_OK;
    for (int i = first; i < last && status == CLI_OK; i++) {
        trace_part p = {0};
        const bool filled = parts[i].fill(source, &p);
        status = put_part(out, side, parts[i].name, filled, &p);
    }
    return status;
}

/* The first part, which is shown at once; of a second trace, what comparing needs. */
static int put_overview(FILE *out, report *r)
{
    int status = put_parts(out, &r->source[0], "part-", 0, 1);
    if (r->n < 2 || status != CLI_OK) return status;
    trace_part p = {0};
    status = put_parts(out, &r->source[1], "other-", 0, 1);
    if (status != CLI_OK) return status;
    const bool filled = trace_part_difference(&r->source[0], &r->source[1], &p);
    return put_part(out, "other-", "difference", filled, &p);
}

/* ---- the page ---- */

/* The policy: nothing from anywhere, but the page's own scripts and styles, and its own data. */
static void put_policy(FILE *out)
{
    static const char *const kinds[][2] = {{".js", "script-src"}, {".css", "style-src"}};
    fputs("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; connect-src data:; base-uri "
          "'none'; "
          "form-action 'none'",
          out);
    for (int k = 0; k < CLI_N(kinds); k++) {
        fprintf(out, "; %s", kinds[k][1]);
        for (int i = 0; i < CLI_N(files); i++) {
            const char *dot = strrchr(files[i].name, '.');
            if (dot && strcmp(dot, kinds[k][0]) == 0) put_hash(out, &files[i]);
        }
    }
    fputs("\">\n", out);
}

/* What stands for something else in index.html, a line each; a line that begins so, to the next quotation mark. */
static const char script_line[] = "<script src=\"", style_line[] = "<link rel=\"stylesheet\" href=\"";

static bool put_inlined(FILE *out, const char *line, const char *before, const char *tag)
{
    const size_t n = strlen(before);
    if (strncmp(line, before, n) != 0) return false;
    const page_file *f = find_file(line + n, strcspn(line + n, "\""));
    if (!f) return false;
    fprintf(out, "<%s>", tag);
    fwrite(f->data, 1, f->n, out);
    fprintf(out, "</%s>\n", tag);
    return true;
}

static int put_page(void *ctx, FILE *out)
{
    report *r = ctx;
    const page_file *index = find_file("index.html", 10);
    int status = CLI_OK;
    const char *line = (const char *)index->data, *end = line + index->n;
    fputs(REPORT_MARK "\n", out);
    while (line < end && status == CLI_OK) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        if (strncmp(line, "<!-- policy -->", 15) == 0)
            put_policy(out);
        else if (strncmp(line, "<!-- overview -->", 17) == 0)
            status = put_overview(out, r);
        else if (strncmp(line, "<!-- parts -->", 14) == 0)
            status = put_parts(out, &r->source[0], "part-", 1, CLI_N(parts));
        else if (!put_inlined(out, line, script_line, "script") && !put_inlined(out, line, style_line, "style"))
            fwrite(line, 1, (size_t)(next - line), out);
        line = next;
    }
    return status;
}

/* ---- the action ---- */

/* A file that is there and no report is somebody's. */
static bool is_others(const char *path)
{
    char head[sizeof REPORT_MARK] = {0};
    FILE *in = fopen(path, "rb");
    if (!in) return false;
    const size_t n = fread(head, 1, sizeof head - 1, in);
    fclose(in);
    return n > 0 && strcmp(head, REPORT_MARK) != 0;
}

static int write_report(const trace_options *o, report *r)
{
    const char *path = o->out ? o->out : "report.html";
    if (!o->out && is_others(path))
        return cli_fail("report.html is there and no report of quern's; -o FILE writes another");
    const int status = trace_write_file(path, put_page, r);
    if (status == CLI_OK && strcmp(path, "-") != 0) printf("%s: open it in a browser\n", path);
    return status == CLI_OK ? cli_finish_output() : status;
}

int trace_report(const trace_options *o, const char *const *paths)
{
    report r = {0};
    int status = CLI_OK, n = 0;
    bool damaged = false;
    for (int i = 0; i < 2 && paths[i] && status == CLI_OK; i++) {
        trace_report_source *s = &r.source[i];
        s->path = paths[i];
        status = trace_open(paths[i], &s->trace, &s->damaged);
        damaged |= s->damaged;
        if (status == CLI_OK) status = trace_sum(s->trace, true, &s->sums);
        n += status == CLI_OK;
    }
    r.n = n;
    if (status == CLI_OK) status = trace_report_read_lens(&r.source[0], o->lens);
    if (status == CLI_OK) status = write_report(o, &r);
    for (int i = 0; i < n; i++) trace_sums_deinit(&r.source[i].sums);
    for (int i = 0; i < 2; i++) qn_trace_close(r.source[i].trace);
    free(r.source[0].lens);
    return status == CLI_OK && damaged ? CLI_FAILED : status;
}
