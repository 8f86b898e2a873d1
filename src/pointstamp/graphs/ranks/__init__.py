"""PageRank, global and personalized.

``pagerank`` is a loop around the operator of ``pushing``, which takes what comes round by round. It keeps the
ranks and ``residuals`` of its vertices, in ``units``, and pushes these along ``out_links``, which lie in
``link_runs``; ``saving`` has the pieces that are saved.
"""
