"""This package holds the admin client, and the types of its answers."""
