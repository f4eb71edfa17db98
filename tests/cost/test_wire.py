"""What really goes to an S3 server: no HEAD, no look at the bucket, nothing the counters do not know of."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator

import pytest

from crdtcat import Catalog
from crdtcat.testing.s3_server import S3Server
from tests.cost.places import SCHEMA, few, many
from tests.cost.wire import Wire, watched

pytestmark = pytest.mark.s3


@pytest.fixture
def wire(s3_server: S3Server) -> Iterator[Wire]:
    with watched(s3_server.endpoint_url) as found:
        yield found


@pytest.fixture
def catalog(wire: Wire, s3_server: S3Server, s3_url: str) -> Catalog:
    options = {**s3_server.storage_options, "endpoint_url": wire.endpoint_url}
    return Catalog(s3_url, options, upkeep=False)


def test_every_verb_sends_what_is_counted_and_nothing_else(wire: Wire, catalog: Catalog) -> None:
    store = catalog.store
    sent: list[tuple[str, list[str]]] = []

    def note(verb: str) -> None:
        sent.append((verb, wire.taken()))

    table = catalog.create_table("t", SCHEMA)
    note("create")
    table.append(few())
    note("append inlined")
    table.append(many())
    note("append larger")
    table.head()
    note("head")
    table.head()
    note("warm head")
    table.overwrite(few())
    note("overwrite")
    table.tag("one")
    note("tag")
    table.scan(["n"], at=table.history()[0].id).to_table()
    note("read")
    table.restore("one")
    note("restore")
    table.checkpoint()
    note("checkpoint")
    catalog.tables()
    note("tables")
    catalog.drop_table("t")
    note("drop")

    seen = dict(sent)
    assert Counter(seen["create"]) == {"GET": 2, "LIST": 1, "PUT": 2}
    assert seen["append inlined"] == ["PUT"]
    assert seen["append larger"] == ["PUT", "PUT"]
    assert seen["head"] == ["GET", "LIST"]  # is there a mark? Its own commits are at hand
    assert seen["warm head"] == ["LIST"]
    assert Counter(seen["overwrite"]) == {"LIST": 1, "PUT": 1}
    everything = Counter(method for _, methods in sent for method in methods)
    counted = store.requests.snapshot()
    assert everything == {
        "PUT": counted.put,
        "GET": counted.get,
        "LIST": counted.list,
        "POST": counted.delete,  # a delete of several names is a POST
    }


def test_the_first_request_of_a_pickled_handle_is_its_put(wire: Wire, catalog: Catalog) -> None:
    table = pickle.loads(pickle.dumps(catalog.create_table("t", SCHEMA)))
    wire.taken()
    table.append(few())
    assert wire.taken() == ["PUT"]


def test_a_new_connection_asks_nothing_of_its_own(wire: Wire, s3_server: S3Server, s3_url: str) -> None:
    options = {**s3_server.storage_options, "endpoint_url": wire.endpoint_url}
    Catalog(s3_url, s3_server.storage_options).create_table("t", SCHEMA)
    catalog = Catalog(s3_url, options, upkeep=False)
    assert wire.taken() == []
    catalog.commit("t", few())
    assert wire.taken() == ["GET", "GET", "PUT"]
    catalog.commit("t", few())
    assert wire.taken() == ["PUT"]
