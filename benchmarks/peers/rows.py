"""The rows of the table of peers: what is measured, with which sizes, and who takes part."""

from dataclasses import dataclass, field
from typing import Final

Sizes = dict[str, int]

TURNS: Final = 3


@dataclass(frozen=True)
class Measurement:
    """One measurement, which gives a figure for each of its titles; titles name sizes in braces."""

    titles: tuple[str, ...]
    ours: str
    """The case of ``ours``."""
    sizes: Sizes
    short: Sizes
    """The sizes that are others in a short run."""
    rust: dict[str, str] = field(default_factory=dict)
    """The cases of the Rust program, by contender."""
    python: tuple[str, ...] = ()
    """The Python peers that take part; they are given rows, epochs and keys."""
    processes: int = 1
    per: int = 1
    """The figure is shown for so many of what is measured."""

    def sizes_of(self, *, short: bool) -> Sizes:
        """The sizes of a run."""
        return {**self.sizes, **(self.short if short else {})}


_COUNTS: Final = {"timely": "count-timely", "differential": "count-differential"}
_LARGE: Final = {"rows": 10_000_000, "keys": 100_000, "epochs": 1, "repeated": 3}
_SMALL: Final = {"rows": 1_000, "keys": 100_000, "epochs": 1_000, "repeated": 1}
_CHANGES: Final = {"rows": 1_000_000, "change": 1_000, "epochs": 200, "deletes": 1}
_INSERTS: Final = {**_CHANGES, "deletes": 0}
_FEW: Final = {"epochs": 50}
_FEWER_ROWS: Final = {"rows": 100_000, "repeated": 1}

MEASUREMENTS: Final = (
    Measurement(
        ("running count of {rows:,} rows over {keys:,} keys, 1 worker",),
        "count",
        _LARGE,
        _FEWER_ROWS,
        _COUNTS,
        ("pathway",),
    ),
    Measurement(
        ("running count of {rows:,} rows over {keys:,} keys, 2 processes",),
        "count, 2 processes",
        _LARGE,
        _FEWER_ROWS,
        _COUNTS,
        processes=2,
    ),
    Measurement(
        ("running count of {rows:,} rows over {keys:,} keys, 1 worker",),
        "count",
        {**_LARGE, "rows": 1_000_000},
        {"rows": 50_000, "repeated": 1},
        _COUNTS,
        ("bytewax",),
    ),
    Measurement(
        ("epoch of 1 row, 1 worker",),
        "one row",
        {"rows": 1, "keys": 100, "epochs": 2_000, "repeated": 1},
        _FEW,
        _COUNTS,
        ("bytewax", "pathway"),
    ),
    Measurement(
        ("epoch of {rows:,} rows, 1 worker",), "count", _SMALL, _FEW, _COUNTS, ("bytewax", "pathway")
    ),
    Measurement(
        ("epoch of {rows:,} rows, 2 processes",), "count, 2 processes", _SMALL, _FEW, _COUNTS, processes=2
    ),
    Measurement(
        ("empty epoch, 1 worker",), "empty epochs", {"epochs": 5_000}, _FEW, {"timely": "empty-epochs"}
    ),
    Measurement(
        ("empty epoch, 2 processes",),
        "empty epochs, 2 processes",
        {"epochs": 1_000},
        _FEW,
        {"timely": "empty-epochs"},
        processes=2,
    ),
    Measurement(
        ("empty round of a loop, 1 worker",),
        "empty rounds",
        {"rounds": 5_000},
        {"rounds": 100},
        {"timely": "empty-rounds"},
    ),
    Measurement(
        ("empty round of a loop, 2 processes",),
        "empty rounds, 2 processes",
        {"rounds": 1_000},
        {"rounds": 100},
        {"timely": "empty-rounds"},
        processes=2,
    ),
    Measurement(
        ("exchange of 1,000 rows of 8 bytes, 2 processes",),
        "exchange",
        {"rows": 100_000, "batches": 20},
        {"rows": 10_000, "batches": 2},
        {"timely": "exchange"},
        processes=2,
        per=1_000,
    ),
    Measurement(
        (
            "components of {vertices:,} vertices and twice as many edges, load, 1 worker",
            "{edges} edges more into {vertices:,} vertices, 1 worker",
        ),
        "components",
        {"vertices": 1_000_000, "edges": 100, "epochs": 100},
        {"vertices": 10_000},
        {"timely": "components-timely", "differential": "components-differential"},
    ),
    Measurement(
        ("{change:,} rows into counts of {rows:,} integer keys, 1 worker",),
        "inserts-integers",
        _INSERTS,
        {"rows": 10_000, **_FEW},
        {"differential": "changes-integers"},
    ),
    Measurement(
        ("{change:,} rows into counts of {rows:,} text keys, 1 worker",),
        "inserts-strings",
        _INSERTS,
        {"rows": 10_000, **_FEW},
        {"differential": "changes-strings"},
    ),
    Measurement(
        ("{change:,} changes into {rows:,} rows by integer keys, 1 worker",),
        "changes-integers",
        _CHANGES,
        {"rows": 10_000, **_FEW},
        {"differential": "changes-integers"},
    ),
    Measurement(
        ("{change:,} changes into {rows:,} rows by text keys, 1 worker",),
        "changes-strings",
        _CHANGES,
        {"rows": 10_000, **_FEW},
        {"differential": "changes-strings"},
    ),
)
