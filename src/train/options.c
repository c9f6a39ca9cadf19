/* SPDX-License-Identifier: MIT */
/* src/train/options.c -- options: defaults, ranges, and what of them a checkpoint holds. */
#include "base/str.h"
#include "model/arch.h"
#include "train/train.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static qn_status out_of_range(const char *name, double value, double lo, double hi, qn_error *err)
{
    return QN_FAIL(err, invalid, "%s is %g; %g to %g are possible", name, value, lo, hi);
}

static qn_status resolve_int(const char *name, int32_t *value, double normal, double lo, double hi, qn_error *err)
{
    if (*value == 0)
        *value = (int32_t)normal;
    else if (*value < lo || *value > hi)
        return out_of_range(name, *value, lo, hi, err);
    return QN_OK;
}

static qn_status resolve_float(const char *name, float *value, double normal, double lo, double hi, qn_error *err)
{
    if (*value == 0)
        *value = (float)normal;
    else if (*value < 0 && lo == 0)
        *value = 0;
    else if (!(*value >= (float)lo && *value <= (float)hi))
        return out_of_range(name, (double)*value, lo, hi, err);
    return QN_OK;
}

static qn_status resolve_flag(const char *name, bool *value, double normal, double lo, double hi, qn_error *err)
{
    (void)name, (void)value, (void)normal, (void)lo, (void)hi, (void)err;
    return QN_OK;
}

qn_status qn__train_resolve(const qn_train_options *in, qn_train_options *out, qn_error *err)
{
    qn_train_options o = *in;
    const bool least_rate_given = o.min_lr != 0;
#define QN_TRAIN_RESOLVE(type, field, name, value, lo, hi, same, text) \
    QN_TRY(resolve_##type(name, &o.field, value, lo, hi, err));
    QN_TRAIN_ROWS(QN_TRAIN_RESOLVE)
#undef QN_TRAIN_RESOLVE
    if (o.n_kv_head == 0) o.n_kv_head = o.n_head;
    if (o.n_ff == 0) o.n_ff = (int32_t)((o.n_embd * 8 / 3 + 31) / 32 * 32);
    if (!least_rate_given) o.min_lr = o.lr / 10;
    if (o.min_lr > o.lr)
        return QN_FAIL(err, invalid, "min-lr is %g, more than lr, which is %g", (double)o.min_lr, (double)o.lr);
    if (o.n_embd % o.n_head || o.n_embd / o.n_head % 2)
        return QN_FAIL(err, invalid, "embd is %d; a multiple of 2 x %d heads is expected", o.n_embd, o.n_head);
    if (o.n_head % o.n_kv_head)
        return QN_FAIL(err, invalid, "kv-heads is %d; a divisor of the %d heads is expected", o.n_kv_head, o.n_head);
    if (o.n_threads < 0 || o.n_threads > 256)
        return QN_FAIL(err, invalid, "threads is %d; 0 to 256 are possible", o.n_threads);
    const qn_arch *arch = qn__arch_find(o.arch ? o.arch : "llama");
    if (!arch) return QN_FAIL(err, invalid, "architecture \"%.64s\" is not known", o.arch);
    o.arch = arch->name; /* lives on */
    *out = o;
    return QN_OK;
}

/* ---- in a checkpoint: "layers=4\nembd=128\n", numbers to the bit ---- */

#define PRINT_int   "%d"
#define PRINT_float "%.9g"
#define PRINT_flag  "%d"
#define AS_int(v)   (v)
#define AS_float(v) ((double)(v))
#define AS_flag(v)  ((int)(v))

bool qn__train_describe(const qn_train_options *o, char *text, size_t size)
{
    size_t n = 0;
#define QN_TRAIN_PRINT(type, field, name, value, lo, hi, same, about) \
    if (same && n < size) n += (size_t)qn__format(text + n, size - n, name "=" PRINT_##type "\n", AS_##type(o->field));
    QN_TRAIN_ROWS(QN_TRAIN_PRINT)
#undef QN_TRAIN_PRINT
    if (n < size) n += (size_t)snprintf(text + n, size - n, "seed=%llu\n", (unsigned long long)o->seed);
    if (n < size && strcmp(o->arch, "llama") != 0) n += (size_t)snprintf(text + n, size - n, "arch=%s\n", o->arch);
    return n < size;
}

bool qn__train_differs(const char *mine, const char *theirs, char *text, size_t size)
{
    char shown[64];
    const char *a = mine, *b = theirs;
    while (*a || *b) {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0) {
            const size_t name = strcspn(a, "=\n"), value = name < n ? name + 1 : n;
            const bool same_name = m > name && memcmp(a, b, name) == 0 && b[name] == '=';
            qn__str_quote(shown, sizeof shown, same_name ? b + name + 1 : b, same_name ? m - name - 1 : m);
            if (n == 0) { /* a line that only the checkpoint has */
                snprintf(text, size, "%s is in the checkpoint, and not asked for", shown);
                return true;
            }
            snprintf(text, size, "%.*s is %.*s, %s in the checkpoint", (int)name, a, (int)(n - value), a + value,
                     shown);
            return true;
        }
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    return false;
}
