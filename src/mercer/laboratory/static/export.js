// Pictures for elsewhere: all figures of the view on one sheet, as PNG or SVG.

import { palette } from "./colours.js";
import { figures } from "./figure.js";
import { SvgContext } from "./svg.js";

const ROOM = 16;

/** The figures on screen with their titles, placed as on the page. */
function sheet() {
  const shown = [...figures].filter((figure) => figure.visible && !figure.chip);
  const boxes = shown.map((figure) => {
    const { left, top, width, height } = figure.canvas.getBoundingClientRect();
    const title = figure.canvas.closest(".card")?.querySelector("h2")?.textContent ?? "";
    return { figure, left, top: top + window.scrollY, width, height, title };
  });
  if (!boxes.length) return null;
  const x0 = Math.min(...boxes.map((b) => b.left)) - ROOM;
  const y0 = Math.min(...boxes.map((b) => b.top - (b.title ? 28 : 0))) - ROOM;
  for (const box of boxes) [box.left, box.top] = [box.left - x0, box.top - y0];
  const width = Math.max(...boxes.map((b) => b.left + b.width)) + ROOM;
  const height = Math.max(...boxes.map((b) => b.top + b.height)) + ROOM;
  return { boxes, width: Math.ceil(width), height: Math.ceil(height) };
}

function drawSheet(context, { boxes, width, height }) {
  const colours = palette();
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  for (const box of boxes) {
    if (box.title) {
      context.font = `600 13px ${colours.font}`;
      context.fillStyle = colours.ink;
      context.textAlign = "left";
      context.textBaseline = "bottom";
      context.fillText(box.title, box.left, box.top - 8);
    }
    context.save();
    context.translate(box.left, box.top);
    context.beginPath();
    context.rect(0, 0, box.width, box.height);
    context.clip();
    box.figure.draw(context, box.figure.width, box.figure.height, colours);
    context.restore();
  }
}

export function svgText() {
  const all = sheet();
  if (!all) return null;
  const context = new SvgContext(all.width, all.height);
  drawSheet(context, all);
  return context.text();
}

export async function pngBlob(scale = 2) {
  const all = sheet();
  if (!all) return null;
  const canvas = document.createElement("canvas");
  canvas.width = all.width * scale;
  canvas.height = all.height * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  drawSheet(context, all);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
