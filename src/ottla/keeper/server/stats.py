"""What a server counts about its work; four-letter words and metrics show it."""

from __future__ import annotations

from ottla.keeper.proto.opcodes import OpCode

OP_NAMES: dict[int, str] = {
    OpCode.PING: "PING",
    OpCode.CREATE_SESSION: "SESS",
    OpCode.CLOSE_SESSION: "CLOS",
    OpCode.MULTI: "MULT",
    OpCode.MULTI_READ: "MLTR",
    OpCode.CREATE: "CREA",
    OpCode.CREATE2: "CREA",
    OpCode.CREATE_CONTAINER: "CREA",
    OpCode.CREATE_TTL: "CREA",
    OpCode.DELETE: "DELE",
    OpCode.SET_DATA: "SETD",
    OpCode.RECONFIG: "RECO",
    OpCode.SET_ACL: "SETA",
    OpCode.SYNC: "SYNC",
    OpCode.EXISTS: "EXIS",
    OpCode.GET_DATA: "GETD",
    OpCode.SET_WATCHES: "SETW",
    OpCode.SET_WATCHES2: "STW2",
    OpCode.ADD_WATCH: "ADDW",
    OpCode.GET_ACL: "GETA",
    OpCode.GET_CHILDREN: "GETC",
    OpCode.GET_CHILDREN2: "GETC",
    OpCode.GET_ALL_CHILDREN_NUMBER: "GETACN",
    OpCode.CHECK_WATCHES: "CHKW",
    OpCode.REMOVE_WATCHES: "REMW",
    OpCode.WHO_AM_I: "HOMI",
    OpCode.GET_EPHEMERALS: "GETE",
}


class Stats:
    """Plain integers, added to on the hot path and read elsewhere."""

    def __init__(self) -> None:
        self.packets_received = 0
        self.packets_sent = 0
        self.operations: dict[int, int] = {}
        self.latency_count = 0
        self.latency_total_ms = 0
        self.latency_max_ms = 0
        self.connections_opened = 0
        self.connections_rejected = 0
        self.connections_dropped = 0
        self.sessions_expired = 0
        self.proposals = 0
        self.commits = 0
        self.digest_mismatches = 0
        self.elections = 0
        self.election_ms = 0
        self.fsync_count = 0
        self.fsync_total_ms = 0.0
        self.fsync_max_ms = 0.0
        self.snapshots = 0
        self.syncs_diff = 0
        self.syncs_trunc = 0
        self.syncs_snap = 0

    def answered(self, type_: int, latency_ms: int) -> None:
        self.packets_sent += 1
        self.operations[type_] = self.operations.get(type_, 0) + 1
        self.latency_count += 1
        if latency_ms:
            self.latency_total_ms += latency_ms
            if latency_ms > self.latency_max_ms:
                self.latency_max_ms = latency_ms

    def reset(self) -> None:
        """``srst``: the figures that ``srvr`` and ``stat`` show start again."""
        self.packets_received = self.packets_sent = 0
        self.latency_count = self.latency_total_ms = self.latency_max_ms = 0
