"""Objects by name over any filesystem: the only place that touches storage."""

from crdtcat.errors import Missing
from crdtcat.store.base import Store
from crdtcat.store.opening import open_store
from crdtcat.store.requests import RequestCounter, RequestCounts
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.values import ObjectInfo, Page, Range

__all__ = [
    "Missing",
    "ObjectInfo",
    "Page",
    "Range",
    "RequestCounter",
    "RequestCounts",
    "RetryPolicy",
    "Store",
    "open_store",
]
