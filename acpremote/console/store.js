/**
 * What outlives a reload: the link and the conversation in this tab's session storage, and the right to use them.
 *
 * A duplicated tab gets a copy of session storage, so a lock by the name of the link says which of the two goes on with it;
 * the other starts afresh. Where a page has no Web Locks (plain HTTP to another host), the tabs ask each other.
 */

const SNAPSHOT = "acpremote.snapshot";
const TOKEN = "acpremote.token";
const WAIT = 1500; // ms; on a reload the page before may not have let go yet

/** The stored snapshot, or null. */
export function load() {
  try {
    return JSON.parse(sessionStorage.getItem(SNAPSHOT));
  } catch {
    return null;
  }
}

/** Stores `parts()`; where there is no room, asks for less with `parts(share)` until it fits. Returns whether it did. */
export function save(parts) {
  for (const share of [1, 0.25, 0.05]) {
    try {
      sessionStorage.setItem(SNAPSHOT, JSON.stringify(parts(share)));
      return true;
    } catch {
      // No room, or no storage at all: try with less.
    }
  }
  forget();
  return false;
}

export function forget() {
  try {
    sessionStorage.removeItem(SNAPSHOT);
  } catch {
    // Storage is switched off: nothing was stored.
  }
}

export const token = {
  load: () => {
    try {
      return sessionStorage.getItem(TOKEN);
    } catch {
      return null;
    }
  },
  save: (value) => {
    try {
      if (value === null) sessionStorage.removeItem(TOKEN);
      else sessionStorage.setItem(TOKEN, value);
    } catch {
      // Kept in memory only.
    }
  },
};

/** Resolves to true when this page may use the link, for as long as the page lives; to false when another page does. */
export async function hold(link) {
  const name = `acpremote-link-${link}`;
  return navigator.locks ? lock(name) : ask(name);
}

const lock = (name) =>
  new Promise((resolve) => {
    const held = () => {
      resolve(true);
      return new Promise(() => {}); // until the page goes
    };
    navigator.locks.request(name, { signal: AbortSignal.timeout(WAIT) }, held).catch(() => resolve(false));
  });

const ask = (name) =>
  new Promise((resolve) => {
    const channel = new BroadcastChannel(name);
    const timer = setTimeout(() => {
      channel.onmessage = ({ data }) => data === "who" && channel.postMessage("held");
      resolve(true);
    }, 300);
    channel.onmessage = ({ data }) => {
      if (data !== "held") return;
      clearTimeout(timer);
      channel.close();
      resolve(false);
    };
    channel.postMessage("who");
  });
