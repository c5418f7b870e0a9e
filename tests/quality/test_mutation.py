"""The hunt for mutants itself, and in the slow lane a sample of three hundred."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "mutation"
sys.path.insert(0, str(HERE))

from hunt import ROOT, Suite, explained  # noqa: E402
from mutants import mutants  # noqa: E402

TEXT = '''
"""Not code."""
def f(items: "list[int]", most: int = 3) -> bool:
    """Nor this."""
    if not items or len(items) > most:
        raise ValueError(f"{1 + 1} is not looked at")
    items.sort()
    return items[0] is not None
'''


def test_mutants_are_changes_of_code(tmp_path: Path) -> None:
    """Each is valid Python and differs; docstrings, annotations and the words of errors are left alone."""
    (tmp_path / "m.py").write_text(TEXT)
    found = mutants(tmp_path, tmp_path / "m.py")
    assert {(each.kind, each.new.strip()) for each in found} == {
        ("if true", "True"), ("if false", "False"), ("not", "items"), ("and or", "and"), ("compare", ">="),
        ("leave out", "pass"), ("compare", "is"), ("constant", "1"), ("return nothing", "return None"),
    }  # fmt: skip
    assert all(each.apply(TEXT) != TEXT and each.function == "f" for each in found)


def test_the_quickest_callers_are_asked_first(tmp_path: Path) -> None:
    """The tests of a mutant are those that call its function; all of its module's where none does."""
    suite = Suite({"slow": (9.0, ["m.py::f"]), "quick": (0.1, ["m.py::f"]), "other": (0.2, ["m.py::g"])})
    (tmp_path / "m.py").write_text(TEXT + "\ndef h():\n    f([1])\n")
    found = mutants(tmp_path, tmp_path / "m.py")
    assert suite.waves(found[0]) == [["quick", "slow"]]
    assert suite.waves(found[-1]) == [["quick", "other", "slow"]]


def test_survivors_that_are_explained_exist() -> None:
    """A key in the list of explained survivors is one of a mutant of today, and has a reason."""
    reasons = explained()
    paths = {key.partition("::")[0] for key in reasons}
    keys = {each.key for path in paths for each in mutants(ROOT, ROOT / path)}
    assert set(reasons) <= keys and all(len(reason.split()) > 3 for reason in reasons.values())


@pytest.mark.slow
@pytest.mark.timeout(12 * 3600)
def test_a_sample_of_mutants_is_noticed() -> None:
    """Of three hundred mutants, those explained left out, the fast and the commit lane notice 97 %."""
    hunted = subprocess.run(
        [sys.executable, str(HERE / "hunt.py"), "--count", "300"], cwd=ROOT, capture_output=True, text=True
    )
    assert hunted.returncode == 0, hunted.stdout
