"""What a server says of itself: metrics, ``mntr`` and the other four-letter words, beside those of a ZooKeeper 3.9.5.

The references were written by ``capture.py`` from the real server. Compared are the names and types of metrics, the
keys of ``mntr``, and the shape of every line of every word: what is a number, an id or a name of the machine may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.compat.capture import METRICS_FILE, MNTR_FILE, WORDS, WORDS_FOLDER, metrics_of, roles, some_life, words_of
from tests.peers import Ensemble, OttlaKeepers

MODES = ("standalone", "leader", "follower", "observer")

OF_THE_JVM = re.compile(r"^(jvm_|process_|org_apache_|java_)")
"""Metrics of the Java machine, which we are not: they come with Prometheus's client for Java."""


def sections(path: Path) -> dict[str, str]:
    """The parts of a reference file by mode."""
    parts = re.split(r"(?m)^## (.+)\n", path.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def metric_types(text: str) -> dict[str, str]:
    found = (line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    return {name: kind for name, kind in found if not OF_THE_JVM.match(name)}


def series(text: str) -> set[str]:
    """Names of samples with the names of their labels."""
    found: set[str] = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, labels = line.split(" ")[0].partition("{")
            if not OF_THE_JVM.match(name):
                found.add(name + "{" + ",".join(sorted(re.findall(r'(\w+)="', labels))) + "}")
    return found


def mntr_keys(text: str) -> set[str]:
    return {line.split("\t", 1)[0] for line in text.splitlines() if "\t" in line}


@contextmanager
def our_ensembles(folder: Path, *, metrics: bool) -> Iterator[dict[str, tuple[Ensemble, int]]]:
    """One of our servers of every mode, with some life in it."""
    with (
        OttlaKeepers(1, folder / "one", metrics=metrics) as one,
        OttlaKeepers(3, folder / "more", observers=1, metrics=metrics) as more,
        some_life(one),
        some_life(more),
    ):
        yield {mode: (ensemble, index) for ensemble in (one, more) for mode, index in roles(ensemble).items()}


@pytest.fixture(scope="module")
def our_metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``/metrics`` says, by mode."""
    with our_ensembles(tmp_path_factory.mktemp("metrics"), metrics=True) as ours:
        return {mode: metrics_of(*ours[mode]) for mode in MODES}


@pytest.fixture(scope="module")
def our_words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What every word says, by mode."""
    with our_ensembles(tmp_path_factory.mktemp("words"), metrics=False) as ours:
        return {mode: words_of(*ours[mode]) for mode in MODES}


def test_metrics_have_the_names_and_types_of_zookeeper(our_metrics: dict[str, str]) -> None:
    reference = sections(METRICS_FILE)
    problems: list[str] = []
    for mode in MODES:
        theirs, mine = metric_types(reference[mode]), metric_types(our_metrics[mode])
        problems += [f"{mode}: no {name}" for name in sorted(theirs.keys() - mine.keys())]
        problems += [
            f"{mode}: {name} is a {mine[name]}, not a {kind}"
            for name, kind in theirs.items()
            if mine.get(name, kind) != kind
        ]
        extra = sorted(mine.keys() - theirs.keys())
        problems += [f"{mode}: {name} is none of ZooKeeper's" for name in extra if not name.startswith("ottla_")]
    assert not problems, "\n".join(problems)


def test_metrics_have_the_series_of_zookeeper(our_metrics: dict[str, str]) -> None:
    reference = sections(METRICS_FILE)
    problems = [
        f"{mode}: no series {name}"
        for mode in MODES
        for name in sorted(series(reference[mode]) - series(our_metrics[mode]))
        # A metric kept by key has series only for the keys it has seen.
        if not name.endswith(("{key}", "{key,quantile}"))
    ]
    assert not problems, "\n".join(problems)


def test_mntr_has_the_keys_of_zookeeper(our_words: dict[str, dict[str, str]]) -> None:
    reference = sections(MNTR_FILE)
    problems: list[str] = []
    for mode in MODES:
        theirs, mine = mntr_keys(reference[mode]), mntr_keys(our_words[mode]["mntr"])
        problems += [f"{mode}: no {key}" for key in sorted(theirs - mine) if not _by_key(key)]
        problems += [f"{mode}: {key} is none of ZooKeeper's" for key in sorted(mine - theirs) if not _by_key(key)]
    assert not problems, "\n".join(problems)


def _by_key(name: str) -> bool:
    """Keys that hold a namespace or the id of a peer, and so depend on what happened."""
    return bool(re.search(r"_(life|zookeeper|\d+)(-\d+)?_|^zk_\d+_|^zk_(min|max|avg|cnt|sum|p\d+)_life|_life", name))


SHAPES = (
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC"), "DATE"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d+ [\d:]+ \w+ \d{4}"), "DATE"),
    (re.compile(r"\b3\.9\.5-[^,]*"), "VERSION"),
    (re.compile(r"0x[0-9a-f]+"), "HEX"),
    (re.compile(r"127\.0\.0\.1(:\d+)+"), "ADDRESS"),
    (re.compile(r"lop=\w+"), "lop=OP"),
    (re.compile(r"-?\d+(\.\d+)?(E-?\d+)?"), "N"),
)


def shape(line: str) -> str:
    """A line without what differs from one server and moment to the next."""
    for pattern, name in SHAPES:
        line = pattern.sub(name, line)
    return re.sub(r"=(\.\.\.|/.*)$", "=PATH", line)


NAMES_ONLY = {"envi"}
"""Words whose values say what machine this is: only the keys must be the same."""
FREE_KEYS = re.compile(r"^(java|os|user)\.")


def lines_of(word: str, text: str) -> list[str]:
    lines = text.splitlines()
    if word in NAMES_ONLY:
        return [line.split("=", 1)[0] for line in lines if not FREE_KEYS.match(line)]
    shaped = [shape(line) for line in lines]
    # Lists of connections, sessions and paths are as long as there are, in any order: each kind of line counts once.
    return shaped if word in ("srvr", "conf", "ruok", "isro", "crst", "srst", "wchs") else sorted(set(shaped))


@pytest.mark.parametrize("mode", MODES)
def test_every_word_has_the_lines_of_zookeeper(mode: str, our_words: dict[str, dict[str, str]]) -> None:
    shown = our_words[mode]
    problems: list[str] = []
    for word in WORDS:
        if word == "mntr":
            continue
        text = (WORDS_FOLDER / f"{mode}-{word}.txt").read_text()
        theirs, mine = lines_of(word, text), lines_of(word, shown[word])
        if theirs != mine:
            problems.append(f"{word}:\n  ZooKeeper {theirs}\n  ours      {mine}")
        if text.endswith("\n") != shown[word].endswith("\n"):
            problems.append(f"{word}: the last line ends differently: {text[-20:]!r} / {shown[word][-20:]!r}")
    assert not problems, "\n".join(problems)
