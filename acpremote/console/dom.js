/**
 * Building the page from elements and text nodes. There is no way here to turn text into markup, a link or a script; what
 * an agent wrote goes through `words`, which also shows characters that could reorder or hide text.
 */

import { visibleNodes, visibleText } from "./choice-list.js";

export { visibleText };

/** An element. Attributes that are false, null or undefined are left out; `on` holds listeners by event name. */
export function h(tag, { on = {}, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  for (const [type, listener] of Object.entries(on)) element.addEventListener(type, listener);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Foreign text in an element that isolates its direction from what stands around it. */
export const words = (text, attributes = {}, tag = "bdi") => h(tag, { dir: "auto", ...attributes }, visibleNodes(text ?? ""));

export const button = (label, click, attributes = {}) =>
  h("button", { type: "button", on: { click }, ...attributes }, label);

const SVG = "http://www.w3.org/2000/svg";

const PATHS = {
  read: "M3 3.5h4.2L8 4.3l.8-.8H13v9H8.8l-.8.8-.8-.8H3zM8 4.3v9",
  edit: "M3 13l.6-2.8 7.3-7.3 2.2 2.2-7.3 7.3zM9.6 4.2l2.2 2.2",
  delete: "M3 4.5h10M6.2 4.5V3h3.6v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5",
  move: "M2.5 8h11M10 4.5L13.5 8 10 11.5",
  search: "M7 11.5a4.5 4.5 0 1 1 0-9 4.5 4.5 0 0 1 0 9zM10.3 10.3l3.2 3.2",
  execute: "M3 4.5L6.5 8 3 11.5M8 12h5",
  think: "M8 2.5a4 4 0 0 0-2.3 7.3v1.7h4.6V9.8A4 4 0 0 0 8 2.5zM6.3 13.5h3.4",
  fetch: "M8 13.5a5.5 5.5 0 1 1 0-11 5.5 5.5 0 0 1 0 11zM2.5 8h11M8 2.5c-3.2 3-3.2 8 0 11 3.2-3 3.2-8 0-11z",
  switch_mode: "M3 5.5h10M10.5 3L13 5.5 10.5 8M13 10.5H3M5.5 8L3 10.5 5.5 13",
  other: "M8 3v10M3 8h10",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  traffic: "M5 13V3M2.5 5.5L5 3l2.5 2.5M11 3v10M8.5 10.5L11 13l2.5-2.5",
  send: "M8 13V3M3.5 7.5L8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  plus: "M8 3v10M3 8h10",
  question: "M8 13.5a5.5 5.5 0 1 1 0-11 5.5 5.5 0 0 1 0 11zM6.4 6.6c.1-2 3.3-1.9 3.3.1 0 1.2-1.7 1.2-1.7 2.5M8 11v.2",
  warning: "M8 2.8l5.8 10.4H2.2zM8 6.5v3.2M8 11.4v.2",
};

/** A decorative line drawing; its meaning must also stand in text. */
export function icon(name) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] ?? PATHS.other);
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of [["viewBox", "0 0 16 16"], ["class", "icon"], ["aria-hidden", "true"]]) svg.setAttribute(key, value);
  svg.append(path);
  return svg;
}

/** Puts text on the clipboard, also where the page is no secure context. Returns whether it worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1000 ** 2) return `${(count / 1000).toFixed(1)} kB`;
  return `${(count / 1000 ** 2).toFixed(1)} MB`;
}

/** A base64 string of UTF-8 text, in the alphabet that URLs and subprotocol names allow, without padding. */
export function base64url(text) {
  const binary = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
