"""What is hostile in one query is that query's problem: the others go on, and the store opens again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import make_dataclass
from signal import SIGINT, default_int_handler, raise_signal, signal
from typing import Any

import pytest
from hostile_world import STATES
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import encode
from checkpoint.format.salvage import Unreadable
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused, QueryRefused, TooLate
from reliable_rx.operators.aggregate import Average
from reliable_rx.testing.hostile import STORABLE, VALUES, Emits, Hostile, Raises


def add(total: int, n: int) -> int:
    return total + n


def locks(n: int) -> Any:
    return threading.Lock()


def locks_at_three(n: int) -> Any:
    return threading.Lock() if n == 3 else n


def evaluator_on(store: MemoryStore, numbers: list[int], **options: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, **options)
    evaluator.source("n", ListSource(numbers, follow=True))
    evaluator.create("sum", rx.source("n").pipe(ops.scan(add, 0)))
    return evaluator


def work(evaluator: QueryEvaluator) -> None:
    while evaluator.step():
        pass


def values(evaluator: QueryEvaluator, name: str) -> list[Any]:
    stream = evaluator.stream(name)
    return [value for part in stream.read(stream.first, 1000) for value in part.values]


def test_a_state_that_does_not_pickle_fails_its_query_alone() -> None:
    """The query with a lock in its state ends at a checkpoint; the sum beside it is right, now and after a restart."""
    store, numbers = MemoryStore(), [1, 2]
    with evaluator_on(store, numbers) as evaluator:
        evaluator.create("holds", rx.source("n").pipe(ops.map(Emits("a lock", 100, 3)), ops.buffer_with_count(100)))
        work(evaluator)
        evaluator.checkpoint()
        numbers.append(3)
        work(evaluator)
        evaluator.checkpoint()
        assert evaluator.query("holds").status == "failed"
        work(evaluator)
        assert any(each.subject == "holds" for each in evaluator.incidents.open())
    numbers += [4, 6]
    with evaluator_on(store.reopen(), numbers) as evaluator:
        work(evaluator)
        assert values(evaluator, "sum")[-1] == 16
        assert evaluator.query("holds").status == "failed"
        evaluator.dispose("holds")
        evaluator.checkpoint()


ENDS: dict[str, Callable[[Any], Any]] = {
    "it goes on": lambda s: s,
    "it has completed": lambda s: s.take(4),
    "it has failed": lambda s: s.take(4).concat(rx.throw(KeyError("over"))),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_value_that_does_not_pickle_keeps_its_id(end: str) -> None:
    """Who emits a lock has failed; it is there until the restart, afterwards what stands for it, under the same id."""
    store = MemoryStore()
    with evaluator_on(store, [1, 2, 3, 4]) as evaluator:
        evaluator.create("locks", ENDS[end](rx.source("n").pipe(ops.map(locks_at_three))))
        work(evaluator)
        evaluator.checkpoint()
        found = evaluator.query("locks")
        assert (found.status, "under id 2 cannot be stored" in str(found.error)) == ("failed", True)
        assert str(found.failed_at) == "what is stored of it"
        assert [each.subject for each in evaluator.incidents.open()] == ["locks"]
        before = values(evaluator, "locks")
    with evaluator_on(store.reopen(), [1, 2, 3, 4]) as evaluator:
        evaluator.start()
        after = values(evaluator, "locks")
        assert [*before[:2], before[3]] == [*after[:2], after[3]] == [1, 2, 4]
        assert isinstance(after[2], Unreadable)
        assert evaluator.query("locks").status == "failed"
        assert [each.subject for each in evaluator.incidents.open()] == ["locks"]
        assert values(evaluator, "sum") == [1, 3, 6, 10]


@pytest.mark.parametrize("error", ["Refused", "Holding", "Wordless"])
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_an_error_of_any_kind(error: str, policy: str) -> None:
    """Whatever a function raises, it ends its query by its policy, and the store opens again, kills and all."""
    store = MemoryStore()
    for attempt in range(4):
        evaluator = evaluator_on(store, [1, 2, 3])
        evaluator.create("raises", rx.source("n").pipe(ops.map(Raises(error, every=100, at=2))), policy=policy)
        evaluator.start()
        work(evaluator)
        evaluator.flush()
        if attempt % 2:
            evaluator.checkpoint()
            evaluator.close()
        else:
            evaluator.abandon()
        assert values(evaluator, "sum") == [1, 3, 6]
        assert values(evaluator, "raises") == ([1] if policy == "fail" else [1, 3])
        store = store.reopen()


def test_what_does_not_pickle_is_not_created() -> None:
    """A query that cannot be stored is refused by name when it is created, running or not, and leaves no trace."""
    lock = threading.Lock()

    def held(n: int) -> bool:
        return lock.locked()

    store = MemoryStore()
    evaluator = evaluator_on(store, [1, 2, 3])
    with pytest.raises(QueryRefused, match=r"its predicate, whose variable .lock."):
        evaluator.create("early", rx.source("n").filter(held))
    work(evaluator)
    with pytest.raises(QueryRefused, match="variable 'lock'"):
        evaluator.create("late", rx.source("n").filter(held))
    assert evaluator.queries() == ["sum"]
    evaluator.create("fine", rx.source("n"))
    evaluator.abandon()
    evaluator = evaluator_on(store.reopen(), [1, 2, 3, 4])
    work(evaluator)
    evaluator.checkpoint()
    assert values(evaluator, "sum") == [1, 3, 6, 10]
    assert evaluator.queries() == ["sum", "fine"]


def test_the_text_of_an_error_is_no_output() -> None:
    """A pure function whose error tells an address or an order of a set is not taken for one that is not pure."""

    class Tells(Exception):
        pass

    def raises(n: int) -> int:
        raise ValueError(f"{object()} {n}")

    store = MemoryStore()
    for _ in range(3):
        evaluator = evaluator_on(store, [1, 2, 3])
        evaluator.create("raises", rx.source("n").pipe(ops.map(raises)))
        work(evaluator)
        evaluator.abandon()
        store = store.reopen()
    assert evaluator.query("raises").status == "failed"


def interrupts(n: int) -> int:
    if n == 3:
        raise_signal(SIGINT)
    return n


def waits_for_interrupt(n: int) -> int:
    if n == 3 and not LEFT:
        LEFT.append(n)
        raise_signal(SIGINT)
        threading.Event().wait(60)
    return n


LEFT: list[int] = []


@pytest.mark.parametrize("handler", [default_int_handler, lambda signum, frame: by_hand()], ids=["default", "python"])
def test_an_interrupt_stops_the_evaluator_and_takes_no_turn_half(handler: Any) -> None:
    """Ctrl-C inside a function goes through to the caller; the store opens again and takes the turn anew."""
    LEFT.clear()
    store = MemoryStore()
    before = signal(SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt), evaluator_on(store, [1, 2, 3, 4]) as evaluator:
            evaluator.create("waits", rx.source("n").pipe(ops.map(waits_for_interrupt)))
            for _ in range(100):
                evaluator.step()
    finally:
        signal(SIGINT, before)
    with evaluator_on(store.reopen(), [1, 2, 3, 4]) as evaluator:
        evaluator.create("waits", rx.source("n").pipe(ops.map(waits_for_interrupt)))
        work(evaluator)
        assert values(evaluator, "sum") == [1, 3, 6, 10]
        assert values(evaluator, "waits") == [1, 2, 3, 4]


def by_hand() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_evaluator_does_not_go_on() -> None:
    """Who catches the interrupt and runs again is told of it, and has no wrong state."""
    store = MemoryStore()
    evaluator = evaluator_on(store, [1, 2, 3, 4])
    evaluator.create("interrupts", rx.source("n").pipe(ops.map(interrupts)))
    with pytest.raises(KeyboardInterrupt):
        work(evaluator)
    for again in (lambda: work(evaluator), evaluator.checkpoint):
        with pytest.raises(TooLate, match="has failed with KeyboardInterrupt: close it"):
            again()
    evaluator.close()


class Gone:
    """A class that is not there when the store is opened again."""


def gone(n: int) -> Any:
    return Gone()


def selects(n: int) -> Any:
    if "MOOD" in os.environ:
        raise ArithmeticError("changed its mind")
    return rx.of(n).pipe(ops.delay(1e9))


@pytest.mark.parametrize("strict", [True, False])
def test_a_class_that_is_gone(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strictly nothing is given up because an import is missing: the store is as it was when the class is back."""
    store = MemoryStore()

    def opened() -> QueryEvaluator:
        evaluator = evaluator_on(store, [1, 2, 3], strict=strict)
        evaluator.create("keeps", rx.source("n").pipe(ops.map(gone), ops.buffer_with_count(10)))
        return evaluator

    with opened() as evaluator:
        work(evaluator)
    store = store.reopen()
    with monkeypatch.context() as patch:
        patch.delattr(f"{__name__}.Gone")
        evaluator = opened()
        if strict:
            with pytest.raises(CheckpointRefused, match=r"state of 'keeps' needs test_poison\.Gone"):
                evaluator.start()
            evaluator.close()
        else:
            work(evaluator)
            assert evaluator.query("keeps").status == "running"  # without the class it is another query
            assert "it had failed" in evaluator.statistics().reports["keeps"]
            assert values(evaluator, "sum") == [1, 3, 6]
            evaluator.close()
            return
    store = store.reopen()
    with opened() as evaluator:
        work(evaluator)
        assert evaluator.query("keeps").status == "running"


