"use strict";
const run = JSON.parse(document.getElementById("run").textContent);
const part = (id) => document.getElementById(id);
const ROW = 18;
const LEAST_PIXELS = 0.4;
const TOGETHER = "together";
const APART = "apart";
const state = { request: 0, series: TOGETHER, reversed: false, search: "", root: null, zoom: null, rows: [] };

// What does not print, or would turn the line around, is shown by its number.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const printable = (text) =>
  text.replace(UNPRINTABLE, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0")) || "[unnamed]";

function cut(text, most) {
  return text.length <= most ? text : text.slice(0, most) + "\u2026 (" + text.length + " characters)";
}

function spell(value, unit) {
  const steps =
    unit === "ns" ? [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]]
    : unit === "bytes" ? [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "bytes"]]
    : [[1, unit]];
  const [size, name] = steps.find(([least]) => Math.abs(value) >= least) || steps[steps.length - 1];
  return (value / size).toLocaleString("en", { maximumFractionDigits: size === 1 ? 3 : 2 }) + " " + name;
}

const share = (value, whole) => (whole > 0 ? ((100 * value) / whole).toFixed(1) : "0.0") + " %";

function makeNode(parent, label, frame) {
  const depth = parent === null ? 0 : parent.depth + 1;
  return { parent, label, frame, depth, weight: 0, own: 0, count: 0, below: new Map() };
}

function descend(node, id, label, frame) {
  let below = node.below.get(id);
  if (below === undefined) {
    below = makeNode(node, label, frame);
    node.below.set(id, below);
  }
  return below;
}

function add(node, weight, count) {
  node.weight += weight;
  node.count += count;
}

function readPath(end) {
  const path = [];
  for (let at = end; at >= 0; at = run.parents[at]) path.push(run.at[at]);
  return path;
}

function findShown() {
  const ofRequest = run.series.filter((one) => one.request === state.request);
  return state.series === TOGETHER || state.series === APART ? ofRequest : [ofRequest[Number(state.series)]];
}

function build() {
  const root = makeNode(null, "all", -1);
  for (const series of findShown()) {
    for (const [end, weight, count] of series.stacks) {
      const path = readPath(end);
      if (!state.reversed) path.reverse();
      let node = root;
      add(node, weight, count);
      if (state.series === APART) {
        node = descend(node, "series " + series.label, series.label, -1);
        add(node, weight, count);
      }
      for (const frame of path) {
        node = descend(node, frame, run.frames[frame][0], frame);
        add(node, weight, count);
      }
      node.own += weight;
    }
  }
  state.root = root;
  state.zoom = root;
}

function matches(node) {
  return state.search !== "" && node.frame >= 0 && node.label.toLowerCase().includes(state.search);
}

function findMatched() {
  let found = 0;
  const waiting = [state.root];
  while (waiting.length) {
    const node = waiting.pop();
    // What a match calls is within it: each stack counts once, however often it matches.
    if (matches(node)) found += node.weight;
    else waiting.push(...node.below.values());
  }
  return found;
}

function layOut(width) {
  const rows = [];
  const put = (node, start, end, above) => {
    (rows[node.depth] = rows[node.depth] || []).push({ node, start, end, above });
  };
  for (let node = state.zoom.parent; node !== null; node = node.parent) put(node, 0, 1, true);
  const waiting = state.zoom.weight > 0 ? [[state.zoom, 0, 1]] : [];
  while (waiting.length) {
    const [node, start, end] = waiting.pop();
    put(node, start, end, false);
    let at = start;
    for (const below of [...node.below.values()].sort((one, other) => other.weight - one.weight)) {
      const length = below.weight / state.zoom.weight;
      if (length * width < LEAST_PIXELS) break;
      waiting.push([below, at, at + length]);
      at += length;
    }
  }
  state.rows = rows;
}

function computeHue(text) {
  let hash = 0;
  for (let at = 0; at < Math.min(text.length, 256); at += 1) hash = (hash * 31 + text.charCodeAt(at)) | 0;
  return ((hash % 360) + 360) % 360;
}

