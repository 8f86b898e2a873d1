"""The mesh between workers: sockets, admission, and messages as bytes.

    worker -> transport -> wire -> mesh -> message_io -> peers

``transport`` is what a worker sends through; it turns messages into bytes by ``wire`` and posts them to
``mesh``, which connects every member with every other. ``admission`` decides who may join and ``addresses``
who is on the same host; ``message_io`` numbers, batches and restores the order of messages.
``authenticated`` is a message stream with a shared secret.
"""
