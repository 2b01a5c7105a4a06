"""Where a follower's log stops being its leader's, by leader epochs and never by the high watermark. Pure.

A fetch tells the leader the epoch of the follower's last record. Where the leader's log of that epoch ends before the offset
that is asked for, the two have diverged, and the leader answers with the largest epoch it knows that is not above the
follower's, and the offset at which that one ends (KIP-595, KIP-320). The follower cuts its log there:

    it knows that epoch       both have it up to the earlier of its two ends
    it knows only older ones  all it has of the leader's past ends where the newest of those does, and it asks again with
                              that one (KIP-279: after two quick elections each may hold epochs that the other never saw)
    it knows no older one     up to the end that the leader gave

Each answer names an older epoch than the one before, so the asking comes to an end.
"""

from __future__ import annotations

from ottla.log.epochs import UNDEFINED_EPOCH, EpochEndOffset


def truncation_offset(leader: EpochEndOffset, own: EpochEndOffset, *, log_end_offset: int) -> int:
    """Where to cut. ``own`` is where the follower's log ends for the epoch that ``leader`` names."""
    if own.leader_epoch == UNDEFINED_EPOCH:
        return min(leader.end_offset, log_end_offset)
    if own.leader_epoch != leader.leader_epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, leader.end_offset, log_end_offset)
