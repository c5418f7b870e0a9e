"""Writes the pages of docs/reference that come from docstrings: operators, testing kit, errors, nodes, Spark.

A docstring is the one place where an operator is described; a page written by hand would say something else within a
month. The table of all operators is read off their classes (`operator_table`). `make docs` runs this, and a test fails
when the pages are old. Rejected: a documentation builder with a theme and a server, for a few pages of plain Markdown.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import hosting
import reliable_rx as rx
import spark_bridge
from hosting.evaluator import sidecars as companions
from hosting.partitioned import assign, words
from hosting.partitioned.readers import FarReader
from hosting.partitioned.stream_source import GroupStreamSource
from hosting.sources import HashRing
from reliable_rx import creation, errors, limits, operators, testing

sys.path.insert(0, str(Path(__file__).parent))  # wherever it is run from
import operator_table

HERE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the docstrings: change those, then run `make docs`. -->\n"


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (HERE / name).write_text(text)


def pages() -> dict[str, str]:
    """Return the text of every generated page by file name."""
    return {
        "operators.md": operators_page(),
        "testing.md": testing_page(),
        "errors.md": errors_page(),
        "nodes.md": nodes_page(),
        "spark.md": spark_page(),
    }


def operators_page() -> str:
    check_families()
    return page(
        "Operators and creation functions",
        "Every operator is a function of `reliable_rx.operators` and a method of every query; creation functions are "
        "functions of `reliable_rx`. Names, parameters and defaults are RxPY's unless the text says otherwise; where "
        "they differ is listed in [Differences from RxPY](../explanation/differences-from-rxpy.md). Which of them to "
        "take for windows, limits, errors and sharing: [Choose operators](../how-to/choose-operators.md).",
        [*contents(), *at_a_glance(), *chain.from_iterable(map(family_section, FAMILIES))],
    )


@dataclasses.dataclass(frozen=True)
class Family:
    """Operators or creation functions that belong together: those of some modules."""

    title: str
    modules: tuple[str, ...]
    begins: bool = False

    @property
    def package(self) -> Any:
        return creation if self.begins else operators

    @property
    def names(self) -> list[str]:
        return sorted(name for name in self.package.__all__ if room(self.package, name) in self.modules)

    def shown(self, name: str) -> str:
        """Write the name as it is called: creation functions share some with operators."""
        return f"rx.{name}" if self.begins else name


FAMILIES = (
    Family("One by one", ("filtering", "mapping", "partition", "distinct")),
    Family("By place", ("take_skip", "take_skip_last", "find_first", "last_single")),
    Family("Folding into one", ("aggregate", "minmax", "conditional", "collect")),
    Family("Several sequences", ("merge_concat", "fork", "combine_latest", "zip_iterable", "until")),
    Family("Sequences of sequences", ("flatten", "switch", "expand")),
    Family(
        "Groups and windows", ("grouping", "window", "aligned_windows", "sessions", "buffer", "time_windows", "join")
    ),
    Family("Time", ("timing", "time_gates", "timestamps", "with_mapper")),
    Family("Errors and repetition", ("errors", "repeat")),
    Family("Sharing", ("sharing",)),
    Family("Notifications and effects", ("notifications", "effects")),
    Family("The world outside", ("map_async", "foreign")),
    Family("Beginnings: values and time", ("values", "generated", "time"), begins=True),
    Family("Beginnings: choosing and combining", ("choose", "combining"), begins=True),
    Family("Beginnings: from outside Rx", ("plain",), begins=True),
)


def check_families() -> None:
    """*Raises* `SystemExit` for an operator of no family, and for a module of a family that has none."""
    for package in (operators, creation):
        listed = {module for family in FAMILIES if family.package is package for module in family.modules}
        found = {room(package, name) for name in package.__all__}
        if listed != found:
            homeless, empty = sorted(found - listed), sorted(listed - found)
            sys.exit(f"{package.__name__}: modules of no family: {homeless}; modules without operators: {empty}")


def room(package: Any, name: str) -> str:
    """Return the module that something public is defined in."""
    return getattr(package, name).__module__.rpartition(".")[2]


def contents() -> Iterable[str]:
    yield "* [At a glance](#at-a-glance): what each keeps, how it grows, and whether a host takes it"
    for family in FAMILIES:
        names = ", ".join(f"`{family.shown(name)}`" for name in family.names)
        yield f"* [{family.title}](#{anchor(family.title)}): {names}"
    yield ""


def at_a_glance() -> Iterable[str]:
    """Yield the table of all, in the order of the page."""
    yield "## At a glance\n"
    yield (
        "*What is saved* names the fields of the operator's state, which are its checkpoint format (after a part's "
        "name, where it is made of other operators); the rows of inner sequences and due times of timers are saved "
        "too. *Limits* are fields of [`Limits`](errors.md#limits). An operator with *timers* wakes up by itself; the "
        "clock is the host's. Any `scheduler` argument works un-hosted only.\n"
    )
    yield operator_table.HEAD
    for family in FAMILIES:
        facts = operator_table.all_facts()[family.begins]
        for name in family.names:
            shown = f"[{family.shown(name)}](#{anchor(family.shown(name))})"
            yield operator_table.row(shown, name, facts[name], begins=family.begins)
    yield ""


def family_section(family: Family) -> Iterable[str]:
    yield f"## {family.title}\n"
    for name in family.names:
        value = getattr(family.package, name)
        yield f"### {family.shown(name)}\n\n`{name}{signature(value)}`\n\n{prose(value)}\n"


def anchor(heading: str) -> str:
    """Return what a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def testing_page() -> str:
    return page(
        "The testing kit",
        "Everything in `reliable_rx.testing`; how to use it is in "
        "[Test your own query](../how-to/test-your-own-query.md).",
        section("`reliable_rx.testing`", testing, testing.__all__),
    )


