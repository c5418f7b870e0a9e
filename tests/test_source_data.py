"""What a source's functions name may differ at each start: an unchanged app starts behind a kill, and is told of it.

Code that differs is refused (`tests/test_source_edits.py`); of data the outputs of the replay decide.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, QueryEvaluator
from hosting.sources import fingerprint
from reliable_rx.errors import NondeterminismDetected

OPTIONS: dict[str, Any] = {"background": False, "checkpoint_interval_s": 1e9, "batch_events_max": 2}
MODULE = """
import functools, logging
LOG = logging.getLogger("app")
RUN, TABLE = "$", {"started": "$", "rate": 1}
SIZES = ["$"] * len("$")
class Parser:
    since = "$"
    def __init__(self, started): self.started = started
    def parse(self, row): LOG.debug("%s", self.started); return int(row["v"])
    def of_class(self, row): LOG.debug("%s", self.since); return int(row["v"])
    def __call__(self, row): return self.parse(row)
class Own:
    def __init__(self, inner): self.inner = inner
    def parse(self, row): return self.inner.parse(row)
PARSER, OWN = Parser("$"), Own(Parser("$"))
def tell(): LOG.debug("%s", RUN)
def glob(row): LOG.debug("%s", RUN); return int(row["v"])
def helper(row): tell(); return int(row["v"])
def table(row): LOG.debug("%s", TABLE["started"]); return int(row["v"])
def sizes(row): LOG.debug("%s", SIZES); return int(row["v"])
def default(row, run="$"): LOG.debug("%s", run); return int(row["v"])
def made(run):
    def parse(row): LOG.debug("%s", run); return int(row["v"])
    return parse
def two(run, row): LOG.debug("%s", run); return int(row["v"])
def by_name(row): return PARSER.parse(row)
KINDS = {
    "global": (glob, "RUN"), "helper": (helper, "RUN"), "table": (table, "TABLE"), "list": (sizes, "SIZES"),
    "method": (PARSER.parse, "started"), "class": (PARSER.of_class, "since"), "object": (Parser("$"), "started"),
    "inner object": (OWN.parse, "started"), "object by name": (by_name, "started"), "default": (default, "run"),
    "closure": (made("$"), "run"), "partial": (functools.partial(two, "$"), ""),
    "lambda": (lambda row: glob(row), "RUN"),
}
"""


def module(text: str = MODULE, **marks: Any) -> dict[str, Any]:
    """Load a module as another process would; *marks* stand for what differs at each start."""
    made = ModuleType("app_of_a_user")
    sys.modules[made.__name__] = made
    for mark, value in {"$": "", **marks}.items():
        text = text.replace(mark, str(value))
    exec(compile(text, "<app>", "exec"), vars(made))
    return vars(made)


class Runs:
    """The runs of one app on one store, each with its own parse."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path, self.options, self.store = folder / "rows.csv", {**OPTIONS, **options}, MemoryStore()
        self.path.write_text("v\n" + "".join(f"{n}\n" for n in range(12)))

    def begin(self, parse: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, **self.options)
        evaluator.source("n", FileSource(self.path, parse=parse))
        evaluator.create("q", rx.source("n").map(lambda n: n + 1))
        evaluator.create("hidden", rx.source("n").scan(lambda total, n: total + n, 0).filter(lambda n: n > 1e9))
        return evaluator

    def killed(self, parse: Any, events: int = 4) -> None:
        evaluator = self.begin(parse)
        evaluator.run(until=lambda: evaluator.statistics().events_in >= events)
        evaluator.flush()
        evaluator.abandon()

    def refused(self, parse: Any) -> NondeterminismDetected:
        evaluator = self.begin(parse)
        with pytest.raises(NondeterminismDetected) as refused:
            evaluator.start()
        evaluator.abandon()
        return refused.value

    def whole(self, parse: Any) -> tuple[list[Any], list[str]]:
        """Run to the end; return what came out in all runs, and the warnings."""
        with self.begin(parse) as evaluator:
            evaluator.run()
            assert not evaluator.query("q").error
            values = [value for part in evaluator.stream("q").read(0, 100) for value in part.values]
            told = [each.message for each in evaluator.statistics().incidents if each.kind == "recovery"]
            assert told == evaluator.warnings
            return values, told


