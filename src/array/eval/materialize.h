/* SPDX-License-Identifier: MIT */
/* src/array/eval/materialize.h -- reading values on the host. */
#ifndef QN_ARRAY_LOOK_H
#define QN_ARRAY_LOOK_H

#include "array/autograd/tape.h"
#include "quant/element.h"

/* Evaluates t and gives the start of its storage's memory; `copy`, when it is a device's, is to be freed with qn__free.
 */
qn_status qn__host_of(qn_tensor *t, const char **host, void **copy);
/* Bytes of t's elements, packed. */
int64_t qn__tensor_bytes(const qn_tensor *t);

#endif
