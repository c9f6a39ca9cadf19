/* SPDX-License-Identifier: MIT */
/* src/cli/trace_experts.c -- which experts a recorded run used: by layer, how evenly, how often neighbours share them,
 * and how much the hottest would serve. */
#include "cli/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 4096, MAX_EXPERTS = 1 << 16 };

/* The experts that the ids of this node are of; 0: they are of something else (small experts that neighbours share,
 * heads of latent attention). */
static int32_t n_experts_of(const qn_trace_plan *plan, int32_t ids)
{
    if (ids < 0 || ids >= plan->n_nodes || strncmp(plan->nodes[ids].name, "ffn_moe_topk", 12) != 0) return 0;
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        const qn_trace_node *n = &plan->nodes[i];
        if (n->cost.n_experts && n->n_src > 2 && plan->nodes[n->src[2]].root == ids)
            return n->cost.n_experts <= MAX_EXPERTS ? (int32_t)n->cost.n_experts : 0;
    }
    return 0;
}

static trace_expert_layer *layer_of(trace_experts *e, int32_t layer, int32_t n_experts)
{
    if (layer < 0 || layer >= MAX_LAYERS) return NULL;
    for (int i = 0; i < e->n_layers; i++)
        if (e->layers[i].layer == layer) return e->layers[i].n_experts == n_experts ? &e->layers[i] : NULL;
    trace_expert_layer *layers = realloc(e->layers, (size_t)(e->n_layers + 1) * sizeof *layers);
    if (layers) e->layers = layers;
    uint64_t *use = layers ? calloc((size_t)n_experts, sizeof *use) : NULL;
    double *gates = use ? calloc((size_t)n_experts, sizeof *gates) : NULL;
    if (!gates) {
        free(use);
        e->failed = true;
        return NULL;
    }
    trace_expert_layer *l = &e->layers[e->n_layers++];
    *l = (trace_expert_layer){.layer = layer, .n_experts = n_experts, .use = use, .gates = gates};
    return l;
}

static int32_t shared(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t same = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++) same += a[i] == b[k];
    return same;
}

/* Of a step; neighbours are tokens of a sequence one position apart. The step before is looked at too, of one token
 * after the other. */
static void add_choice(trace_expert_layer *l, const qn_trace_step *s, const qn_trace_choice *c)
{
    const int32_t n = s->n_tokens > 0 ? c->n_ids / s->n_tokens : 0;
    if (n < 1 || n > 256 || c->n_ids != n * s->n_tokens) return;
    for (int32_t i = 0; i < c->n_ids; i++) {
        if (c->ids[i] < 0 || c->ids[i] >= l->n_experts) return;
        l->use[c->ids[i]]++;
        if (c->gates) l->gates[c->ids[i]] += (double)c->gates[i];
    }
    l->n_used = n;
    l->n_tokens += (uint64_t)s->n_tokens;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        const int32_t seq = s->seq ? s->seq[i] : 0;
        const int32_t *ids = c->ids + (int64_t)i * n;
        if (l->last && l->last_n == n && l->last_seq == seq && l->last_session == s->session &&
            l->last_pos + 1 == s->pos[i]) {
            l->shared += (uint64_t)shared(l->last, ids, n);
            l->n_pairs++;
        }
        l->last = ids;
        l->last_n = n;
        l->last_seq = seq;
        l->last_pos = s->pos[i];
        l->last_session = s->session;
    }
}

static int by_layer(const void *a, const void *b)
{
    return ((const trace_expert_layer *)a)->layer - ((const trace_expert_layer *)b)->layer;
}

