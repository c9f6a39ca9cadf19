/* SPDX-License-Identifier: MIT */
/* tests/unit/model/rows.c -- every key and every tensor of every architecture, missing; out of its range, of another
 * type, misshapen or of a type that no weight has: each is named, with what was expected. */
#include "header.h"
#include "tiny.h"

enum { KEY_missing, KEY_text, KEY_empty, KEY_below, KEY_above, KEY_nan, KEY_short, KEY_kinds };
enum { TENSOR_missing, TENSOR_wide, TENSOR_deep, TENSOR_flat, TENSOR_mistyped, TENSOR_kinds };

static struct {
    const qn_hparam_row *row;
    const qn_tensor_row *tensor;
    int how;
    char name[96], expected[96];
} odd;

static bool change_key(void *arg, qn_gguf_writer *w, const char *key, const qn_hparam_row *row)
{
    (void)arg;
    if (row != odd.row) return false;
    snprintf(odd.name, sizeof odd.name, "%s", key);
    if (odd.how == KEY_text) qn_gguf_write_str(w, key, "no number");
    if (odd.how == KEY_empty) qn_gguf_write_array(w, key, QN_GGUF_u32, NULL, 0);
    if (odd.how == KEY_below) qn_gguf_write_f32(w, key, (float)(row->lo - 1));
    if (odd.how == KEY_above && row->kind == QN_HPARAM_f32) qn_gguf_write_f32(w, key, (float)(row->hi * 2 + 1));
    if (odd.how == KEY_above && row->kind != QN_HPARAM_f32) qn_gguf_write_u64(w, key, (uint64_t)row->hi + 1);
    if (odd.how == KEY_nan) qn_gguf_write_f32(w, key, NAN);
    if (odd.how == KEY_short) qn_gguf_write_array(w, key, QN_GGUF_u32, (uint32_t[]){4}, 1);
    return true;
}

static bool change_tensor(void *arg, const qn_tensor_row *row, const char *name, qn_dtype *dtype, qn_shape *shape)
{
    (void)arg;
    if (row != odd.tensor || odd.name[0]) return row->flags & W_NO_SYNTH; /* the first layer that has it */
    char text[96];
    snprintf(odd.name, sizeof odd.name, "%s", name);
    snprintf(odd.expected, sizeof odd.expected, "%s", qn_shape_print(shape, text, sizeof text));
    if (odd.how == TENSOR_wide) shape->dim[shape->rank - 1]++;
    if (odd.how == TENSOR_deep) shape->dim[shape->rank++] = 2;
    if (odd.how == TENSOR_flat) *shape = qn_shape_of(3);
    if (odd.how == TENSOR_mistyped) *dtype = QN_DTYPE_I32;
    return odd.how == TENSOR_missing;
}

/* Loads what the rows and the change give. */
static qn_status load(const qn_arch *arch, qn_error *why)
{
    header h = {.arch = arch, .key = change_key, .tensor = change_tensor};
    qn_str bytes = {0};
    qn_gguf *file = NULL;
    qn_model *m = NULL;
    MUST(header_build(&h, false, &bytes, err));
    const qn_gguf_options options = {.metadata_only = true};
    MUST(qn_gguf_open_memory(bytes.data, bytes.len, &options, &file, err));
    const qn_status status = qn__model_load(file, 0, &m, why);
    qn__model_free(m);
    qn_gguf_close(file);
    qn__str_deinit(&bytes);
    return status;
}

static void names_it(const qn_arch *arch, qn_status status, const qn_error *err, const char *expected)
{
    const bool good = (status == QN_STATUS_format || status == QN_STATUS_unsupported) && strstr(err->text, odd.name) &&
                      strstr(err->text, expected) && !strchr(err->text, '\n');
    if (!good)
        fail_msg("%s, %s, change %d: %s \"%s\" lacks \"%s\"", arch->name, odd.name, odd.how, qn_status_name(status),
                 err->text, expected);
}

/* Does this change of a key make it one that is refused? */
static bool is_refused(const qn_hparam_row *row, int how)
{
    const bool number = row->kind == QN_HPARAM_u32 || row->kind == QN_HPARAM_pattern, real = row->kind == QN_HPARAM_f32;
    if (row->kind == QN_HPARAM_count) return false;
    if (how == KEY_missing) return row->required;
    if (how == KEY_short) return row->of_layer != 0;
    return how == KEY_text || (row->kind != QN_HPARAM_word && how == KEY_empty) || (real && how == KEY_below) ||
           (real && how == KEY_nan) || ((number || real) && how == KEY_above);
}

