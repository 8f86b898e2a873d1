"""Partial orders, antichains, signed multisets and frontiers. Standard library only.

``antichain`` and ``frontier`` ask ``partial`` which of two elements is before the other; ``multiset`` counts,
and ``components`` finds the classes of a preorder. None of them knows what is ordered or counted.
"""
