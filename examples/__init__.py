"""Examples, each a program of its own, each run by the tests."""
