"""The group coordinator keeps members, generations and committed offsets."""
