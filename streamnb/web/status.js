// Polls /model and shows it. Whatever comes from the daemon is put in as text, never as markup.

const POLL_MS = 2000, RATE_SECONDS = 12, AGE_SECONDS = 60, FEW_ROWS = 10, POINTS = 120, NAME_LENGTH = 80;
const $ = (id) => document.getElementById(id);
const memory = { rows: [], polls: [], started: null, restoreFrom: 0, heard: null, drifts: [], open: {} };

// -- words for numbers ------------------------------------------------------------------------------------
const known = (x) => typeof x === "number" && Number.isFinite(x);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const digits3 = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const count = (n) => !known(n) ? "–" : Math.abs(n) < 1e6 ? (Number.isInteger(n) ? whole : digits3).format(n) : short.format(n);
const exact = (n) => known(n) ? whole.format(n) : "–";
const percent = (x) => known(x) ? (100 * x).toFixed(x > 0 && x < 0.01 ? 2 : 1) + " %" : "–";
const nats = (x) => known(x) ? x.toFixed(3) : "–";
const rate = (x) => !known(x) ? "–" : x >= 100 ? count(Math.round(x)) : digits3.format(x);
const ratio = (a, b) => b > 0 ? a / b : null;
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many);

function lasting(s) {
  if (!known(s)) return "–";
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " d";
}

function ago(now, t) {
  if (!known(t)) return "never";
  const s = Math.max(0, Math.floor(now - t));
  return (s < 120 ? s + " s" : lasting(s)) + " ago";
}

function bytes(n) {
  if (!known(n)) return "–";
  const i = Math.min(4, Math.floor(Math.log2(Math.max(1, n)) / 10));
  return digits3.format(n / 2 ** (10 * i)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][i];
}

// The local time of day, with seconds or the day where the span asks for them.
function clock(t, span = 0) {
  const day = span > 86400 ? { month: "short", day: "numeric" } : {};
  const second = span < 600 ? { second: "2-digit" } : {};
  return new Date(t * 1000).toLocaleString("en-GB", { hour: "2-digit", minute: "2-digit", ...second, ...day });
}
const date = (t) => known(t) ? new Date(t * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "–";

// -- small tools for the document ---------------------------------------------------------------------------
function put(node, text, mood) {
  if (node.textContent !== String(text)) node.textContent = text;
  if (mood !== undefined && node.dataset.mood !== mood) node.dataset.mood = mood;
}

function make(parent, name, cls, text) {
  const node = parent.appendChild(document.createElement(name));
  if (cls) node.className = cls;
  if (text !== undefined) node.textContent = text;
  return node;
}

// A row is a list of cells: text, or {text, mood, share}. Cells are reused, so selections survive a poll.
function fill(table, rows, classes) {
  const body = table.tBodies[0];
  table.hidden = !rows.length;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const line = body.rows[i] || body.insertRow();
    while (line.cells.length > cells.length) line.deleteCell(-1);
    cells.forEach((cell, j) => {
      const { text, mood = "", share, title = "" } = typeof cell === "object" ? cell : { text: cell };
      const node = line.cells[j] || make(line, j ? "td" : "th", classes[j]);
      put(node, text, mood);
      if (!j) node.scope = "row";
      if (node.title !== title) node.title = title;
      if (share !== undefined) node.style.setProperty("--share", share);
    });
  });
}

function few(name, items, words, draw) {
  const button = $(name + "-more"), open = memory.open[name];
  button.hidden = items.length <= FEW_ROWS;
  put(button, open ? "Show fewer" : `Show all ${items.length}`);
  button.setAttribute("aria-expanded", String(Boolean(open)));
  button.onclick = () => { memory.open[name] = !open; few(name, items, words, draw); };
  put($(name + "-note"), words(items.length > FEW_ROWS && !open));
  draw(open ? items : items.slice(0, FEW_ROWS));
}

// -- headline figures ---------------------------------------------------------------------------------------
const figures = {};
function figure(title, value, unit, note, mood = "") {
  let f = figures[title];
  if (!f) {
    const box = make($("figures"), "div", "figure");
    make(box, "h2", "", title);
    const line = make(box, "p", "value");
    f = figures[title] = { line, number: make(line, "span"), unit: make(line, "small"), note: make(box, "p") };
  }
  put(f.number, value);
  put(f.unit, unit);
  put(f.note, note);
  f.line.dataset.mood = mood;
}

