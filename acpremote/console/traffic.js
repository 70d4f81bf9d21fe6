/**
 * <acp-traffic>: the frames of the link in both directions, for people who want to see what is going on. Records nothing until it is opened,
 * keeps the newest frames up to a bound, and never sees the link's secrets or the token: only JSON-RPC frames come here.
 */

import { button, bytes, copyText, h, icon, words } from "./dom.js";

const ROWS = 500;
const CHARACTERS = 2_000_000;
const CUT = 20_000;

const count = new TextEncoder();

function describe(text) {
  try {
    const { method, id, error, params } = JSON.parse(text);
    const update = method === "session/update" ? params?.update?.sessionUpdate : null;
    const kind = method ?? (error ? "error" : "result");
    return { kind: update ? `${kind} · ${update}` : String(kind), id: id === undefined ? "" : JSON.stringify(id) };
  } catch {
    return { kind: "not JSON", id: "" };
  }
}

const clock = (date) => date.toTimeString().slice(0, 8) + "." + String(date.getMilliseconds()).padStart(3, "0");

export class AcpTraffic extends HTMLElement {
  #frames = [];
  #characters = 0;
  #dropped = 0;
  #paused = false;
  #waiting = [];
  #scheduled = false;
  #list;
  #filter;
  #state;

  connectedCallback() {
    if (this.#list) return;
    this.#filter = h("input", { type: "search", id: "traffic-filter", placeholder: "Method, id or text", autocomplete: "off", on: { input: () => this.#refilter() } });
    this.#state = h("span", { class: "hint", role: "status" });
    this.#list = h("ol", { class: "frames", tabindex: "0", "aria-label": "Frames" });
    const pause = button("Pause", () => {
      this.#paused = !this.#paused;
      pause.setAttribute("aria-pressed", String(this.#paused));
      this.#say();
    }, { "aria-pressed": "false" });
    const copy = button("Copy", async () => {
      const text = this.#frames.filter((frame) => !frame.row.hidden).map((frame) => JSON.stringify({ time: frame.time.toISOString(), to: frame.to, frame: frame.text }));
      this.#state.textContent = (await copyText(text.join("\n"))) ? `${text.length} frames copied` : "The browser did not allow copying";
    }, { title: "Copies the frames that are shown, one JSON object a line" });
    const close = button(icon("close"), () => this.dispatchEvent(new Event("close")), { class: "quiet", "aria-label": "Close traffic" });
    const tools = h("div", { class: "tools" }, h("label", { class: "offscreen", for: "traffic-filter" }, "Filter"), this.#filter, pause, copy, button("Clear", () => this.#clear()));
    this.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Traffic"), this.#state, close), tools, this.#list);
    this.#say();
  }

  /** Records a frame; `to` is "agent" or "client". */
  record(to, text) {
    if (this.hidden || this.#paused) return;
    this.#waiting.push({ to, time: new Date(), size: count.encode(text).length, text: text.length > CUT ? `${text.slice(0, CUT)}…` : text });
    if (this.#waiting.length > ROWS) this.#dropped += this.#waiting.splice(0, this.#waiting.length - ROWS).length;
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#draw();
    });
  }

  #draw() {
    const atBottom = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 40;
    for (const frame of this.#waiting.splice(0)) {
      Object.assign(frame, describe(frame.text));
      frame.row = this.#row(frame);
      frame.row.hidden = !this.#fits(frame);
      this.#frames.push(frame);
      this.#characters += frame.text.length;
      this.#list.append(frame.row);
    }
    while (this.#frames.length > ROWS || this.#characters > CHARACTERS) {
      const oldest = this.#frames.shift();
      this.#characters -= oldest.text.length;
      this.#dropped++;
      oldest.row.remove();
    }
    this.#say();
    if (atBottom) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #row({ to, time, size, kind, id, text }) {
    const head = [
      h("time", { datetime: time.toISOString() }, clock(time)),
      h("span", { class: `way ${to}` }, h("span", { "aria-hidden": "true" }, to === "agent" ? "→" : "←"), h("span", { class: "offscreen" }, `to the ${to}`)),
      words(kind, { class: "kind" }), words(id, { class: "id" }), h("span", { class: "size" }, bytes(size)),
    ];
    const content = h("pre", { tabindex: "0", dir: "ltr" });
    const details = h("details", { on: { toggle: () => details.open && !content.firstChild && content.append(words(pretty(text), { dir: false }, "code")) } });
    details.append(h("summary", {}, head), content);
    return h("li", {}, details);
  }

  #fits({ text, kind, id }) {
    const wanted = this.#filter.value.trim().toLowerCase();
    return !wanted || `${kind} ${id} ${text}`.toLowerCase().includes(wanted);
  }

  #refilter() {
    for (const frame of this.#frames) frame.row.hidden = !this.#fits(frame);
    this.#say();
  }

  #say() {
    const shown = this.#frames.filter((frame) => !frame.row.hidden).length;
    const dropped = this.#dropped ? `, ${this.#dropped} older dropped` : "";
    this.#state.textContent = `${shown} frames${dropped}${this.#paused ? ", paused" : ""}`;
  }

  #clear() {
    this.#frames = [];
    this.#characters = this.#dropped = 0;
    this.#list.replaceChildren();
    this.#say();
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

customElements.define("acp-traffic", AcpTraffic);
