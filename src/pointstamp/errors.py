"""Every error that pointstamp raises, drawn as one tree.

    PointstampError
    +-- TopologyError      a graph that cannot be run was described
    +-- FlowError          a flow was written or fed in a way that cannot work
    |   +-- SchemaError    a batch or a schema does not fit: which column, which type
    |   +-- CapabilityError  an operator sent, delayed or asked without the right to
    |   +-- SourceError    an input holds what cannot be read, however often one tries: which input and file
    |   +-- OperatorError  an exception in a user's function, with operator, port, time and batch
    |   +-- SqlError       a text of SQL is none, or cannot be kept up to date: line, column, what to write
    |   +-- LoopError      a loop went further than its limit, or was interrupted
    +-- ProgressError      the progress protocol was broken: a gap, a duplicate, an unknown port
    +-- TransportError     a peer is gone, silent, or not who it should be
    +-- StorageError       something durable cannot be written, is missing, torn or altered
    |   +-- NotStored      there is nothing under this name
    |   +-- AlreadyStored  something is there already, and must not be replaced
    +-- BusyError          no worker can answer: all are inside long calls of operators
    +-- RecoveryError      a run cannot resume from what was saved: which snapshot, and why
    |   +-- FencedError    a newer driver has taken the checkpoint over
    +-- UsageError         a command was given something it does not know
    +-- InternalError      a broken invariant of ours; never the user's fault

A message says who, what was needed, what was found and what to do. No message contains a password: the errors
redact the addresses and settings in their messages themselves.
"""

from pointstamp.redaction import redact_text


class PointstampError(Exception):
    """Something went wrong that pointstamp can name; addresses in the message are redacted."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact_text(each) if isinstance(each, str) else each for each in args))


class TopologyError(PointstampError):
    """A graph was described that cannot be run: the message names the operators."""


class FlowError(PointstampError):
    """A flow was written or fed in a way that cannot work: the message names the stream or operator."""


class SchemaError(FlowError):
    """A batch or a schema does not fit: the message names the column, what was needed and what was found."""


class CapabilityError(FlowError):
    """An operator sent, delayed or asked for something without the right to."""


class SourceError(FlowError):
    """An input contains unreadable data, and a retry does not help: the message names the place."""


class OperatorError(FlowError):
    """A user's function raised: the message names operator, port, time and line; the cause is chained."""


class LoopError(FlowError):
    """A loop went further than it may, or was interrupted: the message says its round."""


class SqlError(FlowError):
    """A text is no SQL, or cannot be kept up to date: the message begins with its line and column."""


class ProgressError(PointstampError):
    """The progress protocol between workers was broken: the message names the peer and what was expected."""


class TransportError(PointstampError):
    """A peer is gone, silent, or not who it should be: the message names it."""


class StorageError(PointstampError):
    """Something durable cannot be written or read, or is not as it was written: the message names it."""


class NotStored(StorageError):  # noqa: N818 - an answer as much as an error
    """There is nothing under this name."""


class DamagedSnapshot(StorageError):  # noqa: N818 - as above
    """A part of a snapshot is not there, or not as it was committed; an older snapshot may be whole."""


class AlreadyStored(StorageError):  # noqa: N818 - as above
    """Something is there under this name already, and is not replaced."""


class BusyError(PointstampError):
    """No worker can answer, because all of them are inside long calls of operators."""


class RecoveryError(PointstampError):
    """A run cannot resume from what was saved: the message says from which snapshot and why."""


class FencedError(RecoveryError):
    """A newer driver has taken the checkpoint over; this one may write nothing more."""


class UsageError(PointstampError):
    """A command was given something it does not know: one line, exit code 2."""


class InternalError(PointstampError):
    """An invariant of pointstamp itself is broken; please report it with the message."""


class PointstampWarning(UserWarning):
    """Something works, but probably not as its author meant it."""


def words_of(error: BaseException) -> str:
    """The kind and the message of any error, even of one whose message cannot be read.

    >>> words_of(KeyError("x"))
    "KeyError: 'x'"
    """
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception as raised:  # a method of the user's, which may raise anything
        return f"{kind}, whose message cannot be read because its __str__ raises {type(raised).__name__}"
    return f"{kind}: {message}" if message else kind
