/* SPDX-License-Identifier: MIT */
/* src/cli/train_draw.c -- the curve of a training as SVG: every step thinly, their running mean, and the evaluations.
 */
#include "cli/train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 440, LEFT = 60, RIGHT = 20, TOP = 46, BOTTOM = 48, MAX_POINTS = 2000 };

typedef struct frame {
    double x0, x1, y0, y1;
} frame; /* the data's ranges */

static double at_x(const frame *f, double x) { return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT); }
static double at_y(const frame *f, double y) { return TOP + (f->y1 - y) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM); }

/* 1, 2 or 5 times a power of ten, about five to the range. */
static double tick(double range)
{
    const double raw = range / 5, ten = pow(10, floor(log10(raw))), part = raw / ten;
    return ten * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void draw_axes(FILE *out, const frame *f)
{
    const double dx = tick(f->x1 - f->x0), dy = tick(f->y1 - f->y0);
    for (double x = ceil(f->x0 / dx) * dx; x <= f->x1 + dx * 1e-6; x += dx) {
        fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", at_x(f, x), TOP, at_x(f, x),
                HEIGHT - BOTTOM);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", at_x(f, x), HEIGHT - BOTTOM + 17,
                x);
    }
    for (double y = ceil(f->y0 / dy) * dy; y <= f->y1 + dy * 1e-6; y += dy) {
        fprintf(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT, at_y(f, y),
                WIDTH - RIGHT, at_y(f, y));
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, at_y(f, y) + 4,
                fabs(y) < dy * 1e-6 ? 0 : y);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 12);
    fprintf(out, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">bits per byte</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

/* What is drawn of a row: its loss, the running mean, or its evaluation. */
typedef enum line_kind { EACH, MEAN, HELD } line_kind;

static void draw_line(FILE *out, const frame *f, const train_log *log, double bits, line_kind kind)
{
    static const char *const classes[] = {"each", "mean", "held"};
    const int32_t stride = kind == HELD ? 1 : log->n / MAX_POINTS + 1;
    double mean = log->rows[0].loss;
    fprintf(out, "<polyline class=\"%s\" points=\"", classes[kind]);
    for (int32_t i = 0; i < log->n; i++) {
        const train_row *r = &log->rows[i];
        mean += (r->loss - mean) * fmax(0.02, 1.0 / (i + 1.0));
        const double y = kind == HELD ? r->held : bits * (kind == EACH ? r->loss : mean);
        if (isnan(y) || i % stride) continue;
        fprintf(out, "%.1f,%.1f ", at_x(f, r->step), at_y(f, fmin(fmax(y, f->y0), f->y1)));
    }
    fputs("\"/>\n", out);
}

static frame frame_of(const train_log *log, double bits)
{
    frame f = {0, log->rows[log->n - 1].step, INFINITY, 0};
    for (int32_t i = 0; i < log->n; i++) {
        const train_row *r = &log->rows[i];
        f.y0 = fmin(f.y0, bits * r->loss);
        f.y1 = fmax(f.y1, bits * r->loss);
        if (isnan(r->held)) continue;
        f.y0 = fmin(f.y0, r->held);
        f.y1 = fmax(f.y1, r->held);
    }
    const double dy = tick(fmax(f.y1 - f.y0, 1e-3));
    f.y0 = floor(f.y0 / dy) * dy;
    f.y1 = ceil(f.y1 / dy + 1e-9) * dy;
    return f;
}

static void put_xml(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if ((unsigned char)*text >= 32)
            fputc(*text, out);
    }
}

static void legend(FILE *out, int x, const char *class, const char *text)
{
    fprintf(out, "<line class=\"%s\" x1=\"%d\" y1=\"36\" x2=\"%d\" y2=\"36\"/><text x=\"%d\" y=\"40\">%s</text>\n",
            class, x, x + 22, x + 28, text);
}

int train_draw(const train_log *log, const char *path, const char *title, double bits)
{
    char *text = NULL;
    size_t len = 0;
    if (log->n == 0) return CLI_OK;
    FILE *out = open_memstream(&text, &len);
    if (!out) return cli_no_memory("out of memory");
    const frame f = frame_of(log, bits);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", WIDTH,
            HEIGHT, WIDTH, HEIGHT);
    fputs("<style>text{font:12px "
          "sans-serif;fill:#333}.grid{stroke:#ddd}.each,.mean,.held{fill:none}.each{stroke:#9ec5e8;stroke-width:1}"
          ".mean{stroke:#1f6fb2;stroke-width:2}.held{stroke:#c8501e;stroke-width:2}</style>\n",
          out);
    fprintf(out,
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"18\" style=\"font-weight:bold\">",
            WIDTH, HEIGHT, LEFT);
    put_xml(out, title);
    fputs("</text>\n", out);
    legend(out, LEFT, "each", "a step's batch");
    legend(out, LEFT + 140, "mean", "running mean");
    legend(out, LEFT + 270, "held", "held out");
    draw_axes(out, &f);
    for (line_kind kind = EACH; kind <= HELD; kind++) draw_line(out, &f, log, bits, kind);
    fputs("</svg>\n", out);
    const bool good = fclose(out) == 0;
    const int status = good ? cli_write_text(path, text, len) : cli_no_memory("out of memory");
    free(text);
    return status;
}
