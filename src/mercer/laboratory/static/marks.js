// Points: one shape for each class, so that colour is never the only sign.

import { marker, palette } from "./colours.js";

export function tracePoint(context, kind, x, y, r) {
  context.beginPath();
  if (kind === "circle") context.arc(x, y, r, 0, 2 * Math.PI);
  else if (kind === "square") context.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  else if (kind === "triangle") polygon(context, x, y + r * 0.15, r * 1.2, 3, -Math.PI / 2);
  else if (kind === "diamond") polygon(context, x, y, r * 1.2, 4, 0);
  else if (kind === "flip") polygon(context, x, y - r * 0.15, r * 1.2, 3, Math.PI / 2);
  else plus(context, x, y, r * 1.15, r * 0.42);
}

function polygon(context, x, y, r, corners, start) {
  for (let i = 0; i < corners; i++) {
    const angle = start + (2 * Math.PI * i) / corners;
    const at = [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    if (i) context.lineTo(...at);
    else context.moveTo(...at);
  }
  context.closePath();
}

function plus(context, x, y, r, t) {
  const corners = [
    [-t, -r],
    [t, -r],
    [t, -t],
    [r, -t],
    [r, t],
    [t, t],
    [t, r],
    [-t, r],
    [-t, t],
    [-r, t],
    [-r, -t],
    [-t, -t],
  ];
  corners.forEach(([dx, dy], i) =>
    i ? context.lineTo(x + dx, y + dy) : context.moveTo(x + dx, y + dy),
  );
  context.closePath();
}

/** A point of a class (null: none), with a thin edge that keeps it apart from its ground. */
export function drawPoint(
  context,
  x,
  y,
  { group = null, r = 5, hollow = false, edge = null } = {},
) {
  const { classes, paper, soft, edge: around } = palette();
  const colour = group === null ? soft : classes[group % classes.length];
  tracePoint(context, group === null ? "circle" : marker(group), x, y, r);
  context.fillStyle = hollow ? paper : colour;
  context.fill();
  context.lineWidth = hollow ? 2 : 1;
  context.strokeStyle = hollow ? colour : (edge ?? around);
  context.stroke();
}
