"""Metrics as Prometheus reads them: families of samples with labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """One metric. A counter's name ends in ``_total``."""

    name: str
    doc: str
    samples: list[tuple[Labels, float]]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


def one(name: str, doc: str, value: float | None) -> Family:
    """A metric without labels; None if it is not known."""
    return Family(name, doc, [] if value is None else [((), value)])


def labelled(**labels: object) -> Labels:
    """Names of labels that are words of Python end in an underscore."""
    return tuple((name.rstrip("_"), str(value)) for name, value in labels.items())


def exposition(families: Iterable[Family]) -> str:
    return "".join(_lines(families))


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        if not family.samples:
            continue
        yield f"# HELP {family.name} {family.doc}\n# TYPE {family.name} {family.kind}\n"
        for labels, value in family.samples:
            told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield f"{family.name}{{{told}}} {float(value)}\n" if told else f"{family.name} {float(value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
