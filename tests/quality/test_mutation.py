"""The hunt for mutants itself, and in the slow lane a sample of three hundred."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import leftovers
import pytest
from lanes import left_to_commits

HERE = Path(__file__).parent / "mutation"
sys.path.insert(0, str(HERE))

from hunt import explained, first_failure, sample_of  # noqa: E402
from mutants import mutants  # noqa: E402
from suite import Suite  # noqa: E402
from trees import ROOT, TIMED_OUT, changed  # noqa: E402
from trees import pytest as run_pytest  # noqa: E402
from verdicts import Verdicts  # noqa: E402

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
    """The tests of a mutant are those that call its function, the fast lane's first; its module's where none does."""
    fast = {"slow": (9.0, ["m.py::f"]), "quick": (0.1, ["m.py::f"]), "other": (0.2, ["m.py::g"])}
    suite = Suite({"not slow": fast, "commit": {"commit": (0.1, ["m.py::f"])}})
    (tmp_path / "m.py").write_text(TEXT + "\ndef h():\n    f([1])\n")
    found = mutants(tmp_path, tmp_path / "m.py")
    assert [wave.tests for wave in suite.waves(found[0])] == [["quick", "slow"], ["commit"]]
    assert [wave.tests for wave in suite.waves(found[-1])] == [["quick", "other", "slow"], ["commit"]]


def test_a_sample_outlives_edits(tmp_path: Path) -> None:
    """Of a module that has grown the same mutants are drawn, but for those of what is new."""
    module = tmp_path / "m.py"
    module.write_text(TEXT)
    before = {each.key for each in sample_of(mutants(tmp_path, module), 5, 1)}
    module.write_text("first = 1\n" + TEXT)
    after = {each.key for each in sample_of(mutants(tmp_path, module), 5, 1)}
    assert {key for key in after if "::f::" in key} <= before and len(before & after) >= 4
    assert before != {each.key for each in sample_of(mutants(tmp_path, module), 5, 2)}


def test_verdicts_are_kept_while_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict is taken over until its module changes; that of a survivor, until a test does."""
    module, kept = tmp_path / "m.py", tmp_path / "kept.jsonl"
    module.write_text(TEXT)
    monkeypatch.setattr("verdicts.files", lambda below: ["m.py"])
    one, two = mutants(tmp_path, module)[:2]
    first = Verdicts(tmp_path, kept)
    first.add(one, "tests/test_m.py::test", 1, 0.5)
    first.add(two, None, 3, 0.5)
    again = Verdicts(tmp_path, kept)
    assert [again.of(each).test for each in (one, two)] == ["tests/test_m.py::test", None]  # type: ignore[union-attr]
    again.suite = "other tests"
    assert again.of(one) is not None and again.of(two) is None
    module.write_text(TEXT + "\nmore = 1\n")
    assert again.of(one) is None


def test_a_change_is_not_hidden_by_bytecode(tmp_path: Path) -> None:
    """A change of the same size in the same second is run, and so is what was there before: both are compiled."""
    module = tmp_path / "changing.py"
    module.write_text("value = 1 == 1\n")
    said = []
    for text in ("value = 1 == 1\n", "value = 1 != 1\n", "value = 1 == 2\n"):
        with changed(module, text):
            said.append(value_in(tmp_path))
    assert [*said, value_in(tmp_path)] == ["True", "False", "False", "True"]


def value_in(folder: Path) -> str:
    command = [sys.executable, "-c", "import changing; print(changing.value)"]
    environment = {"PYTHONPATH": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


@left_to_commits
def test_a_run_ends_in_time_with_all_that_it_has_started(tmp_path: Path) -> None:
    """A test that takes for ever, in processes of its own too, is ended, and not taken for one that passes."""
    pid = tmp_path / "pid"
    (tmp_path / "test_long.py").write_text(
        "import pathlib, subprocess\n"
        "def test():\n"
        "    child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"    pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"
        "    child.wait()\n"
    )
    code, _ = run_pytest(tmp_path, "-n", "0", "-c", "/dev/null", "-p", "xdist", "test_long.py", timeout_s=5)
    assert code == TIMED_OUT
    if pid.exists():
        assert "sleep" not in leftovers.command(pid.read_text())


def test_the_failure_is_told_by_its_name() -> None:
    """The test that failed is found in what pytest prints, also where its name begins with that of another."""
    output = "F\nERROR    reliable_rx:a.py:100 a query has failed\nFAILED tests/a.py::t[a - b] - AssertionError: no\n"
    assert first_failure(output, ["tests/a.py::t", "tests/a.py::t[a - b]"]) == "tests/a.py::t[a - b]"
    assert first_failure("everything passes", ["tests/a.py::t"]) is None


@left_to_commits
def test_survivors_that_are_explained_exist() -> None:
    """A key in the list of explained survivors is one of a mutant of today, and has a reason."""
    reasons = explained()
    paths = {key.partition("::")[0] for key in reasons}
    keys = {each.key for path in paths for each in mutants(ROOT, ROOT / path)}
    assert set(reasons) <= keys and all(len(reason.split()) > 3 for reason in reasons.values())


@pytest.mark.slow
@pytest.mark.timeout(12 * 3600)
def test_a_sample_of_mutants_is_noticed() -> None:
    """Of three hundred mutants, those explained left out, the fast and the commit lane notice 97 %.

    What was found out is kept: where the night was too short, the next one goes on.
    """
    command = [sys.executable, str(HERE / "hunt.py"), "--count", "300", "--seed", "1", "--jobs", "1"]
    hunted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert hunted.returncode == 0, hunted.stdout + hunted.stderr
