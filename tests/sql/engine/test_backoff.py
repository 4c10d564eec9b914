"""The formula of the intervals between attempts, against exact arithmetic."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

TEN_YEARS = 315_360_000

#: No rounding that could be seen, and no power that is too large.
EXACT = Context(prec=60, Emax=999_999_999_999, Emin=-999_999_999_999)

intervals = st.floats(0.001, TEN_YEARS)
coefficients = st.one_of(
    st.just(1.0), st.floats(1, 1.001), st.floats(1, 4), st.floats(1, 1e10), st.integers(1, 10)
)
attempts = st.one_of(st.integers(1, 12), st.integers(1, 10**6))


@pytest.fixture(scope="module")
def asked(create: Callable[..., Database], template: Database) -> psycopg.Connection:
    """Return a session that only asks."""
    return create(template.name).connect()


def oracle(initial: float, coefficient: float, maximum: float, attempt: int) -> Decimal:
    """Return what Temporal waits after failed attempt number *attempt*."""
    power = EXACT.power(Decimal(coefficient), attempt - 1)
    return min(Decimal(maximum), EXACT.multiply(Decimal(initial), power))


@given(intervals, coefficients, intervals, attempts)
@example(10, 2, 1000, 7)
@example(10, 2, 1000, 8)
@example(0.001, 1e10, TEN_YEARS, 10**6)
@example(0.001, 1e10, TEN_YEARS, 2)
@example(1, 2, 2**28, 29)
@example(1, 3, 3**17, 18)
@example(1, 3, 3**17 + 1, 19)
@example(TEN_YEARS, 1.5, 0.001, 1)
def test_backoff(
    asked: psycopg.Connection, initial: float, coefficient: float, maximum: float, attempt: int
) -> None:
    """The interval is the oracle's, but for what floating point cannot tell."""
    (seconds,) = asked.execute(
        "select _pgwhen.backoff(%s::float8, %s::float8, %s::float8, %s)",
        [initial, coefficient, maximum, attempt],
    ).fetchone() or [None]

    assert seconds is not None
    assert seconds <= maximum
    assert seconds == pytest.approx(float(oracle(initial, coefficient, maximum, attempt)), rel=1e-9)


@given(intervals, coefficients, intervals, attempts)
def test_backoff_never_shrinks(
    asked: psycopg.Connection, initial: float, coefficient: float, maximum: float, attempt: int
) -> None:
    """No interval is shorter than the one before."""
    row = asked.execute(
        "select _pgwhen.backoff(%(i)s::float8, %(c)s::float8, %(m)s::float8, %(n)s)"
        " <= _pgwhen.backoff(%(i)s::float8, %(c)s::float8, %(m)s::float8, %(n)s + 1)",
        {"i": initial, "c": coefficient, "m": maximum, "n": attempt},
    ).fetchone()

    assert row == (True,)