def test_a_state_of_another_shape_is_refused_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strictly the start is refused by what is to be done about the operator: there is nothing to be imported."""
    store = MemoryStore()

    def opened() -> QueryEvaluator:
        evaluator = evaluator_on(store, [1, 2, 3])
        evaluator.create("mean", rx.source("n").pipe(ops.average()))
        return evaluator

    with opened() as evaluator:
        work(evaluator)
    store = store.reopen()
    monkeypatch.setattr(Average, "State", make_dataclass("State", [("sum", float, 0.0), ("count", int, 0)]))
    evaluator = opened()
    with pytest.raises(CheckpointRefused, match=r"^the state of /average was saved with fields .* a migrate\(\)"):
        evaluator.start()
    evaluator.abandon()


def test_a_class_that_is_gone_behind_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """The declaration in the journal cannot be read: the sentence says what is missing, and what to do."""
    store = MemoryStore()
    evaluator = evaluator_on(store, [1, 2, 3], checkpoint_interval_s=1e9)
    evaluator.create("keeps", rx.source("n").pipe(ops.map(gone), ops.map(lambda each, kind=Gone: kind)))
    evaluator.run(until=lambda: len(values(evaluator, "keeps")) == 3)
    evaluator.abandon()
    monkeypatch.delattr(f"{__name__}.Gone")
    with evaluator_on(store.reopen(), [1, 2, 3]) as evaluator:
        missing = r"needs what cannot be imported \(AttributeError: Can't get attribute 'Gone' on .*\): bring it back"
        with pytest.raises(CheckpointRefused, match=missing):
            evaluator.start()


async def answers_gone(n: int) -> Any:
    return globals()["".join(["Go", "ne"])]()  # by a made-up text, so that the query is not edited when its class goes


async def names_gone(n: int) -> Any:
    return Gone()


def asking(store: MemoryStore, ask: Any, **options: Any) -> QueryEvaluator:
    evaluator = evaluator_on(store, [1, 2, 3], checkpoint_interval_s=1e9, **options)
    evaluator.create("asks", rx.source("n").map_async(ask).map(lambda answer: type(answer).__name__))
    evaluator.create("reads", rx.source("asks").count())
    return evaluator


def killed_when_answered(ask: Any, **options: Any) -> MemoryStore:
    """Return a store whose journal has the answers of *ask* behind its checkpoint."""
    store = MemoryStore()
    evaluator = asking(store, ask, **options)
    no_checkpoint_of_classes(evaluator)
    evaluator.run(until=lambda: len(values(evaluator, "asks")) == 3)
    evaluator.abandon()
    return store.reopen()


def no_checkpoint_of_classes(evaluator: QueryEvaluator) -> None:
    """Take none for classes that another test has replaced in this process."""
    evaluator.redefinitions.classes.look = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("ask", [answers_gone, names_gone])
def test_a_recorded_answer_whose_class_is_gone_is_not_given_up(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strictly the start is refused by name, and nothing is lost when the class is back."""
    store = killed_when_answered(ask)
    with monkeypatch.context() as patch:
        patch.delattr(f"{__name__}.Gone")
        evaluator = asking(store, ask)
        with pytest.raises(CheckpointRefused, match=r"state of 'asks' needs .*Gone"):
            evaluator.start()
        evaluator.abandon()
    with asking(store.reopen(), ask) as evaluator:
        evaluator.run(until=lambda: len(values(evaluator, "asks")) == 3)
        assert values(evaluator, "asks") == ["Gone"] * 3


