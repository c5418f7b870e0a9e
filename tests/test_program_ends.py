"""A program ends, whatever it left open and wherever its background was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ending_process
import pytest

PROCESS = Path(ending_process.__file__)


@pytest.mark.parametrize("host", ending_process.HOSTS)
def test_a_program_ends_whatever_its_background_holds(tmp_path: Path, host: str) -> None:
    """No callback of the collector, and nothing at exit, waits for a lock that a thread took with it."""
    env = {**os.environ, "PYTHONPATH": str(PROCESS.parents[1])}
    command = [sys.executable, str(PROCESS), str(tmp_path), host]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 3, "it held locks"