function eventRate(m) {
  const since = memory.rows.find((r) => r.time >= m.now - RATE_SECONDS) || memory.rows.at(-1);
  return since && m.now - since.time > 0.5 ? (m.process.events - since.events) / (m.now - since.time) : null;
}

// Quantiles of the ages since the poll of a minute ago; of all ages on the first poll.
function ages(m) {
  const { le, count: now } = m.process.event_age;
  const before = memory.polls[0] ? memory.polls[0].process.event_age.count : now.map(() => 0);
  const counts = now.map((n, i) => n - before[i]), total = counts.at(-1);
  if (!(total > 0)) return null;
  const quantile = (q) => {
    const i = counts.findIndex((n) => n >= q * total);
    if (i >= le.length) return "> " + lasting(le.at(-1));
    const low = i ? le[i - 1] : 0, below = i ? counts[i - 1] : 0;
    return lasting(low + (le[i] - low) * (q * total - below) / (counts[i] - below));
  };
  return { p50: quantile(0.5), p99: quantile(0.99) };
}

function showFigures(m) {
  const s = m.scores, lags = m.partitions.filter((p) => p.lag !== null), age = ages(m);
  const lag = lags.reduce((sum, p) => sum + p.lag, 0), wait = Math.max(0, ...lags.map((p) => p.waiting_seconds));
  const dead = Object.values(m.dead_letters).reduce((a, b) => a + b, 0);
  const accuracy = known(s.recent_accuracy) ? s.recent_accuracy : ratio(s.correct, s.evaluated);
  figure("Accuracy, recent", percent(accuracy), "", s.evaluated
    ? `${percent(ratio(s.correct, s.evaluated))} overall, majority class ${percent(ratio(s.majority_correct, s.evaluated))}`
    : "no labelled events yet");
  figure("Log loss", nats(ratio(s.log_loss_nats, s.evaluated)), s.evaluated ? "nats" : "", s.evaluated
    ? `per event, class shares ${nats(ratio(s.prior_log_loss_nats, s.evaluated))}, Brier score ${nats(ratio(s.brier, s.evaluated))}` : "no labelled events yet");
  figure("Events", rate(eventRate(m)), "per second", `${count(m.process.events)} since start, ${count(m.process.predictions)} answered`);
  figure("Event to answer", age ? age.p50 : "–", age ? "median" : "", age ? `99 % within ${age.p99}` : "no answers in the last minute");
  figure("Lag", count(lag), lag === 1 ? "offset" : "offsets", wait >= 1 ? `longest wait ${lasting(wait)}` : "nothing waits longer than a second", wait > 60 ? "warn" : "");
  figure("Model", count(m.n_events), "events", `${plural(Object.keys(m.class_count).length, "class", "classes")}, ${plural(m.n_features, "feature", "features")}`);
  figure("Dead letters", count(dead), "", dead ? `${percent(ratio(m.process.dead_letters, m.process.events))} of the events since start` : "none", m.process.dead_letters > 0.01 * m.process.events ? "warn" : "");
  showQualityFigures(m);
  figure("Snapshot", ago(m.now, m.snapshot.time), "", m.snapshot.time === null ? "none yet" : bytes(m.snapshot.bytes));
}

// -- charts -------------------------------------------------------------------------------------------------
// Bins hold equal numbers of what is counted (`per`), so that a quiet hour does not turn into noise.
function binned(per, values) {
  const rows = memory.rows, points = [];
  if (rows.length < 2) return points;
  const enough = Math.max(per(rows.at(-1)) - per(rows[0]), 1e-9) / POINTS;
  let from = rows[0];
  for (const to of rows.slice(1)) {
    const weight = per(to) - per(from);
    if (weight < enough) continue;
    points.push({ t: to.time, y: values.map((v) => (v(to) - v(from)) / weight) });
    from = to;
  }
  return points;
}

