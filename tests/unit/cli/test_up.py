from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.cluster import INTERRUPTED
from ottla.cli.processes import free_ports, is_free, mode, started

from .conftest import KEEPERS_ONLY, Ottla

READY = re.compile(r"ready: bootstrap= keeper=([0-9.:,]+) console= rest=\n")


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_up_status_and_down(ottla: Ottla) -> None:
    done = ottla.up()
    assert done.returncode == 0, done.stderr
    ready = READY.fullmatch(done.stdout)
    assert ready is not None
    addresses = ready[1].split(",")
    processes = ottla.processes()
    assert [process["address"] for process in processes] == addresses
    assert [process["id"] for process in processes] == [1, 2, 3]
    for process in processes:
        assert set(process) == {"role", "id", "pid", "address", "metrics"}
        assert process["role"] == "keeper"
        assert process["metrics"].startswith("http://127.0.0.1:")
        assert started(process["pid"])
    wait_until(lambda: ottla.run("status", "--dir", "cluster").stdout.count("follower") == 3)
    assert ottla.run("down", "--dir", "cluster").stdout == "stopped 3 of 3 processes\n"
    assert not any(started(process["pid"]) for process in processes)
    assert ottla.processes() == []
    assert ottla.run("down", "--dir", "cluster").stdout == "nothing runs in cluster\n"


def test_status_of_a_folder_where_nothing_ever_ran(ottla: Ottla) -> None:
    done = ottla.run("status", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"processes": []})
    assert ottla.run("status").stdout == "nothing runs in ottla-data\n"
    assert list(ottla.folder.iterdir()) == []


def test_every_keeper_has_a_configuration_of_its_own(ottla: Ottla) -> None:
    ottla.up("--keeper-set", "tickTime=123")
    configs = [(ottla.cluster / f"keeper-{number}" / "zoo.cfg").read_text() for number in (1, 2, 3)]
    servers = [[line for line in config.splitlines() if line.startswith("server.")] for config in configs]
    assert len(servers[0]) == 3
    assert servers[0] == servers[1] == servers[2]
    assert all("tickTime=123\n" in config for config in configs)
    assert (ottla.cluster / "keeper-2" / "data" / "myid").read_text() == "2\n"


def test_one_keeper_is_standalone(ottla: Ottla) -> None:
    assert ottla.up("--keepers", "1").returncode == 0
    assert "server." not in (ottla.cluster / "keeper-1" / "zoo.cfg").read_text()
    assert len(ottla.processes()) == 1


def test_a_given_port_is_the_first_of_a_row(ottla: Ottla) -> None:
    port = next(port for port in free_ports("127.0.0.1", 50) if is_free("127.0.0.1", port + 1))
    done = ottla.up("--keepers", "2", "--keeper-port", str(port))
    assert done.returncode == 0, done.stderr
    assert f"keeper=127.0.0.1:{port},127.0.0.1:{port + 1} " in done.stdout


