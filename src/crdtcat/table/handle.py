"""What every handle on a table has: its session, how it is copied, and what it is called."""

from __future__ import annotations

from typing import Any

from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.session import Session


class Handle:
    """A handle on one branch of one table; `crdtcat.Table` adds the verbs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._start()

    def _start(self) -> None:
        """What a copy does not take along."""
        self._footers = self._session.footers

    def __getstate__(self) -> dict[str, Any]:
        return {"_session": self._session}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._session = state["_session"]
        self._start()

    @property
    def name(self) -> str:
        """The table's name."""
        return self._session.table

    @property
    def branch_name(self) -> str:
        """The branch this handle reads and writes."""
        return self._session.branch

    @property
    def dropped(self) -> bool:
        """Whether this handle has found out that its table was dropped. No request."""
        return self._session.dropped

    @property
    def mode(self) -> str:
        """The mode it is in, "merge" or "cas", as far as this handle knows. No request."""
        return self._session.settings.mode

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How it is partitioned, as it was created."""
        return self._session.settings.partition_by

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are known by; empty in a table without a key."""
        return self._session.settings.key

    def __repr__(self) -> str:
        branch = "" if self.branch_name == MAIN else f", branch {self.branch_name!r}"
        return f"{type(self).__name__}({self.name!r}{branch} in {self._session.store.url})"
