"""The testing kit, for our operators and for yours: virtual time, marbles, the oracle, conformance suites.

>>> from reliable_rx.testing import check_operator
>>> check_operator(lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: a + x)), alphabet=(1, 2), length_max=2)
21
"""

from reliable_rx.testing.dot_pipe import check_dot_pipe
from reliable_rx.testing.fencing import check_fencing
from reliable_rx.testing.hosted import HOSTED, run_hosted, run_leaping, run_recovered
from reliable_rx.testing.ledger import Ledger, check_ledger
from reliable_rx.testing.marbles import Timed, draw_marbles, parse_marbles
from reliable_rx.testing.oracle import check_operator, small_streams
from reliable_rx.testing.queries import check_query, run_stored
from reliable_rx.testing.recipes import recipes
from reliable_rx.testing.sinks import check_sink
from reliable_rx.testing.sources import check_source
from reliable_rx.testing.virtual_time import RUNNERS, diagram, hot_sources, run_plain, run_rebuilt, run_unhosted
from reliable_rx.unhosted.subscribing import rebuild_state

RUNNERS.update(HOSTED)

__all__ = [
    "HOSTED", "RUNNERS", "Ledger", "Timed", "check_dot_pipe", "check_fencing", "check_ledger", "check_operator",
    "check_query", "check_sink", "check_source", "diagram", "draw_marbles", "hot_sources", "parse_marbles",
    "rebuild_state", "recipes", "run_hosted", "run_leaping", "run_plain", "run_rebuilt", "run_recovered", "run_stored",
    "run_unhosted", "small_streams",
]  # fmt: skip
