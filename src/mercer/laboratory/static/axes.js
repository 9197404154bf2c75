// Axes: a box with ticks at round numbers, and the maps between data and pixels.

/** About `count` round numbers between low and high. */
export function ticks(low, high, count = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) {
    out.push(Number((i * step).toPrecision(12)));
  }
  return out;
}

/** Powers of ten between low and high, or round numbers where there are too few. */
export function logTicks(low, high) {
  const out = [];
  const step = Math.max(1, Math.ceil((Math.log10(high) - Math.log10(low)) / 6));
  for (let p = Math.ceil(Math.log10(low) - 1e-9); p <= Math.log10(high) + 1e-9; p += step)
    out.push(10 ** p);
  if (out.length >= 2) return out;
  return ticks(low, high, 3).filter((t) => t > 0);
}

/** A number in few characters, with a true minus sign. */
export function say(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text;
  if (size >= 1e5 || size < 1e-3) {
    const [head, power] = value.toExponential(digits - 1).split("e");
    text = `${head.replace(/\.?0+$/, "")}e${Number(power)}`;
  } else text = String(Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size))))));
  return text.replaceAll("-", "−");
}

export class Axes {
  /** The data range (x0, x1, y0, y1) in the box (x, y, w, h), y upwards. */
  constructor(range, box, { logX = false, logY = false } = {}) {
    this.range = range;
    this.box = box;
    this.logX = logX;
    this.logY = logY;
  }

  #share(value, low, high, log) {
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }

  x(value) {
    const [low, high] = this.range;
    return this.box.x + this.box.w * this.#share(value, low, high, this.logX);
  }

  y(value) {
    const [, , low, high] = this.range;
    return this.box.y + this.box.h * (1 - this.#share(value, low, high, this.logY));
  }

  dataX(pixel) {
    const [low, high] = this.range;
    return low + ((pixel - this.box.x) / this.box.w) * (high - low);
  }

  dataY(pixel) {
    const [, , low, high] = this.range;
    return low + (1 - (pixel - this.box.y) / this.box.h) * (high - low);
  }

  /** Frame, ticks and their numbers; `labels` are the names of the axes. */
  frame(
    context,
    colours,
    { labels = ["", ""], grid = true, across = 5, up = 4, xTicks = null, yTicks = null } = {},
  ) {
    const { x, y, w, h } = this.box;
    const [x0, x1, y0, y1] = this.range;
    context.save();
    context.font = `11px ${colours.font}`;
    context.lineWidth = 1;
    context.fillStyle = colours.soft;
    const xs = xTicks ?? (this.logX ? logTicks(x0, x1) : ticks(x0, x1, across));
    const ys = yTicks ?? (this.logY ? logTicks(y0, y1) : ticks(y0, y1, up));
    context.strokeStyle = colours.grid;
    context.beginPath();
    for (const t of grid ? xs : []) line(context, this.x(t), y, this.x(t), y + h);
    for (const t of grid ? ys : []) line(context, x, this.y(t), x + w, this.y(t));
    context.stroke();
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const t of xs) context.fillText(say(t), this.x(t), y + h + 5);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const t of ys) context.fillText(say(t), x - 6, this.y(t));
    context.strokeStyle = colours.line;
    context.beginPath();
    line(context, x, y + h, x + w, y + h);
    line(context, x, y, x, y + h);
    context.stroke();
    context.font = `12px ${colours.font}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    if (labels[0]) context.fillText(labels[0], x + w, y + h + (xs.length ? 26 : 10));
    context.textAlign = "left";
    if (labels[1]) context.fillText(labels[1], x - 4, y - 12);
    context.restore();
  }
}

export function line(context, x0, y0, x1, y1) {
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
}

/** The box that is left for a chart beside its numbers. */
export function inner(width, height, { left = 44, right = 14, top = 24, bottom = 34 } = {}) {
  return {
    x: left,
    y: top,
    w: Math.max(10, width - left - right),
    h: Math.max(10, height - top - bottom),
  };
}

/** The range of finite values, a little wider; never empty. */
export function extent(values, slack = 0.06) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  return [low - slack * (high - low), high + slack * (high - low)];
}

/** A view made wider on one side so that circles stay round in a box. */
export function widened({ x, y }, width, height, equal = true) {
  if (!equal || !width || !height) return { x, y };
  const unit = Math.max((x[1] - x[0]) / width, (y[1] - y[0]) / height);
  const wide = ([low, high], size) => [
    (low + high - unit * size) / 2,
    (low + high + unit * size) / 2,
  ];
  return { x: wide(x, width), y: wide(y, height) };
}

/** Axes that fill a canvas with a view. */
export function planeAxes(view, width, height, equal = true) {
  const { x, y } = widened(view, width, height, equal);
  return new Axes([...x, ...y], { x: 0, y: 0, w: width, h: height });
}
