"""Kafka topics: records as rows in, rows as records out, exactly once.

    topic -> source -> offset_ranges -> record_decoding -> record_columns -> rows
    rows -> record_encoding -> sink: one transaction per commit -> topic

``source`` follows the ends of partitions in a thread; ``offset_ranges`` are the units. ``record_decoding``
reads JSON, Avro and Protobuf. ``sink`` publishes commits as transactions. ``cluster`` is the address, the
settings and the errors of a cluster.
"""
