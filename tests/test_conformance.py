"""The runner of RxPY's own test-suite finds what fails with our operators only, and nothing else.

The suite itself is no part of this repository: `tests/conformance/fetch` gets it, `make conformance` runs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

RUNNER = Path(__file__).parent / "conformance" / "run.py"
SUITE = {
    "test_same.py": """
        import reactivex
        from reactivex import operators as ops

        def test_fine():
            assert reactivex.of(1, 2).pipe(ops.map(str), ops.to_list()).run() == ["1", "2"]

        def test_fails_with_everybody():
            assert False
    """,
    "test_told_apart.py": """
        import pytest
        from reactivex import operators as ops
        from reactivex.subject import Subject

        def swapped():
            return ops.map.__module__.startswith("reliable_rx")

        def test_fails_with_ours():
            assert not swapped()

        def test_skipped_with_ours():
            if swapped():
                pytest.skip("because it is ours")

        class Value:
            pass

        def test_fails_when_rebuilt():
            pairs, source, first = [], Subject(), Value()
            source.pipe(ops.pairwise()).subscribe(pairs.append)
            source.on_next(first)
            source.on_next(2)
            assert pairs[0][0] is first
    """,
    "test_gone.py": """
        from reactivex import operators as ops
        if ops.map.__module__.startswith("reliable_rx"):
            raise ImportError("not with ours")

        def test_found_with_stock_only():
            pass
    """,
}


def run(rxpy: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUNNER, rxpy], capture_output=True, text=True, timeout=120)


def suite(directory: Path, *names: str) -> Path:
    tests = directory / "tests" / "test_observable"
    tests.mkdir(parents=True)
    for folder in (tests.parent, tests):
        (folder / "__init__.py").touch()
    for name in names:
        (tests / name).write_text(dedent(SUITE[name]))
    return directory


@pytest.mark.slow
def test_what_fails_with_ours_only_is_named(tmp_path: Path) -> None:
    """Failing, being skipped and not being there are differences; the run with rebuilt states is a run of its own."""
    ran = run(suite(tmp_path, *SUITE))
    assert ran.returncode == 1, ran.stderr
    plain, rebuild = ran.stdout.partition("\nrebuild: ")[::2]
    told_apart = "tests/test_observable/test_told_apart.py::"
    for half, differences in (plain, 3), (rebuild, 4):
        assert f"failed: {told_apart}test_fails_with_ours\n" in half
        assert f"skipped: {told_apart}test_skipped_with_ours\n" in half
        assert "not found: tests/test_observable/test_gone.py::test_found_with_stock_only\n" in half
        assert f"{differences} that pass with RxPY's own operators do not\n" in half
        assert f"{told_apart}test_fails_when_rebuilt" not in half or half == rebuild


@pytest.mark.slow
def test_what_rxpy_fails_is_excused(tmp_path: Path) -> None:
    """Where ours passes whatever RxPY passes, the exit status is 0."""
    ran = run(suite(tmp_path, "test_same.py"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "RxPY: 1 pass, 1 fail" in ran.stdout


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    """A directory without RxPY's tests is refused in one sentence."""
    ran = run(tmp_path)
    assert ran.returncode == 1
    assert "is no checkout of RxPY" in ran.stderr
    assert not ran.stdout
