"""The catalog: tables under one root URL. `commit` and `read` are the two calls most users need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.catalog.named_tables import NamedTables
from crdtcat.clock import HybridClock
from crdtcat.conflicts.resolve import Policy
from crdtcat.drive import elapsed_clock
from crdtcat.errors import AlreadyExists
from crdtcat.format.settings import Settings
from crdtcat.head import Version
from crdtcat.lifecycle.incarnations import MAIN, create, current_settings
from crdtcat.names import validate_table_name
from crdtcat.options import make_options
from crdtcat.protocol.claimer import Parent
from crdtcat.store import Store, open_store
from crdtcat.support.arguments import require_branch_name, require_flag
from crdtcat.support.locks import ForkSafeLock
from crdtcat.table import Table
from crdtcat.transaction import Transaction
from crdtcat.verbs.parts import append_first
from crdtcat.verbs.settings import differences, new_settings, require_creatable, require_exclusion
from crdtcat.verbs.travel import At
from crdtcat.writing.copies import new_origin, shared_clock
from crdtcat.writing.incoming import Incoming


class Catalog(NamedTables):
    """Tables under one root: a local path, `memory://...`, `s3://bucket/prefix`, any fsspec URL.

    Opening costs nothing; the first use checks the catalog's format with one GET. Picklable (credentials
    travel with it, and are never printed), fork-safe, thread-safe.

    Args:
        url: the root.
        storage_options: passed to the filesystem: credentials, endpoint, ...
        **options: see `crdtcat.options.Options`: `upkeep`, `inline_bytes`, `grace_seconds`, `verify`, ...

    Raises:
        InvalidArgument: an option that does not exist, or a value outside its range.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | Store,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.store = _opened(url, storage_options)
        self.options = make_options(**options)
        Policy.of(self.options.on_conflict)
        self._tables: dict[str, Table] = {}
        self._checked = False
        self._origin, self._copied = new_origin(), False
        self._clock, self._lock = HybridClock(), ForkSafeLock()

    def __getstate__(self) -> dict[str, Any]:
        own = {key: value for key, value in self.__dict__.items() if key not in ("_clock", "_lock")}
        return {**own, "_seen": self._clock.last}  # a copy's commits sort after what this one saw

    def __setstate__(self, state: dict[str, Any]) -> None:
        seen = state.pop("_seen")
        self.__dict__.update(state)
        self._copied = True
        self._clock, self._lock = shared_clock(self._origin), ForkSafeLock()
        self._clock.observe(seen)

    def __repr__(self) -> str:
        return f"Catalog({self.url!r})"

    # The two calls most users need.

    def commit(
        self,
        table: str,
        data: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        evolve: bool = False,
        branch: str = MAIN,
    ) -> Version:
        """Append rows to a table, creating it if it is not there. See `Table.append` for options and cost.

        A branch is not created: `Table.branch` does that.

        A table that is created here has no declared columns: they are what its rows bring. Each program is
        then checked against what it knows itself, so one that writes another type to the same column is not
        stopped; its rows are kept, listed by `conflicts()`, and read as null. Where several programs write,
        declare the columns with `create_table`. Rows that cannot be stored create nothing.
        """
        require_flag("evolve", evolve)
        require_branch_name(branch)
        rows = Incoming.of(data)

        def committed() -> Version:
            handle = self._to_append(table, branch)
            if handle is None:
                make = lambda: self.create_table(table, exist_ok=True)._session  # noqa: E731
                return append_first(self.store, self.options, make, rows, metadata=metadata, key=key)
            return handle.append(rows, metadata=metadata, key=key, evolve=evolve)

        return self._again(committed, can=lambda: rows.can_be_read_again)

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        at: At | None = None,
        branch: str = MAIN,
    ) -> pa.Table:
        """All rows of a table, merged on read, as an Arrow table. See `Table.scan` for options and cost.

        A table that this handle did not know yet is listed while its settings are fetched, where the store is
        far away: one round trip less. One LIST more where the table was dropped before, does not exist, or
        took part in a transaction; one GET more where its log has more than a page.
        """
        require_branch_name(branch)

        def rows() -> pa.Table:
            handle = self._to_read(table) if branch == MAIN else self.table(table, branch)
            try:
                return handle.read(columns, filter, at=at)
            finally:
                handle._session.first_page = None  # if it was refused before it looked: for nobody else

        return self._again(rows)

    # Tables.

    def create_table(
        self,
        name: str,
        schema: pa.Schema | None = None,
        *,
        partition_by: Sequence[str] = (),
        time_column: str | None = None,
        mode: str = "merge",
        key: Sequence[str] = (),
        exist_ok: bool = False,
    ) -> Table:
        """Create a table. One GET, one LIST and one PUT; one more GET and PUT the first time in a catalog.

        Where one of that name was dropped, four more GETs. Of several processes that create
        it at once with different settings one wins; those that bring equal settings share the table.

        Args:
            name: ASCII letters, digits, `_`, `-`, `.`.
            schema: its columns; without one they are what the first rows bring.
            partition_by: column names or transforms: `day(ts)`, `bucket(16, id)`, `truncate(3, zip)`, ...
            time_column: the column whose range `history` shows; the first timestamp by default.
            mode: "merge": writers never meet. "cas": strict history; who touches the same rows gets an error.
            key: columns that rows are known by. The table then has one row for each key, in the order of
                keys, and `append` is `upsert`. They are never null, and keep names and types for good.
            exist_ok: whether a table with the same settings may be there already.

        Raises:
            AlreadyExists: the name is taken.
            UserError: names, types, key or partitioning that are not allowed, or too large together.
            Corrupt: the table's log is there and its settings are not.
            CapabilityMissing: CAS mode on a store that cannot create exclusively.
        """
        validate_table_name(name)
        require_flag("exist_ok", exist_ok)
        settings = new_settings(schema, partition_by, time_column, mode, key)
        if mode == "cas":
            require_exclusion(self.store, name)
        require_creatable(settings)
        with self._lock():
            self._check_format(create=True)
            while True:
                began = elapsed_clock()
                found = current_settings(self.store, name)
                if found is not None and not found.dropped:
                    return self._existing(name, found, settings, exist_ok=exist_ok)
                made = create(self.store, name, settings, found)
                if made is not None:
                    self._tables[name] = self._handle(name, made)
                    self._tables[name]._session.chain.saw(Parent(), began)  # no claim can be older
                    return self._tables[name]

    def transaction(self, tables: Sequence[str] = (), *, isolation: str | None = None) -> Transaction:
        """Changes to several tables that become visible together: use it in a `with` block. One PUT, and one
        more the first time a table takes part. Tables are pinned when first used, or now if named.
        `isolation`: the catalog's; "serializable" (CAS mode): fails, too, if others changed what it read."""
        return Transaction(self, tables, isolation=isolation)

    @property
    def clock(self) -> HybridClock:
        """This handle's hybrid clock."""
        return self._clock

    def _existing(self, name: str, found: Settings, wanted: Settings, *, exist_ok: bool) -> Table:
        if not exist_ok:
            raise AlreadyExists(f"table {name!r} is already in {self.url}; pass exist_ok=True to use it")
        same = found.as_created() == wanted.as_created()
        if not same and wanted != Settings():
            raise AlreadyExists(
                f"table {name!r} is already in {self.url}, with other settings: {differences(found, wanted)}"
            )
        handle = self._tables.get(name)
        if handle is None or handle.dropped or handle._session.settings.incarnation != found.incarnation:
            handle = self._tables[name] = self._handle(name, found)
        return handle


def _opened(url: Any, storage_options: Any) -> Store:
    return url if isinstance(url, Store) else open_store(url, storage_options)
