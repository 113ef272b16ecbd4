"""The run-time dependencies that are installed: versions, licences, and the list of parts (SBOM) in CycloneDX's format.

``python -m tests.support.parts_list FILE`` prints a line for each and writes the list of parts to FILE. Exit status 1: a
licence is not permitted. The list holds what ``pip install kafka-remote-client[all]`` brings, and neither tools nor tests. It
is one platform's and one version of Python's: others have other markers.

References: PEP 508 (markers), PEP 639 (licence expressions), CycloneDX 1.6.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageMetadata, distribution
from pathlib import Path

import attrs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["EXCEPTIONS", "PERMITTED", "PROJECT", "Part", "licence_of", "not_permitted", "run_time_parts"]

PROJECT = "kafka-remote-client"
PERMITTED = frozenset(
    {
        "3-Clause BSD License",
        "Apache Software License",
        "Apache-2.0",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC License (ISCL)",
        "MIT",
        "MIT License",
        "MIT-0",
        "PSF-2.0",
        "Unlicense",
    }
)
"""Licences that any part may have. They require their notice, and nothing of the programs that use the part."""
EXCEPTIONS: Mapping[str, str] = {
    "certifi": "Mozilla Public License 2.0 (MPL 2.0)",  # of Mozilla's list of authorities, which is used unchanged
    "crc32c": "GNU Lesser General Public License v2 or later (LGPLv2+)",  # a separate module that users can replace
    "pyruhvro": "unknown",  # its metadata name none; its sources have the MIT licence
}
"""Reviewed parts, with the one licence that each may have."""

_WORDS = re.compile(r" AND | OR ")


@attrs.frozen
class Part:
    """An installed distribution: ``needs`` are the normalized names of what it brings itself, with the extras in use."""

    name: str
    version: str
    licence: str
    needs: frozenset[str]


def run_time_parts(extras: Iterable[str] = ("all",), project: str = PROJECT) -> dict[str, Part]:
    """Returns the project with these extras, and all that its installation brings, by normalized name.

    Raises PackageNotFoundError if one is not installed.
    """
    found: dict[str, Distribution] = {}
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(project), extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name not in found:
            found[name], needs[name] = distribution(name), set()
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                needed = canonicalize_name(requirement.name)
                needs[name] |= {needed} - {name}
                waiting += [(needed, one) for one in ("", *requirement.extras)]
    return {
        name: Part(one.name, one.version, licence_of(one.metadata), frozenset(needs[name]))
        for name, one in sorted(found.items())
    }


def licence_of(metadata: PackageMetadata) -> str:
    """Returns a distribution's licence expression, else the names of its classifiers, else the first line of its text."""
    fields = dict(metadata.json)
    if fields.get("license_expression"):
        return str(fields["license_expression"])
    classifiers = [one for one in metadata.get_all("Classifier") or () if one.startswith("License ::")]
    named = sorted(one.rpartition(" :: ")[2] for one in classifiers if not one.endswith(":: OSI Approved"))
    return " AND ".join(named) or str(fields.get("license", "unknown")).strip().partition("\n")[0]


def not_permitted(parts: Mapping[str, Part]) -> dict[str, str]:
    """Returns the licences that are not permitted, by part. Of an expression each licence counts, also behind OR."""
    return {
        name: part.licence
        for name, part in parts.items()
        if EXCEPTIONS.get(name) != part.licence and not set(_WORDS.split(part.licence)) <= PERMITTED
    }


def _list_of_parts(parts: Mapping[str, Part]) -> str:
    """Returns the CycloneDX document. Raises AssertionError if it does not satisfy the schema."""
    # Of the group "supply", which only `make supply-chain` installs.
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    licences = LicenseFactory()
    components = {
        name: Component(
            name=part.name,
            version=part.version,
            type=ComponentType.LIBRARY,
            bom_ref=name,
            purl=PackageURL("pypi", name=name, version=part.version),
            licenses=[licences.make_from_string(part.licence)],
        )
        for name, part in parts.items()
    }
    bom = Bom(components=[one for name, one in components.items() if name != PROJECT])
    bom.metadata.component = components[PROJECT]
    for name, part in parts.items():
        bom.register_dependency(components[name], [components[one] for one in sorted(part.needs)])
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    return text + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    parts = run_time_parts()
    for part in parts.values():
        print(f"{part.name:<32} {part.version:<16} {part.licence}")
    arguments.file.parent.mkdir(exist_ok=True)
    arguments.file.write_text(_list_of_parts(parts))
    wrong = not_permitted(parts)
    for name, licence in wrong.items():
        print(f"{name}: {licence} is not permitted: use another part, or add it to EXCEPTIONS with a reason", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
