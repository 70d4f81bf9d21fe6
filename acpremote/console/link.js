/**
 * The page's end of the link: frames in, frames out, over sockets that come and go.
 *
 * Where the server offers `acpremote.link.v1` (it does unless resume is off), a cut connection, a reload or a closed lid loses
 * nothing: what was sent is kept until the other end has acknowledged it, what was received is acknowledged only after the
 * page has stored it, and the next socket goes on where the last one stopped. Against a plain endpoint a cut is the end.
 *
 *     idle -> connecting -> open <-> lost -> ended          (plain: idle -> connecting -> open -> ended)
 *
 * Browsers do not show a handshake's headers, so the subprotocol that was echoed, and the `welcome` that must follow, decide
 * which kind of link it is. This is why the page has a client of its own instead of sharing the Python one.
 */

const WINDOW = 16 * 1024 * 1024;
const MAX_SIZE = 64 * 1024 * 1024;
const STORE_EVERY = 200; // ms; also the delay of an acknowledgement
const STORE_BYTES = 512 * 1024;
const OPEN_TIMEOUT = 10_000;
const QUIET_LIMIT = 20_000; // something sent and not acknowledged for so long: try a new socket, which costs nothing
const LEAVE_TIMEOUT = 10_000;
const FIRST_TRIES = 30_000;
const HANDSHAKES = 3; // refused in a row by a server that answers over HTTP: it will not change its mind
const LONGEST_PAUSE = 15_000;
const FATAL = new Map([
  [1002, "The server found a fault in the protocol."],
  [1003, "The server does not take this kind of data."],
  [1007, "The server received text that is not UTF-8."],
  [1008, "The server ended the link by its rules."],
  [1009, "A message was larger than the server accepts."],
  [4001, "This conversation was taken over by another window."],
]);

const size = (text) => new TextEncoder().encode(text).length;

export class Link extends EventTarget {
  state = "idle";
  ending = null; // {kind, status, reason} once ended
  welcome = null;
  plain = false;
  leaving = null; // the ending that was asked for and is not delivered yet
  retryAt = null;
  #options;
  #socket = null;
  #id = null;
  #secret = null;
  #received = 0; // frames taken from the server
  #stored = 0; // of these, acknowledged: the page has stored them
  #sent = 0; // number of the last frame given to `send`
  #journal = []; // {n, text, size}: not yet acknowledged
  #transmitted = 0; // number of the last frame written to the current socket
  #attempts = 0; // tries to resume: the server takes none that is not above all before it
  #grace = 0; // seconds that the server keeps the link without a socket
  #unstoredBytes = 0;
  #timers = new Map();
  #attempt = 0;
  #since = 0;

