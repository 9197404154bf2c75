// What a machine says about the plane: fields of colour, boundaries, margins, curves.

import { ramp, raster, shade, drawRaster, strokeLevel } from "./contours.js";
import { marker, palette } from "./colours.js";
import { drawPoint, tracePoint } from "./marks.js";
import { line, say } from "./axes.js";

const STRENGTH = 0.46; // of the colour where the machine is most certain

/** One layer of an array of grids (..., rows, columns). */
export function layer(array, index = 0) {
  const [rows, columns] = array.shape.slice(-2);
  const size = rows * columns;
  return { values: array.values.subarray(index * size, (index + 1) * size), rows, columns };
}

/** The view's box on the page, upside down: row 0 of a grid is the lowest. */
function boxOf(axes, view) {
  const [x, y] = [axes.x(view.x[0]), axes.y(view.y[0])];
  return { x, y, w: axes.x(view.x[1]) - x, h: axes.y(view.y[1]) - y };
}

/** A raster, made once for each grid and theme. */
function cached(grid, key, make) {
  const full = `${key} ${palette().paper}`;
  if (grid.rasterKey !== full) [grid.rasterKey, grid.raster] = [full, make()];
  return grid.raster;
}

function paint(context, axes, view, canvas) {
  const box = boxOf(axes, view);
  drawRaster(context, canvas, { x: box.x, y: box.y + box.h, w: box.w, h: -box.h });
}

/** Rows turned over, for rasters whose first row is the highest. */
const turned = (grid) => (i) => {
  const row = Math.floor(i / grid.columns);
  return (grid.rows - 1 - row) * grid.columns + (i - row * grid.columns);
};

/** Signed values between two colours. `unit` is where the colour is nearly full. */
export function drawSigned(context, axes, view, grid, unit, [low, high]) {
  const canvas = cached(grid, `signed ${unit} ${low} ${high}`, () => {
    const [first, second] = [ramp(low, STRENGTH), ramp(high, STRENGTH)];
    const at = turned(grid);
    return raster(grid.columns, grid.rows, (i) => {
      const value = grid.values[at(i)] / unit;
      return shade(
        value < 0 ? first : second,
        Number.isFinite(value) ? Math.tanh(0.9 * Math.abs(value)) : 0,
      );
    });
  });
  paint(context, axes, view, canvas);
}

/** Shares of a whole in one colour. */
export function drawGrowing(context, axes, view, grid, colour = palette().classes[0]) {
  let most = 0;
  for (const value of grid.values) if (value > most) most = value;
  const canvas = cached(grid, `growing ${colour}`, () => {
    const shades = ramp(colour, 0.75);
    const at = turned(grid);
    return raster(grid.columns, grid.rows, (i) => shade(shades, grid.values[at(i)] / (most || 1)));
  });
  paint(context, axes, view, canvas);
  return most;
}

export function strokeAt(
  context,
  axes,
  view,
  grid,
  level,
  { colour, width = 2, dash = [], passes = 0 },
) {
  context.save();
  const box = boxOf(axes, view);
  context.beginPath();
  context.rect(box.x, box.y + box.h, box.w, -box.h);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineCap = dash.length ? "butt" : "round";
  context.lineJoin = "round";
  context.setLineDash(dash);
  strokeLevel(context, grid, level, box, passes);
  context.restore();
}

/** Labels of regions: 0..5 in each cell; boundaries between them. */
export function drawWinner(context, axes, view, grid, strength = 0.3) {
  const { classes, ink } = palette();
  const canvas = cached(grid, "winner", () => {
    const shades = classes.map((colour) => ramp(colour, strength).at(-1));
    const at = turned(grid);
    return raster(
      grid.columns,
      grid.rows,
      (i) => shades[Math.max(0, Math.round(grid.values[at(i)])) % shades.length],
    );
  });
  paint(context, axes, view, canvas);
  grid.masks ??= [...new Set(grid.values)].map((label) => ({
    rows: grid.rows,
    columns: grid.columns,
    values: Float32Array.from(grid.values, (v) => (v === label ? 1 : 0)),
  }));
  if (grid.masks.length > 1)
    for (const mask of grid.masks)
      strokeAt(context, axes, view, mask, 0.5, { colour: ink, width: 1.5, passes: 4 });
}

/** For each class how far it leads the best of the others. */
function leads(decision) {
  const [count, rows, columns] = decision.shape;
  const size = rows * columns;
  return Array.from({ length: count }, (_, c) => {
    const values = new Float32Array(size);
    for (let i = 0; i < size; i++) {
      let other = -Infinity;
      for (let d = 0; d < count; d++)
        if (d !== c) other = Math.max(other, decision.values[d * size + i]);
      values[i] = decision.values[c * size + i] - other;
    }
    return { values, rows, columns };
  });
}

