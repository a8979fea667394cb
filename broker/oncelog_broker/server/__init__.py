"""The network face of a broker: listeners, routing, one handler per API, the metadata image."""
