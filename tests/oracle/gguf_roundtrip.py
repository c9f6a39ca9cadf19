#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quern and the gguf package read what the other writes. usage: gguf_roundtrip.py PATH/libquern.so [FILE.gguf ...]

  1. a file with every kind of value and several tensor types, written through quern/gguf.h, read by the package
  2. files that the package writes (little endian, big endian, split in parts, other alignment), read through quern/gguf.h
  3. each FILE: copied by quern (metadata and tensor data), then compared field by field and byte by byte by the package
Prints one line a check; exits 1 at the first difference. Needs the gguf package (0.19 was used) and numpy.
"""
import ctypes as C
import os
import sys
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, GGUFEndian, GGUFReader, GGUFValueType as V, GGUFWriter


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 512), ("file", C.c_char_p), ("line", C.c_int)]


class Shape(C.Structure):
    _fields_ = [("rank", C.c_int), ("dim", C.c_int64 * 8)]


class Str(C.Structure):
    _fields_ = [("data", C.POINTER(C.c_char)), ("len", C.c_size_t)]


class Kv(C.Structure):
    _fields_ = [("key", C.c_char_p), ("type", C.c_int), ("elem", C.c_int), ("count", C.c_uint64), ("offset", C.c_uint64)]


class Tensor(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_int), ("shape", Shape), ("data", C.c_void_p), ("size_bytes", C.c_uint64),
                ("file_offset", C.c_uint64), ("part", C.c_int)]


class DtypeInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("gguf_id", C.c_int), ("block_elems", C.c_int), ("block_bytes", C.c_int), ("class_", C.c_int)]


class Quern:
    def __init__(self, path):
        self.lib = lib = C.CDLL(path)
        for name, result, args in (
                ("qn_gguf_open", C.c_int, (C.c_char_p, C.c_void_p, C.c_void_p, C.c_void_p)), ("qn_gguf_close", None, (C.c_void_p,)),
                ("qn_gguf_n_kv", C.c_size_t, (C.c_void_p,)), ("qn_gguf_kv_get", C.POINTER(Kv), (C.c_void_p, C.c_size_t)),
                ("qn_gguf_n_tensors", C.c_size_t, (C.c_void_p,)),
                ("qn_gguf_tensor_get", C.POINTER(Tensor), (C.c_void_p, C.c_size_t)), ("qn_gguf_n_parts", C.c_int, (C.c_void_p,)),
                ("qn_dtype_get", C.POINTER(DtypeInfo), (C.c_int,)), ("qn_dtype_from_gguf", C.c_bool, (C.c_uint32, C.c_void_p)),
                ("qn_gguf_writer_create", C.c_int, (C.c_char_p, C.c_void_p, C.c_void_p)),
                ("qn_gguf_writer_commit", C.c_int, (C.c_void_p, C.c_void_p)),
                ("qn_gguf_write_u32", None, (C.c_void_p, C.c_char_p, C.c_uint32)),
                ("qn_gguf_write_u64", None, (C.c_void_p, C.c_char_p, C.c_uint64)),
                ("qn_gguf_write_f32", None, (C.c_void_p, C.c_char_p, C.c_float)),
                ("qn_gguf_write_bool", None, (C.c_void_p, C.c_char_p, C.c_bool)),
                ("qn_gguf_write_str", None, (C.c_void_p, C.c_char_p, C.c_char_p)),
                ("qn_gguf_write_strs", None, (C.c_void_p, C.c_char_p, C.c_void_p, C.c_uint64)),
                ("qn_gguf_write_array", None, (C.c_void_p, C.c_char_p, C.c_int, C.c_void_p, C.c_uint64)),
                ("qn_gguf_write_kvs", None, (C.c_void_p, C.c_void_p, C.c_char_p)),
                ("qn_gguf_declare", None, (C.c_void_p, C.c_char_p, C.c_int, C.c_void_p)),
                ("qn_gguf_write_data", None, (C.c_void_p, C.c_void_p, C.c_size_t))):
            f = getattr(lib, name)
            f.restype, f.argtypes = result, args
        for name in ("u64", "i64", "f64", "bool", "str"):
            getattr(lib, "qn_gguf_get_" + name).argtypes = (C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p, C.c_void_p)

    def check(self, status, err):
        if status != 0:
            sys.exit("quern: " + err.text.decode())

    def open(self, path):
        file, err = C.c_void_p(), Error()
        self.check(self.lib.qn_gguf_open(path.encode(), None, C.byref(file), C.byref(err)), err)
        return file

    def writer(self, path):
        w, err = C.c_void_p(), Error()
        self.check(self.lib.qn_gguf_writer_create(path.encode(), C.byref(w), C.byref(err)), err)
        return w

    def commit(self, w):
        err = Error()
        self.check(self.lib.qn_gguf_writer_commit(w, C.byref(err)), err)

    def dtype(self, number):
        out = C.c_int()
        assert self.lib.qn_dtype_from_gguf(int(number), C.byref(out))
        return out.value

    def value(self, file, kv, index):
        kinds = {V.STRING: ("str", Str), V.BOOL: ("bool", C.c_bool), V.FLOAT32: ("f64", C.c_double), V.FLOAT64: ("f64", C.c_double)}
        signed = (V.INT8, V.INT16, V.INT32, V.INT64)
        name, kind = kinds.get(V(kv.elem), ("i64", C.c_int64) if V(kv.elem) in signed else ("u64", C.c_uint64))
        out, err = kind(), Error()
        self.check(getattr(self.lib, "qn_gguf_get_" + name)(file, C.byref(kv), index, C.byref(out), C.byref(err)), err)
        return C.string_at(out.data, out.len) if kind is Str else out.value

    def metadata(self, file):
        out = {}
        for i in range(self.lib.qn_gguf_n_kv(file)):
            pointer = self.lib.qn_gguf_kv_get(file, i)
            kv = pointer.contents  # getters need the file's own entry: byref of contents is its address
            values = [self.value(file, kv, k) for k in range(kv.count)]
            out[kv.key.decode()] = (int(kv.type), int(kv.elem), values)
        return out

    def tensors(self, file):
        out = {}
        for i in range(self.lib.qn_gguf_n_tensors(file)):
            t = self.lib.qn_gguf_tensor_get(file, i).contents
            number = self.lib.qn_dtype_get(t.dtype).contents.gguf_id
            out[t.name.decode()] = (number, tuple(t.shape.dim[:t.shape.rank]), C.string_at(t.data, t.size_bytes))
        return out


def package_view(paths):
    """What the package reads, in the form that Quern.metadata and Quern.tensors give."""
    fields, tensors = {}, {}
    for path in paths:
        r = GGUFReader(path)
        for f in r.fields.values():
            if f.name.startswith("GGUF.") or f.name in fields or (path != paths[0] and f.name.startswith("split.")):
                continue
            kind, elem = int(f.types[0]), int(f.types[-1])
            values = [bytes(f.parts[i]) if elem == V.STRING else f.parts[i].tolist()[0] for i in f.data]
            fields[f.name] = (kind, elem, values)
        for t in r.tensors:
            raw = np.asarray(r.data[t.data_offset:t.data_offset + t.n_bytes]).tobytes()
            tensors[t.name] = (int(t.tensor_type), tuple(int(d) for d in reversed(t.shape)), raw)
    return fields, tensors


def same(what, a, b):
    if a.keys() != b.keys():
        sys.exit(f"{what}: keys differ: {sorted(set(a) ^ set(b))}")
    for key in a:
        # An empty array has no element type in the package's view.
        if a[key] != b[key] and not (a[key][0] == V.ARRAY and not a[key][2] and not b[key][2]):
            sys.exit(f"{what}: {key}: {str(a[key])[:200]} and {str(b[key])[:200]}")


def compare(q, what, quern_path, package_paths):
    file = q.open(quern_path)
    fields, tensors = package_view(package_paths)
    same(what, q.metadata(file), fields)
    same(what, q.tensors(file), tensors)
    parts = q.lib.qn_gguf_n_parts(file)
    q.lib.qn_gguf_close(file)
    assert parts == len(package_paths), what
    print(f"{what}: {len(fields)} keys, {len(tensors)} tensors, {parts} parts alike")


def ours(q, path):
    rng = np.random.default_rng(1)
    w, lib = q.writer(path), q.lib
    lib.qn_gguf_write_str(w, b"general.architecture", b"llama")
    lib.qn_gguf_write_u32(w, b"general.alignment", 64)
    lib.qn_gguf_write_u64(w, b"a.u64", 2**64 - 1)
    lib.qn_gguf_write_f32(w, b"a.f32", 0.1)
    lib.qn_gguf_write_bool(w, b"a.bool", True)
    texts = ["", "gr\u00fc\u00df", "\u4f60\u597d"]
    raws = [C.create_string_buffer(t.encode()) for t in texts]
    strs = (Str * 3)(*[Str(C.cast(r, C.POINTER(C.c_char)), len(r) - 1) for r in raws])
    lib.qn_gguf_write_strs(w, b"a.strs", strs, 3)
    for kind, dtype in ((V.UINT8, "u1"), (V.INT8, "i1"), (V.UINT16, "u2"), (V.INT16, "i2"), (V.UINT32, "u4"), (V.INT32, "i4"),
                        (V.FLOAT32, "f4"), (V.UINT64, "u8"), (V.INT64, "i8"), (V.FLOAT64, "f8")):
        values = rng.integers(0, 127, 5).astype("<" + dtype)
        lib.qn_gguf_write_array(w, b"a." + kind.name.lower().encode(), int(kind), values.ctypes.data, 5)
    want = {}
    for number, shape in ((T.F32, (2, 3, 5)), (T.Q4_K, (3, 512)), (T.BF16, (7,)), (T.Q6_K, (1, 2, 1, 256)), (T.I64, (4, 1))):
        block, size = gguf.constants.GGML_QUANT_SIZES[number]
        n_bytes = int(np.prod(shape)) // block * size
        want[number.name] = (int(number), shape, rng.integers(0, 256, n_bytes, dtype=np.uint8).tobytes())
        lib.qn_gguf_declare(w, number.name.encode(), q.dtype(number), C.byref(Shape(len(shape), (C.c_int64 * 8)(*shape))))
    for _, _, raw in want.values():
        lib.qn_gguf_write_data(w, raw, len(raw))
    q.commit(w)
    same("ours", package_view([path])[1], want)


def theirs(path, **options):
    rng = np.random.default_rng(2)
    w = GGUFWriter(path, "llama", **options)
    w.add_uint8("a.u8", 200)
    w.add_int8("a.i8", -100)
    w.add_uint16("a.u16", 60000)
    w.add_int16("a.i16", -30000)
    w.add_uint32("a.u32", 4000000000)
    w.add_int32("a.i32", -2000000000)
    w.add_uint64("a.u64", 2**64 - 1)
    w.add_int64("a.i64", -2**63)
    w.add_float32("a.f32", 0.1)
    w.add_float64("a.f64", 0.1)
    w.add_bool("a.bool", True)
    w.add_string("a.str", "gr\u00fc\u00df")
    w.add_array("a.strs", ["one", "", "\u4f60\u597d"])
    w.add_array("a.ints", [1, -2, 3])
    w.add_array("a.floats", [0.5, 1e30])
    w.add_array("a.bools", [True, False])
    for i, shape in enumerate(((2, 3), (5,), (4, 1, 2), (1, 2, 3, 4))):
        w.add_tensor(f"t{i}", rng.standard_normal(shape).astype("<f4"))  # the writer turns it where it must
    w.add_tensor("q8", rng.integers(0, 256, (2, 68), dtype=np.uint8), raw_dtype=T.Q8_0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def copy(q, source, target):
    file, w = q.open(source), q.writer(target)
    q.lib.qn_gguf_write_kvs(w, file, b"")
    pointers = [q.lib.qn_gguf_tensor_get(file, i).contents for i in range(q.lib.qn_gguf_n_tensors(file))]
    for t in pointers:
        q.lib.qn_gguf_declare(w, t.name, t.dtype, C.byref(t.shape))
    for t in pointers:
        q.lib.qn_gguf_write_data(w, t.data, t.size_bytes)
    q.commit(w)
    q.lib.qn_gguf_close(file)
    a, b = package_view([source]), package_view([target])
    same(source, a[0], b[0])
    same(source, a[1], b[1])
    print(f"copy of {os.path.basename(source)}: {len(a[0])} keys, {len(a[1])} tensors alike")


def main():
    q = Quern(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        ours(q, path)
        compare(q, "written by quern", path, [path])
        theirs(path)
        compare(q, "written by the package", path, [path])
        theirs(path, endianess=GGUFEndian.BIG)
        compare(q, "written by the package, big endian", path, [path])
        theirs(path, split_max_tensors=2)
        parts = [os.path.join(folder, f"model-{i:05d}-of-00003.gguf") for i in (1, 2, 3)]
        compare(q, "written by the package, in parts", parts[0], parts)
        for source in sys.argv[2:]:
            copy(q, source, path)


if __name__ == "__main__":
    main()