function drawClasses(context, axes, view, head) {
  const { classes, ink } = palette();
  const { decision } = head.array;
  head.leads ??= leads(decision);
  const grid = head.leads[0];
  let sum = 0;
  for (const lead of head.leads) for (const v of lead.values) if (v > 0) sum += v;
  const unit = sum / grid.values.length || 1;
  const labels = head.classes;
  const canvas = cached(grid, "classes", () => {
    const ramps = labels.map((label) => ramp(classes[label % classes.length], STRENGTH));
    const at = turned(grid);
    return raster(grid.columns, grid.rows, (i) => {
      const j = at(i);
      let best = 0;
      for (let c = 1; c < labels.length; c++)
        if (head.leads[c].values[j] > head.leads[best].values[j]) best = c;
      return shade(ramps[best], 0.25 + 0.75 * Math.tanh(head.leads[best].values[j] / unit));
    });
  });
  paint(context, axes, view, canvas);
  for (const lead of head.leads)
    strokeAt(context, axes, view, lead, 0, { colour: ink, width: 1.5, passes: 4 });
}

function typical(values) {
  if (!values?.length) return 1;
  let sum = 0;
  for (const v of values) sum += Math.abs(v);
  return sum / values.length || 1;
}

/** Levels for contour lines: `count` between the extremes of a grid. */
function levels(values, count) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return Array.from({ length: count }, (_, i) => low + ((high - low) * (i + 1)) / (count + 1));
}

export function drawComponent(context, axes, view, grid) {
  const { ink, classes } = palette();
  let most = 0;
  for (const v of grid.values) most = Math.max(most, Math.abs(v));
  drawSigned(context, axes, view, grid, most * 0.7 || 1, [classes[0], classes[1]]);
  context.globalAlpha = 0.55;
  for (const level of levels(grid.values, 11))
    strokeAt(context, axes, view, grid, level, { colour: ink, width: 1 });
  context.globalAlpha = 1;
}

/** Contours of a landscape, closer where it is low; for objectives. */
export function drawLandscape(context, axes, view, grid, { downhill = true } = {}) {
  const { soft, classes } = palette();
  let [low, high] = [Infinity, -Infinity];
  for (const v of grid.values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  const span = high - low || 1;
  const depth =
    grid.depth ??
    (grid.depth = {
      rows: grid.rows,
      columns: grid.columns,
      values: Float32Array.from(
        grid.values,
        (v) => 1 - Math.sqrt((downhill ? v - low : high - v) / span),
      ),
    });
  drawGrowing(context, axes, view, depth, classes[5]);
  context.globalAlpha = 0.6;
  for (let i = 1; i < 14; i++) {
    const share = (i / 14) ** 2;
    strokeAt(context, axes, view, grid, downhill ? low + share * span : high - share * span, {
      colour: soft,
      width: 1,
    });
  }
  context.globalAlpha = 1;
}

/** The whole answer to a fit, below the points. */
export function drawFit(context, axes, colours, fit, { component = 0 } = {}) {
  if (!fit) return;
  const { head, view, task } = fit;
  const { array } = head;
  if (task === "regress") return drawRegression(context, axes, colours, head);
  if (task === "density" && array.density) {
    const grid = (head.grid ??= layer(array.density));
    const most = drawGrowing(context, axes, view, grid);
    for (const share of [0.1, 0.25, 0.5, 0.75, 0.9])
      strokeAt(context, axes, view, grid, share * most, { colour: colours.ink, width: 1 });
  } else if (task === "pca" && array.components) {
    const index = Math.min(component, array.components.shape[0] - 1);
    head.layers ??= [];
    drawComponent(context, axes, view, (head.layers[index] ??= layer(array.components, index)));
  } else if (task === "cluster" && array.winner) {
    drawWinner(context, axes, view, (head.grid ??= layer(array.winner)));
  } else if (array.decision && array.decision.shape.length === 3) {
    drawClasses(context, axes, view, head);
  } else if (array.decision) {
    drawBoundary(context, axes, colours, fit);
  } else if (array.winner) {
    drawWinner(context, axes, view, (head.grid ??= layer(array.winner)));
  }
}

/** The colours below and above zero: of two labels, or of outside and inside. */
export function sides({ classes, line: outside }, labels) {
  return labels?.length === 2
    ? labels.map((label) => classes[label % classes.length])
    : [outside, classes[0]];
}

function drawBoundary(context, axes, colours, { head, view, task }) {
  const grid = (head.grid ??= layer(head.array.decision));
  const margins = head.margins ?? [0];
  const unit = task === "classify" && margins.length > 1 ? 1 : typical(head.array.value?.values);
  drawSigned(
    context,
    axes,
    view,
    grid,
    unit,
    sides(colours, task === "classify" ? head.classes : null),
  );
  for (const level of margins) {
    if (level !== 0)
      strokeAt(context, axes, view, grid, level, {
        colour: colours.ink,
        width: 1.25,
        dash: [6, 5],
      });
  }
  strokeAt(context, axes, view, grid, 0, { colour: colours.ink, width: 2.5 });
}

export function trace(context, axes, xs, ys) {
  let open = false;
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(ys[i])) open = false;
    else if (open) context.lineTo(axes.x(xs[i]), axes.y(ys[i]));
    else {
      context.moveTo(axes.x(xs[i]), axes.y(ys[i]));
      open = true;
    }
  }
}

