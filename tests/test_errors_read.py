"""What a reader sees of an error: the same before a restart, behind one, behind a kill, and when files were edited."""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.stored_errors import before
from hosting import ListSource, QueryEvaluator
from hosting.sources import Error, FaultySource
from reliable_rx.errors import StoredError, text_of
from reliable_rx.testing.hostile import ERRORS, Raises


class Locked(Exception):
    """It does not go into bytes."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.lock = threading.Lock()


def locked(n: int) -> Any:
    raise Locked("one", "two")


def from_locked(n: int) -> Any:
    try:
        locked(n)
    except Locked as error:
        raise ValueError("three") from error


def while_locked(n: int) -> Any:
    try:
        from_locked(n)
    except ValueError:
        return {}["k"]


def locked_from(n: int) -> Any:
    raise Locked("one", "two") from KeyError("k")


def deep(n: int) -> Any:
    error: Exception = KeyError(0)
    for number in range(30):
        after = ValueError(number)
        after.__cause__, error = error, after
    raise error


FAILS: dict[str, Callable[[int], Any]] = {
    each.__name__: each for each in (locked, from_locked, while_locked, locked_from, deep)
}


def caught(error: Exception, source: Any) -> Any:
    said: list[Any] = [str(getattr(error, "fields", ""))]
    at: BaseException | None = error
    while at is not None:
        said += [type(at).__name__, text_of(at), at.__cause__ is not None]
        at = before(at)
    return rx.just(tuple(said))


def evaluator_on(store: MemoryStore, fails: Callable[[int], Any]) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource([1, 2, 3], follow=True))
    evaluator.create("q", rx.source("n").map(fails))
    evaluator.create("early", rx.source("q").catch(caught))
    return evaluator


def work(evaluator: QueryEvaluator) -> None:
    evaluator.start()
    while evaluator.step():
        pass


def seen(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 100) for value in part.values]


def error_of(evaluator: QueryEvaluator) -> Exception | None:
    (*_, last) = evaluator.stream("q").read(0, 100)
    return last.error


@pytest.mark.parametrize("kind", every(2, [*FAILS, *(each.name for each in ERRORS)]))
def test_a_reader_sees_one_error(kind: str) -> None:
    """In the same turn, later, behind a restart and in a replay readers have caught the same, with what led to it."""
    store, fails = MemoryStore(), FAILS[kind] if kind in FAILS else Raises(kind, 1, 0)
    evaluator = evaluator_on(store, fails)
    work(evaluator)
    evaluator.create("late", rx.source("q").catch(caught))
    evaluator.checkpoint()
    evaluator.create("later", rx.source("q").catch(caught))
    evaluator.flush()
    work(evaluator)
    first = {name: seen(evaluator, name) for name in ("early", "late", "later")}
    assert len({repr(each) for each in first.values()}) == 1 and len(first["later"]) == 1
    evaluator.abandon()
    with evaluator_on(store.reopen(), fails) as again:
        work(again)
        assert {name: seen(again, name) for name in first} == first
        again.create("latest", rx.source("q").catch(caught))
        work(again)
        assert seen(again, "latest") == first["late"]


def test_an_error_that_lasts_is_what_was_raised() -> None:
    """An exception that survives being stored is handed on as it is."""

    def fails(n: int) -> int:
        raise KeyError("k")

    with evaluator_on(MemoryStore(), fails) as evaluator:
        work(evaluator)
        assert type(error_of(evaluator)) is KeyError


def test_a_source_that_ends_with_such_an_error() -> None:
    """The error of a source is seen by its readers as they would see it behind a restart."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", FaultySource(ListSource([1, 2, 3]), [Error(at=1, message="gone")]))
    evaluator.create("early", rx.source("n").catch(caught))
    with evaluator:
        work(evaluator)
        assert seen(evaluator, "early")[-1][2] == "gone"


def compiled(path: Path, text: str) -> Any:
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(path), "exec"), names)
    return names


CODE = "def inner(n):\n    return 1 // (n - 2)\n\ndef fails(n):\n    return inner(n)\n"
EDITED = "def inner(n):\n    return 'other' + (n - 2)\n\ndef fails(n):\n    return inner( n )\n"


def traceback_of(letter: Any) -> str:
    text: str = letter.traceback
    return text


def test_a_file_is_edited_behind_a_kill(tmp_path: Path) -> None:
    """A query that reads the traceback of letters gives the same in a replay, whatever the file says by then."""
    fails = compiled(tmp_path / "app.py", CODE)["fails"]
    store = MemoryStore()

    def hosted(on: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(on, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("q", rx.source("n").map(fails), policy="dead_letter")
        evaluator.create("traces", rx.source("q.dead_letters").map(traceback_of))
        return evaluator

    evaluator = hosted(store)
    work(evaluator)
    (before,) = seen(evaluator, "traces")
    assert "line 2, in inner" in before and "line 5, in fails" in before and "ZeroDivisionError" in before
    assert "reliable_rx/" not in before
    evaluator.abandon()
    (tmp_path / "app.py").write_text(EDITED)
    linecache.checkcache()
    with hosted(store.reopen()) as again:
        work(again)
        assert seen(again, "traces") == [before]


def test_what_is_raised_that_is_no_exception_says_where() -> None:
    """`SystemExit` becomes data at once, and its frames are those of the user's code."""

    def leaves(n: int) -> int:
        raise SystemExit(3)

    with evaluator_on(MemoryStore(), leaves) as evaluator:
        work(evaluator)
        error = error_of(evaluator)
        assert isinstance(error, StoredError) and "in test_what" in error.fields["trace"]
