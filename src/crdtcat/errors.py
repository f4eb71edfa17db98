"""Every error crdtcat raises, in one tree, grouped by what a handler would do.

::

    CrdtcatError
    ├── UserError                     fix the call; nothing was written
    │   ├── InvalidName          E101  a table, branch, tag or column name that is not allowed
    │   ├── InvalidArgument      E102  an option or value outside what the call accepts
    │   ├── SchemaMismatch       E103  rows that do not fit the newest definition the handle knows
    │   ├── UnsupportedType      E104  an Arrow type that no Parquet file can hold
    │   ├── LimitExceeded        E105  larger than a named limit in `crdtcat.limits`
    │   └── InvalidFilter        E106  a row filter that cannot be parsed or does not fit the schema
    ├── NotFound                 E201  no such table, branch, tag, version or snapshot
    │   └── NoSnapshots          E202  the table exists and has no commit yet
    ├── AlreadyExists            E203  the name is taken, with other settings
    ├── Expired                  E204  the snapshot is below the horizon
    ├── CommitError                   the commit did not take effect, or nobody knows
    │   ├── CommitConflict       E301  CAS mode: somebody else touched the same rows; rebase and retry
    │   ├── CommitUnknown        E302  the store gave no clear answer; look before repeating
    │   ├── ClockSkew            E303  this machine's clock is far from the store's; mend the clock
    │   └── CommitContended      E304  CAS mode: others were faster, every time; try again
    ├── DataError                     stored bytes are not what they should be; restore from a replica
    │   ├── Corrupt              E401  damaged, truncated or vanished object, by name
    │   └── UnsupportedFormat    E402  written by a newer release; upgrade
    └── StoreError                    the storage below
        ├── StoreUnavailable     E501  still failing after every retry; try again later
        │   └── StoreFull        E506  a full disk or quota; nothing was stored; make room
        ├── AccessDenied         E502  the store refused the credentials
        ├── CapabilityMissing    E503  the store cannot do what was asked of it
        ├── Missing              E504  a store has no object of that name; verbs turn it into one of the above
        └── RequestRefused       E505  the store says that the request is wrong: no such bucket, a wrong clock

Codes are stable and append-only: a code never changes its meaning. Each message says what happened, to
what, and what to do next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "CapabilityMissing",
    "ClockSkew",
    "CommitConflict",
    "CommitContended",
    "CommitError",
    "CommitUnknown",
    "Corrupt",
    "CrdtcatError",
    "DataError",
    "Expired",
    "InvalidArgument",
    "InvalidFilter",
    "InvalidName",
    "LimitExceeded",
    "Missing",
    "NoSnapshots",
    "NotFound",
    "RequestRefused",
    "SchemaMismatch",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "UnsupportedFormat",
    "UnsupportedType",
    "UserError",
]
_Many = tuple[Any, ...]


class CrdtcatError(Exception):
    """Root of every error this library raises on purpose."""

    code: ClassVar[str] = "E000"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class UserError(CrdtcatError, ValueError):
    """The call is wrong; nothing was written. Fix the call."""

    code = "E100"


class InvalidName(UserError):
    """A table, branch, tag or column name that is not allowed."""

    code = "E101"


class InvalidArgument(UserError):
    """An option or value outside what the call accepts."""

    code = "E102"


class SchemaMismatch(UserError):
    """Rows that do not fit the newest definition this handle knows."""

    code = "E103"


class UnsupportedType(UserError):
    """An Arrow type that no Parquet file can hold, even by a recorded cast."""

    code = "E104"


class LimitExceeded(UserError):
    """Something is larger than its named limit in `crdtcat.limits`."""

    code = "E105"


class InvalidFilter(UserError):
    """A row filter that cannot be parsed, or names what the schema does not have."""

    code = "E106"


class NotFound(CrdtcatError, LookupError):
    """No such table, branch, tag, version or snapshot."""

    code = "E201"


class NoSnapshots(NotFound):
    """The table exists and has no commit yet."""

    code = "E202"


class AlreadyExists(CrdtcatError):
    """The name is taken, with other settings."""

    code = "E203"


class Expired(CrdtcatError):
    """The snapshot is below the horizon, expired by policy; or files of an old plan of it are gone."""

    code = "E204"


class CommitError(CrdtcatError):
    """The commit did not take effect, or nobody knows whether it did."""

    code = "E300"


class CommitConflict(CommitError):
    """CAS mode: another commit touched the same rows. Nothing was committed. Rebase and retry.

    In both modes, from `Transaction.join`: a fork touched what was staged since; nothing was joined.

    Attributes:
        conflicts: what both touched, one `crdtcat.conflicts.Overlap` for each kind and commit in the way, of
            all tables, and of all commits that came between. By table, and there by rising number. Several
            of a kind only where changes of one transaction met a commit in different rows or keys.
        complete: whether these are all (of a join: of that fork). Not, where there are more than
            `crdtcat.limits.CONFLICTS_MAX`, or where the rest could not be read.
        change: what was to be committed, untouched, to the table in which it failed; `None` in a copy of the
            error.
        sides: for each conflict the rows as they were, as mine left them and as theirs did, read when asked
            for: see `crdtcat.cas.sides.Sides`. Empty in a copy of the error, which reads nothing.
        again: commits the same change again, without staging its rows anew: see `retry`.
    """

    code = "E301"

    def __init__(
        self, message: str, conflicts: _Many = (), change: Any = None, *, complete: bool = True
    ) -> None:
        super().__init__(message)
        self.message, self.conflicts, self.change, self.complete = message, conflicts, change, complete
        self.sides: _Many = ()
        self.again: Callable[[Any], Any] | None = None

    @property
    def exact(self) -> bool:
        """Whether each is one for certain: where only ranges of keys were compared, its `doubt` says why."""
        return all(item.exact for item in self.conflicts)

    @property
    def by_table(self) -> dict[str, _Many]:
        """The conflicts, by the table that they are in; a branch as "table@branch"."""
        tables = dict.fromkeys(item.table for item in self.conflicts)
        return {table: tuple(item for item in self.conflicts if item.table == table) for table in tables}

    def retry(self, on_conflict: Any = None) -> Any:
        """Try the same change again, with other answers to conflicts: what the call returns, or this again.

        Kinds that `on_conflict` does not name are answered as before. Nothing is computed or stored anew. A
        transaction is tried as a whole, under a new id; a merge with the branch as it was. Raises
        `InvalidArgument` for a copy of the error, and where nothing was changed, or the transaction is over.
        """
        if self.again is None:
            raise InvalidArgument("this error holds no change that could be tried again: repeat the call")
        return self.again(on_conflict)

    def __reduce__(self) -> _Many:
        return (type(self), (self.message, self.conflicts), {"complete": self.complete})


class CommitUnknown(CommitError):
    """The store gave no clear answer: the commit may or may not stand. Look before repeating it.

    Repeating with the same idempotency key is always safe.
    """

    code = "E302"


class ClockSkew(CommitError):
    """This machine's clock is too far from the store's. Mend the clock, then commit."""

    code = "E303"


class CommitContended(CommitError):
    """CAS mode: other commits took the number every time. Nothing was committed; nothing overlapped."""

    code = "E304"


class DataError(CrdtcatError):
    """Stored bytes are not what they should be."""

    code = "E400"


class Corrupt(DataError):
    """A damaged, truncated or vanished object. `name` says which."""

    code = "E401"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why} (verify() names all damage; restore it from a replica or backup)")
        self.name = name
        self.why = why

    def __reduce__(self) -> tuple[type[Corrupt], tuple[str, str]]:
        return (type(self), (self.name, self.why))


class UnsupportedFormat(DataError):
    """Written by a newer release, or needing a feature this one does not have. Upgrade."""

    code = "E402"


class StoreError(CrdtcatError):
    """The storage below failed."""

    code = "E500"


class StoreUnavailable(StoreError):
    """Still failing after every retry. Nothing is known to be wrong with the data; try again later."""

    code = "E501"


class StoreFull(StoreUnavailable):
    """A full disk, or a quota or limit that is reached: the object was not stored. Make room, then repeat."""

    code = "E506"


class AccessDenied(StoreError):
    """The store refused the credentials for this request."""

    code = "E502"


class CapabilityMissing(StoreError):
    """The store cannot do what was asked of it."""

    code = "E503"


class Missing(StoreError, KeyError):
    """A store has no object of that name. `name` says which. The verbs turn it into a more telling error."""

    code = "E504"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RequestRefused(StoreError):
    """The store answered that the request itself is wrong, so it did nothing: no such bucket, a bad option, a
    signature of another hour, a file where a folder should be."""

    code = "E505"
