// A drawing context that writes SVG: the part of CanvasRenderingContext2D the pictures
// use, so that a picture drawn on a canvas is exported by drawing it once more.

const escape = (text) =>
  String(text).replace(
    /[&<>"]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c],
  );
const short = (value) => String(Math.round(value * 100) / 100);

const START = {
  fillStyle: "#000000",
  strokeStyle: "#000000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "12px sans-serif",
  textAlign: "start",
  textBaseline: "alphabetic",
  lineCap: "butt",
  lineJoin: "miter",
  imageSmoothingEnabled: true,
};
const ANCHOR = { start: "start", left: "start", center: "middle", right: "end", end: "end" };
// Share of the font size by which a text's baseline is below the point it hangs on.
const DROP = { alphabetic: 0, middle: 0.35, top: 0.8, bottom: -0.2 };

export class SvgContext {
  constructor(width, height) {
    Object.assign(this, START);
    this.width = width;
    this.height = height;
    this.parts = [];
    this.defs = [];
    this.stack = [];
    this.dash = [];
    this.matrix = [1, 0, 0, 1, 0, 0];
    this.clipId = null;
    this.path = "";
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  save() {
    const kept = { matrix: [...this.matrix], dash: [...this.dash], clipId: this.clipId };
    for (const name of Object.keys(START)) kept[name] = this[name];
    this.stack.push(kept);
  }

  restore() {
    Object.assign(this, this.stack.pop());
  }

  translate(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    this.matrix = [a, b, c, d, a * x + c * y + e, b * x + d * y + f];
  }

  rotate(angle) {
    const [a, b, c, d, e, f] = this.matrix;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    this.matrix = [
      a * cos + c * sin,
      b * cos + d * sin,
      c * cos - a * sin,
      d * cos - b * sin,
      e,
      f,
    ];
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${short(x)} ${short(y)}`;
  }

  closePath() {
    this.path += "Z";
  }

  rect(x, y, w, h) {
    this.path += `M${short(x)} ${short(y)}h${short(w)}v${short(h)}h${short(-w)}Z`;
  }

  arc(x, y, r, from, to) {
    const start = [x + r * Math.cos(from), y + r * Math.sin(from)];
    const join = this.path ? "L" : "M";
    if (to - from >= 2 * Math.PI - 1e-9) {
      this.path += `M${short(x + r)} ${short(y)}a${short(r)} ${short(r)} 0 1 1 ${short(-2 * r)} 0`;
      this.path += `a${short(r)} ${short(r)} 0 1 1 ${short(2 * r)} 0Z`;
      return;
    }
    const end = [x + r * Math.cos(to), y + r * Math.sin(to)];
    const large = to - from > Math.PI ? 1 : 0;
    this.path += `${join}${start.map(short).join(" ")}A${short(r)} ${short(r)} 0 ${large} 1 ${end.map(short).join(" ")}`;
  }

  clip() {
    this.clipId = `clip${this.defs.length}`;
    this.defs.push(
      `<clipPath id="${this.clipId}"><path d="${this.path}"${this.#placed()}/></clipPath>`,
    );
  }

  fill() {
    this.#push(`<path d="${this.path}" fill="${this.fillStyle}"`);
  }

  stroke() {
    this.#push(`<path d="${this.path}" fill="none"${this.#stroked()}`);
  }

  fillRect(x, y, w, h) {
    const box = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;
    this.#push(`<rect ${box} fill="${this.fillStyle}"`);
  }

  strokeRect(x, y, w, h) {
    const box = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;
    this.#push(`<rect ${box} fill="none"${this.#stroked()}`);
  }

  clearRect() {}

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  fillText(text, x, y) {
    const [, weight, size, family] = /^(?:(\S+) )?(\d+(?:\.\d+)?)px (.*)$/.exec(this.font);
    const drop = DROP[this.textBaseline] * Number(size);
    const look = `font-size="${size}" font-family="${escape(family)}"${weight ? ` font-weight="${weight}"` : ""}`;
    this.#push(
      `<text x="${short(x)}" y="${short(y + drop)}" text-anchor="${ANCHOR[this.textAlign]}" ${look} fill="${this.fillStyle}"`,
      `${escape(text)}</text>`,
    );
  }

  drawImage(image, x, y, w, h) {
    const box = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;
    const rendering = this.imageSmoothingEnabled ? "" : ' style="image-rendering: pixelated"';
    this.#push(`<image ${box} preserveAspectRatio="none" href="${image.toDataURL()}"${rendering}`);
  }

  text() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n<defs>${this.defs.join("")}</defs>\n${this.parts.join("\n")}\n</svg>\n`;
  }

  #stroked() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.map(short).join(" ")}"` : "";
    return ` stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}" stroke-linecap="${this.lineCap}" stroke-linejoin="${this.lineJoin}"${dash}`;
  }

  #placed() {
    const moved = this.matrix.some((value, i) => value !== [1, 0, 0, 1, 0, 0][i]);
    return moved
      ? ` transform="matrix(${this.matrix.map((v) => Math.round(v * 1e5) / 1e5).join(" ")})"`
      : "";
  }

  #push(start, inside = null) {
    const faded = this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : "";
    const end = inside === null ? "/>" : `>${inside}`;
    const element = `${start}${faded}${this.#placed()}${end}`;
    // A clip is stated in the page's coordinates, the element may be moved: a group of its own.
    this.parts.push(this.clipId ? `<g clip-path="url(#${this.clipId})">${element}</g>` : element);
  }
}
