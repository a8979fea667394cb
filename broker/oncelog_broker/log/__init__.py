"""This room keeps the logs of a broker's partitions, with recovery, retention and compaction.

Synchronous over ``oncelog_runtime.files``: writes and reads go to the page cache and take
microseconds. Only *sync* is slow; ``flusher`` runs it in an executor, for many logs at once.
``flusher``, ``log_dir``, ``log_manager``, ``scrubber`` and ``cleaner`` are the only files here that
know of asyncio.
"""
