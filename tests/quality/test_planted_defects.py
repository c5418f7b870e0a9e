"""Which planted bug stands for which defect that was there once: a table, and that what it names exists.

The generic check that finds each is named beside the bug, in its own file. Defects below `BY_TEST` have none that a
check in this process could find (they need another interpreter, a process, a group); the test that plays them is named.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from planted_checks import Plants
from planting import Planting, StalePlant

HERE = Path(__file__).parent
PLANTED = {
    # stores outlive code
    "an edit of a helper behind a kill is no non-determinism": "functions_stored_by_name",
    "a query's identity covers the helpers it reaches": "helpers_that_do_not_count",
    "the old object with a mended helper was no edit": "a_plan_that_is_known_is_what_it_was",
    "a helper defined anew ran without a turn": "names_that_nobody_watches",
    "helpers go by value": "helpers_stored_by_name",
    "the edit report says what is kept": "a_report_that_leaves_out_what_is_kept",
    # poison
    "an exception that does not unpickle": "errors_pickled_as_they_are",
    "a state that does not pickle stops all queries": "a_row_that_cannot_be_written_stops_the_checkpoint",
    "rows taken off the list before they are encoded": "rows_lost_with_a_checkpoint_that_is_given_up",
    "a state that cannot be read": "a_row_that_cannot_be_read_stops_the_start",
    "a value that does not pickle": "a_value_that_cannot_be_stored_stops_the_checkpoint",
    "a create that raises and stays": "a_query_created_that_cannot_be_stored",
    "a value that a sink cannot write": "a_sink_that_stops_the_evaluator",
    "digests of errors' text": "the_text_of_an_error_in_the_digest",
    "digests of the text of errors in values": "the_text_of_an_error_in_a_value_in_the_digest",
    "SystemExit in a function": "an_exit_that_goes_through",
    "Ctrl-C taken for a query's error": "an_interrupt_taken_for_the_error_of_a_query",
    "KeyboardInterrupt raised by a value": "what_a_value_raises_taken_for_an_interrupt",
    "a row left half done": "an_error_of_a_row_half_done_that_nobody_hears",
    "readers of a lost query": "readers_of_what_is_lost_go_on",
    # policies
    "a handler that raises completes its query": "a_handler_that_raises_is_skipped",
    "do_action behind a map makes skip fail": "what_hears_an_error_catches_it",
    "zip pairs wrongly after a skipped event": "branches_that_nobody_looks_at",
    "a zip that a selector makes": "made_branches_that_nobody_looks_at",
    "buffer_when never closes again": "a_list_that_never_closes",
    "an element kept for what was not opened": "what_was_set_stays",
    "concat_map out of order behind what cannot begin": "a_queue_that_stops",
    # silence
    "a clock that was ahead once": "a_clock_that_was_ahead_once_and_stops",
    "holders that are gone": "a_reader_that_is_closed_and_not_missed",
    "disposed subscribers": "a_subscription_that_is_disposed_of_and_holds_on",
    "sinks removed from the app": "a_sink_of_old_that_is_waited_for",
    "a stall that says nobody": "a_stall_that_names_nobody",
    "streams of disposed queries": "streams_of_queries_that_are_gone",
    "names of disposed queries": "names_that_are_never_packed",
    "good output cut off": "all_taken_for_torn",
    "a reader that skips ids": "a_reader_that_counts_places_in_a_list_that_is_cut",
    "statistics that wait for a turn": "a_look_that_waits_for_the_turn",
    "dispose tells readers nothing": "a_disposal_that_nobody_is_told_of",
    "a log that cannot be read ends the run": "a_log_that_cannot_be_read_ends_the_run",
    "two evaluators on one store": "a_store_for_all_who_come",
    "damaged cells": "cells_taken_for_what_they_should_be",
    "a byte order mark": "a_byte_order_mark_as_text",
    "deep JSON": "what_nests_deeply_judged_by_the_stack_it_meets",
    "a bad record ends every query": "a_bad_record_without_a_number",
    # seen
    "a query that fails unseen": "a_query_whose_failure_is_told_to_nobody",
    "a full disk unseen": "a_disk_that_fails_unheard",
    "a checkpoint that fails unseen": "a_checkpoint_that_fails_unheard",
    # refused early
    "names that no store can hold": "names_that_are_taken_as_they_are",
    "cycles by an edit": "rings_that_nobody_looks_for",
    "a pipe of 400 operators": "queries_of_any_size",
    "mistakes of beginners": "durations_that_are_read_when_they_are_needed",
    "source, push and sink after the start": "declarations_that_come_too_late",
    "a clock that waits unseen": "a_clock_that_waits_unseen",
    # inputs
    "CSV fields over 128 kB": "fields_of_a_limited_length",
    "methods of a source that raise": "errors_of_sources_as_they_are",
    "a source that stands still": "a_reader_that_may_stand_still",
    # whose error
    "ends that timers tell": "an_end_that_is_taken_for_a_fault_of_its_own",
    "errors of a whole turn": "errors_of_a_whole_turn",
    "ends that hold their frames": "frames_that_are_kept",
    # RxPY
    "the fluent do": "a_method_that_takes_an_observer_only",
    "states with values of local classes": "states_of_local_classes_that_are_rebuilt",
    # checks
    "the collector stays off": "a_checkpoint_that_never_lets_the_collector_go",
}
BY_TEST = {
    "byte code of another interpreter": "test_interpreters::test_each_interpreter_goes_on_after_a_clean_stop",
    "the lock file deleted": "test_store_owner::test_no_second_owner_is_written_over",
    "a forked child that pushes": "test_store_owner::test_a_forked_child_writes_nothing",
    "a sink that is away unseen": "test_visibility::test_a_fault_is_seen_everywhere",
    "the folder deleted": "test_store_owner::test_what_is_called_durable_is_found",
    "odd Parquet": "test_sources_parquet::test_a_row_group_that_cannot_be_read",
    "rows over a gigabyte": "test_row_bounds::test_a_value_that_is_too_long_is_its_querys",
    "a failing partition shown as open": "test_failing::test_a_failing_partition_is_seen_everywhere",
    "a failed listing": "test_versions::test_a_failed_listing_is_unknown_not_empty",
    "a file that has grown": "test_visibility::test_a_fault_is_seen_everywhere",
    "a node that meets what its app does not have": "test_versions::test_partitions_go_to_nodes_that_know_them",
    "agents that end abnormally": "test_agents_end::test_a_node_that_ends_by_an_error",
    "blobs behind an unkeyed checksum": "test_spark_seals::test_with_a_key_nothing_forged_is_unpickled",
    "methods of the evaluator in every state": "test_every_method::test_every_method_in_every_state",
    "those of sources, sinks and nodes": "test_every_method_elsewhere::test_every_method_in_every_state",
    "hostile queries under real kills": "test_kill_hostile::test_healthy_queries_among_hostile_ones",
}


def claims(test: str) -> bool:
    """Whether there is a test of that name that says what it claims."""
    file, _, name = test.partition("::")
    (path,) = HERE.parent.rglob(f"{file}.py")
    found = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef)]
    return any(each.name == name and bool(ast.get_docstring(each)) and len(each.body) > 1 for each in found)


def test_each_defect_has_its_twin() -> None:
    """What the table names is planted, and what it leaves to a test has that test."""
    texts = "".join(path.read_text() for path in HERE.glob("test_planted_*.py"))
    planted = set(re.findall(r"@planted\(.*\)\ndef (\w+)", texts))
    assert set(PLANTED.values()) - planted == set()
    assert [test for test in BY_TEST.values() if not claims(test)] == []


@pytest.mark.parametrize("file", sorted(path.stem for path in HERE.glob("test_planted_*.py") if path != Path(__file__)))
def test_each_plant_fits(file: str) -> None:
    """Each takes what it replaces takes, whether or not its turn has come in this lane."""
    planted: Plants = importlib.import_module(file).planted
    for name in planted.bugs:
        with pytest.MonkeyPatch.context() as patch:
            planted.plant(name, patch)


class Original:
    """What plants go in the place of."""

    limit = 3

    def take(self, n: int, *, late: bool = False) -> int:
        """Take some."""
        return n

    @staticmethod
    def free(n: int) -> int:
        """Free some."""
        return n


STALE = {
    "one less": ("take", lambda self, *, late=False: 0),
    "one more": ("take", lambda self, n, more, *, late=False: 0),
    "another name": ("take", lambda self, count, *, late=False: 0),
    "another kind": ("take", lambda self, n, late=False: 0),
    "another order": ("take", lambda n, self, *, late=False: 0),
    "what may be left out must be given": ("take", lambda self, n, *, late: 0),
    "others by name only": ("take", lambda self, **named: 0),
    "no static method": ("free", lambda n: 0),
}
FITTING = {
    "the same": ("take", lambda self, n, *, late=True: 0),
    "anything": ("take", lambda *args, **named: 0),
    "anything more": ("take", lambda self, n, **named: 0),
    "a static method": ("free", staticmethod(lambda n: 0)),
    "no function": ("limit", 5),
    "a property": ("limit", property(lambda self: 5)),
}


@pytest.mark.parametrize("name", STALE)
def test_a_stale_plant_raises_when_it_is_planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not anything calls it, and in one sentence that says what the original takes."""
    with pytest.raises(StalePlant, match=r"takes .*\(.*\), and its plant .*\(.*\): give it the same$"):
        Planting(monkeypatch).setattr(Original, *STALE[name])


@pytest.mark.parametrize("name", FITTING)
def test_a_plant_that_fits_is_planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes the same, or anything, or is no function."""
    attribute, plant = FITTING[name]
    Planting(monkeypatch).setattr(Original, attribute, plant)
    assert vars(Original)[attribute] is plant
