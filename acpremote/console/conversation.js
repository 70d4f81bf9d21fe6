/**
 * The page's side of ACP: what was asked of the agent, what it asks of the person, and the sessions. All of its state is plain data
 * (no closures wait for an answer), so that it can be stored, and an answer that arrives after a reload finds its question.
 *
 * Events: `item` (detail: session, item), `session` (detail: session), `agent` (anything about the agent or the list of sessions).
 */

import { add, applyUpdate, condensed, endMessage, modesOf, newSession, optionsOf, recount } from "./updates.js";

const ROOM = 1_200_000; // characters of transcripts in session storage
const CANCELLED = { outcome: { outcome: "cancelled" } };

const fresh = () => ({
  phase: "new", nextId: 0, pending: {}, agent: null, capabilities: {}, authMethods: [], sessions: {}, current: null, listed: [], cursor: null,
});

// An agent's names never become member names as they are: `__proto__` and `constructor` would be found everywhere.
const keyOf = (id) => `session ${id}`;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

export class Conversation extends EventTarget {
  state = fresh();
  #send;

  /** `send(text)` gives one frame to the link and returns whether it took it. */
  constructor(send) {
    super();
    this.#send = (message) => send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  /** The session that is shown, or null. */
  get session() {
    return this.sessionOf(this.state.current);
  }

  sessionOf(id) {
    return this.state.sessions[keyOf(id)] ?? null;
  }

  get agentName() {
    return this.state.agent?.title || this.state.agent?.name || "The agent";
  }

  snapshot(share) {
    const sessions = Object.values(this.state.sessions);
    const room = (session) => (session.id === this.state.current ? ROOM * 0.7 : (ROOM * 0.3) / Math.max(1, sessions.length - 1));
    const kept = sessions.map((session) => [keyOf(session.id), condensed(session, room(session) * share)]);
    return { ...this.state, sessions: Object.fromEntries(kept) };
  }

  restore(state) {
    this.state = { ...fresh(), ...state };
    Object.values(this.state.sessions).forEach(recount);
  }

  // ---- what the person wants

  initialize(version) {
    const clientCapabilities = {
      fs: { readTextFile: false, writeTextFile: false },
      terminal: false,
      elicitation: { form: {}, url: {} },
      session: { configOptions: { boolean: {} }, notices: {} },
      plan: {},
    };
    this.state.phase = "initializing";
    this.#request("initialize", { protocolVersion: 1, clientCapabilities, clientInfo: { name: "acpremote-console", title: "acpremote console", version } });
  }

  authenticate(methodId) {
    this.#request("authenticate", { methodId });
  }

  create(cwd) {
    this.#request("session/new", { cwd, mcpServers: [] }, { cwd });
  }

  list(more = false) {
    if (this.state.capabilities.sessionCapabilities?.list) this.#request("session/list", more ? { cursor: this.state.cursor } : {}, { more });
  }

  get canLoad() {
    return Boolean(this.state.capabilities.loadSession || this.state.capabilities.sessionCapabilities?.resume);
  }

  /** Opens a session that the agent has kept, with its history where the agent can replay it. */
  open({ sessionId, cwd, title = null }) {
    if (this.sessionOf(sessionId)) return this.show(sessionId);
    const method = this.state.capabilities.loadSession ? "session/load" : "session/resume";
    const session = this.#adopt(sessionId, cwd);
    session.title = title;
    session.loading = this.#request(method, { sessionId, cwd, mcpServers: [] }, { sessionId });
    return this.show(sessionId);
  }

  show(sessionId) {
    this.state.current = sessionId;
    this.#changed("agent");
  }

  prompt(text) {
    const { session } = this;
    if (!session || session.running !== null) return;
    session.title ??= text.trim().split("\n")[0].slice(0, 80);
    this.#add(session, { kind: "user", parts: [{ type: "text", text }], ended: true, own: true });
    session.cancelling = false;
    session.running = this.state.nextId;
    this.#request("session/prompt", { sessionId: session.id, prompt: [{ type: "text", text }] }, { sessionId: session.id });
    this.#changed("session", { session });
  }

  cancel() {
    const { session } = this;
    if (!session || session.running === null) return;
    session.cancelling = true;
    for (const item of session.items) if (item.kind === "ask") this.withdraw(item, "Stopped before it was answered");
    this.#send({ method: "session/cancel", params: { sessionId: session.id } });
    this.#changed("session", { session });
  }

  setMode(modeId) {
    this.#request("session/set_mode", { sessionId: this.session.id, modeId }, { sessionId: this.session.id, modeId });
  }

  setOption(option, value) {
    const typed = typeof value === "boolean" ? { type: "boolean", value } : { value };
    this.#request("session/set_config_option", { sessionId: this.session.id, configId: option.id, ...typed }, { sessionId: this.session.id });
  }

  /** Answers a question once; whatever comes later is ignored. `summary` is what the transcript keeps. */
  answer(item, result, summary) {
    if (item.state !== "open") return false;
    item.state = "answered";
    item.summary = summary;
    this.#send({ id: item.requestId, result });
    this.#touchAsk(item);
    return true;
  }

  /** The question is over without the person's answer. */
  withdraw(item, summary) {
    return this.answer(item, item.ask === "permission" ? CANCELLED : { action: "cancel" }, summary);
  }

  /** Adds an item of the page's own (an action to confirm, a notice). */
  note(item) {
    return this.#add(this.session, item);
  }

  touch(item) {
    this.#touchAsk(item);
  }

  /** The link is gone for good: nothing that is open can be answered any more. */
  linkEnded(reason) {
    this.state.pending = {};
    for (const session of Object.values(this.state.sessions)) {
      for (const item of session.items) {
        if (item.state !== "open") continue;
        item.state = "lost";
        item.summary = "The link ended before this was answered";
      }
      endMessage(session, () => {});
      if (session.running !== null) {
        this.#add(session, { kind: "error", text: "It is not known how this turn ended.", hint: reason });
      }
      session.running = session.loading = null;
      this.#changed("session", { session });
    }
    this.#changed("agent");
  }

  // ---- what the agent says

  /** Takes one frame. */
  receive(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (!isObject(message)) return;
    const params = isObject(message.params) ? message.params : {};
    if (typeof message.method !== "string") this.#response(message);
    else if (message.id === undefined) this.#notification(message.method, params);
    else this.#asked(message.method, message.id, params);
  }

  #notification(method, params) {
    if (method === "session/update" && isObject(params.update)) {
      const session = this.#adopt(params.sessionId);
      applyUpdate(session, params.update, (item) => this.#changed("item", { session, item }));
      this.#changed("session", { session });
    } else if (method === "$/cancel_request") {
      this.#everyAsk((item) => item.requestId === params.requestId && this.withdraw(item, "The agent took the question back"));
    } else if (method === "elicitation/complete") {
      this.#everyAsk((item) => {
        if (item.params.elicitationId !== params.elicitationId || item.ask !== "url") return;
        item.completed = true;
        this.#touchAsk(item);
      });
    }
  }

  #asked(method, requestId, params) {
    const ask = { "session/request_permission": "permission", "elicitation/create": params.mode }[method];
    const fault = ask === undefined && method !== "elicitation/create" ? [-32601, `The console does not offer ${method}.`] : faultOf(ask, params);
    if (fault) {
      this.#send({ id: requestId, error: { code: fault[0], message: fault[1] } });
      return;
    }
    const session = this.#adopt(params.sessionId ?? this.state.current ?? "");
    endMessage(session, (item) => this.#changed("item", { session, item }));
    if (ask === "permission") this.#mergePermission(session, params.toolCall);
    this.#add(session, { kind: "ask", ask, requestId, params, state: "open" });
    this.#changed("session", { session });
  }

  // A permission's tool call is an update of the call: what is asked about stands complete above the question.
  #mergePermission(session, toolCall) {
    applyUpdate(session, { ...toolCall, sessionUpdate: "tool_call_update" }, (item) => this.#changed("item", { session, item }));
  }

  #response({ id, result, error }) {
    if (!Object.hasOwn(this.state.pending, id)) return;
    const request = this.state.pending[id];
    delete this.state.pending[id];
    const session = this.sessionOf(request.sessionId);
    if (isObject(error)) this.#failed(request, session, error);
    else this.#succeeded(request, session, isObject(result) ? result : {});
    if (session) this.#changed("session", { session });
    this.#changed("agent");
  }

  #succeeded(request, session, result) {
    switch (request.method) {
      case "initialize": return this.#initialized(result);
      case "authenticate":
        this.state.problem = null;
        this.state.authenticated = true;
        return this.list();
      case "session/new": return this.#created(request, result);
      case "session/load":
      case "session/resume":
        endMessage(session, (item) => this.#changed("item", { session, item }));
        session.loading = null;
        return this.#configure(session, result);
      case "session/list":
        this.state.listed = [...(request.more ? this.state.listed : []), ...(Array.isArray(result.sessions) ? result.sessions.filter(isObject) : [])].slice(0, 500);
        this.state.cursor = result.nextCursor ?? null;
        return undefined;
      case "session/prompt": return this.#turnEnded(session, result);
      case "session/set_mode": session.modes.current = request.modeId; return undefined;
      case "session/set_config_option": session.configOptions = optionsOf(result.configOptions); return undefined;
      default: return undefined;
    }
  }

  #initialized(result) {
    this.state.agent = isObject(result.agentInfo) ? result.agentInfo : { name: "Agent" };
    this.state.capabilities = isObject(result.agentCapabilities) ? result.agentCapabilities : {};
    this.state.authMethods = Array.isArray(result.authMethods) ? result.authMethods.filter(isObject) : [];
    this.state.phase = "ready";
    if (result.protocolVersion !== 1) this.state.problem = { text: `The agent speaks version ${result.protocolVersion} of ACP; the console speaks version 1.` };
    this.list();
  }

  #created({ cwd }, result) {
    const session = this.#adopt(result.sessionId, cwd);
    session.cwd = cwd;
    this.state.problem = null;
    this.#configure(session, result);
    this.show(session.id);
  }

  #configure(session, { modes, configOptions }) {
    if (modes) session.modes = modesOf(modes);
    if (configOptions) session.configOptions = optionsOf(configOptions);
  }

  #turnEnded(session, { stopReason, usage }) {
    endMessage(session, (item) => this.#changed("item", { session, item }));
    session.running = null;
    session.cancelling = false;
    session.updatedAt = new Date().toISOString();
    if (isObject(usage)) session.turnUsage = { input: usage.inputTokens, output: usage.outputTokens };
    for (const item of session.items) {
      if (item.kind === "tool" && ["pending", "in_progress"].includes(item.status)) {
        item.status = "stopped";
        this.#changed("item", { session, item });
      }
    }
    const text = STOPS[stopReason];
    if (text) this.#add(session, { kind: "notice", text });
  }

  #failed(request, session, error) {
    const text = typeof error.message === "string" && error.message ? error.message : "The agent gave an error without a message.";
    const detail = detailOf(error.data);
    const problem = { text, detail, hint: hintFor(request.method, error.code), code: error.code };
    if (request.method === "session/prompt") {
      endMessage(session, (item) => this.#changed("item", { session, item }));
      session.running = null;
      session.cancelling = false;
    }
    if (request.method === "session/list") return;
    if (request.method === "initialize") this.state.phase = "failed";
    if (session) {
      session.loading = null;
      this.#add(session, { kind: "error", foreign: true, ...problem });
    } else this.state.problem = problem;
  }

  // ---- plumbing

  #request(method, params, context = {}) {
    const id = this.state.nextId++;
    this.state.pending[id] = { method, ...context };
    this.#send({ id, method, params });
    this.#changed("agent");
    return id;
  }

  #adopt(id, cwd = "") {
    const key = keyOf(id);
    this.state.sessions[key] ??= newSession(String(id), cwd);
    return this.state.sessions[key];
  }

  #add(session, item) {
    const added = add(session, item);
    this.#changed("item", { session, item: added });
    return added;
  }

  #everyAsk(visit) {
    for (const session of Object.values(this.state.sessions)) session.items.filter((item) => item.kind === "ask").forEach(visit);
  }

  #touchAsk(item) {
    const session = Object.values(this.state.sessions).find((candidate) => candidate.items.includes(item));
    if (session) this.#changed("item", { session, item });
  }

  #changed(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

