"""The peers' own environment: where it is, what is in it, and why a peer does not take part.

`make bench-peers` makes it. It never mixes with the environment that has crdtcat: peers bring their own
versions of shared packages, and the core stays light.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from benchmarks.engines import ENTRANTS, Entrant

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "peers.txt"
_LIST = """
import importlib.metadata, json
print(json.dumps({found.name.lower(): found.version for found in importlib.metadata.distributions()}))
"""


def peers_python() -> Path:
    """The interpreter of the peers' environment, whether it is there or not."""
    folder = os.environ.get("CRDTCAT_PEERS", str(ROOT / ".venv-peers"))
    return Path(folder) / "bin" / "python"


def interpreter(entrant: Entrant) -> str:
    return str(peers_python()) if entrant.is_peer else sys.executable


@cache
def installed() -> dict[str, str]:
    """Versions of the peers' packages; empty where there is no environment."""
    if not peers_python().exists():
        return {}
    answer = subprocess.run([peers_python(), "-c", _LIST], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(answer.stdout)
    return {name.replace("_", "-"): version for name, version in found.items()}


def absent(entrant: Entrant) -> str:
    """Why an engine cannot take part; empty if it can."""
    if not entrant.is_peer:
        return ""
    if not peers_python().exists():
        return "the peers' environment is not there: `make bench-peers`"
    missing = [name for name in entrant.packages if name not in installed()]
    return f"{missing[0]} could not be installed" if missing else ""


def versions() -> dict[str, str]:
    """Package versions of all engines that take part."""
    found = {"crdtcat": metadata.version("crdtcat")} if _is_installed("crdtcat") else {}
    for entrant in ENTRANTS.values():
        found |= {name: installed()[name] for name in entrant.packages if name in installed()}
    return found


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
