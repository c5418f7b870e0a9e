"""The arguments of the commands over partitions: export, and what looks into groups and moves them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hosting.cli import holders, mend
from hosting.cli.store_status import store_status
from hosting.cli.stores import Folder, StoreAddress, address_of, store_or_group
from hosting.cli.wording import BadUsage
from hosting.edges.positions import Point, read_point
from hosting.partitioned.opening import is_on_a_server
from hosting.partitioned.store_beside import holds_both
from hosting.reports.partition_store import belongs, of_group
from reliable_rx.names import check_name

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Make = Callable[["Commands", str, str], argparse.ArgumentParser]
NEW_OFFSETS_HELP = "where its positions are being moved to, or have been"
STORE_HELP = "where the nodes of the group meet: a directory, or postgresql://…"
APP_HELP = "such as flights:app, or path/to/flights.py:app"
POINT_HELP = "a position, earliest, latest, or a time such as 2013-01-01T05:00 (UTC)"


def add_export(each: argparse.ArgumentParser) -> None:
    each.add_argument("app", metavar="MODULE:APP", help=APP_HELP)
    each.add_argument("source", metavar="SOURCE", help="the name of a source that the app declares")
    each.add_argument("directory", type=Path, metavar="DIR", help="where the files go, and where a restart goes on")
    each.add_argument("--workers", type=count, metavar="N", help="processes (default: one per core)")
    each.add_argument("--events-per-file", type=count, default=100_000, metavar="N", help="(default: 100,000)")
    each.add_argument("--from", dest="first", type=point, default="earliest", metavar="WHERE", help=POINT_HELP)
    each.add_argument("--until", type=point, default="latest", metavar="WHERE", help="the same (default: latest)")
    each.add_argument(
        "--kind", type=named, action="append", default=[], metavar="COLUMN=KIND", help="int, text, instant, json, …"
    )
    each.set_defaults(call=export)


def export(a: argparse.Namespace) -> int:
    from hosting.cli.bulk import export_source  # only now: the other commands do without

    return export_source(
        a.app, a.source, a.directory, first=a.first, until=a.until, events_per_file=a.events_per_file,
        workers=a.workers, kinds=dict(a.kind),
    )  # fmt: skip


def add_status(each: argparse.ArgumentParser) -> None:
    each.add_argument("--store", required=True, metavar="WHERE", help=f"a store's folder, or {STORE_HELP}")
    add_group_name(each)
    add_name(each)
    each.add_argument("--new-offsets", metavar="WHERE", help=NEW_OFFSETS_HELP)
    each.add_argument("--app", metavar="MODULE:APP", help="whose sources say how far behind the group is")
    each.add_argument("--json", action="store_true", help="print it for machines")
    each.add_argument("--watch", action="store_true", help="look again every second, until Ctrl-C")
    each.set_defaults(call=status)


def add_name(each: argparse.ArgumentParser, otherwise: str = "the only one there, or the app's") -> None:
    """Let *each* say which store of a database is meant."""
    how = f"which store of a database (default: {otherwise})"
    each.add_argument("--name", type=called("store"), metavar="NAME", help=how)


def add_group_name(each: argparse.ArgumentParser, otherwise: str = "the only one there") -> None:
    """Let *each* say which group of nodes is meant."""
    how = f"the name of the group (default: {otherwise})"
    each.add_argument("--group", type=called("group"), metavar="G", help=how)


def add_offsets(each: argparse.ArgumentParser, command: Make) -> None:
    steps = each.add_subparsers(title="what to do", metavar="WHAT", required=True)
    shows = command(steps, "show", "Show where a group has come to.")
    resets = command(steps, "reset", "Set positions by hand, also back; what is there is asked about first.")
    for every in (shows, resets):
        add_group(every)
        every.add_argument("--new-offsets", metavar="WHERE", help=NEW_OFFSETS_HELP)
        every.add_argument("--app", metavar="MODULE:APP", help="whose sources say where they begin and end")
    shows.add_argument("--json", action="store_true", help="print it for machines")
    shows.set_defaults(
        call=lambda a: offsets().show(a.store, a.group, new_offsets=a.new_offsets, app=a.app, as_json=a.json)
    )
    resets.add_argument(
        "--to", type=wish, action="append", required=True, metavar="[SOURCE/PARTITION=]WHERE",
        help=f"{POINT_HELP}; without a name for all that are not named",
    )  # fmt: skip
    resets.add_argument("--yes", action="store_true", help="do not ask")
    resets.set_defaults(
        call=lambda a: offsets().reset(a.store, a.group, a.to, new_offsets=a.new_offsets, app=a.app, yes=a.yes)
    )
    moves = "another store of positions, while its nodes run"
    add_move(command(steps, "migrate", f"Take the next step of moving a group to {moves}."), back=False)
    add_move(command(steps, "rollback", f"Take the next step back from {moves}."), back=True)


def add_move(each: argparse.ArgumentParser, *, back: bool) -> None:
    add_group(each, required=False, more=" (default: --from)")
    each.add_argument("--from", dest="old", required=True, metavar="WHERE", help="the old place, also of a rollback")
    each.add_argument("--to", dest="new", required=True, metavar="WHERE", help="the new place, also of a rollback")
    each.add_argument("--look", action="store_true", help="only say how far it is")
    each.set_defaults(
        call=lambda a: offsets().move(a.store, a.group, old=a.old, new=a.new, back=back, look_only=a.look)
    )


def add_node(each: argparse.ArgumentParser) -> None:
    each.add_argument("app", metavar="MODULE:APP", help=APP_HELP)
    each.add_argument("--store", required=True, metavar="WHERE", help=STORE_HELP)
    add_group_name(each, "that of the app's module")
    who = each.add_argument_group("who it is")
    who.add_argument(
        "--instance", type=called("instance"), metavar="NAME", help="its name over restarts: it gets back what it had"
    )
    who.add_argument(
        "--tag", type=called("tag"), metavar="TEXT", help="what people know it by (default: the name of this machine)"
    )
    who.add_argument("--room", type=called("room"), metavar="R", help="the machine room it stands in")
    who.add_argument("--capacity", type=count, default=1, metavar="N", help="how much it takes beside the others")
    who.add_argument(
        "--only",
        type=owned,
        action="append",
        default=[],
        metavar="SOURCE[/PARTITION]",
        help="what it may own (default: all)",
    )
    how = each.add_argument_group("how it works")
    how.add_argument("--from", dest="first", type=point, default="earliest", metavar="WHERE", help=POINT_HELP)
    how.add_argument("--assignor", default="sticky", metavar="NAME", help="who gets what (default: sticky)")
    how.add_argument("--session", type=seconds, metavar="S", help="after how long a silent node is expired")
    how.add_argument("--closing", type=seconds, metavar="S", help="how long a node has to give a partition back")
    how.add_argument("--gather", type=seconds, metavar="S", help="how long an empty group waits for more nodes")
    how.add_argument("--sleep-after", type=seconds, default=30.0, metavar="S", help="idle partitions sleep after (30)")
    how.add_argument("--commit-interval", type=seconds, default=5.0, metavar="S", help="positions, every (5)")
    how.add_argument("--threads", type=count, default=2, metavar="N", help="which run the partitions (default: 2)")
    how.add_argument("--new-offsets", metavar="WHERE", help=NEW_OFFSETS_HELP)
    how.add_argument("--offsets", choices=("old", "dual", "new"), help="its setting in a migration")
    each.add_argument("--until-ended", action="store_true", help="stop when all partitions have ended")
    each.add_argument("--plain", action="store_true", help="print lines also on a terminal")
    each.set_defaults(call=node)


def node(a: argparse.Namespace) -> int:
    from hosting.cli.node import Settings, run_node

    return run_node(a.app, Settings(**{name: value for name, value in vars(a).items() if name in Settings.__slots__}))


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no span of time; give seconds from 0")
    return number


def add_group(each: argparse.ArgumentParser, *, required: bool = True, more: str = "") -> None:
    each.add_argument("--store", required=required, metavar="WHERE", help=STORE_HELP + more)
    add_group_name(each)


def offsets() -> ModuleType:
    return import_module("hosting.cli.offsets")  # only now: the other commands do without


def status(a: argparse.Namespace) -> int:
    if a.group is None and not is_on_a_server(a.store) and holds_both(a.store):
        return status_of_both(a)
    address = store_or_group(a.store, a.name, a.group, app=a.app)
    if address is not None and (address.folder is not None or is_on_a_server(a.store)):
        return store_status(address.status, as_json=a.json, watch=a.watch)
    return status_of_group(a)


def status_of_both(a: argparse.Namespace) -> int:
    """Show the store of a folder once, then the group in it."""
    code = store_status(Folder(Path(a.store)).status, as_json=a.json, watch=False)
    return max(code, status_of_group(a))


def status_of_group(a: argparse.Namespace) -> int:
    from hosting.cli.status import status as show

    return show(a.store, a.group, new_offsets=a.new_offsets, app=a.app, as_json=a.json, watch=a.watch)


def restart(a: argparse.Namespace) -> int:
    """Run queries again: in a store, or in the partitions of a group."""
    return change(a, "restart", mend.restart)


def dispose(a: argparse.Namespace) -> int:
    """End a query: in a store, or in the partitions of a group."""
    return change(a, "dispose", mend.dispose)


def change(a: argparse.Namespace, command: str, in_store: Callable[..., int]) -> int:
    if store_or_group(a.store, a.name, a.group, app=a.app) is not None:
        address = address_of(a.store, a.name, app=a.app)
        check_of_no_group(address, command, [a.query] if isinstance(a.query, str) else a.query)
        return in_store(address, a.query, app=a.app, yes=a.yes)
    mend_group = import_module("hosting.cli.mend_group")  # only now: the other commands do without
    if a.app is None:
        raise BadUsage("say with --app MODULE:APP which app the nodes of the group run")
    done: int = getattr(mend_group, command)(a.store, a.query, group=a.group, app=a.app, yes=a.yes)
    return done


def show_holders(a: argparse.Namespace) -> int:
    """Show who holds streams: of a store, or of the partitions of a group."""
    if store_or_group(a.store, a.name, a.group, app=None) is not None:
        return holders.show(address_of(a.store, a.name))
    done: int = group_holders().show(a.store, group=a.group)
    return done


def release(a: argparse.Namespace) -> int:
    """Let a holder go: in a store, or in the partitions of a group."""
    if store_or_group(a.store, a.name, a.group, app=None) is not None:
        return holders.release(address_of(a.store, a.name), a.stream, a.holder)
    done: int = group_holders().release(a.store, a.stream, a.holder, group=a.group)
    return done


def group_holders() -> ModuleType:
    return import_module("hosting.cli.group_holders")  # only now: the other commands do without


def check_of_no_group(address: StoreAddress, command: str, queries: Sequence[str]) -> None:
    """*Raises* `BadUsage` for the store of a partition: its group would not learn of it, nor would sinks of the end."""
    group = address.group()
    if group is not None:
        raise BadUsage(f"{belongs(group)}: stop its nodes, then `{of_group(command, group, *queries)}`")


def called(kind: str) -> Callable[[str], str]:
    """Return what takes an argument that is the name of a *kind*."""

    def take(text: str) -> str:
        try:
            return check_name(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return take


def owned(text: str) -> str:
    """Return *text*, in which the name of a partition may follow that of what the app shares out."""
    _, has_partition, name = text.partition("/")
    if has_partition:
        called("partition")(name)
    return text


def wish(text: str) -> tuple[str | None, Point]:
    name, _, where = text.rpartition("=")
    return name or None, point(where)


def point(text: str) -> Point:
    try:
        return read_point(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def named(text: str) -> tuple[str, str]:
    name, _, value = text.rpartition("=")
    if not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of them; give one from 1")
    return number
