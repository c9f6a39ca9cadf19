/* SPDX-License-Identifier: MIT */
/* tests/oracle/quant_pack.c -- prints tests/unit/quant/pack_figures.h: what ggml's own packers leave as error on the
 * rows of tests/unit/quant/rows.h. Not part of the build: it calls the library that its witness installs (generic
 * x86-64 code).
 *
 * The committed figures are from ggml 0.18.1. An overflow of ggml's (scales beyond binary16) shows as INFINITY. */
#include <stdio.h>

#include <ggml.h>

#include "../unit/quant/rows.h"

static const struct {
    const char *name;
    enum ggml_type type;
    /* clang-format off */
} formats[] = {
    {"Q4_0", GGML_TYPE_Q4_0},     {"Q4_1", GGML_TYPE_Q4_1},     {"Q5_0", GGML_TYPE_Q5_0},   {"Q5_1", GGML_TYPE_Q5_1},
    {"Q8_0", GGML_TYPE_Q8_0},     {"Q2_K", GGML_TYPE_Q2_K},     {"Q3_K", GGML_TYPE_Q3_K},   {"Q4_K", GGML_TYPE_Q4_K},
    {"Q5_K", GGML_TYPE_Q5_K},     {"Q6_K", GGML_TYPE_Q6_K},     {"IQ4_NL", GGML_TYPE_IQ4_NL},
    {"IQ4_XS", GGML_TYPE_IQ4_XS},
    {"TQ1_0", GGML_TYPE_TQ1_0},   {"TQ2_0", GGML_TYPE_TQ2_0},   {"MXFP4", GGML_TYPE_MXFP4}, {"NVFP4", GGML_TYPE_NVFP4},
};
/* clang-format on */

static float x[N_ROWS * N_COLS], y[N_ROWS * N_COLS], w[N_COLS];
static unsigned char packed[N_ROWS * N_COLS * 8];

static void print_error(enum ggml_type type, int dist, double scale, const float *importance, const char *after)
{
    double error;

    rows_fill(dist, scale, x);
    ggml_quantize_chunk(type, x, packed, 0, N_ROWS, N_COLS, importance);
    ggml_get_type_traits(type)->to_float(packed, y, N_ROWS * N_COLS);
    error = rows_error(x, y, importance);
    if (isfinite(error))
        printf("%.7g%s", error, after);
    else
        printf("INFINITY%s", after);
}

int main(void)
{
    rows_importance(w);
    printf("/* SPDX-License-Identifier: MIT */\n"
           "/* tests/unit/quant/pack_figures.h -- sums of squared errors that ggml 0.18.1 leaves; by "
           "tests/oracle/quant_pack.c.\n"
           " * error[distribution][scale] is without importance, weighted[distribution] with it and by it, at scale 1. "
           "*/\n"
           "static const struct pack_figure {\n    const char *name;\n    double error[N_DISTS][N_SCALES];\n"
           "    double weighted[N_DISTS];\n} pack_figures[] = {\n");
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        printf("    {\"%s\",\n     {", formats[f].name);
        for (int dist = 0; dist < N_DISTS; dist++) {
            printf("%s{", dist ? "      " : "");
            for (int i = 0; i < N_SCALES; i++)
                print_error(formats[f].type, dist, rows_scale[i], NULL, i < N_SCALES - 1 ? ", " : "}");
            printf(dist < N_DISTS - 1 ? ",\n" : "},\n     {");
        }
        for (int dist = 0; dist < N_DISTS; dist++)
            print_error(formats[f].type, dist, 1, w, dist == N_DISTS - 1 ? "}},\n" : dist == 5 ? ",\n      " : ", ");
    }
    printf("};\n");
    return 0;
}
