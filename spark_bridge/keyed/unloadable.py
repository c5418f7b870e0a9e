"""Keys whose state has gone into bytes and does not come out of them: each ends with a row, and the others go on.

A class may pickle and not unpickle, a selector may raise when its inner sequence is opened again. As in an evaluator
(`hosting.engine.unloadable`) it ends the query that holds it, here that of one key, under the next id of that key.
What is missing where the bytes are read (a module that a worker has not got, code of another interpreter) is another
matter: it is no key's fault and would end them all, so it is refused, and nothing is given up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from checkpoint.format.salvage import OTHER_CODE, Unreadable
from hosting.engine.unloadable import first_lost, unloadable, unreadable
from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.arguments import cut
from spark_bridge.keyed.blob import Content

REMEDY = "keep plain data in it, or give the class a __reduce__ that makes the value again"


class KeySpoilt(CheckpointRefused):
    """The state of one key cannot be had again, which ends its query. Field: *emitted*, how much it has emitted."""


def spoilt(key: Hashable, emitted: int, found: Unreadable | BaseException) -> KeySpoilt:
    """Return what is said of *key*, in whose state there is an unreadable part, or which an error keeps from coming up.

    *Raises* `CheckpointRefused` if what is missing is not the state's fault.
    """
    check_not_missing(key, found)
    why = unreadable(found) if isinstance(found, Unreadable) else unloadable(found)
    return KeySpoilt(f"key {cut(key)}: {why}: {REMEDY}", what=str(why.fields["what"]), where="state", emitted=emitted)


def check_not_missing(key: Hashable, found: Unreadable | BaseException) -> None:
    """*Raises* `CheckpointRefused` if the state of *key* wants a class, a module or an interpreter that is not here."""
    what, remedy = "", "bring it to every worker (a class that has moved needs its old name too)"
    if isinstance(found, Unreadable) and found.reason == OTHER_CODE:
        what, remedy = found.kind, "run the workers with the Python and the packages that have stored it"
    else:
        why = unreadable(found) if isinstance(found, Unreadable) else unloadable(found)
        what = str(why.fields.get("gone", ""))
    if what:
        raise CheckpointRefused(
            f"the state of key {cut(key)} needs {what}, which cannot be loaded here: {remedy}; nothing has been given "
            f"up",
            what=what,
            where="state",
        )


def spoilt_in(content: Content, lost: Sequence[Unreadable]) -> Iterator[tuple[Hashable, KeySpoilt]]:
    """Yield the keys in *content* that hold one of the *lost* parts.

    *Raises* `CheckpointRefused` if what is missing is not the fault of a state, or is in none that can be looked into.
    """
    is_found = not lost
    for key in dict.fromkeys((*content.rows, *content.waiting)) if lost else ():
        row = content.rows.get(key)
        part = first_lost((row, content.waiting.get(key)))
        if part is not None:
            is_found = True
            emitted = row[0] if type(row) is tuple else content.first_id if row is None else abs(row)
            yield key, spoilt(key, emitted, part)
    if not is_found:
        raise CheckpointRefused(f"the state of a bucket cannot be read: {lost[0]}", what=lost[0].kind, where="bucket")
