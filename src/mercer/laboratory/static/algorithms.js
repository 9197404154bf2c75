// How each recorded algorithm is drawn and told, frame by frame.
//
// main(run, at) and second(run, at) return a function that draws on a canvas (second:
// null where there is one picture only); curve and bars return options of charts.js;
// tell returns {text, facts}.

import { Axes, inner, line, planeAxes, say } from "./axes.js";
import {
  arrow,
  drawComponent,
  drawLandscape,
  drawPoints,
  drawSigned,
  drawWinner,
  layer,
  sides,
  strokeAt,
} from "./field.js";
import { drawPoint } from "./marks.js";
import { drawRulers } from "./plane.js";

/** Row `at` of an array (frames, m). */
export const rowOf = (array, at) =>
  array.values.subarray(at * array.shape[1], (at + 1) * array.shape[1]);
const range = (count) => Array.from({ length: count }, (_, i) => i);
const upTo = (array, at) => Array.from(array.values.subarray(0, at + 1));

/** A grid of a run, kept so that its raster is made once. */
function gridOf(run, name, at) {
  run.grids ??= {};
  return (run.grids[`${name} ${at}`] ??= layer(run.array[name], at));
}

const axesOf = (run, width, height) => planeAxes(run.tight, width, height, run.task !== "regress");

/** The plane after frame `at`, with what `extra(context, axes, colours)` adds. */
function planePicture(
  run,
  at,
  {
    values = null,
    highlight = [],
    groups = null,
    extra = null,
    margins = false,
    ground = true,
  } = {},
) {
  if (!run.points.length) return null;
  return (context, width, height, colours) => {
    const axes = axesOf(run, width, height);
    if (run.array.decision && ground) {
      const grid = gridOf(run, "decision", at);
      const unit = margins ? 1 : typical(grid.values);
      drawSigned(
        context,
        axes,
        run.view,
        grid,
        unit,
        sides(colours, run.task === "classify" ? run.labels : null),
      );
      for (const level of margins ? [-1, 1] : [])
        strokeAt(context, axes, run.view, grid, level, {
          colour: colours.ink,
          width: 1.25,
          dash: [6, 5],
        });
      strokeAt(context, axes, run.view, grid, 0, { colour: colours.ink, width: 2.5 });
    } else if (run.array.winner) {
      drawWinner(context, axes, run.view, gridOf(run, "winner", at));
    }
    drawRulers(context, axes, colours);
    let most = 0;
    for (const v of values ?? []) most = Math.max(most, Math.abs(v));
    drawPoints(context, axes, colours, {
      points: run.points,
      labelled: run.task === "classify",
      values,
      most: most || null,
      highlight,
      groups,
    });
    extra?.(context, axes, colours);
  };
}

function typical(values) {
  let sum = 0;
  for (const v of values) sum += Math.abs(v);
  return sum / values.length || 1;
}

/** A square box of axes in the middle of a canvas. */
function squareAxes(width, height, [x0, x1], [y0, y1]) {
  const room = inner(width, height, { left: 52, right: 20, top: 32, bottom: 44 });
  const side = Math.min(room.w, room.h);
  const box = {
    x: room.x + (room.w - side) / 2,
    y: room.y + (room.h - side) / 2,
    w: side,
    h: side,
  };
  return new Axes([x0, x1, y0, y1], box);
}

const landscapeView = ([x0, x1], [y0, y1]) => ({ x: [x0, x1], y: [y0, y1] });

