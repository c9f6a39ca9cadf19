/* SPDX-License-Identifier: MIT */
/* src/cli/lens_text.c -- quern lens for a terminal: tables of words, heads and patches. */
#include "cli/lens.h"
#include "cli/trace.h"
#include <stdlib.h>
#include <string.h>

enum { CELL = 11, COLUMNS = 8, HEAD = 10, LOOKS = 4 };

/* What a token stands for, safe for a terminal. */
static const char *word(const lens_view *v, qn_token token, char *buf, size_t size)
{
    char *text = lens_text(v->engine, token);
    trace_safe(buf, size, text ? text : "");
    free(text);
    return buf;
}

/* The first `width` - 1 characters, filled up to it. */
static void put_cell(FILE *out, const char *text, int width)
{
    int n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && n < width - 1; n++) {
        size_t len = 1;
        while ((s[len] & 0xc0) == 0x80) len++;
        fwrite(s, 1, len, out);
        s += len;
    }
    fprintf(out, "%*s", width - n, "");
}

static void end_line(FILE *out) { fputc('\n', out); }

static void put_token_row(const lens_view *v, FILE *out, const char *name, const qn_token *tokens, int32_t first,
                          int32_t end)
{
    char text[256];
    put_cell(out, name, HEAD);
    for (int32_t i = first; i < end; i++) put_cell(out, word(v, tokens[i], text, sizeof text), CELL);
    end_line(out);
}

static void print_words(const lens_view *v, FILE *out)
{
    const qn_lens_info *info = &v->info;
    const int32_t end = v->position + 1, first = end > COLUMNS ? end - COLUMNS : 0;
    char name[32], text[256];
    fprintf(out, "What each layer would say next, the most likely word; tokens %d to %d of %d:\n", first, end - 1,
            info->n_tokens);
    put_token_row(v, out, "token", info->tokens, first, end);
    for (int32_t l = info->first_layer; l < info->end_layer; l++) {
        snprintf(name, sizeof name, "layer %d", l);
        put_cell(out, name, HEAD);
        for (int32_t i = first; i < end; i++)
            put_cell(out, word(v, qn_lens_at(v->lens, l, i)->top[0].token, text, sizeof text), CELL);
        end_line(out);
    }
    put_token_row(v, out, "came", info->next, first, end);
}

static void print_place(const lens_view *v, FILE *out)
{
    const qn_lens_info *info = &v->info;
    char text[256], next[256];
    fprintf(out, "\nAfter token %d, \"%s\"; what came is \"%s\":\n", v->position,
            word(v, info->tokens[v->position], text, sizeof text), word(v, info->next[v->position], next, sizeof next));
    fprintf(out, "%-9s %8s %8s %8s %10s  %s\n", "layer", "entropy", "rank", "p", "rms", "words");
    for (int32_t l = info->first_layer; l < info->end_layer; l++) {
        const qn_lens_place *p = qn_lens_at(v->lens, l, v->position);
        fprintf(out, "%-9d %8.3f %8d %8.4f %10.3f  ", l, (double)p->entropy, p->rank, (double)p->p, (double)p->rms);
        for (int32_t i = 0; i < info->n_top; i++)
            fprintf(out, "%s\"%s\" %.3f", i ? ", " : "", word(v, p->top[i].token, text, sizeof text),
                    (double)p->top[i].p);
        end_line(out);
    }
}

/* The greatest few of a row of weights. */
static int greatest(const float *row, int32_t n, int32_t at[LOOKS])
{
    int found = 0;
    for (int32_t i = 0; i < n; i++) {
        int to = found < LOOKS ? found++ : LOOKS;
        for (; to > 0 && row[i] > row[at[to - 1]]; to--)
            if (to < LOOKS) at[to] = at[to - 1];
        if (to < LOOKS) at[to] = i;
    }
    return found;
}

static void print_heads(const lens_view *v, FILE *out)
{
    const int32_t n = v->info.n_tokens;
    double worst = 0;
    char text[256];
    fprintf(out, "\nWhere heads look from token %d: the weight of a token, its number and what it is\n", v->position);
    for (int32_t l = v->info.first_layer; l < v->info.end_layer; l++) {
        for (int32_t h = 0; h < qn_lens_n_heads(v->lens, l); h++) {
            const float *row = qn_lens_attention(v->lens, l, h) + (int64_t)v->position * n;
            int32_t at[LOOKS];
            const int found = greatest(row, n, at);
            fprintf(out, "layer %d head %-4d", l, h);
            for (int i = 0; i < found && row[at[i]] > 0; i++)
                fprintf(out, "%s%.3f %d \"%s\"", i ? ", " : " ", (double)row[at[i]], at[i],
                        word(v, v->info.tokens[at[i]], text, sizeof text));
            end_line(out);
        }
        if (qn_lens_attention_error(v->lens, l) > worst) worst = qn_lens_attention_error(v->lens, l);
    }
    fprintf(out, "weights times values, against what the engine computed: NMSE %.2g at worst\n", worst);
}

static void print_grid(const lens_view *v, FILE *out)
{
    const qn_lens_grid *g = v->grid;
    char a[256], b[256], cell[32];
    fprintf(out, "\nLogit of \"%s\" less that of \"%s\": %.3f after the other prompt, %.3f after this one.\n",
            word(v, g->words[0], a, sizeof a), word(v, g->words[1], b, sizeof b), (double)g->other, (double)g->base);
    fprintf(out, "With %s of one layer and token taken from the other prompt:\n", v->value);
    for (int32_t first = 0; first < g->n_tokens; first += COLUMNS) {
        const int32_t end = g->n_tokens - first < COLUMNS ? g->n_tokens : first + COLUMNS;
        put_token_row(v, out, "other", v->other, first, end);
        put_token_row(v, out, "token", v->info.tokens, first, end);
        for (int32_t l = 0; l < g->n_layer; l++) {
            if (!g->there[l]) continue;
            snprintf(cell, sizeof cell, "layer %d", l);
            put_cell(out, cell, HEAD);
            for (int32_t i = first; i < end; i++) {
                snprintf(cell, sizeof cell, "%.3f", (double)g->difference[(int64_t)l * g->n_tokens + i]);
                put_cell(out, cell, CELL);
            }
            end_line(out);
        }
    }
}

void lens_print(const lens_view *v, FILE *out)
{
    print_words(v, out);
    print_place(v, out);
    if (v->attention) print_heads(v, out);
    if (v->grid) print_grid(v, out);
}
