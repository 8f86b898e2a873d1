"""Streams that tests lower by hand, with operators that no verb adds."""

import pointstamp as ps
from pointstamp.dataflow.record import record_of
from pointstamp.flow.physical_stream import PhysicalStream


def by_hand(beside: ps.Stream | ps.Table, made: PhysicalStream) -> ps.Stream:
    """What was lowered into the flow of something, as a stream that verbs are chained on."""
    record = record_of(beside)
    adopted = record.adopted(made)
    return ps.Stream._of(record, adopted._operator, made)