function drawRegression(context, axes, colours, head) {
  const { x, mean, low, high } = head.array;
  if (!x || !mean) return;
  if (low && high) {
    context.save();
    context.globalAlpha = 0.14;
    context.fillStyle = colours.classes[1];
    context.beginPath();
    trace(context, axes, x.values, low.values);
    for (let i = x.values.length - 1; i >= 0; i--)
      context.lineTo(axes.x(x.values[i]), axes.y(high.values[i]));
    context.closePath();
    context.fill();
    context.restore();
    for (const edge of [low, high]) {
      context.strokeStyle = colours.classes[1];
      context.lineWidth = 1.25;
      context.setLineDash(head.band === "tube" ? [6, 5] : []);
      context.beginPath();
      trace(context, axes, x.values, edge.values);
      context.stroke();
      context.setLineDash([]);
    }
  }
  context.strokeStyle = colours.classes[1];
  context.lineWidth = 2.5;
  context.lineJoin = "round";
  context.beginPath();
  trace(context, axes, x.values, mean.values);
  context.stroke();
}

/** The points; support vectors are ringed and grow with α. */
export function drawPoints(
  context,
  axes,
  colours,
  {
    points,
    fit = null,
    labelled = true,
    groups = null,
    highlight = [],
    values = null,
    most = null,
  },
) {
  const crowd = points.length > 250 ? 3.6 : points.length > 80 ? 4.6 : 5.6;
  const small = crowd * Math.max(0.62, Math.min(1, Math.min(axes.box.w, axes.box.h) / 460));
  const { alpha, kkt } = fit?.head.array ?? {};
  const weights = values ?? (alpha?.values.length === points.length ? alpha.values : null);
  let top = most ?? fit?.head.upper ?? 0;
  if (weights && !(top > 0 && Number.isFinite(top)))
    for (const w of weights) top = Math.max(top, w);
  const usable = weights && weights.length === points.length && top > 0;
  points.forEach(([x, y, label], i) => {
    const [px, py] = [axes.x(x), axes.y(y)];
    const group = groups ? groups[i] : labelled ? label : 0;
    const share = usable ? Math.min(1, Math.abs(weights[i]) / top) : 0;
    const r = share > 1e-9 ? small + small * 0.9 * Math.sqrt(share) : small * (usable ? 0.8 : 1);
    drawPoint(context, px, py, { group, r });
    if (share > 1e-9) {
      tracePoint(context, group === null ? "circle" : marker(group), px, py, r + 2.5);
      context.lineWidth = kkt?.values[i] === 2 ? 2.25 : 1.5;
      context.strokeStyle = kkt?.values[i] === 2 ? colours.strong : colours.ink;
      context.stroke();
    }
    if (highlight.includes(i)) {
      context.beginPath();
      context.arc(px, py, r + 8, 0, 2 * Math.PI);
      context.lineWidth = 2.5;
      context.strokeStyle = colours.strong;
      context.stroke();
    }
  });
}

const NAMED_AREA = 25000; // pixels for each point whose slack is written beside it

/** Slack: from a point to its margin, or as a number where the margin is not near. */
export function drawSlack(context, axes, colours, { points, fit, named = true }) {
  const { slack, foot } = fit?.head.array ?? {};
  if (!slack || slack.values.length !== points.length) return;
  const far = points.map((_, i) => i).filter((i) => slack.values[i] > 1e-9);
  context.save();
  context.strokeStyle = colours.strong;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const i of far)
    if (foot && Number.isFinite(foot.values[2 * i]))
      line(
        context,
        axes.x(points[i][0]),
        axes.y(points[i][1]),
        axes.x(foot.values[2 * i]),
        axes.y(foot.values[2 * i + 1]),
      );
  context.stroke();
  context.font = `600 11px ${colours.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const roomy = far.length * NAMED_AREA <= axes.box.w * axes.box.h;
  for (const i of named && roomy ? far : []) {
    const text = `ξ ${say(slack.values[i], 2)}`;
    const [x, y] = [axes.x(points[i][0]) + 11, axes.y(points[i][1]) - 11];
    context.globalAlpha = 0.8;
    context.fillStyle = colours.paper;
    context.fillRect(x - 2, y - 7, context.measureText(text).width + 4, 14);
    context.globalAlpha = 1;
    context.fillStyle = colours.strong;
    context.fillText(text, x, y);
  }
  context.restore();
}

/** Arrows and other straight lines over a landscape. */
export function arrow(context, x0, y0, x1, y1, size = 7) {
  context.beginPath();
  line(context, x0, y0, x1, y1);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  if (Math.hypot(x1 - x0, y1 - y0) > 2) {
    line(context, x1, y1, x1 - size * Math.cos(angle - 0.45), y1 - size * Math.sin(angle - 0.45));
    line(context, x1, y1, x1 - size * Math.cos(angle + 0.45), y1 - size * Math.sin(angle + 0.45));
  }
  context.stroke();
}
