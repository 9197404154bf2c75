// Figures of several pictures: a grid of frames, each with a field, points and lines.

import { Axes, line, say } from "./axes.js";
import { arrow, drawComponent, drawPoints, drawSigned, layer, sides, strokeAt } from "./field.js";
import { drawPoint } from "./marks.js";

const GAP = 20;
const ROOM = { left: 44, right: 12, top: 48, bottom: 40 };
const TIGHT = { left: 10, right: 10, top: 26, bottom: 6 };

/** Columns that make panels of this shape largest; of the like, with the fewest gaps. */
function columnsFor(count, width, height, ratio) {
  let [best, size] = [1, 0];
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const full = 1 - (0.3 * (columns * rows - count)) / count;
    const side = full * Math.min(width / columns, (height / rows) * ratio);
    if (side > size) [best, size] = [columns, side];
  }
  return best;
}

/** Draws all panels of an answer. */
export function drawPanels(context, width, height, colours, answer) {
  const { panels } = answer;
  const [first] = panels;
  const ratio = span(first.view.x) / span(first.view.y);
  const columns = columnsFor(panels.length, width, height, ratio);
  const rows = Math.ceil(panels.length / columns);
  const [w, h] = [(width - GAP * (columns - 1)) / columns, (height - GAP * (rows - 1)) / rows];
  panels.forEach((panel, i) => {
    const [x, y] = [(i % columns) * (w + GAP), Math.floor(i / columns) * (h + GAP)];
    drawPanel(context, { x, y, w, h }, colours, answer, panel);
  });
}

const span = ([low, high]) => high - low;

/** The axes of a panel: circles stay round, and the frame is as large as it can be. */
function panelAxes({ x, y, w, h }, { view, labels }) {
  const room = labels ? ROOM : TIGHT;
  const inner = [w - room.left - room.right, h - room.top - room.bottom];
  const scale = Math.min(inner[0] / span(view.x), inner[1] / span(view.y));
  const size = [scale * span(view.x), scale * span(view.y)];
  const box = {
    x: x + room.left + (inner[0] - size[0]) / 2,
    y: y + room.top + (inner[1] - size[1]) / 2,
    w: size[0],
    h: size[1],
  };
  return new Axes([...view.x, ...view.y], box);
}

function drawPanel(context, cell, colours, answer, panel) {
  const axes = panelAxes(cell, panel);
  const { x, y, w, h } = axes.box;
  context.save();
  context.font = `600 13px ${colours.font}`;
  context.fillStyle = colours.ink;
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  // The name of the upward axis stands between the title and the frame.
  if (panel.title) context.fillText(panel.title, x + w / 2, y - (panel.labels ? 26 : 8));
  context.restore();
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  drawField(context, axes, colours, answer, panel);
  drawLines(context, axes, colours, panel);
  context.restore();
  if (panel.labels) axes.frame(context, colours, { labels: panel.labels, grid: false });
  else {
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(x, y, w, h);
  }
  drawMarks(context, axes, colours, answer, panel);
  for (const one of panel.arrows ?? []) drawArrow(context, axes, colours, one);
  for (const one of panel.spans ?? []) drawSpan(context, axes, colours, one);
}

function drawField(context, axes, colours, answer, panel) {
  const { view } = panel;
  answer.layers ??= {};
  const grid = (name) => (answer.layers[name] ??= layer(answer.array[name]));
  if (panel.field && panel.contours) drawComponent(context, axes, view, grid(panel.field));
  else if (panel.field)
    drawSigned(context, axes, view, grid(panel.field), 1, sides(colours, answer.labels));
  for (const level of panel.levels ?? [])
    strokeAt(context, axes, view, grid(panel.field), level, {
      colour: colours.ink,
      width: level ? 1.25 : 2.5,
      dash: level ? [6, 5] : [],
    });
  for (const name of panel.curves ?? [])
    strokeAt(context, axes, view, grid(name), 0, { colour: colours.ink, width: 2 });
}

/** The ends of a line ax + by + c = 0 in the frame; null where it does not cross it. */
function ends([a, b, c], { x, y }) {
  const found = [];
  const inside = (value, [low, high]) => value >= low - 1e-9 && value <= high + 1e-9;
  for (const at of x) {
    const other = -(a * at + c) / b;
    if (b && inside(other, y)) found.push([at, other]);
  }
  for (const at of y) {
    const other = -(b * at + c) / a;
    if (a && inside(other, x)) found.push([other, at]);
  }
  found.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  return found.length < 2 ? null : [found[0], found.at(-1)];
}

/** Where a line is named: the first of some places that keeps clear of other names. */
function placeName(context, axes, colours, [from, to], text, taken) {
  for (const share of [0.08, 0.92, 0.2, 0.8, 0.35, 0.65, 0.5]) {
    const at = from.map((value, k) => value + share * (to[k] - value));
    const box = labelBox(context, axes, colours, at, text);
    const clear = taken.every(
      (other) =>
        box.x + box.w < other.x ||
        other.x + other.w < box.x ||
        box.y + box.h < other.y ||
        other.y + other.h < box.y,
    );
    if (!clear) continue;
    taken.push(box);
    return drawLabel(context, colours, box, text);
  }
}

