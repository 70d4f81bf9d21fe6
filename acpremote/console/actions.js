/**
 * The two things that a choice written by a model may propose here, and their confirmation. Choosing never executes: it makes
 * a proposal that names the action and a snapshot of its input, and the person approves or rejects that, once, in time.
 *
 * A proposal is an item of the transcript: `{action, input, session, call, token, expiresAt, status, outcome}`. Status goes from
 * pending to approved, rejected or expired and never changes again; outcome says what came of it: executed, failed, not run.
 */

import { copyText } from "./dom.js";

const LIFETIME = 300_000;

const random = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

const onlyText = (input, name, most) => {
  const names = Object.keys(input);
  return names.length === 1 && names[0] === name && typeof input[name] === "string" && input[name].length <= most;
};

const ACTIONS = Object.assign(Object.create(null), {
  "copy-text": {
    title: "Copy this text to the clipboard?",
    approve: "Copy",
    accepts: (input) => onlyText(input, "text", 16_384),
    show: ({ text }) => text,
    run: ({ text }) => copyText(text),
  },
  "set-mode": {
    title: "Switch the session's mode?",
    approve: "Switch",
    accepts: (input, session) => onlyText(input, "modeId", 128) && Boolean(session.modes?.available.some(({ id }) => id === input.modeId)),
    show: ({ modeId }, session) => session.modes.available.find(({ id }) => id === modeId)?.name ?? modeId,
    run: ({ modeId }, conversation) => {
      conversation.setMode(modeId);
      return true;
    },
  },
});

export const actionOf = (name) => ACTIONS[name];

/** Proposes a choice's action. Returns the transcript's item, or a sentence that says why it is refused. */
export function propose(session, { name, input }) {
  const action = ACTIONS[name];
  if (!action) return `This choice asks for the action “${name}”, which the console does not have. Nothing was done.`;
  if (!action.accepts(input, session)) return `This choice asks for the action “${name}” with input that does not fit it. Nothing was done.`;
  const snapshot = JSON.parse(JSON.stringify(input));
  return {
    kind: "action", action: name, input: snapshot, shown: action.show(snapshot, session), session: session.id,
    call: `app-${random()}`, token: `confirm-${random()}`, expiresAt: Date.now() + LIFETIME, status: "pending", outcome: "not run",
  };
}

/** The proposal's status now: one that nobody answered in time is expired, for every reader. */
export function statusOf(item) {
  if (item.status === "pending" && Date.now() >= item.expiresAt) item.status = "expired";
  return item.status;
}

/** Approves and runs a proposal of the session that is shown; does nothing if it was settled before. */
export async function approve(conversation, item) {
  if (item.session !== conversation.session?.id || statusOf(item) !== "pending") return;
  item.status = "approved";
  const done = await ACTIONS[item.action].run(item.input, conversation);
  item.outcome = done ? "executed" : "failed";
}

export function reject(conversation, item) {
  if (item.session === conversation.session?.id && statusOf(item) === "pending") item.status = "rejected";
}
