"""Records that could not be read, behind a replay: what is left out then has no turn that the journal could repeat."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import FileSource, QueryEvaluator


@pytest.mark.parametrize("policy, timed", crossed(["skip", "dead_letter"], [False, True], nightly=1))
def test_a_checkpoint_behind_a_replay_takes_no_record_twice(policy: Any, timed: bool, tmp_path: Path) -> None:
    """However far the first run came, and however the next one ends that has only taken its turns again."""
    lines = "".join(f'{{"n": {n}}}\n' for n in range(60))
    good = [n for n in range(60) if n % 7 != 3]

    def parse(line: dict[str, int]) -> int:
        if line["n"] % 7 == 3:
            raise ValueError("bad")
        return line["n"]

    for steps, ends in product(range(1, 8), ("abandon", "close")):
        folder = tmp_path / f"{steps}-{ends}"
        folder.mkdir()
        (folder / "in.jsonl").write_text(lines)

        def opened(folder: Path = folder) -> QueryEvaluator:
            evaluator = QueryEvaluator(SqliteStore(folder / "store"), background=False)
            how: dict[str, Any] = {"timestamp": float} if timed else {}
            source = FileSource(folder / "in.jsonl", parse=parse, on_bad_record=policy, follow=True, **how)
            evaluator.source("n", source)
            evaluator.create_many({"out": rx.source("n"), "sum": rx.source("n").scan(lambda a, n: a + n, 0)})
            return evaluator

        evaluator = opened()
        for _ in range(steps):
            evaluator.step()
        evaluator.abandon()
        evaluator.store.close()
        evaluator = opened()
        evaluator.start()
        evaluator.checkpoint()
        getattr(evaluator, ends)()
        evaluator.store.close()
        evaluator = opened()
        while evaluator.step():
            pass
        found = [value for part in evaluator.stream("out").read(0, 999) for value in part.values]
        evaluator.abandon()
        evaluator.store.close()
        assert found == good, (steps, ends)
