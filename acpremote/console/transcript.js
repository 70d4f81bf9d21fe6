/**
 * <acp-transcript>: the items of one session as elements. It redraws an item when it changed, once per animation frame, keeps what the
 * person has unfolded, and stays at the bottom while the person is there.
 */

import { actionOf, statusOf } from "./actions.js";
import { terminal } from "./ansi.js";
import { askCard } from "./cards.js";
import { diffView } from "./diff.js";
import { button, bytes, h, icon, words } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { messageText } from "./updates.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];
const SHOWN = 100_000; // characters of one tool's output; the rest is said to be there

const TOOL_STATES = { pending: "waiting", in_progress: "running", completed: "done", failed: "failed", stopped: "stopped" };
const STEP_STATES = { pending: ["○", "to do"], in_progress: ["◐", "in progress"], completed: ["●", "done"] };

const cut = (text) => (text.length > SHOWN ? `${text.slice(0, SHOWN)}\n… ${bytes(text.length - SHOWN)} more are not shown` : text);
const json = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

// ---- content blocks

function block(part) {
  if (part.type === "image") return picture(part);
  if (part.type === "resource_link") return attachment(part.title || part.name || "file", part.uri, part.size);
  if (part.type === "resource") return embedded(part.resource ?? {});
  if (part.type === "audio") return attachment("Audio", part.mimeType, (part.data?.length ?? 0) * 0.75);
  return attachment("Content that the console does not know", part.type);
}

function picture({ data, mimeType }) {
  const sound = PICTURES.includes(mimeType) && typeof data === "string" && data.length < 8_000_000 && /^[A-Za-z0-9+/\s]+=*\s*$/.test(data);
  return sound ? h("img", { src: `data:${mimeType};base64,${data}`, alt: "Picture from the agent" }) : attachment("Picture", mimeType, (data?.length ?? 0) * 0.75);
}

const attachment = (name, detail, size) =>
  h("p", { class: "attachment" }, icon("read"), words(name), detail ? words(detail, { class: "hint" }) : null, size ? h("span", { class: "hint" }, bytes(Math.round(size))) : null);

function embedded({ uri, text, mimeType, blob }) {
  if (typeof text !== "string") return attachment(uri ?? "file", mimeType, (blob?.length ?? 0) * 0.75);
  return h("figure", { class: "code file" }, h("figcaption", {}, icon("read"), words(uri ?? "", { class: "path" })), h("pre", { tabindex: "0" }, words(cut(text), { dir: false }, "code")));
}

/** Renders a message's parts, keeping the elements of those that are there already. */
function renderParts(container, parts, markdown) {
  while (container.children.length > parts.length) container.lastElementChild.remove();
  parts.forEach((part, index) => {
    let element = container.children[index];
    if (part.type !== "text") {
      if (!element) container.append(block(part));
      return;
    }
    if (!element) container.append((element = h("div", { class: markdown ? "prose" : "plain", dir: markdown ? false : "auto" })));
    if (markdown) renderMarkdown(element, part.text);
    else element.replaceChildren(words(part.text, { dir: false }, "span"));
  });
}

// ---- tools

function toolContent(content, item) {
  if (content.type === "diff") return diffView({ path: String(content.path), oldText: content.oldText ?? null, newText: String(content.newText ?? "") });
  if (content.type === "terminal") return shell(item.output[content.terminalId] ?? "", item.exit);
  const part = content.content;
  if (typeof part !== "object" || part === null) return null;
  if (part.type !== "text") return block(part);
  const text = cut(String(part.text ?? ""));
  // Output of commands often comes in a fence, which is not part of it.
  const bare = /^```[a-z]*\n([^]*?)\n?```\s*$/.exec(text)?.[1];
  if (item.toolKind === "execute") return shell(bare ?? text, null);
  const prose = h("div", { class: "prose" });
  renderMarkdown(prose, text);
  return prose;
}

function shell(text, exit) {
  const ended = exit ? h("p", { class: "hint" }, exit.signal ? `Ended by signal ${exit.signal}` : `Exit status ${exit.code}`) : null;
  return h("div", { class: "shell" }, terminal(cut(text)), ended);
}

function raw(label, value) {
  if (value === undefined) return null;
  return h("details", { class: "raw" }, h("summary", {}, label), h("pre", { tabindex: "0", dir: "ltr" }, words(cut(json(value)), { dir: false }, "code")));
}

