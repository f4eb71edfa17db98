"""Types, as the layers above use them: codes, storage, widening, lossless casts.

One door to seven small modules: `type_codes` (types as MessagePack-able values), `type_parts` (types within
types), `storage_types` (what Parquet holds, and the way there and back), `narrow` (the way back for encodings
of few bits), `widen` (the least common type), `casts` (values moved without loss), `no_rows` (none, of
any type).
"""

from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.narrow import combinable, restored
from crdtcat.chunks.no_rows import no_rows
from crdtcat.chunks.storage_types import from_storage, storage_schema, storage_type, to_storage
from crdtcat.chunks.type_codes import TypeCode, decode_type, encode_type
from crdtcat.chunks.type_parts import roomy, without_encodings
from crdtcat.chunks.widen import is_lossless, widen

__all__ = [
    "TypeCode",
    "cast_lossless",
    "combinable",
    "decode_type",
    "encode_type",
    "from_storage",
    "is_lossless",
    "no_rows",
    "restored",
    "roomy",
    "storage_schema",
    "storage_type",
    "to_storage",
    "widen",
    "without_encodings",
]
