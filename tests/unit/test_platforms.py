import pytest

from rextio_torch import platforms


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
