"""The contract of sinks, as claims that can be tried on any of them.

Families:
- visibility: what is staged is unseen, what is published is seen once and in complete epochs;
- repetition: a number that comes again changes nothing, one that comes with something else is refused;
- deaths: a process that dies before any step, and is followed by another one that does the same again, leaves
  what a process that never dies leaves; only this finds an order of steps that loses or doubles rows;
- two drivers: one that was replaced publishes what its successor has published, and readers do not see it;
- marks: a sink knows its commits from the first one on, or fails; it never takes silence for nothing;
- preparations: what was prepared is seen only if it is what is published;
- leftovers: what dead generations have staged is never seen, and goes;
- outputs: a sink says whether it can continue with them, and changes nothing by that.

A claim gets a function that makes a new and empty place for a sink each time that it is called.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from pointstamp.connectors.sink import Sink, Staged, complete_publisher, prepared
from pointstamp.errors import StorageError
from pointstamp.testing.fault_steps import Died, Steps, same

_OTHER: Final = "_other names"
SINK_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "counts": pa.schema([("x", pa.int64())]),
    _OTHER: pa.schema([("x", pa.int64())]),
}
"""The outputs of the query that the claims publish; the second one's name is not easy."""

_QUERY: Final = "q"
SeenRows: TypeAlias = dict[str, list[tuple[int, int]]]
"""The rows that a reader sees: the sorted pairs of epoch and x of each output."""


class SinkSubject(Protocol):
    """A kind of sink at one place, as the claims need it."""

    def process(self, steps: Steps) -> AbstractContextManager[Sink]:
        """Return the sink of one process, before ``for_query``.

        Everything that the sink does outside must be a step: call ``steps.take()`` before it.
        """
        ...

    def seen(self) -> SeenRows:
        """Return what a reader sees now, including outputs without rows."""
        ...

    def stored(self) -> object:
        """Return everything that is stored at the place, as a comparable value."""
        ...

    def is_stored(self, piece: Staged) -> bool:
        """Return whether a staged, unpublished piece is still stored."""
        ...


NewPlace: TypeAlias = Callable[[], SinkSubject]
SinkClaim: TypeAlias = Callable[[NewPlace], None]


def check_sink(new: NewPlace) -> None:
    """Check every claim of a sink.

    Raises:
        AssertionError: A claim is not met; the message names it.

    """
    for claim in SINK_CLAIMS:
        claim(new)


def what_is_staged_is_unseen_and_what_is_published_is_seen_in_whole_epochs(new: NewPlace) -> None:
    """Nothing is visible before its commit, everything is after it."""
    subject = new()
    with _process(subject) as sink:
        publisher = sink.publisher()
        same(publisher.published_through(), None, "published_through() before the first commit")
        first, second = _stage(sink, 0, 0, 2), _stage(sink, 0, 3, 3)
        same(subject.seen(), _expected(), "what is seen before the first commit")
        publisher.publish(0, 2, first)
        same(subject.seen(), _expected((0, 2)), "what is seen after the first commit")
        same(publisher.published_through(), 2, "published_through() after the first commit")
        publisher.publish(1, 5, second)  # epochs 4 and 5 had no rows
        same(subject.seen(), _expected((0, 2), (3, 3)), "what is seen after the second commit")
        same(publisher.published_through(), 5, "published_through() after the second commit")
        publisher.publish(2, 9, [])
        same(subject.seen(), _expected((0, 2), (3, 3)), "what is seen after a commit without rows")
        same(publisher.published_through(), 9, "published_through() after a commit without rows")


def an_output_is_marked_before_its_first_commit_and_the_mark_changes_nothing(new: NewPlace) -> None:
    """A mark is never taken for a commit."""
    subject = new()
    with _process(subject) as sink, _process(subject) as newer:
        for turn in ("once", "twice"):
            sink.publisher().begin()
            same(sink.publisher().published_through(), -1, f"published_through() after begin() {turn}")
        same(subject.seen(), _expected(), "what is seen after begin()")
        complete_publisher(sink.publisher()).check_outputs(list(SINK_SCHEMAS))
        first = _stage(newer, 0, 0, 0)
        sink.publisher().discard(1, first)
        newer.publisher().publish(0, 0, first)
        sink.publisher().begin()  # as a driver does that was replaced and is late
        same(sink.publisher().published_through(), 0, "published_through() after a late begin()")
        second = _stage(newer, 1, 1, 1)
        newer.publisher().publish(1, 1, second)
        same(subject.seen(), _expected((0, 0), (1, 1)), "what is seen after a late begin()")


def a_number_that_comes_again_changes_nothing(new: NewPlace) -> None:
    """In whatever order its pieces come."""
    subject = new()
    with _process(subject) as sink:
        commits = [(0, 2, _stage(sink, 0, 0, 2)), (1, 3, _stage(sink, 0, 3, 3))]
        for number, through, staged in commits:
            sink.publisher().publish(number, through, staged)
        for number, through, staged in commits:
            sink.publisher().publish(number, through, staged[::-1])
        same(subject.seen(), _expected((0, 2), (3, 3)), "what is seen after both commits came twice")
        same(sink.publisher().published_through(), 3, "published_through()")


