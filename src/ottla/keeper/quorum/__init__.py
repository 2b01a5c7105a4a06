"""Agreement between keepers, as pure machines: election, and atomic broadcast after Zab.

``Peer`` is the whole of it: ``step(event, now_ms) -> Effects``. It knows no sockets, files or clocks. A shell feeds it
what happened and does what comes out, field by field from top to bottom.
"""
