/**
 * A line diff: common head and tail first, then a longest common subsequence where the middle is small enough to compare
 * every pair; else the middle is shown as replaced. `oldText` null is a new file.
 */

import { h, icon, words } from "./dom.js";

const PAIRS = 1_000_000;
const CONTEXT = 3;
const SHOWN = 2000;

const linesOf = (text) => (text ? text.replace(/\n$/, "").split("\n") : []);

function middle(before, after) {
  if (before.length * after.length > PAIRS) {
    return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  }
  const width = after.length + 1;
  const longest = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const same = before[i] === after[j];
      longest[i * width + j] = same
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      out.push([" ", before[i]]);
      i++;
      j++;
    } else if (i < before.length && (j === after.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      out.push(["-", before[i++]]);
    } else out.push(["+", after[j++]]);
  }
  return out;
}

/** Rows `[mark, line, number]`: mark is " ", "-" or "+"; number counts in the side that the line belongs to. */
export function diffLines(oldText, newText) {
  const [before, after] = [linesOf(oldText), linesOf(newText)];
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const room = Math.min(before.length, after.length) - head;
  while (tail < room && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const rows = [
    ...before.slice(0, head).map((line) => [" ", line]),
    ...middle(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map((line) => [" ", line]),
  ];
  let [old, now] = [0, 0];
  return rows.map(([mark, line]) => {
    if (mark !== "+") old++;
    if (mark !== "-") now++;
    return [mark, line, mark === "-" ? old : now];
  });
}

function row([mark, line, number]) {
  const kind = { "+": "added", "-": "removed", " ": "same" }[mark];
  return h("span", { class: `line ${kind}` }, h("span", { class: "number", "aria-hidden": "true" }, String(number)),
    h("span", { class: "mark" }, mark), words(line, { dir: false }, "span"), "\n");
}

/** The diff of one file, with three lines around each change. */
export function diffView({ path, oldText, newText }) {
  const rows = diffLines(oldText, newText ?? "");
  const near = new Set();
  rows.forEach(([mark], index) => {
    if (mark !== " ") for (let i = index - CONTEXT; i <= index + CONTEXT; i++) near.add(i);
  });
  const count = (wanted) => rows.filter(([mark]) => mark === wanted).length;
  const body = h("pre", { class: "diff", tabindex: "0", dir: "ltr" });
  let skipped = false;
  let shown = 0;
  for (const [index, line] of rows.entries()) {
    if (!near.has(index) || shown >= SHOWN) {
      skipped = true;
      continue;
    }
    if (skipped) body.append(h("span", { class: "line gap" }, "⋯\n"));
    skipped = false;
    body.append(row(line));
    shown++;
  }
  if (shown >= SHOWN) body.append(h("span", { class: "line gap" }, `Only the first ${SHOWN} lines are shown.\n`));
  const sums = h("span", { class: "sums" }, h("span", { class: "added" }, `+${count("+")}`), " ", h("span", { class: "removed" }, `−${count("-")}`));
  const caption = h("figcaption", {}, icon("edit"), words(path, { class: "path" }), oldText === null || oldText === undefined ? h("span", { class: "tag" }, "new file") : null, sums);
  return h("figure", { class: "code file" }, caption, body);
}
