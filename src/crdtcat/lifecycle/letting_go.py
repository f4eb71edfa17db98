"""Letting segments go: what is said before references to them are taken away.

A collector cannot see who is about to use a segment again by a head read earlier. It waits for them, from the
moment when nothing referred to the segment any more; and a segment may be used again and let go again between
two runs of it. So whoever lets one go says when (model: proofs/tla/Reuse.tla). Dropping a table needs no such
word: whoever has its head can commit only to a log that nobody reads.
"""

from __future__ import annotations

import secrets

from crdtcat.format.condemned import TITLE_BYTES, TITLES_MAX, encode_let_go, let_go_name
from crdtcat.store import Store


def let_go(store: Store, titles: bytes) -> None:
    """Say that references to these segments (24 bytes each) are about to go.

    One PUT per `TITLES_MAX` of them, none for none. Raises what the store raises: then nothing may be let go.
    """
    names = [titles[at : at + TITLE_BYTES] for at in range(0, len(titles), TITLE_BYTES)]
    for at in range(0, len(names), TITLES_MAX):
        store.put(let_go_name(secrets.token_bytes(8)), encode_let_go(names[at : at + TITLES_MAX]))
