"""SQLite, paths, locks and clock of the operator's side."""
