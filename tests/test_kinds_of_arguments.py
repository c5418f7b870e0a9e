"""What a sink or a source is wrongly given is refused when it is made, by the name of the argument."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lanes import every_of

import hosting
import hosting.sinks
import hosting.sources
import spark_bridge
from checkpoint import MemoryStore
from hosting import (
    CallbackSink,
    FileSource,
    GeneratorSource,
    JsonLinesSink,
    ListSource,
    SharedSource,
    SqliteTableSink,
    StoredStreamSource,
)
from hosting.sources import FaultySource, KafkaSource
from reliable_rx.errors import ReliableRxError
from spark_bridge import MicroBatchSink, MicroBatchSource

GIVEN: dict[Any, dict[str, Any]] = {
    CallbackSink: {"on_next": print},
    FileSource: {"paths": __file__, "format": "csv"},
    GeneratorSource: {"function": lambda n, random: n},
    JsonLinesSink: {"path": "out.jsonl"},
    ListSource: {"values": [1]},
    SharedSource: {"source": ListSource([1])},
    SqliteTableSink: {"path": "out.db", "table": "t"},
    StoredStreamSource: {"store": MemoryStore(), "name": "q", "subscriber": "s"},
    FaultySource: {"source": ListSource([1]), "faults": []},
    KafkaSource: {"topic": "t", "bootstrap_servers": "localhost:1"},
    MicroBatchSink: {"path": "log", "schema": "a int"},
    MicroBatchSource: {"path": "log"},
}
"""What each needs; a class that is not here is reported by a test."""
TAKEN_LATER = {
    (SharedSource, "source"),
    (FaultySource, "source"),
    (StoredStreamSource, "store"),
    (MicroBatchSink, "schema"),
}
"""Protocols, and what Spark looks at. A `timestamp` is looked at where the source is declared, and so has a name."""
MADE_ELSEWHERE = {"StreamSource"}
WRONG: dict[str, Any] = {
    "object": object(),
    "words": {"n": "INTEGER"},
    "list": ["INTEGER", 5],
    "complex": 2.5j,
    "eight": lambda a, b, c, d, e, f, g, h: None,
}


def constructors() -> Iterator[Any]:
    for module in (hosting, hosting.sinks, hosting.sources, spark_bridge):
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind) and name.endswith(("Sink", "Source")) and not getattr(kind, "_is_protocol", False):
                yield kind


KINDS = sorted({each for each in constructors() if each.__name__ not in MADE_ELSEWHERE}, key=lambda each: each.__name__)


def parameters() -> Iterator[tuple[Any, str]]:
    for kind in KINDS:
        names = [name for name in inspect.signature(kind).parameters if name != "timestamp"]
        yield from ((kind, name) for name in names if (kind, name) not in TAKEN_LATER)


def test_every_kind_is_looked_at() -> None:
    """A new sink or source is added here."""
    assert {each for each in KINDS if each not in GIVEN} == set()


@pytest.mark.parametrize(
    "kind, name, what",
    every_of(4, ((*each, what) for each in parameters() for what in WRONG)),
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_wrong_kind_is_refused_at_once(
    kind: Any, name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is made, and the sentence names the argument."""
    monkeypatch.chdir(tmp_path)
    wrong = WRONG[what]
    if may_be_right(kind, name, wrong):
        return
    with pytest.raises((TypeError, ValueError, ReliableRxError)) as caught:
        kind(**{**GIVEN[kind], name: wrong})
    assert name.removesuffix("s") in str(caught.value) or "give a list" in str(caught.value), repr(caught.value)
    assert not list(tmp_path.iterdir())


def may_be_right(kind: Any, name: str, wrong: Any) -> bool:
    """Whether it is of the right kind by chance."""
    declared = str(inspect.signature(kind).parameters[name].annotation)
    if declared == "Any" or (isinstance(wrong, list) and "Iterable" in declared):
        return True
    if name == "values" and kind is ListSource:
        return isinstance(wrong, (list, dict))
    return name == "settings" and isinstance(wrong, dict)


ASKED: list[tuple[Any, dict[str, Any], str]] = [
    (SqliteTableSink, {"columns": {"n": "INTEGER"}}, "'n' of columns must be a function, got 'INTEGER'"),
    (SqliteTableSink, {"columns": "price"}, "columns must be .* or None, got 'price'"),
    (FileSource, {"columns": "price"}, "columns must be a list of str or None, got 'price'"),
    (FileSource, {"parse": lambda: 0.0}, "parse is called with"),
    (FileSource, {"follow": "no"}, "follow must be True or False, got 'no'"),
    (FileSource, {"format": "xml"}, "format must be one of csv, jsonl, parquet, got 'xml'"),
    (KafkaSource, {"wait_s": "1 s"}, "wait_s must be a number, got '1 s'"),
    (GeneratorSource, {"faults": [5]}, "an element of faults must be a Stall or .*, got 5"),
]


@pytest.mark.parametrize("kind, options, words", ASKED, ids=[words for _, _, words in ASKED])
def test_what_is_said(kind: Any, options: dict[str, Any], words: str) -> None:
    """What is wanted, and what was given."""
    with pytest.raises((TypeError, ValueError), match=words):
        kind(**{**GIVEN[kind], **options})
