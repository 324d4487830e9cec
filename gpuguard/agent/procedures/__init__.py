"""Detached procedures: journal, engine, watchdog, recovery."""
