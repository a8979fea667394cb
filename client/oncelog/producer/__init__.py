"""This package sends records: it chooses partitions, fills batches and repeats what failed."""
