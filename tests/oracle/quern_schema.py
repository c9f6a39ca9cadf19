# SPDX-License-Identifier: MIT
"""Quern's JSON schemas from Python, through the shared library: for schemas.py and its relatives."""
import ctypes
import json

QN_OK, QN_NOMEM, QN_INVALID, QN_FORMAT, QN_IO, QN_UNSUPPORTED, QN_LIMIT = range(7)


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 512), ("file", ctypes.c_char_p), ("line", ctypes.c_int)]


class TokenizeOptions(ctypes.Structure):
    _fields_ = [("no_bos", ctypes.c_bool), ("no_special", ctypes.c_bool), ("plain", ctypes.c_void_p),
                ("n_plain", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("widen", ctypes.c_bool), ("object", ctypes.c_bool), ("whole_fractions", ctypes.c_bool)]


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Quern:
    def __init__(self, library, model):
        self.lib = ctypes.CDLL(library)
        self.lib.qn_grammar_widened.restype = ctypes.c_char_p
        for name in ("qn_matcher_may_end", "qn_matcher_must_end"):
            getattr(self.lib, name).restype = ctypes.c_bool
        file = ctypes.c_void_p()
        self.tok = ctypes.c_void_p()
        self.call("qn_gguf_open", model.encode(), None, ctypes.byref(file))
        self.call("qn_tokenizer_create", file, ctypes.byref(self.tok))

    def call(self, name, *args):
        err = Error()
        if getattr(self.lib, name)(*args, ctypes.byref(err)) != QN_OK:
            raise Refused(err.status, err.text.decode("utf-8", "replace"))

    def compile(self, text):
        grammar = ctypes.c_void_p()
        self.call("qn_grammar_create_schema", text.encode(), None, ctypes.byref(grammar))
        return grammar

    def schema(self, text, **options):
        return Schema(self, text if isinstance(text, str) else json.dumps(text), Options(**options))


class Schema:
    def __init__(self, quern, text, options):
        self.quern = quern
        self.grammar = ctypes.c_void_p()
        self.matcher = ctypes.c_void_p()
        quern.call("qn_grammar_create_schema", text.encode(), ctypes.byref(options), ctypes.byref(self.grammar))
        quern.call("qn_matcher_create", self.grammar, quern.tok, ctypes.byref(self.matcher))

    def widened(self):
        n = self.quern.lib.qn_grammar_n_widened(self.grammar)
        return [self.quern.lib.qn_grammar_widened(self.grammar, i).decode() for i in range(n)]

    def accepts(self, text):
        """Whether the text is a whole output."""
        data = text.encode() if isinstance(text, str) else text
        self.quern.lib.qn_matcher_reset(self.matcher)
        try:
            self.quern.call("qn_matcher_accept_text", self.matcher, data, ctypes.c_size_t(len(data)))
        except Refused:
            return False
        return self.quern.lib.qn_matcher_may_end(self.matcher)

    def first_masked(self, text):
        """Tokenizes the text (a vocabulary that puts a space before it cannot be used); the number of the first token that its mask does
        not have, or how many there are when it may not end there; None: all may come."""
        lib, data = self.quern.lib, text.encode()
        ids, n, at = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t(), 0
        options = TokenizeOptions(no_bos=True, no_special=True)
        self.quern.call("qn_tokenize", self.quern.tok, data, ctypes.c_size_t(len(data)), ctypes.byref(options),
                        ctypes.byref(ids), ctypes.byref(n))
        lib.qn_matcher_reset(self.matcher)
        found = None
        for i in range(n.value):
            mask = ctypes.POINTER(ctypes.c_uint32)()
            self.quern.call("qn_matcher_mask", self.matcher, ctypes.byref(mask))
            if not mask[ids[i] // 32] >> ids[i] % 32 & 1:
                found = i
                break
            self.quern.call("qn_matcher_accept", self.matcher, ids[i])
        lib.qn_free(ids)
        if found is None and not lib.qn_matcher_may_end(self.matcher):
            found = n.value
        return found

    def close(self):
        self.quern.lib.qn_matcher_destroy(self.matcher)
        self.quern.lib.qn_grammar_destroy(self.grammar)
