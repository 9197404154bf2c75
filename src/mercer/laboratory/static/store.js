// The state of the page: a plain value, replaced and never changed, with undo, and with a
// form that fits into the fragment of an address.

const MOST_UNDONE = 200;
// What a link holds. The rest (which menu is open) belongs to the browser.
const KEPT = [
  "tab",
  "task",
  "points",
  "machine",
  "kernel",
  "set",
  "view",
  "slack",
  "step",
  "structures",
  "figure",
  "example",
];

export class Store {
  constructor(state) {
    this.state = state;
    this.past = [];
    this.future = [];
    this.listeners = [];
  }

  /** `listener(state, before, kind)` after every change. */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** A change that can be undone. `from` is the state before, where a drag led here. */
  commit(patch, from = this.state) {
    this.past.push(from);
    if (this.past.length > MOST_UNDONE) this.past.shift();
    this.future = [];
    this.#replace({ ...this.state, ...patch }, "commit");
  }

  /** A change on the way (a drag) or of no account (the view). */
  patch(patch, kind = "patch") {
    this.#replace({ ...this.state, ...patch }, kind);
  }

  undo() {
    if (!this.past.length) return false;
    this.future.push(this.state);
    this.#replace({ ...this.past.pop(), tab: this.state.tab }, "undo");
    return true;
  }

  redo() {
    if (!this.future.length) return false;
    this.past.push(this.state);
    this.#replace({ ...this.future.pop(), tab: this.state.tab }, "undo");
    return true;
  }

  #replace(state, kind) {
    const before = this.state;
    this.state = state;
    for (const listener of this.listeners) listener(state, before, kind);
  }
}

async function through(bytes, stream) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

/** The state as letters that an address may hold. */
export async function pack(state) {
  const kept = Object.fromEntries(
    KEPT.filter((name) => state[name] != null).map((name) => [name, state[name]]),
  );
  const bytes = await through(
    new TextEncoder().encode(JSON.stringify(kept)),
    new CompressionStream("deflate-raw"),
  );
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192)
    text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const UNPACKED_MOST = 2 ** 21; // bytes; more than any state the server would take

/** The state in such letters; throws where they hold none. */
export async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) =>
    c.charCodeAt(0),
  );
  const reader = new Blob([bytes])
    .stream()
    .pipeThrough(new DecompressionStream("deflate-raw"))
    .getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > UNPACKED_MOST) throw new RangeError("the state is too long");
    parts.push(value);
  }
  const given = JSON.parse(await new Blob(parts).text());
  if (typeof given !== "object" || given === null) throw new TypeError("no state");
  const state = Object.fromEntries(
    KEPT.filter((name) => name in given).map((name) => [name, given[name]]),
  );
  if (!Array.isArray(state.points)) delete state.points;
  return state;
}
