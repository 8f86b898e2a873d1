"""Kafka output: records in topics, one transaction per commit.

``sink`` is what a user gives; its workers stage what ``records`` makes of rows. What is staged is sent in
transactions, each with a note for which ``commits`` has a topic. ``cluster`` speaks with Kafka.
"""
