"""What a handle may be told: sizes, upkeep, tolerances. Checked when made, never later."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from crdtcat import limits
from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown

BUNDLE_EVERY: Final = 64  # commits per bundle, on average
GRACE_SECONDS: Final = 600.0  # longer than any listing takes
COLLECT_GRACE_SECONDS: Final = 86_400.0  # twice the longest commit: see limits.TRANSACTION_SECONDS_MAX
MAX_COMMIT_DELAY_SECONDS: Final = 10.0  # a slower commit costs one LIST more
MAX_CLOCK_SKEW_SECONDS: Final = 300.0  # S3 itself refuses requests at 15 minutes
SEGMENT_BYTES: Final = 2**37  # of Arrow content: below what S3 takes in 10,000 parts of 16 MiB
RETRIES: Final = 1000  # each lost race is another's commit: with jitter a hundred writers need a few dozen
BASE_DELAY_SECONDS: Final = 0.01
MAX_DELAY_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 30.0  # longer than claiming a few tables takes, even with rebases
_IN_WORDS: Final = {bool: "True or False", int: "a whole number", float: "a number"}
_BOUNDS: Final = {"gt": "above", "ge": "from", "le": "up to"}
SECONDS_MAX: Final = 1e9  # thirty years stand for never, and stay exact in milliseconds


class Options(BaseModel):
    """Options of a catalog handle.

    Attributes:
        upkeep: whether commits made here may bundle and collect the log now and then, beside them, in a
            thread of the process. Spark tasks say no. "synchronous" lets the commit itself do it.
        bundle_every: how many commits there are to a bundle, on average.
        grace_seconds: how long a bundle must have been durable before what it covers is deleted.
        inline_bytes: rows that encode to at most this ride inside the version file; 0 turns it off.
        chunk_rows: rows of every chunk; None, the default, cuts by content, so that re-written tables share
            chunks even where rows were inserted.
        chunk_rows_min: the least rows of a chunk cut by content.
        chunk_rows_target: about how many rows chunks cut by content have.
        chunk_rows_max: the most rows of a chunk cut by content. Writers of one table share chunks if they use
            the same three sizes.
        segment_bytes: the most Arrow content of a segment file; a commit with more rows has several. On a
            store that is neither a local folder nor S3 none has more than 1 GiB, encoded. A stream fills
            smaller ones.
        max_commit_delay_seconds: nothing younger is expired; a commit that took more than half of it looks
            whether it was. The same for everybody who uses a catalog.
        max_clock_skew_seconds: commits are refused when this machine's clock is further from the store's.
        verify: whether every column read is checked against its BLAKE3 hash.
        retries: CAS mode: how many races a commit may lose to others before it gives up.
        base_delay: seconds; the longest pause after the second race that a commit lost, or four requests if
            these take longer. After others it tries again at once: who has lost often must not wait longer.
            The longest between two looks at a transaction in the way, which doubles. 0: no pauses at all, and
            no standing back for others, which starves them if this handle commits in a loop.
        max_delay: the most it waits, for that and for others.
        jitter: whether it waits a random part of that, so that writers do not meet again.
        lease_seconds: CAS mode: how long a commit waits for a transaction that is in its way and not decided,
            before it decides that it is aborted.
        isolation: CAS mode: "snapshot": a commit fails if another touched the same. "serializable": also if
            another changed what was read for it, by the same thread through the same handle since its last
            commit, or in the same transaction.
        on_conflict: CAS mode: "fail", "ours", "theirs", "both", a function that is given both sides, or a map
            from kinds of conflict to these. A word goes for every kind that allows it, so "fail" is stricter
            than `None`, which lets both stand where nobody loses anything.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    upkeep: bool | Literal["synchronous"] = True
    bundle_every: int = Field(default=BUNDLE_EVERY, ge=2, le=10_000)
    grace_seconds: float = Field(default=GRACE_SECONDS, ge=0, le=SECONDS_MAX, allow_inf_nan=False)
    inline_bytes: int = Field(default=limits.INLINE_BYTES, ge=0, le=limits.INLINE_BYTES_MAX)
    chunk_rows: int | None = Field(default=None, ge=1, le=limits.CHUNK_ROWS_GREATEST)
    chunk_rows_min: int = Field(default=limits.CHUNK_ROWS_LEAST, ge=1, le=limits.CHUNK_ROWS_GREATEST)
    chunk_rows_target: int = Field(default=limits.CHUNK_ROWS_TARGET, ge=1, le=limits.CHUNK_ROWS_GREATEST)
    chunk_rows_max: int = Field(default=limits.CHUNK_ROWS_GREATEST, ge=1, le=limits.CHUNK_ROWS_GREATEST)
    segment_bytes: int = Field(default=SEGMENT_BYTES, ge=2**20)
    max_commit_delay_seconds: float = Field(
        default=MAX_COMMIT_DELAY_SECONDS, ge=0, le=SECONDS_MAX, allow_inf_nan=False
    )
    max_clock_skew_seconds: float = Field(
        default=MAX_CLOCK_SKEW_SECONDS, gt=0, le=SECONDS_MAX, allow_inf_nan=False
    )
    verify: bool = True
    retries: int = Field(default=RETRIES, ge=0, le=1_000_000)
    base_delay: float = Field(default=BASE_DELAY_SECONDS, ge=0, le=SECONDS_MAX, allow_inf_nan=False)
    max_delay: float = Field(default=MAX_DELAY_SECONDS, ge=0, le=SECONDS_MAX, allow_inf_nan=False)
    jitter: bool = True
    lease_seconds: float = Field(default=LEASE_SECONDS, ge=0, le=SECONDS_MAX, allow_inf_nan=False)
    isolation: Literal["snapshot", "serializable"] = "snapshot"
    on_conflict: Any = None

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        if not self.chunk_rows_min <= self.chunk_rows_target <= self.chunk_rows_max:
            raise ValueError(
                f"chunk_rows_min={self.chunk_rows_min:,}, chunk_rows_target={self.chunk_rows_target:,}, "
                f"chunk_rows_max={self.chunk_rows_max:,} must not fall; give all three"
            )
        return self


def make_options(**given: object) -> Options:
    """Options from keyword arguments. Raises `InvalidArgument` naming each that is wrong."""
    unknown = [name for name in given if name not in Options.model_fields]
    if unknown:
        known = ", ".join(Options.model_fields)
        raise InvalidArgument(f"there is no option {shown(unknown[0])}; there are {known}")
    try:
        return Options.model_validate(given)
    except ValidationError as error:
        wrong = dict.fromkeys(str(item["loc"][0]) for item in error.errors() if item["loc"])
        told = [f"{name}={shown(given[name])}: pass {_allowed(name)}" for name in wrong]
        told += [str(item["ctx"]["error"]) for item in error.errors() if not item["loc"]]
        raise InvalidArgument("; ".join(told)) from error


def _allowed(name: str) -> str:
    """What an option may be, in words, from its type and its bounds."""
    field = Options.model_fields[name]
    kinds = get_args(field.annotation) or (field.annotation,)
    if get_origin(field.annotation) is Literal:
        return " or ".join(map(repr, kinds))
    told = [_IN_WORDS[kind] for kind in kinds if kind in _IN_WORDS]
    told += [repr(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    bounds = {key: getattr(item, key) for item in field.metadata for key in _BOUNDS if hasattr(item, key)}
    told[0] += "".join(f" {_BOUNDS[key]} {bounds[key]:,.0f}" for key in _BOUNDS if key in bounds)
    return " or ".join([*told, "None"] if NoneType in kinds else told)
