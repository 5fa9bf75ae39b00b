// Draws training curves of one or several runs: smoothing, zoom over the steps, a logarithmic axis.
"use strict";

const WIDE = 360, HIGH = 200, LEFT = 46, RIGHT = 12, TOP = 10, BOTTOM = 36;
const COLOURS = 6;
const SVG = "http://www.w3.org/2000/svg";
const view = { low: null, high: null, smooth: 4, log: false, runs: [] };

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function short(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${letter}`;
  }
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

function smoothed(values, half) {
  // The mean of each point with `half` neighbours on either side, fewer at the ends.
  if (!half) return values;
  const sums = [0];
  for (const value of values) sums.push(sums[sums.length - 1] + value);
  return values.map((_, at) => {
    const reach = Math.min(half, at, values.length - 1 - at);
    return (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1);
  });
}

function ticks(low, high, most) {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(at * step); // a sum would miss 0
  return found;
}

function decades(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found.length > 7 ? found.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6)) : found;
}

function frameOf(lines, log) {
  const xs = lines.flatMap((line) => line.x);
  const ys = lines.flatMap((line) => line.y).filter((y) => !log || y > 0);
  let [left, right] = [Math.min(...xs), Math.max(...xs)];
  if (view.low !== null) [left, right] = [view.low, view.high];
  let [low, high] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [log ? 1 : 0, log ? 10 : 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 0.5), high + (Math.abs(high) / 10 || 0.5)];
  if (left === right) [left, right] = [left - 1, right + 1];
  const scale = log ? Math.log10 : (value) => value;
  return {
    left, right, low, high,
    x: (value) => LEFT + ((value - left) / (right - left)) * (WIDE - LEFT - RIGHT),
    y: (value) => HIGH - BOTTOM - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (HIGH - TOP - BOTTOM),
    step: (pixel) => left + ((pixel - LEFT) / (WIDE - LEFT - RIGHT)) * (right - left),
  };
}

function path(frame, line, values, log) {
  const places = [];
  values.forEach((y, at) => {
    if (!log || y > 0) places.push(`${frame.x(line.x[at]).toFixed(1)},${frame.y(y).toFixed(1)}`);
  });
  return places.join(" ");
}

function axes(svg, frame, log) {
  for (const value of log ? decades(frame.low, frame.high) : ticks(frame.low, frame.high, 4)) {
    const y = frame.y(value).toFixed(1);
    svg.append(make("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y, y2: y }));
    svg.append(make("text", { x: LEFT - 7, y: Number(y) + 4, "text-anchor": "end" }, short(value)));
  }
  for (const value of ticks(frame.left, frame.right, 4)) {
    svg.append(make("text", { x: frame.x(value).toFixed(1), y: HIGH - BOTTOM + 16, "text-anchor": "middle" }, short(value)));
  }
  svg.append(make("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 3, "text-anchor": "middle" }, "environment steps"));
}

function inSteps(line) {
  // A count holds until it rises.
  const x = [], y = [];
  line.x.forEach((step, at) => {
    if (at) { x.push(step); y.push(line.y[at - 1]); }
    x.push(step);
    y.push(line.y[at]);
  });
  [line.x, line.y] = [x, y];
}

function draw(figure) {
  const key = figure.dataset.curve;
  const lines = view.runs.map((run, at) => ({ name: run.name, colour: at % COLOURS, ...run.curves[key] })).filter((line) => line.x && line.x.length);
  const box = figure.querySelector(".chart");
  if (!lines.length) { box.textContent = "No points here."; figure.frame = null; return; }
  const counts = "counts" in figure.dataset;
  if (counts) lines.forEach(inSteps);
  for (const line of lines) line.smooth = counts ? line.y : smoothed(line.y, view.smooth);
  const log = view.log && lines.some((line) => line.y.some((y) => y > 0));
  const frame = frameOf(lines, log);
  const svg = make("svg", { class: "plot", viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" });
  axes(svg, frame, log);
  if (view.runs.length === 1) for (const step of view.runs[0].epochs) {
    if (step < frame.left || step > frame.right) continue;
    svg.append(make("line", { class: "boundary", x1: frame.x(step).toFixed(1), x2: frame.x(step).toFixed(1), y1: TOP, y2: HIGH - BOTTOM }));
  }
  for (const line of lines) {
    if (view.smooth && !counts && line.x.length > 2) svg.append(make("polyline", { class: `line faint s${line.colour}`, points: path(frame, line, line.y, log) }));
    svg.append(make("polyline", { class: `line s${line.colour}`, points: path(frame, line, line.smooth, log) }));
    if (!counts && line.x.length <= 40) line.x.forEach((x, at) => {
      if (!log || line.smooth[at] > 0) svg.append(make("circle", { class: `dot s${line.colour}`, cx: frame.x(x).toFixed(1), cy: frame.y(line.smooth[at]).toFixed(1), r: 2.4 }));
    });
  }
  const chosen = make("rect", { class: "chosen", y: TOP, height: HIGH - TOP - BOTTOM, x: 0, width: 0 });
  svg.append(chosen);
  box.replaceChildren(svg);
  const last = lines.map((line) => `${line.name ? `${line.name}: ` : ""}${short(line.y[line.y.length - 1])}`).join(" · ");
  box.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent}; at the end ${last}`);
  figure.frame = frame;
  figure.lines = lines;
  say(figure, null);
}

