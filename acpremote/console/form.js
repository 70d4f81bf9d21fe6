/**
 * <acp-form>: a form for an elicitation's `requestedSchema`. It keeps to what the schema says: text, numbers, yes/no, one of, some of;
 * defaults are filled in, what is missing or out of bounds is said at its field, and nothing is sent before the person does.
 *
 * `show(schema, ...controls)` builds it, with further controls beside *Send*; event `acp-submit` has the content as its detail.
 * Optional fields that were left empty are left out.
 */

import { h, words } from "./dom.js";

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const INPUTS = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

/** `[{value, title, description}]` of a property or of an array's items; null where any value may be typed. */
function optionsOf(schema) {
  const titled = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(titled)) return titled.filter(isObject).map(({ const: value, title, description }) => ({ value, title: title ?? value, description }));
  if (Array.isArray(schema.enum)) return schema.enum.map((value, index) => ({ value, title: schema.enumNames?.[index] ?? value }));
  return null;
}

let serial = 0;

/** One property: its element, its value now, and what is wrong with it. */
class Field {
  constructor(name, schema, required) {
    Object.assign(this, { name, schema, required, id: `field-${++serial}` });
    this.error = h("p", { class: "field-error", id: `${this.id}-error` });
    this.control = this.make();
    const title = words(schema.title || name, { class: "field-title" });
    const mark = required ? null : h("span", { class: "optional" }, "optional");
    const hint = schema.description ? words(schema.description, { id: `${this.id}-hint`, class: "hint" }, "p") : null;
    const describedBy = [hint && `${this.id}-hint`, `${this.id}-error`].filter(Boolean).join(" ");
    if (this.grouped) {
      this.element = h("fieldset", { class: "field", "aria-describedby": describedBy }, h("legend", {}, title, mark), hint, this.control, this.error);
    } else {
      this.control.id = this.id;
      this.control.setAttribute("aria-describedby", describedBy);
      if (required && schema.type !== "boolean") this.control.setAttribute("aria-required", "true");
      const label = h("label", { for: this.id }, title, mark);
      const boxed = schema.type === "boolean" ? h("div", { class: "check" }, this.control, label) : [label, this.control];
      this.element = h("div", { class: "field" }, schema.type === "boolean" ? [boxed, hint] : [boxed[0], hint, boxed[1]], this.error);
    }
  }

  get problem() {
    return null;
  }

  /** Shows what is wrong, if anything, and says whether all is well. */
  check() {
    const problem = this.problem;
    this.error.textContent = problem ?? "";
    this.inputs.forEach((input) => input.setAttribute("aria-invalid", String(Boolean(problem))));
    return !problem;
  }

  get inputs() {
    return [this.control];
  }
}

class TextField extends Field {
  make() {
    const { format, maxLength } = this.schema;
    const long = !format && (maxLength ?? 0) > 200;
    const control = long ? h("textarea", { rows: "4" }) : h("input", { type: INPUTS[format] ?? "text", autocomplete: "off" });
    if (format === "date-time") control.step = "1";
    if (typeof this.schema.default === "string") control.value = format === "date-time" ? localTime(this.schema.default) : this.schema.default;
    return control;
  }

  get value() {
    const { value } = this.control;
    if (value === "") return this.required && this.schema.minLength === 0 ? "" : undefined;
    return this.schema.format === "date-time" ? new Date(value).toISOString() : value;
  }

  get problem() {
    const { minLength, maxLength, pattern, format } = this.schema;
    if (this.control.value === "") {
      if (this.control.validity.badInput) return "Enter a whole date.";
      return this.required && minLength !== 0 ? "Fill this in." : null;
    }
    if (!this.control.validity.valid) return { email: "Enter an e-mail address.", uri: "Enter a whole address, such as https://example.org." }[format] ?? "This is not valid.";
    // Lengths in JSON Schema count characters, not UTF-16 units.
    const length = [...this.control.value].length;
    if (Number.isInteger(minLength) && length < minLength) return `At least ${minLength} characters.`;
    if (Number.isInteger(maxLength) && length > maxLength) return `At most ${maxLength} characters; now ${length}.`;
    return typeof pattern === "string" && pattern && !fits(pattern, this.control.value) ? `This must match the pattern ${pattern}` : null;
  }
}

function localTime(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// A pattern from outside can take for ever on the right text: only a short text is tried, and the agent checks anyway.
function fits(pattern, text) {
  if (text.length > 200 || pattern.length > 200 || /[+*}]\)?[+*{]|\([^)]*[+*][^)]*\)[+*{]/.test(pattern)) return true;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}

class NumberField extends Field {
  make() {
    const whole = this.schema.type === "integer";
    const control = h("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off" });
    if (typeof this.schema.default === "number") control.value = String(this.schema.default);
    return control;
  }

  get value() {
    const text = this.control.value.trim();
    return text === "" ? undefined : Number(text);
  }

  get problem() {
    const { value, schema: { type, minimum, maximum } } = this;
    if (value === undefined) return this.required ? "Fill this in." : null;
    if (!Number.isFinite(value)) return "Enter a number.";
    if (type === "integer" && !Number.isSafeInteger(value)) return "Enter a whole number.";
    if (typeof minimum === "number" && value < minimum) return `At least ${minimum}.`;
    if (typeof maximum === "number" && value > maximum) return `At most ${maximum}.`;
    return null;
  }
}

