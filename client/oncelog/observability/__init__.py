"""A client tells of itself: metrics always, spans and exporters where they are asked for.

Clients import counters and snapshots only; exporters and spans bring their own libraries.
"""
