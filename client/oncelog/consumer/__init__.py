"""This package reads records and columns from partitions, alone or as a member of a group."""