function toolBody(item) {
  const places = item.locations.map(({ path, line }) => words(Number.isInteger(line) ? `${path}:${line}` : String(path), { class: "path" }));
  const contents = item.content.map((content) => toolContent(content, item));
  const shown = new Set(item.content.map(({ terminalId }) => terminalId));
  const others = Object.entries(item.output).filter(([id]) => !shown.has(id)).map(([, text]) => shell(text, item.exit));
  return [places.length ? h("p", { class: "places" }, places) : null, contents, others, raw("Input", item.rawInput), contents.length ? null : raw("Output", item.rawOutput)];
}

function tool(item, element, context) {
  const details = element.querySelector("details") ?? element.appendChild(h("details", {}, h("summary"), h("div", { class: "body" })));
  const [summary, body] = details.children;
  const state = Object.hasOwn(TOOL_STATES, item.status) ? item.status : "pending";
  const head = [icon(item.toolKind), words(item.title || "Tool call", { class: "title" }), h("span", { class: `state ${state}` }, TOOL_STATES[state])];
  summary.replaceChildren(...head);
  body.replaceChildren(...toolBody(item).flat().filter(Boolean));
  const asked = context.session.items.some((each) => each.state === "open" && each.params?.toolCall?.toolCallId === item.toolCallId);
  const telling = item.status === "failed" || asked || item.content.some(({ type }) => type === "diff" || type === "terminal");
  if (!details.dataset.touched) {
    details.open = telling && body.childElementCount > 0;
    summary.onclick = () => (details.dataset.touched = "yes");
  }
}

// ---- the other kinds

const message = (markdown) => (item, element) => {
  if (item.held) return element.replaceChildren(h("p", { class: "hint" }, "…"));
  if (element.firstElementChild?.className !== "parts") element.replaceChildren(h("div", { class: "parts" }));
  return renderParts(element.firstElementChild, item.parts, markdown);
};

function thought(item, element) {
  const text = messageText(item);
  if (!element.firstElementChild) element.append(h("details", {}, h("summary"), h("div", { class: "prose" })));
  const [summary, body] = element.firstElementChild.children;
  const first = text.trim().split("\n")[0].replaceAll("**", "").slice(0, 120);
  summary.replaceChildren(icon("think"), h("span", { class: "label" }, item.ended ? "Thought" : "Thinking…"), words(first, { class: "preview" }));
  renderMarkdown(body, text);
}

function plan(item, element) {
  const done = item.entries.filter(({ status }) => status === "completed").length;
  const rows = item.entries.map(({ content, status, priority }) => {
    const [glyph, told] = STEP_STATES[status] ?? STEP_STATES.pending;
    const high = priority === "high" ? h("span", { class: "tag" }, "high") : null;
    return h("li", { class: status === "completed" ? "done" : status === "in_progress" ? "now" : "todo" },
      h("span", { class: "glyph", "aria-hidden": "true" }, glyph), h("span", {}, words(content), h("span", { class: "offscreen" }, ` (${told})`), high));
  });
  element.replaceChildren(h("div", { class: "card plan" }, h("header", {}, h("span", {}, "Plan"), h("span", { class: "hint" }, `${done} of ${item.entries.length}`)), h("ol", {}, rows)));
}

function component(item, element, { session, select }) {
  const list = h("acp-choice-list", { on: { "acp-select": ({ detail }) => select(detail, item, list) } });
  list.frame = item.frame;
  const { instanceId } = JSON.parse(item.frame);
  if (typeof instanceId === "string" && Object.hasOwn(session.resolved, instanceId)) list.selected = session.resolved[instanceId];
  element.replaceChildren(h("div", { class: "card component" }, list));
}

function action(item, element, { settle }) {
  const { title, approve } = actionOf(item.action);
  const status = statusOf(item);
  const outcome = { approved: item.outcome === "failed" ? "Approved, but it did not work" : "Approved and done", rejected: "Rejected", expired: "Expired: nothing was done" }[status];
  const shown = h("pre", { class: "snapshot", tabindex: "0" }, words(item.shown));
  const controls = status === "pending"
    ? h("div", { class: "controls" }, button(approve, () => settle(item, true), { class: "primary" }), button("No", () => settle(item, false)))
    : h("p", { class: "settled", tabindex: "-1" }, outcome);
  element.replaceChildren(h("div", { class: "card ask" }, h("header", {}, icon("question"), h("span", {}, title)), shown, controls));
}

