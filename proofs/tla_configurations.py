"""The configurations in `tla/`: what each is of, and whether all are what they are said to be.

Those that pass say how much was searched: how many writers, reads, pages. Probes and mistakes are of the same
systems, with the same constants as one that passes and nothing but the mistake between them. So a probe shows
what *that* search reaches, and a mistake that it is the mistake that breaks the invariant.

`configurations.json` has every configuration with its invariants, `scopes.json` the constants of those that
pass, both written by hand: one that vanished, lost an invariant or searches less than it did is noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proofs import tlc

KEPT: dict[str, list[str]] = json.loads((tlc.TLA / "configurations.json").read_text())
"""Every configuration and its invariants."""
SCOPES: dict[str, dict[str, str]] = json.loads((tlc.TLA / "scopes.json").read_text())
"""The constants of every configuration that passes."""

SOUND = '"none"'
"""The constant `Bug` where there is no mistake."""

CONSTANT = re.compile(r"^\s+(\w+) = (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One file of `tla/`: which model, and what must come out.

    Attributes:
        name: the file's name without its ending.
        invariants: those it lists; exactly one where it must fail.
        constants: the system it is of, and its mistake, as TLC reads them.
        symmetric: whether states are taken for equal that differ in names only.
    """

    name: str
    invariants: tuple[str, ...]
    constants: Mapping[str, str] = field(default_factory=dict)
    symmetric: bool = False

    @property
    def module(self) -> str:
        """The model it configures."""
        return self.name.split("_", 1)[0]

    @property
    def must_fail(self) -> bool:
        """Whether this is a mistake or a probe."""
        return self.is_mistake or self.name.endswith("_probe")

    @property
    def is_mistake(self) -> bool:
        """Whether this reintroduces a known mistake."""
        return self.name.endswith("_bug")

    @property
    def scope(self) -> tuple[Mapping[str, str], bool]:
        """The system it is of, without its mistake."""
        return {**self.constants, "Bug": SOUND}, self.symmetric


def configurations() -> list[Configuration]:
    """Every configuration, passing ones first within each model."""
    found = []
    for path in tlc.TLA.glob("*.cfg"):
        text = path.read_text()
        head, _, listed = text.partition("INVARIANTS")
        found.append(
            Configuration(
                path.stem, tuple(listed.split()), dict(CONSTANT.findall(head)), "\nSYMMETRY " in head
            )
        )
    return sorted(found, key=lambda one: (one.module, one.must_fail, one.name))


def wrong(found: Sequence[Configuration]) -> Iterator[tuple[str, str]]:
    """(name, how) of every configuration or model that is not what it is said to be."""
    yield from strayed(found)
    yield from alone(found)
    for module in sorted({path.stem for path in tlc.TLA.glob("*.tla")}):
        own = [one for one in found if one.module == module]
        if not any(one.name.endswith("_probe") for one in own) or all(one.must_fail for one in own):
            yield module, "needs a configuration that passes and a probe"
        for invariant in unbroken(own):
            yield module, f"has no mistake that breaks {invariant}"


def strayed(found: Sequence[Configuration]) -> list[tuple[str, str]]:
    """Every configuration that is not what the kept lists say."""
    wrong = [(name, "is promised, but not there") for name in KEPT.keys() - {one.name for one in found}]
    for one in found:
        if one.name not in KEPT:
            wrong.append((one.name, "is not listed in configurations.json"))
        elif sorted(one.invariants) != sorted(KEPT[one.name]):
            wrong.append((one.name, f"has {', '.join(one.invariants)}, not {', '.join(KEPT[one.name])}"))
        elif not one.must_fail and one.constants != SCOPES.get(one.name):
            wrong.append((one.name, f"is of {one.constants}, not of {SCOPES.get(one.name)}"))
    return sorted(wrong)


def alone(found: Sequence[Configuration]) -> list[tuple[str, str]]:
    """Mistakes without a mistake, others with one, and what is of another system than all that pass."""
    wrong = []
    for one in found:
        if one.is_mistake == (one.constants.get("Bug") == SOUND):
            wrong.append((one.name, f"has Bug = {one.constants.get('Bug')}"))
        elif one.must_fail and not any(
            other.module == one.module and other.scope == one.scope for other in found if not other.must_fail
        ):
            wrong.append((one.name, "has the constants of no configuration that passes"))
    return wrong


def unbroken(configurations: Sequence[Configuration]) -> list[str]:
    """The invariants of a model's configurations that must pass which none of its mistakes is held to."""
    held = {name for one in configurations if not one.must_fail for name in one.invariants}
    broken = {name for one in configurations if one.is_mistake for name in one.invariants}
    return sorted(held - broken)
