"""Hunt for mutants: make a seeded sample of small wrong changes, and see which of them the tests notice.

    make mutants ARGS="--count 300 --seed 1"

First the fast and the commit lane run once, and the rows that the fast one leaves out, with a record of which test
calls which function. Then each mutant is written into a copy of the tree, and the tests that call its function run
there, those of the fast lane first, the quickest first, until one fails that passes without the mutant. A run that
takes ten times as long as it should, or more memory than a test may, has failed. A mutant that survives all is printed
with its key; `explained.toml` has the keys of those that change nothing a user could see. The last line says how many
of the others were noticed.

It takes a night, and can be stopped: the record and all verdicts are kept in `.mutation/`, and the next call goes on.
The sample is drawn by the digest of each mutant's key, so that an edit changes little of it.

Rejected: mutmut and cosmic-ray. The first swaps functions for trampolines, and this library hashes and inspects the
code of functions; the second runs one command per mutant, which is the whole suite each time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants import Mutant, every_mutant
from suite import LANES, Suite, Wave, recorded
from trees import ROOT, TIMED_OUT, changed, copy_of_tree, pytest
from verdicts import Verdict, Verdicts

HERE = Path(__file__).parent
KEPT = ROOT / ".mutation"
CORE = ("reliable_rx", "checkpoint", "hosting")
LEFT_OUT = ("hosting/demo/", "hosting/cli/display.py", "reliable_rx/testing/", "reliable_rx/query/explain.py")
TEST_S_MAX = 120
RUN_S_MIN, RUN_SLOWER = 60, 10
"""The limit of a run: so many seconds, and so many times what its tests took without a mutant."""
LEAST = 0.97


def sample_of(everything: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw *count* mutants; the same ones again where others have come or gone."""

    def drawn(mutant: Mutant) -> bytes:
        return hashlib.blake2b(f"{seed} {mutant.key}".encode(), digest_size=16).digest()

    return sorted(everything, key=drawn)[:count]


class Judge:
    """Says of each mutant which test notices it."""

    def __init__(self, suite: Suite, verdicts: Verdicts) -> None:
        self.suite = suite
        self.verdicts = verdicts
        self.reliable: set[str] = set()

    def judge(self, mutant: Mutant, tree: Path) -> Verdict:
        """Return the verdict on *mutant*: the one that was kept, or what its tests say in *tree*."""
        known = self.verdicts.of(mutant)
        if known is not None:
            return known
        began, tests = time.monotonic(), 0
        for wave in self.suite.waves(mutant):
            tests += len(wave.tests)
            failed = self.noticed(mutant, wave, tree)
            if failed is not None:
                return self.verdicts.add(mutant, failed, tests, time.monotonic() - began)
        return self.verdicts.add(mutant, None, tests, time.monotonic() - began)

    def noticed(self, mutant: Mutant, wave: Wave, tree: Path) -> str | None:
        """Return the first test of *wave* that fails with *mutant* and passes without."""
        target = tree / mutant.path
        text = target.read_text()
        while tests := [test for test in wave.tests if test not in self.suite.unreliable]:
            with changed(target, mutant.apply(text)):
                code, output = self.run(tree, wave, tests)
            if code == 0:
                return None
            failed = first_failure(output, tests)
            if failed is None:
                return "(it takes too long)" if code == TIMED_OUT else "(pytest crashes)"
            if failed in self.reliable or self.run(tree, wave, [failed])[0] == 0:
                self.reliable.add(failed)
                return failed
            self.suite.unreliable.add(failed)
            print(f"fails without a mutant: {failed}", flush=True)
        return None

    def run(self, tree: Path, wave: Wave, tests: Sequence[str]) -> tuple[int, str]:
        """Run *tests* until one fails."""
        names = tree / "mutation-tests.txt"
        names.write_text("\n".join(tests))
        return pytest(
            tree, "-n", "0", "-x", *LANES[wave.lane], "--timeout", str(TEST_S_MAX), f"@{names}",
            timeout_s=RUN_S_MIN + RUN_SLOWER * wave.seconds,
        )  # fmt: skip


def first_failure(output: str, tests: Sequence[str]) -> str | None:
    """Return the test that failed, out of what pytest printed."""
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("FAILED", "ERROR"):  # which lines of a captured log begin with, too
            named = [test for test in tests if rest.startswith(test)]
            if named:
                return max(named, key=len)
    return None


def hunt(sample: Sequence[Mutant], judge: Judge, jobs: int) -> list[Verdict]:
    """Judge every mutant of *sample*, printing as it goes."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free = [copy_of_tree(Path(folder, str(number))) for number in range(jobs)]

        def one(mutant: Mutant) -> Verdict:
            tree = free.pop()
            try:
                verdict = judge.judge(mutant, tree)
            finally:
                free.append(tree)
            print(verdict, flush=True)
            return verdict

        return list(pool.map(one, sample))


def explained() -> dict[str, str]:
    """Return the survivors that are as they should be, with the reasons."""
    return tomllib.loads((HERE / "explained.toml").read_text())


def tell(sample: Sequence[Mutant], verdicts: Sequence[Verdict]) -> float:
    """Print the survivors and how many are noticed; return that part."""
    survivors = {each.key for each in verdicts if each.test is None}
    for each in sample:
        if each.key in survivors:
            print(f"\n{each.path}:{each.line} {each.old!r} -> {each.new!r}\n{each.key}")
    part = 1 - len(survivors) / max(1, len(verdicts))
    print(
        f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} mutants are noticed: {part:.1%} "
        f"(at least {LEAST:.0%}); {len(sample) - len(verdicts)} more are explained"
    )
    return part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="modules whose path begins so")
    a = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is begun in the background may ignore it
    everything = [each for each in every_mutant(ROOT, CORE, LEFT_OUT) if each.path.startswith(a.only)]
    sample = sample_of(everything, a.count, a.seed)
    suite = Suite(recorded(KEPT / "calls", a.jobs))
    print(f"{len(everything):,} mutants, a sample of {len(sample)} (seed {a.seed}), {len(suite):,} tests", flush=True)
    reasons = explained()
    judge = Judge(suite, Verdicts(ROOT, KEPT / "verdicts.jsonl"))
    verdicts = hunt([each for each in sample if each.key not in reasons], judge, a.jobs)
    return 0 if tell(sample, verdicts) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
