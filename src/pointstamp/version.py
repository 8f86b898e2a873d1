"""The version of pointstamp: workers compare it when they meet."""

__version__ = "0.1.0"
