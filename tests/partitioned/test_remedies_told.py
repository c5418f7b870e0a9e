"""What a sentence of ours says at its end, the remedy, is in the log and in the status of the group, whoever tells."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from hypothesis import given
from hypothesis import strategies as st
from node_world import GROUP, Logs, World, row, sums

from hosting import App
from hosting.cli import status as status_command
from hosting.cli.wording import BadUsage
from hosting.partitioned.failures import REPORTED_MAX, TOLD_MAX, TOLD_TOGETHER_MAX, Failures, inside
from hosting.partitioned.member import Pauses
from hosting.partitioned.words import Partition
from hosting.reports.incidents import Incidents
from reliable_rx.errors import CheckpointRefused, described

FOLDER = f"/srv/{'store' * 20}/partitions/app/logs/a/1"
REMEDY = f"see what can be saved with `reliable-rx store repair {FOLDER} --app MODULE:APP`"
ERROR = CheckpointRefused(f"{FOLDER}/journal.sqlite: {'turn 7 is damaged, ' * 40}and turn 8 too; {REMEDY}")
QUICKLY = Pauses(open_s=0.02, most_s=0.2)


def raises(*_: Any) -> Any:
    raise ERROR


class Unlisted(Logs):
    """Logs that cannot be listed."""

    listing = raises


def unreadable() -> Callable[[App, World], None]:
    logs = Logs("a")
    logs.broken["a"] = ERROR
    return sums(logs)


def failing_sink() -> Callable[[App, World], None]:
    def declare(app: App, world: World) -> None:
        app.query("sums", app.source("logs", logs))
        app.sink("sums", raises)

    logs = Logs("a")
    return declare


def failing_query() -> Callable[[App, World], None]:
    def declare(app: App, world: World) -> None:
        app.query("sums", app.source("logs", logs).map(raises))

    logs = Logs("a")
    logs.add("a", 1)
    return declare


WAYS: dict[str, Callable[[], Callable[[App, World], None]]] = {
    "it cannot be run": unreadable,
    "its sink cannot be made": failing_sink,
    "a query fails inside it": failing_query,
    "it cannot be listed": lambda: sums(Unlisted("a")),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_remedy_of_what_fails_is_told(
    way: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has the sentence whole; the group has how it begins and how it ends."""
    monkeypatch.setattr("hosting.partitioned.agent.TELL_S", 0.0)
    caplog.set_level(logging.INFO, "reliable_rx")
    with World(tmp_path, WAYS[way]()).node(pauses=QUICKLY):
        until(lambda: ERROR.message in caplog.text, "the log has all of it")
        until(lambda: REMEDY in told(tmp_path, capsys), "the group has how it ends")
        assert f"{FOLDER}/journal.sqlite: turn 7" in told(tmp_path, capsys)
        if way != "it cannot be listed":
            assert len(row(tmp_path, "a").error) <= TOLD_MAX + len(" (and 1,000 more)")


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `status` says; nothing while there is no group, which a node joins after it has told its log."""
    with suppress(BadUsage):
        status_command.status(str(folder), GROUP, new_offsets=None, app=None, as_json=False, watch=False)
    return capsys.readouterr().out


@given(st.text(max_size=3000), st.text("abc /'`:", max_size=450))
def test_how_any_sentence_ends_is_told(facts: str, remedy: str) -> None:
    """Of a failure to run a partition and of what fails inside it, in a bounded line."""
    failures, found, each = Failures(), Incidents(), Partition("logs", "a")
    failures.failed(each, described(ValueError(f"x{facts}; {remedy}")), now=0.0)
    found.report("store", "a", f"x{facts}; {remedy}")
    open_now = inside(found)
    assert open_now is not None
    for message in (failures.report()[each].message, open_now.message):
        assert message.endswith(remedy) and len(message) <= TOLD_MAX and "\n" not in message
        message.encode()


def test_what_very_many_say_together_is_bounded() -> None:
    """A group's document does not grow with every partition that fails."""
    failures = Failures()
    for number in range(2 * REPORTED_MAX):
        failures.failed(Partition("logs", f"{number:04}"), "x" * 10_000, now=0.0)
    told = [each.message for each in failures.report().values()]
    assert len(told) == REPORTED_MAX and sum(map(len, told)) <= TOLD_TOGETHER_MAX
