"""What the evaluator says and does when something is edited, newer, older, damaged, full, or not repeatable."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator, StreamSource
from reliable_rx import operators as ops
from reliable_rx.errors import (
    CheckpointRefused,
    NondeterminismDetected,
    PositionUnavailable,
    StoreOwned,
    StoreUnavailable,
)
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.query.query import apply
from reliable_rx.testing import check_ledger
from reliable_rx.testing.faults import arm, disk_full


def hosting(store: Any, **options: Any) -> QueryEvaluator:
    return QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, **options)


def values_of(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for segment in evaluator.stream(name).read(0, 1_000_000) for value in segment.values]


def settle(evaluator: QueryEvaluator) -> None:
    for _ in range(1000):
        if not evaluator.step():
            return


# -- editing


def edited(before: Any, after: Any, inputs: list[int]) -> tuple[QueryEvaluator, list[int]]:
    numbers: list[int] = []
    evaluator = hosting(MemoryStore())
    evaluator.source("n", ListSource(numbers, follow=True))
    evaluator.create("q", before)
    numbers += inputs
    settle(evaluator)
    evaluator.create("q", after)
    return evaluator, numbers


def test_an_edit_says_what_it_kept_dropped_and_started_fresh() -> None:
    """What has the same path and type keeps its state; the report names every stateful part once."""
    n = rx.source("n")
    before = n.pipe(ops.scan(lambda a, x: a + x, 0), ops.distinct(), ops.pairwise())
    after = n.pipe(ops.scan(lambda a, x: a + x, 0), ops.skip(1), ops.pairwise())
    evaluator, _ = edited(before, after, [1, 2, 3])
    report = evaluator.engine.reports["q"]
    assert (report.kept, report.dropped, report.fresh) == (["/scan", "/pairwise"], ["/distinct"], ["/skip"])
    assert "kept: /pairwise, /scan" in evaluator.statistics().reports["q"]


def test_an_edited_query_goes_on_with_its_state_and_its_ids() -> None:
    """The new function works on the old sum, and the stream's ids go on."""
    n = rx.source("n")
    evaluator, numbers = edited(
        n.pipe(ops.scan(lambda a, x: a + x, 0)), n.pipe(ops.scan(lambda a, x: a + x, 0), ops.map(lambda a: -a)), [1, 2]
    )
    numbers += [3]
    settle(evaluator)
    assert values_of(evaluator, "q") == [1, 3, -6]


def test_an_edit_that_changes_nothing_is_none() -> None:
    """To declare the same query again, as every restart does, takes no turn."""
    query = rx.source("n").pipe(ops.scan(lambda a, x: a + x, 0))
    evaluator, _ = edited(query, query, [1])
    assert evaluator.engine.reports == {}


# -- operators that change


def total(version: int, names: tuple[str, ...], migrate: Callable[[int, Any], Any] | None = None) -> Any:
    """Return one version of an operator that sums, with its fields so named."""

    @dataclass(slots=True)
    class State:
        pass

    state = dataclass(slots=True)(
        type("State", (), {"__annotations__": dict.fromkeys(names, int), **dict.fromkeys(names, 0)})
    )

    class Total(Linear, name="total_of_test", version=version):
        State = state

        def on_next(self, state: Any, value: Any, out: list[Any]) -> None:
            setattr(state, names[0], getattr(state, names[0]) + value)
            out.append(getattr(state, names[0]))

        @classmethod
        def migrate(cls, version: int, old: Any) -> Any:
            return migrate(version, old) if migrate is not None else super().migrate(version, old)

    return Total()


def upgraded(old: Any, new: Any) -> tuple[QueryEvaluator, list[int]]:
    """Run with one version of an operator, save, and start again with another."""
    store, numbers = MemoryStore(), [1, 2, 3]
    first = hosting(store)
    first.source("n", ListSource(numbers, follow=True))
    first.create("q", apply(old, rx.source("n")))
    settle(first)
    first.checkpoint()
    second = hosting(store.reopen())
    second.source("n", ListSource(numbers, follow=True))
    second.create("q", apply(new, rx.source("n")))
    return second, numbers


