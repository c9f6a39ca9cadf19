/* SPDX-License-Identifier: MIT */
/* src/cli/sampling.c -- options to a sampler. A 0 that was typed means 0; to the library it is the default, which has
 * other words for it. */
#include "cli/sampling.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLER_LETTER(name, letter, text) letter,
static const char letters[] = {QN_SAMPLER_ROWS(SAMPLER_LETTER) '\0'};

void cli_sampling_init(cli_sampling *s)
{
    memset(s, 0, sizeof(*s));
#define SET_int(field, value)                                         s->field = (value);
#define SET_u64(field, value)                                         s->field = (value);
#define SET_float(field, value)                                       s->field = (float)(value);
#define SET_flag(field, value)                                        s->field = (value) != 0;
#define SET_string(field, value)                                      s->field = NULL;
#define SET_strings(field, value)                                     s->field.n = 0;
#define CLI_SAMPLING(kind, field, name, letter, argument, value, ...) SET_##kind(field, value)
#include "cli/sampling.def"
#undef CLI_SAMPLING
}

void cli_sampling_options(cli_sampling *s, cli_option *rows)
{
#define KIND_int     CLI_INT
#define KIND_u64     CLI_U64
#define KIND_float   CLI_FLOAT
#define KIND_flag    CLI_FLAG
#define KIND_string  CLI_STRING
#define KIND_strings CLI_STRINGS
    const cli_option all[] = {
#define CLI_SAMPLING(kind, field, name, letter, argument, value, lo, hi, help) \
    {name, letter, KIND_##kind, &s->field, argument, (value) != 0 ? help " (default: " #value ")" : help, lo, hi, NULL},
#include "cli/sampling.def"
#undef CLI_SAMPLING
    };
    memcpy(rows, all, sizeof(all));
}

/* ---- the order ---- */

/* --samplers and --sampling-seq to the letters that the library takes. */
static int parse_order(const cli_sampling *s, char order[QN_SAMPLER_COUNT + 1])
{
    const char *text = s->samplers ? s->samplers : s->letters, *option = s->samplers ? "samplers" : "sampling-seq";
    const bool names = s->samplers && (strchr(text, ';') || qn_sampler_letter(text, strlen(text)));
    int n = 0;
    if (s->samplers && s->letters) return cli_bad_usage("--samplers and --sampling-seq exclude each other");
    if (s->samplers && !names && text[strspn(text, letters)])
        return cli_bad_usage(
            "--samplers: \"%.32s\" is no sampler; \"quern help run\" lists them, with a ';' between two", text);
    for (const char *p = text; *p;) {
        const size_t len = names ? strcspn(p, ";") : 1;
        const char letter = names ? qn_sampler_letter(p, len) : strchr(letters, *p) ? *p : '\0';
        if (!letter)
            return cli_bad_usage("--%s: \"%.*s\" is no sampler; \"quern help run\" lists them", option,
                                 len > 32 ? 32 : (int)len, p);
        if (memchr(order, letter, (size_t)n)) return cli_bad_usage("--%s: \"%.*s\" comes twice", option, (int)len, p);
        order[n++] = letter;
        p += len;
        p += names && *p == ';';
    }
    order[n] = '\0';
    return CLI_OK;
}

/* ---- biases ---- */

typedef struct bias_list {
    qn_logit_bias *item;
    int32_t n, cap;
} bias_list;

static bool add_bias(bias_list *list, qn_token token, float bias)
{
    if (list->n == list->cap) {
        const int32_t cap = list->cap ? list->cap * 2 : 64;
        qn_logit_bias *more = realloc(list->item, (size_t)cap * sizeof(*more));
        if (!more) return false;
        list->item = more;
        list->cap = cap;
    }
    list->item[list->n++] = (qn_logit_bias){token, bias};
    return true;
}

/* "15043+1", "15043-0.5", "15043-inf". */
static int parse_bias(const char *text, size_t len, int32_t n_vocab, bias_list *list)
{
    char copy[64];
    int64_t token = 0;
    double bias = -INFINITY;
    bool good = len < sizeof(copy);
    if (good) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        const size_t digits = strspn(copy, "0123456789");
        const char sign = copy[digits];
        good = digits > 0 && (sign == '+' || sign == '-') &&
               (strcmp(copy + digits, "-inf") == 0 || cli_parse_float(copy + digits, -1e6, 1e6, &bias));
        if (good) copy[digits] = '\0';
        good = good && cli_parse_int(copy, 0, INT32_MAX, &token);
    }
    if (!good)
        return cli_bad_usage("--logit-bias: \"%.*s\" is not TOKEN(+/-)BIAS, such as 15043+1 or 15043-inf",
                             len > 32 ? 32 : (int)len, text);
    if (token >= n_vocab)
        return cli_fail("--logit-bias: token %lld is not in the vocabulary, which ends at %d", (long long)token,
                        n_vocab - 1);
    return add_bias(list, (qn_token)token, (float)bias) ? CLI_OK : cli_no_memory("out of memory");
}