def errors_page() -> str:
    kinds = [getattr(rx, name) for name in errors_in_order()]
    return page(
        "Errors and limits",
        "Every error with which this library tells that something went wrong is one of these, is importable from "
        "`reliable_rx`, derives from `ReliableRxError` and from a builtin that one would catch anyway, and carries its "
        "facts as attributes. A call that is wrong in itself raises what Python does: `ValueError` for a name, an "
        "option or a policy that cannot be, `KeyError` for a name that nobody has, `TypeError` for an argument of "
        "another type or a pushed value that cannot be stored.",
        [
            "## Errors\n",
            *(f"### {kind.__name__}({kind.__bases__[-1].__name__})\n\n{prose(kind)}\n" for kind in kinds),
            "## Limits\n",
            "Given to `create(name, query, limits=Limits(...))`. A limit that is passed fails the query, and only that "
            "query, with `LimitExceeded`.\n",
            *limit_table(),
        ],
    )


def errors_in_order() -> Sequence[str]:
    text = inspect.getsource(errors)
    return [name for name in re.findall(r"^class (\w+)", text, re.M) if name in rx.__all__]


def limit_table() -> Iterable[str]:
    words = dict(re.findall(r"^    (\w+): int = [\d_]+\n    \"\"\"(.+?)\"\"\"", inspect.getsource(limits), re.M))
    yield "| limit | default | bounds |\n|---|---|---|"
    for field in dataclasses.fields(limits.Limits):
        yield f"| `{field.name}` | {field.default:,} | {words[field.name]} |"
    yield ""


