"""The register of failures and stalls: seen at once, counted, bounded, closed."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from lanes import left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.reports.flapping import KEPT_MAX, REPEAT_S
from hosting.reports.incidents import OPEN_MAX, Incidents
from hosting.reports.unread import tell_unread


class Stubborn(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_report_is_logged_at_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """One line names kind, subject and message, and the traceback follows, also of an error without a text."""
    incidents = Incidents()
    for error in (ValueError("nine"), Stubborn()):
        with caplog.at_level(logging.INFO, "reliable_rx"):
            incidents.report("query", f"q {type(error).__name__}", "it has failed", error=error)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "query 'q ValueError': it has failed" in caplog.text and "ValueError: nine" in caplog.text
    assert "Stubborn" in incidents.open()[1].trace and incidents.has_errors


def test_a_loop_of_retries_is_counted_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """What repeats is one incident with a count; the log has a line a minute, and one when it is well again."""
    now = [0.0]
    incidents = Incidents(clock=lambda: now[0])
    with caplog.at_level(logging.INFO, "reliable_rx"):
        for _ in range(100):
            now[0] += REPEAT_S / 40
            incidents.report("sink", "s", "the disk is full", level=logging.WARNING)
        assert [each.count for each in incidents.open()] == [100] and not incidents.has_errors
        incidents.resolve("sink", "s")
        incidents.resolve("sink", "s")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3 + ["INFO"]
    assert incidents.open() == ()


@pytest.mark.parametrize("level, most", [(logging.WARNING, 1), (logging.ERROR, 5)])
def test_what_comes_and_goes_is_told_a_few_times_a_minute(
    level: int, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the first beginning and end at once, a few a minute of the others, and says how many they were."""
    now = [0.0]
    incidents = Incidents(clock=lambda: now[0])
    with caplog.at_level(logging.INFO, "reliable_rx"):
        for _ in range(500):
            now[0] += 0.1
            incidents.report("call", "q", "it has failed", level=level)
            assert len(incidents.open()) == 1
            incidents.resolve("call", "q")
    assert [each.levelno for each in caplog.records] == [level, logging.INFO] * most
    now[0] += REPEAT_S
    incidents.report("call", "q", "it has failed", level=level)
    assert f"{500 - most} more times" in caplog.text


