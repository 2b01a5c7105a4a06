"""How much was used, which limit holds, and how long to wait: Kafka's arithmetic."""

from __future__ import annotations

import pytest

from ottla.base.rates import SampledRate, TokenBucket
from ottla.broker.quotas import ANY, ClientQuotas, ConnectionRates, Entity, Limits
from ottla.broker.quotas.entities import ip_quotas, quotas_of
from ottla.metadata.znodes.configs import ConfigClient, ConfigEntity

NOW_MS = 1_000_000.0


def quotas(*limits: tuple[ConfigEntity, dict[str, str]]) -> ClientQuotas:
    made = ClientQuotas(samples=11, window_ms=1000, mutation_samples=11, mutation_window_ms=1000)
    made.configure(dict(limits))
    return made


def test_who_has_just_come_is_measured_over_ten_windows() -> None:
    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(5000, NOW_MS)
    assert rate.rate(NOW_MS) == 500
    assert rate.wait_ms(500, NOW_MS) == 0
    # (5500/10 - 500) / 500 of ten seconds.
    rate.record(500, NOW_MS)
    assert rate.wait_ms(500, NOW_MS) == 1000


def test_what_was_used_long_ago_is_forgotten() -> None:
    rate = SampledRate(samples=3, window_ms=1000)
    rate.record(100, NOW_MS)
    rate.record(100, NOW_MS + 1500)
    assert rate.rate(NOW_MS + 2500) == pytest.approx(200 / 2.5)
    assert rate.rate(NOW_MS + 3000) == pytest.approx(100 / 2.5)
    assert rate.is_idle(NOW_MS + 4500)


def test_waiting_as_long_as_told_is_enough() -> None:
    rate = SampledRate(samples=11, window_ms=1000)
    now = NOW_MS
    used = 0.0
    for _ in range(200):
        rate.record(3000, now)
        used += 3000
        now += 10 + rate.wait_ms(1000, now)
    assert used / (now - NOW_MS) * 1000 == pytest.approx(1000, rel=0.1)


def test_a_bucket_lends_and_is_paid_back() -> None:
    bucket = TokenBucket(samples=11, window_ms=1000, now_ms=NOW_MS)
    bucket.take(110, 10, NOW_MS)
    assert bucket.wait_ms(10, NOW_MS) == 0
    bucket.take(25, 10, NOW_MS)
    assert bucket.wait_ms(10, NOW_MS) == 2500
    assert bucket.wait_ms(10, NOW_MS + 1000) == 1500
    assert bucket.wait_ms(10, NOW_MS + 2500) == 0


def test_the_most_specific_limit_holds() -> None:
    every = {
        Entity("u", "c"): 1.0,
        Entity("u", ANY): 2.0,
        Entity("u", None): 3.0,
        Entity(ANY, "c"): 4.0,
        Entity(ANY, ANY): 5.0,
        Entity(ANY, None): 6.0,
        Entity(None, "c"): 7.0,
        Entity(None, ANY): 8.0,
    }
    left = dict(every)
    for entity, limit in every.items():
        share = Limits(left).find("u", "c")
        assert share is not None
        assert share.limit == limit
        del left[entity]
    assert Limits({}).find("u", "c") is None
    assert not Limits({})


@pytest.mark.parametrize(
    ("entity", "shared"),
    [
        (Entity("u", ANY), False),
        (Entity("u", None), True),
        (Entity(ANY, None), True),
        (Entity(ANY, ANY), False),
        (Entity(None, ANY), False),
    ],
)
def test_who_shares_a_limit_shares_its_use(entity: Entity, *, shared: bool) -> None:
    limits = Limits({entity: 1.0})
    one, other = limits.find("u", "a"), limits.find("u", "b")
    assert one is not None
    assert other is not None
    assert (one.entity == other.entity) is shared


def test_limits_are_read_from_settings() -> None:
    configs = {
        ConfigEntity("users", "u", ConfigClient(None)): {"producer_byte_rate": "5", "SCRAM-SHA-256": "x"},
        ConfigEntity("users", None): {"consumer_byte_rate": "7"},
        ConfigEntity("clients", "c"): {"producer_byte_rate": "9"},
        ConfigEntity("topics", "t"): {"producer_byte_rate": "11"},
        ConfigEntity("ips", None): {"connection_creation_rate": "3"},
    }
    assert quotas_of(configs, "producer_byte_rate") == {Entity("u", ANY): 5.0, Entity(None, "c"): 9.0}
    assert quotas_of(configs, "consumer_byte_rate") == {Entity(ANY, None): 7.0}
    assert ip_quotas(configs) == {ANY: 3.0}


def test_nothing_is_counted_for_whom_no_limit_holds() -> None:
    made = quotas((ConfigEntity("clients", "slow"), {"producer_byte_rate": "10"}))
    assert [made.is_on] == [True]
    assert made.charge_produce("u", "fast", 1 << 30, NOW_MS) == 0
    assert made.charge_produce("u", "slow", 200, NOW_MS) == 10_000
    made.configure({})
    assert [made.is_on] == [False]
    assert made.charge_produce("u", "slow", 200, NOW_MS) == 0


def test_a_fetch_that_is_over_is_neither_sent_nor_counted() -> None:
    made = quotas((ConfigEntity("clients", None), {"consumer_byte_rate": "100"}))
    assert made.fetch_bytes_max("u", "c") == 1000
    assert made.charge_fetch("u", "c", 900, NOW_MS) == (0, True)
    for _ in range(3):
        assert made.charge_fetch("u", "c", 300, NOW_MS) == (2000, False)
    assert made.charge_fetch("u", "c", 100, NOW_MS) == (0, True)


