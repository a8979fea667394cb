"""The mechanisms of SASL are machines without I/O here, one for each end.

Bytes come in, an outcome goes out (``outcomes``). Chance, credentials and the judgement of tokens
are handed in. A broker drives ``server_authentication``, a client ``client_authentication``.
"""
