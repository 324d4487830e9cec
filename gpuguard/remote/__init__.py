"""Connections to hosts and the client side of the agent."""
