/**
 * One session as plain data, and what each `session/update` does to it. No elements, no sockets: what is here can be stored as JSON and
 * shown again after a reload.
 *
 * A session's `items` are: user, agent, thought (text in `parts`), tool, plan, ask, action, component, notice, error. An agent's message
 * that may be a component frame is held back until it is whole, as `components/messages.py` does for the chat: change both.
 */

import { PROTOCOL } from "./choice-list.js";

const HELD = 256 * 1024; // characters of a message that may turn out to be a component frame
const PIECE = 256 * 1024; // a longer message goes on in a further item, so that each stays cheap to show
const ITEMS = 2000;
const CHARACTERS = 4_000_000;

let serial = Date.now();

export const newSession = (id, cwd) => ({
  id, cwd, title: null, updatedAt: new Date().toISOString(), items: [], modes: null, configOptions: [], commands: [], usage: null,
  running: null, loading: null, cancelling: false, resolved: {}, dropped: 0,
});

/** Appends an item; the oldest ones make room where the transcript is at its bound. */
export function add(session, item) {
  const added = { key: ++serial, ...item };
  session.items.push(added);
  while (session.items.length > 1 && (session.items.length > ITEMS || total(session) > CHARACTERS)) {
    forgetSize(session, session.items.shift());
    session.dropped++;
  }
  return added;
}

// The transcript's length is kept beside it (not in it: it would be stored), as items only ever grow.
const totals = new WeakMap();
const total = (session) => totals.get(session) ?? 0;
export const grow = (session, item, by) => {
  totals.set(session, total(session) + by);
  item.size = (item.size ?? 0) + by;
};
const forgetSize = (session, item) => totals.set(session, total(session) - (item.size ?? 0));

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const arrayOf = (value) => (Array.isArray(value) ? value.filter(isObject) : []);
const textOf = (value) => (typeof value === "string" ? value : "");

/** The text of a message so far. */
export const messageText = (item) => item.parts.map((part) => (part.type === "text" ? part.text : "")).join("");

function isFrame(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) && value.protocol === PROTOCOL;
  } catch {
    return false;
  }
}

