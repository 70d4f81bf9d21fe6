"""The console's files as the server answers for them."""

from __future__ import annotations

import re

import pytest

from acpremote.console import paths, respond

STRICT = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "object-src 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


def get(path: str, mount_path: str = "/acp") -> tuple[dict[str, str], str]:
    answer = respond(path, mount_path=mount_path)
    assert answer is not None
    status, headers, body = answer
    assert status == 200
    assert len(headers) == len(dict(headers))
    return dict(headers), body.decode()


@pytest.mark.parametrize("path", sorted(paths()))
def test_every_file_carries_the_strict_headers(path: str) -> None:
    headers, _ = get(path)
    assert set(headers["Content-Security-Policy"].split("; ")) >= STRICT
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_page_is_never_stored_and_its_assets_for_ever() -> None:
    assert get("/")[0]["Cache-Control"] == "no-store"
    for path in paths() - {"/"}:
        assert "immutable" in get(path)[0]["Cache-Control"]


def test_the_page_holds_no_script_and_no_style_of_its_own_and_names_nothing_foreign() -> None:
    _, page = get("/")
    assert not re.search(r"<style|\son\w+=|javascript:|=\"https?://", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]


def test_all_addresses_in_the_page_are_relative_and_answered() -> None:
    _, page = get("/")
    named = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert {f"/{name}" for name in named} == paths() - {"/"}


def test_all_imports_between_modules_are_relative_and_answered() -> None:
    for path in paths():
        if not path.endswith(".js"):
            continue
        directory = path.rpartition("/")[0]
        for name in re.findall(r'^(?:import|export) (?:.*from )?"([^"]*)"', get(path)[1], re.MULTILINE):
            assert f"{directory}/{name.removeprefix('./')}" in paths()


def test_no_asset_can_make_markup_of_text() -> None:
    sinks = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|Parser|ContextualFragment|eval\(|Function\("
    )
    for path in paths():
        assert not re.search(sinks, get(path)[1]), path


def test_the_choice_list_stands_alone() -> None:
    path = next(path for path in paths() if path.endswith("/choice-list.js"))
    assert not re.search(r"^import ", get(path)[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("mount", "endpoint"), [("/acp", "acp"), ("/a/b/", "a/b"), ('/"><x', "&quot;&gt;&lt;x")]
)
def test_the_page_knows_where_the_link_is(mount: str, endpoint: str) -> None:
    assert f'name="acpremote-endpoint" content="{endpoint}"' in get("/", mount)[1]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/index.html",
        "/app.js",
        "/console-0/app.js",
        "/{assets}/../__init__.py",
        "/{assets}/__init__.py",
        "/{assets}/",
        "//",
    ],
)
def test_nothing_else_is_answered(path: str) -> None:
    assets = next(path for path in paths() if path.endswith("/app.js")).split("/")[1]
    assert respond(path.replace("{assets}", assets)) is None
