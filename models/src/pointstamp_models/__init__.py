"""Executable models of the papers that pointstamp implements, and the explorer that checks them."""
