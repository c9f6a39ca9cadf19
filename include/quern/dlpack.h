/* SPDX-License-Identifier: MIT */
/* quern/dlpack.h -- tensors to and from other libraries without copying: DLPack 1.0 (https://dmlc.github.io/dlpack).
 *
 * The structures are the specification's: their definitions come from any dlpack.h, they are only named here. Element
 * types: F16, F32, F64, BF16, I8 .. I64, U8, BOOL; memory: the host's, and that of the context's devices, by DLPack's
 * kinds: CUDA and ROCm, where data is an address, and OpenCL, where it is a cl_mem of the same cl_context and
 * byte_offset counts from its start. What is exported is computed and the device's queue done; memory that is imported
 * must be ready to be read. Memory of a device that the context does not have is unsupported. Both sides see the same
 * bytes, so what one writes the other reads; Quern writes when it is looked at (qn_eval), and sees what others wrote in
 * operations that are recorded afterwards. */
#ifndef QUERN_DLPACK_H
#define QUERN_DLPACK_H

#include <quern/array.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor; /* as before version 1 */
struct DLManagedTensorVersioned;

/* A tensor over the memory of `managed`, whose deleter is called exactly once: when the last tensor over that memory
 * has ended. On failure the caller still owns it and nothing is called. Memory that is flagged as read-only can be read
 * and not written. Any strides, negative ones included. What qn_from_blob says about two tensors over the same memory
 * holds here too. */
QN_API qn_tensor *qn_from_dlpack(qn_context *ctx, struct DLManagedTensor *managed);
QN_API qn_tensor *qn_from_dlpack_versioned(qn_context *ctx, struct DLManagedTensorVersioned *managed);

/* The tensor's memory as others see it, computed now; NULL on failure, as for a tensor that requires a gradient (detach
 * it first). The consumer calls the deleter once, from any thread, even after the tensor and its context have ended:
 * the memory stays until then. */
QN_API struct DLManagedTensor *qn_to_dlpack(qn_tensor *t);
QN_API struct DLManagedTensorVersioned *qn_to_dlpack_versioned(qn_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