class YesNoField extends Field {
  make() {
    const control = h("input", { type: "checkbox" });
    control.checked = this.schema.default === true;
    return control;
  }

  get value() {
    return this.control.checked;
  }
}

/** Radio buttons or checkboxes, or a list to pull down when there are many to choose one from. */
class ChoiceField extends Field {
  make() {
    const several = this.schema.type === "array";
    this.options = optionsOf(several ? (this.schema.items ?? {}) : this.schema);
    this.grouped = several || this.options.length <= 8;
    const defaults = several ? (Array.isArray(this.schema.default) ? this.schema.default : []) : [this.schema.default];
    return this.grouped ? this.group(several, defaults) : this.pulldown(defaults);
  }

  group(several, defaults) {
    this.boxes = this.options.map(({ value }) => {
      const box = h("input", { type: several ? "checkbox" : "radio", name: this.id, "aria-describedby": `${this.id}-error` });
      box.checked = defaults.includes(value);
      return box;
    });
    const rows = this.options.map(({ title, description }, index) => {
      const told = description ? words(description, { class: "hint" }) : null;
      return h("label", { class: "option" }, this.boxes[index], h("span", {}, words(title), told));
    });
    return h("div", { class: "options" }, rows);
  }

  pulldown(defaults) {
    const options = this.options.map(({ title }, index) => h("option", { value: String(index), dir: "auto" }, words(title).textContent));
    const control = h("select", {}, h("option", { value: "" }, this.required ? "Choose…" : "None"), options);
    const chosen = this.options.findIndex(({ value }) => defaults.includes(value));
    if (chosen >= 0) control.value = String(chosen);
    return control;
  }

  get value() {
    if (!this.grouped) return this.control.value === "" ? undefined : this.options[Number(this.control.value)].value;
    const chosen = this.options.filter((_, index) => this.boxes[index].checked).map(({ value }) => value);
    if (this.schema.type !== "array") return chosen[0];
    return chosen.length || this.required ? chosen : undefined;
  }

  get problem() {
    const { value } = this;
    if (this.schema.type !== "array") return value === undefined && this.required ? "Choose one." : null;
    const { minItems, maxItems } = this.schema;
    const count = value?.length ?? 0;
    if (Number.isInteger(minItems) && count < minItems && (count || this.required)) return `Choose at least ${minItems}.`;
    return Number.isInteger(maxItems) && count > maxItems ? `Choose at most ${maxItems}.` : null;
  }

  get inputs() {
    return this.boxes ?? [this.control];
  }
}

function fieldFor(name, schema, required) {
  if (optionsOf(schema) || (schema.type === "array" && optionsOf(schema.items ?? {}))) return new ChoiceField(name, schema, required);
  const kind = { string: TextField, number: NumberField, integer: NumberField, boolean: YesNoField }[schema.type];
  return kind ? new kind(name, schema, required) : null;
}

/** The names of required properties that this form has no field for: such a form can only be declined. */
export const unanswerable = (schema) =>
  (Array.isArray(schema.required) ? schema.required : []).filter((name) => {
    const property = Object.hasOwn(schema.properties ?? {}, name) ? schema.properties[name] : null;
    return !isObject(property) || !fieldFor(name, property, true);
  });

export class AcpForm extends HTMLElement {
  #fields = [];

  /** Builds the form; `controls` are further elements beside *Send*. */
  show(schema, ...controls) {
    const required = Array.isArray(schema.required) ? schema.required : [];
    const properties = Object.entries(isObject(schema.properties) ? schema.properties : {}).filter(([, property]) => isObject(property));
    this.#fields = properties.map(([name, property]) => fieldFor(name, property, required.includes(name))).filter(Boolean);
    const head = [schema.title && words(schema.title, { class: "form-title" }, "p"), schema.description && words(schema.description, { class: "hint" }, "p")];
    const send = h("button", { type: "submit", class: "primary" }, "Send");
    const form = h("form", { novalidate: true, on: { submit: (event) => this.#submit(event) } }, head, this.#fields.map(({ element }) => element));
    form.append(h("div", { class: "controls" }, send, controls));
    this.replaceChildren(form);
  }

  #submit(event) {
    event.preventDefault();
    const wrong = this.#fields.filter((field) => !field.check());
    if (wrong.length) {
      wrong[0].inputs[0]?.focus();
      return;
    }
    // fromEntries defines members, so that a property may have any name, `__proto__` too.
    const content = Object.fromEntries(this.#fields.map(({ name, value }) => [name, value]).filter(([, value]) => value !== undefined));
    this.dispatchEvent(new CustomEvent("acp-submit", { detail: content }));
  }
}

customElements.define("acp-form", AcpForm);
