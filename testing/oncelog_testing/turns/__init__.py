"""The longest turn of a loop is measured for each feared operation, on the broker's own code.

``python -m oncelog_testing.turns`` is what ``oncelog bench --only loop`` runs, in a process of its
own: the benchmarks know brokers from outside only, and a turn is seen from inside only.
"""
