"""What tests/spark/conftest.py says of its tests: a name that none of them has any more is an error."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import COMMIT

CONFTEST = Path(__file__).parent / "spark" / "conftest.py"
CALL = (sys.executable, "-m", "pytest", "--disable-plugin-autoload", "-p", "xdist")
OTHERS = "def test_order_is_kept_where_spark_keeps_none(): ...\ndef test_a_signal_to_the_whole_bunch(): ...\n"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param((".",), pytest.ExitCode.USAGE_ERROR, id="all"),
        pytest.param((".", "-n1"), pytest.ExitCode.USAGE_ERROR, id="by-workers", marks=COMMIT),
        pytest.param(("test_spark_kill.py",), 0, id="one-file", marks=COMMIT),
    ],
)
def test_a_stale_name_is_an_error_where_all_are_collected(tmp_path: Path, asked: tuple[str, ...], code: int) -> None:
    """Whoever asks for the whole directory is told of the name of a test that has another now; for one file, not."""
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "spark_world.py").write_text("start_spark = None")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spark\n  slow\n")
    (tmp_path / "test_spark_kill.py").write_text("def test_killed(): ...")
    (tmp_path / "test_others.py").write_text(OTHERS)
    run = subprocess.run([*CALL, *asked], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    assert ("::test_a_signal_to_the_whole_group" in run.stderr) == bool(code)
