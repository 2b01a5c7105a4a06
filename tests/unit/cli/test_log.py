"""``ottla log`` on the files of a broker that runs."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from ottla.cli.app import app
from tests.unit.log.logs import NOW_MS, numbered_batch, open_log


def test_what_a_broker_is_deleting_is_not_looked_at(tmp_path: Path) -> None:
    for name in ("t-0", f"u-0.{'0' * 32}-delete"):
        log, _ = open_log(tmp_path / name)
        log.append_as_leader(numbered_batch(0, 5), leader_epoch=0, now_ms=NOW_MS)
        log.close(now_ms=NOW_MS)
    gone = tmp_path / f"u-0.{'0' * 32}-delete"
    (gone / f"{0:020d}.index").unlink()  # it goes file by file
    verified = CliRunner().invoke(app, ["log", "verify", str(tmp_path)])
    assert (verified.exit_code, verified.stderr.startswith("1 partitions, 1 segments")) == (0, True), verified.output
    assert CliRunner().invoke(app, ["log", "verify", str(gone)]).exit_code == 1, "unless it is named"