const perEvaluated = (...values) => () => binned((r) => r.evaluated, values);
const charts = [
  { title: "Accuracy", lines: ["model", "majority class"], say: percent, top: 1, empty: "no labelled events since the start",
    points: perEvaluated((r) => r.correct, (r) => r.majority_correct) },
  { title: "Log loss", lines: ["model", "class shares"], say: nats, floor: 0, empty: "no labelled events since the start",
    points: perEvaluated((r) => r.log_loss_nats, (r) => r.prior_log_loss_nats) },
  { title: "Events", lines: ["per second"], say: rate, floor: 0, empty: "waiting for the second sample",
    points: () => binned((r) => r.time, [(r) => r.events]) },
  { title: "Lag", lines: ["offsets"], say: count, floor: 0, empty: "waiting for the first sample",
    points: () => memory.rows.map((r) => ({ t: r.time, y: [r.lag] })) },
];

function svg(parent, name, attributes, text) {
  const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function build(chart) {
  const box = make($("charts"), "div", "chart"), head = make(box, "div", "head");
  make(head, "h2", "", chart.title);
  const key = make(head, "div", "key");
  chart.values = chart.lines.map((name, i) => {
    const item = make(key, "span", "", name + " ");
    item.style.setProperty("--tint", i ? "var(--base)" : "var(--model)");
    return make(item, "b", "", "–");
  });
  chart.when = make(key, "i", "");
  chart.svg = svg(box, "svg", { role: "img", "aria-label": chart.title + " over time" });
  chart.svg.addEventListener("pointermove", (e) => { chart.hover = e.offsetX; drawChart(chart); });
  chart.svg.addEventListener("pointerleave", () => { chart.hover = null; drawChart(chart); });
}

function steps(low, high) {
  const raw = (high - low) / 4, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * size).find((k) => k >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i++) ticks.push(i * step + 0);
  return ticks;
}

function scale(chart, points) {
  const ys = points.flatMap((p) => p.y).filter(known);
  let low = chart.floor ?? Math.min(...ys), high = chart.top ?? Math.max(...ys);
  if (chart.top !== undefined) low = Math.max(0, low - 0.15 * (high - low));
  if (!(high - low > 1e-9)) chart.top === undefined ? (high = low + 1) : (low = high - 0.1);
  return chart.top === undefined ? [low, high * 1.06] : [low, high];
}

function drawChart(chart) {
  const { svg: canvas } = chart, width = canvas.clientWidth, height = canvas.clientHeight, points = chart.points();
  canvas.replaceChildren();
  if (!points.length) {
    svg(canvas, "text", { x: width / 2, y: height / 2, class: "empty" }, chart.empty);
    chart.values.forEach((node) => put(node, "–"));
    return;
  }
  const [low, high] = scale(chart, points), left = 46, right = width - 6, bottom = height - 20, top = 8;
  const begin = points[0].t, span = Math.max(points.at(-1).t - begin, 1);
  const x = (t) => left + (right - left) * (points.length > 1 ? (t - begin) / span : 1);
  const y = (v) => bottom - (bottom - top) * (v - low) / (high - low);
  for (const tick of steps(low, high)) {
    svg(canvas, "line", { class: "rule", x1: left, x2: right, y1: y(tick), y2: y(tick) });
    svg(canvas, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, chart.say === percent ? Math.round(tick * 1000) / 10 + " %" : digits3.format(tick));
  }
  const marks = width > 420 ? [0, 0.5, 1] : [0, 1];
  for (const part of marks) {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    svg(canvas, "text", { x: left + (right - left) * part, y: height - 3, "text-anchor": anchor }, clock(begin + span * part, span));
  }
  if (chart.lines[0] === "model") markDrifts(canvas, x, begin, begin + span, top, bottom);
  chart.lines.map((_, i) => i).reverse().forEach((i) => {
    const seen = points.filter((p) => known(p.y[i]));
    const d = seen.map((p, j) => (j ? "L" : "M") + x(p.t).toFixed(1) + " " + y(p.y[i]).toFixed(1)).join("");
    svg(canvas, "path", { class: i ? "base" : "model", d: seen.length > 1 ? d : "M0 0" });
  });
  let at = points.at(-1);
  const hovering = known(chart.hover);
  if (hovering) {
    at = points.reduce((best, p) => Math.abs(x(p.t) - chart.hover) < Math.abs(x(best.t) - chart.hover) ? p : best);
    svg(canvas, "line", { class: "at", x1: x(at.t), x2: x(at.t), y1: top, y2: bottom });
  }
  if (hovering || points.length === 1) {
    at.y.forEach((v, i) => known(v) && svg(canvas, "circle", { class: i ? "base" : "", cx: x(at.t), cy: y(v), r: 3.5 }));
  }
  chart.values.forEach((node, i) => put(node, chart.say(at.y[i])));
  put(chart.when, hovering ? "at " + clock(at.t, Math.min(span, 599)) : "");
}

