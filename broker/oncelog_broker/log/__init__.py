"""One partition's log: segments, indexes, epochs, recovery, retention; and all logs of a broker.

Synchronous over ``oncelog_runtime.files``: writes and reads go to the page cache and take
microseconds. Only *sync* is slow; ``flusher`` runs it in an executor, for many logs at once.
``flusher``, ``log_dir`` and ``log_manager`` are the only files here that know of asyncio.
"""
