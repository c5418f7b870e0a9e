"""A real Ctrl-C is told from a `KeyboardInterrupt` that a function raises by itself, however either comes about."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from signal import SIGINT, Signals, default_int_handler, pthread_kill, raise_signal, signal
from typing import Any

import pytest
from test_map_async_hosted import values_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator


def plain() -> None:
    raise KeyboardInterrupt


def from_an_error() -> None:
    raise KeyboardInterrupt("why") from ValueError()


def again() -> None:
    try:
        plain()
    except KeyboardInterrupt as error:
        raise error


def with_the_callers_frame() -> None:
    caller = sys._getframe(1)
    if caller:
        raise KeyboardInterrupt


def thrown_into_a_generator() -> None:
    generator = (n for n in [1, 2])
    next(generator)
    generator.throw(KeyboardInterrupt)


def thrown_at_its_start() -> None:
    (n for n in [1]).throw(KeyboardInterrupt)


@contextmanager
def block() -> Iterator[None]:
    yield


def in_a_context() -> None:
    with block():
        raise KeyboardInterrupt


def in_a_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(plain).result()


def of_a_future() -> None:
    future: Future[None] = Future()
    future.set_exception(KeyboardInterrupt())
    future.result()


async def awaits_a_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(KeyboardInterrupt())
    await future


async def awaits_one_that_fails_later() -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, KeyboardInterrupt())
    await future


def with_arguments(*given: Any) -> None:
    given = len(given)  # type: ignore[assignment]
    raise KeyboardInterrupt(given)


def without_end(*given: Any) -> None:
    given = count()  # type: ignore[assignment]
    raise KeyboardInterrupt(given)


def on_a_loop(call: Callable[[], Any]) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(call())
    finally:
        loop.close()


class Index:
    def __index__(self) -> int:
        raise KeyboardInterrupt


OWN: dict[str, Callable[[], Any]] = {
    "plain": plain,
    "from an error": from_an_error,
    "again": again,
    "with the caller's frame": with_the_callers_frame,
    **({"thrown into a generator": thrown_into_a_generator} if sys.version_info < (3, 13) else {}),
    "thrown at its start": thrown_at_its_start,
    "in a context": in_a_context,
    "with arguments that are bound again": with_arguments,
    "with arguments without end": without_end,
    "in a thread": in_a_thread,
    "of a future": of_a_future,
    "of an awaited future": partial(on_a_loop, awaits_a_future),
    "of one that fails later": partial(on_a_loop, awaits_one_that_fails_later),
    "in C": lambda: [1, 2][Index()],  # type: ignore[call-overload]
    "as a key": lambda: sorted([1, 2], key=lambda n: plain()),
    "in text": lambda: exec("raise KeyboardInterrupt"),
}


class Handlers:
    def __init__(self) -> None:
        self.heard = 0

    def method(self, number: int, frame: Any) -> None:
        self.heard += 1
        plain()

    def with_more(self, more: str, number: int, frame: Any) -> None:
        self.method(number, frame)


def puts_the_former_back(number: int, frame: Any) -> None:
    signal(SIGINT, default_int_handler)
    raise KeyboardInterrupt


def hands_on(*given: Any) -> None:
    default_int_handler(*given)


def names_the_signal(number: int, frame: Any) -> None:
    number = Signals(number)
    raise KeyboardInterrupt(number.name)


def binds_its_number_anew(number: Any, frame: Any) -> None:
    number = Signals(number).name
    raise KeyboardInterrupt(number)


def drops_its_arguments(number: int, frame: Any) -> None:
    del number, frame
    raise KeyboardInterrupt


def takes_them_apart(*given: Any) -> None:
    number, _ = given
    given = ()
    raise KeyboardInterrupt(number)


class Stopping:
    """A handler that is an object."""

    def __call__(self, number: int, frame: Any = None) -> None:
        del frame
        plain()


HANDLERS: dict[str, Any] = {
    "the default": default_int_handler,
    "a method": Handlers().method,
    "of any arguments": lambda *given: plain(),
    "with more arguments": partial(Handlers().with_more, "more"),
    "that puts the former back": puts_the_former_back,
    "that hands on": hands_on,
    "that names the signal": names_the_signal,
    "that binds its number anew": binds_its_number_anew,
    "that drops its arguments": drops_its_arguments,
    "that takes them apart": takes_them_apart,
    "an object": Stopping(),
}


def asked_to_stop() -> None:
    raise_signal(SIGINT)


def while_it_waits() -> None:
    main, waiting = threading.get_ident(), threading.Event()
    threading.Thread(target=lambda: (waiting.wait(), pthread_kill(main, SIGINT))).start()
    waiting.set()
    threading.Event().wait(60)


def while_a_generator_waits_in_c() -> None:
    main = threading.get_ident()
    threading.Timer(0.05, pthread_kill, (main, SIGINT)).start()

    def naps() -> Iterator[Any]:
        yield from map(threading.Event().wait, [60.0])

    list(naps())


def in_a_generator() -> None:
    list(raise_signal(number) for number in [SIGINT])  # noqa: C400 - a list comprehension has no frame


async def waits() -> None:
    asyncio.get_running_loop().call_soon(raise_signal, SIGINT)
    await asyncio.sleep(60)


async def asks() -> None:
    raise_signal(SIGINT)


REAL: dict[str, Callable[[], Any]] = {
    "at once": asked_to_stop,
    "while it waits": while_it_waits,
    "in a generator": in_a_generator,
    "while a generator waits in C": while_a_generator_waits_in_c,
    "in a coroutine": partial(on_a_loop, asks),
    "in a coroutine that waits": partial(on_a_loop, waits),
    "in a coroutine of its own loop": lambda: asyncio.run(waits()),
}


class At:
    """Does so at the second element."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self.does = does

    def __call__(self, n: int) -> int:
        if n == 2:
            self.does()
        return n


