/**
 * The console: joins the link, the conversation and the elements. Read `link.js` for what survives a cut, `conversation.js` for what is
 * said over it, `transcript.js` for how it is shown.
 */

import { approve, propose, reject } from "./actions.js";
import { visibleText } from "./choice-list.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { base64url, button, h, icon, words } from "./dom.js";
import { Link } from "./link.js";
import { startScreen, tokenScreen } from "./screens.js";
import * as store from "./store.js";
import { messageText } from "./updates.js";
import "./choice-list.js";
import "./form.js";
import "./traffic.js";
import "./transcript.js";

const ENDINGS = {
  closed: "The agent has ended.",
  done: "The agent has ended.",
  agent_failed: "The agent failed.",
  shutdown: "The server is shutting down.",
  refused: "The server no longer has this conversation: it was restarted, or you were away for too long.",
  replaced: "This conversation was taken over by another window.",
  cut: "The connection was cut, and this server cannot resume it.",
  unreachable: "The server cannot be reached. Check that it runs and that you are on the right network.",
  handshake:
    `The server answers, but refuses the connection. If it is behind a proxy, start it with --allow-origin ${location.origin} ` +
    "and see that the proxy passes WebSocket upgrades on.",
  denied: "The server does not accept this page's address. It has to be allowed there (--allow-origin, --allow-host).",
};

class Console {
  #endpoint = new URL(document.querySelector("meta[name=acpremote-endpoint]").content, document.baseURI);
  #token = null;
  #metadata = {};
  #link = null;
  #conversation = null;
  #last = null; // the session shown when the link before this one ended
  #notice = null;
  #shown = null; // what the main part shows: "token", "start" or a session's id
  #storable = true;
  #held = null; // the link whose lock this page has

  constructor() {
    this.#build();
    this.#takeToken();
    addEventListener("hashchange", () => this.#takeToken() && this.#restart());
    addEventListener("pagehide", () => this.#store());
    setInterval(() => this.#state(), 1000);
    this.#start();
  }

  // ---- the page

  #build() {
    this.announcer = h("div", { class: "offscreen", role: "status", "aria-live": "polite" });
    this.agent = h("span", { class: "whose" });
    this.state = h("span", { class: "connection", role: "status" });
    this.menu = button(icon("menu"), () => this.#menu(), { class: "quiet", "aria-label": "Sessions", "aria-expanded": "false", "aria-controls": "sessions" });
    this.trafficButton = button([icon("traffic"), h("span", { class: "wide" }, "Traffic")], () => this.#traffic(), { class: "quiet", "aria-pressed": "false", "aria-label": "Traffic" });
    const brand = h("h1", { class: "brand" }, "acpremote");
    const top = h("header", { class: "top" }, this.menu, brand, this.agent, h("span", { class: "space" }), this.state, this.trafficButton);
    this.sessions = h("nav", { class: "sessions", id: "sessions", "aria-label": "Sessions", hidden: true });
    this.banner = h("section", { class: "banner", "aria-label": "Connection" });
    this.transcript = h("acp-transcript", { "aria-label": "Conversation" });
    this.screen = h("div", { class: "screen" });
    this.working = h("p", { class: "working" });
    this.main = h("main", { class: "scroll", tabindex: "0", "aria-label": "Conversation" }, this.screen, this.transcript, this.working);
    this.transcript.scrollIn(this.main);
    this.composer = new Composer({
      send: (text) => this.#prompt(text), stop: () => this.#conversation.cancel(),
      mode: (id) => this.#conversation.setMode(id), option: (option, value) => this.#conversation.setOption(option, value),
    });
    this.traffic = h("acp-traffic", { hidden: true, role: "complementary", "aria-label": "Traffic", on: { close: () => this.#traffic() } });
    const middle = h("div", { class: "middle" }, this.banner, this.main, this.composer.element);
    document.getElementById("stuck").remove();
    document.body.append(top, h("div", { class: "body" }, this.sessions, middle, this.traffic), this.announcer);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.sessions.hidden) this.#menu();
    });
  }

  #announce(text) {
    this.announcer.textContent = visibleText(text).slice(0, 600);
  }

  #menu() {
    this.sessions.hidden = !this.sessions.hidden;
    this.menu.setAttribute("aria-expanded", String(!this.sessions.hidden));
    if (this.sessions.hidden) this.menu.focus();
    else {
      this.#conversation?.list();
      this.#listSessions();
      this.sessions.querySelector("button")?.focus();
    }
  }

  #traffic() {
    this.traffic.hidden = !this.traffic.hidden;
    this.trafficButton.setAttribute("aria-pressed", String(!this.traffic.hidden));
    if (this.traffic.hidden) this.trafficButton.focus();
  }

  // ---- token and start

  /** Takes a token from the address's fragment, which is never sent to a server, and removes it from there. */
  #takeToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!given) return false;
    this.#token = given;
    store.token.save(null);
    history.replaceState(null, "", location.pathname + location.search);
    return true;
  }

