"""Operator state between epochs: pieces that can be saved and rescaled.

``declared`` makes ``pieces`` of the attributes that an operator names, each by the way that ``saved`` says;
``exact_encoding`` writes the values for which MessagePack has no kind. ``memory_budget`` reports the size of
state and spills what exceeds the limit.
"""
