/**
 * <acp-choice-list>: shows one `choice-list` frame of the protocol `agentskit.chat.component`, version 1, and says
 * what was chosen. This module stands alone: any page can import it, with or without the rest of the console.
 *
 *     <acp-choice-list id="pick"></acp-choice-list>
 *     import { choiceListManifest } from "./choice-list.js";
 *     pick.manifest = choiceListManifest;          // the default
 *     pick.frame = frame;                          // an object, or its JSON text
 *     pick.addEventListener("acp-select", (event) => send(event.detail));
 *
 * Attributes: `review` (a click only arms, *Send* sends), `initial` (the choice armed or marked at first),
 * `disabled`. Properties: `frame`, `manifest`, `selected` (the id chosen, or null). `reset()` makes a list usable again
 * whose choice could not be handled. Slot `controls` stands beside *Send*.
 *
 * Nothing in a frame is ever markup: all of it becomes text nodes, and characters that could reorder or hide text are
 * shown by their code.
 */

export const PROTOCOL = "agentskit.chat.component";

const KEY = /^[a-z][a-z0-9-]{0,63}$/;
const ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const NODES = 1000;
const DEPTH = 20;
const STRING = 16384;
const OBJECT_KEY = 256;

const MESSAGES = {
  COMPONENT_INVALID_FRAME: "This component frame does not follow the protocol.",
  COMPONENT_UNSUPPORTED_VERSION: "This component frame has a version that is not supported.",
  COMPONENT_UNKNOWN_TYPE: "This component message has a type that cannot be shown.",
  COMPONENT_UNKNOWN: "This component is not one of those that are declared here.",
  COMPONENT_INVALID_PROPS: "This component's content does not follow its definition.",
};

/** The host's own mistake: a manifest that cannot be, or a choice that the frame does not offer. */
export class ConfigError extends Error {
  code = "AK_CONFIG_INVALID";
}

class Refused extends Error {
  constructor(code) {
    super(MESSAGES[code]);
    this.code = code;
  }
}

const failure = (error, fallback = null) => {
  const code = error instanceof Refused ? error.code : "COMPONENT_INVALID_FRAME";
  return { ok: false, diagnostic: { code, message: MESSAGES[code], retryable: false }, fallback };
};

const need = (condition, code) => {
  if (!condition) throw new Refused(code);
};

const isText = (value, least, most) => typeof value === "string" && value.length >= least && value.length <= most;
const matches = (pattern, value) => typeof value === "string" && pattern.test(value);

function isPlain(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** A deep, frozen copy of `value` within the protocol's bounds; throws on anything that JSON text could not say. */
function boundedJson(value, budget = { nodes: NODES, seen: new Set() }, depth = 0) {
  need(--budget.nodes >= 0 && depth <= DEPTH, "COMPONENT_INVALID_FRAME");
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") {
    need(Number.isFinite(value), "COMPONENT_INVALID_FRAME");
    return value;
  }
  if (typeof value === "string") {
    need(value.length <= STRING, "COMPONENT_INVALID_FRAME");
    return value;
  }
  need(Array.isArray(value) || isPlain(value), "COMPONENT_INVALID_FRAME");
  need(!budget.seen.has(value), "COMPONENT_INVALID_FRAME");
  budget.seen.add(value);
  if (Array.isArray(value)) {
    need(value.length <= NODES, "COMPONENT_INVALID_FRAME");
    return Object.freeze(Array.from(value, (member) => boundedJson(member, budget, depth + 1)));
  }
  const copy = {};
  for (const key of Object.keys(value)) {
    need(key.length <= OBJECT_KEY, "COMPONENT_INVALID_FRAME");
    // defineProperty, because assigning to `__proto__` would set the prototype instead of a member.
    const member = boundedJson(value[key], budget, depth + 1);
    Object.defineProperty(copy, key, { value: member, enumerable: true });
  }
  return Object.freeze(copy);
}

function decoded(input) {
  const value = typeof input === "string" ? JSON.parse(input) : input;
  if (typeof value === "object" && value !== null && value.protocol === PROTOCOL) {
    const numbered = typeof value.version === "number" && value.version !== 1;
    need(!numbered, "COMPONENT_UNSUPPORTED_VERSION");
    need(value.type === "render", "COMPONENT_UNKNOWN_TYPE");
  }
  const { protocol, version, type, componentKey, instanceId, props, fallback } = isPlain(value) ? value : {};
  const lexical = protocol === PROTOCOL && version === 1 && type === "render";
  need(lexical && matches(KEY, componentKey) && matches(ID, instanceId), "COMPONENT_INVALID_FRAME");
  need(isPlain(fallback), "COMPONENT_INVALID_FRAME");
  const { kind, summary } = fallback;
  need(isText(kind, 1, 64) && isText(summary, 1, 4096), "COMPONENT_INVALID_FRAME");
  return Object.freeze({
    protocol, version, type, componentKey, instanceId,
    props: boundedJson(props),
    fallback: Object.freeze({ kind, summary }),
  });
}

