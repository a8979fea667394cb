"""The machine is in memory here: files forget what was not synced, and there is a metadata store.
Each passes the contract suite of its port.
"""
