/**
 * Questions of ACP as choice lists. Only what fits whole is mapped (nothing is cut short); everything else is null and gets the
 * general form or plain buttons. Choice ids are always our own, `o1` and so on: an agent's values may be anything.
 */

import { PROTOCOL } from "./choice-list.js";

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value, most) => typeof value === "string" && value.length >= 1 && value.length <= most;

const token = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(36)).join("");

function frameOf(prefix, prompt, options) {
  const choices = options.map(({ label, description }, index) => ({ id: `o${index + 1}`, label, ...(description ? { description } : {}) }));
  const summary = `${prompt} ${choices.map(({ label }) => label).join(", ")}`.slice(0, 4096);
  return {
    protocol: PROTOCOL, version: 1, type: "render", componentKey: "choice-list", instanceId: `${prefix}-${token()}`,
    props: { prompt, choices }, fallback: { kind: "choice-list", summary },
  };
}

const usable = (options) =>
  options.length >= 1 && options.length <= 20 && options.every(({ label, description }) => isText(label, 256) && (!description || isText(description, 4096)));

// A format or bound that would refuse one of the listed values makes the list misleading.
function excludes({ pattern, format, minLength, maxLength }, values) {
  if (pattern || format) return true;
  const lengths = values.map((value) => [...value].length);
  return lengths.some((length) => length < (minLength ?? 0) || length > (maxLength ?? Infinity));
}

function optionsOf({ enum: plain, oneOf: titled }) {
  const has = (value) => value !== null && value !== undefined;
  if (has(plain) === has(titled)) return null;
  const options = has(plain) ? plain : titled;
  if (!Array.isArray(options)) return null;
  if (has(plain)) return options.map((value) => ({ value, label: value }));
  return options.every(isObject) ? options.map(({ const: value, title, description }) => ({ value, label: title ?? value, description })) : null;
}

/**
 * A single-choice form as `{frame, values, initial, property, optional}` (values by choice id), or null if it is none.
 */
export function choiceOfForm({ message, requestedSchema: schema }) {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (properties.length !== 1 || !isObject(properties[0][1])) return null;
  const [property, definition] = properties[0];
  const options = definition.type === "string" ? optionsOf(definition) : null;
  if (!options || !usable(options)) return null;
  const values = options.map(({ value }) => value);
  if (!values.every((value) => typeof value === "string") || new Set(values).size !== values.length) return null;
  const prompt = [message, definition.title, definition.description].filter((text, index, all) => text && all.indexOf(text) === index).join("\n");
  if (excludes(definition, values) || !isText(message, 4096) || !isText(prompt, 4096)) return null;
  const suggested = values.indexOf(definition.default);
  return {
    frame: frameOf("elicit", prompt, options),
    values: new Map(values.map((value, index) => [`o${index + 1}`, value])),
    initial: suggested < 0 ? null : `o${suggested + 1}`,
    property,
    optional: !(Array.isArray(schema.required) && schema.required.includes(property)),
  };
}

/** What each kind of permission means, in our words: the names are the agent's. */
export const KINDS = {
  allow_once: "Allows it this time.",
  allow_always: "Allows it now and from now on, without asking.",
  reject_once: "Does not allow it this time.",
  reject_always: "Does not allow it now or from now on.",
};

/** A permission's options as `{frame, values}` (option ids by choice id), or null if they do not fit. */
export function choiceOfPermission(prompt, options) {
  const listed = options.map(({ name, kind }) => ({ label: name, description: Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined }));
  if (!isText(prompt, 4096) || !usable(listed)) return null;
  return { frame: frameOf("permit", prompt, listed), values: new Map(options.map(({ optionId }, index) => [`o${index + 1}`, optionId])) };
}