/** Decodes a render frame (an object or JSON text). Never throws; unknown fields of the envelope are dropped. */
export function decodeComponentFrame(input) {
  try {
    return { ok: true, frame: decoded(input) };
  } catch (error) {
    const { ok, diagnostic } = failure(error);
    return { ok, diagnostic };
  }
}

function hasExactly(value, required, optional = []) {
  if (!isPlain(value)) return false;
  const allowed = [...required, ...optional];
  return required.every((key) => Object.hasOwn(value, key)) && Object.keys(value).every((key) => allowed.includes(key));
}

function isAction(action) {
  if (!hasExactly(action, ["name", "input"])) return false;
  return matches(ID, action.name) && isPlain(action.input) && Object.keys(action.input).every((key) => key.length <= 128);
}

function isChoice(choice) {
  if (!hasExactly(choice, ["id", "label"], ["description", "action"])) return false;
  if (!matches(ID, choice.id) || !isText(choice.label, 1, 256)) return false;
  if (Object.hasOwn(choice, "description") && !isText(choice.description, 1, 4096)) return false;
  return !Object.hasOwn(choice, "action") || isAction(choice.action);
}

function isChoiceList(props) {
  if (!hasExactly(props, ["prompt", "choices"]) || !isText(props.prompt, 1, 4096)) return false;
  const { choices } = props;
  if (!Array.isArray(choices) || choices.length < 1 || choices.length > 20) return false;
  return choices.every(isChoice) && new Set(choices.map((choice) => choice.id)).size === choices.length;
}

/** The definition of `choice-list`; manifests name it, and nothing else may claim its key. */
export const choiceListComponent = Object.freeze({ key: "choice-list", accepts: isChoiceList });

const STANDARD = { "choice-list": choiceListComponent };

/** The closed set of components that a page is willing to show: a map without prototype, from key to definition. */
export function defineComponentManifest(definitions) {
  const manifest = Object.create(null);
  for (const definition of definitions) {
    const { key } = definition;
    const claimed = Object.hasOwn(STANDARD, key) && STANDARD[key] !== definition;
    if (!matches(KEY, key) || key in manifest || claimed) throw new ConfigError("The component manifest is not valid.");
    manifest[key] = definition;
  }
  return Object.freeze(manifest);
}

export const choiceListManifest = defineComponentManifest([choiceListComponent]);

/** Decodes and checks a frame against the manifest: `{ok, frame, props}` or `{ok, diagnostic, fallback}`. Never throws. */
export function resolveComponentFrame(input, manifest = choiceListManifest) {
  let frame = null;
  try {
    frame = decoded(input);
    need(Object.hasOwn(manifest, frame.componentKey), "COMPONENT_UNKNOWN");
    need(manifest[frame.componentKey].accepts(frame.props), "COMPONENT_INVALID_PROPS");
    return { ok: true, frame, props: frame.props };
  } catch (error) {
    return failure(error, frame?.fallback ?? null);
  }
}

/** The select event for one choice that the frame offers. Throws ConfigError for any other. */
export function selectChoice(frame, choiceId) {
  const result = resolveComponentFrame(frame);
  if (!result.ok || !result.props.choices.some((choice) => choice.id === choiceId)) {
    throw new ConfigError("The frame is no choice list that offers this choice.");
  }
  const { componentKey, instanceId } = result.frame;
  return { protocol: PROTOCOL, version: 1, type: "select", componentKey, instanceId, choiceId };
}

/** The one text form of a fallback. */
export const formatFallback = ({ kind, summary }) => `[unsupported visual: ${kind}] ${summary}`;

// Controls but tab and newline, marks and overrides of direction, and what takes no room: soft hyphen, zero-width
// spaces, invisible operators, Hangul fillers, tag characters. Joiners stay: scripts and emoji need them.
const TREACHEROUS =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

const codeOf = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** `text` with the characters that could reorder or hide it spelled out, for attributes and announcements. */
export const visibleText = (text) => String(text).replace(TREACHEROUS, (character) => `⟨${codeOf(character)}⟩`);

