"""The version of the models; it is that of pointstamp."""

__version__ = "0.1.0"
