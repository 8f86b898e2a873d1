"""A running operator and what it is given.

Context, capabilities, notifications, stateless operators and the ends of a flow.
"""
