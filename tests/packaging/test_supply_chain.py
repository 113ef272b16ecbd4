"""S22: the run-time dependencies, their versions and licences."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging.tree import ROOT
from tests.support.parts_list import EXCEPTIONS, PROJECT, Part, licence_of, not_permitted, run_time_parts

_PINS = dict(line.split("==") for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines())
REQUIRED = {"asn1crypto", "attrs", "confluent-kafka", "cramjam", "crc32c", "scramp"}
"""All that an installation without extras brings. Each further one concerns every user."""


def test_s22_each_run_time_part_has_its_pinned_version() -> None:
    pins = {canonicalize_name(name): Version(version) for name, version in _PINS.items()}
    parts = {name: Version(part.version) for name, part in run_time_parts().items() if name != PROJECT}
    assert len(parts) > 50
    assert {name: version for name, version in parts.items() if pins.get(canonicalize_name(name)) != version} == {}


def test_s22_each_run_time_part_has_a_permitted_licence() -> None:
    parts = run_time_parts()
    assert not_permitted(parts) == {}
    assert {name for name, licence in EXCEPTIONS.items() if parts[name].licence != licence} == set(), "exceptions are used"


def test_s22_an_installation_without_extras_has_six_parts() -> None:
    assert run_time_parts(extras=()).keys() - {PROJECT} == REQUIRED


def installed(directory: Path, name: str, *metadata: str) -> None:
    """Makes a distribution in the directory that looks installed."""
    info = directory / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *metadata, ""]))


def test_parts_follow_extras_and_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = 'Requires-Dist: whole[fast,whole]; extra == "all"'
    fast = 'Requires-Dist: Speed.Up[simd]; extra == "fast"'
    installed(tmp_path, "whole", "Requires-Dist: base", everything, fast, 'Requires-Dist: never; python_version < "3"')
    installed(tmp_path, "base", 'Requires-Dist: more; extra == "more"')
    installed(tmp_path, "speed_up", 'Requires-Dist: simd; extra == "simd"', "Requires-Dist: base")
    installed(tmp_path, "simd", "Requires-Dist: speed-up")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    needs = {name: set(part.needs) for name, part in run_time_parts(project="whole").items()}
    assert needs == {"base": set(), "simd": {"speed-up"}, "speed-up": {"base", "simd"}, "whole": {"base", "speed-up"}}
    assert run_time_parts((), "whole").keys() == {"base", "whole"}
    with pytest.raises(PackageNotFoundError, match="more"):
        run_time_parts(("more",), "base")


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        (["License-Expression: MIT OR Apache-2.0", "License: other"], "MIT OR Apache-2.0"),
        (
            ["Classifier: License :: OSI Approved", "Classifier: License :: OSI Approved :: MIT License", "License: other"],
            "MIT License",
        ),
        (["Classifier: License :: OSI Approved :: B", "Classifier: License :: A"], "A AND B"),
        (["License: Apache-2.0"], "Apache-2.0"),
        ([], "unknown"),
    ],
)
def test_the_licence_is_the_most_precise_metadata_field(tmp_path: Path, metadata: list[str], licence: str) -> None:
    installed(tmp_path, "one", *metadata)
    assert licence_of(PathDistribution(tmp_path / "one-1.0.dist-info").metadata) == licence


@pytest.mark.parametrize(
    ("name", "licence", "permitted"),
    [
        ("one", "MIT", True),
        ("one", "MIT OR Apache-2.0", True),
        ("one", "MIT AND GPL-3.0-only", False),
        ("one", "GPL-3.0-only OR MIT", False),
        ("one", "unknown", False),
        ("pyruhvro", "unknown", True),
        ("pyruhvro", "GPL-3.0-only", False),
    ],
)
def test_each_licence_of_an_expression_must_be_permitted(name: str, licence: str, permitted: bool) -> None:
    found = not_permitted({name: Part(name, "1.0", licence, frozenset())})
    assert found == ({} if permitted else {name: licence})
