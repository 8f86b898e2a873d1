"""Nexmark: the 23 queries over an auction site that streaming engines are compared by, and its events.

``queries`` says each query in a few lines, ``sql`` says them for a batch engine that judges the answers,
``events`` makes the people, auctions and bids that they are asked of, and ``flows`` makes a flow of a query.
``python -m examples.nexmark q5`` runs one and prints its result.
"""
