"""The procedure `checkpoint`."""
