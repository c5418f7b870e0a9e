"""The arguments, and the one place where errors become a sentence on stderr and an exit code.

0: done, or stopped as asked, and nothing has failed. 1: it did not work. 2: it was called wrongly. 3: it worked, but a
query, a sink or a partition has failed, and is named. 130: interrupted twice, or before it could begin.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING

from hosting.cli import group_commands, inspect_store, repair, run, tail
from hosting.cli.stores import StoreAddress, address_of, address_to_host, given_keys
from hosting.cli.terminal import StdoutClosed, complain, complain_of, flush, ready
from hosting.cli.wording import BadUsage, extra_of
from reliable_rx.errors import ReliableRxError, described

STORE_HELP = "the folder of the store, or the address of a database (postgresql://...)"
DEMOS = "reliable_rx.demos"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    with ready():
        arguments = parser().parse_args(argv)
        try:
            code: int = arguments.call(arguments)
            flush()
            return code
        except StdoutClosed:  # the reader, such as head, has had enough
            return 0
        except KeyboardInterrupt as error:
            if str(error):
                complain(str(error))
            return 130
        except Exception as error:
            if arguments.traceback:
                complain_of(error)
            complain(sentence(error))
            return 2 if isinstance(error, BadUsage) else 1


def sentence(error: Exception) -> str:
    """Say what happened and what to do."""
    if isinstance(error, ReliableRxError):
        return error.message
    if isinstance(error, (BadUsage, OSError)):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error)) is not None:
        return f"{error.name} is not installed; run: pip install 'reliable-rx[{extra}]'"
    return f"{described(error)}; run it again with --traceback to see where"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="reliable-rx", description="Standing queries in Rx that survive any crash.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"reliable-rx {installed_version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_run(commands)
    add_inspect(commands)
    add_tail(commands)
    add_mend(commands)
    add_holders(commands)
    add_store(commands)
    add_demo(commands)
    group_commands.add_export(command(commands, "export", "Load what a source holds into Parquet files; restartable."))
    group_commands.add_node(
        command(commands, "node", "Host the partitions of an app that fall to this node of a group.")
    )
    group_commands.add_status(
        command(commands, "status", "Show what has failed in a store, or who has what in a group.")
    )
    group_commands.add_offsets(command(commands, "offsets", "Show, set and move the positions of a group."), command)
    return top


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_place(each: argparse.ArgumentParser, help: str = STORE_HELP) -> None:
    """Let *each* say at which store it works."""
    each.add_argument("store", metavar="STORE", help=help)
    group_commands.add_name(each)


def stored(a: argparse.Namespace) -> StoreAddress:
    """Return where the store is that was named. *Raises* `BadUsage` if there is none."""
    return address_of(a.store, a.name, app=getattr(a, "app", None))


def command(commands: Commands, name: str, help: str) -> argparse.ArgumentParser:
    each = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
    each.add_argument("--traceback", action="store_true", help="show where an error was raised")
    return each


def add_run(commands: Commands) -> None:
    each = command(commands, "run", "Host an app until its sources end, or until Ctrl-C or SIGTERM.")
    each.add_argument("app", metavar="MODULE:APP", help="such as flights:app, or path/to/flights.py:app")
    where = "the folder of the store (default: NAME.store), or the address of a database (postgresql://...)"
    each.add_argument("--store", metavar="DIR", help=where)
    group_commands.add_name(each, "that of the app's module")
    each.add_argument("--plain", action="store_true", help="print lines also on a terminal")
    each.set_defaults(call=lambda a: run.run(a.app, address_to_host(a.store, a.name, app=a.app), plain=a.plain))


def add_inspect(commands: Commands) -> None:
    each = command(commands, "inspect", "Show what is in a store, also while a process runs on it.")
    add_place(each)
    each.add_argument("--state", metavar="QUERY", help="show the state of this query, row by row")
    each.add_argument("--app", metavar="MODULE:APP", help="where classes and functions come from; or the script")
    each.add_argument("--all", action="store_true", help="leave nothing out")
    each.set_defaults(call=lambda a: inspect_store.inspect(stored(a), state=a.state, app=a.app, everything=a.all))


def add_tail(commands: Commands) -> None:
    each = command(commands, "tail", "Print a stream as of the last checkpoint: ids and values.")
    add_place(each)
    each.add_argument("stream", metavar="STREAM", help="the name of a query, or QUERY.dead_letters")
    each.add_argument("--from", dest="start", type=whole, metavar="N", help="begin at id N (default: the oldest)")
    each.add_argument("--follow", action="store_true", help="go on as checkpoints are taken, until the query has ended")
    each.add_argument("--app", metavar="MODULE:APP", help="where classes come from; or the script")
    each.set_defaults(call=lambda a: tail.tail(stored(a), a.stream, start=a.start, follow=a.follow, app=a.app))


def add_mend(commands: Commands) -> None:
    for name, help, some, call in (
        ("restart", "Run queries again: without state, under the ids that follow.", "+", group_commands.restart),
        ("dispose", "End a query of a store and forget its state; its stream stays.", None, group_commands.dispose),
    ):
        each = command(commands, name, f"{help} Nothing may run on the store.")
        add_place(each, f"{STORE_HELP}, or where a group lives")
        each.add_argument("query", metavar="QUERY", nargs=some, help="the name of a query")
        each.add_argument(
            "--app", metavar="MODULE:APP", help="needed behind a crash, for classes and for new files; or the script"
        )
        each.add_argument("--yes", action="store_true", help="do not ask before the state of one that runs is dropped")
        group_commands.add_group_name(each)
        each.set_defaults(call=call)


def add_holders(commands: Commands) -> None:
    shows = command(commands, "holders", "Show who keeps the streams of a store or a group from being forgotten.")
    each = command(commands, "release", "Let one of those go, where nothing runs: what it has not had is forgotten.")
    for one in (shows, each):
        add_place(one, f"{STORE_HELP}, or where a group lives")
        group_commands.add_group_name(one)
    shows.set_defaults(call=group_commands.show_holders)
    each.add_argument("stream", metavar="STREAM", help="the name of a query, or QUERY.dead_letters")
    each.add_argument("holder", metavar="HOLDER", nargs="?", help="who holds it, as `holders` names it")
    each.set_defaults(call=group_commands.release)


def add_store(commands: Commands) -> None:
    on = command(commands, "store", "Look after a store on which nothing runs.").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    each = command(on, "repair", "Say what keeps a store from starting and what can be done; ask, and do it.")
    add_place(each)
    each.add_argument(
        "--app", metavar="MODULE:APP", help="where sources, classes and functions come from; or the script"
    )
    each.add_argument("--yes", action="store_true", help="do not ask")
    keys = "the keys that the program gives for a store in a database: hexadecimal, a line each, the present one first"
    each.add_argument("--keys", type=Path, metavar="FILE", help=keys)
    each.set_defaults(call=lambda a: repair.repair(given_keys(stored(a), a.keys), app=a.app, yes=a.yes))


def add_demo(commands: Commands) -> None:
    each = command(
        commands, "demo", "Replay 336,776 real flights, kill the process several times, compare all it wrote."
    )
    each.add_argument(
        "--spark", action="store_true", help="bring the flights through Spark, and run queries there too (needs Java)"
    )
    each.add_argument(
        "--out", type=Path, metavar="DIR", help="where everything goes (default: runs/flights, runs/spark)"
    )
    each.add_argument("--store", type=Path, metavar="DIR", help="the store of the killed run (default: in --out)")
    each.add_argument(
        "--kills", type=whole, metavar="N", help="how often to kill it (default: 5; with --spark 3, its JVM as well)"
    )
    each.add_argument("--seed", type=int, metavar="N", help="repeat the moments of an earlier run")
    each.add_argument(
        "--events", type=positive, metavar="N", help="only the first N flights (default: all; with --spark 27,004)"
    )
    each.set_defaults(call=demo)


def demo(a: argparse.Namespace) -> int:
    from hosting.demo.job import run_demo  # only now: it needs more than the others

    name = "spark" if a.spark else "flights"
    run, kills = (brought_demo(name), 3) if a.spark else (run_demo, 5)
    out = Path("runs", name) if a.out is None else a.out
    return run(out, store=a.store, kills=kills if a.kills is None else a.kills, seed=a.seed, events=a.events)


def brought_demo(name: str) -> Callable[..., int]:
    """Return a demo that another package brings along, under an entry point of its name. *Raises* `BadUsage`."""
    for each in entry_points(group=DEMOS, name=name):
        found: Callable[..., int] = each.load()
        return found
    raise BadUsage(f"no installed package brings the demo {name!r}; run: pip install 'reliable-rx[{name},demo]'")


def whole(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative; give a number from 0")
    return count


def positive(text: str) -> int:
    if whole(text) == 0:
        raise argparse.ArgumentTypeError("0 is none; give a number from 1")
    return int(text)


def installed_version() -> str:
    try:
        return version("reliable-rx")
    except PackageNotFoundError:
        return "(not installed)"