function makeBox({ node, start, end, above }) {
  const box = document.createElement("div");
  box.className = "box" + (above ? " above" : "") + (matches(node) ? " match" : "");
  box.tabIndex = 0;
  box.style.left = 100 * start + "%";
  box.style.width = 100 * (end - start) + "%";
  box.style.top = node.depth * ROW + "px";
  const holder = node.frame < 0 ? null : run.frames[node.frame][1];
  box.style.setProperty("--hue", computeHue(holder || node.label));
  box.style.setProperty("--full", node.frame < 0 ? "0%" : "65%");
  box.textContent = cut(printable(node.label), 300);
  box.node = node;
  return box;
}

function paint() {
  const view = part("view");
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 5);
  const last = Math.ceil((view.scrollTop + view.clientHeight) / ROW) + 5;
  const boxes = state.rows.slice(first, last).flatMap((row) => row.map(makeBox));
  part("graph").replaceChildren(...boxes);
}

function draw() {
  layOut(part("view").clientWidth);
  part("graph").style.height = state.rows.length * ROW + "px";
  part("whole").disabled = state.zoom === state.root;
  const unit = run.requests[state.request].unit;
  const matched = findMatched();
  part("matched").textContent =
    state.search === "" ? "" : "matched " + share(matched, state.root.weight) + ", " + spell(matched, unit);
  paint();
}

function describe(node) {
  const { unit, lower_bound: isBound } = run.requests[state.request];
  const name = document.createElement("b");
  name.textContent = cut(printable(node.label), 4000);
  const facts = [
    (isBound ? ">= " : "") + spell(node.weight, unit),
    share(node.weight, state.root.weight) + " of all",
    share(node.weight, state.zoom.weight) + " of what is shown",
    spell(node.own, unit) + " where the stack ends",
    node.count.toLocaleString("en") + " events",
  ];
  if (node.frame >= 0) {
    const [, holder, namedBy] = run.frames[node.frame];
    if (holder !== null) facts.push("in " + printable(holder));
    if (namedBy !== null) facts.push("named by " + namedBy);
  }
  part("detail").replaceChildren(name, " \u2014 " + facts.join(", "));
}

function zoom(node) {
  state.zoom = node;
  part("view").scrollTop = Math.max(0, (node.depth - 3) * ROW);
  draw();
  describe(node);
}

function fill(select, label, choices) {
  select.replaceChildren(...choices.map(([value, text]) => new Option(printable(text), value)));
  label.hidden = choices.length < 2;
}

function offerSeries() {
  const labels = run.series.filter((one) => one.request === state.request).map((one) => one.label);
  const each = labels.map((label, place) => [String(place), label]);
  const isDivided = labels.length > 1 || labels.some((label) => label !== "");
  fill(part("series"), part("series-label"), isDivided ? [[TOGETHER, "all together"], [APART, "each apart"], ...each] : []);
  state.series = TOGETHER;
}

function restart() {
  build();
  draw();
}

function begin() {
  part("asked").textContent = printable(run.asked);
  part("reservations").replaceChildren(
    ...run.reservations.map((sentence) => Object.assign(document.createElement("li"), { textContent: printable(sentence) })),
  );
  part("reservations").hidden = run.reservations.length === 0;
  fill(part("request"), part("request-label"), run.requests.map((one, place) => [String(place), one.name]));
  offerSeries();
  const change = (id, kind, act) => part(id).addEventListener(kind, act);
  change("request", "change", () => { state.request = Number(part("request").value); offerSeries(); restart(); });
  change("series", "change", () => { state.series = part("series").value; restart(); });
  change("reversed", "change", () => { state.reversed = part("reversed").checked; restart(); });
  change("search", "input", () => { state.search = part("search").value.toLowerCase(); draw(); });
  change("whole", "click", () => zoom(state.root));
  change("view", "scroll", paint);
  const nodeOf = (event) => event.target.node;
  change("graph", "click", (event) => nodeOf(event) && zoom(nodeOf(event)));
  change("graph", "mouseover", (event) => nodeOf(event) && describe(nodeOf(event)));
  change("graph", "focusin", (event) => nodeOf(event) && describe(nodeOf(event)));
  addEventListener("resize", draw);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(state.root);
    else if (event.key === "Enter" && nodeOf(event)) zoom(nodeOf(event));
    else if (event.key === "/" && event.target !== part("search")) { event.preventDefault(); part("search").focus(); }
  });
  restart();
}

if (run.requests.length) begin();
