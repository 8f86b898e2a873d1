"""The formal models as executable specifications.

Nothing here imports anything of ours: the judge shares no code with the judged.
"""
