"""These are the messages of the wire, one file per API family.

Each request class names its API key, its versions, its response, and every error code that the
response can carry and when. ``registry`` gathers them.
"""
