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
    """The base class of pointstamp's errors. Addresses in messages are redacted."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact_text(each) if isinstance(each, str) else each for each in args))


class TopologyError(PointstampError):
    """The graph of a flow cannot be run. The message names the operators."""


class FlowError(PointstampError):
    """A flow is built or fed incorrectly. The message names the stream or operator."""


class SchemaError(FlowError):
    """A batch or a schema does not fit. The message names the column and both types."""


class CapabilityError(FlowError):
    """An operator sent, delayed or requested a notification without a capability for the time."""


class SourceError(FlowError):
    """An input has unreadable data, and a retry does not help. The message names the place."""


class OperatorError(FlowError):
    """A user function raised an error. The message names operator, port, time and line."""


class LoopError(FlowError):
    """A loop exceeded its rounds or was interrupted. The message names the round."""


class SqlError(FlowError):
    """A text is not valid SQL, or a view is not incremental. The message begins with line and column."""


class ProgressError(PointstampError):
    """The progress protocol between workers was violated. The message names the peer."""


class TransportError(PointstampError):
    """A peer is lost, silent, or not the expected one. The message names it."""


class StorageError(PointstampError):
    """Something durable cannot be written or read, or differs from what was written. The message names it."""


class NotStored(StorageError):  # noqa: N818 - an answer as much as an error
    """No object has this name."""


class DamagedSnapshot(StorageError):  # noqa: N818 - as above
    """A part of a snapshot is missing or differs from what was committed; an older snapshot may be intact."""


class AlreadyStored(StorageError):  # noqa: N818 - as above
    """An object with this name already exists and is not replaced."""


class BusyError(PointstampError):
    """No worker can answer, because all of them are inside long calls of operators."""


class RecoveryError(PointstampError):
    """A run cannot resume from its checkpoint. The message names the snapshot and the reason."""


class FencedError(RecoveryError):
    """A newer driver has taken over the checkpoint; this driver may write nothing more."""


class UsageError(PointstampError):
    """A command has an unknown argument: one line, exit code 2."""


class InternalError(PointstampError):
    """An invariant of pointstamp itself is broken; please report it with the message."""


class PointstampWarning(UserWarning):
    """Something works, but probably not as its author intended."""


def words_of(error: BaseException) -> str:
    """Return the type and the message of any error, also of one whose message cannot be read.

    Examples:
        >>> ps.errors.words_of(KeyError("x"))
        "KeyError: 'x'"

    """
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception as raised:  # a method of the user's, which may raise anything
        return f"{kind}, whose message cannot be read because its __str__ raises {type(raised).__name__}"
    return f"{kind}: {message}" if message else kind