function drawLines(context, axes, colours, { lines = [], view }) {
  const taken = [];
  const named = [];
  lines.forEach(({ at, name, dash, margin }, i) => {
    const stroke = (level, width, pattern) => {
      const found = ends([at[0], at[1], at[2] - level], view);
      if (!found) return;
      context.lineWidth = width;
      context.setLineDash(pattern);
      context.beginPath();
      line(context, ...found.flatMap(([px, py]) => [axes.x(px), axes.y(py)]));
      context.stroke();
      context.setLineDash([]);
    };
    context.strokeStyle = colours.ink;
    for (const level of margin ? [-margin, margin] : []) stroke(level, 1.25, [6, 5]);
    if (dash) context.strokeStyle = colours.classes[2 + (i % 4)];
    stroke(0, 2.5, []);
    const found = name && ends(at, view);
    if (found) named.push([found, name]);
  });
  for (const [found, name] of named) placeName(context, axes, colours, found, name, taken);
}

/** The room of a name at a place, pushed inside of the frame. */
function labelBox(context, axes, colours, [px, py], text) {
  const { x, y, w, h } = axes.box;
  context.font = `600 13px ${colours.font}`;
  const [width, height] = [context.measureText(text).width + 10, 20];
  const keep = (value, low, high) => Math.max(low, Math.min(high, value));
  return {
    x: keep(axes.x(px) - width / 2, x + 4, x + w - width - 4),
    y: keep(axes.y(py) - height / 2, y + 4, y + h - height - 4),
    w: width,
    h: height,
  };
}

function drawLabel(context, colours, { x, y, w, h }, text) {
  context.globalAlpha = 0.85;
  context.fillStyle = colours.paper;
  context.fillRect(x, y, w, h);
  context.globalAlpha = 1;
  context.font = `600 13px ${colours.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = colours.ink;
  context.fillText(text, x + w / 2, y + h / 2);
}

function drawMarks(context, axes, colours, answer, panel) {
  const pairs = (name) => {
    const { values } = answer.array[name];
    return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i], values[2 * i + 1]]);
  };
  if (panel.segments) {
    const { values } = answer.array[panel.segments];
    context.strokeStyle = panel.hollow ? colours.line : colours.soft;
    context.lineWidth = panel.hollow ? 1 : 1.5;
    context.beginPath();
    for (let i = 0; i + 3 < values.length; i += 4)
      if (Number.isFinite(values[i + 2]))
        line(
          context,
          axes.x(values[i]),
          axes.y(values[i + 1]),
          axes.x(values[i + 2]),
          axes.y(values[i + 3]),
        );
    context.stroke();
  }
  if (panel.points) {
    const points = pairs(panel.points).map((at, i) => [...at, answer.points?.[i]?.[2] ?? 0]);
    drawPoints(context, axes, colours, { points, labelled: !panel.plain });
  }
  if (panel.hollow)
    for (const [px, py] of pairs(panel.hollow))
      if (Number.isFinite(px))
        drawPoint(context, axes.x(px), axes.y(py), { group: 1, r: 3.5, hollow: true });
}

function drawArrow(context, axes, colours, { at: [x0, y0, x1, y1], name }) {
  context.strokeStyle = colours.strong;
  context.lineWidth = 3;
  arrow(context, axes.x(x0), axes.y(y0), axes.x(x1), axes.y(y1), 11);
  context.font = `600 14px ${colours.font}`;
  context.fillStyle = colours.strong;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(name, axes.x(x1) + 6, axes.y(y1) - 8);
}

/** A distance, with its name beside the middle. */
function drawSpan(context, axes, colours, { at: [x0, y0, x1, y1], name }) {
  context.strokeStyle = colours.strong;
  context.lineWidth = 2;
  context.setLineDash([3, 4]);
  context.beginPath();
  line(context, axes.x(x0), axes.y(y0), axes.x(x1), axes.y(y1));
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = colours.strong;
  context.beginPath();
  context.arc(axes.x(x0), axes.y(y0), 4, 0, 2 * Math.PI);
  context.fill();
  if (Math.hypot(axes.x(x1) - axes.x(x0), axes.y(y1) - axes.y(y0)) < 30) return;
  const middle = [(x0 + x1) / 2, (y0 + y1) / 2];
  drawLabel(context, colours, labelBox(context, axes, colours, middle, name), name);
}

/** Pictures of misread digits with what they are and what they were taken for. */
export function drawDigits(context, { x, y, w, h }, colours, { array, misread }) {
  const count = misread.length;
  if (!count) return;
  const columns = columnsFor(count, w, h, 0.78);
  const rows = Math.ceil(count / columns);
  const cell = Math.min(w / columns, (h / rows) * 0.78);
  const side = Math.floor((cell - 14) / 8);
  const { values } = array.images;
  misread.forEach(([truth, read], i) => {
    const left = Math.round(x + ((i % columns) + 0.5) * (w / columns) - 4 * side);
    const top = Math.round(y + Math.floor(i / columns) * (h / rows) + 22);
    for (let r = 0; r < 8; r++)
      for (let c = 0; c < 8; c++) {
        context.fillStyle = colours.ink;
        context.globalAlpha = 0.06 + 0.94 * values[64 * i + 8 * r + c];
        context.fillRect(left + c * side, top + r * side, side, side);
      }
    context.globalAlpha = 1;
    context.font = `12px ${colours.font}`;
    context.fillStyle = colours.ink;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    const middle = side > 9 ? "read as" : "→";
    context.fillText(`${say(truth)} ${middle} ${say(read)}`, left + 4 * side, top - 6);
  });
}
