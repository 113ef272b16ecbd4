"""The pins are plain and include everything that the project requires."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.tree import ROOT

_LINES = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _requirements() -> list[Requirement]:
    project = _PROJECT["project"]
    groups = [*project["optional-dependencies"].values(), *_PROJECT["dependency-groups"].values()]
    texts = [*_PROJECT["build-system"]["requires"], *project["dependencies"], *(text for group in groups for text in group)]
    return [requirement for requirement in map(Requirement, texts) if requirement.name != project["name"]]


def test_constraints_consist_of_names_and_versions() -> None:
    assert [line for line in _LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_constraints_name_each_package_once_in_order() -> None:
    names = [line.split("==")[0].lower() for line in _LINES]
    assert names == sorted(set(names))


@pytest.mark.parametrize("requirement", _requirements(), ids=str)
def test_constraints_satisfy_the_project(requirement: Requirement) -> None:
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in _LINES)}
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)], prereleases=True)
