"""A query that has ended and is edited begins afresh: with the next events, under the next ids, and it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator


def hosted(store: MemoryStore, queries: dict[str, Any], count: int, sink: Path | None = None) -> QueryEvaluator:
    """Host *queries* until they have taken the numbers below *count*."""
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
    evaluator.source("n", ListSource(list(range(count)), follow=True))
    for name, query in queries.items():
        evaluator.create(name, query)
    if sink is not None:
        evaluator.sink("q", JsonLinesSink(sink))
    evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
    return evaluator


def end(evaluator: QueryEvaluator, *, cleanly: bool) -> None:
    if cleanly:
        evaluator.checkpoint()
    evaluator.close()


def notifications(evaluator: QueryEvaluator, name: str) -> list[tuple[int, Any]]:
    """Return all that a stream holds: values, and None for the notification of an end."""
    stream = evaluator.stream(name)
    found: list[tuple[int, Any]] = []
    for part in stream.read(stream.first, 1000):
        found += list(enumerate(part.values, part.first))
        found += [(part.next - 1, None)] if part.ended else []
    return found


def failing(n: Any) -> Any:
    return n.map(lambda x: x // (x != 2)).scan(lambda a, x: a + x, 0)


def mended(n: Any) -> Any:
    return n.map(lambda x: x).scan(lambda a, x: a + x, 0)


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_it_goes_on_behind_the_notification_of_its_end(cleanly: bool, tmp_path: Path) -> None:
    """Fresh state, the next events, the next ids; streams and sinks have one sequence behind the other."""
    store, file, n = MemoryStore(), tmp_path / "q.jsonl", rx.source("n")
    evaluator = hosted(store, {"q": failing(n)}, 4, file)
    assert notifications(evaluator, "q") == [(0, 0), (1, 1), (2, None)]
    end(evaluator, cleanly=cleanly)
    for _ in range(2):
        evaluator = hosted(store, {"q": mended(n)}, 6, file)
        assert notifications(evaluator, "q") == [(0, 0), (1, 1), (2, None), (3, 4), (4, 9)]
        end(evaluator, cleanly=cleanly)
        evaluator.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["id"] for each in lines] == [0, 1, 2, 3, 4]


def test_the_report_says_so() -> None:
    """It names the error, the id, and what is not read again; without an edit there is nothing to say."""
    store, n = MemoryStore(), rx.source("n")
    end(hosted(store, {"q": failing(n)}, 4), cleanly=True)
    evaluator = hosted(store, {"q": failing(n)}, 5)
    assert evaluator.statistics().reports == {}
    end(evaluator, cleanly=True)
    report = hosted(store, {"q": mended(n)}, 6).statistics().reports["q"]
    assert "it had failed (ZeroDivisionError" in report
    assert "ids go on at 3" in report
    assert "not read again" in report
    assert "fresh: /scan" in report


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_those_that_failed_with_it_go_on_with_it(cleanly: bool) -> None:
    """Who reads the stream has failed by no fault of its own: it begins afresh too, and so does who reads that."""
    store, n = MemoryStore(), rx.source("n")
    behind = {
        "doubled": rx.source("q").map(lambda x: x * 2),
        "counted": rx.source("doubled").scan(lambda a, x: a + 1, 0),
        "own": rx.source("q").map(lambda x: [][x]),
    }
    end(hosted(store, {"q": failing(n), **behind}, 4), cleanly=cleanly)
    evaluator = hosted(store, {"q": mended(n), **behind}, 6)
    assert notifications(evaluator, "doubled") == [(0, 0), (1, 2), (2, None), (3, 8), (4, 18)]
    assert notifications(evaluator, "counted") == [(0, 1), (1, 2), (2, None), (3, 1), (4, 2)]
    assert notifications(evaluator, "own") == [(0, None)]
    assert "it had failed" in evaluator.statistics().reports["counted"]
    end(evaluator, cleanly=False)
    again = hosted(store, {"q": mended(n), **behind}, 7)
    assert notifications(again, "counted")[-1] == (5, 3)
    again.close()


def test_a_query_over_what_has_ended_says_how_to_read_it_anew() -> None:
    """Mended behind the end of its source it completes at once: the report says so, and names what to do."""
    store, n = MemoryStore(), rx.source("n")
    for function in (failing, mended):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([0, 1, 2, 3]))
            evaluator.create("q", function(n))
            evaluator.run()
            reports = evaluator.statistics().reports
    assert "completes at once" in reports["q"]
    assert "a source of another name" in reports["q"]
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([0, 1, 2, 3]))
        evaluator.source("again", ListSource([0, 1, 2, 3]))
        evaluator.create("q", mended(rx.source("again")))
        evaluator.run()
        assert [value for _, value in notifications(evaluator, "q") if value is not None][-4:] == [0, 1, 3, 6]
        assert "completes at once" not in evaluator.statistics().reports["q"]


def test_queries_that_are_declared_no_more_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """They go on, and the start says which they are and how to end them; then nothing is said any more."""
    store, n = MemoryStore(), rx.source("n")
    end(hosted(store, {"q": mended(n), "gone": mended(n)}, 4), cleanly=True)
    with caplog.at_level("INFO", logger="reliable_rx"):
        evaluator = hosted(store, {"q": mended(n)}, 6)
        assert evaluator.query("gone").status == "running"
        (line,) = [each.getMessage() for each in caplog.records if "without being declared" in each.getMessage()]
        assert "'gone'" in line
        assert "dispose" in line
        evaluator.dispose("gone")
        end(evaluator, cleanly=True)
        caplog.clear()
        end(hosted(store, {"q": mended(n)}, 7), cleanly=True)
    assert not [each for each in caplog.records if "without being declared" in each.getMessage()]


ENDED = {"completed": rx.source("n").take(1), "failed": rx.source("n").map(lambda n: 1 // n)}
EDITED = {"completed": rx.source("n").take(2), "failed": rx.source("n").map(lambda n: 2 // (n + 1))}


@pytest.mark.parametrize("cleanly", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("moment", ["a start", "a creation", "a start with its reader"])
@pytest.mark.parametrize("how", ENDED)
def test_what_begins_afresh_is_in_the_log(
    caplog: pytest.LogCaptureFixture, how: str, moment: str, cleanly: bool
) -> None:
    """One line for each query that puts a second end into its stream, when that is done, and none when it is not."""

    def lines() -> list[str]:
        found = [each.getMessage() for each in caplog.records if "begins afresh" in each.getMessage()]
        caplog.clear()
        return found

    store = MemoryStore()
    reader = {"reader": rx.source("q").map(str)} if moment.endswith("reader") and how == "failed" else {}
    end(hosted(store, {"q": ENDED[how], **reader}, 2), cleanly=cleanly)
    end(hosted(store, {"q": ENDED[how], **reader}, 3), cleanly=cleanly)
    assert lines() == []
    if moment == "a creation":
        evaluator = hosted(store, {"q": ENDED[how]}, 3)
        assert lines() == []
        evaluator.create("q", EDITED[how])
    else:
        evaluator = hosted(store, {"q": EDITED[how], **reader}, 3)
    end(evaluator, cleanly=cleanly)
    found = lines()
    assert sorted(each.split("'")[1] for each in found) == sorted(["q", *reader]), found
    end(hosted(store, {"q": EDITED[how], **reader}, 3), cleanly=cleanly)
    assert lines() == []


def still_failing(n: Any) -> Any:
    return n.map(lambda x: x // (x != 5)).scan(lambda a, x: a + x, 0)


def mended_at_start(store: MemoryStore, queries: dict[str, Any]) -> QueryEvaluator:
    return hosted(store, queries, 7)


def mended_while_running(store: MemoryStore, queries: dict[str, Any]) -> QueryEvaluator:
    evaluator = hosted(store, {**queries, "q": failing(rx.source("n"))}, 4)
    evaluator.create("q", queries["q"])
    end(evaluator, cleanly=False)
    return hosted(store, queries, 7)


def restarted(store: MemoryStore, queries: dict[str, Any]) -> QueryEvaluator:
    evaluator = mended_while_running(store, queries)
    evaluator.restart("q")
    return evaluator


BEHIND = {"doubled": rx.source("q").map(lambda x: x * 2), "counted": rx.source("doubled").scan(lambda a, x: a + 1, 0)}


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("revived", [mended_at_start, mended_while_running, restarted])
def test_unchanged_it_stays_as_it_ended(revived: Any, cleanly: bool) -> None:
    """Mended, but not enough, it fails again as before, with its readers: a start behind that runs none of them."""
    store, queries = MemoryStore(), {"q": still_failing(rx.source("n")), **BEHIND}
    end(hosted(store, {"q": failing(rx.source("n")), **BEHIND}, 4), cleanly=False)
    evaluator = revived(store, queries)
    found = {name: notifications(evaluator, name) for name in queries}
    assert [value for _, value in found["counted"]].count(None) == 2
    for _ in range(3):
        end(evaluator, cleanly=cleanly)
        evaluator = hosted(store, queries, 7)
        assert {name: notifications(evaluator, name) for name in queries} == found
    evaluator.close()


def test_a_kill_between_a_query_and_its_readers_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start runs the readers again that the one that was killed had not come to."""
    store, queries = MemoryStore(), {"q": mended(rx.source("n")), **BEHIND}
    end(hosted(store, {"q": failing(rx.source("n")), **BEHIND}, 4), cleanly=False)
    with monkeypatch.context() as patch:
        patch.setattr("hosting.evaluator.following.Following.follow", lambda self, **_: None)
        end(hosted(store, queries, 4), cleanly=False)
    evaluator = hosted(store, queries, 6)
    assert notifications(evaluator, "counted") == [(0, 1), (1, 2), (2, None), (3, 1), (4, 2)]
    evaluator.close()


