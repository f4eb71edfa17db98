"""Wrong variants of the protocol: each breaks one rule, and the scheduler must show how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crdtcat.log import State
from crdtcat.protocol import (
    Collector,
    Delete,
    Listed,
    Outcome,
    Publish,
    Reader,
    Request,
    is_bundle,
    is_version,
)
from crdtcat.protocol.names import TRANSACTIONS
from tests.protocol.scenes import checkpoints


def _seen(reader: Any, page: Listed) -> Any:
    return replace(reader, listing=reader.listing + page.objects, began_ms=0)


@dataclass(frozen=True, slots=True)
class FolderOnceReader(Reader[State]):
    """Lists the table's folder, then, where it has the mark, `transactions/`, and not the folder again."""

    def _listed(self, page: Listed) -> Any:
        step = _seen(self, page)
        if page.after is not None:
            return replace(step, after=page.after)
        if self.prefix == self.folder:
            return replace(step, prefix=TRANSACTIONS, after="")
        return replace(step, prefix="", after="")._fetch()


@dataclass(frozen=True, slots=True)
class MarksAreNothingReader(Reader[State]):
    """Lists the table's folder only, mark or none."""

    def _listed(self, page: Listed) -> Any:
        step = _seen(self, page)
        if page.after is not None:
            return replace(step, after=page.after)
        return replace(step, prefix="", after="")._fetch()


@dataclass(frozen=True, slots=True)
class BundlesFirstReader(Reader[State]):
    """Lists bundles, then versions."""

    second: bool = False

    def _listed(self, page: Listed) -> Any:
        if self.second:
            page = replace(page, objects=tuple(item for item in page.objects if is_version(item.name)))
        step = _seen(self, page)
        if page.after is not None:
            return replace(step, after=page.after)
        if self.prefix == TRANSACTIONS:
            return replace(step, prefix=self.folder, after=self.folder + "y")
        if not self.second:
            return replace(step, second=True, after="")
        return replace(step, prefix="", after="")._fetch()

    def _again(self) -> Any:
        step: Any = Reader._again(self)
        return replace(step, second=False)


@dataclass(frozen=True, slots=True)
class SkippingReader(Reader[State]):
    """A file that is gone when it is fetched is left out."""

    def take(self, answers: Sequence[Any]) -> Any:
        if self.prefix:
            return Reader.take(self, answers)
        pairs = list(zip(self.fetching, answers, strict=True))
        found = [(name, got.data) for name, got in pairs if got.data is not None]
        gone = {name for name, got in pairs if got.data is None}
        left = tuple(item for item in self.listing if item.name not in gone)
        step = replace(self, state=self.state.joined(found), fetching=(), listing=left)
        return step._more() if step.pending else step._fetch()


@dataclass(frozen=True, slots=True)
class GapsAreFineReader(Reader[State]):
    """Does not ask whether a version that others name is there."""

    def _fetch(self) -> Any:
        step = Reader._fetch(self)
        return self if step.passes > self.passes else step


@dataclass(frozen=True, slots=True)
class AnyRankCollector(Collector[State]):
    """Deletes a bundle for any other that covers it, whatever their ranks."""

    @property
    def _old_bundles(self) -> tuple[str, ...]:
        if self.bundles is not None:
            return self.bundles
        return tuple(item.name for item in self.listing if is_bundle(item.name))

    def _read_back(self, answers: Sequence[Any]) -> Any:
        step = Collector._read_back(self, answers)
        bundle = step.current or (self._old_bundles[0], answers[0].data)
        if bundle[1] is None:
            return step
        others = [item.name for item in self.listing if is_bundle(item.name)]
        gone = {bundle[0], *step.deleted, *step.doomed}
        doomed = tuple(name for name in others if name not in gone)
        return replace(step, current=bundle, doomed=step.doomed + doomed)._next()


@dataclass(frozen=True, slots=True)
class AnyPlaceCollector(Collector[State]):
    """Deletes a transaction's file when its own table's bundle covers it."""

    def _read_back(self, answers: Sequence[Any]) -> Any:
        step = Collector._read_back(self, answers)
        bundle = step.current or (self._old_bundles[0], answers[0].data)
        if bundle[1] is None:
            return step
        listed = [item.name for item in self.listing if item.name.startswith(TRANSACTIONS)]
        doomed = [name for name in step.state.covered(bundle, listed) if name not in step.deleted]
        return replace(step, current=bundle, doomed=step.doomed + tuple(doomed))._next()


@dataclass(frozen=True, slots=True)
class HastyBundler:
    """Deletes what its bundle covers without reading it back, whatever became of the PUT."""

    publish: Publish
    names: tuple[str, ...]
    deletes_first: bool = False
    deleted: bool = False

    @property
    def wants(self) -> tuple[Request, ...]:
        if not self.deleted and (self.deletes_first or self.publish.outcome is not Outcome.PENDING):
            return (Delete(self.names),)
        return self.publish.wants

    def take(self, answers: Sequence[Any]) -> HastyBundler:
        if isinstance(self.wants[0], Delete):
            return replace(self, deleted=True)
        return replace(self, publish=self.publish.take(answers))


def hasty(*, deletes_first: bool) -> Any:
    def plan(done: Reader[State]) -> HastyBundler | None:
        publish = checkpoints(done).publish
        names = tuple(item.name for item in done.listing if is_version(item.name))
        return None if publish is None else HastyBundler(publish, names, deletes_first)

    return plan


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletes files, whatever they are."""

    names: tuple[str, ...]

    @property
    def wants(self) -> tuple[Request, ...]:
        return (Delete(self.names),) if self.names else ()

    def take(self, _: Sequence[Any]) -> Deletion:
        return Deletion(())
