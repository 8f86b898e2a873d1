"""What users write: flows, and the streams and tables that are chained in them.

``dataflow`` begins streams and tables with its inputs and runs what was written. The verbs of ``stream`` and
``table``, the blocks of ``loops`` and ``operator`` make logical operators and give them to ``record``, which
lowers each at once.
"""

from pointstamp.dataflow.dataflow import Dataflow as Dataflow
