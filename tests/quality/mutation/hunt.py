"""Hunt mutants: make a seeded sample of small wrong changes, and see which of them the tests notice.

    python tests/quality/mutation/hunt.py --count 300 --seed 1

First the fast and the commit lane run once, with a note of which test calls which function (kept in .mutation/ for the
commit at hand). Then each mutant is written into a copy of the tree, and the tests that call its function run there,
the quickest first, until one fails. A mutant that survives them all is printed with its key; `explained.toml` has the
keys of those that change nothing a user could see. The end says how many of the others were noticed.

Rejected: mutmut and cosmic-ray. The first swaps functions for trampolines, and this library hashes and inspects the
code of functions; the second runs one command per mutant, which is the whole suite each time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutants import Mutant, every_mutant

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CORE = ("reliable_rx", "checkpoint", "hosting")
LEFT_OUT = ("hosting/demo/", "hosting/cli/display.py", "reliable_rx/testing/", "reliable_rx/drawing.py")
LANES = ("not slow", "commit")
WAVES_S = (5.0, 30.0, 120.0, float("inf"))
"""The tests of a mutant run in waves of about this length, the quickest first: most mutants die in the first."""
TEST_S_MAX = 120


@dataclass(frozen=True)
class Found:
    """What became of a mutant: *test* is the first that failed, None if none did."""

    mutant: Mutant
    test: str | None
    tests: int
    seconds: float


class Suite:
    """The tests by what they call."""

    def __init__(self, tests: dict[str, tuple[float, list[str]]]) -> None:
        self.seconds = {name: took for name, (took, _) in tests.items()}
        self.callers: dict[str, list[str]] = {}
        self.of_module: dict[str, set[str]] = {}
        for name, (_, functions) in tests.items():
            for function in functions:
                self.callers.setdefault(function, []).append(name)
                self.of_module.setdefault(function.partition("::")[0], set()).add(name)

    def waves(self, mutant: Mutant) -> list[list[str]]:
        """Return the tests that may notice *mutant*, in waves."""
        callers = self.callers.get(f"{mutant.path}::{mutant.function}")
        found = sorted(callers or self.of_module.get(mutant.path) or self.seconds, key=self.seconds.__getitem__)
        waves: list[list[str]] = []
        for length_s in WAVES_S:
            wave: list[str] = []
            spent = 0.0
            while found and spent <= length_s:
                wave.append(found.pop(0))
                spent += self.seconds[wave[-1]]
            if wave:
                waves.append(wave)
        return waves


def copy_of_tree(folder: Path) -> Path:
    """Write what git tracks into *folder*, as it is in the work tree."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    archive = subprocess.run(["tar", "cf", "-", "--null", "-T", "-"], cwd=ROOT, input=files, capture_output=True)
    subprocess.run(["tar", "xf", "-"], cwd=folder, input=archive.stdout, check=True)
    return folder


def pytest(tree: Path, *arguments: str, timeout_s: float | None = None, **env: str) -> tuple[int, str]:
    """Run pytest in *tree*; return its exit code and its output. One that takes too long has failed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **env}
    with subprocess.Popen(
        command, cwd=tree, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return 1, f"{output}\nFAILED (takes for ever)"
        return process.returncode, output


def calls(cache: Path, workers: int) -> dict[str, tuple[float, list[str]]]:
    """Return which test calls what, from *cache* or by running both lanes once."""
    if not cache.exists():
        tests: dict[str, tuple[float, list[str]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            tree = copy_of_tree(made(Path(folder, "tree")))
            for lane in LANES:
                to = Path(folder, lane.replace(" ", "-"))
                to.mkdir()
                pytest(
                    tree, "-n", str(workers), "-p", "tests.quality.mutation.calls", "-m", lane, MUTATION_CALLS=str(to)
                )
                for part in to.glob("gw*.json"):
                    tests.update(json.loads(part.read_text()))
        cache.parent.mkdir(exist_ok=True)
        cache.write_text(json.dumps(tests))
    known: dict[str, tuple[float, list[str]]] = json.loads(cache.read_text())
    return known


def judge(mutant: Mutant, suite: Suite, tree: Path) -> Found:
    """Say which test notices *mutant*."""
    target = tree / mutant.path
    text = target.read_text()
    began, tests = time.monotonic(), 0
    target.write_text(mutant.apply(text))
    try:
        for wave in suite.waves(mutant):
            tests += len(wave)
            names = tree / "mutation-tests.txt"
            names.write_text("\n".join(wave))
            limit_s = 60 + 10 * sum(suite.seconds[name] for name in wave)
            code, output = pytest(
                tree, "-n", "0", "-x", "-q", "--timeout", str(TEST_S_MAX), f"@{names}", timeout_s=limit_s
            )
            if code != 0:
                return Found(mutant, reason(output), tests, time.monotonic() - began)
    finally:
        target.write_text(text)
    return Found(mutant, None, tests, time.monotonic() - began)


def reason(output: str) -> str:
    """Return the test that failed, out of what pytest printed."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else "(pytest itself)"


def explained() -> dict[str, str]:
    """Return the survivors that are as they should be, with the reasons."""
    return tomllib.loads((HERE / "explained.toml").read_text())


def hunt(sample: Sequence[Mutant], suite: Suite, jobs: int) -> list[Found]:
    """Judge every mutant of *sample*, printing as it goes."""
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free = [copy_of_tree(made(Path(folder, str(number)))) for number in range(jobs)]

        def one(mutant: Mutant) -> Found:
            tree = free.pop()
            try:
                return judge(mutant, suite, tree)
            finally:
                free.append(tree)

        for each in pool.map(one, sample):
            found.append(each)
            verdict = "survives" if each.test is None else "noticed"
            print(f"{verdict:9} {each.seconds:6.1f} s {each.tests:5} tests  {each.mutant.key}", flush=True)
    return found


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="modules whose path begins so")
    parser.add_argument("--least", type=float, default=0.97, help="the part that must be noticed")
    a = parser.parse_args()
    everything = [each for each in every_mutant(ROOT, CORE, LEFT_OUT) if each.path.startswith(a.only)]
    sample = random.Random(a.seed).sample(everything, min(a.count, len(everything)))
    tracked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    cache = ROOT / ".mutation" / f"{hashlib.blake2b(tracked, digest_size=8).hexdigest()}.json"
    suite = Suite(calls(cache, a.jobs))
    print(f"{len(everything):,} mutants, a sample of {len(sample)} (seed {a.seed}), {len(suite.seconds):,} tests")
    reasons = explained()
    found = [each for each in hunt(sample, suite, a.jobs) if each.mutant.key not in reasons]
    survivors = [each for each in found if each.test is None]
    for each in survivors:
        print(f"\n{each.mutant.path}:{each.mutant.line} {each.mutant.old!r} -> {each.mutant.new!r}\n{each.mutant.key}")
    part = 1 - len(survivors) / max(1, len(found))
    print(f"\n{len(found) - len(survivors)} of {len(found)} are noticed: {part:.1%} (at least {a.least:.0%})")
    return 0 if part >= a.least else 1


if __name__ == "__main__":
    sys.exit(main())
