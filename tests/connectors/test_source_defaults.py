"""Optional methods of sources and watches: defaults for classes that do not inherit, and for those that do.

Families:

- *plain*: a class with the required methods only gets every default, and one with some options keeps them;
- *inherited*: a dataclass that inherits the base keeps its fields, without defaults of the protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest

from pointstamp.connectors.memory import Rows
from pointstamp.connectors.source import (
    AllAtOnce,
    Part,
    Position,
    SourceBase,
    Unit,
    Watch,
    complete_source,
    complete_watch,
    identity_of_source,
    moved_from_of,
)

PART = Part("a", 1)
UNIT = Unit("a", (PART,))


class Plain:
    """A source with the required methods only."""

    units_per_tick = 3

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        return AllAtOnce([UNIT])

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema)

    def after(self, position: Position, unit: Unit) -> Position:
        return (position, unit.name)

    def describe(self) -> str:
        return "plain"


class WithOptions(Plain):
    """A source with some of the optional methods, and one that fails."""

    moved_from = "/old"

    def lanes(self, position: Position) -> list[int]:
        return [1, 2]

    def skipped(self, part: Part) -> int:
        return 5

    def renewed(self, unit: Unit) -> Unit | None:
        return None

    def identity(self) -> dict[str, str]:
        return {"kind": "mailbox"}

    def check(self) -> None:
        raise ValueError("checked")


class PlainWatch:
    """A watch with the required methods only."""

    is_finished = True

    def poll(self) -> list[Unit]:
        return [UNIT]

    def fileno(self) -> int | None:
        return 7

    def close(self) -> None:
        raise ValueError("closed")


def test_a_source_without_options_has_their_defaults_and_its_own_methods() -> None:
    source = complete_source(Plain())
    source.check()
    assert source.units_named(None, ["a"]) is None
    assert source.renewed(UNIT) is UNIT
    assert (source.share_of_tick(UNIT), source.skipped(PART)) == (0.0, 0)
    assert (source.lanes(None), source.moved_from, moved_from_of(source)) == (None, None, None)
    assert identity_of_source(source) == identity_of_source(Plain()) == {"kind": "Plain"}
    assert (source.units_per_tick, source.describe(), source.after(1, UNIT)) == (3, "plain", (1, "a"))
    assert source.watch(None).poll() == [UNIT]


def test_a_source_with_options_keeps_them() -> None:
    source = complete_source(WithOptions())
    assert (source.lanes(None), source.skipped(PART), source.renewed(UNIT)) == ([1, 2], 5, None)
    assert (source.moved_from, moved_from_of(source)) == ("/old", "/old")
    assert identity_of_source(source) == {"kind": "mailbox"}
    with pytest.raises(ValueError, match="checked"):
        source.check()


def test_a_watch_without_options_has_their_defaults_and_its_own_methods() -> None:
    watch = complete_watch(PlainWatch())
    watch.refresh()
    assert (watch.waits_for(), watch.is_refreshing) == (None, False)
    assert (watch.poll(), watch.fileno(), watch.is_finished) == ([UNIT], 7, True)
    with pytest.raises(ValueError, match="closed"):
        watch.close()


def test_completing_twice_changes_nothing() -> None:
    source, watch = complete_source(Plain()), complete_watch(PlainWatch())
    assert complete_source(source) is source
    assert complete_watch(watch) is watch
    rows = Rows(())
    assert complete_source(rows) is rows


def test_a_dataclass_that_inherits_has_no_defaults_of_the_protocol() -> None:
    @dataclass(frozen=True, slots=True)
    class Inherited(SourceBase):
        units_per_tick: int | None
        place: str

        def watch(self, position: Position, *, available_now: bool = False) -> Any:  # noqa: ANN401
            return AllAtOnce([])

        def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            return iter(())

        def after(self, position: Position, unit: Unit) -> Position:
            return position

        def describe(self) -> str:
            return self.place

    source = Inherited(2, "here")
    assert [each.name for each in fields(source)] == ["units_per_tick", "place"]
    assert (source.units_per_tick, source.lanes(None), source.moved_from) == (2, None, None)
    assert complete_source(source) is source
