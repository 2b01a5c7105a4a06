"""The witness keeps silent about good histories and speaks up about each kind of bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import EventType, OpCode
from ottla.keeper.proto.txns import CreateTxn, ErrorTxn, MultiTxn, SetDataTxn
from tests.chaos.client import (
    Request,
    add_watch,
    check,
    children,
    close,
    create,
    delete,
    exists,
    get,
    multi,
    set_,
    sync,
)
from tests.chaos.history import History, load
from tests.chaos.story import TIMEOUT_MS, Story
from tests.chaos.witness import ZOOKEEPER
from tests.chaos.witness import check as judge
from tests.values import replaced

EPHEMERAL, SEQUENTIAL = 1, 2
SET_WATCHES = Request("set_watches", {})


@pytest.fixture
def story() -> Story:
    """Two sessions and one register."""
    story = Story()
    story.open("a", "b")
    story.write("a", create("/r", "0"))
    return story


def findings(story: Story) -> list[str]:
    return judge(story.events, [story.remains("1"), story.remains("2")])


def broken(story: Story) -> set[str]:
    """Which guarantees the witness says were broken."""
    return {finding[:2] for finding in findings(story)}


def test_a_good_history_of_everything(story: Story) -> None:
    story.write("a", set_("/r", "1", 0))
    story.read("b", get("/r"))
    story.write("b", set_("/r", "2", 0))  # refused: the version is 1
    story.write("b", create("/r"))  # refused: it exists
    story.write("b", create("/e", "mine", EPHEMERAL))
    story.write("b", create("/e/below"))  # refused: ephemerals have no children
    story.write("a", create("/q-", "", SEQUENTIAL))
    story.write("a", multi(set_("/r", "3"), check("/e", 0), create("/m")))
    story.write("a", multi(delete("/m"), check("/e", 7)))  # refused as a whole
    story.read("a", children("/"), children=["e", "m", "q-0000000002", "r", "zookeeper"])
    story.read("b", exists("/none"))
    story.read("b", sync())
    story.read("b", get("/r"))
    story.write("b", delete("/m"))
    story.write("b", close())
    story.read("a", exists("/e"))
    assert findings(story) == []


def test_unknown_outcomes_are_taken_from_the_log(story: Story) -> None:
    done = story.send("a", set_("/r", "1"))
    story.commit(done)
    story.give_up(done)
    story.give_up(story.send("a", set_("/r", "never")))
    story.reconnect("a")
    story.read("a", get("/r"))
    story.write("b", set_("/r", "2", 1))
    assert findings(story) == []


def test_a_lost_write(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    del story.txns[-1]
    assert "Z2" in broken(story)


def test_an_acknowledged_write_that_one_server_lacks(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    short = story.remains("2", end=story.zxid - 1)
    assert any(finding.startswith("Z2: server 2") for finding in judge(story.events, [story.remains("1"), short]))


def test_a_state_that_was_read_and_then_undone(story: Story) -> None:
    op = story.send("a", set_("/r", "1"))
    story.commit(op)
    story.give_up(op)
    story.read("b", get("/r"))
    del story.txns[-1]
    assert broken(story) == {"Z2", "Z7"}


def test_a_hole_in_one_servers_log(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    hole = story.zxid
    story.write("a", set_("/r", "2"))
    holed = story.remains("2", without=[hole])
    assert any(finding.startswith("Z4: server 2") for finding in judge(story.events, [story.remains("1"), holed]))


def test_servers_that_differ(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    other = story.remains("2")
    other.txns[-1] = replaced(other.txns[-1], body=SetDataTxn("/r", b"other", 1))
    assert any(finding.startswith("Z4") for finding in judge(story.events, [story.remains("1"), other]))


def test_a_tree_that_is_not_what_its_log_says(story: Story) -> None:
    nodes = {"/r": ("1", story.model.nodes["/r"].stat)}
    wrong = story.remains("2")._replace(nodes=nodes)
    assert any(finding.startswith("Z4: server 2: /r") for finding in judge(story.events, [story.remains("1"), wrong]))


def test_writes_against_real_time(story: Story) -> None:
    first, second = story.send("a", set_("/r", "1")), story.send("b", set_("/r", "2"))
    story.commit(second)
    story.commit(first)
    story.answer(first)
    story.answer(second)
    assert findings(story) == []  # they were concurrent

    late = story.send("a", set_("/r", "3"))
    story.commit(late)
    story.answer(late)
    after = story.send("b", set_("/r", "4"))
    story.commit(after)
    story.answer(after)
    story.txns[-2:] = [
        replaced(story.txns[-1], zxid=story.txns[-2].zxid, body=SetDataTxn("/r", b"4", 3)),
        replaced(story.txns[-2], zxid=story.txns[-1].zxid, body=SetDataTxn("/r", b"3", 4)),
    ]
    assert "Z1" in broken(story)


def test_a_write_done_twice(story: Story) -> None:
    op = story.send("a", set_("/r", "1"))
    story.commit(op)
    story.answer(op)
    story.commit(op)
    assert any("done 2 times" in finding for finding in findings(story))


@pytest.mark.parametrize("request_", [set_("/r", "1"), multi(set_("/r", "1"), check("/r", 0))], ids=["set", "multi"])
def test_a_write_refused_because_its_session_has_moved(story: Story, request_: Request) -> None:
    op = story.send("a", request_)
    story.commit(op)
    story.give_up(op)
    moved = ErrorTxn(ErrorCode.SESSION_MOVED)
    late, multiple = story.txns[-1], isinstance(story.txns[-1].body, MultiTxn)
    story.txns[-1] = replaced(late, body=MultiTxn([(-1, moved), (-1, moved)]) if multiple else moved)
    assert findings(story) == []


def test_a_refused_write_that_was_done(story: Story) -> None:
    story.write("a", set_("/r", "1"), err=-103)
    assert "Z1" in broken(story)


def test_a_write_that_should_have_been_refused(story: Story) -> None:
    op = story.send("a", set_("/r", "1", 7))
    story.txns.append(replaced(story.txns[-1], cxid=2, zxid=story.zxid + 1, type=5, body=SetDataTxn("/r", b"1", 1)))
    story.answer(op, zxid=story.zxid + 1, err=0)
    assert "Z1" in broken(story)


@pytest.mark.parametrize("field", range(11))
def test_a_wrong_field_of_an_answer(story: Story, field: int) -> None:
    good = story.write("a", set_("/r", "1"))["stat"]
    assert findings(story) == []
    good[field] += 1
    assert broken(story) == {"Z1"}


def test_a_wrong_version_in_the_log(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    story.txns[-1] = replaced(story.txns[-1], body=SetDataTxn("/r", b"1", 2))
    assert "Z1" in broken(story)


def test_a_sequence_number_given_twice(story: Story) -> None:
    story.write("a", create("/q-", "", SEQUENTIAL))
    story.write("b", create("/q-", "", SEQUENTIAL))
    body = story.txns[-1].body
    assert isinstance(body, CreateTxn)
    story.txns[-1] = replaced(
        story.txns[-1], body=CreateTxn("/q-0000000001", body.data, body.acl, body.ephemeral, body.parent_cversion)
    )
    assert "Z1" in broken(story)


def test_a_stale_read(story: Story) -> None:
    old = story.read("b", get("/r"))
    story.write("a", set_("/r", "1"))
    story.read("b", get("/r"), **old)
    assert findings(story) == []  # b has seen nothing newer
    story.read("a", get("/r"), **old)
    assert broken(story) == {"Z6", "Z7"}


def test_a_stale_read_after_a_sync(story: Story) -> None:
    old = story.read("b", get("/r"))
    story.write("a", set_("/r", "1"))
    story.read("b", sync(), zxid=old["zxid"])
    story.read("b", get("/r"), **old)
    assert broken(story) == {"Z7"}


def test_a_sync_with_a_leader_that_has_been_replaced(story: Story) -> None:
    old = story.read("b", get("/r"))
    story.elect()
    story.write("a", set_("/r", "1"))
    story.read("b", sync(), zxid=old["zxid"])
    story.read("b", get("/r"), **old)
    assert findings(story) == []


def test_a_read_of_what_never_was(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    story.read("b", get("/r"), data="0")
    assert broken(story) == {"Z7"}


def test_a_read_from_an_older_state_than_its_zxid_says(story: Story) -> None:
    old = story.read("b", get("/r"))
    story.write("a", set_("/r", "1"))
    story.read("b", get("/r"), data=old["data"], stat=old["stat"])
    assert broken(story) == {"Z7"}
    assert judge(story.events, [story.remains()], ZOOKEEPER) == []


def test_answers_out_of_order(story: Story) -> None:
    first, second = story.send("a", get("/r")), story.send("a", exists("/r"))
    story.answer(second)
    story.answer(first)
    assert broken(story) == {"Z5"}


def test_an_answer_left_out(story: Story) -> None:
    first, second = story.send("a", get("/r")), story.send("a", exists("/r"))
    story.answer(second)
    story.give_up(first)
    assert broken(story) == {"Z5"}


def test_a_pipeline_done_out_of_order(story: Story) -> None:
    first, second = story.send("a", set_("/r", "1")), story.send("a", set_("/r", "2"))
    story.commit(second)
    story.commit(first)
    story.give_up(first)
    story.give_up(second)
    assert broken(story) == {"Z5"}


def test_a_pipeline_with_a_gap(story: Story) -> None:
    first, second = story.send("a", set_("/r", "1")), story.send("a", set_("/r", "2"))
    story.commit(second)
    story.give_up(first)
    story.give_up(second)
    assert broken(story) == {"Z5"}


def test_an_older_state_after_reconnecting(story: Story) -> None:
    old = story.read("b", get("/r"))
    story.write("a", set_("/r", "1"))
    story.read("b", get("/r"))
    story.reconnect("b")
    story.read("b", get("/r"), **old)
    assert "Z6" in broken(story)


def test_every_servers_tree_is_looked_at(story: Story) -> None:
    good = story.remains("1")._replace(nodes={"/r": ("0", story.model.nodes["/r"].stat)})
    wrong = story.remains("2")._replace(nodes={})
    assert [finding[:13] for finding in judge(story.events, [wrong, good])] == ["Z4: server 2:"]
    assert [finding[:13] for finding in judge(story.events, [good, wrong])] == ["Z4: server 2:"]


# Watches.


def test_watches_that_fire_as_they_should(story: Story) -> None:
    story.read("b", get("/r", watch=True))
    story.read("b", exists("/n", watch=True))
    story.read("b", children("/", watch=True))
    op = story.send("a", set_("/r", "1"))
    story.commit(op)
    story.fire("b", EventType.NODE_DATA_CHANGED, "/r")
    story.answer(op)
    story.write("a", set_("/r", "2"))
    op = story.send("a", create("/n"))
    story.commit(op)
    story.fire("b", EventType.NODE_CREATED, "/n")
    story.fire("b", EventType.NODE_CHILDREN_CHANGED, "/")
    story.read("b", get("/r", watch=True))
    assert findings(story) == []


def test_a_watch_told_after_its_change_was_seen(story: Story) -> None:
    story.read("b", get("/r", watch=True))
    story.write("a", set_("/r", "1"))
    story.read("b", get("/r"))
    story.fire("b", EventType.NODE_DATA_CHANGED, "/r")
    assert broken(story) == {"Z8"}


def test_a_watch_that_never_fires(story: Story) -> None:
    story.read("b", children("/", watch=True))
    story.write("a", create("/n"))
    story.read("b", exists("/r"))
    assert broken(story) == {"Z8"}


@pytest.mark.parametrize("times", [2, 3])
def test_a_watch_that_fires_more_than_once(story: Story, times: int) -> None:
    story.read("b", get("/r", watch=True))
    story.write("a", set_("/r", "1"))
    for _ in range(times):
        story.fire("b", EventType.NODE_DATA_CHANGED, "/r")
    assert len(findings(story)) == 1


def test_a_watch_that_fires_for_a_later_change(story: Story) -> None:
    story.read("b", get("/r", watch=True))
    story.write("a", set_("/r", "1"))
    story.write("a", set_("/r", "2"))
    story.fire("b", EventType.NODE_DATA_CHANGED, "/r")
    assert broken(story) == {"Z8"}


def test_an_event_nobody_asked_for(story: Story) -> None:
    story.write("a", set_("/r", "1"))
    story.fire("b", EventType.NODE_DATA_CHANGED, "/r")
    assert broken(story) == {"Z8"}


def test_watches_resumed_at_another_server(story: Story) -> None:
    story.read("b", get("/r", watch=True))
    story.read("b", exists("/n", watch=True))
    story.write("a", delete("/r"))
    story.write("a", create("/n"))
    story.write("a", delete("/n"))  # came and went: nothing to tell
    story.reconnect("b")
    resumed = story.send("b", SET_WATCHES)
    story.fire("b", EventType.NODE_DELETED, "/r", zxid=-1)
    story.answer(resumed)
    story.write("a", create("/n"))
    story.fire("b", EventType.NODE_CREATED, "/n")
    story.read("b", exists("/n"))
    assert findings(story) == []


def test_a_watch_forgotten_at_another_server(story: Story) -> None:
    story.read("b", get("/r", watch=True))
    story.write("a", set_("/r", "1"))
    story.reconnect("b")
    story.answer(story.send("b", SET_WATCHES))
    assert broken(story) == {"Z8"}


def test_a_recursive_watch(story: Story) -> None:
    story.read("b", add_watch("/"))
    story.write("a", create("/n"))
    story.fire("b", EventType.NODE_CREATED, "/n")
    story.write("a", set_("/n", "1"))
    story.fire("b", EventType.NODE_DATA_CHANGED, "/n")
    story.read("b", get("/r"))
    story.reconnect("b")
    story.write("a", set_("/n", "2"))  # nobody is told
    story.answer(story.send("b", SET_WATCHES))
    assert findings(story) == []
    story.write("a", set_("/n", "3"))
    story.write("a", delete("/n"))
    story.fire("b", EventType.NODE_DELETED, "/n")
    assert broken(story) == {"Z8"}


# Sessions.


def test_a_session_that_expires_in_time(story: Story) -> None:
    story.write("b", create("/e", "", EPHEMERAL))
    story.wait(TIMEOUT_MS)
    story.expire("b")
    story.read("a", exists("/e"))
    assert findings(story) == []


def test_a_session_that_expires_too_early(story: Story) -> None:
    story.write("b", create("/e", "", EPHEMERAL))
    story.wait(TIMEOUT_MS - 100)
    story.expire("b")
    assert broken(story) == {"Z9"}


def test_an_ephemeral_that_outlives_its_session(story: Story) -> None:
    story.write("b", create("/e", "", EPHEMERAL))
    story.wait(TIMEOUT_MS)
    story.expire("b", paths=[])
    assert any("/e" in finding for finding in findings(story))


def test_a_session_that_ends_twice(story: Story) -> None:
    story.wait(TIMEOUT_MS)
    story.expire("b")
    story.expire("b")
    assert any("closed" in finding for finding in findings(story))


def test_a_session_that_works_after_its_end(story: Story) -> None:
    story.wait(TIMEOUT_MS)
    story.expire("b")
    story.write("b", set_("/r", "1"))
    assert any("was closed before" in finding for finding in findings(story))


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    op_id = history.invoke("a", "set", {"path": "/r"})
    history.outcome("a", op_id, "ok", "set", {"zxid": 1, "err": 0})
    history.happened("a", "event", "event", {"zxid": 1, "type": int(OpCode.SET_DATA), "path": "/r"})
    history.close()
    assert load(tmp_path / "history.jsonl") == history.events
