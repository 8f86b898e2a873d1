"""Tests run the core as Python, which they can replace parts of, unless POINTSTAMP_CORE says otherwise."""

import os

os.environ.setdefault("POINTSTAMP_CORE", "python")