def test_a_batch_that_no_quota_has_room_for_is_sent_to_who_has_rested() -> None:
    made = quotas((ConfigEntity("clients", None), {"consumer_byte_rate": "100"}))
    assert made.charge_fetch("u", "c", 5000, NOW_MS) == (40_000, True)
    assert made.charge_fetch("u", "c", 5000, NOW_MS + 5000)[1] is False
    assert made.charge_fetch("u", "c", 5000, NOW_MS + 12_000)[1] is True


def test_time_is_a_share_of_a_second_and_costs_one_window_at_most() -> None:
    made = quotas((ConfigEntity("users", "u"), {"request_percentage": "10"}))
    assert made.charge_time("u", "c", 0.9, NOW_MS) == 0
    assert made.charge_time("u", "c", 0.15, NOW_MS) == 500
    assert made.charge_time("u", "c", 9.0, NOW_MS) == 1000


def test_changes_of_the_cluster_are_lent_until_the_quota_is_used_up() -> None:
    made = quotas((ConfigEntity("users", "u"), {"controller_mutation_rate": "1"}))
    assert made.mutations("other", "c", NOW_MS) is None
    mutations = made.mutations("u", "c", NOW_MS)
    assert mutations is not None
    assert mutations.take(15, strict=True)
    assert mutations.wait_ms == 0
    assert not mutations.take(1, strict=True)
    assert mutations.wait_ms == 4000
    assert mutations.take(1, strict=False)
    assert mutations.wait_ms == 5000
    later = made.mutations("u", "c", NOW_MS + 6000)
    assert later is not None
    assert later.take(1, strict=True)


def test_connections_that_come_too_fast_wait() -> None:
    rates = ConnectionRates(samples=3, window_ms=1000)
    assert [rates.is_on] == [False]
    rates.configure(broker_max=2**31 - 1, listener_max={"L": 2**31 - 1}, address_max={"a": 2.0, ANY: 1000.0})
    assert [rates.is_on] == [True]
    waits = [rates.wait_ms("L", "a", NOW_MS) for _ in range(6)]
    assert waits == [0, 0, 0, 0, 500, 1000]
    assert rates.wait_ms("L", "b", NOW_MS) == 0
    rates.configure(broker_max=1, listener_max={}, address_max={})
    assert [rates.wait_ms("L", "b", NOW_MS + 9000) for _ in range(3)] == [0, 0, 1000]


ODD = ["NaN", "-0.0", "-1", "-Infinity", "Infinity"]


@pytest.mark.parametrize("limit", ODD)
def test_a_limit_that_is_no_number_or_less_than_nothing_holds_nobody_up(limit: str) -> None:
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    made = quotas((ConfigEntity("users", None), dict.fromkeys(keys, limit)))
    for _ in range(3):
        assert made.charge_time("u", "c", 100.0, NOW_MS) == 0
        assert made.charge_produce("u", "c", 1 << 30, NOW_MS) == 0
        assert made.charge_fetch("u", "c", 1 << 30, NOW_MS) == (0, True)
    assert made.fetch_bytes_max("u", "c") == (0 if limit == "-0.0" else 1 << 62)


def test_nobody_is_told_to_wait_longer_than_an_answer_can_say() -> None:
    made = quotas((ConfigEntity("users", None), {"producer_byte_rate": "1", "controller_mutation_rate": "1.0E-9"}))
    assert made.charge_produce("u", "c", 1 << 40, NOW_MS) == 2**31 - 1
    mutations = made.mutations("u", "c", NOW_MS)
    assert mutations is not None
    assert mutations.take(1000, strict=False)
    assert mutations.wait_ms == 2**31 - 1


@pytest.mark.parametrize(("limit", "allowed"), [("NaN", 3), ("Infinity", 3), ("0", 1), ("-0.0", 1), ("4.9E-324", 1)])
def test_changes_of_the_cluster_where_no_time_follows_from_the_limit(limit: str, allowed: int) -> None:
    """They are refused for as long as something is owed, and the client is told no time."""
    made = quotas((ConfigEntity("users", "u"), {"controller_mutation_rate": limit}))
    taken = []
    for turn in range(3):
        mutations = made.mutations("u", "c", NOW_MS + turn)
        assert mutations is not None
        taken.append(mutations.take(1, strict=True))
        assert mutations.wait_ms == 0
    assert taken == [turn < allowed for turn in range(3)]


def test_a_limit_of_a_number_holds_again_behind_one_of_none() -> None:
    bucket = TokenBucket(samples=11, window_ms=1000, now_ms=NOW_MS)
    bucket.take(50, float("nan"), NOW_MS)
    assert not bucket.owes(float("nan"), NOW_MS)
    bucket.take(12, 1, NOW_MS)
    assert bucket.wait_ms(1, NOW_MS) == 1000


def test_how_long_those_who_were_over_had_to_wait_is_told() -> None:
    made = quotas((ConfigEntity("clients", None), {"producer_byte_rate": "100", "request_percentage": "10"}))
    made.charge_produce("u", "slow", 1000, NOW_MS)
    assert made.produce.told(NOW_MS) == [(Entity(None, "slow"), 100, 0)]
    assert made.charge_produce("u", "slow", 500, NOW_MS) == 5000
    assert made.charge_produce("u", "slow", 500, NOW_MS) == 10_000
    assert made.produce.told(NOW_MS) == [(Entity(None, "slow"), 200, 7500)]
    assert made.charge_time("u", "slow", 100.0, NOW_MS) == 1000
    assert [wait for *_, wait in made.request.told(NOW_MS)] == [1000]
    assert made.fetch.told(NOW_MS) == []
    assert made.produce.told(NOW_MS + 11_000) == []
