"""What earlier runs of the mutants found, so that a run that was ended begins where it stopped.

A verdict is kept with the hash of what it rests on: the module's source and the test file that noticed, or,
of a survivor, every test file of the module. A change elsewhere does not ask again: `--afresh` does. Kept in
`proofs/.tools/`, which git ignores; a file that cannot be read counts as empty.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from proofs.mutants import ROOT, Mutant, path_of
from proofs.tools import TOOLS

KEPT = TOOLS / "mutants"


class Verdict(TypedDict):
    """Who noticed (None: it survives; "": it could not run, or hung), and the hash of what that rests on."""

    killer: str | None
    rests_on: str


class Kept:
    """Verdicts by the names of mutants. Written through: a run that is ended loses nothing.

    Args:
        folder: where they are kept, one file for each module, so that modules can be run side by side.
        afresh: begin with none.
    """

    def __init__(self, folder: Path = KEPT, *, afresh: bool = False) -> None:
        self._folder = folder
        self._afresh = afresh
        self._verdicts: dict[str, dict[str, Verdict]] = {}

    def find(self, mutant: Mutant, tests: Sequence[str]) -> Verdict | None:
        """The verdict on a mutant, if what it rests on is as it was."""
        found = self._of(mutant.module).get(mutant.name)
        if found is None or found["rests_on"] != rests_on(mutant, found["killer"], tests):
            return None
        return found

    def keep(self, mutant: Mutant, killer: str | None, tests: Sequence[str]) -> None:
        """Remember a verdict."""
        verdicts = self._of(mutant.module)
        verdicts[mutant.name] = {"killer": killer, "rests_on": rests_on(mutant, killer, tests)}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(mutant.module)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(verdicts, indent=1))
        beside.replace(path)

    def _of(self, module: str) -> dict[str, Verdict]:
        if module not in self._verdicts:
            try:
                self._verdicts[module] = {} if self._afresh else json.loads(self._path(module).read_text())
            except (OSError, ValueError):
                self._verdicts[module] = {}
        return self._verdicts[module]

    def _path(self, module: str) -> Path:
        return self._folder / f"{module}.json"


def rests_on(mutant: Mutant, killer: str | None, tests: Sequence[str]) -> str:
    """The hash of what a verdict follows from."""
    files = [path_of(mutant.module)]
    for name in [killer] if killer else tests:
        path = ROOT / name.split("::")[0]
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(ROOT).as_posix()}\n".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest() if file.exists() else b"")
    return total.hexdigest()
