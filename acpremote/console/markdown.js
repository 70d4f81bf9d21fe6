/**
 * The part of Markdown that agents write, as elements: headings, lists, quotes, rules, tables, fenced code, emphasis and
 * inline code. Links and images stay the text they are, so that an address is always read before it is used; raw HTML is
 * text. Text is rendered block by block and a block that has not changed keeps its elements, so that a long
 * streamed answer costs no more than its last paragraph.
 */

import { button, copyText, h, words } from "./dom.js";

const FENCE = /^ {0,12}(`{3,}|~{3,})[^`]*$/;
const HEADING = /^(#{1,6}) (.{1,500})$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?\S?)\*\*|(?<![\p{L}\p{N}*])\*(?=[^\s*])([^*]*[^\s*])\*(?![\p{L}\p{N}])|(?<![\p{L}\p{N}_])_(?=[^\s_])([^_]*[^\s_])_(?![\p{L}\p{N}_])|~~(?=\S)(.+?)~~/su;

// Nested deeper than this, quotes and lists are shown as the text they are; a longer block has no inline marks.
const DEPTH = 8;
const INLINE_LIMIT = 8000;

/** Cuts text into blocks: fenced code with its fences, a heading, or lines up to a blank one or to where a list begins. */
export function blocksOf(text) {
  const blocks = [];
  let block = [];
  let fence = null;
  const flush = () => {
    if (block.length) blocks.push(block.join("\n"));
    block = [];
  };
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (fence) {
      block.push(line);
      if (mark && line.trim() === mark && mark[0] === fence[0] && mark.length >= fence.length) {
        fence = null;
        flush();
      }
    } else if (mark) {
      flush();
      fence = mark;
      block.push(line);
    } else if (line.trim() === "") flush();
    else if (HEADING.test(line)) {
      flush();
      blocks.push(line);
    } else {
      if (ITEM.test(line) && block.length && !ITEM.test(block[0])) flush();
      block.push(line);
    }
  }
  flush();
  return blocks;
}

/** Renders `text` into `container`, keeping the elements of unchanged blocks. */
export function renderMarkdown(container, text, depth = 0) {
  const blocks = blocksOf(text);
  while (container.children.length > blocks.length) container.lastElementChild.remove();
  blocks.forEach((source, index) => {
    const there = container.children[index];
    if (there?.source === source) return;
    const element = renderBlock(source, depth);
    element.source = source;
    if (there) there.replaceWith(element);
    else container.append(element);
  });
}

function renderBlock(source, depth) {
  const lines = source.split("\n");
  if (FENCE.test(lines[0])) return code(lines);
  const heading = HEADING.exec(source);
  if (heading) return inline(heading[2].trim().replace(/ #+$/, ""), h("p", { class: `heading level-${heading[1].length}`, dir: "auto" }));
  if (/^ {0,3}([-*_])( *\1){2,} *$/.test(source)) return h("hr");
  if (depth < DEPTH && lines.every((line) => line.startsWith(">"))) {
    const quote = h("blockquote");
    renderMarkdown(quote, lines.map((line) => line.replace(/^> ?/, "")).join("\n"), depth + 1);
    return quote;
  }
  if (lines.length > 1 && lines[1].length < 500 && /^[\s|:-]*-[\s|:-]*$/.test(lines[1]) && lines[0].includes("|")) return table(lines);
  if (depth < DEPTH && ITEM.test(lines[0])) return list(lines, depth);
  return inline(source, h("p", { dir: "auto" }));
}

function code(lines) {
  const language = lines[0].trim().replace(/^[`~]+/, "").trim();
  const closed = lines.length > 1 && FENCE.test(lines.at(-1));
  const margin = new RegExp(`^ {0,${lines[0].search(/\S/)}}`);
  const text = lines.slice(1, closed ? -1 : undefined).map((line) => line.replace(margin, "")).join("\n");
  const copy = button("Copy", async () => {
    copy.textContent = (await copyText(text)) ? "Copied" : "Select the text to copy it";
  }, { class: "copy quiet" });
  const head = h("figcaption", {}, words(language.slice(0, 40) || "text"), copy);
  // Scrollable, so it can take the focus and be scrolled by keyboard.
  return h("figure", { class: "code" }, head, h("pre", { tabindex: "0", dir: "ltr" }, words(text, { dir: false }, "code")));
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const indent = first[1].length;
  const items = [];
  for (const line of lines) {
    const mark = ITEM.exec(line);
    if (mark && mark[1].length <= indent) items.push([line.slice(mark[0].length)]);
    else items.at(-1).push(line);
  }
  const ordered = /\d/.test(first[2]);
  const element = h(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : {});
  for (const [head, ...rest] of items) {
    const item = inline(head.replace(/^\[( |x|X)\] /, (_, mark) => (mark === " " ? "☐ " : "☑ ")), h("li", { dir: "auto" }));
    const margin = Math.min(...rest.map((line) => line.search(/\S|$/)));
    if (rest.length) renderMarkdown(item.appendChild(h("div")), rest.map((line) => line.slice(margin)).join("\n"), depth + 1);
    element.append(item);
  }
  return element;
}

function table([head, , ...rows]) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, tag) => h("tr", {}, cells(line).map((cell) => inline(cell, h(tag, { dir: "auto" }))));
  const body = rows.map((line) => row(line, "td"));
  return h("div", { class: "table", tabindex: "0" }, h("table", {}, h("thead", {}, row(head, "th")), h("tbody", {}, body)));
}

const TAGS = [[2, "code"], [3, "strong"], [4, "em"], [5, "em"], [6, "s"]];

function inline(text, element) {
  let rest = text;
  // Bounded, so that text made of marks alone cannot hold up the page.
  for (let marks = 0; marks < 500 && text.length < INLINE_LIMIT; marks++) {
    const match = INLINE.exec(rest);
    if (!match) break;
    if (match.index) element.append(words(rest.slice(0, match.index), { dir: false }, "span"));
    const [group, tag] = TAGS.find(([index]) => match[index] !== undefined);
    const nested = tag === "code" ? words(match[group], {}, tag) : inline(match[group], h(tag));
    element.append(nested);
    rest = rest.slice(match.index + match[0].length);
  }
  if (rest) element.append(words(rest, { dir: false }, "span"));
  return element;
}
