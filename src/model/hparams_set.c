/* SPDX-License-Identifier: MIT */
/* src/model/hparams_set.c -- hyperparameters that do not come from a file: set by number or by name, checked by the
 * same rows, and written. */
#include "base/str.h"
#include "format/gguf_writer.h"
#include "model/arch.h"
#include <stdio.h>
#include <string.h>

enum { MAX_COUNT = 64 }; /* elements of an array that a count writes */

void qn__hparam_set(qn_hparams *hp, const qn_hparam_row *row, double value)
{
    char *field = (char *)hp + row->field;
    uint32_t four[4];
    if (row->kind == QN_HPARAM_four) {
        memcpy(field, qn__four_of(value, four), sizeof(four));
    } else if (row->kind == QN_HPARAM_f32) {
        const float f = (float)value;
        memcpy(field, &f, sizeof(f));
    } else {
        const uint32_t u = (uint32_t)value;
        memcpy(field, &u, sizeof(u));
    }
}

double qn__hparam_get(const qn_hparams *hp, const qn_hparam_row *row)
{
    const char *field = (const char *)hp + row->field;
    uint32_t u, four[4];
    float f;
    if (row->kind == QN_HPARAM_four) {
        memcpy(four, field, sizeof(four));
        return qn__four_as_one(four);
    }
    memcpy(&u, field, sizeof(u));
    memcpy(&f, field, sizeof(f));
    return row->kind != QN_HPARAM_f32 ? (double)u : (double)f;
}

uint32_t qn__hparam_word(const qn_hparam_row *row, const char *text, size_t len)
{
    uint32_t number = 1;
    for (const char *word = row->words; *word; number++) {
        const size_t n = strcspn(word, " ");
        if (n == len && memcmp(word, text, n) == 0) return number;
        word += n + (word[n] == ' ');
    }
    return 0;
}

void qn__hparam_write(qn_gguf_writer *w, const char *key, const qn_hparam_row *row, double value)
{
    if (row->kind == QN_HPARAM_f32) {
        qn_gguf_write_f32(w, key, (float)value);
    } else if (row->kind == QN_HPARAM_bool) {
        qn_gguf_write_bool(w, key, value != 0);
    } else if (row->kind == QN_HPARAM_count) {
        static const qn_gguf_str none[MAX_COUNT];
        qn_gguf_write_strs(w, key, none, (uint64_t)value < MAX_COUNT ? (uint64_t)value : MAX_COUNT);
    } else if (row->kind == QN_HPARAM_word) {
        char word[32];
        const char *at = row->words;
        for (int i = 1; i < (int)value; i++) at += strcspn(at, " ") + 1;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
        qn_gguf_write_str(w, key, word);
    } else if (row->kind == QN_HPARAM_four) {
        uint32_t four[4];
        qn_gguf_write_array(w, key, QN_GGUF_i32, qn__four_of(value, four), 4);
    } else {
        qn_gguf_write_u32(w, key, (uint32_t)value);
    }
}

void qn__hparams_fill(qn_hparams *hp, const qn_arch *arch)
{
    for (int i = 0; i < arch->n_hparams; i++) {
        const qn_hparam_row *row = &arch->hparams[i];
        if (row->required && qn__hparam_get(hp, row) == 0) qn__hparam_set(hp, row, row->fallback);
    }
}

void qn__hparams_begin(const qn_arch *arch, qn_hparams *hp)
{
    memset(hp, 0, sizeof *hp);
    for (int i = 0; i < arch->n_hparams; i++) qn__hparam_set(hp, &arch->hparams[i], arch->hparams[i].fallback);
}

static const qn_hparam_row *row_by_key(const qn_arch *arch, const char *key, size_t length)
{
    for (int i = 0; i < arch->n_hparams; i++)
        if (strlen(arch->hparams[i].key) == length && memcmp(arch->hparams[i].key, key, length) == 0)
            return &arch->hparams[i];
    return NULL;
}

static qn_status parse_four(const qn_hparam_row *row, const char *text, qn_hparams *hp, qn_error *err)
{
    unsigned four[4];
    int end = 0;
    if (sscanf(text, "%4u,%4u,%4u,%4u%n", &four[0], &four[1], &four[2], &four[3], &end) != 4 || text[end])
        return QN_FAIL(err, invalid, "%s is \"%s\"; four numbers with commas between are expected", row->key, text);
    for (int i = 0; i < 4; i++)
        if (!(four[i] <= row->hi))
            return QN_FAIL(err, invalid, "%s has %u; 0 to %g are possible", row->key, four[i], row->hi);
    qn__hparam_set(hp, row, qn__four_as_one(four));
    return QN_OK;
}