const STOPS = {
  cancelled: "Stopped.",
  max_tokens: "The answer was cut short: the model reached its limit of tokens. Ask it to go on.",
  max_turn_requests: "The agent stopped: it reached its limit of requests in one turn. Ask it to go on.",
  refusal: "The agent declined to go on. What you asked last is not part of its memory of this session.",
};

/** What is wrong with a question, as an error's code and message; null if it can be asked. */
function faultOf(ask, params) {
  const invalid = (text) => [-32602, text];
  if (ask === "permission") {
    const usable = isObject(params.toolCall) && Array.isArray(params.options) && params.options.every((option) => isObject(option) && typeof option.optionId === "string");
    return usable ? null : invalid("A permission request needs a toolCall and options.");
  }
  if (ask === "form") return isObject(params.requestedSchema) ? null : invalid("A form needs a requestedSchema.");
  if (ask === "url") return typeof params.url === "string" ? null : invalid("A URL elicitation needs a url.");
  return invalid("The console knows the elicitation modes form and url.");
}

function detailOf(data) {
  if (typeof data === "string") return data.slice(0, 2000);
  if (!isObject(data) || typeof data.ending === "string") return null; // the relay's own words are in the message
  const told = data.details ?? data.message ?? data.error;
  return (typeof told === "string" ? told : JSON.stringify(data)).slice(0, 2000);
}

const LOST_REQUEST = -32050; // the relay's: no answer will come

function hintFor(method, code) {
  if (code === LOST_REQUEST) return "The agent is gone. Connect again to start it anew.";
  if (code === -32000) return "The agent wants you to sign in first.";
  if (method === "session/new") return "Check that the directory exists on the agent's machine.";
  if (method === "session/load" || method === "session/resume") return "The agent no longer has this session. Start a new one.";
  if (method === "initialize") return "The agent did not start as it should. Its own log on the server says more.";
  if (method === "session/prompt") return "Nothing is lost: you can send your message again.";
  return null;
}
