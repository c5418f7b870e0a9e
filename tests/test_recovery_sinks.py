"""After a crash a sink gets what it has not made durable, however much was emitted since the last checkpoint."""

from __future__ import annotations

from pathlib import Path

from lanes import Lane

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator


def test_a_replay_forgets_nothing_that_a_sink_may_want(tmp_path: Path) -> None:
    """More than is retained was emitted and not yet flushed; the lines that the crash took from the file come again."""
    file = tmp_path / "out.jsonl"
    count = 8_000 if Lane.fast_alone else 20_000
    for lines_left in (None, 100):
        if lines_left is not None:
            file.write_text("".join(file.read_text().splitlines(keepends=True)[:lines_left]))
        with SqliteStore(tmp_path / "store") as store:
            evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, batch_events_max=1, retain_events=10)
            evaluator.source("n", ListSource(list(range(count)), timestamp=float))
            evaluator.create("same", rx.source("n").map(lambda n: n))
            evaluator.sink("same", JsonLinesSink(file))
            evaluator.start()
            evaluator.checkpointer.turn = evaluator.engine.number  # no first checkpoint either
            evaluator.run()
            evaluator.close()
    assert file.read_text().splitlines() == [f'{{"id":{n},"value":{n}}}' for n in range(count)] + [
        f'{{"id":{count},"completed":true}}'
    ]
