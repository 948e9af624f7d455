"use strict";
// How well the model answers: drift, calibration, confusion, and what speaks for each class. Used by status.js.

const CONFUSED = 10, SHORT_NAME = 14, ENOUGH = 30;

// -- figures ------------------------------------------------------------------------------------------------
function showQualityFigures(m) {
  const { worse, better, last } = m.scores.drifts, drift = last.at(-1), bins = m.scores.calibration;
  const held = bins.reduce((sum, b) => sum + b.events, 0), gap = bins.reduce((sum, b) => sum + Math.abs(b.correct - b.confidence), 0);
  const when = drift && driftTime(drift);
  figure("Drift", drift ? drift.direction : "none", drift && when ? ago(m.now, when) : "", drift
    ? `error ${percent(drift.before)} → ${percent(drift.after)} at event ${count(drift.event)}; so far ${worse} worse, ${better} better`
    : "the error has not changed", drift && drift.direction === "worse" ? "warn" : "");
  figure("Calibration error", percent(ratio(gap, held)), "", held
    ? `answers held ${percent(ratio(bins.reduce((sum, b) => sum + b.confidence, 0), held))} sure, ${percent(ratio(bins.reduce((sum, b) => sum + b.correct, 0), held))} right`
    : "no labelled events yet");
  figure("Unseen features", percent(ratio(m.process.unseen_features, m.process.features)), "",
    `${count(m.process.unseen_features)} of ${count(m.process.features)} since start`);
  figure("Partitions", count(m.partitions.filter((p) => p.owned).length), "owned", `of ${count(m.partitions.length)} known`);
}

// -- drift --------------------------------------------------------------------------------------------------
// When an event of this number was scored, as far as the samples tell; null if before them.
function driftTime(drift) {
  const rows = memory.rows, i = rows.findIndex((r) => r.evaluated >= drift.event);
  return i > 0 ? rows[i].time : null;
}

function markDrifts(canvas, x, begin, end, top, bottom) {
  for (const drift of memory.drifts) {
    const t = driftTime(drift);
    if (t === null || t < begin || t > end) continue;
    const mark = svg(canvas, "g", { class: "drift " + drift.direction });
    svg(mark, "line", { x1: x(t), x2: x(t), y1: top, y2: bottom });
    svg(mark, "title", {}, `drift at event ${count(drift.event)}: error ${percent(drift.before)} → ${percent(drift.after)}`);
    svg(mark, "text", { x: x(t) - 4, y: top + 9, "text-anchor": "end" }, drift.direction === "worse" ? "drift, worse" : "drift, better");
  }
}