def test_the_foreground_ends_with_ctrl_c_and_takes_its_children_along(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    assert READY.fullmatch(first_line(process))
    pids = [entry["pid"] for entry in ottla.processes()]
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert not any(started(pid) for pid in pids)
    assert not (ottla.cluster / "ottla.json").exists()


def test_down_ends_a_foreground_from_elsewhere(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    assert ottla.run("down", "--dir", "cluster").stdout == "stopped 3 of 3 processes\n"
    assert process.wait(120) == 0


def test_a_second_ctrl_c_kills(ottla: Ottla) -> None:
    ottla.standins, ottla.is_patient = "2=stubborn", True  # so patient that nothing but the second one can be it
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    pids = [entry["pid"] for entry in ottla.processes()]
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not started(pids[0]))
    assert started(pids[1])
    process.send_signal(signal.SIGINT)
    process.wait(120)
    assert not started(pids[1])


def test_a_child_that_dies_is_reported_and_the_others_go_on(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    victim = ottla.processes()[1]
    os.kill(victim["pid"], signal.SIGKILL)
    assert process.stderr is not None
    assert f"keeper 2 (pid {victim['pid']}) was ended by SIGKILL" in process.stderr.readline()
    assert [entry["id"] for entry in ottla.processes()] == [1, 3]
    assert f"dead (was pid {victim['pid']})" in ottla.run("status", "--dir", "cluster").stdout
    assert process.poll() is None


def test_a_cluster_of_which_nothing_is_left_ends(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    for entry in ottla.processes():
        os.kill(entry["pid"], signal.SIGKILL)
    assert process.wait(120) == 1


def test_a_keeper_that_fails_to_start_ends_the_others_and_is_quoted(ottla: Ottla) -> None:
    ottla.standins = "2=exit"
    done = ottla.up()
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.search(r"ottla up: keeper 2 \(pid \d+\) ended with exit code 3: the disk is on fire", done.stderr)
    assert ottla.processes() == []


def test_a_log_that_goes_with_the_processes_is_quoted(ottla: Ottla) -> None:
    ottla.standins = "2=exit"
    done = ottla.up("--ephemeral")
    assert done.returncode == 1
    assert re.search(
        r"exit code 3: the disk is on fire; its log ends with(\n  .*)*\n  the disk is on fire\n", done.stderr
    )
    assert "/ottla-" not in done.stderr


def test_a_keeper_that_does_not_serve_is_waited_for_until_ctrl_c(ottla: Ottla) -> None:
    ottla.standins = "1=silent"
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    wait_until(lambda: len(ottla.processes()) == 3)
    pids = [entry["pid"] for entry in ottla.processes()]
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert not any(started(pid) for pid in pids)


def test_the_same_folder_is_refused_while_a_cluster_runs_there(ottla: Ottla) -> None:
    ottla.up()
    done = ottla.up()
    assert done.returncode == 1
    assert "a cluster runs there already" in done.stderr
    assert "ottla down --dir cluster" in done.stderr
    assert len(ottla.processes()) == 3


def test_a_folder_left_by_a_crash_is_taken_over(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    processes = ottla.processes()
    process.kill()
    for entry in processes:
        os.kill(entry["pid"], signal.SIGKILL)
    assert ottla.up().returncode == 0


def test_children_of_a_killed_supervisor_are_found_by_down(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    process.kill()
    process.wait(120)
    assert ottla.run("down", "--dir", "cluster").stdout == "stopped 3 of 3 processes\n"


def test_down_leaves_a_process_alone_that_only_has_the_same_number(ottla: Ottla) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        ottla.cluster.mkdir()
        entry = {"role": "keeper", "id": 1, "identity": [bystander.pid, 1], "address": "127.0.0.1:1", "metrics": None}
        state = {"supervisor": [bystander.pid, 1], "temporary": None, "processes": [entry]}
        (ottla.cluster / "ottla.json").write_text(json.dumps(state))
        assert ottla.processes() == []
        assert ottla.run("down", "--dir", "cluster").stdout == "stopped 0 of 1 processes\n"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_that_does_not_end_is_killed_by_down(ottla: Ottla, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.cli import cluster

    ottla.standins = "3=stubborn"
    ottla.up()
    pids = [entry["pid"] for entry in ottla.processes()]
    monkeypatch.setattr(cluster, "GRACE_S", 0.2)
    assert cluster.down(ottla.cluster) == 0
    wait_until(lambda: not any(started(pid) for pid in pids))


def test_ephemeral_data_goes_with_the_processes(ottla: Ottla) -> None:
    done = ottla.up("--ephemeral")
    assert done.returncode == 0, done.stderr
    temporary = Path(json.loads((ottla.cluster / "ottla.json").read_text())["temporary"])
    assert (temporary / "keeper-3" / "zoo.cfg").exists()
    assert not (ottla.cluster / "keeper-1").exists()
    assert ottla.run("down", "--dir", "cluster").returncode == 0
    assert not temporary.exists()
    assert not ottla.cluster.exists()


def test_restarting_keeps_the_number_of_keepers(ottla: Ottla) -> None:
    ottla.up("--keepers", "5")
    ottla.run("down", "--dir", "cluster")
    for number in range(1, 6):
        (ottla.cluster / f"keeper-{number}" / "data" / "version-2").mkdir()  # as the first write leaves it
    assert len(ottla.up().stdout.split(",")) == 5
    ottla.run("down", "--dir", "cluster")
    done = ottla.up("--keepers", "3")
    assert done.returncode == 1
    assert "holds 5, and their number cannot change" in done.stderr
    (ottla.cluster / "keeper-2" / "data" / "version-2").rmdir()
    assert "some are missing" in ottla.up().stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--port", "70000"], 2, "'--port'"),
        (["--set", "log.retention.hours=soon"], 1, "log.retention.hours"),
        (["--keepers", "0"], 2, "'--keepers'"),
        (["--keeper-port", "70000"], 2, "'--keeper-port'"),
        (["--brokers", "0", "--keeper-port", "65535"], 1, "3 keepers need ports up to 65537"),
        (["--set", "nonsense"], 2, "is not of the form k=v"),
        (["--console-port", "1", "--no-console"], 2, "exclude each other"),
        (["--host", "0.0.0.0"], 1, "--host 0.0.0.0: can be reached from other machines"),
        (["--host", "192.0.2.1", "--insecure"], 1, "--host 192.0.2.1: cannot listen there: Cannot assign requested"),
        (["--host", "192.0.2.1", "--insecure", "--port", "0", "--keeper-port", "0"], 1, "cannot listen there"),
        (["--host", "no such host", "--insecure", "--port", "0"], 1, "--host no such host: cannot listen there"),
        (["--keeper-set", "tickTime=soon"], 1, "tickTime=soon: must be a whole number from 1 to"),
        (["--dir", "/proc/none"], 1, "--dir /proc/none: cannot be made"),
        (["--dir", "file"], 2, "is a file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(ottla: Ottla, arguments: list[str], code: int, message: str) -> None:
    (ottla.folder / "file").write_text("")
    done = ottla.run("up", "--detach", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in ottla.folder.iterdir()] == ["file"]  # nothing of it is left behind


def test_a_port_that_is_taken_is_named(ottla: Ottla) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = ottla.up("--keeper-port", str(port))
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken; choose another with --keeper-port" in done.stderr
    assert not ottla.cluster.exists()


def test_insecure_reaches_the_keepers(ottla: Ottla) -> None:
    done = ottla.up("--keepers", "1", "--host", "0.0.0.0", "--insecure")
    assert done.returncode == 0, done.stderr
    port = int(done.stdout.split("0.0.0.0:")[1].split()[0])
    assert mode("127.0.0.1", port, timeout_s=120) == "follower"


def test_options_of_parts_to_come_parse_and_say_so(ottla: Ottla) -> None:
    done = ottla.up("--port", "0", "--no-console", "--rest-port", "0", "--set", "log.retention.hours=1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has no effect") == 1


def test_a_keeper_that_died_is_started_again(ottla: Ottla) -> None:
    process = ottla.start("up", "--dir", "cluster", *KEEPERS_ONLY)
    first_line(process)
    victim = ottla.processes()[1]
    os.kill(victim["pid"], signal.SIGKILL)
    wait_until(lambda: len(ottla.processes()) == 2)
    done = ottla.run("restart", "keeper", "2", "--dir", "cluster")
    assert done.returncode == 0, done.stderr
    again = next(entry for entry in ottla.processes() if entry["id"] == 2)
    assert done.stdout == f"keeper 2 serves on {victim['address']} (pid {again['pid']})\n"
    assert {**again, "pid": 0} == {**victim, "pid": 0}
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert not started(again["pid"])  # the foreground takes it along, although it is not its child


def test_what_was_never_started_cannot_be_started_again(ottla: Ottla) -> None:
    ottla.up()
    for role, number, folder in (("broker", "1", "cluster"), ("broker", "0", "cluster"), ("keeper", "1", "nowhere")):
        done = ottla.run("restart", role, number, "--dir", folder)
        assert done.returncode == 3
        assert done.stderr == f"ottla restart: {folder}: no {role} {number} was started there\n"
    assert not (ottla.folder / "nowhere").exists()


def test_keepers_that_have_lost_their_quorum_are_started_again_one_by_one(ottla: Ottla) -> None:
    assert ottla.up("--keepers", "3").returncode == 0
    for victim in ottla.processes():
        os.kill(victim["pid"], signal.SIGKILL)
    wait_until(lambda: not ottla.processes())
    ottla.standins = "1=silent 2=silent 3=silent"
    done = ottla.run("restart", "keeper", "3", "--dir", "cluster")
    assert done.returncode == 0, done.stderr
    (again,) = ottla.processes()
    told = f"keeper 3 runs on {again['address']} (pid {again['pid']}); it serves once a majority does\n"
    assert done.stdout == told


def test_the_folder_is_free_while_a_process_that_was_started_again_is_waited_for(ottla: Ottla) -> None:
    assert ottla.up("--keepers", "3").returncode == 0
    before = {process["id"]: process["pid"] for process in ottla.processes()}
    ottla.standins = "3=silent"
    waiting = ottla.start("restart", "keeper", "3", "--dir", "cluster")
    wait_until(lambda: {each["id"]: each["pid"] for each in ottla.processes()}.get(3, before[3]) != before[3])
    assert ottla.run("restart", "keeper", "2", "--dir", "cluster").returncode == 0
    assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(120) == INTERRUPTED