const mayBeFrame = (text) => text.length <= HELD && /^[ \t\r\n]*(\{[ \t\r\n]*("[^]*)?)?$/.test(text);

/** The message that is being written, if any, is complete: now it is known whether it is a component frame. */
export function endMessage(session, touch) {
  const item = session.items.findLast((candidate) => candidate.kind !== "notice");
  if (!item?.parts || item.ended) return;
  item.ended = true;
  if (item.held) {
    item.held = false;
    if (item.parts.length === 1 && isFrame(messageText(item))) {
      item.kind = "component";
      item.frame = messageText(item);
    }
  }
  touch(item);
}

function chunk(session, kind, { content, messageId = null }, touch) {
  if (!isObject(content)) return;
  const last = session.items.at(-1);
  const goesOn = last?.kind === kind && !last.ended && last.messageId === messageId;
  if (!goesOn || (last.size ?? 0) > PIECE) {
    endMessage(session, touch);
    add(session, { kind, messageId, parts: [], ended: false, held: kind === "agent" });
  }
  const item = session.items.at(-1);
  const part = item.parts.at(-1);
  if (content.type === "text") {
    const text = textOf(content.text);
    if (part?.type === "text") part.text += text;
    else item.parts.push({ type: "text", text });
    grow(session, item, text.length);
  } else {
    item.parts.push(content);
    grow(session, item, JSON.stringify(content).length);
  }
  if (item.held) item.held = item.parts.length === 1 && mayBeFrame(messageText(item));
  touch(item);
}

// Agents may repeat the prompt that they were just given; it stands in the transcript already.
function userChunk(session, update, touch) {
  if (session.running !== null && session.loading === null) return;
  chunk(session, "user", update, touch);
}

function tool(session, update, touch) {
  let item = session.items.findLast((candidate) => candidate.kind === "tool" && candidate.toolCallId === update.toolCallId);
  if (!item) {
    endMessage(session, touch);
    item = add(session, { kind: "tool", toolCallId: update.toolCallId, title: "", toolKind: "other", status: "pending", content: [], locations: [], output: {} });
  }
  mergeTool(session, item, update);
  touch(item);
}

/** Takes over what a tool call update (or a permission's tool call) says; what it leaves out stays. */
function mergeTool(session, item, update) {
  const before = item.size ?? 0;
  if (typeof update.title === "string") item.title = update.title;
  if (typeof update.kind === "string") item.toolKind = update.kind;
  if (typeof update.status === "string") item.status = update.status;
  if (Array.isArray(update.content)) item.content = arrayOf(update.content);
  if (Array.isArray(update.locations)) item.locations = arrayOf(update.locations);
  for (const name of ["rawInput", "rawOutput"]) if (update[name] !== undefined && update[name] !== null) item[name] = update[name];
  terminalMeta(item, update._meta);
  const { key, size, ...content } = item;
  grow(session, item, JSON.stringify(content).length - before);
}

// An extension in wide use: agents that run commands themselves tell what the terminal shows in `_meta`.
function terminalMeta(item, meta) {
  if (!isObject(meta)) return;
  const { terminal_output: output, terminal_exit: exit } = meta;
  if (isObject(output) && typeof output.data === "string") {
    const id = String(output.terminal_id);
    item.output[id] = ((item.output[id] ?? "") + output.data).slice(-PIECE);
  }
  if (isObject(exit)) item.exit = { code: exit.exit_code ?? null, signal: exit.signal ?? null };
}

function plan(session, entries, touch, planId = null) {
  const turn = session.items.findLastIndex((item) => item.kind === "user");
  const shown = session.items.findLast((item, index) => item.kind === "plan" && item.planId === planId && index > turn);
  if (!shown) endMessage(session, touch);
  const item = shown ?? add(session, { kind: "plan", planId, entries: [] });
  item.entries = arrayOf(entries).map(({ content, status, priority }) => ({ content: textOf(content), status, priority }));
  touch(item);
}

/** Session modes as they came, or null where there is nothing to choose. */
export const modesOf = (modes) =>
  isObject(modes) && arrayOf(modes.availableModes).length ? { current: modes.currentModeId, available: arrayOf(modes.availableModes) } : null;

export const optionsOf = (options) => arrayOf(options).filter(({ id, name }) => typeof id === "string" && typeof name === "string");

/** Applies one update. `touch(item)` is called for each item that changed. Unknown kinds change nothing. */
export function applyUpdate(session, update, touch) {
  // Any other update ends a message that was held back; one that is shown already may go on after it.
  if (update.sessionUpdate !== "agent_message_chunk" && session.items.at(-1)?.held) endMessage(session, touch);
  switch (update.sessionUpdate) {
    case "user_message_chunk": return userChunk(session, update, touch);
    case "agent_message_chunk": return chunk(session, "agent", update, touch);
    case "agent_thought_chunk": return chunk(session, "thought", update, touch);
    case "tool_call":
    case "tool_call_update": return tool(session, update, touch);
    case "plan": return plan(session, update.entries, touch);
    case "plan_update": return plan(session, update.plan?.entries, touch, update.plan?.planId ?? null);
    case "notice":
      add(session, { kind: "notice", severity: textOf(update.severity), text: textOf(update.title), detail: textOf(update.description), foreign: true });
      return touch(session.items.at(-1));
    case "available_commands_update": session.commands = arrayOf(update.availableCommands).slice(0, 200); return undefined;
    case "current_mode_update": if (session.modes) session.modes.current = update.currentModeId; return undefined;
    case "config_option_update": session.configOptions = optionsOf(update.configOptions); return undefined;
    case "session_info_update":
      if (typeof update.title === "string") session.title = update.title;
      return undefined;
    case "usage_update": session.usage = { used: update.used, size: update.size, cost: update.cost ?? null }; return undefined;
    default: return undefined;
  }
}

/** The newest items that fit into `room` characters, without pictures and other bulk. */
export function condensed(session, room) {
  const kept = [];
  let used = 0;
  for (const item of session.items.toReversed()) {
    const bulky = (part) => ["image", "audio", "resource"].includes(part.type) && JSON.stringify(part).length > 4000;
    const lean = item.parts?.some(bulky)
      ? { ...item, parts: item.parts.map((part) => (bulky(part) ? { type: "text", text: `\n(${part.type}: not kept over the reload)\n` } : part)) }
      : item;
    const length = JSON.stringify(lean).length;
    // A question that waits for an answer is kept whatever its size: after the reload it must still be there.
    if (used + length > room && lean.state !== "open") break;
    used += length;
    kept.unshift(lean);
  }
  return { ...session, items: kept, dropped: session.dropped + session.items.length - kept.length };
}

/** Counts again what a stored session holds. */
export function recount(session) {
  totals.set(session, session.items.reduce((sum, item) => sum + (item.size ?? 0), 0));
}
