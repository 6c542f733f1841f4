"""An exporter of the Arrow C interface in ctypes: sound columns without any Arrow library, and broken ones too."""

import ctypes
from collections import Counter

import numpy as np

INT64 = ctypes.c_int64
ADDRESS = ctypes.c_void_p


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class ArrowArrayStream(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
RELEASE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray))
GET_LAST_ERROR = ctypes.CFUNCTYPE(ADDRESS, ctypes.POINTER(ArrowArrayStream))

ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", INT64),
    ("n_children", INT64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", RELEASE_SCHEMA),
    ("private_data", ADDRESS),
]
ArrowArray._fields_ = [
    ("length", INT64),
    ("null_count", INT64),
    ("offset", INT64),
    ("n_buffers", INT64),
    ("n_children", INT64),
    ("buffers", ctypes.POINTER(ADDRESS)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", RELEASE_ARRAY),
    ("private_data", ADDRESS),
]
ArrowArrayStream._fields_ = [
    ("get_schema", GET_SCHEMA),
    ("get_next", GET_NEXT),
    ("get_last_error", GET_LAST_ERROR),
    ("release", RELEASE_STREAM),
    ("private_data", ADDRESS),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ADDRESS, ctypes.c_char_p, ADDRESS]
_NAMES = {ArrowSchema: b"arrow_schema", ArrowArray: b"arrow_array", ArrowArrayStream: b"arrow_array_stream"}


def capsule(struct):
    """A capsule without a destructor: who releases what is the test's to see."""
    return _new_capsule(ctypes.addressof(struct), _NAMES[type(struct)], None)


# An importer may hold addresses of an exporter's structs, values and callbacks for as long as it likes, which Python
# cannot see; so none of them is ever freed.
_EXPORTERS = []


class Exporter:
    """Builds the structs, keeps all of them alive and counts which were handed out and which were released."""

    def __init__(self):
        _EXPORTERS.append(self)
        self.kept = []
        self.made = Counter()
        self.released = Counter()

    def _keep(self, value):
        self.kept.append(value)
        return value

    def _release(self, kind, of):
        def release(pointer):
            assert pointer.contents.release, f"a {kind} was released twice"
            pointer.contents.release = type(pointer.contents.release)()
            self.released[kind] += 1

        return self._keep(of(release))

    def _pointers(self, of, structs):
        pointers = (ctypes.POINTER(of) * max(len(structs), 1))(*map(ctypes.pointer, structs))
        return ctypes.cast(self._keep(pointers), ctypes.POINTER(ctypes.POINTER(of)))

    def schema(self, format, children=(), dictionary=None, kind="schema"):
        struct = self._keep(ArrowSchema())
        struct.format = format.encode()
        struct.n_children = len(children)
        struct.children = self._pointers(ArrowSchema, children)
        if dictionary is not None:
            struct.dictionary = ctypes.pointer(dictionary)
        struct.release = self._release(kind, RELEASE_SCHEMA)
        self.made[kind] += 1
        return struct

    def array(self, length, buffers, *, offset=0, null_count=0, children=(), dictionary=None, kind="array"):
        struct = self._keep(ArrowArray())
        struct.length, struct.offset, struct.null_count = length, offset, null_count
        struct.n_buffers = len(buffers)
        addresses = [None if part is None else self._keep(part).ctypes.data for part in buffers]
        struct.buffers = ctypes.cast(self._keep((ADDRESS * max(len(buffers), 1))(*addresses)), ctypes.POINTER(ADDRESS))
        struct.n_children = len(children)
        struct.children = self._pointers(ArrowArray, children)
        if dictionary is not None:
            struct.dictionary = ctypes.pointer(dictionary)
        struct.release = self._release(kind, RELEASE_ARRAY)
        self.made[kind] += 1
        return struct

    def numbers(self, values, valid=None, *, offset=0, **options):
        """An array of the values, with `offset` rows of rubbish before them; booleans are packed into bits."""
        values = np.asarray(values)
        length = len(values)
        padded = np.concatenate([np.ones(offset, values.dtype), values])
        data = np.packbits(padded, bitorder="little") if values.dtype == np.bool_ else padded
        bitmap, null_count = None, 0
        if valid is not None:
            bitmap = np.packbits(np.concatenate([np.zeros(offset, np.bool_), valid]), bitorder="little")
            null_count = int(length - np.count_nonzero(valid))
        options.setdefault("null_count", null_count)
        return self.array(length, [bitmap, data], offset=offset, **options)

    def stream(self, schema, arrays, *, fails_with=None, schema_fails_with=None):
        """A stream of the arrays; after them its end, or the failure of that message."""
        struct = self._keep(ArrowArrayStream())
        pending = list(arrays)
        message = self._keep(ctypes.create_string_buffer((fails_with or schema_fails_with or "").encode()))

        def get_schema(stream, out):
            if schema_fails_with is not None:
                return 5
            ctypes.memmove(out, ctypes.byref(schema), ctypes.sizeof(schema))
            return 0

        def get_next(stream, out):
            if pending:
                ctypes.memmove(out, ctypes.byref(pending.pop(0)), ctypes.sizeof(ArrowArray))
                self.made["pulled"] += 1
                return 0
            if fails_with is not None:
                return 5
            out.contents.release = RELEASE_ARRAY()
            return 0

        struct.get_schema = self._keep(GET_SCHEMA(get_schema))
        struct.get_next = self._keep(GET_NEXT(get_next))
        struct.get_last_error = self._keep(GET_LAST_ERROR(lambda stream: ctypes.addressof(message)))
        struct.release = self._release("stream", RELEASE_STREAM)
        self.made["stream"] += 1
        return struct


class ArrayColumn:
    """An object with `__arrow_c_array__`."""

    def __init__(self, schema, array):
        self.structs = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self.structs
        return capsule(schema), capsule(array)


class StreamColumn:
    """An object with `__arrow_c_stream__`."""

    def __init__(self, stream):
        self.struct = stream

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.struct)