def test_a_recorded_answer_whose_class_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not strictly, the query and what reads it end, and no other."""
    store = killed_when_answered(answers_gone, strict=False)
    monkeypatch.delattr(f"{__name__}.Gone")
    with asking(store, answers_gone, strict=False) as evaluator:
        work(evaluator)
        assert [evaluator.query(name).status for name in ("asks", "reads", "sum")] == ["failed", "failed", "running"]
        assert values(evaluator, "sum") == [1, 3, 6]
        assert "a recorded answer of map_async cannot be read" in evaluator.query("asks").error


def catching(store: MemoryStore, ask: Any) -> QueryEvaluator:
    """Host, not strictly, what reads the answers and catches errors."""
    evaluator = asking(store, ask, strict=False)
    evaluator.create("catches", rx.source("asks").pipe(ops.count(), ops.catch(rx.of(-1))))
    return evaluator


def killed_catching(ask: Any) -> MemoryStore:
    store = MemoryStore()
    evaluator = catching(store, ask)
    no_checkpoint_of_classes(evaluator)
    evaluator.run(until=lambda: len(values(evaluator, "asks")) == 3)
    evaluator.abandon()
    return store.reopen()


def test_what_reads_a_lost_answer_is_told_of_no_error_that_it_could_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that goes on behind errors would be silently short: not strictly, it ends with what it reads.

    It runs again with that one, where the loss of the class is seen as an edit.
    """
    store = killed_catching(answers_gone)
    monkeypatch.delattr(f"{__name__}.Gone")
    with catching(store, answers_gone) as evaluator:
        work(evaluator)
        assert values(evaluator, "catches") == []
        said = evaluator.query("catches").error or str(evaluator.statistics().reports["catches"])
        assert "it reads 'asks', whose outputs before the crash cannot be had again" in said