KINDS = list(module()["KINDS"])


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_app_starts_behind_a_kill_whatever_differs_at_each_start(kind: str, tmp_path: Path) -> None:
    """A run id, a time of the start: nothing is refused, nothing is lost, and one warning names what differs."""
    runs = Runs(tmp_path)
    for run in ("first", "second one"):
        runs.killed(module(**{"$": run})["KINDS"][kind][0])
    parse, name = module(**{"$": "a third"})["KINDS"][kind]
    values, told = runs.whole(parse)
    assert values == list(range(1, 13))
    assert len(told) == 1 and "source 'n'" in told[0] and "its parse" in told[0] and name in told[0], told
    assert "put the old code back" not in told[0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_is_not_told_where_no_turn_is_read_again(kind: str, tmp_path: Path) -> None:
    """Behind a clean stop, and at the start behind one that has told it."""
    runs = Runs(tmp_path)
    with runs.begin(module(**{"$": "first"})["KINDS"][kind][0]) as evaluator:
        evaluator.run(until=lambda: evaluator.statistics().events_in >= 4)
    assert runs.whole(module(**{"$": "second"})["KINDS"][kind][0]) == (list(range(1, 13)), [])


DECIDES = """
RATE, RATES, NAME = $, {'a': [$]}, 'r$'
class Parser:
    by = $
    def __init__(self, rate): self.rate = rate
    def parse(self, row): return int(row["v"]) * self.rate
    def of_class(self, row): return int(row["v"]) * self.by
def default(row, rate=$): return int(row["v"]) * rate
KINDS = {
    "global": (lambda row: int(row["v"]) * RATE, "RATE"), "table": (lambda row: int(row["v"]) * RATES['a'][0], "RATES"),
    "method": (Parser($).parse, "rate"), "class": (Parser(0).of_class, "by"), "default": (default, "rate"),
    "closure": ((lambda rate: lambda row: int(row["v"]) * rate)($), "rate"),
}
"""


@pytest.mark.parametrize("kind", list(module(DECIDES, **{"$": 1})["KINDS"]))
def test_data_that_decide_what_is_read_are_named_and_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    """A replay that gives other outputs is refused, and says which data differ; with the old ones nothing is lost."""
    runs = Runs(tmp_path)
    runs.killed(module(DECIDES, **{"$": 2})["KINDS"][kind][0])
    for _ in range(2):
        parse, name = module(DECIDES, **{"$": 3})["KINDS"][kind]
        refused = runs.refused(parse)
        assert refused.fields["source"] == "n" and refused.fields["query"] == "q"
        assert "its parse" in refused.message and name in refused.message and "put the old" in refused.message
    assert runs.whole(module(DECIDES, **{"$": 2})["KINDS"][kind][0]) == ([2 * n + 1 for n in range(12)], [])


def test_without_strictness_data_that_decide_are_told_and_it_goes_on(tmp_path: Path) -> None:
    """What came of it is told by the name of the data, and no sentence asks for what is too late."""
    runs = Runs(tmp_path, strict=False)
    runs.killed(module(DECIDES, **{"$": 2})["KINDS"]["global"][0])
    values, told = runs.whole(module(DECIDES, **{"$": 3})["KINDS"]["global"][0])
    assert values == [3 * n + 1 for n in range(12)]
    assert all("RATE" in each for each in told) and any("gave other outputs" in each for each in told)


@pytest.mark.parametrize("source", ["n", "other"])
def test_a_query_that_reads_a_clock_is_blamed_for_that(tmp_path: Path, source: str) -> None:
    """Behind data that differ the sentence says both; over another source the query ends alone, as ever."""
    store = MemoryStore()
    for name in ("n", "other"):
        (tmp_path / f"{name}.csv").write_text("v\n1\n2\n")

    def begin(run: str) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, **OPTIONS)
        evaluator.source("n", FileSource(tmp_path / "n.csv", parse=module(**{"$": run})["glob"], follow=True))
        evaluator.source("other", FileSource(tmp_path / "other.csv", follow=True))
        evaluator.create("clock", rx.source(source).map(lambda _: time.perf_counter_ns()))
        evaluator.create("pure", rx.source("n").map(lambda n: n + 1))
        return evaluator

    evaluator = begin("one")
    evaluator.run(until=lambda: evaluator.statistics().events_in >= 4)
    evaluator.flush()
    evaluator.abandon()
    evaluator = begin("two")
    if source == "n":
        with pytest.raises(NondeterminismDetected, match=r"'RUN', which differs .* reads a clock, a random number"):
            evaluator.start()
    else:
        evaluator.start()
        assert "reads a clock" in evaluator.query("clock").error and "RUN" not in evaluator.query("clock").error
        assert not evaluator.query("pure").error
    evaluator.abandon()


