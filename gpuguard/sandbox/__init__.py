"""The practice fleet."""
