"""Run RxPY's own test-suite, unedited, against our operators, and say what passes with RxPY's but not with ours.

    make conformance RXPY=DIRECTORY      a checkout of RxPY, or anything else that has its tests/

Three runs at the same time, because the suite mostly sleeps: with RxPY's own operators, with ours, and with ours
while every state is rebuilt from its serialised form after each notification. What fails is run once more by itself,
in all three alike: some tests measure real time, and a loaded machine is late. What RxPY itself fails is excused: a
suite of one release tests things that a later release has changed. A test that is skipped, or not found, with ours
only is a difference as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ALLOWED_MAX = 2
# Tests that we mean to fail, by their id, each with the reason; docs/explanation/differences-from-rxpy.md says more.
ALLOWED: dict[str, str] = {}

# No configuration of the machine or the checkout has a say, a test that hangs fails, and nothing is written beside the
# suite.
PYTEST = (
    sys.executable, "-B", "-m", "pytest", "-p", "swapped", "-c", "pytest.ini", "-p", "no:cacheprovider",
    "-p", "no:randomly", "-q", "--tb=short", "--timeout=60", "--continue-on-collection-errors",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of the tests with one set of operators."""

    mode: str
    outcomes: dict[str, str]
    offered: int
    never_called: list[str]
    output: str

    @property
    def passed(self) -> set[str]:
        return {test for test, outcome in self.outcomes.items() if outcome == "passed"}

    @property
    def failed(self) -> list[str]:
        return sorted(test for test, outcome in self.outcomes.items() if outcome in ("failed", "not importable"))


class Run:
    """One pytest process."""

    def __init__(self, mode: str, rxpy: Path, scratch: Path, tests: Sequence[str]) -> None:
        self.mode = mode
        self.record = scratch / f"{mode}.json"
        self.log = scratch / f"{mode}.txt"
        self.record.unlink(missing_ok=True)
        asked = [f"--rx={mode}", f"--record={self.record}", f"--rootdir={rxpy}", *(str(rxpy / test) for test in tests)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*PYTEST, *asked], cwd=HERE, stdout=log, stderr=subprocess.STDOUT)

    def result(self) -> Outcome:
        self.process.wait()
        output = self.log.read_text(errors="replace")
        if not self.record.exists():
            raise SystemExit(f"conformance: pytest ended without a word on its tests ({self.mode}):\n{output[-4000:]}")
        found = json.loads(self.record.read_text())
        return Outcome(self.mode, found["outcomes"], found["offered"], found["never_called"], output)


def twice(run: Run, rxpy: Path, scratch: Path) -> Outcome:
    """Wait for *run*, and run what failed once more by itself: the second outcome counts."""
    first = run.result()
    if not first.failed:
        return first
    second = Run(first.mode, rxpy, scratch, first.failed).result()
    return Outcome(first.mode, first.outcomes | second.outcomes, first.offered, first.never_called, second.output)


def check(rxpy: Path) -> None:
    """Refuse what is not RxPY."""
    if not (rxpy / "tests" / "test_observable").is_dir():
        raise SystemExit(
            f"conformance: {str(rxpy)!r} is no checkout of RxPY (it has no tests/test_observable); get one from "
            "https://github.com/ReactiveX/RxPY, or with tests/conformance/fetch, and say RXPY=DIRECTORY"
        )


def differences(stock: Outcome, ours: Outcome) -> list[str]:
    """Return the tests that pass with RxPY's operators and not with ours, beyond those that are allowed to."""
    return sorted(stock.passed - ours.passed - set(ALLOWED))


def report(stock: Outcome, ours: Outcome) -> bool:
    """Print the comparison; true if ours is as good."""
    wrong = differences(stock, ours)
    print(f"{ours.mode}: {len(ours.passed)} pass, {len(wrong)} that pass with RxPY's own operators do not")
    for test in wrong:
        print(f"  {ours.outcomes.get(test, 'not found')}: {test}")
    for test in sorted(set(ALLOWED) & stock.passed - ours.passed):
        print(f"  allowed: {test}: {ALLOWED[test]}")
    if wrong:
        print(ours.output)
    return not wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__.splitlines()[0])
    parser.add_argument("rxpy", type=Path, help="a checkout of RxPY")
    rxpy = parser.parse_args(arguments).rxpy.resolve()
    check(rxpy)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        runs = [Run(mode, rxpy, scratch, ["tests"]) for mode in ("stock", "plain", "rebuild")]
        stock, *ours = [twice(run, rxpy, scratch) for run in runs]
    if not stock.passed:
        raise SystemExit(f"conformance: no test passes with RxPY itself:\n{stock.output[-4000:]}")
    print(f"RxPY: {len(stock.passed)} pass, {len(stock.failed)} fail with its own operators and are excused")
    print(f"not called by any test, of {ours[0].offered} functions: {', '.join(ours[0].never_called) or 'none'}")
    as_good = [report(stock, each) for each in ours]
    return 0 if all(as_good) and len(ALLOWED) <= ALLOWED_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
