"""Communities: label propagation, core numbers and clustering coefficients.

``cdlp`` is a loop around the operator of ``voting``, which keeps ``round_labels``, by counting ``votes``;
``saving`` says how these are saved. ``k_core`` goes by an operator that has the whole graph, or by a loop of
tables, and ``lcc`` by triangles.
"""