const notice = (item, element) => {
  const from = item.foreign ? h("span", { class: "tag" }, "from the agent") : null;
  element.replaceChildren(h("p", { class: `line ${item.severity === "error" || item.severity === "warning" ? "warn" : ""}` }, from, words(item.text), item.detail ? words(item.detail, { class: "hint" }) : null));
};

/** A fault, what it means, and what can be done. */
export function problemBox({ text, detail, hint }, ...controls) {
  const more = detail && detail !== text ? words(detail, { class: "detail" }, "p") : null;
  return h("div", { class: "card problem", role: "alert" }, icon("warning"), h("div", {}, words(text, { class: "what" }, "p"), more, hint ? h("p", { class: "hint" }, hint) : null, controls));
}

const RENDER = {
  user: message(false), agent: message(true), thought, tool, plan, component, action, notice,
  ask: (item, element, { conversation }) => {
    if (element.dataset.state === item.state && !item.completed) return;
    element.dataset.state = item.state;
    element.replaceChildren(askCard(item, conversation));
  },
  error: (item, element) => element.replaceChildren(problemBox(item)),
};

const LABELS = { user: "You", agent: "Agent", thought: "Agent's thought", tool: "Tool call", plan: "Plan", component: "Choice from the agent", ask: "Question from the agent", action: "Action to confirm", notice: "Notice", error: "Error" };

export class AcpTranscript extends HTMLElement {
  scroller = null;
  #follows = true;
  #context = null;
  #elements = new Map();
  #dirty = new Set();
  #scheduled = false;

  /** Keeps to the bottom of the element that scrolls while the person is there, also when that changes its size. */
  scrollIn(scroller) {
    this.scroller = scroller;
    scroller.addEventListener("scroll", () => (this.#follows = this.#atBottom));
    new ResizeObserver(() => this.#follows && this.toBottom()).observe(scroller);
  }

  get #atBottom() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 80;
  }

  /** Shows a session from its beginning. `context`: conversation, session, select(event, item, list), settle(item, approved). */
  show(context) {
    this.#context = context;
    this.#elements.clear();
    this.replaceChildren();
    for (const item of context.session.items) this.#dirty.add(item);
    this.#draw();
    this.toBottom();
  }

  touch(item) {
    this.#dirty.add(item);
    // A question opens what it asks about.
    if (item.kind === "ask") {
      const call = this.#context.session.items.find((each) => each.kind === "tool" && each.toolCallId === item.params.toolCall?.toolCallId);
      if (call) this.#dirty.add(call);
    }
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#draw();
    });
  }

  toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  #draw() {
    const { scroller } = this;
    const atBottom = this.#atBottom;
    const { session } = this.#context;
    const present = new Set(session.items);
    for (const item of this.#dirty) if (present.has(item)) this.#place(item);
    this.#dirty.clear();
    for (const [item, element] of this.#elements) {
      if (present.has(item)) break; // items are dropped from the front only
      element.remove();
      this.#elements.delete(item);
    }
    this.dataset.dropped = session.dropped ? `${session.dropped} earlier entries are no longer kept.` : "";
    if (!atBottom) return;
    this.toBottom();
    // A question that is taller than what can be seen is read from its beginning.
    const last = this.lastElementChild;
    if (last?.dataset.state === "open" && last.offsetHeight > scroller.clientHeight - 40) scroller.scrollTop = last.offsetTop - 16;
  }

  #place(item) {
    let element = this.#elements.get(item);
    const focused = element?.contains(document.activeElement);
    if (!element || element.dataset.kind !== item.kind) {
      const made = h("div", { class: `item ${item.kind}`, role: "article", "aria-label": LABELS[item.kind], "data-kind": item.kind });
      if (element) element.replaceWith(made);
      else this.append(made);
      this.#elements.set(item, made);
      element = made;
    }
    RENDER[item.kind](item, element, this.#context);
    // The control that was used may be gone: the focus goes to what stands in its place, not to the top of the page.
    if (focused && !element.contains(document.activeElement)) element.querySelector("[tabindex='-1'], button, summary")?.focus();
  }
}

customElements.define("acp-transcript", AcpTranscript);