/* Greatest first. */
static int by_use(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void settle_layer(trace_expert_layer *l)
{
    const double all = (double)l->n_tokens * l->n_used;
    double entropy = 0, chance = 0;
    for (int32_t i = 0; i < l->n_experts; i++) {
        const double p = all > 0 ? (double)l->use[i] / all : 0, of_token = p * l->n_used;
        if (p > 0) entropy -= p * log2(p);
        chance += of_token * of_token;
        l->n_touched += l->use[i] > 0;
        if (l->use[i] > l->use[l->hottest]) l->hottest = i;
    }
    l->entropy = entropy;
    l->balance = l->n_experts > 0 ? exp2(entropy) / l->n_experts : 0;
    l->chance = l->n_used > 0 ? chance / l->n_used : 0;
    l->overlap = l->n_pairs > 0 ? (double)l->shared / ((double)l->n_pairs * l->n_used) : 0;
}

/* Shares of all choices that go to the hottest of all layers' experts. */
static bool settle_hottest(trace_experts *e)
{
    static const double parts[TRACE_HOTTEST] = {0.01, 0.05, 0.1};
    size_t n = 0, at = 0;
    double all = 0;
    for (int i = 0; i < e->n_layers; i++) n += (size_t)e->layers[i].n_experts;
    uint64_t *use = calloc(n + 1, sizeof *use);
    if (!use) return false;
    for (int i = 0; i < e->n_layers; i++)
        for (int32_t k = 0; k < e->layers[i].n_experts; k++) {
            use[at++] = e->layers[i].use[k];
            all += (double)e->layers[i].use[k];
        }
    qsort(use, n, sizeof *use, by_use);
    for (int i = 0; i < TRACE_HOTTEST; i++) {
        const size_t some = (size_t)ceil(parts[i] * (double)n);
        double sum = 0;
        for (size_t k = 0; k < some && k < n; k++) sum += (double)use[k];
        e->hottest[i] = all > 0 ? sum / all : 0;
    }
    free(use);
    return true;
}

bool trace_experts_sum(const qn_trace *t, trace_experts *e)
{
    qn_trace_info info;
    *e = (trace_experts){0};
    qn_trace_get_info(t, &info);
    for (int64_t i = 0; i < info.n_steps && !e->failed; i++) {
        const qn_trace_step *s = &info.steps[i];
        for (int32_t k = 0; k < s->n_choices && !e->failed; k++) {
            const qn_trace_choice *c = &s->choices[k];
            const int32_t n = n_experts_of(s->plan, c->node);
            trace_expert_layer *l = n > 0 ? layer_of(e, s->plan->nodes[c->node].layer, n) : NULL;
            if (l) add_choice(l, s, c);
        }
    }
    for (int i = 0; i < e->n_layers; i++) settle_layer(&e->layers[i]);
    if (e->n_layers) qsort(e->layers, (size_t)e->n_layers, sizeof *e->layers, by_layer);
    if (!e->failed && settle_hottest(e)) return true;
    trace_experts_deinit(e);
    return false;
}

void trace_experts_deinit(trace_experts *e)
{
    for (int i = 0; i < e->n_layers; i++) {
        free(e->layers[i].use);
        free(e->layers[i].gates);
    }
    free(e->layers);
    *e = (trace_experts){0};
}

void trace_experts_print(const trace_experts *e)
{
    if (!e->n_layers) return;
    printf("\n%-8s %8s %5s %8s %8s %8s %8s %8s  %s\n", "experts", "there", "used", "touched", "entropy", "balance",
           "overlap", "chance", "the hottest");
    for (int i = 0; i < e->n_layers; i++) {
        const trace_expert_layer *l = &e->layers[i];
        const double all = (double)l->n_tokens * l->n_used;
        printf("layer %-2d %8d %5d %8d %8.3f %6.1f %% %6.1f %% %6.1f %%  %d: %.1f %%\n", l->layer, l->n_experts,
               l->n_used, l->n_touched, l->entropy, 100 * l->balance, 100 * l->overlap, 100 * l->chance, l->hottest,
               all > 0 ? 100 * (double)l->use[l->hottest] / all : 0);
    }
    printf(
        "The hottest 1, 5 and 10 %% of all experts have %.1f, %.1f and %.1f %% of all choices. Entropy in bits; "
        "balance: how many would be in use if evenly;\noverlap: what neighbouring tokens share, and would by chance\n",
        100 * e->hottest[0], 100 * e->hottest[1], 100 * e->hottest[2]);
}

void trace_experts_json(FILE *out, const trace_experts *e)
{
    fprintf(out, ", \"experts\": {\"hottest\": [%.6f, %.6f, %.6f], \"layers\": [", e->hottest[0], e->hottest[1],
            e->hottest[2]);
    for (int i = 0; i < e->n_layers; i++) {
        const trace_expert_layer *l = &e->layers[i];
        fprintf(out,
                "%s\n  {\"layer\": %d, \"experts\": %d, \"used\": %d, \"tokens\": %llu, \"entropy\": %.6f, "
                "\"balance\": %.6f, \"overlap\": %.6f, \"chance\": %.6f, \"use\": [",
                i ? "," : "", l->layer, l->n_experts, l->n_used, (unsigned long long)l->n_tokens, l->entropy,
                l->balance, l->overlap, l->chance);
        for (int32_t k = 0; k < l->n_experts; k++) fprintf(out, "%s%llu", k ? ", " : "", (unsigned long long)l->use[k]);
        fprintf(out, "], \"gates\": [");
        for (int32_t k = 0; k < l->n_experts; k++)
            fprintf(out, "%s%.6g", k ? ", " : "", isfinite(l->gates[k]) ? l->gates[k] : 0);
        fprintf(out, "]}");
    }
    fprintf(out, "]}");
}
