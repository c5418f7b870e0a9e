"""Mistakes of beginners: each is one sentence with a remedy, as early as it can be known."""

from __future__ import annotations

import os
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from lanes import every_of

from hosting.cli.command import main
from hosting.partitioned.opening import open_group

PROLOGUE = """
from datetime import UTC, datetime, timedelta
import reactivex
from reactivex import operators as rxops
import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import App, CallbackSink, ListSource, QueryEvaluator
from hosting.partitioned.sections import sections_of
from hosting.edges.retention import Retention
from hosting.sinks import SqliteTableSink
from hosting.sources import FileSource
from reliable_rx import Limits, event_time, operators as ops

async def ask(x): return x
def twice(x): yield x; yield x
async def ask2(n, x): ...
class Half:
    def open(self, stream): ...
    def write(self, first, values): ...
    def flush(self): ...
class Async:
    async def open(self, stream): ...
    async def write(self, first, values): ...
    async def flush(self): ...
    async def end(self, n, error): ...
    async def close(self): ...
class Later:
    def __init__(self, x): ...
    def __await__(self): yield
n = rx.source("n")
evaluator = QueryEvaluator(MemoryStore())
app = App()
def create(query, **how):
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("q", query, **how)
def run(query, **how):
    create(query, **how)
    evaluator.run()
    if evaluator.query("q").error:
        raise RuntimeError(evaluator.query("q").error)
"""

