/* SPDX-License-Identifier: MIT */
/* src/cli/lens_json.c -- quern lens --json: all tokens and layers; the form is in docs/FORMATS.md. */
#include "cli/lens.h"
#include "cli/trace.h"
#include <math.h>
#include <stdlib.h>

static void put_number(FILE *out, const char *form, double x)
{
    if (isfinite(x))
        fprintf(out, form, x);
    else
        fputs("null", out);
}

static void put_text(const lens_view *v, FILE *out, qn_token token)
{
    char *text = lens_text(v->engine, token);
    trace_put_json(out, text ? text : "");
    free(text);
}

static void put_tokens(FILE *out, const char *name, const qn_token *tokens, int32_t n)
{
    fprintf(out, ", \"%s\": [", name);
    for (int32_t i = 0; i < n; i++) fprintf(out, "%s%d", i ? "," : "", tokens[i]);
    fputc(']', out);
}

/* ---- words ---- */

static void note(bool *named, const qn_token *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++) named[tokens[i]] = true;
}

/* Of every token that is named anywhere. */
static void put_words(const lens_view *v, FILE *out)
{
    const qn_lens_info *info = &v->info;
    bool *named = calloc((size_t)info->n_vocab, sizeof *named);
    const char *comma = "";
    fprintf(out, ",\n\"words\": {");
    if (named) {
        note(named, info->tokens, info->n_tokens);
        note(named, info->next, info->n_tokens);
        if (v->grid) note(named, v->grid->words, 2);
        if (v->grid) note(named, v->other, info->n_tokens);
        for (int32_t l = info->first_layer; l < info->end_layer; l++)
            for (int32_t i = 0; i < info->n_tokens; i++)
                for (int32_t k = 0; k < info->n_top; k++) {
                    const qn_token token = qn_lens_at(v->lens, l, i)->top[k].token;
                    if (token >= 0) named[token] = true;
                }
    }
    for (int32_t i = 0; named && i < info->n_vocab; i++) {
        if (!named[i]) continue;
        fprintf(out, "%s\"%d\": ", comma, i);
        put_text(v, out, i);
        comma = ", ";
    }
    fputc('}', out);
    free(named);
}

/* ---- layers ---- */

/* One number of each place of a layer. */
#define PUT_ALL(name, form, field) \
    do { \
        fprintf(out, ", \"%s\": [", name); \
        for (int32_t i = 0; i < v->info.n_tokens; i++) { \
            if (i) fputc(',', out); \
            put_number(out, form, (double)qn_lens_at(v->lens, l, i)->field); \
        } \
        fputc(']', out); \
    } while (0)

static void put_layer(const lens_view *v, FILE *out, int32_t l)
{
    fprintf(out, "{\"layer\": %d", l);
    PUT_ALL("entropy", "%.5g", entropy);
    PUT_ALL("rank", "%.0f", rank);
    PUT_ALL("p", "%.5g", p);
    PUT_ALL("rms", "%.5g", rms);
    PUT_ALL("max", "%.5g", max);
    PUT_ALL("channel", "%.0f", channel);
    fputs(", \"top\": [", out);
    for (int32_t i = 0; i < v->info.n_tokens; i++) {
        const qn_lens_word *top = qn_lens_at(v->lens, l, i)->top;
        fputs(i ? ",[" : "[", out);
        for (int32_t k = 0; k < v->info.n_top; k++) {
            fprintf(out, "%s%d,", k ? "," : "", top[k].token);
            put_number(out, "%.4g", (double)top[k].p);
        }
        fputc(']', out);
    }
    fputs("]}", out);
}

static void put_heads(const lens_view *v, FILE *out, int32_t l)
{
    const int32_t n = v->info.n_tokens;
    fprintf(out, "{\"layer\": %d, \"error\": ", l);
    put_number(out, "%.3g", qn_lens_attention_error(v->lens, l));
    fputs(", \"heads\": [", out);
    for (int32_t h = 0; h < qn_lens_n_heads(v->lens, l); h++) {
        const float *rows = qn_lens_attention(v->lens, l, h);
        fputs(h ? ",\n[" : "[", out);
        for (int64_t i = 0; i < (int64_t)n * n; i++) {
            if (i) fputc(',', out);
            put_number(out, "%.4g", (double)rows[i]);
        }
        fputc(']', out);
    }
    fputs("]}", out);
}

static void put_grid(const lens_view *v, FILE *out)
{
    const qn_lens_grid *g = v->grid;
    fputs(",\n\"patch\": {\"value\": ", out);
    trace_put_json(out, v->value);
    put_tokens(out, "tokens", v->other, g->n_tokens);
    put_tokens(out, "words", g->words, 2);
    fputs(", \"other\": ", out);
    put_number(out, "%.6g", (double)g->other);
    fputs(", \"base\": ", out);
    put_number(out, "%.6g", (double)g->base);
    fputs(", \"difference\": [", out);
    for (int32_t l = 0; l < g->n_layer; l++) {
        if (l) fputs(",\n", out);
        if (!g->there[l]) {
            fputs("null", out);
            continue;
        }
        for (int32_t i = 0; i < g->n_tokens; i++) {
            fputc(i ? ',' : '[', out);
            put_number(out, "%.6g", (double)g->difference[(int64_t)l * g->n_tokens + i]);
        }
        fputc(']', out);
    }
    fputs("]}", out);
}

void lens_print_json(const lens_view *v, FILE *out)
{
    const qn_lens_info *info = &v->info;
    qn_engine_info engine;
    qn_engine_get_info(v->engine, &engine);
    fputs("{\"lens\": 1, \"model\": ", out);
    trace_put_json(out, engine.name);
    fputs(", \"arch\": ", out);
    trace_put_json(out, engine.arch);
    fprintf(out, ", \"n_layer\": %d, \"n_vocab\": %d, \"n_top\": %d", info->n_layer, info->n_vocab, info->n_top);
    put_tokens(out, "tokens", info->tokens, info->n_tokens);
    put_tokens(out, "next", info->next, info->n_tokens);
    put_words(v, out);
    fputs(",\n\"layers\": [", out);
    for (int32_t l = info->first_layer; l < info->end_layer; l++) {
        if (l > info->first_layer) fputs(",\n", out);
        put_layer(v, out, l);
    }
    fputc(']', out);
    if (v->attention) {
        fputs(",\n\"attention\": [", out);
        for (int32_t l = info->first_layer; l < info->end_layer; l++) {
            if (l > info->first_layer) fputs(",\n", out);
            put_heads(v, out, l);
        }
        fputc(']', out);
    }
    if (v->grid) put_grid(v, out);
    fputs("}\n", out);
}
