"""A file here has one API's behaviour, its versions and where its errors come from.

APIs that are only checked and handed on have a row of ``api_table``, and share ``handed_on``.
"""
