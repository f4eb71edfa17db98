"""Measurements. `python -m benchmarks` prints tables; every ratio is taken side by side in one run."""
