"""The bytes of an object, as a store hands them out and as everything above takes them.

Small objects are `bytes`. Those of a large one may lie in memory of their own, and are then handed on as a
view of it that nobody can write through: a bundle of a million entries is never copied on its way from the
file to the arrays of a log. Both slice, compare and hash alike; what `bytes` can do beyond that, a view
cannot, and the types say so. Knows nothing of stores.
"""

from __future__ import annotations

ObjectBytes = bytes | memoryview
"""Read only, and one dimension of single bytes. `bytes(data)` makes sure of `bytes`; of `bytes` it copies
nothing."""
