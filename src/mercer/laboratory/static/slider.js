// A parameter: a slider (on a logarithmic scale where the catalog says so) with its number.

import { make } from "./dom.js";
import { say } from "./axes.js";

const STEPS = 400;
let made = 0;

const plain = (value) => say(value, 4).replaceAll("−", "-");

/**
 * The control of a parameter {name, label, kind, low, high, scale, choices} at `value`.
 * `change(value, done)`: done is false while the slider is being dragged.
 */
export function parameterControl(parameter, value, change) {
  if (parameter.kind === "choice") return choiceControl(parameter, value, change);
  if (parameter.kind === "flag") return flagControl(parameter, value, change);
  return numberControl(parameter, value, change);
}

function numberControl({ label, symbol, kind, low, high, scale }, value, change) {
  const id = `slider-${++made}`;
  const integer = kind === "integer";
  const log = scale === "log" && low > 0;
  const steps = integer && !log ? high - low : STEPS;
  const share = (v) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  const at = (position) => {
    const s = position / steps;
    const raw = log ? low * (high / low) ** s : low + s * (high - low);
    return integer ? Math.round(raw) : Number(raw.toPrecision(3));
  };
  const range = make("input", { type: "range", id, min: 0, max: steps, step: 1 });
  const number = make("input", {
    type: "text",
    inputmode: "decimal",
    "aria-label": `${label}, number`,
    autocomplete: "off",
  });
  const show = (v) => {
    const known = v !== null && v !== undefined && Number.isFinite(Number(v));
    if (document.activeElement !== number) number.value = known ? plain(v) : "auto";
    range.value = known ? Math.round(Math.max(0, Math.min(1, share(v))) * steps) : steps / 2;
    range.setAttribute("aria-valuetext", known ? plain(v) : "chosen from the data");
  };
  range.addEventListener("input", () => {
    const v = at(Number(range.value));
    number.value = plain(v);
    range.setAttribute("aria-valuetext", plain(v));
    change(v, false);
  });
  range.addEventListener("change", () => change(at(Number(range.value)), true));
  number.addEventListener("change", () => {
    const v = Number(number.value);
    if (number.value.trim() === "" || !Number.isFinite(v)) return show(value);
    const kept = integer ? Math.round(v) : v;
    number.value = plain(kept);
    change(kept, true);
  });
  number.addEventListener("keydown", (event) => {
    if (event.key === "Enter") number.blur();
  });
  show(value);
  const name = make("label", { for: id }, ...(symbol ? [make("em", {}, symbol), " "] : []), label);
  const element = make("div", { class: "slider" }, name, number, range);
  const control = (v) => {
    value = v;
    if (document.activeElement !== range || !range.matches(":active")) show(v);
  };
  return { element, show: control };
}

function choiceControl({ label, choices }, value, change) {
  const id = `slider-${++made}`;
  const select = make(
    "select",
    { id, onchange: () => change(select.value, true) },
    ...choices.map((c) => make("option", { value: c }, c)),
  );
  select.value = value;
  const element = make("div", { class: "slider" }, make("label", { for: id }, label), select);
  return { element, show: (v) => (select.value = v) };
}

function flagControl({ label }, value, change) {
  const box = make("input", {
    type: "checkbox",
    checked: Boolean(value),
    onchange: () => change(box.checked, true),
  });
  const element = make("div", { class: "slider" }, make("label", { class: "check" }, box, label));
  return { element, show: (v) => (box.checked = Boolean(v)) };
}

/** A group of which one is chosen; arrow keys move as in radio buttons. */
export function segmented(box, choices, chosen, change) {
  const buttons = choices.map(({ value, label, content, title, disabled }) =>
    make(
      "button",
      {
        type: "button",
        role: "radio",
        "aria-label": label,
        title: title ?? label,
        disabled,
        "data-value": value,
        onclick: () => pick(value, true),
      },
      content ?? label,
    ),
  );
  const mark = (value) => {
    const found = choices.some((c) => c.value === value && !c.disabled);
    buttons.forEach((button, i) => {
      const on = choices[i].value === value;
      button.setAttribute("aria-checked", String(on));
      button.tabIndex = on || (!found && i === 0) ? 0 : -1;
    });
  };
  const pick = (value, told) => {
    mark(value);
    if (told) change(value);
  };
  box.replaceChildren(...buttons);
  box.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const open = buttons.filter((b) => !b.disabled && b.offsetParent);
    const next = open[(open.indexOf(document.activeElement) + step + open.length) % open.length];
    next.focus();
    pick(choices[buttons.indexOf(next)].value, true);
  };
  mark(chosen);
  return mark;
}