def evaluator_of(does: Callable[[], Any], store: MemoryStore) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("q", rx.source("n").map(At(does)))
    evaluator.create("other", rx.source("n"))
    return evaluator


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("way", OWN)
def test_what_a_function_raises_is_its_own(way: str, handler: str) -> None:
    """Its query fails, the others go on, and the next start opens the store."""
    store = MemoryStore()
    before = signal(SIGINT, HANDLERS[handler])
    try:
        with evaluator_of(OWN[way], store) as evaluator:
            evaluator.run()
        assert evaluator.query("q").error.startswith("KeyboardInterrupt")
        assert evaluator.query("other").status == "completed"
    finally:
        signal(SIGINT, before)
    with evaluator_of(OWN[way], store.reopen()) as evaluator:
        evaluator.run()
        assert values_of(evaluator, "other") == [1, 2, 3]
    exec("pass")  # or Python, which takes note of an interrupt in such a text, ends with 130 though it was caught


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("way", REAL)
def test_an_interrupt_is_nobodys_failure(way: str, handler: str) -> None:
    """It comes out of the run, no query has failed of it, and the next start takes the turn anew."""
    store = MemoryStore()
    before = signal(SIGINT, HANDLERS[handler])
    try:
        with pytest.raises(KeyboardInterrupt), evaluator_of(REAL[way], store) as evaluator:
            evaluator.run()
    finally:
        signal(SIGINT, before)
    with evaluator_of(int, store.reopen()) as evaluator:
        evaluator.run()
        for name in ("q", "other"):
            assert (evaluator.query(name).status, values_of(evaluator, name)) == ("completed", [1, 2, 3])


def test_off_the_main_thread_nothing_is_an_interrupt() -> None:
    """No signal is heard there, whatever the traceback looks like."""
    caught: list[BaseException] = []

    def work() -> None:
        with evaluator_of(lambda: Handlers().method(2, sys._getframe()), MemoryStore()) as evaluator:
            evaluator.run()
        caught.append(ValueError(evaluator.query("q").error))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert str(caught[0]).startswith("KeyboardInterrupt")
