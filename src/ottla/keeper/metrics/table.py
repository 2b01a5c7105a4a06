"""Every metric of ZooKeeper 3.9.5, with its name there and how it is read here.

ZooKeeper counts what passes between the stages of its pipeline, each with a thread and a queue. Here one loop does all
of that, so many of those queues do not exist. Their names are kept, at 0, so that no dashboard or alert lacks a series;
``NOTHING`` tells them from what is measured. Reasons are given once, as the text of all metrics that share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.base import process
from ottla.keeper.metrics.kinds import Basis, Kind, Metric, Number, Value, View
from ottla.keeper.proto.opcodes import EventType
from ottla.keeper.server import quota
from ottla.keeper.server.stats import Summary, namespace_of

ENSEMBLE: Final = frozenset({"leader", "follower", "observer"})
LEADER: Final = frozenset({"leader"})
ESTIMATED: Final = Basis.ESTIMATED


def _gauge(
    name: str, doc: str, read: Callable[[View], Number | None], *only: str, basis: Basis = Basis.EXACT
) -> Metric:
    return Metric(name, Kind.GAUGE, doc, read, basis, frozenset(only))


def _counter(name: str, doc: str, read: Callable[[View], Number]) -> Metric:
    return Metric(name, Kind.COUNTER, doc, read)


def _summary(name: str, doc: str, read: Callable[[View], Summary], *, basis: Basis = Basis.EXACT) -> Metric:
    return Metric(name, Kind.SUMMARY, doc, read, basis)


def _detailed(name: str, doc: str, read: Callable[[View], Summary], *, basis: Basis = Basis.EXACT) -> Metric:
    return Metric(name, Kind.DETAILED_SUMMARY, doc, read, basis)


def _nothing(kind: Kind, why: str, *names: str) -> list[Metric]:
    """Names without a meaning here."""
    empty: Value = Summary() if kind in (Kind.SUMMARY, Kind.DETAILED_SUMMARY) else 0
    return [Metric(name, kind, why, lambda _view: empty, Basis.NOTHING) for name in names]


def _process(name: str, kind: Kind, doc: str, read: Callable[[], Number | None]) -> Metric:
    return Metric(name, kind, doc, lambda _view: read(), in_mntr=False)


def _bytes_received(v: View) -> int:
    return v.stats.bytes_received + 4 * v.stats.packets_received


def _committed(v: View) -> int:
    return v.stats.commits + v.stats.commits_received


def _synced(v: View, *, votes: bool) -> int:
    voters = v.server.member.options.members.voters
    return sum(1 for learner in v.learners if learner.synced and (learner.info.server_id in voters) is votes)


def _fired(event: EventType) -> Callable[[View], Summary]:
    def read(v: View) -> Summary:
        summary, count = Summary(), v.tree.watches.fired[event]
        if count:
            summary.add(1, count)
        return summary

    return read


def _by_learner(v: View) -> Mapping[str, Summary]:
    return {str(learner.info.server_id): Summary() for learner in v.learners}


def _quota(node_of: Callable[[str], str], take: Callable[[quota.Usage], int]) -> Callable[[View], Mapping[str, Number]]:
    def read(v: View) -> Mapping[str, Number]:
        found: dict[str, Number] = {}
        for path in sorted(v.tree.quotas):
            node = v.tree.nodes.get(node_of(path))
            if node is not None and len(path) > 1:
                namespace = namespace_of(path)
                found[namespace] = found.get(namespace, 0) + take(quota.parse(node.data))
        return found

    return read


def _count_limit(usage: quota.Usage) -> int:
    return usage.nodes_hard if usage.nodes_hard > -1 else usage.nodes


def _bytes_limit(usage: quota.Usage) -> int:
    return usage.size_hard if usage.size_hard > -1 else usage.size


NO_TLS = "There is no TLS."
NO_ADMIN = "There is no admin server."
NO_CACHE = "Answers are not cached."
NO_CLEANER = "The watches of a closed connection are gone at once."
NO_ENSEMBLE_AUTH = "The scheme 'ensemble' is not supported."
NO_LOCAL = "Every session is global."
NO_QUEUE = "This queue does not exist: a request goes from stage to stage within one turn of the loop."
NO_POOL = "There is no pool of threads that commits."
NO_OBSERVER_MASTER = "Observers learn from the leader only."
NO_LIMIT = "There is no such limit."
NOT_STALE = "What a closed connection waited for is forgotten at once."
NOT_COUNTED = "Not counted."

# fmt: off
METRICS: Final[tuple[Metric, ...]] = (
    # What the server holds, and whom it serves.
    _gauge("uptime", "Milliseconds since the server started.", lambda v: v.now_ms - v.server.started_ms),
    _gauge("num_alive_connections", "Open client connections.", lambda v: v.server.connections),
    _gauge("outstanding_requests", "Requests that wait for an answer.", lambda v: v.server.member.frontend.outstanding),
    _gauge("znode_count", "Znodes; the root counts twice, as in ZooKeeper.", lambda v: len(v.tree.nodes) + 1),
    _gauge("watch_count", "Watches set here.", lambda v: len(v.tree.watches.data) + len(v.tree.watches.child)),
    _gauge("ephemerals_count", "Ephemeral znodes.", lambda v: sum(map(len, v.tree.ephemerals.values()))),
    _gauge("approximate_data_size", "Bytes in the paths and the data of all znodes.", lambda v: v.tree.data_bytes, basis=ESTIMATED),
    _gauge("global_sessions", "Sessions of the whole ensemble.", lambda v: len(v.tree.sessions)),
    *_nothing(Kind.GAUGE, NO_LOCAL, "local_sessions"),
    _gauge("open_file_descriptor_count", "Files and connections that the process has open.", lambda _: process.open_files()),
    _gauge("max_file_descriptor_count", "How many it may have open.", lambda _: process.max_files()),

    # Requests.
    _gauge("packets_received", "Packets that clients sent.", lambda v: v.stats.packets_received),
    _gauge("packets_sent", "Packets sent to clients, without watch events.", lambda v: v.stats.packets_sent),
    _counter("bytes_received_count", "Bytes that clients sent.", _bytes_received),
    _counter("response_bytes", "Bytes in answers.", lambda v: v.stats.response_bytes),
    *_nothing(Kind.COUNTER, NOT_COUNTED, "watch_bytes"),
    _gauge("last_client_response_size", "Bytes in the last answer; -1 before the first.", lambda v: v.stats.response_sizes.last),
    _gauge("max_client_response_size", "Bytes in the longest answer.", lambda v: v.stats.response_sizes.max),
    _gauge("min_client_response_size", "Bytes in the shortest answer.", lambda v: v.stats.response_sizes.min),
    _gauge("avg_latency", "Average time to answer a request, in milliseconds.", lambda v: round(v.latency.average, 4), basis=ESTIMATED),
    _gauge("max_latency", "Longest time to answer a request.", lambda v: round(v.latency.max), basis=ESTIMATED),
    _gauge("min_latency", "Shortest time to answer a request.", lambda v: round(v.latency.min), basis=ESTIMATED),
    _detailed("readlatency", "Time to answer what needs no transaction: from arrival to answer.", lambda v: v.stats.read_latency, basis=ESTIMATED),
    _detailed("updatelatency", "Time to answer what needs a transaction: from arrival, by commit, to answer.", lambda v: v.stats.update_latency),
    _detailed("read_final_proc_time_ms", "The same as readlatency: a read has only one stage.", lambda v: v.stats.read_latency, basis=ESTIMATED),
    Metric("read_per_namespace", Kind.SUMMARY_SET, "Bytes read, by first part of the path.", lambda v: v.stats.reads_by_namespace.by_key, ESTIMATED),
    Metric("write_per_namespace", Kind.SUMMARY_SET, "Bytes written, by first part of the path.", lambda v: v.stats.writes_by_namespace.by_key, ESTIMATED),
    _counter("request_throttle_wait_count", "How often a client was not read from, because globalOutstandingLimit was reached.", lambda v: v.stats.throttled),
    *_nothing(Kind.DETAILED_SUMMARY, NO_QUEUE, "request_throttle_queue_time_ms"),
    *_nothing(Kind.COUNTER, NO_LIMIT, "throttled_ops", "large_requests_rejected"),
    *_nothing(Kind.COUNTER, NOT_STALE, "stale_requests", "stale_requests_dropped", "stale_replies"),
    *_nothing(Kind.COUNTER, NO_CACHE, "response_packet_cache_hits", "response_packet_cache_misses", "response_packet_get_children_cache_hits", "response_packet_get_children_cache_misses"),

    # Connections and sessions.
    _counter("connection_request_count", "Connect requests.", lambda v: v.stats.connect_requests),
    _counter("connection_rejected", "Connections turned away: too many, or too many from one address.", lambda v: v.server.rejected),
    _counter("connection_drop_count", "Connections that clients ended without closing their session.", lambda v: v.stats.connections_dropped),
    _counter("connection_revalidate_count", "Sessions that came back, over this server.", lambda v: v.stats.sessions_revalidated),
    _counter("revalidate_count", "Sessions that came back, over a server that follows this one.", lambda v: v.stats.learners_revalidated),
    _counter("sessionless_connections_expired", "Connections closed because they opened no session in time.", lambda v: v.stats.sessionless_expired),
    _counter("stale_sessions_expired", "Sessions that this server, as leader, let expire.", lambda v: v.stats.sessions_expired),
    _counter("cnxn_closed_without_zk_server_running", "Connections closed because there was no leader.", lambda v: v.stats.connections_unserved),
    _gauge("auth_failed_count", "Authentications that failed.", lambda v: v.stats.auth_failed),
    Metric("connection_drop_probability", Kind.GAUGE, NO_LIMIT, lambda _: 0.0, Basis.NOTHING),
    *_nothing(Kind.SUMMARY, NO_LIMIT, "connection_token_deficit"),
    *_nothing(Kind.GAUGE, NO_TLS, "outstanding_tls_handshake", "non_mtls_remote_conn_count", "non_mtls_local_conn_count"),
    *_nothing(Kind.COUNTER, NO_TLS, "unsuccessful_handshake", "tls_handshake_exceeded"),
    *_nothing(Kind.SUMMARY, "There is one way to serve connections, and it is not Netty.", "netty_queued_buffer_capacity"),
    *_nothing(Kind.COUNTER, NO_ENSEMBLE_AUTH, "ensemble_auth_success", "ensemble_auth_fail", "ensemble_auth_skip"),

    # Watches.
    _summary("node_created_watch_count", "Watchers told of a creation. Each counts as one event.", _fired(EventType.NODE_CREATED), basis=ESTIMATED),
    _summary("node_deleted_watch_count", "Watchers told of a deletion. Each counts as one event.", _fired(EventType.NODE_DELETED), basis=ESTIMATED),
    _summary("node_changed_watch_count", "Watchers told of new data. Each counts as one event.", _fired(EventType.NODE_DATA_CHANGED), basis=ESTIMATED),
    _summary("node_children_watch_count", "Watchers told of a change among children. Each counts as one event.", _fired(EventType.NODE_CHILDREN_CHANGED), basis=ESTIMATED),
    *_nothing(Kind.COUNTER, NO_CLEANER, "dead_watchers_queued", "dead_watchers_cleared", "add_dead_watcher_stall_time"),
    *_nothing(Kind.DETAILED_SUMMARY, NO_CLEANER, "dead_watchers_cleaner_latency"),

    # Quotas.
    Metric("quota_count_limit_per_namespace", Kind.GAUGE_SET, "Znodes that quotas allow, by first part of the path.", _quota(quota.limits_path, _count_limit)),
    Metric("quota_bytes_limit_per_namespace", Kind.GAUGE_SET, "Bytes that quotas allow, by first part of the path.", _quota(quota.limits_path, _bytes_limit)),
    Metric("quota_count_usage_per_namespace", Kind.GAUGE_SET, "Znodes under a quota, by first part of the path.", _quota(quota.stats_path, lambda usage: usage.nodes)),
    Metric("quota_bytes_usage_per_namespace", Kind.GAUGE_SET, "Bytes under a quota, by first part of the path.", _quota(quota.stats_path, lambda usage: usage.size)),
    Metric("quota_exceeded_error_per_namespace", Kind.COUNTER_SET, "Writes that this server, as leader, refused for a quota; those in a multi are not counted.", lambda v: v.stats.quota_exceeded),

    # The ensemble, as its leader sees it.
    _gauge("quorum_size", "Servers that vote.", lambda v: len(v.server.member.options.members.voters), *ENSEMBLE),
    _gauge("learners", "Servers connected to this leader.", lambda v: len(v.learners), *LEADER),
    _gauge("synced_followers", "Followers that are up to date.", lambda v: _synced(v, votes=True), *LEADER),
    _gauge("synced_observers", "Observers that are up to date.", lambda v: _synced(v, votes=False) if v.leader else None, "leader", "follower"),
    Metric("synced_non_voting_followers", Kind.GAUGE, "A follower always votes.", lambda _: 0, Basis.NOTHING, LEADER),
    _gauge("pending_syncs", "Clients of this server that wait for a sync.", lambda v: v.server.member.pending_syncs, *LEADER),
    _gauge("leader_uptime", "Milliseconds since this server leads.", lambda v: v.now_ms - v.stats.serving_since_ms, *LEADER),
    _gauge("last_proposal_size", "Bytes in the last proposal; -1 before the first.", lambda v: v.stats.proposal_sizes.last, *LEADER),
    _gauge("max_proposal_size", "Bytes in the longest proposal.", lambda v: v.stats.proposal_sizes.max, *LEADER),
    _gauge("min_proposal_size", "Bytes in the shortest proposal.", lambda v: v.stats.proposal_sizes.min, *LEADER),
    _counter("diff_count", "Learners brought up to date by what they lacked, or by cutting off what they had too much.", lambda v: v.stats.syncs - v.stats.syncs_snap),
    _counter("snap_count", "Learners brought up to date by a snapshot.", lambda v: v.stats.syncs_snap),
    Metric("ack_latency", Kind.DETAILED_SUMMARY_SET, "Time from the making of a transaction to a server's acknowledgement, if that came before the commit; by server, for one zxid in 16.", lambda v: v.stats.ack_latency.by_key, ESTIMATED),
    Metric("learner_handler_qp_size", Kind.SUMMARY_SET, NO_QUEUE, _by_learner, Basis.NOTHING),
    Metric("learner_handler_qp_time_ms", Kind.DETAILED_SUMMARY_SET, NO_QUEUE, _by_learner, Basis.NOTHING),
    *_nothing(Kind.SUMMARY, NOT_COUNTED, "inflight_snap_count", "inflight_diff_count", "socket_closing_time"),
    *_nothing(Kind.COUNTER, "A leader stays one for as long as a quorum follows it.", "quit_leading_due_to_disloyal_voter"),

    # Elections.
    _counter("looking_count", "How often this server looked for a leader.", lambda v: v.stats.looking),
    _summary("election_time", "Milliseconds until a leader was found.", lambda v: v.stats.election_time),
    _summary("unavailable_time", "Milliseconds until clients were served again.", lambda v: v.stats.unavailable_time),
    _summary("leader_unavailable_time", "The same, where this server became the leader.", lambda v: v.stats.leader_unavailable_time),
    _summary("follower_sync_time", "Milliseconds that this server, as follower, took to become equal to its leader.", lambda v: v.stats.follower_sync_time),
    _summary("observer_sync_time", "Milliseconds that this server, as observer, took to become equal to its leader.", lambda v: v.stats.observer_sync_time),

    # Transactions, in the order of the stages they pass.
    _counter("prep_processor_request_queued", "Requests that this server, as leader, made transactions of.", lambda v: v.stats.prepare_time.count),
    _summary("prep_process_time", "Time to make a transaction of a request.", lambda v: v.stats.prepare_time, basis=ESTIMATED),
    _counter("proposal_count", "Transactions proposed by this server as leader.", lambda v: v.stats.proposals),
    _counter("learner_proposal_received_count", "Transactions received from a leader.", lambda v: v.stats.entries_received),
    _detailed("proposal_latency", "Time from the making of a transaction to its arrival here.", lambda v: v.stats.proposal_latency.of(v.stats.entries_received), basis=ESTIMATED),
    _counter("sync_processor_request_queued", "Transactions written to the log.", lambda v: v.stats.entries_logged),
    _summary("sync_process_time", "Time to write what arrived together to the log, without syncing it.", lambda v: v.stats.append_time.of(v.stats.batches_logged), basis=ESTIMATED),
    _summary("sync_processor_batch_size", "Transactions that one sync of the log made durable.", lambda v: v.stats.entries_synced.of(v.stats.log_syncs), basis=ESTIMATED),
    _summary("fsynctime", "Time to sync the log.", lambda v: v.stats.fsync_time),
    _detailed("sync_processor_queue_flush_time_ms", "The same as fsynctime.", lambda v: v.stats.fsync_time),
    _detailed("sync_processor_queue_and_flush_time_ms", "Time from writing a transaction to the log until it is durable.", lambda v: v.stats.append_to_durable_time.of(v.stats.entries_logged), basis=ESTIMATED),
    _detailed("proposal_ack_creation_latency", "Time from the making of a transaction until it is durable here.", lambda v: v.stats.proposal_ack_latency.of(v.stats.entries_logged), basis=ESTIMATED),
    _detailed("quorum_ack_latency", "Time from the making of a transaction until a quorum has it, on the leader.", lambda v: v.stats.quorum_ack_latency.of(v.stats.commits), basis=ESTIMATED),
    _counter("commit_count", "Transactions committed by this server as leader.", lambda v: v.stats.commits),
    _counter("learner_commit_received_count", "Transactions that a leader committed here.", lambda v: v.stats.commits_received),
    _counter("request_commit_queued", "Transactions committed here, by whichever leader.", _committed),
    _detailed("commit_propagation_latency", "Time from the making of a transaction to its commit here, on followers and observers.", lambda v: v.stats.commit_latency.of(v.stats.commits_received), basis=ESTIMATED),
    _detailed("propagation_latency", "Time from the making of a transaction to its commit here.", lambda v: v.stats.propagation_latency.of(_committed(v)), basis=ESTIMATED),
    _summary("write_commit_proc_issued", "Transactions that one commit brought.", lambda v: v.stats.entries_applied.of(v.stats.batches_committed), basis=ESTIMATED),
    _summary("commit_process_time", "Time to apply what one commit brought, and to answer.", lambda v: v.stats.apply_time.of(v.stats.batches_committed), basis=ESTIMATED),
    _summary("write_batch_time_in_commit_processor", "The same as commit_process_time.", lambda v: v.stats.apply_time.of(v.stats.batches_committed), basis=ESTIMATED),
    _detailed("write_final_proc_time_ms", "Time to apply one transaction, and to answer.", lambda v: v.stats.apply_each_time.of(_committed(v)), basis=ESTIMATED),
    _counter("digest_mismatches_count", "Transactions after which this server's tree differed from the leader's.", lambda v: v.stats.digest_mismatches),
    *_nothing(Kind.COUNTER, NOT_COUNTED, "outstanding_changes_queued", "outstanding_changes_removed"),
    *_nothing(Kind.DETAILED_SUMMARY, NOT_COUNTED, "close_session_prep_time"),
    *_nothing(Kind.SUMMARY, NO_QUEUE, "prep_processor_queue_size", "proposal_process_time", "sync_processor_queue_size", "learner_request_processor_queue_size", "requests_in_session_queue", "pending_session_queue_size", "reads_after_write_in_session_queue", "reads_issued_from_session_queue", "session_queues_drained"),
    *_nothing(Kind.DETAILED_SUMMARY, NO_QUEUE, "prep_processor_queue_time_ms", "sync_processor_queue_time_ms"),
    *_nothing(Kind.SUMMARY, NO_POOL, "read_commit_proc_req_queued", "write_commit_proc_req_queued", "commit_commit_proc_req_queued", "read_commit_proc_issued", "concurrent_request_processing_in_commit_processor", "time_waiting_empty_pool_in_commit_processor_read_ms"),
    *_nothing(Kind.DETAILED_SUMMARY, NO_POOL, "read_commitproc_time_ms", "write_commitproc_time_ms", "local_write_committed_time_ms", "server_write_committed_time_ms"),
    *_nothing(Kind.COUNTER, NO_POOL, "requests_not_forwarded_to_commit_processor", "skip_learner_request_to_next_processor_count"),
    *_nothing(Kind.DETAILED_SUMMARY, NO_OBSERVER_MASTER, "om_proposal_process_time_ms", "om_commit_process_time_ms"),

    # Snapshots and start.
    _summary("snapshottime", "Time to write a snapshot.", lambda v: v.stats.snapshot_time),
    _counter("snapshot_error_count", "Snapshots that could not be written.", lambda v: v.stats.snapshot_errors),
    _summary("dbinittime", "Time to read snapshot and log at the start.", lambda v: v.stats.recovery_time),
    _summary("startup_snap_load_time", "Time to read the snapshot at the start.", lambda v: v.stats.snapshot_load_time),
    _summary("startup_txns_load_time", "Time to replay the log at the start.", lambda v: v.stats.log_load_time),
    _summary("startup_txns_loaded", "Transactions replayed at the start.", lambda v: v.stats.entries_loaded),
    _counter("unrecoverable_error_count", "Errors that end the server, such as a failing disk.", lambda v: v.stats.unrecoverable_errors),
    *_nothing(Kind.COUNTER, NO_ADMIN, "snapshot_rate_limited_count", "restore_error_count", "restore_rate_limited_count", "insecure_admin_count"),
    *_nothing(Kind.SUMMARY, NO_ADMIN, "restore_time"),
    *_nothing(Kind.DETAILED_SUMMARY, "There is no JVM.", "jvm_pause_time_ms"),

    # The process, under the names that all Prometheus libraries share.
    _process("process_cpu_seconds_total", Kind.COUNTER, "Seconds of processor time used.", process.cpu_seconds),
    _process("process_start_time_seconds", Kind.GAUGE, "When the process started, in seconds since 1970.", process.start_seconds),
    _process("process_open_fds", Kind.GAUGE, "Open file descriptors.", process.open_files),
    _process("process_max_fds", Kind.GAUGE, "Most file descriptors that may be open.", process.max_files),
    _process("process_virtual_memory_bytes", Kind.GAUGE, "Size of virtual memory.", process.virtual_bytes),
    _process("process_resident_memory_bytes", Kind.GAUGE, "Size of resident memory.", process.resident_bytes),
)
# fmt: on