  /**
   * `options`: `url`; `protocols()`; `deliver(frame)` takes a received frame; `store()` makes everything durable, and is called before
   * anything is sent or acknowledged; `check()` resolves to an ending if the server refuses us, else to whether it answers.
   */
  constructor(options) {
    super();
    this.#options = options;
    globalThis.addEventListener?.("online", () => this.#again());
    globalThis.addEventListener?.("offline", () => this.#drop());
    globalThis.document?.addEventListener("visibilitychange", () => document.hidden || this.state !== "lost" || this.#again());
  }

  get id() {
    return this.#id;
  }

  /** What a later page needs to go on with this link; null for a plain one. */
  snapshot() {
    if (!this.#id) return null;
    return {
      id: this.#id, secret: this.#secret, received: this.#received, sent: this.#sent, journal: this.#journal,
      attempts: this.#attempts, grace: this.#grace,
    };
  }

  restore({ id, secret, received, sent, journal, attempts, grace }) {
    this.#id = id;
    this.#secret = secret;
    this.#received = this.#stored = received;
    this.#sent = sent;
    this.#journal = journal;
    this.#attempts = attempts;
    this.#grace = grace;
  }

  connect() {
    this.#since = Date.now();
    this.#dial();
  }

  /** Sends one frame (JSON text without line feed), now or as soon as there is a socket. */
  send(text) {
    if (this.state === "ended" || this.leaving) return false;
    this.#queue({ text, size: size(text) });
    return true;
  }

  /** Ends the link on purpose, so that the agent is stopped now and not only when the grace is over. */
  end(reason) {
    if (this.state === "ended" || this.leaving) return;
    this.leaving = { kind: "closed", reason };
    if (!this.#id) {
      this.#finish(this.leaving);
      return;
    }
    // The `end` has a number, like a frame, so that its arrival is acknowledged.
    const text = JSON.stringify({ type: "end", kind: "client_left", reason });
    this.#queue({ text, size: size(text), control: true });
    this.#after("leave", LEAVE_TIMEOUT, () => this.#finish(this.leaving));
    this.#set(this.state);
  }

  #queue(frame) {
    this.#journal.push({ n: ++this.#sent, ...frame });
    this.#options.store();
    this.#flush();
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #after(name, delay, action) {
    clearTimeout(this.#timers.get(name));
    this.#timers.set(name, setTimeout(action, delay));
  }

  #stop(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #finish(ending) {
    if (this.state === "ended") return;
    for (const name of [...this.#timers.keys()]) this.#stop(name);
    this.ending = ending;
    this.#abandon(1000);
    this.#set("ended");
    this.#options.store();
  }

  /** Lets go of the socket: whatever it still says is not heard, so that a late message cannot be counted twice. */
  #abandon(code) {
    const socket = this.#socket;
    this.#socket = null;
    this.welcome = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close(code);
    }
  }

  #dial() {
    this.#abandon();
    this.#stop("retry");
    if (this.state !== "lost") this.#set("connecting");
    const socket = new WebSocket(this.#options.url, this.#options.protocols());
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.#opened(socket);
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#frames(data) : this.#controls(data));
    socket.onclose = ({ code, reason }) => this.#closed(code, reason);
    this.#socket = socket;
    this.#after("open", OPEN_TIMEOUT, () => this.#closed(1006, ""));
  }

  #opened(socket) {
    this.#since = Date.now();
    if (socket.protocol === "acpremote.link.v1") {
      const known = this.#id ? { link: this.#id, secret: this.#secret, received: this.#received, attempt: ++this.#attempts } : {};
      this.#options.store();
      this.#control({ type: "hello", ...known, window: WINDOW, max_size: MAX_SIZE });
    } else if (this.#id) this.#finish({ kind: "refused", reason: "The server no longer offers to resume." });
    else {
      this.plain = true;
      this.#ready({});
    }
  }

  #ready(welcome) {
    this.#stop("open");
    this.#attempt = 0;
    this.welcome = welcome;
    this.#transmitted = this.#journal.length ? this.#journal[0].n - 1 : this.#sent;
    this.#set("open");
    this.#flush();
  }

  #control(message) {
    if (this.#socket?.readyState === WebSocket.OPEN && !this.plain) {
      this.#socket.send(new TextEncoder().encode(JSON.stringify(message)));
    }
  }

  #controls(data) {
    let message;
    try {
      message = JSON.parse(new TextDecoder().decode(data));
    } catch {
      return;
    }
    if (this.plain) return;
    if (message.type === "welcome") this.#welcomed(message);
    else if (message.type === "ack") this.#acknowledged(message.n);
    else if (message.type === "refused") this.#finish({ kind: "refused", reason: message.reason ?? "" });
    else if (message.type === "end") this.#ended(message);
  }

