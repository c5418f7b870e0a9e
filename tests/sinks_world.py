"""Sinks over hostile values, failing places, crashes and restarts, drawn at random: what each must have in the end."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, JsonLinesSink, ListSource, QueryEvaluator
from hosting.sinks.flushed_mark import read_mark
from reliable_rx.testing.hostile import STORABLE, VALUES

HOSTILE = [each for each in VALUES if each.kind == STORABLE and each.name != "long"]


class Failing(JsonLinesSink):
    """A file on a disk that is not available now and then, and that dies with unflushed lines torn."""

    def __init__(self, path: Path, draw: random.Random) -> None:
        super().__init__(path)
        self.draw = draw

    def _may_fail(self) -> None:
        if self.draw.random() < 0.15:
            raise self.draw.choice([OSError("away"), TimeoutError("slow")])

    def open(self, stream: str, /) -> int | None:
        self._may_fail()
        return super().open(stream)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._may_fail()
        if self.draw.random() < 0.1:  # a part of it is written before it fails
            super().write(first, values[: len(values) // 2])
            raise OSError("away")
        super().write(first, values)

    def flush(self) -> None:
        self._may_fail()
        super().flush()


class SinkWorld:
    """Lives of one app: a sink by each policy over hostile values, and one that must never notice."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw, self.folder = random.Random(seed), folder
        self.values = [
            n if self.draw.random() < 0.8 else self.draw.choice(HOSTILE).make() for n in range(self.draw.randrange(40))
        ]
        self.store = MemoryStore()
        self.noticed: dict[int, Any] = {}

    def check(self) -> None:
        """Live a few lives, the last one in peace; then look at what each sink has."""
        for _ in range(self.draw.randrange(1, 4)):
            self.live(Failing)
            self._tear()
        evaluator = self.live(JsonLinesSink)
        assert all(each.status == "closed" for each in evaluator.statistics().sinks[1:])
        assert list(self.noticed) == list(range(len(self.values))), "the other query has not noticed"
        for policy in ("skip", "dead_letter"):
            self._check_file(policy, [*range(len(self.values) + 1)])
        lines = self._lines("fail")
        self._check_file("fail", [*range(len(lines))])
        assert all("value" in line or "completed" in line for line in lines), "nothing is left out without being asked"
        failed = evaluator.statistics().sinks[0].status == "failed"
        assert failed == (len(lines) <= len(self.values)), "who lacks something has failed"
        self.live(lambda path, encode=self._mended: JsonLinesSink(path, encode=encode))
        self._check_file("fail", [*range(len(self.values) + 1)])

    def _mended(self, value: Any) -> Any:
        return value if type(value) is int and value < 100 else "mended"

    def live(self, make: Any) -> QueryEvaluator:
        """Run for a while, or to the end; then stop in order, or crash."""
        evaluator = QueryEvaluator(
            self.store, background=False, batch_events_max=self.draw.choice([1, 3, 100]), retain_events=1
        )
        in_peace = make is not Failing
        evaluator.source("n", ListSource(self.values))
        for name in ("same", "other"):
            evaluator.create(name, rx.source("n").map(lambda n: n))
        for policy in ("fail", "skip", "dead_letter"):
            path = self.folder / f"{policy}.jsonl"
            evaluator.sink("same", make(path) if in_peace else Failing(path, self.draw), on_error=policy)
        evaluator.sink("other", CallbackSink(self.noticed.__setitem__))
        try:
            if in_peace:
                evaluator.run()
                evaluator.checkpoint()
            else:
                for _ in range(self.draw.randrange(30)):
                    evaluator.step()
        finally:
            evaluator.close()
        if not in_peace and self.draw.random() < 0.5:
            self.store.crash()
        self.store = self.store.reopen()
        return evaluator

    def _tear(self) -> None:
        """Do to what was not flushed what a power cut may do."""
        for policy in ("fail", "skip", "dead_letter"):
            path = self.folder / f"{policy}.jsonl"
            flushed = read_mark(path).length
            if flushed is not None and self.draw.random() < 0.5:
                data = path.read_bytes()
                end = self.draw.randrange(flushed, len(data) + 1)
                path.write_bytes(data[:end] + self.draw.choice([b"", b"\0" * (len(data) - end)]))

    def _lines(self, policy: str) -> list[dict[str, Any]]:
        path = self.folder / f"{policy}.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line, parse_int=number) for line in text.split("\n")[:-1]]

    def _check_file(self, policy: str, ids: list[int]) -> None:
        lines = self._lines(policy)
        assert [line["id"] for line in lines] == ids, f"each id once, in order, in {policy}"
        for line in lines:
            value = self.values[line["id"]] if line["id"] < len(self.values) else None
            if type(value) is int and value < 100:
                assert line["value"] == value, f"what can be written is, in {policy}"


def number(text: str) -> int | str:
    """Read an integer; one of very many digits stays text."""
    return int(text) if len(text) < 4000 else text
