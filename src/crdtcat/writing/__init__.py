"""From a user's rows to a version file: fit, cut, hash, store, publish."""