qn_status qn__hparam_parse(const qn_arch *arch, const char *text, qn_hparams *hp, qn_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return QN_FAIL(err, invalid, "\"%s\" is no hyperparameter; KEY=VALUE is expected", text);
    const qn_hparam_row *row = row_by_key(arch, text, (size_t)(equals - text));
    if (!row) return QN_FAIL(err, invalid, "%s has no hyperparameter \"%.*s\"", arch->name, (int)(equals - text), text);
    if (row->kind == QN_HPARAM_word) {
        const uint32_t number = qn__hparam_word(row, equals + 1, strlen(equals + 1));
        if (!number)
            return QN_FAIL(err, invalid, "%s is \"%s\"; one of the words %s is expected", row->key, equals + 1,
                           row->words);
        qn__hparam_set(hp, row, number);
        return QN_OK;
    }
    if (row->kind == QN_HPARAM_four) return parse_four(row, equals + 1, hp, err);
    double value = 0;
    const bool whole = row->kind != QN_HPARAM_f32;
    if (!qn__parse_f64(equals + 1, row->lo, row->hi, &value) || (whole && value != (double)(uint32_t)value))
        return QN_FAIL(err, invalid, "%s is \"%s\"; a%s number from %g to %g is expected", row->key, equals + 1,
                       whole ? " whole" : "", row->lo, row->hi);
    qn__hparam_set(hp, row, value);
    return QN_OK;
}

qn_status qn__hparams_check(const qn_arch *arch, const qn_hparams *hp, qn_error *err)
{
    for (int i = 0; i < arch->n_hparams; i++) {
        const qn_hparam_row *row = &arch->hparams[i];
        const double value = qn__hparam_get(hp, row);
        if (row->kind == QN_HPARAM_four) continue; /* none is too great for its bits */
        if ((value == row->fallback && !row->required) || (value >= row->lo && value <= row->hi)) continue;
        return QN_FAIL(err, invalid, "%s is %g; from %g to %g is expected", row->key, value, row->lo, row->hi);
    }
    return QN_OK;
}

/* ---- written ---- */

static double of_layer(const qn_hparam_row *row, const qn_layer_hp *l)
{
    const char *field = (const char *)l + row->of_layer - 1;
    uint32_t u;
    float f;
    memcpy(&u, field, sizeof u);
    memcpy(&f, field, sizeof f);
    return row->kind != QN_HPARAM_f32 ? (double)u : (double)f;
}

static bool layers_differ(const qn_model *m, const qn_hparam_row *row)
{
    for (uint32_t i = 0; row->of_layer && m->layers && i < m->given.n_layer; i++) {
        const qn_layer_hp l = qn__layer_hp(&m->given, i);
        if (of_layer(row, &l) != of_layer(row, &m->layers[i].hp)) return true;
    }
    return false;
}

static void write_layers(const qn_model *m, qn_gguf_writer *w, const char *key, const qn_hparam_row *row)
{
    const uint32_t n = m->given.n_layer;
    const bool pattern = row->kind == QN_HPARAM_pattern; /* booleans; else numbers */
    uint32_t *values = qn__alloc(n * sizeof *values);
    uint8_t *flags = (uint8_t *)values;
    if (!values) {
        QN_WRITER_FAIL(w, nomem, "out of memory: %s of %u layers", key, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double value = of_layer(row, &m->layers[i].hp);
        const float real = (float)value;
        if (pattern)
            flags[i] = value != 0;
        else if (row->kind == QN_HPARAM_f32)
            memcpy(&values[i], &real, sizeof real);
        else
            values[i] = (uint32_t)value;
    }
    qn_gguf_write_array(w, key,
                        pattern                      ? QN_GGUF_bool
                        : row->kind == QN_HPARAM_f32 ? QN_GGUF_f32
                                                     : QN_GGUF_u32,
                        values, n);
    qn__free(values);
}

/* What one program takes for a number that is not given, another may not; but for factors of 1. */
static bool others_may_differ(const qn_hparam_row *row)
{
    return row->kind == QN_HPARAM_f32 && row->fallback != 0 && row->fallback != 1;
}

void qn__hparams_write(const qn_model *m, qn_gguf_writer *w)
{
    for (int i = 0; i < m->arch->n_hparams; i++) {
        const qn_hparam_row *row = &m->arch->hparams[i];
        const double value = qn__hparam_get(&m->given, row);
        char key[192];
        (void)qn__hparam_key(m->arch, row, key, sizeof key);
        if (layers_differ(m, row))
            write_layers(m, w, key, row);
        else if (row->required || value != row->fallback || others_may_differ(row))
            qn__hparam_write(w, key, row, value);
    }
}
