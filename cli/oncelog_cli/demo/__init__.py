"""``oncelog demo``: the main job on real data, with a leader killed half-way and a verdict."""
