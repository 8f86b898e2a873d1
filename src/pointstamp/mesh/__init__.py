"""The mesh between workers: sockets, admission, and messages as bytes.

``transport`` is what a worker sends through; it turns messages into bytes by ``wire`` and posts them to
``mesh``, which asks ``door`` who may come in and ``nearby`` who is on its host, and keeps in ``peers`` who is
there.
"""
