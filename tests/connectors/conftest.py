"""A PostgreSQL that the tests of sinks share; each takes schemas of its own."""

from collections.abc import Iterator

import pytest

from support.postgres import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running
