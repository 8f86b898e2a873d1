"""Streams of updates, and the aggregations that are valid on them.

A running reduction sends the new row of each key that changed, and so does a table by ``upserts``. Neither
takes the old row back, so such a stream is not a set of rows: of a key there may be many, and the last one
counts. Adding such rows up, or counting them, counts what has been replaced. So what a stream carries is
known when the flow is written: *updates* come from these two and go through everything that only passes rows
on or makes rows of rows, around loops, too. Aggregating them is refused, except for what is right whatever
was replaced:

- ``min`` of a column that is a running ``min``, and ``max`` of one that is a running ``max``: such a column
  only falls, or only rises, and a value that was replaced is never less, or greater, than the one that came;
- ``min`` and ``max`` of a key column, which never changes;
- grouped by key columns, so that no row moves from one group to another. If the reduction is not running it
  must be grouped by all of them: for a part of them an epoch has only the rows that changed.

After a function (``map``, ``map_batches``, ``flat_map``) columns are the function's. A column that has kept
its name is taken for what it was, one with a new name for what it can be if all aggregates were of that kind;
and groups are the function's affair. That it makes no lesser row of a greater one is trusted: ``dist + 1`` of
a running ``min`` is right, ``-dist`` would not be. So a loop may feed a running ``min`` back to itself.

An operator of a user's own ends all this: it answers for what it makes of updates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pointstamp.reduce.aggregate import Aggregate, Aggregation


class Passes(Enum):
    """The relation of an operator's output to the rows that it reads."""

    ROWS = "some of them, as they are"
    MADE = "what a function makes of them"
    ADDED = "them all as rows of a table, so that they must be no updates"
    CHANGES = "the changes of a table from which rows are taken away again"


@dataclass(frozen=True, slots=True)
class Reduces:
    """The output of a reduction: one row for each group, with these aggregates."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregation]
    is_running: bool


@dataclass(frozen=True, slots=True)
class Replaces:
    """The output of a table as a stream of its newest rows: one row for each changed key."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """The other columns; of none is it known how it changes."""


class Course(Enum):
    """The direction in which a column changes from one row of a key to the next."""

    FALLS = "min"
    RISES = "max"
    CHANGES = ""


@dataclass(frozen=True, slots=True)
class Updates:
    """The facts about a stream of updates: its sender, and how its columns change."""

    senders: tuple[str, ...]
    keys: frozenset[str]
    courses: tuple[tuple[str, Course], ...]
    is_made: bool = False
    """Whether a function has made these rows, so that columns are not what their names say."""

    def course(self, column: str) -> Course | None:
        """The course of a column; None for an unknown one."""
        return dict(self.courses).get(column)


def updates_of(name: str, reduces: Reduces, read: Updates | None) -> Updates | None:
    """The output of a reduction: updates if it is running, or if it aggregates updates."""
    courses = tuple([(column, _course(each)) for column, each in sorted(reduces.aggregates.items())])
    if reduces.is_running:
        return Updates((name,), frozenset(reduces.keys), courses)
    return None if read is None else Updates(read.senders, frozenset(reduces.keys), courses, read.is_made)


def replacing(name: str, replaces: Replaces) -> Updates:
    """The updates that a table sends by key."""
    courses = tuple([(column, Course.CHANGES) for column in sorted(replaces.columns)])
    return Updates((name,), frozenset(replaces.keys), courses)


def passed_on(passes: Passes, read: Updates | None) -> Updates | None:
    """The updates among forwarded rows."""
    if passes in (Passes.ADDED, Passes.CHANGES):
        return None
    return replace(read, is_made=True) if read is not None and passes is Passes.MADE else read


def together(several: Iterable[Updates | None]) -> Updates | None:
    """The common facts of united streams; rows of other streams do not change them."""
    marks = [each for each in several if each is not None]
    if not marks:
        return None
    courses: dict[str, Course] = {}
    for mark in marks:
        for column, course in mark.courses:
            courses[column] = course if courses.get(column, course) is course else Course.CHANGES
    return Updates(
        tuple(dict.fromkeys(sender for mark in marks for sender in mark.senders)),
        frozenset.intersection(*(mark.keys for mark in marks)).difference(courses),
        tuple([(column, courses[column]) for column in sorted(courses)]),
        any(mark.is_made for mark in marks),
    )


def objection(who: str, reduces: Reduces, read: Updates) -> str | None:
    """The reason why updates cannot be aggregated this way, as text; None if they can."""
    for column, aggregation in reduces.aggregates.items():
        if not _is_right(aggregation, read):
            return _words(who, read, f"'{column}' is {_shown(aggregation)}, which {_mistake(read)}")
    if read.is_made:
        return None
    if moving := [key for key in reduces.keys if key not in read.keys]:
        return _words(
            who, read, f"it groups by '{moving[0]}', and a row that was replaced stays in its group"
        )
    if not reduces.is_running and (missing := sorted(read.keys - set(reduces.keys))):
        lacking = f"it groups by {_listed(reduces.keys)} without '{missing[0]}'"
        return _words(who, read, f"{lacking}, so rows that did not change would be missing")
    return None


def no_table_of(who: str, read: Updates) -> str:
    """The reason why updates are not a table, as text."""
    return _words(who, read, "as a table they would count what was replaced").replace(
        "aggregates what", "accumulates what", 1
    )


def _is_right(aggregation: Aggregation, read: Updates) -> bool:
    if not isinstance(aggregation, Aggregate) or aggregation.where is not None:
        return False
    if not isinstance(aggregation.column, str):
        return False
    course = read.course(aggregation.column)
    if course is not None:
        return course is not Course.CHANGES and aggregation.kind == course.value
    if not read.is_made:
        return aggregation.column in read.keys and aggregation.kind in ("min", "max")
    return {course for _, course in read.courses} <= {Course.FALLS, Course.RISES} and aggregation.kind in {
        course.value for _, course in read.courses
    }


def _course(aggregation: Aggregation) -> Course:
    kind = aggregation.kind if isinstance(aggregation, Aggregate) else ""
    return {"min": Course.FALLS, "max": Course.RISES}.get(kind, Course.CHANGES)


def _mistake(read: Updates) -> str:
    right = [f"{course.value}('{column}')" for column, course in read.courses if course.value]
    only = f"; only {', '.join(right)} would be right" if right else ""
    return f"would include rows that were replaced{only}"


def _words(who: str, read: Updates, why: str) -> str:
    return (
        f"{who} aggregates what {_listed(read.senders)} sends: the new row of each key "
        f"that changed, while the old one is not retracted. {why[0].upper()}{why[1:]}. Aggregate the rows "
        "before they are reduced, or put an operator of your own between, which knows what was replaced."
    )


def _shown(aggregation: Aggregation) -> str:
    return str(aggregation) if isinstance(aggregation, Aggregate) else type(aggregation).__name__


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
