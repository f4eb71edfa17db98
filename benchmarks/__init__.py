"""One harness for all measurements. `python -m benchmarks` prints tables and keeps them; every ratio is of
one run.

Nothing here imports an engine: engines run in worker processes, each kind in the environment that has it.
"""
