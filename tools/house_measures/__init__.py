"""These modules measure the house: its states' owners, its imports, its rules, its docstrings."""