def other_content_under_a_number_and_numbers_out_of_turn_are_refused(new: NewPlace) -> None:
    """With a StorageError whose message names the commit; nothing is changed."""
    subject = new()
    with _process(subject) as sink:
        publisher = sink.publisher()
        first, second, other = _stage(sink, 0, 0, 0), _stage(sink, 0, 1, 1), _stage(sink, 1, 0, 0)
        with _refused("commit 1"):
            publisher.publish(1, 0, first)
        publisher.publish(0, 0, first)
        for staged, through in ((other, 0), (first, 1), (first[:1], 0), ([], 0)):
            with _refused("commit 0"):
                publisher.publish(0, through, staged)
        with _refused("commit 2"):
            publisher.publish(2, 1, second)
        publisher.publish(1, 1, second)
        for number, staged in ((0, other), (1, other)):
            with _refused(f"commit {number}"):
                publisher.publish(number, number, staged)
        same(subject.seen(), _expected((0, 0), (1, 1)), "what is seen after all that was refused")


def a_process_may_die_before_any_step_and_the_next_one_completes_its_work(
    new: NewPlace, *, every: int = 1
) -> None:
    """A generation of three commits dies before each step in turn, and another one continues.

    With ``every``, only before every n-th step: for sinks whose steps take long.
    """
    whole = Steps()
    _journey(new(), 0, whole, {})
    for death in range(0, whole.taken, every):
        subject = new()
        journal: dict[int, list[Staged]] = {}
        try:
            _journey(subject, 0, Steps(dies_before=death), journal)
        except Died:
            pass
        else:
            raise AssertionError(
                f"a process took {whole.taken} steps and another one less than {death + 1}, doing the same"
            )
        seen = subject.seen()["counts"]
        for epoch, x in seen:
            if (epoch, 20 * epoch + 1 - x) not in seen:
                raise AssertionError(
                    f"half of epoch {epoch} is seen after a death before step {death}: {seen}"
                )
        _journey(subject, 1, Steps(), journal)
        same(
            subject.seen(),
            _expected((0, 0), (1, 1), (2, 2)),
            f"what is seen after a death before step {death}",
        )
    if whole.taken <= 10:
        raise AssertionError(
            f"three commits took {whole.taken} steps; call steps.take() before each act outside"
        )


def a_driver_that_was_replaced_publishes_the_same_commits_and_nobody_sees_it(new: NewPlace) -> None:
    """An old driver comes again and again with commits that the new one has published."""
    subject = new()
    with _process(subject) as sink, _process(subject) as newer:
        old, new_driver = sink.publisher(), newer.publisher()
        commits = [(n, n, _stage(sink, 0, n, n)) for n in range(12)]
        for position, commit in enumerate(commits):
            new_driver.publish(*commit)
            old.publish(*commits[max(0, position - 3)])
        same(subject.seen(), _expected(*((n, n) for n in range(12))), "what is seen after two drivers")


def what_a_dead_generation_staged_is_never_seen_and_goes(new: NewPlace) -> None:
    """Kept pieces and those of the current generation stay; all others are removed."""
    subject = new()
    with _process(subject) as sink:
        committed = _stage(sink, 0, 0, 0)
        sink.publisher().publish(0, 0, committed)
        in_the_journal, dead = _stage(sink, 0, 1, 1), _stage(sink, 0, 2, 2)
        same(
            [subject.is_stored(piece) for piece in dead],
            [not piece.content for piece in dead],  # one that holds its rows is stored with its commit alone
            "whether staged pieces are stored",
        )
        sink.publisher().discard(1, [*committed, *in_the_journal])
        same(
            [subject.is_stored(piece) for piece in dead],
            [False] * len(dead),
            "whether dead pieces are stored",
        )
        sink.publisher().publish(1, 1, in_the_journal)
        again = _stage(sink, 1, 2, 2)
        sink.publisher().discard(1, [])  # its own generation's pieces stay
        sink.publisher().publish(2, 2, again)
        same(subject.seen(), _expected((0, 0), (1, 1), (2, 2)), "what is seen after what was left is gone")


def the_outputs_that_a_query_had_fit_at_any_time_and_asking_changes_nothing(new: NewPlace) -> None:
    """``check_outputs`` reads only."""
    subject = new()
    with _process(subject) as sink:
        complete_publisher(sink.publisher()).check_outputs([])
        for number in range(3):
            staged = _stage(sink, 0, number, number)
            before = subject.stored()
            complete_publisher(sink.publisher()).check_outputs(list(SINK_SCHEMAS))
            same(subject.stored(), before, "what is stored after check_outputs")
            sink.publisher().publish(number, number, staged)
        same(subject.seen(), _expected((0, 0), (1, 1), (2, 2)), "what is seen")


