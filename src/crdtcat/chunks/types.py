"""Types, as the layers above use them: codes, storage, widening, lossless casts.

One door to four small modules: `type_codes` (types as MessagePack-able values), `storage_types` (what Parquet
holds, and the way there and back), `widen` (the least common type), `casts` (values moved without loss).
"""

from crdtcat.chunks.casts import cast_lossless
from crdtcat.chunks.storage_types import from_storage, storage_schema, storage_type, to_storage
from crdtcat.chunks.type_codes import TypeCode, decode_type, encode_type
from crdtcat.chunks.widen import is_lossless, widen

__all__ = [
    "TypeCode",
    "cast_lossless",
    "decode_type",
    "encode_type",
    "from_storage",
    "is_lossless",
    "storage_schema",
    "storage_type",
    "to_storage",
    "widen",
]