OTHERS = {**BEHIND, "counted": rx.source("doubled").scan(lambda a, x: a + 10, 0)}
WAYS = {
    "a start": lambda evaluator: None,
    "one call": lambda evaluator: evaluator.create_many({"q": mended(rx.source("n")), "counted": OTHERS["counted"]}),
    "a restart": lambda evaluator: evaluator.restart("q", "counted"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_query_that_begins_is_told_of_no_old_end(way: str) -> None:
    """Not by one between it and what begins anew, which had failed with that: this one runs again first."""
    store, n = MemoryStore(), rx.source("n")
    last = BEHIND if way == "a restart" else OTHERS
    end(hosted(store, {"q": failing(n), **BEHIND}, 4), cleanly=True)
    evaluator = hosted(store, {"q": mended(n), **last} if way == "a start" else {"q": failing(n), **BEHIND}, 4)
    WAYS[way](evaluator)
    assert [value for _, value in notifications(evaluator, "counted")] == [1, 2, None]
    assert {evaluator.query(name).status for name in ("q", "doubled", "counted")} == {"running"}
    evaluator.close()


def test_a_start_that_was_killed_between_has_readers_told_of_no_old_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one between is looked for at the next start, too."""
    store, n = MemoryStore(), rx.source("n")
    end(hosted(store, {"q": failing(n), **BEHIND}, 4), cleanly=True)
    with monkeypatch.context() as patch:
        patch.setattr("hosting.evaluator.following.Following.follow", lambda self, **_: None)
        end(hosted(store, {"q": mended(n), **BEHIND}, 4), cleanly=False)
    evaluator = hosted(store, {"q": mended(n), **OTHERS}, 4)
    assert [value for _, value in notifications(evaluator, "counted")] == [1, 2, None]
    evaluator.close()


@pytest.mark.parametrize("disposed", [False, True])
def test_the_report_names_readers_that_stay_completed(disposed: bool) -> None:
    """They had heard a completion, of the query or of a stream beside it, and that was no failure."""
    store, n = MemoryStore(), rx.source("n")
    readers = {
        "first": rx.source("q").take(1),
        "letters": rx.source("q.dead_letters").map(lambda letter: letter.value),
        "others": n.take(1),
    }

    def opened(query: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
        evaluator.source("n", ListSource([1, 3, 2], follow=True))
        evaluator.create("q", query, policy="dead_letter")
        for name, reader in readers.items():
            evaluator.create(name, reader)
        evaluator.start()
        while evaluator.step():
            pass
        return evaluator

    evaluator = opened(n.take(2))
    if disposed:
        evaluator.dispose("q")
    end(evaluator, cleanly=True)
    evaluator = opened(n.take(3))
    report = evaluator.statistics().reports["q"]
    assert "what had completed and reads it stays so: 'first', 'letters' (run it again" in report
    evaluator.close()


@pytest.mark.parametrize("revived", [mended_at_start, mended_while_running])
@pytest.mark.parametrize("is_first", [True, False])
def test_who_reads_a_query_and_a_chain_behind_it_runs_again_behind_the_chain(revived: Any, is_first: bool) -> None:
    """It is told of no end but that with which it has failed, whichever it reads first."""
    store, q, counted = MemoryStore(), rx.source("q"), rx.source("counted").map(lambda x: -x)
    both = {**BEHIND, "both": q.merge(counted) if is_first else counted.merge(q)}
    end(hosted(store, {"q": failing(rx.source("n")), **both}, 4), cleanly=False)
    evaluator = revived(store, {"q": mended(rx.source("n")), **both})
    assert [value for _, value in notifications(evaluator, "both")].count(None) == 1
    evaluator.close()
