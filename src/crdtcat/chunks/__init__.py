"""Arrow data in, chunks out: types, statistics, partitions, canonical hashes, segments, inlined rows."""
