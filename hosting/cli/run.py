"""`reliable-rx run`: host an app until its sources end, or until somebody says stop."""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from checkpoint.sqlite.files import DirectoryLock
from checkpoint.store import Store
from hosting.app import App
from hosting.cli.display import Monitor, best_view, known_end
from hosting.cli.loading import load_app
from hosting.cli.owed import Owed, unanswered
from hosting.cli.stores import NAMED_MAX, StoreAddress
from hosting.cli.terminal import complain, outlives, say, say_all
from hosting.cli.wording import FAILED, BadUsage, log_to_stderr, plural, span
from hosting.engine.editing import reports_told
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.sidecars import LOOK_S
from hosting.evaluator.undeclared import told, undeclared
from hosting.reports.failure_summary import count_of
from hosting.reports.log import LOG
from hosting.reports.reporter import ENDS
from hosting.reports.status_file import StatusFile
from hosting.reports.store_commands import command_on
from reliable_rx.errors import StoreOwned, described

TOGETHER_S = 1.0
"""Within so long a second signal is the same wish: `timeout` and some service managers send theirs twice."""
TWICE = (
    "it was interrupted by a second signal while it stopped, and has taken no last checkpoint: nothing durable is "
    "lost, and the next start takes the turns behind the checkpoint again"
)


