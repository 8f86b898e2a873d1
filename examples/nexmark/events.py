"""The events of Nexmark: people, auctions and bids of an auction site, the same for the same seed.

Of 50 events one is a person, three are auctions and 46 are bids, as everywhere that the benchmark is run
(Tucker et al. 2002 describe it, Apache Beam its streams). Half of the bids go to one hot auction of the last
hundred, three of four come from one hot bidder, prices are spread evenly by their logarithm, and some bids
and auctions name an auction or a person that comes only later. Event times continue evenly, and are out of
order within a bound.

Everything is computed in columns: ten million events take some seconds. Texts are drawn from small pools.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SCHEMAS: Final = {
    "person": (
        "id long, name string, email string, credit_card string, city string, state string, "
        "date_time timestamp_ntz, extra string"
    ),
    "auction": (
        "id long, item_name string, description string, initial_bid long, reserve long, "
        "date_time timestamp_ntz, expires timestamp_ntz, seller long, category long, extra string"
    ),
    "bid": (
        "auction long, bidder long, price long, channel string, url string, "
        "date_time timestamp_ntz, extra string"
    ),
    "side_input": "key long, value string",
}
"""The inputs, and their columns: Nexmark's names in snake_case."""

TIME: Final = pa.timestamp("us")
BEGIN: Final = np.datetime64("2026-01-01T23:59:20", "us")
"""Shortly before midnight, so that few events are enough for two days."""

FIRST_ID: Final = 1000
CATEGORIES: Final = 5
FIRST_CATEGORY: Final = 10
OF_50: Final = (1, 3, 46)
IN_FLIGHT: Final = 100
"""How many auctions get bids at a time."""
ACTIVE: Final = 1000
"""How many people sell and bid at a time."""
HOT: Final = 100
"""Of so many auctions or people one is hot."""
LEAD: Final = 10
"""How many auctions or people that do not exist yet may be named."""

Integers = npt.NDArray[np.int64]
Epochs = dict[str, list[pa.Table]]
"""For each input a table for each epoch, as ``run`` takes them."""


