"""Arrow extension types: what they say of themselves, and the way back by their registry. No I/O."""

from __future__ import annotations

import ctypes

import pyarrow as pa


class _ArrowSchema(ctypes.Structure):
    """The head of a schema in Arrow's C data interface: the only place that shows an extension's metadata.

    Types implemented in C++ (uuid, json, tensors) have no Python method that serializes them.
    """

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 48),
    )


def extension_metadata(t: pa.BaseExtensionType) -> bytes:
    """What an extension type writes down about itself."""
    exported = _ArrowSchema()
    address = ctypes.addressof(exported)
    pa.field("", t)._export_to_c(address)  # the documented entry to the C data interface
    try:
        return _c_metadata(exported.metadata).get(b"ARROW:extension:metadata", b"")
    finally:
        pa.Field._import_from_c(address)  # takes ownership, and so frees the export


def _c_metadata(address: int) -> dict[bytes, bytes]:
    """Pairs in the C data interface: a count, then for each key and value its length and bytes."""
    position = address

    def number() -> int:
        nonlocal position
        position += 4
        return ctypes.c_int32.from_address(position - 4).value

    def text() -> bytes:
        nonlocal position
        size = number()
        position += size
        return ctypes.string_at(position - size, size)

    return {text(): text() for _ in range(number())}


def registered_extension(name: str, metadata: bytes, storage: pa.DataType) -> pa.DataType:
    """The extension type registered under `name`, or `storage` where there is none."""
    marks = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
    field = pa.field("", storage, metadata=marks)
    # A schema read from IPC has its extension types looked up in the registry.
    return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0).type
