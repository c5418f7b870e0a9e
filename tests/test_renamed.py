"""Sources and files that are renamed are read from their beginning into what is there: a warning says so."""

from __future__ import annotations

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.edges.start_positions import Start


class Runs:
    def __init__(self) -> None:
        self.store = MemoryStore()

    def run(self, *sources: str, reads: str, start: Start | None = None) -> list[str]:
        """Run with these sources over the same numbers; return the warnings."""
        with QueryEvaluator(self.store, background=False) as evaluator:
            for name in sources:
                evaluator.source(name, ListSource([1, 2, 3], follow=True), start=start)
            evaluator.create("sum", rx.source(reads).scan(lambda total, n: total + n, 0))
            while evaluator.step():
                pass
            told = [each.message for each in evaluator.statistics().incidents if each.kind == "recovery"]
            assert told == evaluator.warnings
            return told


def test_a_source_that_is_renamed_is_told_once() -> None:
    """Its records come twice into the state that was kept, and a warning names both; with the old name nothing is."""
    runs = Runs()
    assert runs.run("payments", reads="payments") == []
    (told,) = runs.run("pays", reads="pays")
    assert "'payments'" in told and "'pays'" in told and "its records come twice" in told
    assert runs.run("pays", reads="pays") == []


def test_what_is_no_renaming_is_not_told() -> None:
    """A source more, one less, one that nobody of before reads, one that is told where to begin, and none at all."""
    runs = Runs()
    assert runs.run("a", reads="a") == []
    assert runs.run("a", "b", reads="a") == []
    assert runs.run("a", reads="a") == []
    assert runs.run("a", "c", reads="a") == []
    runs = Runs()
    assert runs.run("a", reads="a") == []
    assert runs.run("b", reads="b", start="latest") == []


def test_files_that_are_gone_are_told_once() -> None:
    """Each start names what has gone since the last one that told of any; what comes back and goes is told again."""
    store = MemoryStore()

    def run(*days: str) -> list[str]:
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource({day: [1, 2] for day in days}, follow=True))
            evaluator.create("sum", rx.source("n").scan(lambda total, n: total + n, 0))
            while evaluator.step():
                pass
            return [each.partition(", which")[0] for each in evaluator.warnings]

    assert run("1", "2", "3") == []
    assert run("2", "3", "4") == ["source 'n' has no partition '1' any more, and has '4'"]
    assert run("3", "4", "5") == ["source 'n' has no partition '2' any more, and has '5'"]
    assert run("3", "4", "5", "6") == []
    assert run("4", "5", "6") == []
    assert run("5", "6", "7") == ["source 'n' has no partition '3', '4' any more, and has '7'"]
    assert run("1", "5", "6", "7") == run("1", "5", "6", "7", "8") == []
    assert run("5", "6", "7", "8", "9") == ["source 'n' has no partition '1' any more, and has '9'"]