REFUSED = "QueryRefused"
MISTAKES: list[tuple[str, str, str]] = [
    # how a query is written
    ('create(n.pipe(ops.debounce("2s")))', REFUSED, "/debounce duetime number of seconds timedelta '2s'"),
    ('create(n.pipe(ops.debounce("2")))', REFUSED, "/debounce number of seconds '2'"),
    ('create(n.pipe(ops.delay(float("nan"))))', REFUSED, "/delay number of seconds nan"),
    ('create(n.pipe(ops.sample("1")))', REFUSED, "/sample number of seconds '1'"),
    ('create(n.pipe(ops.window_with_time("1h"), ops.merge_all()))', "TypeError", "duration seconds timedelta '1h'"),
    ('create(n.pipe(ops.timeout(datetime(2020, 1, 1))))', REFUSED, "time zone tzinfo"),
    ('evaluator.create_many([("q", n)])', "TypeError", "queries given by name create_many"),
    ("create(n.pipe(ops.map(5)))", REFUSED, "query 'q' /map mapper must be a function got 5"),
    ('app.query("q", n.pipe(ops.map(5)))', REFUSED, "query 'q' map cannot work mapper must be a function got 5"),
    ('create(n.where_key("sku", "a"))', REFUSED, "query 'q' /where_key key_mapper must be a function got 'sku'"),
    ('app.query("q", n.pipe(ops.debounce("2s")))', REFUSED, "debounce duetime number of seconds timedelta '2s'"),
    ('app.query("q", n.group_by(len))', REFUSED, "query 'q' /group_by emits groups flat_map(lambda group"),
    ('app.query("q", n.pipe(ops.map(ask)).merge(n))', REFUSED, "map async function map_async"),
    ("create(n.pipe(ops.filter(None)))", REFUSED, "/filter predicate must be a function got None"),
    ('create(n.pipe(ops.scan("+")))', REFUSED, "/scan accumulator must be a function got '+'"),
    ("create(n.pipe(ops.group_by(5), ops.merge_all()))", REFUSED, "/group_by key_mapper must be a function"),
    ("create(n.pipe(ops.map(ask)))", REFUSED, "/map async function map_async"),
    ("create(n.pipe(ops.filter(ask)))", REFUSED, "/filter async function map_async"),
    ("create(n.pipe(ops.flat_map(ask)))", REFUSED, "/flat_map async function map_async"),
    ("create(n.pipe(ops.map(twice)))", REFUSED, "/map generator function return a list"),
    ("create(n.pipe(ops.map(lambda a, b: a)))", REFUSED, "/map one argument <lambda>(a, b)"),
    ("create(n.pipe(ops.map(lambda: 1)))", REFUSED, "/map one argument <lambda>()"),
    ("import functools\n@functools.cache\ndef table(): ...\ncreate(n.pipe(ops.map(functools.partial(table))))", REFUSED,
     "/map one argument table() takes others"),
    ("import threading\n__name__ = '__main__'\nLOCK = threading.Lock()\ncreate(n.map(lambda x: (LOCK, x)))", REFUSED,
     "/map 'LOCK' lock put both into a module that the program imports"),
    ("create(n.map(lambda x, every=(i for i in [1]): every))", REFUSED, "/map generator make it inside the function"),
    ("create(n.pipe(ops.scan(lambda a: a)))", REFUSED, "/scan 2 arguments <lambda>(a)"),
    ("create(n.pipe(ops.map_indexed(lambda x: x)))", REFUSED, "/map_indexed 2 arguments <lambda>(x)"),
    ('create(n.pipe(ops.take("3")))', "TypeError", "count whole number '3'"),
    ("create(n.pipe(ops.skip(None)))", "TypeError", "count whole number None"),
    ("create(n.pipe(ops.take(-1)))", "ArgumentOutOfRangeException", "count 0 or more -1"),
    ('create(n.pipe(ops.buffer_with_count("2")))', "TypeError", "count whole number '2'"),
    ("create(n.pipe(ops.buffer_with_count(0)))", "ArgumentOutOfRangeException", "count 1 or more 0"),
    ('create(n.pipe(ops.retry("3")))', REFUSED, "/retry retry_count whole number '3'"),
    ("create(n.catch(ZeroDivisionError))", "TypeError", "catch sequence ZeroDivisionError on=ZeroDivisionError"),
    ("create(n.pipe(ops.group_by(lambda x: x % 2)))", REFUSED, "/group_by emits groups flat_map"),
    ("create(n.pipe(ops.window_with_count(2), ops.take(1)))", REFUSED, "emits groups or windows flat_map"),
    ("n.pipe(5)", "TypeError", "pipe takes operators got 5"),
    ("create(ops.map(str))", REFUSED, "operator map nothing before it reliable_rx.source"),
    ("create(n.pipe(ops.map))", REFUSED, "operator map not a query arguments"),
    ("n.pipe(ops.merge(5))", "TypeError", "expected an observable got 5"),
    ('n.merge("m")', "TypeError", "expected an observable got the text 'm' reliable_rx.source('m') reliable_rx.of"),
    ("run(n.group_by(lambda x: [x]).flat_map(lambda g: g.count()))", "RuntimeError", "key group_by list tuple"),
    ("run(n.pipe(ops.to_dict(lambda x: [x])))", "RuntimeError", "key to_dict list tuple"),
    ("run(n.map(lambda x: [x]).pipe(ops.to_set()))", "RuntimeError", "element of to_set list tuple"),
    ("create(n.where_key(lambda x: x, [3]))", "TypeError", "key where_key list tuple"),
    (
        "from checkpoint.offsets import MemoryOffsets\n"
        'MemoryOffsets(lambda *_: ("me", 1)).commit("g", {("s", "0"): -1}, {})',
        "ValueError",
        "position -1 id of the next event 0",
    ),
    ("create(reactivex.of(1).pipe(ops.map(str)))", REFUSED, "query 'q' plain reactivex use reliable_rx.from_iterable"),
    ("create(n.pipe(rxops.map(str)))", REFUSED, "query 'q' reactivex reliable_rx.operators.map"),
    ("list(n)", "TypeError", "source('n') iterated to_list()"),
    ("n.subscribe(print)", REFUSED, "host the query bind"),
    ("run(n.pipe(ops.flat_map(lambda x: x)))", "RuntimeError", "observable iterable got 1 use map"),
    ("run(n.flat_map(lambda x: rx.of(x).subscribe(print)))", "RuntimeError", "a subscription without .subscribe(...)"),
    ('rx.sorce("n")', "AttributeError", "no attribute 'sorce' did you mean 'source'?"),
    ("ops.mapp(str)", "AttributeError", "no attribute 'mapp' did you mean 'map'?"),
    ('n["v"]', "TypeError", "indexed by the places of its elements got 'v' .map(lambda each: each['v'])"),
    ("len(n)", "TypeError", "source('n') has no length count()"),
    ("run(rx.interval(-1))", "RuntimeError", "while no time passes a period that is not positive"),
    ('create(n)\nevaluator.restart("q.late")', "KeyError", "'q.late' is a stream beside 'q' name 'q'"),
    ('create(n)\nevaluator.dispose("q.dead_letters")', "KeyError", "'q.dead_letters' is a stream beside 'q' name 'q'"),
    ("run(n.pipe(ops.flat_map(Later)))", "RuntimeError", "Later map_async"),
    ("run(n.pipe(ops.map_async(str)))", "RuntimeError", "coroutine function async def"),
    ('create(n.pipe(ops.tumbling_window("1 min"), ops.merge_all()))', "TypeError", "seconds timedelta '1 min'"),
    ('create(n.pipe(ops.sliding_window(2, "1"), ops.merge_all()))', "TypeError", "duration seconds timedelta '1'"),
    # names and what there is
    ('create(rx.source("m"))\nevaluator.start()', REFUSED, "'q' reads 'm' no source"),
    ('evaluator.source("orders", ListSource([]))\nevaluator.create("q", rx.source("order"))\nevaluator.start()',
     REFUSED, "did you mean 'orders'?"),
    ('evaluator.query("x")', "KeyError", "no query is called 'x'"),
    ('evaluator.stream("x")', "KeyError", "no stream is called 'x'"),
    ('evaluator.source("m", ListSource([1]))\nevaluator.create("m", n)', "ValueError", "the name 'm' is taken"),
    ('rx.source("")', "ValueError", "empty"),
    ('rx.source("n", [1, 2])', "TypeError", "rx.source only names an input app.source('n', ListSource([...]))"),
    ('FileSource("n.csv", types={"a": "int"})', "TypeError", "column 'a' a function int 'int'"),
    ('FileSource("n.csv", types=[int])', "TypeError", "types a function per column"),
    # what an evaluator is given
    ('evaluator.source("n", [1, 2])', "TypeError", "'n' [1, 2] partitions ListSource([...])"),
    ('evaluator.source("n", ListSource)', "TypeError", "'n' ListSource partitions"),
    ('app.source("n", [1, 2])', "TypeError", "'n' [1, 2] ListSource([...])"),
    ('app.source("n", 5)', "TypeError", "'n' 5 partitions"),
    ('app.query("q", [1])', REFUSED, "'q' is list not a query reliable_rx.source"),
    ('app.query("q", n)\napp.sink("q", 5)', "TypeError", "sink of 'q' 5 JsonLinesSink"),
    ('app.query("orders", n)\napp.sink("order", CallbackSink(print))', "KeyError", "did you mean 'orders'?"),
    ('evaluator.sink("q", print)', "TypeError", "sink of 'q' print CallbackSink(function)"),
    ('QueryEvaluator("x.store")', "TypeError", "store SqliteStore('x.store')"),
    ("QueryEvaluator(None)", "TypeError", "store got None SqliteStore"),
    ('app.evaluator("x.store")', "TypeError", "store SqliteStore('x.store')"),
    ('evaluator.create("q", "n")', REFUSED, "'q' is str not a query reliable_rx.source"),
    ('evaluator.create("q", n, policy="ignore")', "ValueError", "policy 'q' fail skip dead_letter 'ignore'"),
    ('evaluator.create("q", n, limits=5)', "TypeError", "limits of 'q' Limits(...) got 5"),
    ('evaluator.create("q", n, clock=5)', "TypeError", "clock event_time got 5"),
    ("App(checkpoint_intervall_s=3)", "TypeError", "'checkpoint_intervall_s' did you mean 'checkpoint_interval_s'?"),
    ('QueryEvaluator(MemoryStore(), checkpoint_interval_s="3")', "TypeError", "checkpoint_interval_s number '3'"),
    ("QueryEvaluator(MemoryStore(), batch_events_max=0)", "ValueError", "batch_events_max positive 0"),
    ("App(checkpoint_interval_s=-1)", "ValueError", "checkpoint_interval_s 0 or more -1"),
    ('App(retention="7d")', "TypeError", "retention Retention(streams=100, age_s=3600.0) '7d'"),
    ("App(retention=7)", "TypeError", "retention Retention( 7"),
    ('App(delivery="once")', "ValueError", "delivery exactly_once at_least_once 'once'"),
    ('App(retain_events="all")', "TypeError", "retain_events number 'all'"),
    ('App(idle_s="1s")', "TypeError", "idle_s number '1s'"),
    ("Retention(streams=-1)", "ValueError", "streams 0 or more -1"),
    ('Retention(age_s="7d")', "TypeError", "age_s number '7d'"),
    ("QueryEvaluator(MemoryStore(), clock=5.0)", "TypeError", "clock function seconds 5.0"),
    ("QueryEvaluator(MemoryStore(), clock=datetime.now).start()", "TypeError", "seconds time.time datetime"),
    ('SqliteTableSink("x.db", "t", columns=["a", "a"])', "ValueError", "repeat a name columns="),
    ('event_time("ts")', "TypeError", "timestamp is a function 'ts'"),
    ('event_time(float, lateness_s="5")', "TypeError", "lateness_s number of seconds '5'"),
    ("event_time(float, lateness_s=-1.0)", "ValueError", "lateness_s zero or more -1.0"),
    ("run(n, clock=event_time(lambda x: datetime(2020, 1, 1)))", "RuntimeError", "no time zone tzinfo"),
    ('run(n, clock=event_time(lambda x: "2020"))', "RuntimeError", "number of seconds datetime '2020' parse"),
    ("run(n, clock=event_time(lambda x: datetime(2020, 1, 1).date()))", "RuntimeError",
     "the time of an event is number of seconds got datetime.date zone datetime.combine"),
    ("import numpy\nrun(n, clock=event_time(lambda x: numpy.datetime64('2020', 'ns')))", "RuntimeError",
     "number of seconds got numpy.datetime64 timedelta64(1, 's')"),
    ("run(n, clock=event_time(lambda x: [x]))", "RuntimeError", "number of seconds got [1]: convert it"),
    ("event_time(lambda: 1.0)", "TypeError", "timestamp (value) <lambda>() takes others"),
    ('event_time({"n": lambda a, b: 1.0})', "TypeError", "timestamp (value) <lambda>(a, b) takes others"),
    ("run(n, clock=event_time(lambda x: None))", "RuntimeError", "the time of an event is number of seconds got None"),
    ('CallbackSink("x")', "TypeError", "on_next called with (id, value) got 'x'"),
    ("CallbackSink(lambda v: v)", "TypeError", "on_next (id, value) <lambda>(v)"),
    ("CallbackSink(print, lambda: 1)", "TypeError", "on_end (id, error) <lambda>()"),
    ("CallbackSink(print, on_dead_letter=5)", "TypeError", "on_dead_letter (letter) 5"),
    ('app.query("q", n, policy="retry")', "ValueError", "policy 'q' fail skip dead_letter 'retry'"),
    ('app.query("q", n, limits=5)', "TypeError", "limits 'q' Limits(...) 5"),
    ('open("a.py", "w").close()\nSqliteStore("a.py")', "CheckpointRefused", "a.py is a file give a folder"),
    ('open("a.py", "w").close()\nSqliteStore("a.py/s")', "CheckpointRefused", "a.py is a file give a folder"),
    ('s = SqliteTableSink("x.db", "t", columns=["valeu"])\ns.open("q")\ns.write(0, [{"time": 1, "value": 2}])',
     "ValueRefused", "'valeu' value has time, value did you mean 'value'?"),
    # a keyword that is another's, or none
    ('create(n, on_error="skip")', "TypeError", "create 'on_error' a sink here policy, fail, skip"),
    ('app.query("q", n, on_bad_record="skip")', "TypeError", "'on_bad_record' a source (FileSource here policy, fail"),
    ('evaluator.sink("q", CallbackSink(print), policy="skip")', "TypeError", "'policy' a query here on_error, fail"),
    ('evaluator.source("n", ListSource([1]), on_bad_record="skip")', "TypeError", "'on_bad_record' FileSource there"),
    ('evaluator.push("n", policy="skip")', "TypeError", "'policy' a query here on_bad_record, fail"),
    ('event_time(float, policy="skip")', "TypeError", "'policy' a query here late, drop, keep, side"),
    ('event_time(float, lateness=5)', "TypeError", "'lateness' did you mean 'lateness_s'? takes timestamp"),
    ('create(n, polcy="skip")', "TypeError", "create 'polcy' did you mean 'policy'? takes name, query"),
    ('QueryEvaluator(MemoryStore(), checkpoint_interval=5)', "TypeError", "did you mean 'checkpoint_interval_s'?"),
    ('event_time(float, late="skip")', "ValueError", "late drop, keep, side 'skip'"),
    ('create(n)\nevaluator.sink("q", CallbackSink(print), on_error="raise")', "ValueError", "'q' fail, skip 'raise'"),
    ('evaluator.push("p", on_bad_record="raise")', "ValueError", "on_bad_record fail, skip, dead_letter 'raise'"),
    ('app.query("q", n, scope="every")', "ValueError", "scope 'q' partition, all 'every'"),
    # the wrong order, and what is no source, no sink, no observer
    ('evaluator.create(n, "q")', "TypeError", "a query is named by a string Query the name comes first"),
    ('evaluator.source(ListSource([1]), "n")', "TypeError", "a source is named by string ListSource name comes first"),
    ('evaluator.sink(CallbackSink(print), "q")', "TypeError", "a stream is named CallbackSink the name comes first"),
    ('evaluator.source("n", (i for i in range(3)))', "TypeError", "'n' generator ListSource(list(...)) read again"),
    ('evaluator.source("n", "data.csv")', "TypeError", "'n' 'data.csv' FileSource('data.csv')"),
    ('evaluator.source("n", {"a": [1]})', "TypeError", "'n' {'a': [1]} ListSource"),
    ('evaluator.source("n", reactivex.of(1))', "TypeError", "'n' evaluator.push(name) observable"),
    ('ListSource("data.csv")', "TypeError", "letters 'data.csv' a list FileSource(path)"),
    ('evaluator.source("n", ListSource([1], timestamp="ts"))', "TypeError", "timestamp 'n' (value) got 'ts' function"),
    ('evaluator.source("n", ListSource([1], timestamp=lambda: 1))', "TypeError", "timestamp 'n' (value) <lambda>()"),
    ('evaluator.source("n", ListSource([1], timestamp=ask))', "TypeError", "timestamp 'n' async plain function"),
    ('evaluator.source("n", ListSource([1], timestamp=str))\nevaluator.create("q", n)\nevaluator.run()',
     "SourceFailed", "time of id 0 number of seconds '1' float"),
    ('evaluator.source("n", ListSource([1], timestamp=lambda x: datetime(2020, 1, 1)))\nevaluator.create("q", n)\n'
     "evaluator.run()", "SourceFailed", "number of seconds datetime zone replace(tzinfo=timezone.utc) timestamp()"),
    ('evaluator.source("n", ListSource([1], timestamp=lambda x: datetime(2020, 1, 1, tzinfo=UTC)))\n'
     'evaluator.create("q", n)\nevaluator.run()', "SourceFailed", "number of seconds datetime return time.timestamp()"),
    ('run(n.map(float), clock=event_time(lambda x: datetime(2020, 1, 1)))',
     "RuntimeError", "no time zone replace(tzinfo=timezone.utc)"),
    ('evaluator.sink("q", CallbackSink)', "TypeError", "'q' CallbackSink(...), an instance"),
    ('evaluator.sink("q", "out.jsonl")', "TypeError", "'q' JsonLinesSink('out.jsonl')"),
    ('evaluator.sink("q", Half())', "TypeError", "sink of 'q' no method end(id, error) give it one"),
    ('evaluator.sink("q", Async())', "TypeError", "open sink of 'q' (stream) async plain function"),
    ('CallbackSink(ask2)', "TypeError", "on_next (id, value) async plain function"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").subscribe(print)',
     "TypeError", "observer on_next(id, value) print stream.observable(0).subscribe(...)"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").subscribe(reactivex.Observer(print))',
     "TypeError", "observer on_next(id, value) Observer stream.observable(0).subscribe(...)"),
    # what is asked of an evaluator and its streams
    ('create(n)\nevaluator.run(until=5)', "TypeError", "until got 5 give a function"),
    ('create(n)\nevaluator.run(until=lambda e: True)', "TypeError", "until () <lambda>(e) correct"),
    ('create(n)\nevaluator.stream("n")', "KeyError", "'n' a source streams queries q"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").read("0", 5)', "TypeError", "start whole number '0'"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").read(0, -5)', "ArgumentOutOfRangeException", "count_max 0 -5"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").read(0, None)', "TypeError", "count_max whole number None"),
    ('evaluator.dispose(n)', "KeyError", "no query is called source('n')"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").read()', "TypeError", "read without start and count_max write"),
    ('create(n)\nevaluator.run()\nevaluator.stream("q").read(0)', "TypeError", "without count_max write read(start,"),
    ('create(n)\nevaluator.run()\nfor v in evaluator.stream("q"): print(v)',
     "TypeError", "stream 'q' iterated over for part in stream.read(0, 100): part.values"),
    ('evaluator.create("q")', "TypeError", "create without query write create(name, query)"),
    ("app.query(query=n)", "TypeError", "query without name write query(name, query)"),
    ("app.run()", "AttributeError", "an app only declares run: write app.evaluator(store).run(...) reliable-rx run"),
    ('app.create("q", n)', "AttributeError", "an app only declares create app.evaluator(store).create(...)"),
    # other habits
    ('from reactivex.subject import Subject\ncreate(n.pipe(ops.merge(Subject())))',
     REFUSED, "/merge Subject reliable_rx.source(...) push durable stream"),
    ("create(n.map)", REFUSED, "'q' method map not called .map(...)"),
    ('SqliteStore("postgresql://host/db")', "CheckpointRefused", "address of a database folder PostgresStore"),
    ('import pandas\nListSource(pandas.DataFrame({"a": [1]}))', "TypeError", "DataFrame df.to_dict('records')"),
    ('import pandas\nevaluator.source("n", pandas.DataFrame({"a": [1]}))', "TypeError",
     "'n' ListSource(df.to_dict('records'))"),
    ('import pandas\nListSource(pandas.Series([1]))', "TypeError", "Series array.tolist()"),
    ('SqliteStore("a\\0b")', "CheckpointRefused", "'a\\x00b' cannot name a folder"),
    ('SqliteStore("\\ud800")', "CheckpointRefused", "'\\ud800' cannot name a folder"),
    ("import numpy\nListSource(numpy.arange(3))", "TypeError", "ndarray array.tolist()"),
    ('app.query("q", n)\napp.sink("q", print)\napp.source("n", ListSource([1]))\napp.evaluator(MemoryStore())',
     "TypeError", "sink of 'q' None let function return a sink CallbackSink(function)"),
    ('Limits(groups_max="5")', "TypeError", "groups_max whole number '5'"),
    ("Limits(groups_max=-1)", "ValueError", "groups_max 0 or more -1"),
    ('create(n.pipe(ops.map_async(ask, timeout_s="2")))', "TypeError", "timeout_s number '2'"),
    ("app.feed(5)", "TypeError", "feed (evaluator) got 5 give a function"),
    ("app.feed(lambda: None)", "TypeError", "feed (evaluator) <lambda>() correct the function"),
    ("app.feed(ask)", "TypeError", "feed (evaluator) async plain function"),
    # nodes
    ('app.source("n", ListSource([1]))\napp.query("q", n)\napp.sink("q", CallbackSink(print))\nsections_of(app)',
     REFUSED, "sink of 'q' CallbackSink function of its place lambda place: CallbackSink(...)"),
    ('app.source("n", ListSource([1]))\napp.query("q", n)\napp.sink("q", lambda place: print(place.partition))\n'
     "app.evaluator(MemoryStore())", REFUSED, "sink of 'q' needs place reliable-rx node"),
    # pushed inputs
    ('evaluator.push("p").push({"a": 1})', "TypeError", "push list {'a': 1} on_next(value) pushes one value"),
    ('evaluator.push("p").push("abc")', "TypeError", "push list 'abc' on_next(value) pushes one value"),
    ('evaluator.push("p").push(b"abc")', "TypeError", "push list b'abc' on_next(value)"),
    ('evaluator.push("p").push(5)', "TypeError", "push list 5 on_next(value)"),
    ('p = evaluator.push("p")\np.on_completed()\np.on_next(5)', "TooLate", "'p' ended on_completed()"),
    ('p = evaluator.push("p")\np.on_error(ValueError("x"))\np.push([5])', "TooLate", "'p' ended on_error()"),
    ('p = evaluator.push("p")\np.on_completed()\np.on_error(ValueError("x"))', "TooLate", "'p' ended"),
    ('store = MemoryStore()\nwith QueryEvaluator(store) as e: e.push("p").on_completed()\n'
     'with QueryEvaluator(store) as e: e.push("p").on_next(5)', "TooLate", "'p' ended"),
    ('evaluator.push("p").on_error("boom")', "TypeError", "on_error exception 'boom' RuntimeError('why')"),
    ('evaluator.push("p").on_error(ValueError)', "TypeError", "on_error exception ValueError RuntimeError('why')"),
    # when it is asked
    ('evaluator.start()\nevaluator.source("n", ListSource([1]))', "TooLate", "'n' has started before the start"),
    ('evaluator.start()\nevaluator.push("n")', "TooLate", "'n' has started before the start"),
    ('evaluator.close()\nevaluator.create("q", n)', "TooLate", "closed make another one"),
    ('evaluator.close()\nevaluator.run()', "TooLate", "closed make another one"),
    ('store = SqliteStore("s")\nSqliteStore("s")', "StoreOwned", "this very process PID close notebook kernel"),
]  # fmt: skip
"""What somebody writes, the error it ends in, and words that its one sentence has, in this order."""


