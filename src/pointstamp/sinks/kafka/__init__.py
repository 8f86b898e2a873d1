"""Kafka output: records in topics, one transaction per commit.

``sink`` is what a user gives; its workers stage what ``records`` makes of rows. ``publisher`` sends what is
staged, in transactions, each with a note for which ``commits`` has a topic. ``cluster`` speaks with Kafka.
"""
