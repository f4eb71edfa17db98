"""The state: a columnar set of version deltas and its join."""

from crdtcat.log.build import LogBuilder
from crdtcat.log.join import join, select
from crdtcat.log.log import Log, empty_log
from crdtcat.log.serialize import Bundle, decode_bundle, encode_bundle
from crdtcat.log.state import State

__all__ = [
    "Bundle",
    "Log",
    "LogBuilder",
    "State",
    "decode_bundle",
    "empty_log",
    "encode_bundle",
    "join",
    "select",
]
