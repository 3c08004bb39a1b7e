"""The web board: an ASGI server and one page of plain JavaScript."""
