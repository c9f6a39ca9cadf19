/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_tile_fns.h -- one qn_mm_fn for each real and block dtype, of a level that has defined `kernel`; included once
 * a level. */
#include "cpu/ukr_tile.h"

#define FN_block(name)                                                                       \
    static void mm_##name(const qn_mm_args *a)                                                                         \
    {                                                                                                                  \
        qn__tile_mm(a, QN_DTYPE_##name, level_unpack[QN_DTYPE_##name], &kernel);                                       \
    }
#define FN_real FN_block
#define FN_integer(name)
#define FN_boolean(name)

static qn_unpack_fn level_unpack[QN_DTYPE_COUNT]; /* this level's, set once by mm_init */

#define ROW(name, id, block_elems, block_bytes, class) FN_##class(name)
QN_DTYPE_ROWS(ROW)
#undef ROW

static void mm_init(qn_ukr *ukr)
{
#define SET_block(name) ukr->mm[QN_DTYPE_##name] = (qn_mm){mm_##name, false};
#define SET_real(name) SET_block(name)
#define SET_integer(name)
#define SET_boolean(name)
#define ROW(name, id, block_elems, block_bytes, class) SET_##class(name)
    QN_DTYPE_ROWS(ROW)
#undef ROW
    for (int t = 0; t < QN_DTYPE_COUNT; t++) level_unpack[t] = ukr->unpack[t];
}
