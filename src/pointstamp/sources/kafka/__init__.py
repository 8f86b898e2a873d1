"""Kafka topics as a source: the driver finds offsets, workers read records.

``source`` is what a user gives: it hears by ``tails`` when records come, finds how far partitions go, and
makes units of ``ranges``; ``fetching`` reads exactly the records of a range, which ``columns`` makes rows
of, by ``decoding``, ``avro`` or ``protobuf``.
"""
