"""CRIU as it is called, and what it leaves behind."""