// -- tables -------------------------------------------------------------------------------------------------
function showClasses(m) {
  const total = Object.values(m.class_count).reduce((a, b) => a + b, 0);
  const items = Object.entries(m.class_count).sort(([a, n], [b, k]) => k - n || (a < b ? -1 : 1));
  const words = (cut) => items.length ? plural(items.length, "class", "classes") + (cut ? ", most frequent first" : "") : "none known yet";
  const scored = Object.values(m.scores.classes), labels = scored.reduce((sum, c) => sum + c.evaluated, 0);
  const answers = scored.reduce((sum, c) => sum + c.predicted, 0);
  few("classes", items, words, (shown) => fill($("classes"), shown.map(([label, n]) => {
    const score = Object.hasOwn(m.scores.classes, label) ? m.scores.classes[label] : { evaluated: 0, predicted: 0 };
    return [named(label), { text: percent(ratio(n, total)), share: ratio(n, items[0][1]) || 0 }, count(n),
      percent(score.recall), percent(score.precision),
      percent(ratio(score.evaluated, labels)), percent(ratio(score.predicted, answers))];
  }), ["", "wide", "n minor", "n", "n", "n minor", "n minor"]));
}

const named = (text) => text === "" ? '""' : text.length <= NAME_LENGTH ? text : { text: text.slice(0, NAME_LENGTH) + "…", title: text };

function showPartitions(m) {
  const owned = m.partitions.filter((p) => p.owned).length;
  const waits = (p) => p.waiting_seconds >= 2 || p.open_upstream_seconds > 1;    // calm ones keep their places
  const late = m.partitions.filter(waits).sort((a, b) => b.waiting_seconds - a.waiting_seconds);
  const items = memory.open.partitions ? m.partitions : [...late, ...m.partitions.filter((p) => !waits(p))];
  const words = (cut) => m.partitions.length ? `${owned} of ${m.partitions.length} owned` + (cut && late.length ? ", longest waits first" : "") : "none known yet";
  few("partitions", items, words, (shown) => fill($("partitions"), shown.map((p) => [
    named(p.topic), exact(p.partition), p.role, p.owned ? "yes" : "no", exact(p.lag), waiting(p),
    exact(p.position), exact(p.end), exact(p.learned), exact(p.published),
  ]), ["", "n", "minor", "", "n", "n", "n minor", "n minor", "n minor", "n minor"]));
}

function waiting(p) {
  if (p.open_upstream_seconds > 1) return { text: `held ${lasting(p.open_upstream_seconds)}`, mood: "warn", title: "an open transaction upstream holds the end back" };
  if (!p.lag) return "–";
  return { text: p.waiting_seconds < 1 ? "< 1 s" : lasting(p.waiting_seconds), mood: p.waiting_seconds > 60 ? "warn" : "" };
}

function showDead(m) {
  const found = Object.entries(m.dead_letters).filter(([, n]) => n > 0)
    .map(([reason, n]) => [reason, n, m.dead_letters_last_hour[reason] || 0]).sort(([, a, x], [, b, y]) => y - x || b - a);
  const most = Math.max(1, ...found.map(([, , recent]) => recent));
  fill($("dead"), found.map(([reason, n, recent]) => [reason, { text: count(recent), share: recent / most }, count(n)]), ["", "wide", "n"]);
  put($("dead-note"), found.length ? "by reason" : "none: every event could be used");
}

