"""Sockets to frames: listener, connection, channel, flow control, frame limits. Knows no protocol."""

from ottla.net.budget import FrameBudget
from ottla.net.channel import Channel
from ottla.net.connection import Connection
from ottla.net.frames import FrameReader
from ottla.net.listener import Listener
from ottla.net.turn import Turn
from ottla.net.vigil import WINDOW_US, Vigil

__all__ = ["WINDOW_US", "Channel", "Connection", "FrameBudget", "FrameReader", "Listener", "Turn", "Vigil"]
