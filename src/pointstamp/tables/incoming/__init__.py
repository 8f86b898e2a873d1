"""The operators that make a table of what comes in.

``border`` refuses rows that are deleted and not there, ``upserting`` replaces rows by key, ``states`` takes
each epoch for the whole table, and ``debezium`` reads change events, of which ``debezium_json`` is the text.
"""