static const char *words_of(const qn_hparam_row *row, int how)
{
    if (how == KEY_missing) return "is missing; a number from";
    if (how == KEY_short) return "one for each of 2 layers expected";
    if (row->kind == QN_HPARAM_word) return "is expected";
    return how == KEY_below || how == KEY_nan ? "is expected" : "expected";
}

/* Has another architecture had this row before? What is missing is tried of each, the rest of one. */
static bool seen(const char *name, uint32_t kind)
{
    static struct {
        const char *name;
        uint32_t kind;
    } all[1024];
    static int n;
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0 && all[i].kind == kind) return true;
    assert_true(n < 1024);
    all[n].name = name;
    all[n++].kind = kind;
    return false;
}

/* A tensor is bound once: rows of one name are of layers that are mixtures and of those that are not. */
static void asked_for_once(void **state)
{
    (void)state;
    for (const char *const *name = qn_architectures(); *name; name++) {
        const qn_arch *arch = qn__arch_find(*name);
        for (int a = 0; a < arch->n_tensors; a++) {
            for (int b = 0; b < a; b++) {
                const uint32_t both = arch->tensors[a].flags | arch->tensors[b].flags;
                if (strcmp(arch->tensors[a].name, arch->tensors[b].name) == 0 && !(both & W_EXPERTS && both & W_DENSE))
                    fail_msg("%s: two rows of %s", *name, arch->tensors[a].name);
            }
        }
    }
}

static void keys(void **state)
{
    (void)state;
    int n = 0, n_refused = 0;
    for (const char *const *name = qn_architectures(); *name; name++) {
        const qn_arch *arch = qn__arch_find(*name);
        for (int i = 0; i < arch->n_hparams; i++) {
            const bool again =
                seen(arch->hparams[i].key, (uint32_t)arch->hparams[i].kind * 2 + arch->hparams[i].required);
            for (int how = 0; how < (again ? 1 : KEY_kinds); how++, n++) {
                qn_error err = {0};
                memset(&odd, 0, sizeof odd);
                odd.row = &arch->hparams[i], odd.how = how;
                if (!is_refused(odd.row, how)) continue;
                const qn_status status = load(arch, &err);
                names_it(arch, status, &err, words_of(odd.row, how));
                n_refused++;
            }
        }
    }
    printf("%d changes of keys, %d refused\n", n, n_refused);
    assert_true(n_refused > 500);
}

static void tensors(void **state)
{
    (void)state;
    int n_missing = 0, n = 0;
    for (const char *const *name = qn_architectures(); *name; name++) {
        const qn_arch *arch = qn__arch_find(*name);
        for (int r = 0; r < arch->n_tensors; r++) {
            const bool again = seen(arch->tensors[r].name, arch->tensors[r].flags);
            for (int how = 0; how < (again ? 1 : TENSOR_kinds); how++) {
                qn_error err = {0};
                memset(&odd, 0, sizeof odd);
                odd.tensor = &arch->tensors[r], odd.how = how;
                const qn_status status = load(arch, &err);
                if (!odd.name[0]) continue; /* this model has no such tensor */
                const bool may_lack = how == TENSOR_missing && odd.tensor->flags & (W_OPTIONAL | W_TIED);
                if (may_lack && status == QN_OK) continue;
                n_missing += how == TENSOR_missing;
                n++;
                if (may_lack) { /* one of those that stand for each other */
                    assert_true(strstr(err.text, "attn_q") || strstr(err.text, "ffn_gate_up_exps"));
                    continue;
                }
                const bool vocab = odd.tensor->slot == offsetof(qn_top, tok_embd) && !odd.tensor->layer;
                names_it(arch, status, &err, how == TENSOR_mistyped ? "I32" : vocab ? "" : odd.expected);
            }
        }
    }
    printf("%d changes of tensors, %d of them missing\n", n, n_missing);
    assert_true(n > 1000 && n_missing > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_for_once), cmocka_unit_test(keys),
                                       cmocka_unit_test(tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