function showFacts(m) {
  const lost = { text: count(m.lost_events), mood: m.lost_events ? "bad" : "" };
  fill($("facts"), [
    ["Last step", ago(m.now, m.last_step)], ["Last commit", ago(m.now, m.last_commit)],
    ["Snapshot taken", ago(m.now, m.snapshot.time)], ["Late answers since start", count(m.process.late)],
    ["Labels met before their class was known", count(m.scores.unknown_labels)],
    ["Events lost from the log", lost], ["Started", date(m.started)],
    ["Versions", Object.entries(m.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
  ], ["", ""]);
}

// -- the whole page -----------------------------------------------------------------------------------------
const MOODS = { running: "good", restoring: "warn", starting: "warn", draining: "warn", stopped: "bad" };

function showState(m) {
  const ready = m.not_ready === null;
  put($("state"), ready ? m.state : m.state === "running" ? "not ready" : m.state, ready ? "good" : m.state === "running" ? "bad" : MOODS[m.state] || "warn");
  memory.restoreFrom = m.restore_remaining > 0 ? Math.max(memory.restoreFrom, m.restore_remaining) : 0;
  const restoring = m.state === "restoring" && memory.restoreFrom > 0;
  $("progress").hidden = !restoring;
  if (restoring) [$("progress").max, $("progress").value] = [memory.restoreFrom, memory.restoreFrom - m.restore_remaining];
  const text = restoring ? `Not ready: ${m.not_ready}. ${plural(m.restore_remaining, "event", "events")} to learn.` : `Not ready: ${m.not_ready}`;
  banner(ready ? "" : text, m.state === "running" ? "bad" : "warn");
  document.title = `${m.app || "streamnb"}: ${ready ? m.state : "not ready"}`;
  if (!m.app) return;
  put($("app"), m.app);
  put($("about"), `streamnb ${m.version}, ${m.kind} model, instance ${m.instance}, up ${lasting(m.now - m.started)}`);
}

function banner(text, mood) {
  $("banner").hidden = !text;
  $("banner").dataset.mood = mood;
  put($("reason"), text);
}

function show(m) {
  document.body.classList.remove("stale");
  put($("clock"), "As of " + clock(m.now));
  showState(m);
  if (!m.process) return;
  memory.drifts = m.scores.drifts.last;
  memory.shown = m;
  showFigures(m);
  charts.forEach(drawChart);
  showClasses(m);
  showTopFeatures(m);
  showConfusion(m);
  drawCalibration(m);
  showPartitions(m);
  showDead(m);
  showFacts(m);
}

function remember(m) {
  if (m.started !== memory.started) [memory.rows, memory.polls, memory.started] = [[], [], m.started];
  const { columns, rows } = m.history;
  for (const row of rows) memory.rows.push(Object.fromEntries(columns.map((name, i) => [name, row[i]])));
  if (memory.rows.length > 1200) memory.rows = memory.rows.filter((_, i) => i % 2 === 0 || i > 1000);
  memory.polls = memory.polls.filter((p) => p.now > m.now - AGE_SECONDS);
}

async function poll() {
  const since = memory.rows.length ? memory.rows.at(-1).time : 0;
  try {
    const answer = await fetch("model?since=" + since, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error("status " + answer.status);
    const m = await answer.json();
    remember(m);
    show(m);
    if (m.process) memory.polls.push({ now: m.now, process: m.process });
    memory.heard = Date.now() / 1000;
  } catch (error) {
    document.body.classList.add("stale");
    put($("state"), "no answer", "bad");
    banner(memory.heard ? `No answer from the daemon since ${clock(memory.heard)}.` : "No answer from the daemon.", "bad");
    document.title = "no answer";
    console.warn(error);
  }
  clearTimeout(memory.timer);
  memory.timer = setTimeout(poll, document.hidden ? 10 * POLL_MS : POLL_MS);
}

charts.forEach(build);
new ResizeObserver(() => {
  charts.forEach(drawChart);
  if (memory.shown) drawCalibration(memory.shown);
}).observe($("charts"));
document.addEventListener("visibilitychange", () => { if (!document.hidden) { clearTimeout(memory.timer); poll(); } });
poll();
