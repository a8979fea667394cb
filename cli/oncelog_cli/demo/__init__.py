"""``oncelog demo`` runs the main job on real data, kills a leader half-way, and gives a verdict."""

FLIGHT_COUNT = 336_776
"""So many flights left New York in 2013."""
