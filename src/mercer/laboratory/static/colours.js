// The colours of the pictures: read from the style sheet, so that one file holds them.

export const CLASSES = 6;
const MARKERS = ["circle", "square", "triangle", "diamond", "flip", "cross"];

let cache = null;

export function palette() {
  if (cache) return cache;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  cache = {
    classes: Array.from({ length: CLASSES }, (_, i) => read(`--class-${i + 1}`)),
    strong: read("--strong"),
    paper: read("--paper"),
    ink: read("--ink"),
    soft: read("--ink-soft"),
    line: read("--line"),
    grid: read("--grid"),
    accent: read("--accent"),
    edge: read("--point-edge"),
    good: read("--good"),
    bad: read("--bad"),
    font: read("--font"),
    mono: read("--mono"),
  };
  return cache;
}

export function forgetPalette() {
  cache = null;
}

export const marker = (index) => MARKERS[index % MARKERS.length];

const rgbs = new Map();

/** [r, g, b] of "#rrggbb". */
export function rgb(colour) {
  if (!rgbs.has(colour)) {
    const value = parseInt(colour.slice(1), 16);
    rgbs.set(colour, [value >> 16, (value >> 8) & 255, value & 255]);
  }
  return rgbs.get(colour);
}

/** From one colour to another; `share` 0 is the first, 1 the second. */
export function mix(first, second, share) {
  const a = rgb(first);
  const b = rgb(second);
  return a.map((value, i) => Math.round(value + (b[i] - value) * share));
}

export const css = ([r, g, b], alpha = 1) => `rgba(${r}, ${g}, ${b}, ${alpha})`;

/** The colour of a signed value: the first class below zero, the second above. */
export function diverging(value, most = 1) {
  const { classes, paper } = palette();
  const share = Math.min(1, Math.abs(value) / (most || 1));
  return mix(paper, value < 0 ? classes[0] : classes[1], share);
}

/** The colour of a share of a whole, from paper to full. */
export function growing(share) {
  const { classes, paper } = palette();
  return mix(paper, classes[0], Math.max(0, Math.min(1, share)));
}