  async #start() {
    this.#token ??= store.token.load();
    const snapshot = store.load();
    this.#held = snapshot?.link?.id ?? null;
    const mine = snapshot?.link && (await store.hold(snapshot.link.id));
    if (snapshot?.link && !mine) this.#notice = "The conversation of this tab is open in another one, so this is a new one.";
    if (!mine) store.forget();
    this.#join(mine ? snapshot : null);
    await this.#connect();
  }

  #join(snapshot) {
    const protocols = () => ["acp.v1", "acpremote.link.v1", ...(this.#token ? [`acp.bearer.${base64url(this.#token)}`] : [])];
    const url = new URL(`${this.#endpoint.pathname.replace(/\/$/, "")}/ws`, this.#endpoint);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const link = new Link({
      url, protocols, check: () => this.#check(), store: () => this.#store(),
      deliver: (frame) => {
        this.traffic.record("client", frame);
        conversation.receive(frame);
      },
    });
    const conversation = new Conversation((text) => {
      this.traffic.record("agent", text);
      return link.send(text);
    });
    this.#link = link;
    this.#conversation = conversation;
    if (snapshot) {
      link.restore(snapshot.link);
      conversation.restore(snapshot.conversation);
      this.#metadata = snapshot.metadata ?? {};
    }
    link.addEventListener("state", () => link === this.#link && this.#linkChanged());
    conversation.addEventListener("item", ({ detail }) => this.#itemChanged(detail));
    conversation.addEventListener("session", () => this.#sessionChanged());
    conversation.addEventListener("agent", () => this.#render());
    this.#shown = null;
    this.#render();
  }

  async #connect() {
    const answer = await this.#check();
    if (answer.kind === "token") this.#askToken(this.#token ? "The server did not accept this token." : null);
    else this.#link.connect();
  }

  /** Asks the server over plain HTTP whether it would let us in: a failed WebSocket handshake tells a page nothing. */
  async #check() {
    const headers = this.#token && /^[\x21-\x7e]+$/.test(this.#token) ? { Authorization: `Bearer ${this.#token}` } : {};
    let response;
    try {
      response = await fetch(this.#endpoint, { headers, cache: "no-store", redirect: "error", credentials: "omit" });
    } catch {
      return false;
    }
    if (response.status === 401) return { kind: "token" };
    if (response.status === 403 || response.status === 421) return { kind: "denied" };
    if (response.status === 404) return { kind: "failed", reason: "There is no agent at this address." };
    if (!response.ok) return false;
    this.#metadata = await response.json().catch(() => ({}));
    const { auth_required: required, authorized } = this.#metadata;
    return required && (!this.#token || authorized === false) ? { kind: "token" } : true;
  }

  #askToken(problem) {
    this.#shown = "token";
    const given = (token, keep) => {
      this.#token = token;
      store.token.save(keep ? token : null);
      this.#shown = null;
      if (this.#link.state === "ended") this.#restart();
      else this.#connect();
      this.#render();
    };
    this.#screen(tokenScreen(problem, given));
  }

  #restart() {
    const { session } = this.#conversation;
    if (session) this.#last = { sessionId: session.id, cwd: session.cwd, title: session.title };
    if (this.#link.state !== "ended") this.#link.end("another token");
    store.forget();
    this.#notice = null;
    this.#join(null);
    this.#connect();
  }

  // ---- link

  #store() {
    const link = this.#link?.snapshot();
    if (!link || this.#link.state === "ended") return;
    this.#storable = store.save((share) => ({ link, conversation: this.#conversation.snapshot(share), metadata: this.#metadata }));
  }

  #linkChanged() {
    const { state, ending } = this.#link;
    if (state === "open") {
      if (this.#link.id && this.#held !== this.#link.id) store.hold(this.#link.id);
      this.#held = this.#link.id;
      if (this.#conversation.state.phase === "new") this.#conversation.initialize(this.#metadata.package_version ?? "0");
    }
    if (state === "ended") {
      store.forget();
      this.#conversation.linkEnded(ending.reason || ENDINGS[ending.kind] || "The link ended.");
      if (ending.kind === "token") {
        store.token.save(null);
        this.#askToken("The server no longer accepts this token.");
      }
    }
    this.#render();
  }

  #state() {
    const { state, ending, retryAt } = this.#link ?? {};
    const wait = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    const [kind, told] = {
      idle: ["off", "Not connected"], connecting: ["wait", "Connecting…"], open: ["on", "Connected"],
      lost: ["wait", wait ? `Connection lost, next try in ${wait} s` : "Connection lost, trying…"], ended: ["off", "Ended"],
    }[state ?? "idle"];
    const text = this.#link?.leaving && state !== "ended" ? "Ending…" : told;
    if (this.state.dataset.text === text) return;
    this.state.dataset.text = text;
    this.state.dataset.kind = kind;
    // The seconds count down for the eye only.
    const spoken = state === "lost" ? "Connection lost, trying again" : text;
    this.state.replaceChildren(h("span", { class: "dot", "aria-hidden": "true" }), h("span", { "aria-hidden": "true" }, text), h("span", { class: "offscreen" }, spoken));
    this.#banner(state, ending);
  }

  #banner(state, ending) {
    const key = JSON.stringify([state, ending, this.#notice, this.#storable, this.#shown === "token"]);
    if (this.banner.dataset.key === key) return; // else its buttons would change under the finger
    this.banner.dataset.key = key;
    const shown = [];
    if (this.#notice) shown.push(h("p", {}, this.#notice));
    if (!this.#storable) shown.push(h("p", {}, "This browser keeps nothing over a reload here: leave the page open until the turn is done."));
    if (state === "lost") shown.push(h("p", {}, "The connection is lost. The agent goes on working; nothing is lost."), button("Try now", () => this.#link.retryNow()));
    if (state === "ended" && this.#shown !== "token") {
      const agent = ending.status ? ` Exit status ${ending.status}.` : "";
      shown.push(h("div", {}, h("p", {}, ENDINGS[ending.kind] ?? "The link ended.", agent), ending.reason ? words(ending.reason, { class: "hint" }, "p") : null));
      shown.push(button("Connect again", () => this.#restart(), { class: "primary" }));
    }
    this.banner.replaceChildren(...(shown.length ? [h("div", { class: "card", role: "alert" }, shown)] : []));
  }

  // ---- conversation

  #itemChanged({ session, item }) {
    if (session === this.#conversation.session && this.#shown === session.id) this.transcript.touch(item);
    if (item.kind === "ask" && item.state === "open") this.#announce(`${this.#conversation.agentName} asks: ${item.params.message ?? item.params.toolCall?.title ?? "permission"}`);
    if (item.state === "answered") this.#announce(item.summary);
    if (item.kind === "agent" && item.ended) this.#announce(messageText(item));
  }

  #sessionChanged() {
    const { session } = this.#conversation;
    this.composer.show(session, this.#link.state !== "ended" && this.#shown === session?.id);
    const asked = session?.items.some((item) => item.state === "open");
    const working = session && (session.running !== null || session.loading !== null) && !asked;
    const text = session?.loading !== null ? "Loading the session" : session?.cancelling ? "Stopping" : "Working";
    this.working.replaceChildren(...(working ? [h("span", { class: "pulse", "aria-hidden": "true" }), text] : []));
    document.title = `${asked ? "(?) " : ""}${visibleText(session?.title ?? "acpremote console")}`;
  }

  #prompt(text) {
    this.#conversation.prompt(text);
    this.transcript.toBottom();
  }

  /** A choice of a component that the agent wrote: put into words for the person to send, or proposed as an action. */
  #select(event, item, list) {
    const { session } = this.#conversation;
    if (Object.hasOwn(session.resolved, event.instanceId)) return;
    const choice = JSON.parse(item.frame).props.choices.find(({ id }) => id === event.choiceId);
    if (choice.action) {
      const proposal = propose(session, choice.action);
      if (typeof proposal === "string") {
        list.reset();
        this.#conversation.note({ kind: "error", text: proposal });
        return;
      }
      this.#conversation.note(proposal);
      this.transcript.toBottom();
    } else this.composer.offer(choice.label);
    session.resolved[event.instanceId] = event.choiceId;
    this.#store();
  }

  async #settle(item, approved) {
    if (approved) await approve(this.#conversation, item);
    else reject(this.#conversation, item);
    this.#conversation.touch(item);
    this.#store();
  }

  // ---- what is shown

  #render() {
    this.#state();
    this.#banner(this.#link.state, this.#link.ending);
    const { agent } = this.#conversation.state;
    this.agent.replaceChildren(...(agent ? [words(agent.title || agent.name, { class: "name" }), " ", words(agent.version ?? "", { class: "version" })] : []));
    this.menu.hidden = !this.#conversation.session;
    if (!this.sessions.hidden) this.#listSessions();
    const { session } = this.#conversation;
    if (this.#shown !== "token") {
      if (session) this.#showSession(session);
      else this.#showStart();
    }
    this.#sessionChanged();
  }

  #screen(...content) {
    this.screen.replaceChildren(...content);
    this.screen.hidden = !content.length;
    this.transcript.hidden = content.length > 0;
    if (content.length) this.screen.querySelector("input, button")?.focus();
  }

  #showSession(session) {
    if (this.#shown === session.id) return;
    this.#shown = session.id;
    this.#screen();
    this.transcript.show({
      conversation: this.#conversation, session,
      select: (event, item, list) => this.#select(event, item, list), settle: (item, approved) => this.#settle(item, approved),
    });
    this.composer.show(session, true);
    this.composer.focus();
  }

  #showStart() {
    const { phase, problem, listed, authMethods, authenticated, pending } = this.#conversation.state;
    const busy = Object.values(pending).some(({ method }) => ["session/new", "authenticate"].includes(method));
    const key = JSON.stringify([phase, problem, listed, authenticated, busy, this.#link.state, this.#metadata.remote_cwd]);
    if (this.#shown === "start" && this.startKey === key) return;
    this.#shown = "start";
    this.startKey = key;
    const cwd = this.screen.querySelector("input[name=cwd]")?.value ?? this.#link.welcome?.remote_cwd ?? this.#metadata.remote_cwd ?? "/";
    const ready = phase === "ready" && this.#link.state !== "ended";
    if (this.#link.state === "ended") {
      this.#screen(h("div")); // the banner says it all
      return;
    }
    this.#screen(startScreen({
      ready, busy, problem, cwd, authMethods, authenticated, last: this.#conversation.canLoad ? this.#last : null, agent: this.#conversation.agentName,
      listed: this.#conversation.canLoad ? listed : [], more: this.#conversation.state.cursor,
      create: (directory) => this.#conversation.create(directory), open: (info) => this.#conversation.open(info),
      authenticate: (id) => this.#conversation.authenticate(id), list: () => this.#conversation.list(true),
    }));
  }

  #listSessions() {
    const { state, session: current, canLoad } = this.#conversation;
    const here = Object.values(state.sessions);
    const others = canLoad ? state.listed.filter(({ sessionId }) => !this.#conversation.sessionOf(sessionId)) : [];
    const entry = (title, cwd, click, active) =>
      h("li", {}, button([words(title, { class: "title" }), words(cwd ?? "", { class: "hint" })], () => {
        this.#menu();
        click();
      }, { "aria-current": active ? "true" : false }));
    const open = here.map((session) => entry(session.title ?? "New session", session.cwd, () => this.#conversation.show(session.id), session === current));
    const kept = others.map((info) => entry(info.title ?? info.sessionId, info.cwd, () => this.#conversation.open(info), false));
    const fresh = button([icon("plus"), "New session"], () => {
      this.#menu();
      this.#conversation.show(null);
    }, { class: "new" });
    const end = button("End the agent", () => {
      this.#menu();
      this.#link.end("ended by the person at the console");
    }, { class: "quiet end" });
    const more = state.cursor && canLoad ? button("More…", () => this.#conversation.list(true), { class: "quiet" }) : null;
    const focused = this.sessions.contains(document.activeElement);
    this.sessions.replaceChildren(fresh, h("h2", {}, "Open"), h("ul", {}, open), ...(kept.length ? [h("h2", {}, "Earlier"), h("ul", {}, kept)] : []), ...(more ? [more] : []), end);
    if (focused) this.sessions.querySelector("button").focus();
  }
}

new Console();
