"""``oncelog demo`` runs the main job on real data, kills a leader half-way, and gives a verdict."""