def test_a_newer_operator_migrates_its_state() -> None:
    """`migrate` is given the old version and fields, and the report says where it was used."""
    new = total(2, ("sum", "count"), lambda version, old: {"sum": old["amount"], "count": version})
    evaluator, numbers = upgraded(total(1, ("amount",)), new)
    evaluator.start()
    numbers += [4]
    settle(evaluator)
    assert values_of(evaluator, "q")[-1] == 10
    assert evaluator.engine.reports["q"].migrated == ["/total_of_test"]


@pytest.mark.parametrize("version", [1, 2], ids=["the same version", "no migration"])
def test_fields_that_do_not_fit_are_refused_with_both_sets_of_names(version: int) -> None:
    """State is never guessed; and an evaluator that could not start neither goes on nor saves."""
    evaluator, _ = upgraded(total(1, ("amount",)), total(version, ("sum", "count")))
    with pytest.raises(CheckpointRefused, match=r"\['amount'\].*\['count', 'sum'\]"):
        evaluator.start()
    for again in (evaluator.step, evaluator.checkpoint, evaluator.start):
        with pytest.raises(CheckpointRefused):
            again()


# -- queries that do not repeat themselves

COUNTER = itertools.count()


def counted(value: int) -> tuple[int, int]:
    return value, next(COUNTER)


@pytest.mark.parametrize("strict", [True, False])
def test_a_query_that_does_not_repeat_itself_is_found_out(strict: bool) -> None:
    """The replay's outputs differ from the journal's digests: strictly the query ends, else it goes on; others do."""
    store = MemoryStore()
    for life in range(3):
        evaluator = hosting(store, strict=strict)
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("counts", rx.source("n").map(counted))
        evaluator.create("sums", rx.source("n").pipe(ops.scan(lambda total, n: total + n, 0)))
        settle(evaluator)
        assert values_of(evaluator, "sums") == [1, 3, 6]
        if life:
            is_replayed = life == 1  # the end of a query, or what the replay gave, is in a checkpoint at once
            assert any("'counts'" in warning for warning in evaluator.warnings) == is_replayed
            error = evaluator.engine.standing["counts"].error
            assert evaluator.engine.standing["counts"].status == ("failed" if strict and life else "running")
            assert isinstance(error, NondeterminismDetected) == strict
            if isinstance(error, NondeterminismDetected):
                assert (error.query, error.queries) == ("counts", ("counts",))
        store = store.reopen()


# -- damage


def saved_in_generations(count: int, *, pushed: bool) -> tuple[MemoryStore, list[int]]:
    store, numbers = MemoryStore(), list[int]()
    evaluator = summing(store, numbers)
    for n in range(count):
        numbers.append(n)
        if pushed:
            evaluator.intake.sources["pushed"].on_next(100)  # type: ignore[attr-defined]
        settle(evaluator)
        evaluator.checkpoint(full=True)
    return store, numbers


def summing(store: MemoryStore, numbers: list[int], **options: Any) -> QueryEvaluator:
    evaluator = hosting(store, **options)
    evaluator.source("n", ListSource(numbers, follow=True))
    evaluator.push("pushed")
    evaluator.create("sums", rx.source("n").pipe(ops.merge(rx.source("pushed")), ops.scan(lambda a, x: a + x, 0)))
    return evaluator


def damage(store: MemoryStore, generations: int) -> None:
    """Flip a bit in the newest manifests."""
    for number in sorted(store.rows.generations)[-generations:]:
        base, manifest, chunks = store.rows.generations[number]
        store.rows.generations[number] = base, manifest[:-1] + bytes([manifest[-1] ^ 1]), chunks


@pytest.mark.parametrize(("damaged", "pushed"), [(1, False), (1, True), (2, False)])
def test_a_damaged_generation_is_fallen_back_from_and_said_so(damaged: int, pushed: bool) -> None:
    """The generations before it and the journal give the same outputs; the statistics tell what was given up."""
    store, numbers = saved_in_generations(4, pushed=pushed)
    store = store.reopen()
    expected = values_of(started(summing(store, numbers)), "sums")
    damage(store, damaged)
    with pytest.raises(CheckpointRefused):
        summing(store.reopen(), numbers).start()
    evaluator = started(summing(store.reopen(), numbers, strict=False))
    recovery = evaluator.statistics().recovery
    assert recovery is not None
    assert len(recovery.fallbacks) == damaged
    check_ledger(expected, values_of(evaluator, "sums")).check("the stream after a fallback")


