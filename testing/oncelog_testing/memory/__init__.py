"""The machine in memory: files that forget what was not synced, and the metadata store. Each passes
the contract suite of its port."""
