/* SPDX-License-Identifier: MIT */
/* src/backend/numbers/attention.h -- constants of attention in integers, which cpu/op/attention/attention.c defines.
 * No sum leaves int32: 65008 * 32776 and (QN_ATTN_P_SUM + 8) * 32767 are below 2^31. Twice that sum, with V of half
 * the size, raised the error of logits by half. */
#ifndef QN_BACKEND_NUMBERS_ATTENTION_H
#define QN_BACKEND_NUMBERS_ATTENTION_H

#define QN_ATTN_Q_LENGTH 65000.0f
#define QN_ATTN_P_SUM    65528.0f
#define QN_ATTN_P_MAX    32767.0f
#define QN_ATTN_LN2      0x1.62e43p-1f /* ln 2, rounded */

#endif
