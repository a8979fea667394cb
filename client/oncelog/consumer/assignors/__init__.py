"""The assignors of this package give the members of a group their partitions. Pure."""