function say(figure, step) {
  // The values at a step, or at the end.
  const parts = (figure.lines || []).map((line) => {
    let at = line.x.length - 1;
    if (step !== null) line.x.forEach((x, index) => { if (Math.abs(x - step) < Math.abs(line.x[at] - step)) at = index; });
    return `${line.name ? `${line.name} ` : ""}${short(line.y[at])} at step ${Math.round(line.x[at]).toLocaleString("en")}`;
  });
  figure.querySelector(".reading").textContent = parts.join(" · ");
}

function drawAll() {
  for (const figure of document.querySelectorAll("[data-curve]")) draw(figure);
  document.querySelector("[data-whole]").hidden = view.low === null;
}

async function load() {
  const box = document.getElementById("curves");
  const source = new URL(box.dataset.source, location.href);
  if (view.low !== null) {
    source.searchParams.set("low", Math.max(0, view.low));
    source.searchParams.set("high", Math.max(0, view.high));
  }
  const answer = await fetch(source);
  if (!answer.ok) return;
  view.runs = (await answer.json()).runs;
  const legend = document.querySelector("[data-legend]");
  legend.hidden = view.runs.length < 2;
  legend.replaceChildren(...view.runs.map((run, at) => {
    const item = document.createElement("li");
    const mark = make("svg", { class: "key", viewBox: "0 0 16 4", "aria-hidden": "true" });
    mark.append(make("line", { class: `line s${at % COLOURS}`, x1: 0, x2: 16, y1: 2, y2: 2 }));
    item.append(mark, run.name);
    return item;
  }));
  drawAll();
}

function zoom(low, high) {
  [view.low, view.high] = low === null ? [null, null] : [Math.max(0, low), high];
  load();
}

function listen(figure) {
  let from = null;
  const box = figure.querySelector(".chart");
  const pixel = (event) => ((event.clientX - box.getBoundingClientRect().left) / box.getBoundingClientRect().width) * WIDE;
  const inside = (value) => Math.min(Math.max(value, LEFT), WIDE - RIGHT);
  box.addEventListener("pointerdown", (event) => {
    if (!figure.frame || event.button) return;
    from = inside(pixel(event));
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (!figure.frame) return;
    const at = inside(pixel(event));
    if (from === null) return say(figure, figure.frame.step(at));
    const chosen = box.querySelector(".chosen");
    chosen.setAttribute("x", Math.min(from, at));
    chosen.setAttribute("width", Math.abs(at - from));
  });
  box.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const at = inside(pixel(event));
    const [low, high] = [Math.min(from, at), Math.max(from, at)].map(figure.frame.step);
    if (Math.abs(at - from) > 6) zoom(low, high); else draw(figure);
    from = null;
  });
  box.addEventListener("pointercancel", () => { from = null; draw(figure); });
  box.addEventListener("pointerleave", () => { if (from === null && figure.frame) say(figure, null); });
  box.addEventListener("dblclick", () => zoom(null));
  figure.addEventListener("keydown", (event) => {
    if (!figure.frame || event.ctrlKey || event.metaKey || event.altKey) return;
    const { left, right } = figure.frame;
    const middle = (left + right) / 2, half = (right - left) / 2;
    const moves = { "+": [middle - half / 2, middle + half / 2], "=": [middle - half / 2, middle + half / 2], "-": [middle - 2 * half, middle + 2 * half], ArrowLeft: [left - half / 2, right - half / 2], ArrowRight: [left + half / 2, right + half / 2] };
    if (event.key === "Escape" || event.key === "0") zoom(null);
    else if (moves[event.key]) { event.preventDefault(); zoom(...moves[event.key]); }
  });
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("curves")) return;
  for (const figure of document.querySelectorAll("[data-curve]")) listen(figure);
  const slider = document.querySelector("[data-smooth]");
  slider.addEventListener("input", () => {
    view.smooth = Number(slider.value);
    const said = view.smooth ? `mean of ${2 * view.smooth + 1} points` : "off";
    document.querySelector("[data-smooth-said]").textContent = said;
    slider.setAttribute("aria-valuetext", said);
    drawAll();
  });
  document.querySelector("[data-log]").addEventListener("change", (event) => { view.log = event.target.checked; drawAll(); });
  document.querySelector("[data-whole]").addEventListener("click", () => zoom(null));
  let drawn = Date.now();
  document.addEventListener("questloop:progress", (event) => {
    // While a run plays its curves grow; a page that is not looked at asks for nothing.
    if (!event.detail || !event.detail.training || document.hidden || Date.now() - drawn < 5000) return;
    drawn = Date.now();
    load();
  });
  load();
});
