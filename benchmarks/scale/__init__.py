"""Many workers in one process, with the core as Python.

They share what each would know by itself, in a class made of one of the core, and a compiled class cannot be
a base.
"""

import os

os.environ["POINTSTAMP_CORE"] = "python"
