/* SPDX-License-Identifier: MIT */
/* src/tensor/dtype.c -- the table of data types, expanded from the rows of quern/tensor.h. */
#include <quern/tensor.h>
#include <string.h>

static const qn_dtype_info rows[] = {
/* clang-format off */
#define ROW(name, id, block, bytes, class) {#name, id, block, bytes, QN_CLASS_##class},
    /* clang-format on */
    QN_DTYPE_ROWS(ROW)
#undef ROW
};

const qn_dtype_info *qn_dtype_get(qn_dtype dtype)
{
    static const qn_dtype_info unknown = {"?", -1, 1, 0, QN_CLASS_real};
    return (unsigned)dtype < QN_DTYPE_COUNT ? &rows[dtype] : &unknown;
}

/* toupper of the C locale: in a Turkish one, 'i' is no 'I' */
static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

static bool same_word(const char *a, const char *b)
{
    while (*a != '\0' && upper(*a) == upper(*b)) a++, b++;
    return *a == '\0' && *b == '\0';
}

bool qn_dtype_find(const char *name, qn_dtype *out)
{
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        if (same_word(rows[i].name, name)) {
            *out = (qn_dtype)i;
            return true;
        }
    }
    return false;
}

bool qn_dtype_from_gguf(uint32_t gguf_id, qn_dtype *out)
{
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        if (rows[i].gguf_id >= 0 && (uint32_t)rows[i].gguf_id == gguf_id) {
            *out = (qn_dtype)i;
            return true;
        }
    }
    return false;
}

int64_t qn_dtype_row_bytes(qn_dtype dtype, int64_t n)
{
    const qn_dtype_info *t = qn_dtype_get(dtype);
    int64_t bytes;
    if (n < 0 || n % t->block_elems != 0 || __builtin_mul_overflow(n / t->block_elems, t->block_bytes, &bytes))
        return 0;
    return bytes;
}