def test_what_reads_a_query_that_cannot_be_read_is_told_of_no_error_that_it_could_catch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same where the turn that created the query is in the journal, and so is that of its reader, behind it."""
    store = killed_catching(names_gone)
    monkeypatch.delattr(f"{__name__}.Gone")
    with catching(store, names_gone) as evaluator:
        work(evaluator)
        assert -1 not in values(evaluator, "catches")
        assert "it had failed" in str(evaluator.statistics().reports["catches"])


def test_a_query_that_names_a_class_that_is_gone_begins_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not strictly, it is lost and edited at once: the report says with what it failed, also of what reads it."""
    store = killed_when_answered(names_gone, strict=False)
    monkeypatch.delattr(f"{__name__}.Gone")
    with asking(store, names_gone, strict=False) as evaluator:
        work(evaluator)
        assert [evaluator.query(name).status for name in ("asks", "reads", "sum")] == ["running"] * 3
        assert values(evaluator, "sum") == [1, 3, 6]
        reports = evaluator.statistics().reports
        assert list(reports) == ["asks", "reads"]
        assert all("it had failed" in each and "begins afresh" in each for each in reports.values())
        assert "Gone" in str(reports["asks"]) and "it reads 'asks'" in str(reports["reads"])


@pytest.mark.parametrize("damage", [b"", b"garbage", encode(7), encode((1, 2, 3))])
def test_an_answer_that_is_no_answer_is_its_query_s_error(damage: bytes) -> None:
    """However it came into the turn: one of our errors with the remedy, and the others go on."""
    store = MemoryStore()
    with evaluator_on(store, [1, 2, 3]) as evaluator:
        evaluator.create("asks", rx.source("n").map_async(answers_gone))
        calls: Any = evaluator.calls
        calls.begin = lambda number: calls.answers.append((number, damage, ""))
        work(evaluator)
        assert values(evaluator, "sum") == [1, 3, 6]
        assert "run the query again, which asks anew" in evaluator.query("asks").error


