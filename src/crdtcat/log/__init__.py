"""The state: a columnar set of version deltas and its join."""

from crdtcat.log.build import LogBuilder
from crdtcat.log.join import join, join_all, select
from crdtcat.log.log import Log, empty_log
from crdtcat.log.serialize import Bundle, Summary, decode_bundle, encode_bundle, read_summary
from crdtcat.log.state import State

__all__ = [
    "Bundle",
    "Log",
    "LogBuilder",
    "State",
    "Summary",
    "decode_bundle",
    "empty_log",
    "encode_bundle",
    "join",
    "join_all",
    "read_summary",
    "select",
]
