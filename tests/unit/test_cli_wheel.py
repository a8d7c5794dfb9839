"""`rextio-torch wheel` without a build: a wheel's name, requirements and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.metadata import Metadata
from wheel.wheelfile import WheelFile

from rextio_torch.cli.errors import CliError
from rextio_torch.cli.wheel import Options, built_files, read_metadata, write_wheel
from rextio_torch.versions import TORCH_VERSION
from rextio_torch.wheels.content import Content
from rextio_torch.wheels.licenses import FILE

CONTENT = Content({"m.py": b"x = 1\n"}, "_m_native", ["m", "_m_native"], [])
PROJECT = """\
[project]
name = "Some.Thing"
version = "1.2"
description = "Scores."
readme = "README.md"
license = "MIT"
license-files = ["LICENSE"]
dependencies = ["numpy>=2", "torch>=2.9", "Rextio_Torch>=0.2", "rextio"]
requires-python = ">=3.9"

[project.scripts]
score = "m:Main"
"""


def test_a_folder_without_pyproject(tmp_path: Path) -> None:
    project = tmp_path / "my-model"
    project.mkdir()
    metadata = read_metadata(project, Options())
    assert (metadata.name, str(metadata.version)) == ("my-model", "0.1.0")
    metadata = read_metadata(project, Options(name="other", version="3"))
    assert (metadata.name, str(metadata.version)) == ("other", "3")
    assert read_metadata(tmp_path / "mö del", Options()).name == "m-del"


def test_what_pyproject_says_is_in_the_wheel(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "README.md").write_text("# Thing\n")
    (tmp_path / "LICENSE").write_text("free\n")
    metadata = read_metadata(tmp_path, Options())
    wheel = write_wheel(tmp_path / "out", tmp_path, metadata, CONTENT, "crates: free\n")
    assert wheel.name.startswith("some_thing-1.2-cp311-cp311-")
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]
    with WheelFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    folder = "some_thing-1.2.dist-info"
    assert set(files) == {
        "m.py",
        *(
            f"{folder}/{name}"
            for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
        ),
        f"{folder}/licenses/{FILE}",
    }
    assert files[f"{folder}/licenses/{FILE}"] == b"crates: free\n"
    read = Metadata.from_email(files[f"{folder}/METADATA"])
    assert read.name == "Some.Thing"
    assert read.summary == "Scores."
    assert read.description == "# Thing\n"
    assert [str(it) for it in read.requires_dist or ()] == ["numpy>=2", f"torch=={TORCH_VERSION}"]
    assert read.license_files == ["LICENSE", FILE]
    assert str(read.requires_python) == "==3.11.*"
    assert files[f"{folder}/entry_points.txt"] == b"[console_scripts]\nscore = m:Main\n\n"


def test_a_license_table_stays(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "m"\nlicense = {text = "free"}\n')
    metadata = read_metadata(tmp_path, Options(version="1"))
    wheel = write_wheel(tmp_path / "out", tmp_path, metadata, CONTENT, "crates: free\n")
    with WheelFile(wheel) as archive:
        assert archive.read(f"m-1.dist-info/licenses/{FILE}") == b"crates: free\n"
        assert b"License: free\n" in archive.read("m-1.dist-info/METADATA")


def test_a_version_of_a_build_backend_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "m"\ndynamic = ["version"]\n')
    with pytest.raises(CliError, match="leaves version to its build backend") as raised:
        read_metadata(tmp_path, Options())
    assert "--version" in str(raised.value.repair)
    assert str(read_metadata(tmp_path, Options(version="2")).version) == "2"
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "m"\ndynamic = ["version", "dependencies"]\n'
    )
    with pytest.raises(CliError, match="leaves dependencies to its build backend"):
        read_metadata(tmp_path, Options(version="2"))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", Options(name="no name")),
        ("", Options(version="one")),
        ("[project]\nname = 3\n", Options()),
        ('[project]\nname = "m"\nreadme = "gone.md"\n', Options()),
        ('[project]\nname = "m"\ndependencies = ["=="]\n', Options()),
        ('[project]\nname = "m"\ndynamic = "version"\n', Options()),
        ('[project]\nname = "m"\ndynamic = 5\n', Options()),
    ],
)
def test_metadata_that_is_none_is_refused(tmp_path: Path, text: str, options: Options) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(CliError, match="no valid name, version or other metadata"):
        read_metadata(tmp_path, options)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('requires-python = ">=3.12"', ">=3.12"),
        ('dependencies = ["torch<2"]', "<2"),
        ('requires-python = ">=3.11.4,<4"', None),
        ('dependencies = ["torch<2; sys_platform == \'win32\'", "torch>2"]', None),
    ],
)
def test_metadata_that_rules_out_what_was_built_is_refused(
    tmp_path: Path, line: str, found: str | None
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "m"\nversion = "1"\n{line}\n')
    if found is None:
        read_metadata(tmp_path, Options())
        return
    with pytest.raises(CliError, match="rules out what the native module was built for") as raised:
        read_metadata(tmp_path, Options())
    assert raised.value.found == found


def test_a_wheel_does_not_take_the_name_of_what_it_needs(tmp_path: Path) -> None:
    for name in ("torch", "Rextio_Torch", "rextio"):
        with pytest.raises(CliError, match="in the place of"):
            read_metadata(tmp_path, Options(name=name))


def test_a_build_that_changes_while_it_is_read_gives_no_wheel(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project / ".rextio" / "build" / "python"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("old")
    assert built_files(project) == {"a.py": b"old"}
    read = Path.read_bytes

    def replaced(path: Path) -> bytes:
        data = read(path)
        folder.rename(folder.with_name("before"))
        folder.mkdir()
        return data

    monkeypatch.setattr(Path, "read_bytes", replaced)
    with pytest.raises(CliError, match="another build changed the module"):
        built_files(project)
