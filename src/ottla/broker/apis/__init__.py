"""One file for each API this broker serves, named after its key. ``ALL`` is what a listener offers."""

from __future__ import annotations

from ottla.broker.api import Handler
from ottla.broker.apis import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k60_describe_cluster,
)

ALL: tuple[Handler, ...] = tuple(
    module.HANDLER
    for module in (
        k00_produce,
        k01_fetch,
        k02_list_offsets,
        k03_metadata,
        k18_api_versions,
        k19_create_topics,
        k20_delete_topics,
        k22_init_producer_id,
        k23_offset_for_leader_epoch,
        k60_describe_cluster,
    )
)
