/* SPDX-License-Identifier: MIT */
/* src/store/model_name.c -- names of models as people type them. */
#include "store/store.h"
#include <string.h>
#include <strings.h>

static bool letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool qn__plain_name(const char *name, size_t most)
{
    const size_t n = strlen(name);
    if (n == 0 || n > most || !(letter_or_digit(name[0]) || name[0] == '_')) return false;
    for (size_t i = 0; i < n; i++)
        if (!letter_or_digit(name[i]) && !strchr("_-.:", name[i])) return false;
    return true;
}

/* ---- quantizations ---- */

/* What the last word of a file's name begins with when it is a quantization. */
static const char *const beginnings[] = {"Q1",  "Q2",  "Q3",  "Q4",   "Q5",  "Q6",   "Q8",  "IQ1",  "IQ2",   "IQ3",
                                         "IQ4", "TQ1", "TQ2", "BF16", "F16", "FP16", "F32", "FP32", "MXFP4", "NVFP4"};

static bool is_quant(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        const size_t len = strlen(beginnings[i]);
        if (n >= len && strncasecmp(word, beginnings[i], len) == 0 && (n == len || word[len] == '_')) return true;
    }
    return false;
}

static bool ends_word(char c) { return c == '-' || c == '.' || c == '\0'; }

bool qn__quant_of_stem(const char *stem, char out[32])
{
    const size_t n = strlen(stem);
    size_t at = n;
    while (at > 0 && !ends_word(stem[at - 1])) at--;
    if (n - at > 24 || !is_quant(stem + at, n - at)) return false;
    if (at >= 3 && strncasecmp(stem + at - 3, "UD-", 3) == 0 && (at == 3 || ends_word(stem[at - 4]))) at -= 3;
    for (size_t i = at; i <= n; i++) out[i - at] = stem[i] >= 'a' && stem[i] <= 'z' ? (char)(stem[i] - 32) : stem[i];
    return true;
}

/* ---- what was typed ---- */

/* Whether whole words of `text`, between '-' and '.', spell `word`. */
static bool has_words(const char *text, const char *word, size_t n)
{
    for (const char *p = text; *p; p++)
        if ((p == text || ends_word(p[-1])) && strncasecmp(p, word, n) == 0 && ends_word(p[strnlen(p, n)])) return true;
    return false;
}

static bool same(const char *a, const char *b, size_t n) { return strlen(a) == n && strncasecmp(a, b, n) == 0; }

/* Behind the last slash. */
static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* ---- Ollama: HOST/NAMESPACE/NAME:TAG, with defaults for all but the name ---- */

#define FULL_BYTES 1024

/* What was typed with nothing left out, its tag apart; false when it is too long. */
static bool ollama_full(const char *name, char full[FULL_BYTES], const char **tag)
{
    const char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
    int slashes = 0;
    for (const char *p = name; *p; p++) slashes += *p == '/';
    const bool tagged = colon && (!slash || colon > slash);
    const size_t n = tagged ? (size_t)(colon - name) : strlen(name);
    *tag = tagged ? colon + 1 : NULL;
    if (n + sizeof QN_OLLAMA_HOST + sizeof "/library/" > FULL_BYTES) return false;
    full[0] = '\0';
    if (slashes < 2) strcpy(full, QN_OLLAMA_HOST "/");
    if (slashes < 1) strcat(full, "library/");
    strncat(full, name, n);
    return true;
}

static int ollama_fits(const qn_found *f, const char *name)
{
    char full[FULL_BYTES];
    const char *tag;
    if (!f->tag || !ollama_full(name, full, &tag) || strcasecmp(full, f->full) != 0) return 0;
    if (strcasecmp(tag ? tag : "latest", f->tag) == 0) return 2;
    return tag ? 0 : 1;
}

/* ---- the others: BASE[:TAG], or the file's own name ---- */

/* The first n bytes as a base: whole, or with the publisher left out. */
static int base_fits(const qn_found *f, const char *name, size_t n)
{
    if (same(f->base, name, n)) return 2;
    return f->model.store != QN_STORE_huggingface && same(last_part(f->base), name, n) ? 1 : 0;
}

static int tag_fits(const qn_found *f, const char *tag)
{
    if (f->tag && strcasecmp(f->tag, tag) == 0) return 2;
    return *tag && f->stem && has_words(f->stem, tag, strlen(tag)) ? 1 : 0;
}

/* BASE/STEM or STEM, with or without .gguf. */
static bool stem_fits(const qn_found *f, const char *name)
{
    const size_t n = strlen(name), end = n > 5 && strcasecmp(name + n - 5, ".gguf") == 0 ? n - 5 : n;
    if (!f->stem) return false;
    if (same(f->stem, name, n) || same(f->stem, name, end)) return true;
    const size_t base = strlen(f->base);
    return end > base + 1 && name[base] == '/' && strncasecmp(name, f->base, base) == 0 &&
           same(f->stem, name + base + 1, end - base - 1);
}

static int file_fits(const qn_found *f, const char *name)
{
    const char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
    if (!colon || (slash && colon < slash)) {
        const int base = base_fits(f, name, strlen(name));
        if (base) return f->tag ? 1 : base;
        return stem_fits(f, name) ? 1 : 0;
    }
    const int base = base_fits(f, name, (size_t)(colon - name)), tag = tag_fits(f, colon + 1);
    return base < tag ? base : tag;
}

int qn__name_fits(const qn_found *f, const char *name)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    if (strcasecmp(f->model.name, name) == 0) return 2;
    if (f->model.store == QN_STORE_ollama) return ollama_fits(f, name);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strncasecmp(name, hosts[i], strlen(hosts[i])) == 0) name += strlen(hosts[i]);
    return file_fits(f, name);
}
