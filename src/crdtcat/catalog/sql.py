"""SQL over the tables of a catalog, answered by DuckDB.

Which tables a query reads is seen in its text, before it runs (`crdtcat.catalog.sql_text`). They are pinned
together, so that the query sees one snapshot of all of them: a transaction is in each or in none. Each is
then a view whose rows are read when, and as far as, the query wants them (`crdtcat.scan.duckdb_rows`). A view
has a name that is used once, so that nothing in the connection changes its meaning. A branch of a table is
named behind an `@`, which no name has. Nothing is ever written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from crdtcat.cas.reading import EVERYTHING
from crdtcat.catalog.sql_text import asks_for_every_table, check_nesting, described, table_names, with_views
from crdtcat.errors import InvalidArgument, InvalidName, NotFound
from crdtcat.head import Head
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.scan import Scan
from crdtcat.scan.frames import as_duckdb_view, duckdb_module, require_connection
from crdtcat.support.interrupts import stopped_by
from crdtcat.support.showing import shown
from crdtcat.table import Table
from crdtcat.transaction.pinning import Known, pin
from crdtcat.verbs.travel import At, head_at

if TYPE_CHECKING:
    from crdtcat.catalog.tended_catalog import TendedCatalog

_QUERIES: Final = ("SELECT", "EXPLAIN")


def query(
    catalog: TendedCatalog,
    text: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    at: At | None = None,
    connection: Any = None,
) -> Any:
    """See `Catalog.sql`."""
    duckdb = duckdb_module("sql")
    if not isinstance(text, str):
        raise InvalidArgument(f"sql() takes a query as text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # DuckDB would say that it is no text
        raise InvalidArgument(f"sql(): {shown(text)} is not valid Unicode: {error.reason}") from error
    check_nesting(text)
    if parameters is not None and not isinstance(parameters, list | tuple | Mapping):
        raise InvalidArgument(f"parameters={shown(parameters, 60)}: pass a list, or a dict by name")
    require_connection(duckdb, connection)
    # Without a connection of the caller's, names mean tables of the catalog, and never variables in Python.
    connection = connection or duckdb.connect(config={"python_enable_replacements": "false"})
    if asks_for_every_table(text):
        return _every_table(catalog, connection)
    text = described(text)
    with _explained(duckdb, catalog, text):
        kind = _kind_of_query(connection, text)
    names = table_names(text)
    named = list(dict.fromkeys(name.name for name in names))
    tables = _found(catalog, named)
    views: dict[str, str] = {}
    unknown = [name for name in named if name not in tables]
    with _explained(duckdb, catalog, text, unknown), _dropped_if_wrong(connection, views):
        for name, (table, head) in _pinned(tables, at).items():
            session = table._session
            if at is None:
                # What the query will look at is known when it is run, on threads of DuckDB's own.
                session.looked(head, EVERYTHING)
            scan = Scan(
                head,
                session.store,
                columns=None,
                filter=None,
                verify=session.options.verify,
                footers=table._footers,
            )
            view = f"_crdtcat_{uuid4().hex}"
            as_duckdb_view(scan, connection, view)
            views[name] = view
        asked = with_views(text, names, views)

        def answer() -> Any:
            return connection.sql(asked, params=parameters) if parameters else connection.sql(asked)

        # An explanation may run its query, and DuckDB at work hears an interrupt by chance.
        return stopped_by(answer, connection.interrupt) if kind == "EXPLAIN" else answer()


def _every_table(catalog: TendedCatalog, connection: Any) -> Any:
    """The names of all tables, with those that the connection holds; not our views for earlier queries."""
    held = r"select name from (show tables) where name not like '\_crdtcat\_%' escape '\'"
    query = f"select unnest($names::varchar[]) as name union {held} order by name"
    return connection.sql(query, params={"names": catalog.tables()})


def _kind_of_query(connection: Any, text: str) -> str:
    kinds: list[str] = [statement.type.name for statement in connection.extract_statements(text)]
    if kinds == ["MULTI"]:
        raise InvalidArgument(
            "sql() answers one query, and a pivot without its values is several: name them, as in "
            "`pivot t on column in ('a', 'b') using sum(x)`"
        )
    if len(kinds) != 1 or kinds[0] not in _QUERIES:
        raise InvalidArgument(
            f"sql() answers one query, and this is {', '.join(kinds) or 'nothing'}; ask one after the other, "
            "and change tables by commit(), Table.update() and the other verbs"
        )
    return kinds[0]


def _found(catalog: TendedCatalog, named: Sequence[str]) -> dict[str, Table]:
    """Those names that are tables; as DuckDB has it, upper and lower case are one where that is clear."""
    found: dict[str, Table] = {}
    every: list[str] | None = None
    for name in named:
        table, branch = on_branch(name)
        try:
            found[name] = catalog.table(table, branch)
        except (NotFound, InvalidName):
            every = catalog.tables() if every is None else every
            alike = [other for other in every if other.casefold() == table.casefold() and other != table]
            if len(alike) == 1:
                with suppress(NotFound):
                    found[name] = catalog.table(alike[0], branch)
    for name in found:
        twins = [other for other in found if other.casefold() == name.casefold()]
        if len({id(found[twin]) for twin in twins}) > 1:
            raise InvalidArgument(
                f"sql(): to DuckDB {twins} are one name, and here they are different tables"
            )
    return found


def on_branch(name: str) -> tuple[str, str]:
    """What a name in a query means: a table, and a branch behind a sign that no name has."""
    table, sign, branch = name.partition("@")
    return table, branch if sign else MAIN


def _pinned(tables: Mapping[str, Table], at: At | None) -> dict[str, tuple[Table, Head]]:
    """Every table at one moment. A refresh of each, and one more of every one but the last."""
    if at is not None:
        return {name: (table, head_at(table._session, at)) for name, table in tables.items()}
    handles = {id(table): table for table in tables.values()}  # two spellings may mean one
    sessions = [table._session for table in handles.values()]
    logs = pin(sessions, [], {session.folder: Known.of(session) for session in sessions})
    heads = {
        key: Head(session.table, log, session.settings)
        for key, session, log in zip(handles, sessions, logs, strict=True)
    }
    return {name: (table, heads[id(table)]) for name, table in tables.items()}


@contextmanager
def _dropped_if_wrong(connection: Any, views: Mapping[str, str]) -> Iterator[None]:
    """Views stay for as long as the connection, since relations read them; not those of a wrong query."""
    try:
        yield
    except BaseException:
        for view in views.values():
            connection.unregister(view)
        raise


@contextmanager
def _explained(duckdb: Any, catalog: TendedCatalog, text: str, unknown: Sequence[str] = ()) -> Iterator[None]:
    """DuckDB's errors as ours: which table is not there, which name wants quotes, what else is wrong."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        wrong = str(error).strip()
        # What DuckDB makes of Ctrl-C: the first while it works itself, the second while it calls Python.
        if wrong == "Query interrupted" or "KeyboardInterrupt" in wrong:
            raise KeyboardInterrupt from error
        if isinstance(error, RecursionError):
            raise InvalidArgument("sql(): a parameter is nested too deeply, or in itself") from error
        if not isinstance(error, duckdb.Error):
            raise
        wrong = wrong if "_crdtcat_" not in wrong else wrong.partition("\n\nLINE ")[0]  # shows our names
        every = catalog.tables()
        missing = [name for name in unknown if f"name {name} " in wrong or f'"{name}"' in wrong]
        if isinstance(error, duckdb.CatalogException) and missing:
            table, branch = on_branch(missing[0])
            if table in every:
                raise NotFound(f"table {table!r} in {catalog.store.url} has no branch {branch!r}") from error
            close = get_close_matches(table, every)
            there = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(every[:20]) or 'none'}"
            raise NotFound(f"no table {missing[0]!r} in {catalog.store.url}: {there}") from error
        odd = [name for name in every if _wants_quotes(duckdb, name, text)]
        hint = f'; names with signs in them, and words of SQL, are quoted: "{odd[0]}"' if odd else ""
        raise InvalidArgument(f"sql(): {wrong}{hint}") from error


def _wants_quotes(duckdb: Any, name: str, text: str) -> bool:
    """Whether a table's name stands in a query without the quotes that it needs."""
    if not re.search(rf"(\bfrom|\bjoin|,)\s+{re.escape(name)}(?!\w)", text, re.IGNORECASE):
        return False
    return not name.isidentifier() or duckdb.tokenize(name)[-1][1] == duckdb.token_type.keyword