function dot(context, axes, [x, y], colour, { hollow = false, r = 6 } = {}) {
  context.beginPath();
  context.arc(axes.x(x), axes.y(y), r, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = 2.5;
  if (hollow) context.stroke();
  else context.fill();
}

function caption(context, axes, [x, y], text, colours, [dx, dy] = [9, -9]) {
  context.font = `600 12px ${colours.font}`;
  context.textAlign = dx < 0 ? "right" : "left";
  context.textBaseline = "middle";
  const width = context.measureText(text).width;
  // Beyond the right edge a caption turns to the other side of its point.
  if (dx > 0 && axes.x(x) + dx + width > axes.box.x + axes.box.w + 16) {
    dx = -dx;
    context.textAlign = "right";
  }
  const at = [axes.x(x) + dx, axes.y(y) + dy];
  context.globalAlpha = 0.85;
  context.fillStyle = colours.paper;
  context.fillRect(at[0] - (dx < 0 ? width : 0) - 3, at[1] - 8, width + 6, 16);
  context.globalAlpha = 1;
  context.fillStyle = colours.ink;
  context.fillText(text, ...at);
}

/** The box of two variables, the line they may move on, [L, H] and the clipped step. */
function smoBox(run, at) {
  if (at === 0) return planePicture(run, 0, { values: rowOf(run.array.alpha, 0), margins: true });
  const step = run.steps[at - 1];
  return (context, width, height, colours) => {
    const axes = squareAxes(width, height, step.frame, step.frame);
    drawLandscape(
      context,
      axes,
      landscapeView(step.frame, step.frame),
      gridOf(run, "landscape", at - 1),
    );
    axes.frame(context, colours, {
      labels: [`α${sub(step.i + 1)}`, `α${sub(step.j + 1)}`],
      grid: false,
    });
    const [x0, x1, y0, y1] = [
      Math.max(step.lower[0], step.frame[0]),
      Math.min(step.upper[0] ?? Infinity, step.frame[1]),
      Math.max(step.lower[1], step.frame[0]),
      Math.min(step.upper[1] ?? Infinity, step.frame[1]),
    ];
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.strokeRect(axes.x(x0), axes.y(y1), axes.x(x1) - axes.x(x0), axes.y(y0) - axes.y(y1));
    const on = (second) => [step.before[0] + step.slope * (second - step.before[1]), second];
    context.save();
    context.beginPath();
    context.rect(axes.box.x, axes.box.y, axes.box.w, axes.box.h);
    context.clip();
    stroke(context, axes, on(step.frame[0] - 1), on(step.frame[1] + 1), colours.soft, 1.5, [5, 5]);
    stroke(context, axes, on(step.ends[0]), on(step.ends[1]), colours.classes[2], 5);
    context.restore();
    context.strokeStyle = colours.strong;
    context.lineWidth = 2.5;
    arrow(
      context,
      axes.x(step.before[0]),
      axes.y(step.before[1]),
      axes.x(step.after[0]),
      axes.y(step.after[1]),
      10,
    );
    if (step.clipped) dot(context, axes, step.wanted, colours.soft, { hollow: true });
    dot(context, axes, step.before, colours.ink, { r: 4.5 });
    dot(context, axes, step.after, colours.strong);
    const gap = Math.hypot(
      axes.x(step.before[0]) - axes.x(step.after[0]),
      axes.y(step.before[1]) - axes.y(step.after[1]),
    );
    caption(context, axes, on(step.ends[0]), "L", colours, [10, 12]);
    caption(context, axes, on(step.ends[1]), "H", colours, [10, 12]);
    if (gap > 24) caption(context, axes, step.before, "before", colours, [-10, -12]);
    caption(context, axes, step.after, "after", colours, [10, -14]);
    if (step.clipped) caption(context, axes, step.wanted, "wanted", colours, [10, 0]);
  };
}

function stroke(context, axes, from, to, colour, width, dash = []) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  line(context, axes.x(from[0]), axes.y(from[1]), axes.x(to[0]), axes.y(to[1]));
  context.stroke();
  context.setLineDash([]);
}

const DIGITS = "₀₁₂₃₄₅₆₇₈₉";
export const sub = (number) => String(number).replace(/\d/g, (d) => DIGITS[d]);
const pairText = ([a, b]) => `${say(a)}, ${say(b)}`;