/** Text nodes for `text`; a character that could reorder or hide text becomes a marked element that spells its code. */
export function visibleNodes(text) {
  text = String(text);
  const nodes = [];
  let from = 0;
  for (const { 0: character, index } of text.matchAll(TREACHEROUS)) {
    if (index > from) nodes.push(document.createTextNode(text.slice(from, index)));
    const mark = document.createElement("span");
    mark.className = "control-character";
    mark.textContent = codeOf(character);
    nodes.push(mark);
    from = index + character.length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

const STYLE = `
  :host { display: block; font: inherit; color: inherit; contain: content; }
  :host([hidden]) { display: none; }
  fieldset { border: 0; margin: 0; padding: 0; min-inline-size: 0; }
  legend, .label, .description, p { unicode-bidi: isolate; overflow-wrap: anywhere; white-space: pre-wrap; }
  legend { padding: 0; margin-block-end: 0.75em; font-weight: 600; }
  .choices { display: grid; gap: 0.5em; }
  .option {
    position: relative; display: grid; gap: 0.15em; padding: 0.65em 0.9em; min-block-size: 44px; box-sizing: border-box; align-content: center;
    background: var(--acp-surface, transparent);
    border: 1px solid var(--acp-border, color-mix(in srgb, currentColor 28%, transparent));
    border-radius: var(--acp-radius, 8px);
  }
  .option:not(.off):hover { border-color: var(--acp-accent, currentColor); }
  .option:has(:focus-visible), .send:focus-visible { outline: 2px solid var(--acp-accent, currentColor); outline-offset: 2px; }
  .choice {
    display: flex; justify-content: space-between; align-items: baseline; gap: 0.75em; inline-size: 100%; padding: 0; text-align: start;
    font: inherit; color: inherit; background: none; border: 0; outline: none; cursor: pointer;
  }
  /* The description stands beside the button, not in it (it is no part of its name), but a click on it counts. */
  .choice::after { content: ""; position: absolute; inset: 0; }
  .choice[aria-disabled="true"] { cursor: default; }
  .off:not(.chosen) .label { color: var(--acp-muted, inherit); }
  .chosen { border-color: var(--acp-accent, currentColor); box-shadow: inset 0 0 0 1px var(--acp-accent, currentColor); }
  .mark { color: var(--acp-accent, inherit); font-size: 0.875em; white-space: nowrap; }
  .description { color: var(--acp-muted, inherit); font-size: 0.875em; }
  .controls:not(.none) { display: flex; flex-wrap: wrap; gap: 0.5em; margin-block-start: 0.75em; }
  .send {
    font: inherit; font-weight: 600; min-block-size: 44px; padding: 0.4em 1.1em; border-radius: var(--acp-radius, 8px);
    border: 1px solid var(--acp-accent, currentColor); background: var(--acp-accent, CanvasText);
    color: var(--acp-on-accent, Canvas); cursor: pointer;
  }
  .send[aria-disabled="true"] { background: transparent; color: var(--acp-muted, inherit); border-color: currentColor; cursor: default; }
  p { margin: 0; }
  .status { font-size: 0.875em; color: var(--acp-muted, inherit); }
  .status:not(:empty) { margin-block-start: 0.6em; }
  .control-character {
    font: 0.75em ui-monospace, monospace; border: 1px dashed currentColor; border-radius: 3px; padding: 0 0.25em; margin: 0 0.1em;
    unicode-bidi: isolate; white-space: nowrap;
  }
`;

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

// Under node (where the decoder is tested and may be used) there are no elements.
const Base = globalThis.HTMLElement ?? class {};

export class AcpChoiceList extends Base {
  static observedAttributes = ["frame", "review", "initial", "disabled"];
  static #sheet = null;
  #frame = null;
  #manifest = choiceListManifest;
  #resolved = null;
  #armed = null;
  #selected = null;
  #root;

  constructor() {
    super();
    this.#root = this.attachShadow({ mode: "open", delegatesFocus: true });
    if (!AcpChoiceList.#sheet) {
      AcpChoiceList.#sheet = new CSSStyleSheet();
      AcpChoiceList.#sheet.replaceSync(STYLE);
    }
    this.#root.adoptedStyleSheets = [AcpChoiceList.#sheet];
  }

  connectedCallback() {
    // A framework may have set these before the element was defined: they would hide the accessors below.
    for (const name of ["manifest", "frame", "selected"]) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#render();
  }

  attributeChangedCallback(name, before, after) {
    if (name === "frame") this.frame = after;
    else if (before !== after) this.#render();
  }

  get frame() {
    return this.#frame;
  }

  set frame(frame) {
    if (frame === this.#frame) return;
    this.#frame = frame ?? null;
    this.#selected = null;
    this.#armed = null;
    this.#resolve();
  }

  get manifest() {
    return this.#manifest;
  }

  set manifest(manifest) {
    if (manifest === this.#manifest) return;
    this.#manifest = manifest;
    this.#resolve();
  }

  /** The id of the choice made, or null. Setting it shows a list as already answered; no event is sent. */
  get selected() {
    return this.#selected;
  }

  set selected(choiceId) {
    this.#selected = choiceId ?? null;
    this.#update();
  }

  /** Makes the list usable again. */
  reset() {
    this.#selected = null;
    this.#armed = null;
    this.#update();
  }

  #resolve() {
    this.#resolved = this.#frame === null ? null : resolveComponentFrame(this.#frame, this.#manifest);
    // This element shows choice lists only, whatever else the page's manifest declares.
    if (this.#resolved?.ok && this.#resolved.frame.componentKey !== "choice-list") {
      this.#resolved = failure(new Refused("COMPONENT_UNKNOWN"), this.#resolved.frame.fallback);
    }
    this.#render();
  }

  #render() {
    if (!this.isConnected) return;
    const shown = [];
    if (this.#resolved?.ok) shown.push(this.#list(this.#resolved.props));
    else if (this.#resolved?.fallback) shown.push(this.#note("fallback", formatFallback(this.#resolved.fallback)));
    else if (this.#resolved) shown.push(this.#note("diagnostic", this.#resolved.diagnostic.message));
    this.#root.replaceChildren(...shown);
    this.#update();
  }

  #note(part, text) {
    const { code } = this.#resolved.diagnostic;
    return make("p", { part, "data-code": code, role: part === "fallback" ? "note" : "alert" }, ...visibleNodes(text));
  }

  #list({ prompt, choices }) {
    const options = choices.map((choice, index) => this.#option(choice, index));
    const fieldset = make("fieldset", { part: "list" }, make("legend", { part: "prompt" }, ...visibleNodes(prompt)));
    fieldset.append(make("div", { class: "choices" }, ...options));
    const slot = make("slot", { name: "controls" });
    const controls = make("div", { class: "controls" }, slot);
    const empty = () => controls.classList.toggle("none", controls.childElementCount === 1 && !slot.assignedElements().length);
    slot.addEventListener("slotchange", empty);
    if (this.hasAttribute("review")) {
      const send = make("button", { type: "button", class: "send", part: "send" }, "Send");
      send.addEventListener("click", () => this.#send());
      controls.prepend(send);
    }
    empty();
    fieldset.append(controls, make("p", { class: "status", part: "status", role: "status" }));
    return fieldset;
  }

  #option({ id, label, description }, index) {
    const button = make("button", { type: "button", class: "choice", part: "choice", "data-choice": id });
    button.append(make("span", { class: "label" }, ...visibleNodes(label)), make("span", { class: "mark" }));
    button.addEventListener("click", () => this.#clicked(id));
    const option = make("div", { class: "option", part: "option" }, button);
    if (description !== undefined) {
      button.setAttribute("aria-describedby", `d${index}`);
      option.append(make("span", { id: `d${index}`, class: "description" }, ...visibleNodes(description)));
    }
    return option;
  }

  #clicked(choiceId) {
    if (this.#selected !== null || this.hasAttribute("disabled")) return;
    this.#armed = choiceId;
    if (this.hasAttribute("review")) this.#update();
    else this.#send();
  }

  #send() {
    if (this.#selected !== null || this.hasAttribute("disabled")) return;
    const choiceId = this.#armed ?? this.#initial();
    if (choiceId === null) {
      this.#say("Choose one first.");
      return;
    }
    const detail = selectChoice(this.#resolved.frame, choiceId);
    this.#selected = choiceId;
    this.#update();
    this.dispatchEvent(new CustomEvent("acp-select", { detail, bubbles: true, composed: true }));
  }

  #initial() {
    const initial = this.getAttribute("initial");
    return this.#resolved.props.choices.some((choice) => choice.id === initial) ? initial : null;
  }

  #say(text) {
    const status = this.#root.querySelector(".status");
    if (status && status.textContent !== text) status.replaceChildren(text);
  }

  #update() {
    if (!this.isConnected || !this.#resolved?.ok) return;
    const review = this.hasAttribute("review");
    const off = this.#selected !== null || this.hasAttribute("disabled");
    const marked = this.#selected ?? this.#armed ?? this.#initial();
    for (const button of this.#root.querySelectorAll(".choice")) {
      const here = button.dataset.choice === marked;
      button.parentElement.classList.toggle("chosen", here);
      button.parentElement.classList.toggle("off", off);
      button.setAttribute("aria-disabled", String(off));
      if (review) button.setAttribute("aria-pressed", String(here));
      button.querySelector(".mark").textContent = here ? ` ${this.#markFor()}` : "";
    }
    const send = this.#root.querySelector(".send");
    send?.setAttribute("aria-disabled", String(off || marked === null));
    const chosen = this.#resolved.props.choices.find((choice) => choice.id === this.#selected);
    this.#say(chosen ? `Chosen: ${visibleText(chosen.label)}` : "");
  }

  #markFor() {
    if (this.#selected !== null) return "✓ chosen";
    return this.#armed === null ? "suggested" : "● marked";
  }
}

globalThis.customElements?.get("acp-choice-list") ?? globalThis.customElements?.define("acp-choice-list", AcpChoiceList);
