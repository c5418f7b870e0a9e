"""Optional packages that parts of the testing kit need, imported on first use.

Rejected: a dependency of everybody's (only checks that draw their examples need it).
"""

from __future__ import annotations


def need_hypothesis() -> None:
    """*Raises* `ModuleNotFoundError`, with the remedy, where Hypothesis is not installed."""
    try:
        import hypothesis  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this part of the testing kit draws its examples with Hypothesis, which is not installed: "
            "run pip install hypothesis",
            name=error.name,
        ) from error
