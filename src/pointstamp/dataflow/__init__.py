"""The user-facing classes: flows, streams and tables.

``dataflow`` begins streams and tables with its inputs and runs what was written. The verbs of ``stream`` and
``table``, the blocks of ``loops`` and ``operator`` make logical operators and give them to ``record``, which
lowers each at once.
"""

from pointstamp.dataflow.dataflow import Dataflow as Dataflow