@dataclass(frozen=True, slots=True)
class Site:
    """An auction site: how fast events come, how far out of order, and the seed that decides the rest."""

    seed: int = 0
    per_second: int = 1_000
    disorder_seconds: float = 3.0
    """How much older than an event that came before it an event can be."""

    def epochs(self, events: int, count: int) -> Epochs:
        """So many events, cut into so many epochs of one size."""
        cuts = np.linspace(0, events, count + 1).astype(np.int64)
        made: Epochs = {"person": [], "auction": [], "bid": []}
        for first, end in pairwise(cuts):
            for name, table in self.between(int(first), int(end)).items():
                made[name].append(table)
        return made

    def between(self, first: int, end: int) -> Mapping[str, pa.Table]:
        """The events with the numbers from the first up to the end."""
        number = np.arange(first, end, dtype=np.int64)
        place = number % sum(OF_50)
        person, auction = OF_50[0], OF_50[0] + OF_50[1]
        random = np.random.default_rng([self.seed, first])
        return {
            "person": self._people(number[place < person], random),
            "auction": self._auctions(number[(place >= person) & (place < auction)], random),
            "bid": self._bids(number[place >= auction], random),
        }

    def _people(self, number: Integers, random: np.random.Generator) -> pa.Table:
        size, text = len(number), _Texts(random, len(number))
        four = [text.of(_FOUR) for _ in range(4)]
        return pa.table(
            {
                "id": _last_person(number) + FIRST_ID,
                "name": text.of(_NAMES),
                "email": text.of(_EMAILS),
                "credit_card": pc.binary_join_element_wise(*four, " ") if size else pa.array([], pa.string()),
                "city": text.of(_CITIES),
                "state": text.of(_STATES),
                "date_time": self._times(number, random),
                "extra": text.of(_EXTRAS),
            }
        )

    def _auctions(self, number: Integers, random: np.random.Generator) -> pa.Table:
        size, text = len(number), _Texts(random, len(number))
        begins = self._times(number, random)
        # As long as it takes until so many auctions have followed, on average.
        horizon = IN_FLIGHT * sum(OF_50) / OF_50[1] / self.per_second
        lasts = (1_000 + random.random(size) * 2e6 * horizon).astype(np.int64)
        initial = _prices(size, random)
        return pa.table(
            {
                "id": _last_auction(number) + FIRST_ID,
                "item_name": text.of(_ITEMS),
                "description": text.of(_DESCRIPTIONS),
                "initial_bid": initial,
                "reserve": initial + _prices(size, random),
                "date_time": begins,
                "expires": pa.array(begins.to_numpy() + lasts.astype("timedelta64[us]"), TIME),
                "seller": _someone(number, random, offset=0) + FIRST_ID,
                "category": random.integers(0, CATEGORIES, size) + FIRST_CATEGORY,
                "extra": text.of(_EXTRAS),
            }
        )

    def _bids(self, number: Integers, random: np.random.Generator) -> pa.Table:
        size, text = len(number), _Texts(random, len(number))
        last = _last_auction(number)
        earliest = np.maximum(last - IN_FLIGHT, 0)
        some = earliest + (random.random(size) * (last - earliest + 1 + LEAD)).astype(np.int64)
        hot = random.random(size) < 1 / 2
        # Half of the bids come over four channels that all know, the others over ten thousand.
        over = np.where(
            random.random(size) < 1 / 2,
            random.integers(0, _KNOWN, size),
            random.integers(_KNOWN, len(_CHANNELS), size),
        )
        return pa.table(
            {
                "auction": np.where(hot, last // HOT * HOT, some) + FIRST_ID,
                "bidder": _someone(number, random, offset=1) + FIRST_ID,
                "price": _prices(size, random),
                "channel": _CHANNELS.take(pa.array(over)),
                "url": _URLS.take(pa.array(over)),
                "date_time": self._times(number, random),
                "extra": text.of(_EXTRAS),
            }
        )

    def _times(self, number: Integers, random: np.random.Generator) -> pa.Array:
        late = random.random(len(number)) * self.disorder_seconds
        micros = ((number / self.per_second - late) * 1e6).astype(np.int64)
        return pa.array(BEGIN + micros.astype("timedelta64[us]"), TIME)


def side_input(size: int = 10_000) -> pa.Table:
    """The small table that q13 looks bids up in."""
    keys = np.arange(size, dtype=np.int64)
    return pa.table({"key": keys, "value": [f"value-{key}" for key in keys]})


def _last_person(number: Integers) -> Integers:
    """The number of the last person up to an event."""
    return np.asarray(number // sum(OF_50))


def _last_auction(number: Integers) -> Integers:
    """The number of the last auction up to an event."""
    groups, place = np.divmod(number, sum(OF_50))
    return np.asarray(np.maximum(groups * OF_50[1] + np.clip(place - OF_50[0], -1, OF_50[1] - 1), 0))


def _someone(number: Integers, random: np.random.Generator, offset: int) -> Integers:
    """Who sells or bids: three of four times one of the hot ones, else a person who is active, or will be."""
    last = _last_person(number)
    active = np.minimum(last + 1, ACTIVE)
    some = last + 1 - active + (random.random(len(number)) * (active + LEAD)).astype(np.int64)
    return np.asarray(np.where(random.random(len(number)) < 3 / 4, last // HOT * HOT + offset, some))


def _prices(size: int, random: np.random.Generator) -> Integers:
    """From one to a million dollars, in cents, evenly by their logarithm."""
    return np.rint(10.0 ** (random.random(size) * 6) * 100).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Texts:
    """Draws texts from pools."""

    random: np.random.Generator
    size: int

    def of(self, pool: pa.Array) -> pa.Array:
        """One of the pool for each row."""
        return pool.take(pa.array(self.random.integers(0, len(pool), self.size)))


def _words(seed: int, count: int, least: int, most: int) -> Iterator[str]:
    """Random words; the same in every process."""
    random = np.random.default_rng(seed)
    for length in random.integers(least, most + 1, count):
        yield "".join(map(chr, random.integers(ord("a"), ord("z") + 1, length)))


_FIRST: Final = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Walter"]
_LAST: Final = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_NAMES: Final = pa.array([f"{first} {last}" for first in _FIRST for last in _LAST])
_EMAILS: Final = pa.array([f"{word[:7]}@{word[7:]}.com" for word in _words(1, 1_000, 12, 12)])
_FOUR: Final = pa.array([f"{number:04d}" for number in range(10_000)])
_PLACES: Final = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
_CITIES: Final = pa.array(_PLACES.split(","))
_STATES: Final = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_ITEMS: Final = pa.array(list(_words(2, 1_000, 10, 20)))
_DESCRIPTIONS: Final = pa.array(list(_words(3, 1_000, 50, 100)))
_EXTRAS: Final = pa.array(list(_words(4, 1_000, 20, 60)))

_KNOWN: Final = 4
_CHANNELS: Final = pa.array(
    ["Google", "Facebook", "Baidu", "Apple", *(f"channel-{i}" for i in range(10_000))]
)
_URLS: Final = pa.array(
    [
        # Nine of ten channels without a known name are named in their links.
        f"https://www.nexmark.com/{word[:5]}/{word[5:10]}/{word[10:]}/item.htm?query=1"
        + (f"&channel_id={i * 2_654_435_761 % 2**31}" if i >= _KNOWN and i % 10 else "")
        for i, word in enumerate(_words(5, len(_CHANNELS), 15, 15))
    ]
)
