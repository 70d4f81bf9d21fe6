"""Pages without a server: the console's files, and the test's own, from memory."""

from __future__ import annotations

from collections.abc import Mapping

from playwright.sync_api import BrowserContext, Route

from acpremote.console import paths, respond

ORIGIN = "http://console.test"
ASSETS = next(path for path in paths() if path.endswith("/app.js")).rpartition("/")[0]


def serve(context: BrowserContext, files: Mapping[str, tuple[str, str]] | None = None) -> None:
    """Answers the context's requests: `files` (content type and text by path) first, then the console's."""
    own = files or {}

    def answer(route: Route) -> None:
        path = "/" + route.request.url.removeprefix(ORIGIN).partition("?")[0].lstrip("/")
        if path in own:
            content_type, text = own[path]
            route.fulfill(content_type=content_type, body=text)
        elif (answered := respond(path)) is not None:
            status, headers, body = answered
            route.fulfill(status=status, headers=dict(headers), body=body)
        else:
            route.fulfill(status=404)

    context.route("**/*", answer)
