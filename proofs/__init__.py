"""Machine-checked proofs and models, and `python -m proofs`, which runs them all. See README.md."""