def test_falling_back_further_than_a_log_was_kept_is_refused() -> None:
    """A pushed input is kept for one generation more than the newest; beyond that nothing is made up."""
    store, numbers = saved_in_generations(4, pushed=True)
    damage(store, 2)
    with pytest.raises(PositionUnavailable, match=r"pushed input .* has ids"):
        summing(store.reopen(), numbers, strict=False).start()


def started(evaluator: QueryEvaluator) -> QueryEvaluator:
    evaluator.start()
    settle(evaluator)
    return evaluator


# -- disks and owners


@pytest.mark.parametrize("point", ["journal.before_commit", "checkpoint.before_commit", "checkpoint.mid_commit"])
def test_a_full_disk_stops_turns_and_nothing_is_lost(point: str) -> None:
    """While the disk is full no further event is taken and it is said why; when it is well again all goes on."""
    numbers = list(range(30))
    evaluator = hosting(MemoryStore(), batch_events_max=3)
    evaluator.source("n", ListSource(numbers))
    evaluator.create("sums", rx.source("n").pipe(ops.scan(lambda a, x: a + x, 0)))
    evaluator.start()
    with arm(point, disk_full()):
        if point.startswith("checkpoint"):
            with pytest.raises(StoreUnavailable, match="full"):
                evaluator.checkpoint()
        for _ in range(20):
            evaluator.step()
        assert "full" in evaluator.statistics().trouble
        assert evaluator.statistics().events_in <= 3
    evaluator.run()
    assert evaluator.statistics().trouble == ""
    check_ledger(list(itertools.accumulate(numbers)), values_of(evaluator, "sums")).check()


def test_a_creation_that_cannot_be_durable_is_not_acknowledged() -> None:
    """`create` raises while the journal cannot be written; the query is there as soon as it can."""
    evaluator = hosting(MemoryStore())
    evaluator.source("n", ListSource([1], follow=True))
    evaluator.start()
    with arm("journal.before_commit", disk_full()), pytest.raises(StoreUnavailable):
        evaluator.create("late", rx.source("n"))
    settle(evaluator)
    evaluator.flush()
    assert "late" in evaluator.queries()


class Stubborn(ListSource):
    """A source whose acknowledgements fail."""

    def open(self, partition: str, at: int, /) -> Any:
        reader = super().open(partition, at)

        def refuse(n: int) -> None:
            raise StoreUnavailable("no disk to forget on")

        reader.acknowledge = refuse  # type: ignore[method-assign]
        return reader


def test_a_source_that_cannot_forget_stops_nobody() -> None:
    """An acknowledgement that fails is made up for by the next one: what a source keeps too long is never wrong."""
    evaluator = hosting(MemoryStore())
    evaluator.source("n", Stubborn([1, 2, 3], follow=True))
    evaluator.create("same", rx.source("n"))
    settle(evaluator)
    evaluator.checkpoint()
    evaluator.checkpoint()
    assert values_of(evaluator, "same") == [1, 2, 3]


HOLD = "import sys, checkpoint; s = checkpoint.SqliteStore(sys.argv[1]); print('mine', flush=True); input()"