const smo = {
  title: "SMO",
  barsTitle: "Dual variables α",
  main: smoBox,
  second: (run, at) =>
    at === 0
      ? null
      : planePicture(run, at, {
          values: rowOf(run.array.alpha, at),
          highlight: [run.steps[at - 1].i, run.steps[at - 1].j],
          margins: true,
        }),
  curve: (run, at, colours) => {
    const x = range(run.frames);
    const series = [];
    if (run.array.primal)
      series.push({
        x: x.slice(0, at + 1),
        y: upTo(run.array.primal, at),
        colour: colours.classes[1],
        name: "primal",
      });
    if (run.array.dual)
      series.push({
        x: x.slice(0, at + 1),
        y: upTo(run.array.dual, at),
        colour: colours.classes[0],
        name: "dual",
      });
    return { series, labels: ["steps", ""], range: { x: [0, Math.max(1, run.frames - 1)] } };
  },
  bars: (run, at, colours) => {
    const values = Array.from(rowOf(run.array.alpha, at));
    const step = run.steps[at - 1];
    return {
      values,
      tints: values.map((_, i) =>
        step && (i === step.i || i === step.j) ? colours.strong : colours.classes[2],
      ),
      labels: ["", "α"],
    };
  },
  tell: (run, at) => {
    if (at === 0)
      return {
        text: "All dual variables are zero. The solver takes the pair that violates the optimality conditions most.",
        facts: [["violation", say(run.array.violation?.values[0])]],
      };
    const s = run.steps[at - 1];
    const clip = s.clipped
      ? "The best point of the line lies outside of the box, so the step is clipped to its end."
      : "The best point of the line lies inside of the box.";
    return {
      text: `Points ${s.i + 1} and ${s.j + 1} move along the line that keeps Σ yα. ${clip}`,
      facts: [
        ["before", pairText(s.before)],
        ["wanted", pairText(s.wanted)],
        ["[L, H]", pairText(s.ends)],
        ["after", pairText(s.after)],
        ["violation", say(s.violation)],
        ["bias", say(run.array.bias?.values[at])],
      ],
    };
  },
};

const coordinate = {
  title: "Coordinate ascent",
  barsTitle: "Variables",
  main: (run, at) => (context, width, height, colours) => {
    const [xs, ys] = run.frame;
    const axes = squareAxes(width, height, xs, ys);
    drawLandscape(context, axes, landscapeView(xs, ys), gridOf(run, "landscape", 0));
    const [i, j] = run.shown ?? [0, 1];
    axes.frame(context, colours, { labels: [`a${sub(i + 1)}`, `a${sub(j + 1)}`], grid: false });
    const place = (frame) => [rowOf(run.array.path, frame)[i], rowOf(run.array.path, frame)[j]];
    context.strokeStyle = colours.strong;
    context.lineWidth = 2.5;
    for (let k = 1; k <= at; k++) {
      const [from, to] = [place(k - 1), place(k)];
      if (k === at)
        arrow(context, axes.x(from[0]), axes.y(from[1]), axes.x(to[0]), axes.y(to[1]), 10);
      else stroke(context, axes, from, to, colours.strong, 2);
    }
    dot(context, axes, place(0), colours.ink, { r: 4.5 });
    dot(context, axes, place(at), colours.strong);
  },
  second: (run, at) =>
    run.array.decision
      ? planePicture(run, at, {
          values: rowOf(run.array.path, at),
          highlight: at ? [run.steps[at - 1].i] : [],
          margins: true,
        })
      : null,
  curve: (run, at, colours) => ({
    series: [
      {
        x: range(at + 1),
        y: upTo(run.array.objective, at),
        colour: colours.classes[0],
        name: "objective",
      },
    ],
    labels: ["steps", ""],
    range: { x: [0, Math.max(1, run.frames - 1)] },
  }),
  bars: (run, at, colours) => {
    const values = Array.from(rowOf(run.array.path, at));
    return {
      values,
      tints: values.map((_, i) =>
        at && i === run.steps[at - 1].i ? colours.strong : colours.classes[2],
      ),
      names: values.length <= 12 ? values.map((_, i) => `a${sub(i + 1)}`) : null,
    };
  },
  tell: (run, at) => {
    if (at === 0)
      return {
        text: "One variable at a time goes to the best value for it while the others stand still.",
        facts: [["objective", say(run.array.objective.values[0], 5)]],
      };
    const s = run.steps[at - 1];
    return {
      text: `Variable ${s.i + 1} goes from ${say(s.before)} to ${say(s.after)}.`,
      facts: [["objective", say(run.array.objective.values[at], 5)]],
    };
  },
};

