"""The Java that Spark needs: found, too old, or missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.session import JavaError, find_java


def java(folder: Path, version: str) -> dict[str, str]:
    """A stand-in that says which Java it is."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


def test_a_java_that_is_new_enough_is_found(tmp_path: Path) -> None:
    environment = java(tmp_path, "17.0.15")
    assert find_java(environment) == tmp_path / "bin" / "java"
    assert find_java({"PATH": str(tmp_path / "bin")}) == tmp_path / "bin" / "java"


@pytest.mark.parametrize(("version", "told"), [("11.0.2", "Java 11"), ("1.8.0_392", "Java 8")])
def test_one_that_is_too_old_is_named(version: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=f"needs Java 17 or newer.*is {told}"):
        find_java(java(tmp_path, version))


def test_where_there_is_none_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=r"none in PATH.*openjdk-17-jre-headless"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaError, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
