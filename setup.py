"""Compiles the modules on the path of a request with mypyc, where a C compiler is at hand.

They are ordinary typed Python: without a compiler, or with OTTLA_COMPILE=0, the same files run as they are, only slower.
A compiled module lies beside its source and is preferred over it, so an edit counts only after ``make setup``.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("src")
BUILDING = {"build", "build_ext", "bdist_wheel", "editable_wheel"}
IN_PLACE = "--inplace" in sys.argv
COMPILED = (
    "ottla/base/clock.py",
    "ottla/base/filebytes.py",
    "ottla/base/timers.py",
    "ottla/broker/api.py",
    "ottla/broker/apis/k00_produce.py",
    "ottla/broker/apis/k01_fetch.py",
    "ottla/broker/apis/k08_offset_commit.py",
    "ottla/broker/apis/k11_join_group.py",
    "ottla/broker/apis/k12_heartbeat.py",
    "ottla/broker/apis/k14_sync_group.py",
    "ottla/broker/connection.py",
    "ottla/broker/dispatch.py",
    "ottla/broker/fetchsessions.py",
    "ottla/broker/gathering.py",
    "ottla/broker/tallies.py",
    "ottla/coordinator",
    "ottla/coordinator/groups",
    "ottla/keeper/clientport.py",
    "ottla/keeper/disk.py",
    "ottla/keeper/links.py",
    "ottla/keeper/member.py",
    "ottla/keeper/messages.py",
    "ottla/keeper/proto",
    "ottla/keeper/quorum",
    "ottla/keeper/roles.py",
    "ottla/keeper/server",
    "ottla/keeper/shell.py",
    "ottla/keeper/store/entries.py",
    "ottla/keeper/store/synced.py",
    "ottla/keeper/store/txnlog.py",
    "ottla/keeper/wire.py",
    "ottla/log/batches.py",
    "ottla/log/cleaner/groups.py",
    "ottla/log/cleaner/keep.py",
    "ottla/log/cleaner/round.py",
    "ottla/log/cleaner/sift.py",
    "ottla/log/cleaner/transactions.py",
    "ottla/log/config.py",
    "ottla/log/epochs.py",
    "ottla/log/files.py",
    "ottla/log/found.py",
    "ottla/log/index.py",
    "ottla/log/log.py",
    "ottla/log/outcomes.py",
    "ottla/log/producers.py",
    "ottla/log/replay.py",
    "ottla/log/segment.py",
    "ottla/log/segments.py",
    "ottla/log/times.py",
    "ottla/metadata/hashorder.py",
    "ottla/net/connection.py",
    "ottla/net/flow.py",
    "ottla/net/frames.py",
    "ottla/net/turn.py",
    "ottla/net/vigil.py",
    "ottla/peers.py",
    "ottla/records/batch.py",
    "ottla/records/codecs.py",
    "ottla/records/control.py",
    "ottla/records/legacy.py",
    "ottla/records/record.py",
    "ottla/records/validate.py",
    "ottla/records/walk.py",
    "ottla/replica/fetcher.py",
    "ottla/replica/leadersession.py",
    "ottla/replica/leadership.py",
    "ottla/replica/partition.py",
    "ottla/replica/replicas.py",
    "ottla/scan/jsonkernel.py",
    "ottla/scan/kernel.py",
    "ottla/wire/fetch.py",
    "ottla/wire/fetchclient.py",
    "ottla/wire/frames.py",
    "ottla/wire/message.py",
    "ottla/wire/messages/group_metadata.py",
    "ottla/wire/messages/k00_produce.py",
    "ottla/wire/messages/k01_fetch.py",
    "ottla/wire/messages/k08_offset_commit.py",
    "ottla/wire/messages/k09_offset_fetch.py",
    "ottla/wire/messages/k11_join_group.py",
    "ottla/wire/messages/k12_heartbeat.py",
    "ottla/wire/messages/k14_sync_group.py",
    "ottla/wire/offsetfetch.py",
    "ottla/wire/primitives.py",
    "ottla/wire/produce.py",
    "ottla/wire/typed.py",
)
COMPILE_ARGS = (
    "-fno-semantic-interposition",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-asynchronous-unwind-tables",
)
LINK_ARGS = ("-Wl,--gc-sections", "-Wl,-z,noseparate-code")


def compiled_modules() -> list[str]:
    found = []
    for name in COMPILED:
        path = SOURCES / name
        found += sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [str(path) for path in found if path.name != "__init__.py"]


def extensions() -> list[Extension]:
    if os.environ.get("OTTLA_COMPILE") == "0" or not BUILDING & set(sys.argv):
        return []
    from mypyc.build import mypycify

    # Types are checked elsewhere. Here, what Ottla depends on may not even be installed yet.
    # Nothing is taken from a cache: what mypyc makes of a module in part known from before does not always fit the rest.
    lenient = ["--config-file", os.devnull, "--ignore-missing-imports", "--cache-dir", os.devnull]
    try:
        made = mypycify([*lenient, *compiled_modules()], opt_level="2", debug_level="0", separate=True)
    except SystemExit:
        remove_strays(set())
        if IN_PLACE:
            raise
        # mypy judges with the newest rules it knows; what it finds wrong must not keep anybody from installing.
        sys.stderr.write("ottla: the modules could not be translated and will run uncompiled\n")
        return []
    for extension in made:
        # To install, it is enough that it runs. Whoever compiles in place wants to know, and has no use for older modules.
        extension.optional = not IN_PLACE
        # Nobody puts other functions in the place of these, so they may be called directly, and inlined. What a module does not
        # use of mypyc's library, the names of what nobody else calls, and a page for each part would be several megabytes in all.
        extension.extra_compile_args = [*extension.extra_compile_args, *COMPILE_ARGS]
        extension.extra_link_args = [*extension.extra_link_args, *LINK_ARGS]
    remove_strays({extension.name.rpartition(".")[2] for extension in made})
    return made


def remove_strays(names: set[str]) -> None:
    """What was compiled before, and is not now, would hide its newer source."""
    for path in SOURCES.rglob("*.so"):
        if path.name.partition(".")[0] not in names:
            path.unlink()


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