def test_a_selector_that_raises_when_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot open its inner sequences again ends, and what reads it hears of it; the others go on."""
    store = MemoryStore()
    for life in range(3):
        with evaluator_on(store, [1, 2, 3]) as evaluator:
            evaluator.create("selects", rx.source("n").pipe(ops.flat_map(selects)))
            evaluator.create("reads", rx.source("selects").pipe(ops.count()))
            work(evaluator)
            assert values(evaluator, "sum") == [1, 3, 6]
            status = "failed" if life else "running"
            assert {evaluator.query(name).status for name in ("selects", "reads")} == {status}
        store = store.reopen()
        monkeypatch.setenv("MOOD", "another")


def test_what_reads_a_query_that_is_lost_before_a_crash_ends_with_it() -> None:
    """A count over a query that cannot be had again would be silently short: it ends too, under ids not used yet."""
    store = MemoryStore()
    numbers = [1, 2, 3]

    def opened() -> QueryEvaluator:
        evaluator = evaluator_on(store, numbers)
        evaluator.create("lost", rx.source("n").pipe(ops.map(Emits("never read", 100, 2)), ops.pairwise()))
        evaluator.create("counts", rx.source("lost").pipe(ops.map(str), ops.scan(len_and, 0)))
        evaluator.create("apart", rx.source("sum").pipe(ops.count()))
        return evaluator

    numbers[:] = [1, 2]
    evaluator = opened()
    work(evaluator)
    evaluator.checkpoint()
    numbers += [3, 4]
    work(evaluator)
    evaluator.flush()
    before = evaluator.stream("counts").next_id
    evaluator.abandon()
    store = store.reopen()
    with opened() as evaluator:
        work(evaluator)
        assert evaluator.query("lost").status == "failed"
        assert evaluator.query("counts").status == "failed"
        assert "it reads 'lost', whose outputs" in str(evaluator.query("counts").error)
        assert evaluator.stream("counts").next_id == before + 1
        assert evaluator.query("apart").status == "running"
        assert values(evaluator, "sum") == [1, 3, 6, 10]


def test_answers_are_kept_where_another_query_is_lost_before_a_crash() -> None:
    """What a lost query would have subscribed to in a replay does not change for which call an answer is."""
    store, numbers = MemoryStore(), [1, 2]

    def opened() -> QueryEvaluator:
        evaluator = evaluator_on(store, numbers, checkpoint_interval_s=1e9)
        never_read = ops.map(Emits("never read", 100, 2))
        evaluator.create("lost", rx.source("n").pipe(never_read, ops.flat_map(lambda _: rx.timer(1e6)), ops.pairwise()))
        evaluator.create("asks", rx.source("n").map_async(tenfold, concurrency=2))
        return evaluator

    evaluator = opened()
    evaluator.run(until=lambda: len(values(evaluator, "asks")) == 2)
    evaluator.checkpoint()
    numbers += [3, 4, 5]
    evaluator.run(until=lambda: len(values(evaluator, "asks")) == 5)
    evaluator.abandon()
    store = store.reopen()
    with opened() as evaluator:
        work(evaluator)
        assert [evaluator.query(name).status for name in ("lost", "asks")] == ["failed", "running"]
        assert values(evaluator, "asks") == [10, 20, 30, 40, 50]


async def tenfold(n: int) -> int:
    return n * 10


def len_and(total: int, text: str) -> int:
    return total + 1


@pytest.mark.parametrize("value", every(3, VALUES), ids=repr)
def test_pushed_values(value: Hostile) -> None:
    """What cannot be had again is refused when it is pushed; everything else is taken, kills and all."""
    store = MemoryStore()

    def opened() -> tuple[QueryEvaluator, Any]:
        evaluator = evaluator_on(store, [1, 2, 3])
        pushed = evaluator.push("pushed")
        evaluator.create("pairs", rx.source("pushed").pipe(ops.pairwise()))
        evaluator.start()
        return evaluator, pushed

    evaluator, pushed = opened()
    if value.kind == STORABLE:
        pushed.push([1, value.make(), 2])
    else:
        with pytest.raises(TypeError, match="cannot be pushed"):
            pushed.push([1, value.make(), 2])
        pushed.push([1, 2])
    for _ in range(3):
        work(evaluator)
        evaluator.flush()
        evaluator.abandon()
        store = store.reopen()
        evaluator, pushed = opened()
        work(evaluator)
        assert values(evaluator, "sum") == [1, 3, 6]
        assert len(values(evaluator, "pairs")) == pushed.end - 1
        evaluator.checkpoint()


@pytest.mark.parametrize("value", every(28, [each.name for each in VALUES if each.kind != STORABLE], commits=7))
@pytest.mark.parametrize("state", STATES)
def test_between_two_checkpoints(state: str, value: str) -> None:
    """What is hostile comes into a state behind a checkpoint: the next one has the rows of the others all the same."""
    store, numbers = MemoryStore(), [1, 2]
    with evaluator_on(store, numbers) as evaluator:
        evaluator.create("holds", STATES[state](rx.source("n").pipe(ops.map(Emits(value, 100, 3)))))
        work(evaluator)
        evaluator.checkpoint()
        numbers.append(3)
        work(evaluator)
        evaluator.checkpoint()
        numbers.append(4)
        work(evaluator)
        evaluator.checkpoint()
    numbers.append(5)
    with evaluator_on(store.reopen(), numbers) as evaluator:
        work(evaluator)
        assert values(evaluator, "sum")[-1] == 15


def test_a_selector_that_raises_for_a_group_leaves_what_is_read_alone() -> None:
    """The group for which no sequence could be chosen is left out; the one before is not given up for it."""

    def chosen(group: Any) -> Any:
        return group.map(str) if group.key != 2 else [][group.key]

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([10, 20, 11, 12]))
        query = rx.source("n").pipe(ops.group_by(lambda n: n // 10), ops.switch_map(chosen))
        evaluator.create("groups", query, policy="skip")
        evaluator.start()
        work(evaluator)
        assert values(evaluator, "groups") == ["10", "11", "12"]
