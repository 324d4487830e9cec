"""A request and what was seen become a plan; pure."""
