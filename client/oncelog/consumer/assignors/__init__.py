"""An assignor decides which member of a group reads which partitions. Pure."""
