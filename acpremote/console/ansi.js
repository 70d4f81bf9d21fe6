/**
 * What a program wrote to a terminal, as text: colours and weight are kept, a carriage return overwrites its line, and every
 * other control sequence is dropped. Nothing here moves a cursor, sets a title or makes a link.
 */

import { h, words } from "./dom.js";

// CSI, OSC and other string sequences (closed or cut off), two-character escapes.
// eslint-disable-next-line no-control-regex
const SEQUENCE = /\u001b\[([0-9;:]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]|\u001b/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function restyle(style, parameters) {
  const next = { ...style };
  const codes = parameters.split(/[;:]/).map(Number);
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index];
    if (code === 0) Object.assign(next, { colour: null, bold: false, dim: false });
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 22) Object.assign(next, { bold: false, dim: false });
    else if (code >= 30 && code <= 37) next.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) next.colour = COLOURS[code - 90];
    else if (code === 39) next.colour = null;
    else if (code === 38 || code === 48) index += codes[index + 1] === 5 ? 2 : 4;
  }
  return next;
}

const classesOf = ({ colour, bold, dim }) =>
  [colour && `ansi-${colour}`, bold && "ansi-bold", dim && "ansi-dim"].filter(Boolean).join(" ");

function overwrite(line) {
  const ended = line.replace(/\r+$/, "");
  return ended.slice(ended.lastIndexOf("\r") + 1);
}

/** A `pre` with the terminal's text. */
export function terminal(text) {
  const output = h("pre", { class: "terminal", tabindex: "0", dir: "ltr" });
  let style = { colour: null, bold: false, dim: false };
  let from = 0;
  const overwritten = text.split("\n").map(overwrite).join("\n");
  const put = (piece) => {
    if (piece) output.append(words(piece, { dir: false, class: classesOf(style) || false }, "span"));
  };
  for (const match of overwritten.matchAll(SEQUENCE)) {
    put(overwritten.slice(from, match.index));
    if (match[2] === "m") style = restyle(style, match[1] || "0");
    from = match.index + match[0].length;
  }
  put(overwritten.slice(from));
  return output;
}