@pytest.mark.parametrize("program, kind, words", every_of(5, MISTAKES))
def test_a_mistake_is_one_sentence(
    program: str, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake raises at the line where it is made, says which part is wrong, and what to write."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    exec(PROLOGUE, space)
    with pytest.raises(Exception) as raised:
        exec(dedent(program), space)
    assert type(raised.value).__name__ == kind, raised.value
    message = str(raised.value)
    words = words.replace("PID", str(os.getpid()))
    assert all(re.escape(word) and word in message for word in words.split()), message
    assert "\n" not in message and len(message) < 400
    for each in (space["evaluator"], space.get("store", space["evaluator"])):
        each.close()


WORKS = [
    "create(n.pipe(ops.tumbling_window(timedelta(minutes=1)), ops.merge_all()))",
    "CallbackSink({}.__setitem__), CallbackSink(print)",
    'p = evaluator.push("p")\np.push(range(3))\np.push({1, 2})\np.on_next("abc")\np.on_completed()\np.on_completed()',
    "run(rx.of(1, 2))",
    "run(n.pipe(ops.delay(-1.0)))",
    "run(n.pipe(ops.throttle_first(True)))",
    "run(n.pipe(ops.map(print)))",
    "run(n.pipe(ops.map(lambda *a: a)))",
    "run(n.pipe(ops.debounce(timedelta(seconds=0))))",
    "run(n.pipe(ops.group_by(lambda x: x), ops.map(lambda g: g.key)))",
    "run(n.pipe(ops.map_async(ask)))",
    "create(n)\nevaluator.run()\nevaluator.run()",
    'create(n)\nevaluator.run()\nevaluator.create("p", n)',
]


@pytest.mark.parametrize("program", WORKS)
def test_what_works_is_not_refused(program: str) -> None:
    """What RxPY takes and a host can run is taken, also where it is odd."""
    space: dict[str, Any] = {}
    exec(PROLOGUE, space)
    exec(program, space)
    space["evaluator"].close()


EMITTED = {
    "n.pipe(ops.scan(lambda acc, x: acc.append(x) or acc, []))": "changes it let the function return a new one",
    "n.pipe(ops.map(Later))": "Later map_async",
    "n.pipe(ops.map(lambda x: (y for y in [x])))": "generator list",
    "n.pipe(ops.map(lambda x: rx.of(x)))": "query flat_map for map",
    "n.pipe(ops.group_by(lambda x: x), ops.map(lambda g: g))": "group or window flat_map for map",
    "n.pipe(ops.group_by(lambda x: x), ops.map(lambda g: (g.key, g)))": "window inside a tuple flat_map for map",
    "n.pipe(ops.group_by(lambda x: x), ops.scan(lambda all, g: [*all, g], []))": "window inside a list flat_map",
    "n.pipe(ops.window_with_count(2), ops.map(lambda w: {'w': w.sum()}))": "query inside a dict flat_map for map",
    "n.pipe(ops.map(lambda x: [Later(x)]))": "Later inside a list map_async",
}


@pytest.mark.parametrize("query", EMITTED)
def test_what_is_emitted_by_mistake_is_seen(query: str, caplog: pytest.LogCaptureFixture) -> None:
    """What changes, and what nobody awaits or subscribes to, also within a container, is told at a checkpoint."""
    space: dict[str, Any] = {}
    exec(PROLOGUE, space)
    exec(f"create({query})\nevaluator.run()\nevaluator.checkpoint()", space)
    (incident,) = [each for each in space["evaluator"].incidents.open() if each.kind == "emitted"]
    assert incident.subject == "q"
    assert all(word in incident.message for word in EMITTED[query].split())
    assert incident.message in caplog.text
    space["evaluator"].close()


def test_a_new_list_each_time_is_no_mistake() -> None:
    """Equal lists, one and the same tuple again and again, and containers of plain data are emitted without a word."""
    plain = "n.pipe(ops.map(lambda x: {'a': [x, (x,)], 'b': {x}, 'c': None}))"
    for query in ("n.pipe(ops.map(lambda x: []))", "n.pipe(ops.map(lambda x: ()))", plain):
        space: dict[str, Any] = {}
        exec(PROLOGUE, space)
        exec(f"create({query})\nevaluator.run()\nevaluator.checkpoint()", space)
        assert space["evaluator"].incidents.open() == ()
        space["evaluator"].close()


COMMANDS = {
    "run": "MODULE:APP",
    "run nowhere:app": "no module 'nowhere'",
    "run a.py:b": "no file a.py",
    "inspect postgresql://127.0.0.1:1/x": "127.0.0.1:1/x refused",
    "tail postgresql://127.0.0.1:1/x?y=1 q": "address of a PostgreSQL database query parameter",
    "holders here --name x": "--name here is a folder",
    "inspect nowhere": "nowhere",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_that_is_wrong(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that cannot work says so in a sentence, and makes no folder of an address."""
    monkeypatch.chdir(tmp_path)
    try:
        code = main(line.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code != 0
    said = capsys.readouterr().err
    assert all(word in said for word in COMMANDS[line].split()), said
    assert list(tmp_path.iterdir()) == []


def test_run_makes_no_store_where_a_group_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The folder that nodes share is not taken for the store of one process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lonely_app.py").write_text("from hosting import App\napp = App()\n")
    open_group("shared", "g").close()
    before = sorted(Path("shared").iterdir())
    assert main(["run", "lonely_app.py:app", "--store", "shared"]) != 0
    assert "shared is shared by a group of nodes" in capsys.readouterr().err
    assert sorted(Path("shared").iterdir()) == before
