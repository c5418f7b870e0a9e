"""An app whose query fails at one order of one partition until a file says that the world is well."""

from __future__ import annotations

from pathlib import Path

from cli_process import write

APP = """
import pathlib
from hosting import App, JsonLinesSink, ListSource


def price(order):
    if order == 2 and not pathlib.Path("well").exists():
        raise ConnectionError("the price list is not there")
    return order


app = App()
orders = app.source("orders", ListSource({{{failing!r}: [1, 2, 3], "b": [1, 3]}}, follow={follow}))
app.query("prices", orders.map(price))
"""
COUNT = 'app.query("count", orders.scan(lambda count, order: count + 1, 0))\n'
SINK = """app.sink("prices", lambda place: JsonLinesSink(f"{place.partition.name.replace('/', '-')}.jsonl"))\n"""


def write_app(folder: Path, *, failing: str = "a", follow: bool = False, beside: str = COUNT) -> None:
    """Write ``app.py``; *failing* is the partition with the bad order, *beside* what else is declared."""
    write(folder, "app.py", APP.format(failing=failing, follow=follow) + beside)


def mend(folder: Path) -> None:
    (folder / "well").touch()
