"""Keep small stores of this release: ``python tests/releases/make.py`` from the root of the repository.

In ``tests/releases/VERSION/`` it writes the app (`tests/interpreter_process.py` as it is now), what its streams hold
in the end, and two stores that it has left half-way: one after a clean stop, one behind a kill.
`tests/test_releases.py` opens them with the code of today; it refuses those of older formats: `format_1.tar.xz`, from
before values were stored by the names of their fields, `format_2.tar.xz`, from before modules lay in folders,
`format_3.tar.xz`, from before objects of plain classes were checked against their classes, and `format_4.tar.xz`, from
before they were stored with the shapes of these.
Run it again for a version that has not been released yet, never for one that has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
APP = ROOT / "tests" / "interpreter_process.py"
HALF, ALL = 10, 20


def run(app: Path, store: Path, count: int, end: str) -> dict[str, Any]:
    """Run the app once, and return what it says."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(app), str(store), str(count), end]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ran.returncode != {"stop": 0, "kill": 9}[end]:
        raise RuntimeError(ran.stderr)
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def main() -> None:
    folder = Path(__file__).parent / version("reliable-rx")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    app = folder / "app.py"
    app.write_text(APP.read_text())
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        for end in ("stop", "kill"):
            run(app, there / end, HALF // 2, "stop")
            run(app, there / end, HALF, end)
            with tarfile.open(folder / f"{end}.tar.xz", "w:xz", preset=9) as archive:
                archive.add(there / end, arcname=".")
        streams = run(app, there / "whole", ALL, "stop")["streams"]
    expected = {"python": ".".join(map(str, sys.version_info[:2])), "streams": streams}
    (folder / "expected.json").write_text(json.dumps(expected, indent=None) + "\n")


if __name__ == "__main__":
    main()
