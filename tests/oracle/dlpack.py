#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors from PyTorch and NumPy through a built libquern.so and back, by DLPack, in this one process: same addresses, writes seen on
both sides, every deleter called. Nothing is generated: it is a check that runs where torch is.
Usage: dlpack.py path/to/libquern.so   (needs torch and numpy)"""
import ctypes as C
import gc
import sys
import weakref

import numpy as np
import torch

q = C.CDLL(sys.argv[1])
py = C.pythonapi
py.PyCapsule_New.restype, py.PyCapsule_New.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
py.PyCapsule_GetPointer.restype, py.PyCapsule_GetPointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
py.PyCapsule_SetName.argtypes = [C.py_object, C.c_char_p]
USED, USED_VERSIONED = b'used_dltensor', b'used_dltensor_versioned'
for name in 'qn_from_dlpack qn_from_dlpack_versioned qn_to_dlpack qn_to_dlpack_versioned qn_data qn_mul_number_ qn_context_error'.split():
    getattr(q, name).restype = C.c_void_p
q.qn_mul_number_.argtypes = [C.c_void_p, C.c_double]


class Error(C.Structure):
    _fields_ = [('status', C.c_int), ('text', C.c_char * 512)]


ctx = C.c_void_p()
assert q.qn_context_create(None, C.byref(ctx), None) == 0


def take(obj, versioned):
    """obj's memory as a Quern tensor."""
    capsule = obj.__dlpack__(max_version=(1, 0)) if versioned else obj.__dlpack__()
    kind = b'dltensor_versioned' if versioned else b'dltensor'
    pointer = C.c_void_p(py.PyCapsule_GetPointer(capsule, kind))
    t = (q.qn_from_dlpack_versioned if versioned else q.qn_from_dlpack)(ctx, pointer)
    assert t, Error.from_address(q.qn_context_error(ctx)).text
    py.PyCapsule_SetName(capsule, USED_VERSIONED if versioned else USED)
    return C.c_void_p(t)


class Give:
    """A Quern tensor as an object that torch.from_dlpack and numpy.from_dlpack take."""
    def __init__(self, t):
        self.t = t

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None, **_):
        versioned = max_version is not None and max_version[0] >= 1
        m = (q.qn_to_dlpack_versioned if versioned else q.qn_to_dlpack)(self.t)
        assert m, Error.from_address(q.qn_context_error(ctx)).text
        return py.PyCapsule_New(m, b'dltensor_versioned' if versioned else b'dltensor', None)


def address(x):
    return x.data_ptr() if isinstance(x, torch.Tensor) else x.ctypes.data


n = 0
for versioned in (False, True):
    for make in (lambda d: torch.arange(24, dtype=d).reshape(4, 6), lambda d: torch.arange(24, dtype=d).reshape(4, 6)[1:, ::2].t()):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
                      torch.uint8):
            x = make(dtype)
            gone = []
            weakref.finalize(x.untyped_storage(), gone.append, 1)
            want = x.clone() * 2
            at = address(x)
            t = take(x, versioned)
            assert q.qn_data(t) == at
            q.qn_mul_number_(t, 2.0)
            assert q.qn_eval(t) == 0 and torch.equal(x, want), dtype
            y = torch.from_dlpack(Give(t))
            assert y.data_ptr() == at and y.dtype == dtype and y.stride() == x.stride() and torch.equal(y, want)
            if dtype != torch.bfloat16:
                z = np.from_dlpack(Give(t))
                assert address(z) == at and z.strides == tuple(s * z.itemsize for s in x.stride()) and np.array_equal(z, want.numpy())
                del z
            del x, want
            q.qn_release(t)
            gc.collect()
            assert torch.isfinite(y.float()).all()  # y holds the memory that torch made, through Quern
            del y
            n += 1
b = torch.tensor([True, False, True])
y = torch.from_dlpack(Give(take(b, True)))
assert y.dtype == torch.bool and torch.equal(y, b)
a = np.arange(6.0)
a.flags.writeable = False
t = take(a, True)
assert q.qn_data(t) == address(a) and not q.qn_mul_number_(t, 2.0) and b'read-only' in Error.from_address(q.qn_context_error(ctx)).text
late = torch.from_dlpack(Give(take(torch.arange(5.0), False)))
q.qn_context_destroy(ctx)
assert late.tolist() == [0, 1, 2, 3, 4]  # the context has ended, the memory has not
del late, y
gc.collect()
print('%d round trips with torch %s and numpy %s' % (n + 2, torch.__version__, np.__version__))
