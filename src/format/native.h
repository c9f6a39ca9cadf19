/* SPDX-License-Identifier: MIT */
/* src/format/native.h -- tensor bytes in this machine's byte order.
 *
 * qn_gguf_tensor.data is the mapping: right for use only where qn__gguf_is_native says so (nearly every file). A tensor
 * of a file of the other order is copied and swapped with qn__gguf_tensor_native into a buffer of size_bytes. */
#ifndef QN_FORMAT_NATIVE_H
#define QN_FORMAT_NATIVE_H

#include "base/file.h"
#include <quern/gguf.h>

bool qn__gguf_is_native(const qn_gguf *file);
/* A part's mapping; NULL of memory. */
const qn_map *qn__gguf_map(const qn_gguf *file, int part);
/* format when the tensor's data is not in the file (one cut off behind its header, opened metadata_only). */
qn_status qn__gguf_tensor_native(const qn_gguf *file, const qn_gguf_tensor *tensor, void *dst, qn_error *err);
/* Swaps whole blocks in place between the two byte orders; its own inverse. */
void qn__swap_blocks(qn_dtype dtype, void *data, size_t n_blocks);

#endif
