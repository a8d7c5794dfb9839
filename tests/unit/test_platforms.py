import re
from pathlib import Path

import pytest

from rextio_torch import platforms

README = Path(__file__).parent.parent.parent / "README.md"


@pytest.mark.parametrize(
    ("system", "machine", "status"),
    [
        ("Linux", "x86_64", "certified"),
        ("Linux", "AMD64", "certified"),
        ("linux", "aarch64", "expected"),
        ("Linux", "arm64", "expected"),
        ("Darwin", "arm64", "expected"),
        ("macOS", "arm64", "expected"),
        ("Darwin", "aarch64", "expected"),
        ("Darwin", "x86_64", "unavailable"),
        ("Linux", "i686", "unsupported"),
        ("Linux", "i386", "unsupported"),
        ("Darwin", "i386", "unsupported"),
        ("Linux", "armv7l", "unsupported"),
        ("Windows", "AMD64", "deferred"),
        ("Windows", "ARM64", "deferred"),
        ("Windows", "armv7l", "deferred"),
        ("Linux", "riscv64", "unsupported"),
        ("Plan9", "x86_64", "unsupported"),
    ],
)
def test_status_of_a_host(system: str, machine: str, status: str) -> None:
    row = platforms.lookup(system, machine)
    assert row.status == status
    assert row.reason
    assert row.usable == (status in {"certified", "expected"})


def test_rows_are_unique_and_complete() -> None:
    keys = [(row.system, row.machine) for row in platforms.PLATFORMS]
    assert len(keys) == len(set(keys))
    assert all(platforms.lookup(*key).reason for key in keys)
    assert [row for row in platforms.PLATFORMS if row.status == "certified"] == [
        platforms.lookup("Linux", "x86_64")
    ]


def test_require_supported_raises_a_typed_error_with_the_reason() -> None:
    with pytest.raises(
        platforms.UnsupportedPlatformError, match=r"no torch 2\.11\.0 wheel"
    ) as error:
        platforms.require_supported("Darwin", "x86_64")
    assert error.value.platform.status == "unavailable"
    assert platforms.require_supported("Linux", "x86_64").status == "certified"


def test_the_readme_says_what_the_table_says() -> None:
    section = README.read_text(encoding="utf-8").partition("## Platforms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:Linux|macOS|Windows)[^|]*) \| ([^|]+) \|$", section, re.M)
    said = {}
    for hosts, text in rows:
        for host in hosts.split(", "):
            system, _, machine = host.partition(" ")
            of_system = [row for row in platforms.PLATFORMS if row.system == system]
            for row in [platforms.lookup(system, machine)] if machine else of_system:
                said[row] = text
    assert said.keys() == set(platforms.PLATFORMS)
    for row, text in said.items():
        assert row.status in text, row
