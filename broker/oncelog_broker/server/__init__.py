"""The server is a broker's network face: listeners, routing, handlers, the metadata image."""