def what_is_published_is_known_from_the_first_commit_on_or_asking_fails(new: NewPlace) -> None:
    """A new process asks ``published_through``, while the place stops answering before each step in turn.

    A driver publishes what the sink does not know of. So a sink that cannot find out what it has must raise:
    None, or an earlier epoch, would publish rows a second time.
    """
    subject = new()
    for number in range(2):
        with _process(subject) as sink:
            sink.publisher().publish(number, number, _stage(sink, 0, number, number))
        whole = Steps()
        with _process(subject, whole) as sink:
            same(sink.publisher().published_through(), number, f"published_through() after commit {number}")
        for step in range(whole.taken):
            try:
                with _process(subject, Steps(unanswered_from=step)) as sink:
                    through = sink.publisher().published_through()
            except Exception:  # noqa: S112 - whatever the sink raises is an answer: it is not known
                continue
            same(through, number, f"published_through() where nothing answers from step {step} on")
        same(subject.seen(), _expected(*((n, n) for n in range(number + 1))), "what is seen after asking")


def what_was_prepared_is_seen_only_if_it_is_published(new: NewPlace) -> None:
    """A commit is prepared and another one with its number is published, or none; and so for the next."""
    subject = new()
    with _process(subject) as sink:
        publisher = sink.publisher()
        publisher.publish(0, 0, _stage(sink, 0, 0, 0))
        first, second = _stage(sink, 0, 1, 1), _stage(sink, 0, 2, 2)
        same(publisher.published_through(), 0, "published_through() before a preparation")
        with suppress(_NotWritten), prepared(publisher, 1, 2, [*first, *second]):
            raise _NotWritten
        same(subject.seen(), _expected((0, 0)), "what is seen after a preparation that failed")
        same(publisher.published_through(), 0, "published_through() after a preparation that failed")
        with prepared(publisher, 1, 2, [*first, *second]):
            pass
        same(subject.seen(), _expected((0, 0)), "what is seen after a preparation")
        publisher.publish(1, 1, first)
        same(subject.seen(), _expected((0, 0), (1, 1)), "what is seen after another commit was prepared")
        with prepared(publisher, 2, 2, second):
            pass
        publisher.publish(1, 1, first)  # as a driver does that is behind
        same(subject.seen(), _expected((0, 0), (1, 1)), "what is seen after an older commit came again")
        publisher.publish(2, 2, second)
        same(subject.seen(), _expected((0, 0), (1, 1), (2, 2)), "what is seen after the prepared commit")


class _NotWritten(Exception):  # noqa: N818 - what happened
    """A commit could not be written into the journal."""


SINK_CLAIMS: Final[tuple[SinkClaim, ...]] = (
    what_is_staged_is_unseen_and_what_is_published_is_seen_in_whole_epochs,
    a_number_that_comes_again_changes_nothing,
    other_content_under_a_number_and_numbers_out_of_turn_are_refused,
    a_process_may_die_before_any_step_and_the_next_one_completes_its_work,
    a_driver_that_was_replaced_publishes_the_same_commits_and_nobody_sees_it,
    what_is_published_is_known_from_the_first_commit_on_or_asking_fails,
    what_was_prepared_is_seen_only_if_it_is_published,
    what_a_dead_generation_staged_is_never_seen_and_goes,
    the_outputs_that_a_query_had_fit_at_any_time_and_asking_changes_nothing,
    an_output_is_marked_before_its_first_commit_and_the_mark_changes_nothing,
)
"""All claims; a sink keeps the contract if none raises."""


@contextmanager
def _process(subject: SinkSubject, steps: Steps | None = None) -> Iterator[Sink]:
    with subject.process(steps or Steps()) as sink:
        yield sink.for_query(_QUERY, SINK_SCHEMAS)


def _journey(subject: SinkSubject, generation: int, steps: Steps, journal: dict[int, list[Staged]]) -> None:
    """A generation from its beginning to the end of three commits, as a query has it."""
    with _process(subject, steps) as sink:
        publisher = sink.publisher()
        publisher.discard(generation, [piece for staged in journal.values() for piece in staged])
        through = publisher.published_through()
        if not journal:
            publisher.begin()
        for number, staged in journal.items():
            if through is None or number > through:
                publisher.publish(number, number, staged)
        for number in range(len(journal), 3):
            staged = _stage(sink, generation, number, number)
            with prepared(publisher, number, number, staged):
                journal[number] = staged
            publisher.publish(number, number, staged)


def _stage(sink: Sink, generation: int, first: int, last: int) -> list[Staged]:
    """Two workers stage epochs first to last of one output, and one of them the last of the other."""
    writers = [sink.writer(worker, generation) for worker in (0, 1)]
    staged: list[Staged] = []
    for worker, writer in enumerate(writers):
        staged += writer.stage("counts", {e: _rows(10 * e + worker) for e in range(first, last + 1)})
    return staged + writers[1].stage(_OTHER, {last: _rows(last)})


def _rows(number: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array([number], pa.int64())})]


def _expected(*groups: tuple[int, int]) -> SeenRows:
    counts = [(e, 10 * e + w) for first, last in groups for e in range(first, last + 1) for w in (0, 1)]
    return {"counts": sorted(counts), _OTHER: [(last, last) for _, last in groups]}


@contextmanager
def _refused(words: str) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if words not in str(error):
            raise AssertionError(f"a refusal must say '{words}', but says: {error}") from error
    else:
        raise AssertionError(f"StorageError was expected with '{words}', but nothing was refused")
