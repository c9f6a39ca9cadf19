/* SPDX-License-Identifier: MIT */
/* src/array/io/dlpack.h -- DLPack's structures, from the specification of version 1.0. Their layout is the interface:
 * asserts hold it. */
#ifndef QN_ARRAY_DLPACK_H
#define QN_ARRAY_DLPACK_H

#include <stddef.h>
#include <stdint.h>

enum { QN_DL_MAJOR = 1, QN_DL_MINOR = 0 };
/* devices whose memory the host reads */
enum { QN_DL_CPU = 1, QN_DL_CUDA_HOST = 3, QN_DL_ROCM_HOST = 11 };
enum { QN_DL_INT = 0, QN_DL_UINT = 1, QN_DL_FLOAT = 2, QN_DL_BFLOAT = 4, QN_DL_BOOL = 6 }; /* classes of elements */
#define QN_DL_READ_ONLY UINT64_C(1)                                                        /* of flags */

typedef struct qn_dl_device {
    int32_t type, id;
} qn_dl_device;
typedef struct qn_dl_tensor {
    void *data;
    qn_dl_device device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL: row-major */
    uint64_t byte_offset; /* of the first element, from data */
} qn_dl_tensor;

struct DLManagedTensor {
    qn_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    qn_dl_tensor dl_tensor;
};

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(qn_dl_tensor) == 48 && offsetof(qn_dl_tensor, shape) == 24 &&
                    sizeof(struct DLManagedTensor) == 64 && sizeof(struct DLManagedTensorVersioned) == 80),
               "DLPack's layout");

#endif