@pytest.mark.parametrize("how", ["after a minute", "at the end", "when it repeats"])
def test_what_is_open_is_in_the_log(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """One that began again and was not told is told if it stays: the last line of the log is what is so."""
    now = [0.0]
    incidents = Incidents(clock=lambda: now[0])
    with caplog.at_level(logging.INFO, "reliable_rx"):
        incidents.report("call", "q", "it has failed", level=logging.WARNING)
        incidents.resolve("call", "q")
        incidents.report("call", "q", "it has failed again", level=logging.WARNING)
        incidents.tell_owed()
        assert "failed again" not in caplog.text
        now[0] += 1 if how == "at the end" else REPEAT_S
        if how == "when it repeats":
            incidents.report("call", "q", "it has failed again", level=logging.WARNING)
        for _ in range(3):
            incidents.tell_owed(at_end=how == "at the end")
        assert caplog.text.count("failed again") == 1
        incidents.resolve("call", "q")
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"] * 2


@left_to_commits
def test_many_that_come_and_go_are_bounded() -> None:
    """What has begun lately is remembered for so many and no more; the others are told as if they were new."""
    incidents = Incidents(clock=lambda: 0.0)
    for number in range(KEPT_MAX * 2):
        incidents.report("call", f"q{number}", "it has failed", level=logging.WARNING)
        incidents.resolve("call", f"q{number}")
    assert len(incidents._flapping._kept) == KEPT_MAX
    assert not incidents._flapping.owed


def test_calls_that_fail_now_and_then_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Every second call of a query fails: the log has the first, and no line for each of the others."""

    async def rate(n: int) -> int:
        if n % 2:
            raise ConnectionError("down")
        return n

    with caplog.at_level(logging.INFO, "reliable_rx"), QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource(list(range(100))))
        evaluator.create("q", rx.source("n").map_async(rate), policy="dead_letter")
        evaluator.run()
    said = [each.getMessage() for each in caplog.records if each.getMessage().startswith("call")]
    assert len(said) <= 4, said
    assert said[0].startswith("call 'q': a call has failed")


def test_what_was_so_before_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Hosts that share a log, a partition that sleeps and wakes say, repeat it at no start, however far apart."""
    now, logged = [0.0], dict[tuple[str, str], float]()
    for now[0] in (0.0, 100.0, 5000.0):
        incidents = Incidents(clock=lambda: now[0])
        incidents.share_log(logged)
        incidents.report("skipped", "q", "2 events so far", level=logging.WARNING, once=True)
        assert len(incidents.open()) == len(caplog.records) == 1
    incidents.report("skipped", "q", "3 events so far", level=logging.WARNING)
    assert len(caplog.records) == 2


def test_incidents_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the limit incidents are counted, and one line for all of them says what comes."""
    incidents = Incidents(clock=lambda: 0.0)
    for number in range(OPEN_MAX + 50):
        incidents.report("query", f"q{number}", "it has failed")
    assert (len(incidents.open()), incidents.left_out) == (OPEN_MAX, 50)
    assert len(caplog.records) == OPEN_MAX + 1
    incidents.report("sink", "s", "it has failed")
    assert incidents.open()[-1].kind == "sink", "failed queries hide nothing else"
    assert (len(incidents.open()), incidents.left_out) == (OPEN_MAX, 51)


def kinds_in(module: ast.Module) -> Iterator[str]:
    """Yield each kind that *module* reports, written out or by the name of a constant of the module."""
    constants = {
        target.id: each.value.value
        for each in module.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "report":
            match call.args:
                case [ast.Constant(value=str(kind)), *_]:
                    yield kind
                case [ast.Name(id=name), *_] if name in constants:
                    yield str(constants[name])
                case _:
                    pass


def test_every_kind_is_explained() -> None:
    """Each kind of incident that the code reports has its row on the page that says what to do."""
    root = Path(__file__).parent.parent
    page = (root / "docs/how-to/see-what-is-wrong.md").read_text()
    explained = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    kinds = {kind for path in (root / "hosting").rglob("*.py") for kind in kinds_in(ast.parse(path.read_text()))}
    assert {"query", "journal", "watermark", "emitted"} <= kinds
    assert not sorted(kind for kind in kinds if not any(f"`{kind}`" in each for each in explained))


def test_whatever_is_reported_can_be_written_down(caplog: pytest.LogCaptureFixture) -> None:
    """Subject, message and traceback are text that UTF-8 takes, of a bounded length, and resolving finds them again."""
    incidents = Incidents()
    incidents.report("query", "q\ud800", "x" * 10**7 + "\ud800", error=ValueError("\ud800" * 10**6))
    (line,), (each,) = [record.getMessage() for record in caplog.records], incidents.open()
    for text in (line, each.subject, each.message, each.trace):
        assert len(text.encode()) < 200_000
    incidents.resolve("query", "q\ud800")
    assert incidents.open() == ()


def test_a_query_whose_upstream_has_ended_is_told_to_look_there() -> None:
    """The remedy names the query that is to be mended, and how to run this one again."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([0]))
        evaluator.create("bad", rx.source("n").map(lambda n: 1 // n))
        evaluator.create("reader", rx.source("bad").map(str))
        evaluator.run()
        told = {each.subject: each.message for each in evaluator.statistics().incidents}
    assert "mend its function" in told["bad"] and "evaluator.restart('bad')" in told["bad"]
    assert told["reader"].startswith("has failed with 'bad' (ZeroDivisionError: ") and "mend that one" in told["reader"]


def test_a_source_that_nothing_reads_any_more_is_told_once() -> None:
    """However often a run that waits looks, until a query that reads it runs again."""
    store, tables = MemoryStore(), [10, 0, 5]
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(tables, follow=True))
        evaluator.create("q", rx.source("n").map(lambda n: 10 / n))
        evaluator.start()
        for _ in range(5):
            while evaluator.step():
                pass
            tell_unread(evaluator.engine, evaluator.incidents, failed=["q"], sources=["n"])
        (unread,) = [each for each in evaluator.incidents.open() if each.kind == "unread"]
        assert (unread.subject, unread.count) == ("n", 1)
        evaluator.restart("q")
        tell_unread(evaluator.engine, evaluator.incidents, failed=[], sources=["n"])
        assert "unread" not in {each.kind for each in evaluator.incidents.open()}


def test_late_events_are_over_with_the_query_that_had_them() -> None:
    """One that runs again has had none."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1.0, 9.0, 2.0], follow=True))
        evaluator.create("q", rx.source("n"), clock=event_time(float, lateness_s=0.0))
        while evaluator.step():
            pass
        assert [(each.kind, each.subject) for each in evaluator.statistics().incidents] == [("late", "q")]
        evaluator.restart("q")
        while evaluator.step():
            pass
        assert evaluator.statistics().incidents == ()