CODE = {
    "helper": "def f(n): return n * $\nparse = lambda row: f(int(row['v']))",
    "helper in a table": "def f(n): return n * $\nBY = {'v': f}\nparse = lambda row: BY['v'](int(row['v']))",
    "method": "class P:\n    def parse(self, row): return int(row['v']) * $\nparse = P().parse",
    "class of a global": "class P:\n    def f(self, n): return n * $\nOF = P()\n"
    "parse = lambda row: OF.f(int(row['v']))",
    "function in a closure": "made = lambda g: lambda row: g(int(row['v']))\nparse = made(lambda n: n * $)",
    "function of a partial": "import functools\nparse = functools.partial(lambda by, row: int(row['v']) * $, 0)",
    "default that is a function": "def parse(row, g=lambda n: n * $): return g(int(row['v']))",
    "class in a table": "BY = {2: int, 3: float}\nOF = {'v': BY[$]}\nparse = lambda row: OF['v'](row['v'])",
    "getter": "import operator\ngetter = {2: operator.itemgetter('v'), 3: operator.itemgetter('v', 'v')}[$]\n"
    "parse = lambda row: int(getter(row)[0])",
    "base": "class A:\n    def f(self, n): return n * $\nclass P(A): pass\nparse = lambda row: P().f(int(row['v']))",
    "library": "import math\nf = [math.floor, math.ceil][$ - 2]\nparse = lambda row: f(int(row['v']))",
}


@pytest.mark.parametrize("kind", CODE)
def test_code_is_refused_before_a_turn_is_read(kind: str, tmp_path: Path) -> None:
    """Wherever it is held, also where no output shows it: by a table, a closure, an object, as an argument."""
    runs = Runs(tmp_path)
    runs.killed(module(CODE[kind], **{"$": 2})["parse"])
    refused = runs.refused(module(CODE[kind], **{"$": 3})["parse"])
    assert "source 'n' does not read as it did: its parse" in refused.message
    assert not runs.whole(module(CODE[kind], **{"$": 2})["parse"])[1]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["field", "method"])
def test_what_differs_in_the_code_is_named(kind: str, strict: bool, tmp_path: Path) -> None:
    """The class whose field was added, not only the function that makes it; and what was done, not what is too late."""
    text = (
        "import dataclasses\n@dataclasses.dataclass\nclass Payment:\n    v: int\n    %\n"
        "def parse(row): return Payment(int(row['v'])).v"
    )
    marks = {"field": "ip: str = ''", "method": "def later(self): return 1"}
    runs = Runs(tmp_path, strict=strict)
    runs.killed(module(text, **{"%": "def f(self): return 2"})["parse"])
    edited = module(text, **{"%": marks[kind]})["parse"]
    if strict:
        message = runs.refused(edited).message
    else:
        _, (message,) = runs.whole(edited)
        assert "put the old code back" not in message and "were read again with what it is now" in message
    assert "Payment" in message


def test_what_code_makes_when_it_is_first_needed_is_no_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is opened when another one has been read, in a group, finds the source as it was."""
    module = ModuleType("lazy_app")
    monkeypatch.setitem(sys.modules, "lazy_app", module)
    exec(
        "made = None\n"
        "def helper(x): return int(x)\n"
        "def make():\n    def decode(x): return helper(x)\n    return decode\n"
        "def parse(x):\n    global made\n    made = made or make()\n    return made(x)\n",
        vars(module),
    )
    first = fingerprint.part_of(module.parse)
    assert module.parse("3") == 3 and module.made is not None
    assert fingerprint.part_of(module.parse) == first
    exec("def make():\n    def decode(x): return helper(x) + 1\n    return decode\n", vars(module))
    assert fingerprint.part_of(module.parse).digests != first.digests
