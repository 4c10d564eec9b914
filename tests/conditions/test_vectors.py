"""
The vectors of ``tests/conditions.json``, which anyone can run against anything.

A vector has a ``name`` and a ``condition``, and either ``facts`` with what to ``expect`` (and,
where they matter, ``as_of`` and ``audiences``), or an ``error``: the SQLSTATE and the place of the
first fault.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support import ROOT

from . import model

TEXT = (ROOT / "tests" / "conditions.json").read_text(encoding="utf-8")
VECTORS: list[dict[str, Any]] = json.loads(TEXT)


def having(key: str) -> list[Any]:
    """Return the vectors that have *key* as parameters, named after them."""
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS if key in vector]


@pytest.fixture(scope="module")
def vectors(session: psycopg.Connection) -> psycopg.Connection:
    """Return the session with the vectors in a table: Postgres reads them, 1e400 included."""
    session.execute("create temp table vector (name text primary key, content jsonb)")
    session.execute(
        "insert into vector select v ->> 'name', v from jsonb_array_elements(%s) as v", [TEXT]
    )
    return session


@pytest.mark.parametrize("vector", having("expect"))
def test_holds(vectors: psycopg.Connection, vector: dict[str, Any]) -> None:
    """A condition holds of a document, or does not."""
    row = vectors.execute(
        """
        select pgwhen.matches(
            condition => content -> 'condition',
            facts => content -> 'facts',
            as_of => (content ->> 'as_of')::timestamptz,
            audiences => array(select jsonb_array_elements_text(content -> 'audiences'))
        )
        from vector
        where name = %s
        """,
        [vector["name"]],
    ).fetchone()
    assert row == (vector["expect"],)


@pytest.mark.parametrize("vector", having("error"))
def test_refuses(vectors: psycopg.Connection, vector: dict[str, Any]) -> None:
    """A faulty condition is refused with a code, the place of its first fault and a hint."""
    with pytest.raises(psycopg.Error) as raised:
        vectors.execute(
            "select _pgwhen.compile_condition(content -> 'condition') from vector where name = %s",
            [vector["name"]],
        )
    diagnosis = raised.value.diag
    assert diagnosis.sqlstate == vector["error"]["code"]
    assert (diagnosis.message_primary or "").startswith(vector["error"]["path"] + ": ")
    assert diagnosis.message_hint


def test_model_agrees() -> None:
    """The model that judges generated conditions judges the vectors right, too.

    Left out are those on times and on regular expressions: the model has Python's.
    """
    for vector in VECTORS:
        if "expect" in vector and not vector["name"].startswith(("$now", "$regex /")):
            holds = model.matches(
                vector["condition"] or {},
                vector["facts"],
                audiences=frozenset(vector.get("audiences", ())),
            )
            assert holds is vector["expect"], vector["name"]
