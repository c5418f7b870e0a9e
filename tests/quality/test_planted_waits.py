"""The tests are tested: what waits unseen, what is too long, and the last differences to RxPY.

Each bug is a defect that was there once: a clock that nobody sees waiting, a row that no store takes.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_held_back
import test_interrupts
import test_sink_positions
import test_sources_again
import test_sources_damaged
import test_unhosted_fluent
import test_unhosted_rebuild
from planted_checks import Plants

import hosting.edges.partition
import hosting.edges.partition_replay
import hosting.edges.sink_writers
import hosting.sources.csv_records
import hosting.sources.lines
import hosting.sources.text_files
import reliable_rx.interrupts
from hosting import FileSource
from hosting.edges.partition import Partition
from hosting.edges.reread import Reread
from hosting.edges.sink_writer import SinkWriter
from hosting.edges.sink_writers import Outlets
from hosting.reports.held_back import HeldBackWatch
from reliable_rx.query.query import Query
from reliable_rx.unhosted.subscribing import LivePickler

Place = Callable[[], Path]
FIELD_BYTES = 200_000


def waits(place: Place) -> None:
    """A clock that stands still because of another input."""
    test_held_back.test_a_source_that_holds_back_the_order_of_event_time_is_named()


def fields(place: Place) -> None:
    """A file whose fields are longer than Python's own limit."""
    before = csv.field_size_limit(131_072)
    try:
        path = place() / "rows.csv"
        path.write_text(f"a,b\n1,{'x' * FIELD_BYTES}\n")
        (row,) = FileSource(path).open(path.name, 0).fetch(10).values
        assert len(row["b"]) == FIELD_BYTES
    finally:
        csv.field_size_limit(before)


def fluent(place: Place) -> None:
    """The methods of RxPY that take something else than its operators."""
    test_unhosted_fluent.test_do_takes_functions_and_an_observer()


def rebuilt(place: Place) -> None:
    """States that hold a value of a class inside a function."""
    test_unhosted_rebuild.test_values_of_local_classes_are_rebuilt()


def ends(place: Place) -> None:
    """Handlers of an error with which a source ends, before a start and behind it."""
    for kind in ("raised", "slots", "too long"):
        test_sources_again.test_an_end_is_the_same_behind_a_start(kind)


def quiet(place: Place) -> None:
    """Readers that have nothing for a while."""
    test_sources_again.test_a_replay_waits_for_a_reader_that_has_nothing_yet("now and then", None, False)


def early(place: Place) -> None:
    """A reader that begins before the id at which it is opened."""
    test_sources_again.test_a_reader_that_finds_its_way_is_not_idle()


def behind(place: Place) -> None:
    """A source that has more behind its end than it had."""
    test_sources_again.test_what_lies_behind_a_journalled_end_is_left_alone("skipped")


def labels(place: Place) -> None:
    """Two sinks of a stream that one function has made."""
    test_sink_positions.test_two_sinks_of_a_stream_have_two_labels("callbacks of one function", False)


def again(place: Place) -> None:
    """A sink that was refused when it was opened, and is opened again."""
    test_sink_positions.test_one_that_failed_goes_on_where_it_was("open", "reopened", 2)


def bad_records(place: Place) -> None:
    """Records that cannot be read, in batches that are cut otherwise behind a kill."""
    test_sources_again.test_a_log_may_be_cut_into_batches_in_any_way("vgbgbgv")


def zips(place: Place) -> None:
    """Zips in bzip2 of which a byte is another one."""
    test_sources_damaged.test_a_damaged_zip(place(), "middle", zipfile.ZIP_BZIP2)


def handlers(place: Place) -> None:
    """A signal's handler that binds its arguments anew."""
    test_interrupts.test_an_interrupt_is_nobodys_failure("at once", "that binds its number anew")


CHECKS: dict[str, Callable[[Place], None]] = {
    "waits": waits, "fields": fields, "fluent": fluent, "rebuilt": rebuilt,
    "ends": ends, "quiet": quiet, "early": early, "behind": behind,
    "labels": labels, "again": again, "bad records": bad_records, "zips": zips, "handlers": handlers,
}  # fmt: skip
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("waits")
def a_clock_that_waits_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldBackWatch, "look", lambda self, now, watermarks, intake: None)


@planted("fields")
def fields_of_a_limited_length(patch: pytest.MonkeyPatch) -> None:
    for each in (hosting.sources.csv_records, hosting.sources.text_files):
        patch.setattr(each, "let_fields_be_long", lambda: None)


@planted("fluent")
def a_method_that_takes_an_observer_only(patch: pytest.MonkeyPatch) -> None:
    def do(self: Any, on_next: Any = None, on_error: Any = None, on_completed: Any = None, *, effects: Any = "") -> Any:
        return self.pipe(reliable_rx.operators.do(on_next))

    patch.setattr(Query, "do", do)


@planted("rebuilt")
def states_of_local_classes_that_are_rebuilt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LivePickler, "persistent_id", lambda self, value: None)


@planted("ends")
def an_error_of_a_source_that_is_another_one_behind_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.partition, "from_store", lambda error: error)


@planted("quiet")
def a_replay_that_takes_one_empty_batch_for_a_loss(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.partition_replay, "QUIET_S", -1.0)


@planted("early")
def a_reader_that_is_idle_while_it_finds_its_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reread, "met", lambda self, first, end, position: None)


@planted("behind")
def an_end_that_moves_when_it_is_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    def replay_end(partition: Partition, end: Any) -> Any:
        partition.fill(1)
        return end[0]

    patch.setattr(hosting.edges.partition_replay, "replay_end", replay_end)


@planted("labels")
def sinks_that_share_a_label(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.sink_writers, "check_label", lambda stream, label, labels: None)


@planted("again")
def a_sink_that_begins_anew_when_it_is_opened_again(patch: pytest.MonkeyPatch) -> None:
    def _go_on(self: Outlets, writer: SinkWriter) -> None:
        self.held = {**self.held, writer.stream: {writer.holder: writer.flushed}}

    patch.setattr(Outlets, "_go_on", _go_on)


@planted("bad records")
def records_in_the_order_in_which_a_batch_has_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.edges.partition, "attrgetter", lambda attr, /, *attrs: lambda each: 0)


@planted("zips")
def an_unpacker_whose_words_are_not_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.sources.lines, "is_damage", lambda error: isinstance(error, EOFError))


@planted("handlers")
def handlers_that_are_known_by_their_arguments_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.interrupts, "_codes_of_handlers", lambda: ())


@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, place)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, place: Place) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](place)
