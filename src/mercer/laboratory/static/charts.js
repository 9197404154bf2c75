// Bars, curves, matrices: drawn from numbers that the server computed.

import { Axes, extent, inner, line, say } from "./axes.js";
import { raster } from "./contours.js";
import { diverging, growing } from "./colours.js";

/** Text in the middle of an empty picture. */
export function note(context, width, height, colours, text) {
  context.save();
  context.fillStyle = colours.soft;
  context.font = `13px ${colours.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, width / 2, height / 2);
  context.restore();
}

/**
 * Curves on shared axes. Each series: {x, y, colour, dash, width, name, dots, fill}.
 * `marks` are vertical lines {x, colour, text}.
 */
export function drawCurves(context, width, height, colours, options) {
  const {
    series,
    labels,
    logX = false,
    logY = false,
    marks = [],
    range = {},
    legend = true,
  } = options;
  const positive = (v) => Number.isFinite(v) && v > 0;
  const xs = series.flatMap((s) => Array.from(s.x)).filter(logX ? positive : Number.isFinite);
  const ys = series.flatMap((s) => Array.from(s.y)).filter(logY ? positive : Number.isFinite);
  if (!xs.length || !ys.length) {
    note(context, width, height, colours, options.empty ?? "nothing to draw yet");
    return null;
  }
  const bounds = (values, log, given) => given ?? (log ? widened(values) : extent(values, 0.05));
  const room = { left: 44, right: 14, ...options.room };
  const named = legend ? series.filter((s) => s.name) : [];
  const rows = legendRows(context, colours, named, labels[1], width - room.left - room.right);
  const box = inner(width, height, {
    ...room,
    top: rows.length || labels[1] ? 10 + LEGEND_ROW * Math.max(1, rows.length) : 10,
    bottom: labels[0] ? 36 : 22,
  });
  const xRange = bounds(
    xs,
    logX,
    range.x ?? (logX ? null : [Math.min(...xs), Math.max(...xs) || 1]),
  );
  if (xRange[0] === xRange[1]) xRange[1] = xRange[0] + 1;
  const axes = new Axes([...xRange, ...bounds(ys, logY, range.y)], box, { logX, logY });
  axes.frame(context, colours, {
    labels,
    across: Math.max(2, Math.round(box.w / 80)),
    up: Math.max(2, Math.round(box.h / 44)),
  });
  context.save();
  context.beginPath();
  context.rect(box.x, box.y - 2, box.w + 2, box.h + 4);
  context.clip();
  for (const mark of marks) {
    context.strokeStyle = mark.colour ?? colours.soft;
    context.lineWidth = 1.5;
    context.setLineDash([4, 4]);
    context.beginPath();
    line(context, axes.x(mark.x), box.y, axes.x(mark.x), box.y + box.h);
    context.stroke();
    context.setLineDash([]);
  }
  for (const s of series) drawSeries(context, axes, s, logX, logY);
  context.restore();
  rows.forEach((row, i) =>
    drawLegend(context, box, colours, row, box.y - 13 - LEGEND_ROW * (rows.length - 1 - i)),
  );
  return axes;
}

function widened(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? [low / 2, high * 2] : [low / 1.3, high * 1.3];
}

function drawSeries(context, axes, s, logX, logY) {
  const ok = (i) =>
    Number.isFinite(s.x[i]) &&
    Number.isFinite(s.y[i]) &&
    (!logX || s.x[i] > 0) &&
    (!logY || s.y[i] > 0);
  context.strokeStyle = s.colour;
  context.lineWidth = s.width ?? 2;
  context.lineJoin = "round";
  context.setLineDash(s.dash ?? []);
  if (!s.noLine) {
    context.beginPath();
    let open = false;
    for (let i = 0; i < s.x.length; i++) {
      if (!ok(i)) open = false;
      else if (open) context.lineTo(axes.x(s.x[i]), axes.y(s.y[i]));
      else {
        context.moveTo(axes.x(s.x[i]), axes.y(s.y[i]));
        open = true;
      }
    }
    context.stroke();
  }
  context.setLineDash([]);
  if (!s.dots) return;
  context.fillStyle = s.colour;
  for (let i = 0; i < s.x.length; i++) {
    if (!ok(i)) continue;
    context.beginPath();
    context.arc(axes.x(s.x[i]), axes.y(s.y[i]), s.dots === true ? 3 : s.dots, 0, 2 * Math.PI);
    context.fill();
  }
}

const LEGEND_ROW = 16; // pixels
const legendWidth = (context, { name }) => context.measureText(name).width + 38;

/** Named curves in rows that fit; the last leaves room for the name of the axis. */
function legendRows(context, colours, series, label, width) {
  context.font = `12px ${colours.font}`;
  const taken = label ? context.measureText(label).width + 16 : 0;
  const rows = [];
  let left = 0;
  for (const one of series.toReversed()) {
    const wanted = legendWidth(context, one);
    if (!rows.length || wanted > left) {
      left = width - (rows.length ? 0 : taken);
      rows.unshift([]);
    }
    left -= wanted;
    rows[0].unshift(one);
  }
  return rows;
}

/** The names of some curves in a row above them. */
function drawLegend(context, box, colours, series, y) {
  context.save();
  context.font = `12px ${colours.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const widths = series.map((s) => legendWidth(context, s));
  let x = box.x + box.w - widths.reduce((a, b) => a + b, 0) + 12;
  series.forEach((s, i) => {
    context.strokeStyle = s.colour;
    context.lineWidth = s.width ?? 2;
    context.setLineDash(s.dash ?? []);
    context.beginPath();
    line(context, x, y, x + 18, y);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colours.ink;
    context.fillText(s.name, x + 24, y);
    x += widths[i];
  });
  context.restore();
}

/** Bars: {values, colours (one each), limit (a dashed line), selected, labels}. Returns what stands under x. */
export function drawBars(context, width, height, colours, options) {
  const {
    values,
    tints,
    limit = null,
    labels = ["", ""],
    selected = -1,
    names = null,
    log = false,
  } = options;
  if (!values.length) {
    note(context, width, height, colours, options.empty ?? "nothing to draw yet");
    return () => -1;
  }
  const box = inner(width, height, {
    top: labels[1] ? 24 : 10,
    bottom: names || labels[0] ? 22 : 12,
    ...options.room,
  });
  const least = Math.min(0, ...values);
  const tallest = Math.max(...values, 0);
  // A limit far above all bars would flatten them.
  const near = limit !== null && limit <= 4 * tallest;
  const most = Math.max(tallest, near ? limit : 0) || 1;
  const positive = values.filter((v) => v > 0);
  const floor = log && positive.length ? Math.max(Math.min(...positive), most * 1e-12) / 2 : 0;
  const range = [0, values.length, log ? floor : least * 1.08, most * (log ? 1.5 : 1.08)];
  const axes = new Axes(range, box, { logY: log });
  axes.frame(context, colours, { labels, xTicks: [], up: Math.max(2, Math.round(box.h / 40)) });
  const step = box.w / values.length;
  const bar = Math.max(1, Math.min(step - (step > 4 ? 2 : 0), 36));
  const base = log ? box.y + box.h : axes.y(0);
  values.forEach((value, i) => {
    const top = log && value <= floor ? base : axes.y(value);
    context.fillStyle = tints[i];
    const x = box.x + step * (i + 0.5) - bar / 2;
    context.fillRect(x, Math.min(top, base), bar, Math.max(1, Math.abs(base - top)));
    if (i === selected) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(x - 1, Math.min(top, base) - 1, bar + 2, Math.abs(base - top) + 2);
    }
    if (names && step > 14) {
      context.fillStyle = colours.soft;
      context.font = `11px ${colours.font}`;
      context.textAlign = "center";
      context.textBaseline = "top";
      context.fillText(names[i], box.x + step * (i + 0.5), box.y + box.h + 5);
    }
  });
  if (near) {
    context.strokeStyle = colours.ink;
    context.setLineDash([5, 4]);
    context.lineWidth = 1;
    context.beginPath();
    line(context, box.x, axes.y(limit), box.x + box.w, axes.y(limit));
    context.stroke();
    context.setLineDash([]);
  }
  return (x) => {
    const i = Math.floor((x - box.x) / step);
    return i >= 0 && i < values.length ? i : -1;
  };
}