  #welcomed(message) {
    if (this.welcome) return;
    this.#id = message.link;
    this.#secret = message.secret ?? this.#secret;
    this.#grace = message.grace ?? this.#grace;
    this.#acknowledged(message.received ?? 0);
    this.#ready(message);
    this.#options.store();
  }

  #acknowledged(n) {
    if (!Number.isInteger(n) || n > this.#sent) return;
    this.#journal = this.#journal.filter((frame) => frame.n > n);
    this.#stop("quiet");
    if (this.leaving && !this.#journal.length) this.#finish(this.leaving);
    else this.#flush();
  }

  #flush() {
    if (this.state !== "open") return;
    if (this.plain) {
      for (const { text } of this.#journal.splice(0)) this.#socket.send(text);
      return;
    }
    const window = this.welcome.window ?? WINDOW;
    let ahead = 0;
    for (const frame of this.#journal) {
      if (ahead && ahead + frame.size > window) break;
      ahead += frame.size;
      if (frame.n <= this.#transmitted) continue;
      this.#socket.send(frame.control ? new TextEncoder().encode(frame.text) : frame.text);
      this.#transmitted = frame.n;
    }
    if (ahead && !this.#timers.has("quiet")) this.#after("quiet", QUIET_LIMIT, () => this.#again());
  }

  #frames(data) {
    if (!this.plain && !this.welcome) return;
    const frames = this.plain ? [data] : data.split("\n");
    this.#unstoredBytes += data.length;
    for (const frame of frames) {
      // Counted one by one: what an answer to this frame stores must not claim the frames behind it.
      this.#received++;
      this.#options.deliver(frame);
    }
    if (this.#unstoredBytes > STORE_BYTES) this.#storeAndAcknowledge();
    else if (!this.#timers.has("store")) this.#after("store", STORE_EVERY, () => this.#storeAndAcknowledge());
  }

  #storeAndAcknowledge() {
    this.#stop("store");
    this.#unstoredBytes = 0;
    this.#options.store();
    if (this.#received > this.#stored) this.#control({ type: "ack", n: this.#received });
    this.#stored = this.#received;
  }

  #ended({ kind, status, reason }) {
    this.#received++; // the `end` has a number too
    this.#storeAndAcknowledge();
    this.#finish({ kind: kind ?? "closed", status, reason: reason ?? "" });
  }

  #closed(code, reason) {
    const opened = this.state === "open";
    this.#stop("open");
    this.#stop("quiet");
    this.#abandon();
    const lasting = this.#id && this.#grace > 0;
    if (code === 4004) this.#finish({ kind: "refused", reason });
    else if (FATAL.has(code)) this.#finish({ kind: code === 4001 ? "replaced" : "failed", reason: reason || FATAL.get(code) });
    else if (this.leaving && !lasting) this.#finish(this.leaving);
    else if (opened && !lasting) this.#finish({ kind: code === 1000 ? "closed" : "cut", reason });
    else this.#retry();
  }

  /** The next try, after a growing pause; if the server answers that it does not want us, that is the end. */
  async #retry() {
    const patience = this.#id ? this.#grace * 1000 : FIRST_TRIES;
    if (this.state === "open") {
      this.#since = Date.now();
      this.#set("lost");
    }
    const answer = await this.#options.check();
    if (this.state === "ended" || this.#socket) return;
    if (typeof answer === "object") this.#finish(answer);
    else if (answer && !this.#id && this.#attempt >= HANDSHAKES) this.#finish({ kind: "handshake", reason: "" });
    else if (Date.now() - this.#since > patience) this.#finish({ kind: "unreachable", reason: "The server cannot be reached." });
    else {
      const pause = Math.min(LONGEST_PAUSE, 500 * 2 ** this.#attempt++) * (0.75 + Math.random() / 2);
      this.retryAt = Date.now() + pause;
      this.#after("retry", pause, () => this.#dial());
      this.#set(this.#id ? "lost" : "connecting");
    }
  }

  /** Dials at once: the network is back, or the person asks for it. */
  retryNow() {
    this.#attempt = 0;
    this.#again();
  }

  #again() {
    if (this.state === "idle" || this.state === "ended" || (this.plain && this.#socket)) return;
    if (this.state === "open") {
      this.#since = Date.now();
      this.#set("lost");
    }
    this.#dial();
  }

  #drop() {
    if (this.state !== "open" || this.plain) return;
    this.#abandon();
    this.#retry();
  }
}
