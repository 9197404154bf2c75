// Trees and graphs: text to values, values to places, places to pictures.

import { line } from "./axes.js";
import { css, diverging, growing } from "./colours.js";

const GAP = /[\s,;]+/;

/** A graph written as "C C O | 1-2 2-3": labels, then edges by the numbers of nodes. */
export function parseGraph(text) {
  const [first = "", second = ""] = text.split("|");
  const labels = first
    .split(GAP)
    .filter(Boolean)
    .map((l) => l.slice(0, 12));
  const edges = second
    .split(GAP)
    .map((edge) => /^(\d+)-(\d+)$/.exec(edge))
    .filter(Boolean)
    .map((m) => [Number(m[1]) - 1, Number(m[2]) - 1])
    .filter(([a, b]) => a !== b && a >= 0 && b >= 0 && a < labels.length && b < labels.length);
  return { labels, edges };
}

export const writeGraph = ({ labels, edges }) =>
  `${labels.join(" ")} | ${edges.map(([a, b]) => `${a + 1}-${b + 1}`).join(" ")}`;

/** Where nodes stand, from 0 to 1: as drawn, or on a circle. */
export function graphPlaces({ labels, places }) {
  if (places?.length === labels.length) return places;
  return labels.map((_, i) => {
    const angle = (2 * Math.PI * i) / labels.length - Math.PI / 2;
    return [0.5 + 0.38 * Math.cos(angle), 0.5 + 0.38 * Math.sin(angle)];
  });
}

/** Where the nodes of a tree stand: leaves side by side, each parent above its children. */
export function treePlaces({ parents }) {
  const children = parents.map(() => []);
  parents.forEach((parent, i) => parent >= 0 && children[parent].push(i));
  const depth = parents.map(() => 0);
  parents.forEach((parent, i) => (depth[i] = parent >= 0 ? depth[parent] + 1 : 0));
  const deepest = Math.max(1, ...depth);
  const xs = new Array(parents.length);
  let leaves = 0;
  for (let i = parents.length - 1; i >= 0; i--) if (!children[i].length) xs[i] = leaves++;
  for (let i = parents.length - 1; i >= 0; i--) {
    if (children[i].length)
      xs[i] = children[i].reduce((sum, c) => sum + xs[c], 0) / children[i].length;
  }
  return xs.map((x, i) => [1 - (x + 0.5) / Math.max(1, leaves), (depth[i] + 0.5) / (deepest + 1)]);
}

/** What a weight's colour is: around paper where some are negative. */
export function weightColour(weights) {
  let [most, least] = [0, 0];
  for (const w of weights ?? []) {
    most = Math.max(most, w);
    least = Math.min(least, w);
  }
  const scale = Math.max(most, -least) || 1;
  return (w) => css(least < 0 ? diverging(0.85 * w, scale) : growing((0.85 * w) / scale));
}

const light = (colour) => {
  const [r, g, b] = colour.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140;
};
export const letters = (colour) => (light(colour) ? "#10141a" : "#ffffff");

/** Nodes and edges in a canvas; `hits` are indices to be ringed. */
export function drawNodes(
  context,
  width,
  height,
  colours,
  { labels, edges, places, weights = null, hits = [], selected = -1 },
) {
  const at = places.map(([x, y]) => [24 + x * (width - 48), 20 + y * (height - 40)]);
  const colour = weightColour(weights);
  const hit = new Set(hits);
  for (const [a, b] of edges) {
    const both = hit.has(a) && hit.has(b);
    context.strokeStyle = both ? colours.strong : colours.line;
    context.lineWidth = both ? 3 : 1.5;
    context.beginPath();
    line(context, ...at[a], ...at[b]);
    context.stroke();
  }
  context.font = `600 12px ${colours.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  labels.forEach((label, i) => {
    const r = Math.max(13, Math.min(26, context.measureText(label).width / 2 + 7));
    const fill = weights ? colour(weights[i] ?? 0) : colours.paper;
    context.beginPath();
    pill(context, at[i][0], at[i][1], r, 13);
    context.fillStyle = fill;
    context.fill();
    context.lineWidth = hit.has(i) || i === selected ? 3 : 1.25;
    context.strokeStyle = hit.has(i)
      ? colours.strong
      : i === selected
        ? colours.accent
        : colours.line;
    context.stroke();
    context.fillStyle = weights ? letters(fill) : colours.ink;
    context.fillText(label.length > 7 ? `${label.slice(0, 6)}…` : label, ...at[i]);
  });
  return at;
}

function pill(context, x, y, r, h) {
  context.arc(x - r + h, y, h, Math.PI / 2, 1.5 * Math.PI);
  context.arc(x + r - h, y, h, 1.5 * Math.PI, 2.5 * Math.PI);
  context.closePath();
}

export const treeEdges = ({ parents }) =>
  parents.map((parent, i) => [parent, i]).filter(([parent]) => parent >= 0);
