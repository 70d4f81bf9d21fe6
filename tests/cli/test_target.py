"""TARGET arguments: what they name is found, or the message says what is wrong and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from acpremote import ConfigError
from acpremote_cli.target import load_target

MODULE = """
class Holder:
    agent = "nested"

agent = object()
agents = [1]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "target_module.py").write_text(MODULE)
    (tmp_path / "target_needs.py").write_text("import no_such_package_here.inner\n")
    (tmp_path / "target_fails.py").write_text("1 / 0\n")
    (tmp_path / "target_package").mkdir()
    (tmp_path / "target_package" / "__init__.py").touch()
    (tmp_path / "target_package" / "inner.py").write_text("agent = 'inner'\n")
    for name in [name for name in sys.modules if name.startswith("target_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "expected"),
    [("target_module:Holder.agent", "nested"), ("target_package.inner:agent", "inner")],
)
def test_an_attribute_of_a_module_is_found(place: Path, target: str, expected: str) -> None:
    assert load_target(target, place) == expected


def test_without_a_directory_the_current_one_comes_first(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert load_target("target_module:agents") == [1]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "MODULE:ATTRIBUTE"),
        ("target_module", "MODULE:ATTRIBUTE"),
        ("target_module:", "MODULE:ATTRIBUTE"),
        (":agent", "MODULE:ATTRIBUTE"),
        ("./target_module.py:agent", "MODULE:ATTRIBUTE"),
        ("target_missing:agent", "there is no module 'target_missing'; it was looked for in "),
        ("target_package.gone:agent", "there is no module 'target_package.gone'"),
        ("target_needs:agent", "importing 'target_needs' failed: No module named 'no_such_package_here'"),
        ("target_fails:agent", "importing 'target_fails' failed: ZeroDivisionError: division by zero"),
        ("target_module:agnet", "'target_module' has no 'agnet'; did you mean agent"),
        ("target_module:Holder.zzz", "'target_module' has no 'Holder.zzz'"),
    ],
)
def test_what_cannot_be_found_is_named(place: Path, target: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_target(target, place)
    assert message in str(caught.value)


def test_a_directory_that_is_none_is_named(place: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        load_target("target_module:agent", place / "nowhere")