/** A matrix as a square of colours, with numbers where they fit. Returns (x, y) -> [row, column]. */
export function drawMatrix(context, width, height, colours, options) {
  const { values, size, columns = size, selected = null, names = null, digits = 2 } = options;
  if (!size) {
    note(context, width, height, colours, options.empty ?? "nothing to draw yet");
    return () => null;
  }
  const room = names ? 64 : 0;
  const side = Math.min((width - room - 2) / columns, (height - (names ? 24 : 0) - 2) / size);
  const [x0, y0] = [
    Math.round((width - room - side * columns) / 2 + room),
    names ? 24 : Math.max(1, (height - side * size) / 2),
  ];
  let most = 0;
  let least = 0;
  for (const value of values) {
    if (value > most) most = value;
    if (value < least) least = value;
  }
  const scale = Math.max(most, -least) || 1;
  const colour = (value) => (least < 0 ? diverging(value, scale) : growing(value / scale));
  const image = raster(columns, size, (i) => colour(values[i]));
  context.save();
  context.imageSmoothingEnabled = side * columns < columns;
  context.drawImage(image, x0, y0, side * columns, side * size);
  context.restore();
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.strokeRect(x0 - 0.5, y0 - 0.5, side * columns + 1, side * size + 1);
  context.textAlign = "center";
  context.textBaseline = "middle";
  if (side >= 34) {
    context.font = `${side >= 48 ? 12 : 11}px ${colours.font}`;
    for (let r = 0; r < size; r++) {
      for (let c = 0; c < columns; c++) {
        const [red, green, blue] = colour(values[r * columns + c]);
        const dark = 0.299 * red + 0.587 * green + 0.114 * blue < 140;
        context.fillStyle = dark ? "#ffffff" : "#10141a";
        const fits = (text) => context.measureText(text).width <= side - 4;
        const text = [say(values[r * columns + c], digits), say(values[r * columns + c], 1)].find(
          fits,
        );
        if (text) context.fillText(text, x0 + side * (c + 0.5), y0 + side * (r + 0.5));
      }
    }
  }
  if (names) {
    context.font = `12px ${colours.mono}`;
    context.fillStyle = colours.soft;
    for (let r = 0; r < size; r++) {
      context.textAlign = "right";
      context.fillText(clipped(names[r], 8), x0 - 8, y0 + side * (r + 0.5));
      if (side >= 20) {
        context.textAlign = "center";
        context.fillText(
          clipped(names[r], Math.max(1, Math.floor(side / 8))),
          x0 + side * (r + 0.5),
          y0 - 12,
        );
      }
    }
  }
  if (selected) {
    context.strokeStyle = colours.strong;
    context.lineWidth = 2;
    context.strokeRect(x0 + side * selected[1], y0 + side * selected[0], side, side);
  }
  return (x, y) => {
    const [r, c] = [Math.floor((y - y0) / side), Math.floor((x - x0) / side)];
    return r >= 0 && r < size && c >= 0 && c < columns ? [r, c] : null;
  };
}

const clipped = (text, most) =>
  text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
