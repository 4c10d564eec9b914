"""What a measure gives back: ratios with their goals, printed one a line."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Ratio:
    """A value and what is asked of it: at least *goal*, or at most, where *at_most*."""

    name: str
    value: float
    goal: float
    at_most: bool = False

    @property
    def ok(self) -> bool:
        """Whether the goal is reached by the value as it is printed."""
        value = round(self.value, 2)
        return value <= self.goal if self.at_most else value >= self.goal

    def __str__(self) -> str:
        """Name, value, goal and verdict."""
        goal = f"{'<=' if self.at_most else '>='}{self.goal:g}"
        return f"{self.name} {self.value:.2f} {goal} {'ok' if self.ok else 'short'}"


def paired(product: Sequence[float], yardstick: Sequence[float]) -> float:
    """Return the median of the rounds' ratios: what slows a whole round slows both sides of it."""
    return median(p / y for p, y in zip(product, yardstick, strict=True))


def quantile(values: Iterable[float], q: float) -> float:
    """Return the smallest value that at least the part *q* of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)