def nodes_page() -> str:
    assignors = [getattr(assign, name) for name in assign.__all__ if name not in ("ASSIGNORS", "assignor_named")]
    return page(
        "Nodes",
        "What a program needs that hosts an app on many nodes; `reliable-rx node` does the same from "
        "[the command line](command-line.md). How to: "
        "[Host an app on many nodes](../how-to/host-on-many-nodes.md); why: "
        "[Partitioned hosting](../explanation/partitioned-hosting.md).",
        [
            *made_with("From `hosting`", NODES),
            *made_with("Sources for nodes", FOR_NODES),
            *made_with("What nodes speak of", WORDS),
            "## Assignors\n",
            "Functions of `hosting.partitioned.assign` that say who is to own what, or make such a function. On the "
            f"command line they are called {', '.join(f'`{name}`' for name in assign.ASSIGNORS)}. One of your own is "
            "called with the members, the shards and the owners before, and returns the owners from now on; it must "
            "give the same on every node, in whatever order it is told.\n",
            *chain.from_iterable(map(entry, [*assignors, assign.assignor_named])),
        ],
    )


NODES: Sequence[Any] = (hosting.Node, hosting.open_group, hosting.Place, hosting.Profile, hosting.Timing)
FOR_NODES: Sequence[Any] = (HashRing, GroupStreamSource, FarReader)
WORDS: Sequence[Any] = (words.Partition, words.Lease, words.Shard, words.Member)


def spark_page() -> str:
    return page(
        "Spark",
        "Everything in `spark_bridge`. How to: [Meet Spark](../how-to/spark.md), which has the "
        'options of `format("reliable_rx")`, and [Run a query on a Spark cluster](../how-to/spark-cluster.md).',
        chain.from_iterable(made_with(title, values) for title, values in SPARK),
    )


SPARK: Sequence[tuple[str, Sequence[Any]]] = (
    ("Out of Spark", (spark_bridge.publish, spark_bridge.batch_writer, spark_bridge.MicroBatchSource)),
    ("Into Spark", (spark_bridge.register, spark_bridge.MicroBatchSink)),
    ("On Spark", (spark_bridge.configure, spark_bridge.run_on_spark, spark_bridge.to_spark, spark_bridge.from_spark)),
    (
        "One process for both",
        (spark_bridge.SparkCompanion, spark_bridge.start_session, companions.Companion, companions.CompanionFigures),
    ),
    (
        "What is in a log, and for whom",
        (spark_bridge.readers, spark_bridge.release, spark_bridge.end, spark_bridge.LogRefused, spark_bridge.LogFull),
    ),
)


def made_with(title: str, values: Iterable[Any]) -> Iterable[str]:
    """Yield a section on *values*, with what each is made with."""
    yield f"## {title}\n"
    for value in values:
        yield from entry(value)


def entry(value: Any) -> Iterable[str]:
    yield f"### {value.__name__}\n\n`{value.__name__}{signature(value)}`\n\nIn `{value.__module__}`. {prose(value)}\n"


def page(title: str, introduction: str, parts: Iterable[str]) -> str:
    return "\n".join([NOTE, f"# {title}\n", introduction + "\n", *parts])


def section(title: str, module: Any, names: Iterable[str]) -> Iterable[str]:
    yield f"## {title}\n"
    for name in names:
        value = getattr(module, name)
        if callable(value):
            shown = f"{name}{signature(value)}" if not inspect.isclass(value) else f"{name}"
            yield f"### {name}\n\n`{shown}`\n\n{prose(value)}\n"


def signature(function: Callable[..., Any]) -> str:
    """Write names and defaults; types are for the editor."""
    parts = inspect.signature(function)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parts.parameters.values()]
    text = str(parts.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", text)
    return re.sub(r"<class '[\w.]*NotSet'>|<[\w.]*NotSet[^>]*>", "…", text)


def prose(value: Any) -> str:
    """Turn a docstring into Markdown: examples into blocks, references into plain code."""
    text = inspect.cleandoc(value.__doc__ or "").replace("``", "`")
    text = re.sub(r"\n+(?=\*Raises\*)", "\n\n", text)
    parts = [example(part) if part.startswith(">>>") else part for part in text.split("\n\n")]
    return "\n\n".join(parts)


def example(part: str) -> str:
    return f"```text\n{part}\n```"


if __name__ == "__main__":
    main()
