"""Canonical bytes to and from values: equal values, equal bytes. Pure; see docs/format.md, byte by byte."""
