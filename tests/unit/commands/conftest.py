"""A command line in this process, and a fleet that does not answer."""

from tests.command_line import ask, fleet

__all__ = ["ask", "fleet"]
