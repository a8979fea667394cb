"""The group coordinator: members, generations, committed offsets."""
