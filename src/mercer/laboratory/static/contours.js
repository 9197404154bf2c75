// Lines of one level through a grid of values, by marching squares, and fields of colour.

import { mix, palette } from "./colours.js";

/**
 * Lines of value = level, each a list of [column, row] in grid units, by marching squares:
 * the pieces inside of the cells, joined where they meet so that dashes run along them.
 * A saddle is resolved by the mean of its four corners.
 */
export function lines(values, columns, rows, level) {
  const pieces = [];
  const places = new Map(); // of the crossing on an edge of the grid, by the edge's number
  const meet = new Map(); // the pieces that end on an edge
  const crossing = (edge, from, to, x, y, dx, dy) => {
    const share = (level - from) / (to - from);
    if (!places.has(edge)) places.set(edge, [x + dx * share, y + dy * share]);
    return edge;
  };
  const join = (first, second) => {
    for (const edge of [first, second]) {
      if (meet.has(edge)) meet.get(edge).push(pieces.length);
      else meet.set(edge, [pieces.length]);
    }
    pieces.push([first, second]);
  };
  for (let r = 0; r + 1 < rows; r++) {
    for (let c = 0; c + 1 < columns; c++) {
      const at = r * columns + c;
      const [a, b, d, e] = [
        values[at],
        values[at + 1],
        values[at + columns],
        values[at + columns + 1],
      ];
      const key = (a > level) | ((b > level) << 1) | ((e > level) << 2) | ((d > level) << 3);
      if (key === 0 || key === 15 || !Number.isFinite(a + b + d + e)) continue;
      const top = () => crossing(2 * at, a, b, c, r, 1, 0);
      const bottom = () => crossing(2 * (at + columns), d, e, c, r + 1, 1, 0);
      const left = () => crossing(2 * at + 1, a, d, c, r, 0, 1);
      const right = () => crossing(2 * at + 3, b, e, c + 1, r, 0, 1);
      if (key === 5 || key === 10) {
        const joined = a + b + d + e > 4 * level === (key === 5);
        join(top(), joined ? right() : left());
        join(bottom(), joined ? left() : right());
      } else if (key === 1 || key === 14) join(left(), top());
      else if (key === 2 || key === 13) join(top(), right());
      else if (key === 4 || key === 11) join(right(), bottom());
      else if (key === 8 || key === 7) join(bottom(), left());
      else if (key === 3 || key === 12) join(left(), right());
      else join(top(), bottom());
    }
  }
  return chains(pieces, meet).map((chain) => chain.map((edge) => places.get(edge)));
}

/** Pieces [first edge, second edge] put together into lists of edges. */
function chains(pieces, meet) {
  const used = new Uint8Array(pieces.length);
  const follow = (edge, out) => {
    for (;;) {
      const next = meet.get(edge).find((piece) => !used[piece]);
      if (next === undefined) return out;
      used[next] = 1;
      edge = pieces[next][0] === edge ? pieces[next][1] : pieces[next][0];
      out.push(edge);
    }
  };
  const found = [];
  for (let i = 0; i < pieces.length; i++) {
    if (used[i]) continue;
    used[i] = 1;
    const [first, second] = pieces[i];
    const forth = follow(second, [second]);
    found.push([...follow(first, [first]).reverse(), ...forth]);
  }
  return found;
}

/** A chain drawn smoother, by means of three neighbours; its ends stay. */
function smoothed(chain, passes) {
  let now = chain;
  const closed = chain.length > 3 && chain[0] === chain.at(-1);
  for (let pass = 0; pass < passes && now.length > 3; pass++) {
    const last = now.length - 1;
    const mean = (p, q, r) => [(p[0] + 2 * q[0] + r[0]) / 4, (p[1] + 2 * q[1] + r[1]) / 4];
    const next = now.map((point, i) => {
      if (i > 0 && i < last) return mean(now[i - 1], point, now[i + 1]);
      return closed ? mean(now[last - 1], point, now[1]) : point;
    });
    now = next;
  }
  return now;
}

/**
 * Strokes the line value = level of `grid` in the box (x, y, w, h) of the page. Where the
 * values jump (labels, votes) a line between cells is a staircase: `passes` smooth it.
 */
export function strokeLevel(context, grid, level, box, passes = 0) {
  grid.lines ??= new Map();
  const key = `${level} ${passes}`;
  if (!grid.lines.has(key)) {
    const found = lines(grid.values, grid.columns, grid.rows, level);
    grid.lines.set(
      key,
      found.map((chain) => smoothed(chain, passes)),
    );
  }
  const sx = box.w / (grid.columns - 1);
  const sy = box.h / (grid.rows - 1);
  context.beginPath();
  for (const chain of grid.lines.get(key)) {
    chain.forEach(([c, r], i) => {
      if (i) context.lineTo(box.x + c * sx, box.y + r * sy);
      else context.moveTo(box.x + c * sx, box.y + r * sy);
    });
  }
  context.stroke();
}

/** A canvas of one pixel for each grid point; `paint(index)` gives its [r, g, b]. */
export function raster(columns, rows, paint) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0, o = 0; i < columns * rows; i++, o += 4) {
    const colour = paint(i);
    image.data[o] = colour[0];
    image.data[o + 1] = colour[1];
    image.data[o + 2] = colour[2];
    image.data[o + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const LEVELS = 65;

/** Colours from paper to `colour`, up to `strength`, in `LEVELS` steps. */
export function ramp(colour, strength) {
  const { paper } = palette();
  return Array.from({ length: LEVELS }, (_, i) =>
    mix(paper, colour, (strength * i) / (LEVELS - 1)),
  );
}

export function shade(ramps, share) {
  return ramps[Math.round(Math.max(0, Math.min(1, share)) * (LEVELS - 1))];
}

/** Draws a raster over a box so that pixel centres fall on the grid points. */
export function drawRaster(context, canvas, box, smooth = true) {
  const dx = box.w / (canvas.width - 1) / 2;
  const dy = box.h / (canvas.height - 1) / 2;
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.w, box.h);
  context.clip();
  context.imageSmoothingEnabled = smooth;
  context.drawImage(canvas, box.x - dx, box.y - dy, box.w + 2 * dx, box.h + 2 * dy);
  context.restore();
}
