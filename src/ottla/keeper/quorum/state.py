"""What a server has on disk and in its tree, as the machines know it."""

from __future__ import annotations


class Durable:
    """Changed by the machines when they order a write, and by the shell's reports of what the disk did."""

    __slots__ = ("accepted_epoch", "current_epoch", "synced_zxid", "whole")

    def __init__(self, accepted_epoch: int, current_epoch: int, last_zxid: int) -> None:
        self.accepted_epoch = accepted_epoch
        """The newest epoch this server has promised to follow."""
        self.current_epoch = current_epoch
        """The epoch whose leader's history this server took over last; election ranks by it."""
        self.synced_zxid = last_zxid
        """The log is durable up to here."""
        self.whole = True
        """False once the history turned out to be unfit for anything but replacement."""

    @property
    def is_blank(self) -> bool:
        """True until this server has taken over some leader's history, whole and durably.

        Nothing less proves that its disk was never lost: a promise or half a history may have come after the loss.
        """
        return self.current_epoch == 0
