// The road to the server: the key, frames of JSON and numbers, and the newest request wins.

const KEY = "mercer-key";
const TRIES = 3; // of a request that was overtaken by an older one
const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) =>
  b.toString(16).padStart(2, "0"),
).join("");
let key = null;
let count = 0;

export function setKey(value) {
  key = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Without storage the key lasts as long as the page.
  }
}

export function recallKey() {
  try {
    key ??= localStorage.getItem(KEY);
  } catch {
    key ??= null;
  }
  return key;
}

/** What the server refused: `code`, `message`, `place`. */
export class Refusal extends Error {
  constructor({ code, message, place = null }, status = 0) {
    super(message);
    this.code = code;
    this.place = place;
    this.status = status;
  }
}

export class Superseded extends Error {}

async function send(route, body, signal) {
  const headers = { Authorization: `Bearer ${recallKey() ?? ""}` };
  const options = { headers, signal, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(route, options);
  } catch (error) {
    if (signal?.aborted) throw new Superseded();
    throw new Refusal({
      code: "offline",
      message: "The laboratory does not answer; is `mercer lab` still running?",
    });
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  const error = told?.error ?? { code: "unknown", message: `The server said ${response.status}.` };
  if (response.status === 401) document.dispatchEvent(new CustomEvent("locked"));
  if (response.status === 409) throw new Superseded();
  throw new Refusal(error, response.status);
}

export const get = async (route) => (await send(route)).json();
export const post = async (route, body, signal) => (await send(route, body, signal)).json();

/** A frame's head with its arrays: {name: {values: Float32Array, shape}}. */
function decoded(bytes, start, headLength, numbersLength) {
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(start, start + headLength)));
  const from = start + headLength;
  const numbers = new Float32Array(bytes.slice(from, from + numbersLength).buffer);
  head.array = {};
  for (const { name, shape, offset } of head.arrays ?? []) {
    const size = shape.reduce((a, b) => a * b, 1);
    head.array[name] = { values: numbers.subarray(offset, offset + size), shape };
  }
  return head;
}

/** Reads frames as they come; calls `progress(head)` and returns the result. */
async function readFrames(response, progress) {
  const reader = response.body.getReader();
  let held = new Uint8Array(0);
  for (;;) {
    while (held.length >= 8) {
      const view = new DataView(held.buffer, held.byteOffset);
      const [n, m] = [view.getUint32(0, true), view.getUint32(4, true)];
      if (held.length < 8 + n + m) break;
      const head = decoded(held, 8, n, m);
      held = held.subarray(8 + n + m);
      if (head.event === "result") return head;
      if (head.event === "error") throw new Refusal(head.error);
      if (head.event === "aborted") throw new Superseded();
      progress?.(head);
    }
    const { done, value } = await reader.read();
    if (done) throw new Refusal({ code: "cut", message: "The answer broke off." });
    const joined = new Uint8Array(held.length + value.length);
    joined.set(held);
    joined.set(value, held.length);
    held = joined;
  }
}

/**
 * Requests of one kind. Of several asked for meanwhile only the newest is sent, when the
 * one on its way is answered; `now` gives that one up instead of waiting for it.
 */
export class Channel {
  constructor(route, { frames = true } = {}) {
    this.route = route;
    this.frames = frames;
    this.flying = null;
    this.next = null;
  }

  /** Resolves to the result; rejects with `Superseded` where a newer request came. */
  ask(body, { now = false, progress = null } = {}) {
    return new Promise((resolve, reject) => {
      this.next?.reject(new Superseded());
      this.next = { body, progress, resolve, reject };
      if (now) this.flying?.abort();
      if (!this.flying || now) this.#fly();
    });
  }

  cancel() {
    this.next?.reject(new Superseded());
    this.next = null;
    this.flying?.abort();
    this.flying = null;
  }

  async #fly() {
    const { body, progress, resolve, reject, tries = 0 } = this.next;
    this.next = null;
    const control = new AbortController();
    this.flying = control;
    try {
      const response = await send(
        this.route,
        { ...body, client, request: ++count },
        control.signal,
      );
      resolve(this.frames ? await readFrames(response, progress) : await response.json());
    } catch (error) {
      const given = this.flying !== control || control.signal.aborted;
      // One that was given up may reach the server late and take this one's place there.
      const overtaken = error instanceof Superseded && !given && !this.next && tries < TRIES;
      if (overtaken) this.next = { body, progress, resolve, reject, tries: tries + 1 };
      else reject(given ? new Superseded() : error);
    }
    if (this.flying !== control) return;
    this.flying = null;
    if (this.next) this.#fly();
  }
}

/** Does nothing about a request that a newer one replaced; hands on other errors. */
export function unlessSuperseded(handle) {
  return (error) => {
    if (!(error instanceof Superseded)) handle(error);
  };
}