def test_a_store_of_another_process_is_refused(tmp_path: Path) -> None:
    """Two processes never host one store; the message names the owner, and the store is free when he is gone."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "store")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "mine\n"
        with pytest.raises(StoreOwned, match=str(owner.pid)):
            SqliteStore(tmp_path / "store")
        owner.kill()
        owner.wait()
        SqliteStore(tmp_path / "store").close()


# -- streams between evaluators


class Chain:
    """Two evaluators in one process, the second reading a stream of the first; each may crash alone."""

    def __init__(self) -> None:
        self.numbers = list[int]()
        self.ended = False
        self.stores = [MemoryStore(), MemoryStore()]
        self.upper, self.lower = self.new_upper(), None
        self.new_lower()

    def new_upper(self) -> QueryEvaluator:
        upper = hosting(self.stores[0], retain_events=0, batch_events_max=2)
        upper.source("n", ListSource(self.numbers, follow=not self.ended))
        upper.create("sums", rx.source("n").pipe(ops.scan(lambda a, x: a + x, 0)))
        upper.start()
        return upper

    def new_lower(self) -> None:
        self.lower: Any = hosting(self.stores[1], batch_events_max=3)
        self.lower.source("sums", StreamSource(self.upper.stream("sums"), subscriber="lower"))
        self.lower.create("pairs", rx.source("sums").pipe(ops.pairwise()))
        self.lower.start()

    def crash_both(self) -> None:
        self.stores = [store.reopen() for store in self.stores]
        self.upper = self.new_upper()
        self.new_lower()

    def crash_lower(self) -> None:
        self.stores[1] = self.stores[1].reopen()
        self.new_lower()

    def check(self) -> None:
        sums = list(itertools.accumulate(self.numbers))
        check_ledger(list(itertools.pairwise(sums)), values_of(self.lower, "pairs")).check("what came out below")


ACTS: dict[str, Callable[[Chain], Any]] = {
    "feed": lambda chain: chain.numbers.extend(range(5)),
    "upper": lambda chain: settle(chain.upper),
    "lower": lambda chain: settle(chain.lower),
    "save upper": lambda chain: chain.upper.checkpoint(),
    "save lower": lambda chain: chain.lower.checkpoint(),
    "crash both": Chain.crash_both,
    "crash lower": Chain.crash_lower,
}


@pytest.mark.parametrize("crash", ["crash both", at_each_commit("crash lower")])
@pytest.mark.parametrize("order", list(itertools.permutations(["lower", "save upper", "save lower"])), ids="-".join)
def test_a_stream_between_two_evaluators_loses_nothing(order: tuple[str, ...], crash: str) -> None:
    """Whoever saves first, whoever dies: below comes exactly what was sent above, though above keeps nothing extra."""
    for crash_at in range(len(order) + 1):
        chain = Chain()
        for _ in range(3):
            acts = ["feed", "upper", *order]
            for act in [*acts[: crash_at + 2], crash, *acts[crash_at + 2 :]]:
                ACTS[act](chain)
        settle(chain.upper)
        settle(chain.lower)
        chain.check()


def test_the_end_of_a_stream_arrives_below_and_is_let_go_above() -> None:
    """The terminal notification has an id: it is read, acknowledged, and nothing is held any more."""
    chain = Chain()
    chain.numbers += [1, 2, 3]
    chain.ended = True
    chain.crash_both()
    for _ in range(2):
        settle(chain.upper)
        settle(chain.lower)
        chain.lower.checkpoint()
        chain.upper.checkpoint()
    assert chain.lower.stream("pairs").ended
    assert chain.upper.query("sums").waiting == 0
    chain.crash_both()
    settle(chain.lower)
    chain.check()


def test_a_stream_may_be_asked_for_before_the_start() -> None:
    """`stream` before `start` gives the stream as it will be recovered, ids and all."""
    store = MemoryStore()
    for expected in ([1, 3, 6], [1, 3, 6]):
        evaluator = hosting(store)
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("sums", rx.source("n").pipe(ops.scan(lambda a, x: a + x, 0)))
        stream = evaluator.stream("sums")
        evaluator.run()
        assert [value for segment in stream.read(0, 100) for value in segment.values] == expected
        evaluator.checkpoint()
        store = store.reopen()


def test_a_stream_of_another_store_is_refused() -> None:
    """A reader that is ahead of the stream it reads was given another stream."""
    chain = Chain()
    chain.numbers += [1, 2, 3]
    settle(chain.upper)
    settle(chain.lower)
    chain.lower.checkpoint()
    chain.stores[0] = MemoryStore()
    chain.upper = chain.new_upper()
    with pytest.raises(PositionUnavailable, match="'sums'"):
        chain.crash_lower()
