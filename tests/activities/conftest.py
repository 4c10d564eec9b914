"""One database for all tests of activities: each begins by emptying it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.activities.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support import Database


@pytest.fixture(scope="session")
def the_shop(create: Callable[..., Database], template: Database) -> Shop:
    """Return the shop that all share."""
    return Shop(create(template.name).connect())


@pytest.fixture
def shop(the_shop: Shop) -> Shop:
    """Return the shop, empty, with a type that says nothing of timeouts and retries."""
    the_shop.reset()
    return the_shop
