"""<acp-choice-list> hosted by React and by Vue: properties in, an event out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from ..interop.tools import NODE_PACKAGES, needs_node
from .pages import ASSETS, ORIGIN, serve
from .test_choice_list import FRAME, frame

pytestmark = [pytest.mark.interop, needs_node]

REACT = {
    "react": "react/cjs/react.production.js",
    "scheduler": "scheduler/cjs/scheduler.production.js",
    "react-dom": "react-dom/cjs/react-dom.production.js",
    "react-dom/client": "react-dom/cjs/react-dom-client.production.js",
}
"""React comes as CommonJS only; the page below has just enough of it to do without a bundler."""

REACT_PAGE = """<!doctype html><div id=app></div><script type=module>
import "ASSETS/choice-list.js";
const loaded = {};
const require = (name) => {
  if (!loaded[name]) {
    const module = (loaded[name] = { exports: {} });
    new Function("require", "module", "exports", SOURCES[name])(require, module, module.exports);
  }
  return loaded[name].exports;
};
const SOURCES = await (await fetch("/sources")).json();
const { createElement, useState } = require("react");
function App() {
  const [frame, show] = useState(FIRST);
  const [chosen, choose] = useState("nothing");
  return createElement("main", {},
    createElement("acp-choice-list", { frame, "onacp-select": ({ detail }) => choose(detail.choiceId) }),
    createElement("output", {}, chosen),
    createElement("button", { onClick: () => show(SECOND) }, "next"));
}
require("react-dom/client").createRoot(document.getElementById("app")).render(createElement(App));
</script>"""

VUE_PAGE = """<!doctype html><div id=app></div><script type=module>
import "ASSETS/choice-list.js";
import { createApp, h, shallowRef } from "/vue.js";
createApp({
  setup() {
    const frame = shallowRef(FIRST);
    const chosen = shallowRef("nothing");
    const choose = ({ detail }) => { chosen.value = detail.choiceId; };
    return () => h("main", [
      h("acp-choice-list", { frame: frame.value, onAcpSelect: choose }),
      h("output", chosen.value),
      h("button", { onClick: () => { frame.value = SECOND; } }, "next"),
    ]);
  },
}).mount("#app");
</script>"""

SECOND = frame(instanceId="second", props={"prompt": "And then?", "choices": [{"id": "z", "label": "Rest"}]})


def filled(page: str) -> str:
    return (
        page.replace("ASSETS", ASSETS)
        .replace("FIRST", json.dumps(FRAME))
        .replace("SECOND", json.dumps(SECOND))
    )


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    sources = {name: (NODE_PACKAGES / path).read_text() for name, path in REACT.items()}
    context = browser.new_context()
    context.set_default_timeout(10_000)
    vue = (NODE_PACKAGES / "vue/dist/vue.runtime.esm-browser.prod.js").read_text()
    files = {
        "/react": ("text/html", filled(REACT_PAGE)),
        "/vue": ("text/html", filled(VUE_PAGE)),
        "/sources": ("application/json", json.dumps(sources)),
        "/vue.js": ("text/javascript", vue),
    }
    serve(context, files)
    yield context
    context.close()


@pytest.mark.parametrize("framework", ["react", "vue"])
def test_a_framework_hosts_the_choice_list_with_properties_and_an_event(
    context: BrowserContext, framework: str
) -> None:
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{ORIGIN}/{framework}")
    page.get_by_role("button", name="release/4.x").click()
    expect(page.locator("output")).to_have_text("rel-4")
    expect(page.get_by_role("button", name="release/4.x ✓ chosen")).to_be_visible()
    page.get_by_role("button", name="next").click()
    page.get_by_role("button", name="Rest").click()
    expect(page.locator("output")).to_have_text("z")
    assert faults == []
