/** What the main part shows before there is a conversation: the token, and the start of a session. */

import { button, h, icon, words } from "./dom.js";
import { problemBox } from "./transcript.js";

/** Asks for the token. `given(token, keep)` is called with it. */
export function tokenScreen(problem, given) {
  const input = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", spellcheck: "false", "aria-describedby": problem ? "token-problem" : false });
  const keep = h("input", { type: "checkbox", id: "keep" });
  const submit = (event) => {
    event.preventDefault();
    if (input.value.trim()) given(input.value.trim(), keep.checked);
  };
  return h("form", { class: "card start", on: { submit } },
    h("h2", {}, "Token"),
    h("p", { class: "hint" }, "The server asks for a token. It was set when the server was started (--token-file or --token-env)."),
    problem ? h("p", { class: "warn", role: "alert", id: "token-problem" }, icon("warning"), problem) : null,
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input),
    h("div", { class: "check" }, keep, h("label", { for: "keep" }, "Keep it in this tab until the tab is closed")),
    h("div", { class: "controls" }, h("button", { type: "submit", class: "primary" }, "Connect")));
}

/** Starts or continues a session. */
export function startScreen({ ready, busy, problem, cwd, authMethods, authenticated, last, agent, listed, more, create, open, authenticate, list }) {
  if (!ready) return h("div", { class: "start" }, problem ? problemBox(problem) : h("p", { class: "working" }, h("span", { class: "pulse", "aria-hidden": "true" }), "Waiting for the agent"));
  const input = h("input", { type: "text", id: "cwd", name: "cwd", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  input.value = cwd;
  const submit = (event) => {
    event.preventDefault();
    if (!busy && input.value.trim()) create(input.value.trim());
  };
  const form = h("form", { class: "card", on: { submit } },
    h("h2", {}, "New session with ", words(agent)),
    h("div", { class: "field" }, h("label", { for: "cwd" }, "Directory on the agent's machine"), input),
    problem && !signIn(problem) ? problemBox(problem) : null,
    h("div", { class: "controls" }, h("button", { type: "submit", class: "primary", "aria-disabled": String(busy) }, busy ? "Starting…" : "Start"),
      last ? button(["Continue “", words(last.title ?? last.sessionId), "”"], () => open(last)) : null));
  return h("div", { class: "start" }, form, signInCard(problem, authMethods, authenticated, authenticate, busy), kept(listed, more, open, list));
}

const signIn = (problem) => problem?.code === -32000;

function signInCard(problem, methods, authenticated, authenticate, busy) {
  if (!signIn(problem) || authenticated) return null;
  const offered = methods.filter(({ type }) => type !== "terminal");
  const rows = offered.map(({ id, name, description }) => h("li", {}, button(words(name ?? id), () => !busy && authenticate(id)), description ? words(description, { class: "hint" }, "p") : null));
  const elsewhere = h("p", {}, "It can only be done on the agent's machine: run the agent there in a terminal and sign in, then try again.");
  return h("section", { class: "card" }, problemBox(problem), h("h2", {}, "Sign in"), rows.length ? h("ul", { class: "rows" }, rows) : elsewhere);
}

function kept(listed, more, open, list) {
  if (!listed.length) return null;
  const rows = listed.map((info) => {
    const date = info.updatedAt ? new Date(info.updatedAt) : null;
    const when = date && !Number.isNaN(date.getTime()) ? h("time", { class: "hint", datetime: date.toISOString() }, date.toLocaleString()) : null;
    return h("li", {}, button([words(info.title ?? info.sessionId, { class: "title" }), words(info.cwd ?? "", { class: "hint" }), when], () => open(info), { class: "entry" }));
  });
  return h("section", { class: "kept" }, h("h2", {}, "Earlier sessions"), h("ul", { class: "rows" }, rows), more ? button("More…", list, { class: "quiet" }) : null);
}