static int collect_biases(const cli_sampling *s, const qn_tokenizer *tok, bias_list *list)
{
    const int32_t n_vocab = qn_tokenizer_n_tokens(tok);
    for (int i = 0; i < s->logit_bias.n; i++)
        for (const char *p = s->logit_bias.item[i];; p++) {
            const size_t len = strcspn(p, ",");
            const int status = parse_bias(p, len, n_vocab, list);
            if (status != CLI_OK) return status;
            p += len;
            if (!*p) break;
        }
    for (qn_token id = 0; s->ignore_eos && id < n_vocab; id++)
        if (qn_tokenizer_is_eog(tok, id) && !add_bias(list, id, -INFINITY)) return cli_no_memory("out of memory");
    return CLI_OK;
}

/* ---- breakers ---- */

/* \n, \t, \" and so on, as llama.cpp takes them; a copy, freed with free. */
static char *unescape(const char *text)
{
    static const char from[] = "ntr\\\"'", to[] = "\n\t\r\\\"'";
    char *out = malloc(strlen(text) + 1), *q = out;
    for (const char *p = text; out && *p; p++) {
        const char *at = *p == '\\' && p[1] ? strchr(from, p[1]) : NULL;
        *q++ = at ? to[at - from] : *p;
        p += at != NULL;
    }
    if (out) *q = '\0';
    return out;
}

/* NULL-terminated; "none" adds none. */
static int collect_breakers(const cli_sampling *s, char *list[CLI_MAX_STRINGS + 1])
{
    int n = 0;
    for (int i = 0; i < s->dry_breakers.n; i++) {
        if (strcmp(s->dry_breakers.item[i], "none") == 0) continue;
        if (!*s->dry_breakers.item[i]) return cli_bad_usage("--dry-sequence-breaker: the text is empty");
        if (!(list[n++] = unescape(s->dry_breakers.item[i]))) return cli_no_memory("out of memory");
    }
    return CLI_OK;
}

/* ---- the sampler ---- */

static float above_0(float x) { return x > 0 ? x : FLT_MIN; }

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static qn_sampler_params params_of(const cli_sampling *s, int32_t n_ctx, const bias_list *biases,
                                   const cli_sampler_params *own)
{
    enum { MOST_HISTORY = 1 << 20 };
    const int32_t history = larger(n_ctx, larger(s->repeat_last_n, s->dry_last_n));
    return (qn_sampler_params){
        .seed = s->seed,
        .greedy = s->temp == 0,
        .temperature = s->temp,
        .dynatemp_range = s->dynatemp_range,
        .dynatemp_exponent = above_0(s->dynatemp_exponent),
        .top_k = s->top_k > 0 ? s->top_k : -1,
        .top_p = above_0(s->top_p),
        .min_p = s->min_p > 0 ? s->min_p : -1,
        .typical_p = above_0(s->typical_p),
        .top_n_sigma = s->top_n_sigma > 0 ? s->top_n_sigma : 0,
        .xtc_probability = s->xtc_probability,
        .xtc_threshold = above_0(s->xtc_threshold),
        .min_keep = s->min_keep,
        .penalty_last_n = s->repeat_last_n ? s->repeat_last_n : -2,
        .repeat_penalty = s->repeat_penalty,
        .frequency_penalty = s->frequency_penalty,
        .presence_penalty = s->presence_penalty,
        .dry_multiplier = s->dry_last_n ? s->dry_multiplier : 0,
        .dry_base = s->dry_base,
        .dry_allowed_length = s->dry_allowed_length,
        .dry_last_n = s->dry_last_n,
        .dry_breakers = s->dry_breakers.n ? (const char *const *)own->breakers : NULL,
        .mirostat = s->mirostat,
        .mirostat_tau = above_0(s->mirostat_tau),
        .mirostat_eta = above_0(s->mirostat_eta),
        .logit_bias = biases->item,
        .n_logit_bias = biases->n,
        .order = own->order[0] ? own->order : NULL,
        .n_history = history < MOST_HISTORY ? history : MOST_HISTORY,
    };
}

int cli_check_sampling(const cli_sampling *s)
{
    char order[QN_SAMPLER_COUNT + 1];
    return s->samplers || s->letters ? parse_order(s, order) : CLI_OK;
}

void cli_sampler_params_deinit(cli_sampler_params *p)
{
    for (int i = 0; p->breakers[i]; i++) free(p->breakers[i]);
    free((void *)p->params.logit_bias);
    *p = (cli_sampler_params){0};
}

int cli_sampling_params(const cli_sampling *s, const qn_tokenizer *tok, int32_t n_ctx, cli_sampler_params *out)
{
    bias_list biases = {0};
    *out = (cli_sampler_params){0};
    int status = s->samplers || s->letters ? parse_order(s, out->order) : CLI_OK;
    if (status == CLI_OK) status = collect_biases(s, tok, &biases);
    if (status == CLI_OK) status = collect_breakers(s, out->breakers);
    out->params = params_of(s, n_ctx, &biases, out);
    if (status != CLI_OK) cli_sampler_params_deinit(out);
    return status;
}

int cli_create_sampler(const cli_sampling *s, const qn_tokenizer *tok, int32_t n_ctx, qn_sampler **out)
{
    cli_sampler_params p;
    qn_error err;
    const int status = cli_sampling_params(s, tok, n_ctx, &p);
    if (status != CLI_OK) return status;
    const qn_status created = qn_sampler_create(&p.params, qn_tokenizer_n_tokens(tok), tok, out, &err);
    cli_sampler_params_deinit(&p);
    return created == QN_OK ? CLI_OK : cli_fail_error(&err);
}
