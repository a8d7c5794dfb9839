import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from cli_environment import make_environment

from rextio_torch.cli.environment import Torch
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.layout import BuildFolder, cache_root
from rextio_torch.cli.project import build_folder, check_initialised, initialise


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_a_new_folder_gets_only_what_is_needed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    project = tmp_path / "new" / "project"
    lines = initialise(project, environment)
    assert set(contents(project)) == {"rextio.toml", ".cargo/config.toml"}
    settings = tomllib.loads((project / "rextio.toml").read_text())
    assert settings == {
        "build": {"build_timeout_seconds": 3600},
        "plugins": {"enabled": ["rextio-torch"]},
    }
    cargo = tomllib.loads((project / ".cargo" / "config.toml").read_text())
    folder = BuildFolder.of(project, environment)
    assert cargo == {
        "build": {"build-dir": str(folder.cargo)},
        "env": {"LIBTORCH_USE_PYTORCH": "1"},
    }
    assert folder.cargo.is_absolute()
    assert any("rextio.toml: [plugins]" in line for line in lines)
    assert any(".cargo/config.toml: [build]" in line for line in lines)
    assert any(".rextio/ are of this machine only and belong into .gitignore" in x for x in lines)
    assert check_initialised(project, environment) is None


def test_twice_changes_nothing(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    before = contents(tmp_path / "p")
    assert initialise(tmp_path / "p", environment) == []
    assert contents(tmp_path / "p") == before


def test_what_is_there_is_kept_with_its_comments(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (tmp_path / ".cargo").mkdir()
    (tmp_path / "rextio.toml").write_text(
        "# ours\n[build]\nfallback_threshold = 5 # few\nbuild_timeout_seconds = 60\n\n"
        '[plugins]\n# the others\nenabled = [\n    "rextio-numpy", # arrays\n]\n'
    )
    (tmp_path / ".cargo" / "config.toml").write_text(
        '# flags\n[build]\njobs = 3\n[env]\nOTHER = { value = "x", force = true }\n'
    )
    lines = initialise(tmp_path, environment)
    settings = (tmp_path / "rextio.toml").read_text()
    for kept in ("# ours", "fallback_threshold = 5 # few", "# the others", "# arrays"):
        assert kept in settings
    data = tomllib.loads(settings)
    assert data["plugins"]["enabled"] == ["rextio-numpy", "rextio-torch"]
    assert data["build"]["build_timeout_seconds"] == 3600
    assert any("was 60" in line for line in lines)
    cargo = (tmp_path / ".cargo" / "config.toml").read_text()
    assert "# flags" in cargo
    assert tomllib.loads(cargo)["env"]["OTHER"] == {"value": "x", "force": True}
    assert tomllib.loads(cargo)["build"]["jobs"] == 3


def test_a_longer_timeout_is_kept(tmp_path: Path) -> None:
    (tmp_path / "rextio.toml").write_text("[build]\nbuild_timeout_seconds = 7200.5\n")
    initialise(tmp_path, make_environment(tmp_path))
    data = tomllib.loads((tmp_path / "rextio.toml").read_text())
    assert data["build"]["build_timeout_seconds"] == 7200.5


def test_core_s_own_default_configuration_is_extended(tmp_path: Path) -> None:
    (tmp_path / "rextio.toml").write_text(
        '[build]\nnative_backend = "rust"\nbuild_timeout_seconds = 600\n\n[plugins]\nenabled = []\n'
    )
    initialise(tmp_path, make_environment(tmp_path))
    data = tomllib.loads((tmp_path / "rextio.toml").read_text())
    assert data["build"] == {"native_backend": "rust", "build_timeout_seconds": 3600}
    assert data["plugins"]["enabled"] == ["rextio-torch"]


@pytest.mark.parametrize(
    "style", ["build.build_timeout_seconds = 1", "build = { fallback_threshold = 1 }"]
)
def test_other_spellings_of_tables(tmp_path: Path, style: str) -> None:
    (tmp_path / "rextio.toml").write_text(style + "\n")
    environment = make_environment(tmp_path)
    initialise(tmp_path, environment)
    data = tomllib.loads((tmp_path / "rextio.toml").read_text())
    assert data["build"]["build_timeout_seconds"] == 3600
    assert initialise(tmp_path, environment) == []


@pytest.mark.parametrize("name", ["rextio.toml", ".cargo/config.toml"])
def test_malformed_toml_writes_nothing(tmp_path: Path, name: str) -> None:
    project = tmp_path / "p"
    (project / ".cargo").mkdir(parents=True)
    (project / name).write_text("[build\n")
    before = contents(project)
    with pytest.raises(CliError, match="not valid TOML; nothing was written") as error:
        initialise(project, make_environment(tmp_path))
    assert name in error.value.message
    assert "line 1" in (error.value.found or "")
    assert contents(project) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins = 3\n", "[plugins]"),
        ('[plugins]\nenabled = "rextio-torch"\n', "enabled = ["),
        ('[build]\nbuild_timeout_seconds = "long"\n', "number of seconds"),
    ],
)
def test_wrong_types_write_nothing(tmp_path: Path, text: str, expected: str) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "rextio.toml").write_text(text)
    with pytest.raises(CliError) as error:
        initialise(project, make_environment(tmp_path))
    assert expected in (error.value.expected or "")
    assert contents(project) == {"rextio.toml": text}


