"""A store on a host of its own: cut off in the middle of a query, and far away on a wire that loses packets.

Nothing is published twice and nothing is lost, and the query continues by itself when the store is back.
"""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from time import sleep
from typing import Any

import pytest

from support.hosts import TESTS, Hosts
from support.s3 import BUCKET, KEYS
from support.store_drivers import words_of
from support.streams import until

pytestmark = pytest.mark.long

SECONDS_MAX = 400
CUT_SECONDS = 10
EPOCHS = 12
DRIVER, STORE = 0, 1
READ = """
import sys, pointstamp as ps
for row in ps.read_table(sys.argv[1] + "/output", "counts").to_pylist():
    sys.stdout.write(f"{row['word']} {row['count']}\\n")
"""


class Store:
    """An S3 on a host, and processes on another that use it."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        address = hosts.address(STORE)
        server = hosts.start(
            STORE,
            *(sys.executable, "-m", "support.s3", 0, address),
            env={**os.environ, "PYTHONPATH": TESTS},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        endpoint = f"http://{address}:{int(server.stdout.readline())}"
        server.stdout.close()  # it says nothing else
        self._environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": endpoint, "PYTHONPATH": TESTS}

    def run(self, *arguments: object) -> "subprocess.Popen[Any]":
        return self.hosts.start(
            DRIVER, sys.executable, *arguments, env=self._environment, stdout=subprocess.PIPE, text=True
        )

    def counts(self, address: str) -> Counter[str]:
        said, _ = self.run("-c", READ, address).communicate(timeout=SECONDS_MAX)
        rows = [line.split() for line in said.splitlines()]
        assert len({word for word, _ in rows}) == len(rows)
        return Counter({word: int(count) for word, count in rows})


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Hosts(2) as hosts:
        yield Store(hosts)


def expected() -> Counter[str]:
    return Counter(row["word"] for epoch in range(EPOCHS) for row in words_of(epoch))


def test_a_query_goes_on_when_the_host_of_its_store_is_back(store: Store) -> None:
    address = f"s3://{BUCKET}/cut"
    driver = store.run("-m", "support.store_drivers", "count", address, EPOCHS)
    said: list[str] = []
    lines = driver.stdout
    assert lines is not None
    listening = threading.Thread(target=lambda: said.extend(lines), daemon=True)
    listening.start()
    until(
        lambda: any(line.startswith("published") for line in said) or driver.poll() is not None, SECONDS_MAX
    )
    store.hosts.cut(STORE)
    sleep(CUT_SECONDS)
    assert driver.poll() is None  # it waits
    store.hosts.mend(STORE)
    assert driver.wait(SECONDS_MAX) == 0
    listening.join(SECONDS_MAX)
    lines.close()
    assert store.counts(address) == expected()


def test_a_store_that_is_far_away_and_loses_packets_costs_no_epoch(store: Store) -> None:
    address = f"s3://{BUCKET}/far"
    store.hosts.put_far_away(STORE, 50, 2)
    try:
        driver = store.run("-m", "support.store_drivers", "count", address, EPOCHS)
        driver.communicate(timeout=SECONDS_MAX)
        assert driver.returncode == 0
    finally:
        store.hosts.bring_near(STORE)
    assert store.counts(address) == expected()
