"""docs/testing.md as a user would follow it: its code, in a file of their own, outside of this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import crdtcat

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_code_on_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code) == 6
    (tmp_path / "test_mine.py").write_text("\n\n".join(code))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(crdtcat.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 40
