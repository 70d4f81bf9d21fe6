/** The prompt box with what belongs to it: send or stop, the session's mode and options, commands, usage. */

import { button, h, icon, words } from "./dom.js";
import { visibleText } from "./choice-list.js";

const coarse = globalThis.matchMedia?.("(pointer: coarse)");

const SIZES_ITSELF = globalThis.CSS?.supports("field-sizing", "content");

export class Composer {
  #calls;
  #session = null;
  #usable = false;

  /** `calls`: send(text), stop(), mode(id), option(option, value). */
  constructor(calls) {
    this.#calls = calls;
    this.text = h("textarea", { id: "prompt", rows: "1", placeholder: "Ask the agent", autocomplete: "off", on: { input: () => this.#changed(), keydown: (event) => this.#key(event) } });
    this.send = h("button", { type: "submit", class: "send", "aria-label": "Send" }, icon("send"));
    this.stop = button(icon("stop"), () => this.#calls.stop(), { class: "stop", "aria-label": "Stop", title: "Stop the turn" });
    this.commands = h("div", { class: "commands", role: "group", "aria-label": "Commands" });
    this.settings = h("div", { class: "settings" });
    this.usage = h("p", { class: "usage" });
    const submit = (event) => {
      event.preventDefault();
      this.#submit();
    };
    const box = h("div", { class: "box" }, h("label", { class: "offscreen", for: "prompt" }, "Message to the agent"), this.text, this.send, this.stop);
    this.element = h("form", { class: "composer", hidden: true, "aria-label": "Message", on: { submit } }, this.commands, box, h("div", { class: "below" }, this.settings, this.usage));
  }

  focus() {
    // On a phone the keyboard would cover half of what there is to read.
    if (!coarse?.matches) this.text.focus();
  }

  /** Puts words into the box for the person to send. */
  offer(text) {
    this.text.value = this.text.value.trim() ? `${this.text.value.trimEnd()}\n${text}` : text;
    this.#changed();
    this.text.focus();
  }

  show(session, usable) {
    this.#session = session;
    this.#usable = usable;
    this.element.hidden = !usable;
    if (!usable) return;
    const running = session.running !== null;
    // Never away from under a focused button: the focus goes back to the text.
    const focused = document.activeElement === this.stop || document.activeElement === this.send;
    this.send.hidden = running;
    this.stop.hidden = !running;
    this.stop.setAttribute("aria-disabled", String(session.cancelling));
    if (focused && document.activeElement !== this.stop && document.activeElement !== this.send) this.text.focus();
    this.#settings(session);
    this.#usage(session);
    this.#changed();
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || coarse?.matches) return;
    event.preventDefault();
    this.#submit();
  }

  #submit() {
    const text = this.text.value.trim();
    if (!text || !this.#usable || this.#session.running !== null || this.#session.loading !== null) return;
    this.text.value = "";
    this.#calls.send(text);
    this.#changed();
  }

  #changed() {
    if (!SIZES_ITSELF) {
      this.text.style.height = "auto";
      this.text.style.height = `${this.text.scrollHeight}px`; // the style sheet has the upper bound
    }
    this.send.setAttribute("aria-disabled", String(!this.text.value.trim()));
    const typed = /^\/(\S*)$/.exec(this.text.value);
    const fitting = typed ? (this.#session?.commands ?? []).filter(({ name }) => String(name).startsWith(typed[1])).slice(0, 12) : [];
    this.commands.replaceChildren(...fitting.map((command) => this.#command(command)));
  }

  #command({ name, description, input }) {
    const take = () => {
      this.text.value = `/${name} `;
      this.text.focus();
      this.#changed();
    };
    return button([words(`/${name}`, { class: "name" }), words(input?.hint ? `${description ?? ""} (${input.hint})` : (description ?? ""), { class: "hint" })], take);
  }

  #settings({ modes, configOptions }) {
    const key = JSON.stringify([modes, configOptions]);
    if (this.settings.dataset.key === key) return;
    this.settings.dataset.key = key;
    const options = configOptions.map((option) => this.#option(option)).filter(Boolean);
    // Where the mode is one of the options too, the agent means the option.
    const mode = modes && !configOptions.some(({ category }) => category === "mode") ? [this.#mode(modes)] : [];
    this.settings.replaceChildren(...mode, ...options);
  }

  #mode({ current, available }) {
    const options = available.map(({ id, name }) => [id, name]);
    return this.#select("Mode", null, options, current, (value) => this.#calls.mode(value));
  }

  #option(option) {
    if (option.type === "boolean") {
      const box = h("input", { type: "checkbox", on: { change: () => this.#calls.option(option, box.checked) } });
      box.checked = option.currentValue === true;
      return h("label", { class: "setting" }, box, words(option.name));
    }
    if (option.type !== "select" || !Array.isArray(option.options)) return null;
    const flat = option.options.flatMap((each) => (Array.isArray(each?.options) ? each.options.map(({ value, name }) => [value, `${each.name}: ${name}`]) : [[each?.value, each?.name]]));
    return this.#select(option.name, option.description, flat, option.currentValue, (value) => this.#calls.option(option, value));
  }

  #select(name, description, options, current, change) {
    const select = h("select", { title: description ? visibleText(description) : false, on: { change: () => change(options[select.selectedIndex][0]) } });
    select.append(...options.map(([, label]) => h("option", {}, visibleText(label ?? ""))));
    select.selectedIndex = options.findIndex(([value]) => value === current);
    return h("label", { class: "setting" }, h("span", {}, words(name)), select);
  }

  #usage({ usage, turnUsage }) {
    const parts = [];
    const number = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
    if (usage && Number.isFinite(usage.used) && usage.size > 0) parts.push(`${number(usage.used)} of ${number(usage.size)} tokens`);
    else if (turnUsage && Number.isFinite(turnUsage.input)) parts.push(`${number(turnUsage.input)} in, ${number(turnUsage.output ?? 0)} out`);
    if (Number.isFinite(usage?.cost?.amount)) parts.push(`${usage.cost.amount.toFixed(2)} ${visibleText(usage.cost.currency ?? "").slice(0, 8)}`);
    this.usage.textContent = parts.join(" · ");
  }
}