/** A name of a picture in its upper left corner. */
function title(context, axes, colours, text) {
  context.font = `600 13px ${colours.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.globalAlpha = 0.85;
  context.fillStyle = colours.paper;
  context.fillRect(axes.box.x + 8, axes.box.y + 8, context.measureText(text).width + 12, 24);
  context.globalAlpha = 1;
  context.fillStyle = colours.ink;
  context.fillText(text, axes.box.x + 14, axes.box.y + 20);
}

/** The points sized by their counts, and f = Σ countᵢ yᵢ k(xᵢ, ·). */
const dualPerceptron = (run, at) =>
  planePicture(run, at, {
    values: rowOf(run.array.counts, at),
    highlight: at ? [run.steps[at - 1].point] : [],
    extra: (context, axes, colours) =>
      title(context, axes, colours, "Dual: points sized by their counts"),
  });

/** The line ⟨w, x⟩ + b = 0, and w where the line is nearest to 0. */
function primalLine(context, axes, colours, w) {
  const length = Math.hypot(w[0], w[1]);
  if (!Number.isFinite(length) || !length) return;
  const unit = [w[0] / length, w[1] / length];
  const foot = [(-w[2] / length) * unit[0], (-w[2] / length) * unit[1]];
  const [x, y] = [axes.x(foot[0]), axes.y(foot[1])];
  const far = 2 * (axes.box.w + axes.box.h);
  context.strokeStyle = colours.ink;
  context.lineWidth = 2.5;
  context.beginPath();
  line(context, x - far * unit[1], y - far * unit[0], x + far * unit[1], y + far * unit[0]);
  context.stroke();
  const size = 70;
  context.strokeStyle = colours.strong;
  arrow(context, x, y, x + size * unit[0], y - size * unit[1], 10);
  context.font = `600 13px ${colours.font}`;
  context.fillStyle = colours.strong;
  context.fillText("w", x + (size + 12) * unit[0], y - (size + 12) * unit[1]);
}

const perceptron = {
  title: "Perceptron",
  barsTitle: "Counts of mistakes",
  main: (run, at) =>
    !run.array.weights
      ? dualPerceptron(run, at)
      : planePicture(run, at, {
          ground: false,
          highlight: at ? [run.steps[at - 1].point] : [],
          extra: (context, axes, colours) => {
            title(context, axes, colours, "Primal: the line of w and b");
            primalLine(context, axes, colours, rowOf(run.array.weights, at));
          },
        }),
  second: (run, at) => (run.array.weights ? dualPerceptron(run, at) : null),
  curve: (run, at, colours) => {
    const series = [
      {
        x: range(at + 1),
        y: upTo(run.array.mistakes, at),
        colour: colours.classes[0],
        name: "mistakes",
      },
    ];
    const bound = run.bound?.value;
    if (bound != null)
      series.push({
        x: [0, Math.max(1, run.frames - 1)],
        y: [bound, bound],
        colour: colours.strong,
        dash: [6, 5],
        name: "bound (R‖w‖)²",
      });
    return {
      series,
      labels: ["updates", ""],
      logY: bound != null && bound > 50 * run.frames,
      range: { x: [0, Math.max(1, run.frames - 1)] },
    };
  },
  bars: (run, at, colours) => {
    const values = Array.from(rowOf(run.array.counts, at));
    return {
      values,
      tints: values.map((_, i) =>
        at && i === run.steps[at - 1].point ? colours.strong : colours.classes[2],
      ),
      labels: ["", "count"],
    };
  },
  tell: (run, at) => {
    const facts = [
      ["mistakes", say(run.array.mistakes.values[at])],
      ["bound", run.bound ? say(run.bound.value) : "none: not separated"],
    ];
    const w = run.array.weights && rowOf(run.array.weights, at);
    if (w && Number.isFinite(w[0])) facts.push(["w", pairText(w)], ["b", say(w[2])]);
    if (at === 0) return { text: "No mistakes yet: f is zero everywhere.", facts };
    const s = run.steps[at - 1];
    return {
      text: `Pass ${s.pass}: point ${s.point + 1} is on the wrong side (f = ${say(s.value)}); its count goes up by one, and the boundary turns towards it.`,
      facts,
    };
  },
};

const sgd = {
  title: "SGD",
  barsTitle: "Coefficients",
  main: (run, at) =>
    planePicture(run, at, {
      values: rowOf(run.array.coef, at).map(Math.abs),
      highlight: at ? [run.steps[at - 1].point] : [],
    }),
  second: () => null,
  curve: (run, at, colours) => ({
    series: [
      {
        x: [0, ...run.steps.slice(0, at).map((s) => s.updates)],
        y: upTo(run.array.objective, at),
        colour: colours.classes[0],
        name: "objective",
      },
    ],
    labels: ["updates", ""],
    range: { x: [0, Math.max(1, run.steps.at(-1)?.updates ?? 1)] },
  }),
  bars: (run, at, colours) => {
    const values = Array.from(rowOf(run.array.coef, at));
    return {
      values,
      tints: values.map((v) => (v < 0 ? colours.classes[0] : colours.classes[1])),
      labels: ["", "coef"],
    };
  },
  tell: (run, at) => {
    const facts = [
      ["objective", say(run.array.objective.values[at], 5)],
      ["updates", say(at ? run.steps[at - 1].updates : 0)],
    ];
    if (at === 0)
      return {
        text: "f is zero. Each update draws a point and steps against the slope of its loss.",
        facts,
      };
    const s = run.steps[at - 1];
    const several = run.stride > 1 ? `${run.stride} updates; the last point drawn was` : "Drawn:";
    return {
      text: `${several} point ${s.point + 1}. Mean loss of these points before: ${say(s.loss)}.`,
      facts,
    };
  },
};

const kmeans = {
  title: "k-means",
  main: (run, at) => planePicture(run, at, { groups: rowOf(run.array.assigned, at) }),
  second: () => null,
  curve: (run, at, colours) => ({
    series: [
      {
        x: range(at + 1).slice(1),
        y: run.steps.slice(0, at).map((s) => s.inertia),
        colour: colours.classes[0],
        name: "inertia",
        dots: true,
      },
    ],
    labels: ["rounds", ""],
    range: { x: [0, Math.max(1, run.frames - 1)] },
  }),
  tell: (run, at) => {
    if (at === 0) return { text: "The points begin in clusters that were drawn.", facts: [] };
    const s = run.steps[at - 1];
    return {
      text: s.moved
        ? `Round ${at}: every point goes to the nearest mean in feature space; ${s.moved} changed their cluster.`
        : `Round ${at}: no point changed its cluster. This is the end.`,
      facts: [
        ["moved", say(s.moved)],
        ["inertia", say(s.inertia, 5)],
      ],
    };
  },
};

const pca = {
  title: "Kernel PCA",
  main: (run, at) => (context, width, height, colours) => {
    const axes = axesOf(run, width, height);
    if (at > 0) drawComponent(context, axes, run.view, gridOf(run, "components", at - 1));
    drawRulers(context, axes, colours);
    drawPoints(context, axes, colours, { points: run.points, labelled: run.labels.length > 1 });
  },
  second: (run, at) =>
    run.array.reconstruction && at > 0
      ? (context, width, height, colours) => {
          const axes = axesOf(run, width, height);
          drawRulers(context, axes, colours);
          const n = run.points.length;
          const values = run.array.reconstruction.values.subarray((at - 1) * n * 2, at * n * 2);
          context.strokeStyle = colours.line;
          context.lineWidth = 1;
          context.beginPath();
          run.points.forEach(([x, y], i) => {
            if (Number.isFinite(values[2 * i]))
              line(context, axes.x(x), axes.y(y), axes.x(values[2 * i]), axes.y(values[2 * i + 1]));
          });
          context.stroke();
          drawPoints(context, axes, colours, {
            points: run.points,
            labelled: run.labels.length > 1,
          });
          run.points.forEach(([, , label], i) => {
            if (Number.isFinite(values[2 * i]))
              drawPoint(context, axes.x(values[2 * i]), axes.y(values[2 * i + 1]), {
                group: run.labels.length > 1 ? label : 0,
                r: 3.5,
                hollow: true,
              });
          });
        }
      : null,
  curve: (run, at, colours) => ({
    series: [
      {
        x: range(run.steps.length).map((i) => i + 1),
        y: run.steps.map((s) => s.eigenvalue),
        colour: colours.classes[0],
        name: "eigenvalue",
        dots: true,
      },
    ],
    labels: ["component", ""],
    marks: at ? [{ x: at, colour: colours.strong }] : [],
    range: { x: [1, Math.max(2, run.steps.length)] },
  }),
  tell: (run, at) => {
    if (at === 0)
      return {
        text: "Each component is a function of the plane; the points are projected on it in feature space.",
        facts: [],
      };
    const s = run.steps[at - 1];
    const right = run.array.reconstruction
      ? " At the right: what the components so far give back of each point (hollow)."
      : "";
    return {
      text: `Component ${at}: lines of equal projection.${right}`,
      facts: [
        ["eigenvalue", say(s.eigenvalue, 4)],
        ["share", `${say(100 * s.share)} %`],
      ],
    };
  },
};

export const ALGORITHMS = { smo, coordinate, perceptron, sgd, kmeans, pca };
