"""Carries plans out: procedures on nodes, journal, resume."""
