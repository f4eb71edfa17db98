"""crdtcat: a coordination-free table catalog on object storage."""
