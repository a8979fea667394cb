"""The language of filter expressions, ``consume --where`` and the console, is parsed and run here.

It is no general language: there are no calls, and nothing in it is ever executed as Python.
"""