// -- calibration --------------------------------------------------------------------------------------------
// A reliability diagram: how often answers of a probability were right; those on the diagonal are as sure as they should
// be. A handful of events says little: it gets a dot, but no line.
function drawCalibration(m) {
  const canvas = $("calibration").querySelector("svg"), bins = m.scores.calibration.filter((b) => b.events > 0);
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.replaceChildren();
  put($("calibration-note"), bins.length ? "probability of the answer against its being right" : "");
  if (!bins.length) {
    svg(canvas, "text", { x: width / 2, y: height / 2, class: "empty" }, "no labelled events yet");
    return;
  }
  const left = 46, right = width - 12, bottom = height - 20, top = 8;
  const x = (v) => left + (right - left) * v, y = (v) => bottom - (bottom - top) * v;
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    svg(canvas, "line", { class: "rule", x1: left, x2: right, y1: y(tick), y2: y(tick) });
    svg(canvas, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, 100 * tick + " %");
    svg(canvas, "text", { x: x(tick), y: height - 3, "text-anchor": "middle" }, 100 * tick + " %");
  }
  svg(canvas, "path", { class: "base", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` });
  const most = Math.max(...bins.map((b) => b.events));
  const points = bins.map((b) => ({ x: x(b.confidence / b.events), y: y(b.correct / b.events), r: 3 + 6 * Math.sqrt(b.events / most), bin: b }));
  svg(canvas, "path", { class: "model", d: points.filter((p) => p.bin.events >= ENOUGH).map((p, i) => (i ? "L" : "M") + p.x.toFixed(1) + " " + p.y.toFixed(1)).join("") || "M0 0" });
  for (const p of points) {
    const dot = svg(canvas, "circle", { cx: p.x, cy: p.y, r: p.r });
    svg(dot, "title", {}, `${count(p.bin.events)} answers held ${percent(p.bin.confidence / p.bin.events)} sure, ${percent(p.bin.correct / p.bin.events)} right`);
  }
}

// -- confusion ----------------------------------------------------------------------------------------------
function showConfusion(m) {
  const { classes, counts } = m.confusion, sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const order = classes.map((_, i) => i).sort((i, k) => sum(counts[k]) - sum(counts[i]) || i - k);
  const rest = [...order.slice(CONFUSED), classes.length];
  let groups = order.slice(0, CONFUSED).map((i) => ({ name: classes[i], of: [i] }));
  const cell = (row, column) => sum(row.of.map((i) => sum(column.of.map((k) => counts[i][k]))));
  const other = { name: rest.length > 1 ? `${rest.length - 1} others` : "others", of: rest };
  if (counts.length && (rest.length > 1 || sum(rest.map((i) => sum(counts[i]) + sum(counts.map((row) => row[i])))))) groups = [...groups, other];
  const table = $("confusion"), total = sum(groups.map((row) => cell(row, other) + sum(groups.filter((g) => g !== other).map((g) => cell(row, g)))));
  table.hidden = !total;
  put($("confusion-note"), total ? `rows: label, columns: answer; ${count(total)} events` : "no labelled events yet");
  if (!total) return;
  const head = table.tHead.rows[0], names = ["", ...groups.map((g) => g.name)];
  while (head.cells.length > names.length) head.deleteCell(-1);
  names.forEach((name, i) => {
    const node = head.cells[i] || make(head, "th", i ? "n" : "");
    node.scope = "col";
    put(node, name.length > SHORT_NAME ? name.slice(0, SHORT_NAME) + "…" : name);
    node.title = name;
  });
  fill(table, groups.map((row) => {
    const all = sum(groups.map((column) => cell(row, column)));
    return [named(row.name), ...groups.map((column) => {
      const n = cell(row, column), share = ratio(n, all) || 0;
      return { text: n ? count(n) : "·", share, mood: !n ? "off" : row === column ? "right" : "wrong",
        title: `${percent(share)} of ${row.name} answered ${column.name}` };
    })];
  }), ["", ...groups.map(() => "n cell")]);
}

// -- what speaks for each class -----------------------------------------------------------------------------
const amount = (f, v) => f.measure === "share" ? percent(v) : digits3.format(v);

function showTopFeatures(m) {
  const top = m.top_features, found = Object.entries(top.classes).filter(([, features]) => features.length);
  const items = found.sort(([a], [b]) => (m.class_count[b] || 0) - (m.class_count[a] || 0) || (a < b ? -1 : 1));
  const words = () => items.length ? `share or mean in the class (in all others), as of ${count(top.n_events)} events` : "nothing tells classes apart yet";
  few("features", items, words, (shown) => {
    const table = $("features"), body = table.tBodies[0];
    table.hidden = !shown.length;
    while (body.rows.length > shown.length) body.deleteRow(-1);
    shown.forEach(([label, features], i) => {
      const line = body.rows[i] || body.insertRow();
      const head = line.cells[0] || make(line, "th"), list = line.cells[1] || make(line, "td", "features");
      const name = named(label), text = features.map((f) => f.name + f.nats).join();
      head.scope = "row";
      put(head, name.text ?? name);
      if (list.dataset.shown === label + text) return;
      list.dataset.shown = label + text;
      list.replaceChildren();
      for (const f of features) {
        const item = make(list, "span");
        make(item, "b", "", f.name);
        item.append(` ${amount(f, f.here)} (${amount(f, f.elsewhere)})`);
        item.title = `${digits3.format(f.nats)} nats for ${label}, on average`;
      }
    });
  });
}
