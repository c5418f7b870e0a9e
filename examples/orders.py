"""Orders typed on the standard input, each durable before the next is read: totals by customer into a file.

    printf 'ann 3\\nbob 4\\nann 5\\n' | reliable-rx run examples/orders.py:app

Run it again with other orders: the totals go on from where they were. A line that is no order goes to the stream
``totals.dead_letters`` and stops nothing.
"""

from __future__ import annotations

import sys

import reliable_rx as rx
from hosting import App, JsonLinesSink, QueryEvaluator

app = App()
orders = app.push("orders")


def customer(line: str) -> str:
    return line.split()[0]


def amount(line: str) -> int:
    return int(line.split()[1])


app.query(
    "totals",
    rx.source("orders")
    .group_by(customer)
    .flat_map(
        lambda who: who.map(amount).scan(lambda total, one: total + one, 0).map(lambda total: {who.key: total}),
    ),
    policy="dead_letter",
)
app.sink("totals", lambda: JsonLinesSink("totals.jsonl"))


@app.feed
def read_orders(evaluator: QueryEvaluator) -> None:
    """Push every line; what is not acknowledged here was never taken."""
    for line in sys.stdin:
        orders.on_next(line.strip())
