// Elements without markup in strings: everything the server says is text, never HTML.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element: make("button", {class: "plain", onclick: f, "aria-label": "x"}, "text", child). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function put(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return parent;
}

let region = null;
let last = 0;

/** Says something to screen readers. */
export function announce(text) {
  region ??= $("#announcer");
  // The same text twice is not read twice unless the element changes.
  region.textContent = text + (last++ % 2 ? "\u00a0" : "");
}

let hiding = 0;

/** A short message at the bottom of the page. */
export function toast(text, kind = "") {
  const box = $("#toast");
  box.textContent = text;
  box.className = `toast shown ${kind}`;
  clearTimeout(hiding);
  hiding = setTimeout(() => (box.className = "toast"), 3200);
  announce(text);
}

/** Calls `action` once, `delay` ms after the last call. */
export function later(action, delay) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), delay);
  };
}
