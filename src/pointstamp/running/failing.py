"""Send errors between processes: kind, message and traceback.

Nothing is unpickled, so an error of a user's own class travels as the OperatorError that explains it, and
what is none of ours as the nearest kind: what a file or a connection says may be otherwise the next time, and
a mistake comes again.
"""

import traceback
from collections.abc import Callable

from pointstamp import errors
from pointstamp.errors import InternalError, OperatorError, PointstampError, StorageError, words_of
from pointstamp.running.messages import Failed


def failure_in(work: Callable[[], object]) -> Failed | None:
    """Do some work; the failure that it has ended with, whatever that is, or None.

    For reports to another process: an interrupt and an exit are failures, too.
    """
    try:
        work()
    except BaseException as error:
        return failure_of(error)
    return None


def failure_of(error: BaseException) -> Failed:
    """An error as a report."""
    if isinstance(error, SystemExit):
        error = _exit_in_words(error)
    text = "".join(traceback.format_exception(error))
    if isinstance(error, PointstampError):
        return Failed(type(error).__name__, str(error), text)
    if not isinstance(error, Exception):
        # Nobody interrupts a worker: a function of the flow has raised it, and its operator has left a note.
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        words = "; ".join(notes) or f"a function of the flow has raised {words_of(error)}"
        return Failed(OperatorError.__name__, f"{words}. Raise an Exception there instead.", text)
    kind = StorageError if isinstance(error, OSError) else InternalError
    return Failed(kind.__name__, words_of(error), text)


def error_of(failure: Failed, worker: str | None = None) -> PointstampError:
    """The error that was reported, with the same message; its traceback there is a note, by the worker."""
    kind = getattr(errors, failure.kind, InternalError)
    known = isinstance(kind, type) and issubclass(kind, PointstampError)
    error: PointstampError = (kind if known else InternalError)(failure.message)
    if worker is not None:
        error.add_note(f"In {worker}:\n{failure.traceback}")
    return error


def _exit_in_words(error: SystemExit) -> OperatorError:
    """A function of the flow has called exit: where, and what to do instead."""
    frames = traceback.extract_tb(error.__traceback__)
    # exit() without sys is a function of Python's own that raises.
    not_theirs = ("pointstamp", "_sitebuiltins")
    theirs = [frame for frame in frames if not any(each in frame.filename for each in not_theirs)]
    line = (theirs or list(frames))[-1]
    explained = OperatorError(
        f"a function of the flow has called exit ({words_of(error)}) "
        f"({line.filename}:{line.lineno}, in {line.name}: {line.line}), which would end a worker and not the "
        "flow. Raise an error there instead."
    )
    explained.__cause__ = error
    return explained
