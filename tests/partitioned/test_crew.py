"""The crew: few threads, many tasks, each by one thread at a time, and no wake-up lost."""

from __future__ import annotations

import threading

from conditions import until

from hosting.partitioned.crew import DONE, Crew


def test_a_task_is_run_by_one_thread_at_a_time() -> None:
    """Four threads and eight wakers: no two threads are ever inside one task."""
    crew, inside, overlaps, runs = Crew(threads=4), threading.Lock(), [], [0]

    def step() -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(1)
            return
        runs[0] += 1
        inside.release()

    task = crew.task(step)
    wakers = [threading.Thread(target=lambda: [task.wake() for _ in range(2_000)]) for _ in range(8)]
    for each in wakers:
        each.start()
    for each in wakers:
        each.join()
    until(lambda: runs[0] > 0, "a run")
    crew.close()
    assert not overlaps


def test_no_wake_up_is_lost() -> None:
    """S15: whatever is said before a wake-up is seen by a run that begins after it."""
    crew, said, seen = Crew(threads=2), [0], [0]

    def step() -> None:
        seen[0] = said[0]

    task = crew.task(step)
    for number in range(1, 3_000):
        said[0] = number
        task.wake()
    until(lambda: seen[0] == 2_999, "the last word")
    crew.close()


def test_a_task_comes_again_when_it_said_so() -> None:
    """A task that asks for a later run gets it, also if it was woken and asked for a later one in between."""
    crew, runs = Crew(threads=1), [0]

    def step() -> float:
        runs[0] += 1
        return 0.01 if runs[0] < 5 else DONE

    crew.task(step).wake()
    until(lambda: runs[0] == 5)
    crew.close()


def test_what_is_over_is_not_called_again() -> None:
    """After `DONE`, or after it has raised, a task stays away however often it is woken; the others go on."""
    crew, runs, other = Crew(threads=1), [0], threading.Event()

    def step() -> float:
        runs[0] += 1
        raise RuntimeError("no more")

    task = crew.task(step)
    task.wake()
    until(lambda: runs[0] == 1)
    task.wake()
    crew.task(lambda: other.set() or DONE).wake()
    assert other.wait(60.0)
    crew.close()
    assert runs[0] == 1


def test_a_stuck_task_is_relieved() -> None:
    """While one task does not return, a thread takes its thread's place; afterwards there are as many as before."""
    crew, go_on, other = Crew(threads=1), threading.Event(), threading.Event()
    crew.task(lambda: go_on.wait(60.0) and DONE).wake()
    crew.task(lambda: other.set() or DONE).wake()
    until(lambda: crew.relieve(0.01) == 1, "the stuck one")
    assert other.wait(60.0)
    crew.relieve(0.01)
    assert len(crew._threads) == 2, "relieved once"
    go_on.set()
    until(lambda: len(crew._threads) == 1, "the relieved thread's end")
    crew.close()


def test_who_lets_others_go_first_comes_too() -> None:
    """Patient tasks wait for those that are ready, but not for ever."""
    crew, came, hold = Crew(threads=1), list[str](), threading.Event()
    crew.task(lambda: hold.wait(60.0) and DONE).wake()
    patient = crew.task(lambda: came.append("patient") or DONE)
    patient.patient = True
    patient.wake()

    def busy() -> float:
        came.append("busy")
        return 0.0 if len(came) < 100 else DONE

    crew.task(busy).wake()
    hold.set()
    until(lambda: len(came) >= 100)
    crew.close()
    assert 0 < came.index("patient") < 20