def test_a_foreign_build_dir_is_refused_and_replaced_by_force(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    project = tmp_path / "p"
    (project / ".cargo").mkdir(parents=True)
    text = '[build]\nbuild-dir = "/elsewhere/shared"\n'
    (project / ".cargo" / "config.toml").write_text(text)
    with pytest.raises(CliError, match="build folder of its own") as error:
        initialise(project, environment)
    assert "--force" in (error.value.repair or "")
    assert contents(project) == {".cargo/config.toml": text}
    lines = initialise(project, environment, force=True)
    assert any("was /elsewhere/shared" in line for line in lines)
    assert check_initialised(project, environment) is None


def test_another_torch_or_python_or_project_has_another_folder(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    cuda = replace(environment, torch=Torch("2.11.0+cu130", environment.torch.location))
    other = replace(
        environment, interpreter=replace(environment.interpreter, prefix=str(tmp_path / "other"))
    )
    folders = {
        BuildFolder.of(tmp_path / "p", environment).folder,
        BuildFolder.of(tmp_path / "p", cuda).folder,
        BuildFolder.of(tmp_path / "p", other).folder,
        BuildFolder.of(tmp_path / "q" / "p", environment).folder,
    }
    assert len(folders) == 4
    locks = {BuildFolder.of(tmp_path / "p", env).lock for env in (environment, cuda, other)}
    assert len(locks) == 1, "one project is built by one at a time, whatever the environment"

    problem = check_initialised(tmp_path / "p", cuda)
    assert problem is not None
    assert "another project, interpreter or torch" in (problem.found or "")
    assert problem.repair == f"rextio-torch init {tmp_path / 'p'}"
    # A folder that init chose is replaced without being asked to.
    assert initialise(tmp_path / "p", cuda)
    assert check_initialised(tmp_path / "p", cuda) is None


def test_a_copied_project_must_be_initialised_again(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    (tmp_path / "p").rename(tmp_path / "moved")
    assert check_initialised(tmp_path / "moved", environment) is not None


def test_a_build_folder_is_kept_when_the_cache_variable_is_gone(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    chosen = build_folder(tmp_path / "p", environment)
    variables = dict(environment.variables)
    del variables["REXTIO_TORCH_CACHE_DIR"]
    later = replace(environment, variables=variables)
    assert check_initialised(tmp_path / "p", later) is None
    assert build_folder(tmp_path / "p", later) == chosen
    assert initialise(tmp_path / "p", later) == []
    # Naming another cache moves it there.
    variables["REXTIO_TORCH_CACHE_DIR"] = str(tmp_path / "new-cache")
    assert initialise(tmp_path / "p", replace(environment, variables=variables))
    assert build_folder(tmp_path / "p", later).root == tmp_path / "new-cache"


def test_what_is_only_like_a_build_folder_of_ours_is_refused() -> None:
    name = "p-0123456789-abcdef0123"
    assert BuildFolder.parse(f"/c/builds/{name}/cargo") == BuildFolder(Path("/c"), "builds", name)
    for other in (
        f"c/builds/{name}/cargo",
        f"/c/builds/{name}",
        f"/c/dependencies/{name}/cargo",
        "/c/builds/p-0123456789/cargo",
        "/elsewhere",
        "",
        3,
        None,
    ):
        assert BuildFolder.parse(other) is None


def test_a_link_is_written_through_and_modes_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_text("[build]\n")
    real.chmod(0o600)
    project = tmp_path / "p"
    project.mkdir()
    (project / "rextio.toml").symlink_to(real)
    initialise(project, make_environment(tmp_path))
    assert (project / "rextio.toml").is_symlink()
    assert "rextio-torch" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_file_is_no_project(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CliError, match="is not a folder"):
        initialise(tmp_path / "file", make_environment(tmp_path))


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = make_environment(tmp_path, REXTIO_TORCH_CACHE_DIR=str(tmp_path / "file" / "c"))
    with pytest.raises(CliError, match="cannot be kept there") as error:
        initialise(tmp_path / "p", environment)
    assert error.value.found == f"{tmp_path / 'file'} cannot be written: Not a directory"
    assert "REXTIO_TORCH_CACHE_DIR" in (error.value.repair or "")
    assert not (tmp_path / "p").exists()


def test_without_torch_there_is_nothing_to_name_the_folder_after(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="torch is not installed"):
        initialise(tmp_path / "p", replace(make_environment(tmp_path), torch=None))
    assert not (tmp_path / "p").exists()


def test_cargo_s_old_file_name_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo" / "config").write_text("")
    with pytest.raises(CliError, match="read by cargo instead"):
        initialise(tmp_path, make_environment(tmp_path))


def test_where_the_cache_is(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert cache_root({"REXTIO_TORCH_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert cache_root({"XDG_CACHE_HOME": "/x", "HOME": home}) == Path("/x/rextio-torch")
    assert cache_root({"XDG_CACHE_HOME": "relative", "HOME": home}) == (
        tmp_path / ".cache" / "rextio-torch"
    )
    assert cache_root({"HOME": home}) == tmp_path / ".cache" / "rextio-torch"
