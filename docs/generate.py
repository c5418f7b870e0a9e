"""Writes the pages of docs/reference that come from docstrings: operators, testing kit, errors and limits.

A docstring is the one place where an operator is described; a page written by hand would say something else within a
month. `make docs` runs this, and a test fails when the pages are old. Rejected: a documentation builder with a theme
and a server, for four pages of plain Markdown.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import reliable_rx as rx
from reliable_rx import creation, errors, limits, operators, testing

HERE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the docstrings: change those, then run `make docs`. -->\n"


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (HERE / name).write_text(text)


def pages() -> dict[str, str]:
    """Return the text of every generated page by file name."""
    return {"operators.md": operators_page(), "testing.md": testing_page(), "errors.md": errors_page()}


def operators_page() -> str:
    return page(
        "Operators and creation functions",
        "Every operator is a function of `reliable_rx.operators` and a method of every query; names, parameters and "
        "defaults are RxPY's unless the text says otherwise. *State* is what a checkpoint holds for it. Where it "
        "differs from RxPY is listed in [Differences from RxPY](../explanation/differences-from-rxpy.md).",
        [
            *section("Operators", operators, sorted(operators.__all__)),
            *section("Creation functions", creation, sorted(creation.__all__)),
        ],
    )


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
        "Every error that this library raises on purpose is one of these, is importable from `reliable_rx`, derives "
        "from `ReliableRxError` and from a builtin that one would catch anyway, and carries its facts as attributes.",
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
    return re.sub(r"<class '[\w.]*NotSet'>|<[\w.]*NotSet[^>]*>", "…", text)


def prose(value: Any) -> str:
    """Turn a docstring into Markdown: examples into blocks, references into plain code."""
    text = inspect.cleandoc(value.__doc__ or "").replace("``", "`")
    parts = [example(part) if part.startswith(">>>") else part for part in text.split("\n\n")]
    return "\n\n".join(parts)


def example(part: str) -> str:
    return f"```text\n{part}\n```"


if __name__ == "__main__":
    main()
