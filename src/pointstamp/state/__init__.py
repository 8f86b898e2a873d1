"""What an operator keeps between epochs: pieces that can be saved and brought to any number of workers.

``declared`` makes ``pieces`` of the attributes that an operator names, each by the way that ``saved`` says;
``exactly`` writes the values for which MessagePack has no kind.
"""