class Stop:
    """Whether SIGTERM or Ctrl-C has come. The second one does not wait for a checkpoint: nothing durable is lost.

    One that comes together with the first is none, also while the process ends: its exit code is that of the first.
    A handler runs in the midst of anything, also of itself and of waits: it takes no lock, and an event has one.
    """

    def __init__(self) -> None:
        self.asked = False
        self._news: SimpleQueue[None] = SimpleQueue()  # whose `put` may be interrupted by another
        self._asked_at = 0.0
        self._has_heard = False
        self._is_over = False

    def __enter__(self) -> Stop:
        self.before = {number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        if not self.asked:
            for number, handler in self.before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._has_heard:
            self._asked_at, self._has_heard = time.monotonic(), True  # first: the next signal may come in what follows
            self.asked = True
            self.wake()
        elif time.monotonic() - self._asked_at >= TOGETHER_S:
            raise KeyboardInterrupt("" if self._is_over else TWICE)

    def wake(self) -> None:
        """Have all end their waiting, as if somebody had asked."""
        self._news.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody asks or *timeout_s* have passed; return whether somebody has asked."""
        with suppress(Empty):
            self._news.get(timeout=timeout_s)
            self.wake()  # the others who wait
        return self.asked


@atexit.register  # before an app is loaded, and so behind what that leaves to the end
def ignore_more() -> None:
    """Let no more signals than a `Stop` has heard decide how the process ends: the interpreter lets go of handlers."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if isinstance(getattr(signal.getsignal(number), "__self__", None), Stop):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def hint_of(stop: Stop) -> Iterator[None]:
    """Say what a second signal does if the first one has not ended it soon, such as while a turn hangs.

    A handler must not write, and the thread that runs the turns may be busy: so another one does.
    """
    ended = threading.Event()

    def say_it() -> None:
        if stop.wait() and not ended.wait(TOGETHER_S):
            say("stopping behind the turn and the calls at work, with a last checkpoint; Ctrl-C again to stop at once")

    thread = threading.Thread(target=say_it, name="stop hint", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        stop.wake()
        thread.join()


def run(where: str, address: StoreAddress, *, plain: bool) -> int:
    """Host the app named by *where*; return 0 when it has ended or was stopped, 3 if something in it has failed."""
    with told_to(address.folder):
        app = load_app(where)
    log_to_stderr()
    errors: list[Exception] = []
    with (
        outlives(), Stop() as stop, hint_of(stop), owned(address) as store, closing(built(app, store)) as evaluator,
        last_words(evaluator),
    ):  # fmt: skip
        evaluator.start()
        greet(evaluator, address)
        feeds = app.start_feeds(evaluator, lambda error: tell(evaluator, "feed", error, errors))
        companions = evaluator.companions
        companions.start(app.companions, started=lambda: look_at_once(evaluator))
        owed = Owed(evaluator.engine.calls, evaluator.outlets, LOG.warning)
        with best_view(plain=plain) as view, Monitor(evaluator, view) as monitor, closing(companions):

            def done() -> bool:
                monitor.serve()
                if companions.error is not None and companions.error not in errors:
                    tell(evaluator, "companion", companions.error, errors)
                if stop.asked or errors:
                    companions.stop()
                    is_over = companions.ended
                elif (feeds or companions) and are_done(feeds, evaluator):
                    is_over = owed.is_paid()
                else:
                    is_over = False
                    owed.forget()
                if is_over:
                    evaluator.stop()  # takes the answers to calls in flight, which `until` alone does not
                return is_over

            evaluator.run(until=done)
            while companions and evaluator.finished and not done():  # what they bring may have partitions of its own
                stop.wait(LOOK_S)
                evaluator.run(until=done)
        evaluator.checkpoint()
        if companions.error is not None and companions.error not in errors:
            tell(evaluator, "companion", companions.error, errors)
        code = farewell(evaluator, stopped=stop.asked or bool(errors))
        if errors:
            raise errors[0]
        return code


@contextmanager
def owned(address: StoreAddress) -> Iterator[Store]:
    """Open the store; why it is refused is left where `status` finds it."""
    with told_to(address.folder):
        store = address.own()
    with store:
        yield store


@contextmanager
def told_to(directory: Path | None) -> Iterator[None]:
    """Leave why a run cannot begin where `status` finds it, unless another process runs in *directory*."""
    try:
        yield
    except Exception as error:
        if directory is not None and (error.__cause__ is not None or not isinstance(error, BadUsage)):
            with suppress(StoreOwned, OSError), ExitStack() as held:
                held.callback(DirectoryLock(directory).release)
                StatusFile(directory).end(str(error) if isinstance(error, BadUsage) else described(error))
        raise


def built(app: App, store: Store) -> QueryEvaluator:
    """Build what runs *app* on *store*; why it cannot be is left where `status` finds it."""
    try:
        return app.evaluator(store)
    except (Exception, SystemExit) as error:
        LOG.error("the run has ended before it began: %s", described(error), extra=ENDS)
        directory = getattr(store, "directory", None)
        if isinstance(directory, Path):
            StatusFile(directory).end(described(error))
        if isinstance(error, SystemExit):
            raise broken_off(error) from error
        raise


def tell(evaluator: QueryEvaluator, kind: str, error: Exception, errors: list[Exception]) -> None:
    """Note that something beside the evaluator has failed, which ends the run."""
    errors.append(error)
    evaluator.incidents.report(kind, "app", f"has failed with {described(error)}; the run ends in order")


@contextmanager
def last_words(evaluator: QueryEvaluator) -> Iterator[None]:
    """Have what ends the run in the log, and where `status` finds it."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        evaluator.reporter.last_words(error)
        raise
    except SystemExit as error:
        evaluator.reporter.last_words(error)
        raise broken_off(error) from error


def broken_off(error: SystemExit) -> SystemExit:
    """Return how a process ends whose app has called `sys.exit`: never with 0, as that has broken the run off."""
    return SystemExit(error.code or 1)


def are_done(feeds: Sequence[threading.Thread], evaluator: QueryEvaluator) -> bool:
    """Whether nothing more can come: all feeds and companions have ended, and all they brought has been taken."""
    if any(feed.is_alive() for feed in feeds) or not evaluator.companions.ended:
        return False
    intake = evaluator.intake
    listed = ((name, each) for name, source in intake.sources.items() for each in source.partitions())
    if intake.unknown or any(each not in intake.partitions for each in listed):
        look_at_once(evaluator)
        return False
    return all(
        partition.ended or known_end(intake.sources[partition.source], partition.name) == partition.position
        for partition in intake.order
    )


def look_at_once(evaluator: QueryEvaluator) -> None:
    """Have the evaluator list partitions now: a companion may just have made some."""
    evaluator.intake.list_soon()
    evaluator.wake()


def greet(evaluator: QueryEvaluator, store: StoreAddress) -> None:
    """Say what is hosted, and where it goes on."""
    recovery = evaluator.recovery
    say(f"{plural(count_of(evaluator.queries()), 'query', 'queries')} on the store {store}")
    if recovery is not None and (recovery.generation or recovery.replayed_turns):
        say(
            f"going on from checkpoint {recovery.generation:,}: replayed {plural(recovery.replayed_events, 'event')} "
            f"in {span(recovery.seconds)}"
        )
    for warning in evaluator.warnings:
        say(f"warning: {warning}")
    say_all(reports_told(evaluator.engine))
    if names := undeclared(evaluator.queries(), evaluator.declared):
        say(told(names, evaluator.store))


def farewell(evaluator: QueryEvaluator, *, stopped: bool) -> int:
    """Say how it ended; return the exit code."""
    statistics = evaluator.statistics()
    why = "stopped" if stopped else "all sources have ended"
    generation = 0 if statistics.checkpoint is None else statistics.checkpoint.generation
    say(
        f"{why}: {plural(statistics.events_in, 'event')} in and {statistics.events_out:,} out in this run; "
        f"checkpoint {generation:,} is durable" + ("; the same command goes on from here" if stopped else "")
    )
    say_all(unanswered(evaluator.engine.calls.askers, evaluator.calls.made))
    failures = [figures for name in evaluator.queries() if (figures := evaluator.query(name)).error]
    for figures in failures[:NAMED_MAX]:
        at = f" with {figures.upstream!r}" if figures.upstream else ""
        if figures.failed_at is not None and not at:
            at = f" at {figures.failed_at}"
        complain(f"query {figures.name!r} has failed{at}: {figures.error}")
    others = [each for each in statistics.incidents if each.kind != "query"]
    for incident in others[:NAMED_MAX]:
        complain(f"{incident}")
    if left := max(0, len(failures) - NAMED_MAX) + max(0, len(others) - NAMED_MAX):
        way = command_on(evaluator.store, "status", "--json")
        complain(f"… and {left:,} more" + (f"; `{way}` has all of them" if way else ""))
    return FAILED if failures or any(each.level == "error" for each in others) else 0
