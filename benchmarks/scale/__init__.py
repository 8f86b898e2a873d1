"""Many workers in one process. They share what each would know by itself, in a class made of one of the core,
and a compiled class cannot be a base: so these run the core as Python.
"""

import os

os.environ["POINTSTAMP_CORE"] = "python"
