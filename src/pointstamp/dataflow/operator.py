"""Custom operators with any number of inputs and outputs.

An operator is a plain object. It has an ``outputs`` attribute, the schema of its output or a mapping from
names to schemas, and any of these methods:

- ``on_start(context)``: once, before anything else, at the least time of all;
- ``on_receive(context, input, batch)``: a batch has arrived, ``context.time`` is its time;
- ``on_notify(context)``: ``context.time``, for which it asked, is complete;
- ``on_frontier(context)``: what may still arrive at some input has changed.

Where times do not come out as they went in, it declares ``summaries``, from (input, output) to what happens
between them; an empty tuple says that nothing gets from that input to that output. The object is a prototype:
every worker works with a separate copy.

An operator in a loop that keeps something from one time to the next must not take (1, 0) before (0, 5), where
both may be complete. ``takes_times_in_order = True`` says that it is notified of one time after the other:
epochs first, in an epoch round by round, outermost first, and of none as long as an earlier one can come
(``context.is_settled``). It is still given batches as they arrive, so it keeps them by time until
``on_notify``. Operators that declare state take their times in order unless they say
``takes_times_in_order = False``. Outside loops epochs are told one after the other to every operator.

What an operator keeps from one epoch to the next is its state. It declares it, because queries save it: an
attribute ``state`` names the attributes that hold it and how each is saved (``pointstamp.saved``), or it has
the methods ``save`` and ``restore`` (``pointstamp.Piece``). ``on_restore(context)`` is called when it
continues from a snapshot; capabilities that it held come back by ``context.regained()``. What is not declared
is lost in a failure.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, overload

from pointstamp.dataflow.stream import Stream, ports_of
from pointstamp.errors import FlowError
from pointstamp.flow.custom_operator import DeclaredOperator, NamedSchemas, OneSchema
from pointstamp.operators.interface import OperatorLike
from pointstamp.plan.streams import Custom
from pointstamp.topology.summary import Summary

Inputs: TypeAlias = Mapping[str, Stream] | Stream | None
Summaries: TypeAlias = Mapping[tuple[str, str], Sequence[Summary]] | Stream | None


@overload
def operator(
    name: str,
    logic: OperatorLike,
    *,
    outputs: NamedSchemas,
    inputs: Inputs = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> tuple[Stream, ...]: ...


@overload
def operator(
    name: str,
    logic: OperatorLike,
    *,
    outputs: OneSchema,
    inputs: Inputs = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> Stream: ...


# Before the mapping, so that an attribute of unknown type, as pyarrow's are, counts as one schema.
@overload
def operator(
    name: str,
    logic: DeclaredOperator[str],
    *,
    inputs: Inputs = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> Stream: ...


@overload
def operator(
    name: str,
    logic: DeclaredOperator[NamedSchemas],
    *,
    inputs: Inputs = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> tuple[Stream, ...]: ...


@overload
def operator(
    name: str,
    logic: DeclaredOperator[OneSchema],
    *,
    inputs: Inputs = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> Stream: ...


def operator(
    name: str,
    logic: OperatorLike,
    *,
    inputs: Inputs = None,
    outputs: OneSchema | NamedSchemas | Stream | None = None,
    summaries: Summaries = None,
    **streams: Stream,
) -> Stream | tuple[Stream, ...]:
    """Add a custom operator; return its output stream, or a tuple of them if it has several.

    Args:
        name: The name of the operator.
        logic: An object with any of the methods ``on_start``, ``on_receive``, ``on_notify`` and
            ``on_frontier``. It is a prototype: every worker has a separate copy.
        inputs (Mapping[str, Stream], default None): The inputs by name, if a name is also an option.
        outputs (schema | Mapping[str, schema], default None): One schema gives one stream; a mapping of
            several gives a tuple, in its order. Default: the attribute ``outputs`` of the object.
        summaries (Mapping, default None): How times change from an input to an output. Default: the attribute
            ``summaries`` of the object.
        **streams: The inputs as keywords.

    A mapping of one name gives that stream itself, which a type checker cannot know: give the schema without
    a name.

    Examples:
        >>> class Upper:
        ...     outputs = "word string"
        ...     def on_receive(self, context, input, batch):
        ...         context.send(pa.record_batch({"word": pc.utf8_upper(batch["word"])}))
        >>> flow = ps.Dataflow("upper")
        >>> words = flow.stream_input("words", "word string")
        >>> flow.output("out", ps.operator("upper", Upper(), words=words))
        >>> flow.run(words=[[{"word": "so"}]])["out"][0].to_pylist()
        [{'word': 'SO'}]

    """
    options = {"inputs": inputs, "outputs": outputs, "summaries": summaries}
    swallowed = {option: given for option, given in options.items() if isinstance(given, Stream)}
    read = _read(name, None if isinstance(inputs, Stream) else inputs, {**streams, **swallowed})
    parts = tuple(each._operator for each in read.values())
    declared = None if isinstance(outputs, Stream) else outputs
    given = None if isinstance(summaries, Stream) else summaries
    first = next(iter(read.values()))
    made = ports_of(
        first._record,
        lambda: Custom(parts, tuple(read), logic, declared, given, name=name),
        *read.values(),
    )
    return made[0] if len(made) == 1 else made


def _read(name: str, inputs: Mapping[str, Stream] | None, streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """The inputs by name, those of the mapping first."""
    if twice := [each for each in streams if each in (inputs or {})]:
        raise FlowError(
            f"operator '{name}' got the input '{twice[0]}' twice, in inputs= and as a keyword. Remove one "
            "of them."
        )
    read = {**(inputs or {}), **streams}
    if not read:
        raise FlowError(
            f"operator '{name}' needs at least one input stream, by name: operator(..., words=stream)."
        )
    for port, stream in read.items():
        if not isinstance(stream, Stream):
            raise FlowError(
                f"operator '{name}': input '{port}' must be a stream, got {stream!r}. The options are "
                "inputs, outputs and summaries."
            )
    return read
