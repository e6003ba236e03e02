// The live page of an application, or of one worker with ?worker=self. It reads its picture from page/topology and a snapshot each second from events; both are
// made in live.py and drawn.py. Names, keys and values are those of strangers: they only ever become text nodes.

const byId = (id) => document.getElementById(id);
const NODES = ["source", "processor", "sink"];
const TOPICS = ["topic", "internal topic"];
const LATE_MS = 3000; // the status of a worker that has not changed for so long says so
const HISTORY = 120; // snapshots, of a second each
const RATE_OVER_MS = 6000;
const SILENT_MS = 4000; // without a snapshot for so long, the worker is said to be away
const FAR = 0.62; // below this scale, a box has its title only, in large letters
const LEGIBLE = 0.5; // the least scale of the first view
const MOST_NAMED = 3; // workers that a notice names
const SMALLEST = 0.1, LARGEST = 2.5;

const page = {
  picture: null, // of drawn.py
  boxes: new Map(), // id: what drawBox returns
  lines: [], // what drawLine returns
  latest: null, // of live.py
  history: [], // {at, positions, rate} of the last snapshots
  changed: new Map(), // client id of a worker: the time of its last status, and since when it is shown
  mostToRestore: new Map(), // store: the most offsets that were left
  chosen: null, // id of a box
  tab: "tasks",
  names: localStorage.getItem("names") === "java",
  collapsed: null, // titles of subtopologies; null before the first picture
  view: { x: 0, y: 0, scale: 1 },
  heardAt: 0,
  newest: 0, // when the youngest worker started
  drawing: "", // the picture as text
};

// ---------------------------------------------------------------------- elements and texts

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

const sum = (values) => values.reduce((all, each) => all + each, 0);
const known = (value) => value !== null && value !== undefined;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const count = (value) => (!known(value) ? "–" : value < 100000 ? whole.format(value) : short.format(value));
const percent = (share) => (!known(share) ? "–" : share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`);

function rate(value) {
  if (!known(value)) return "–";
  if (value > 0 && value < 0.1) return "< 0.1/s";
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(value)}/s`;
}

function bytes(value) {
  if (!known(value)) return "–";
  let unit = 0;
  for (; Math.round(value * 10) / 10 >= 1024 && unit < 4; unit++) value /= 1024;
  return `${unit ? value.toFixed(1) : Math.round(value)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

function duration(ms) {
  const s = Math.abs(ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

function clock(ms) {
  const at = new Date(ms), text = at.toLocaleTimeString("en-GB");
  return Math.abs(Date.now() - ms) < 43200000 ? text : `${at.toLocaleDateString("sv")} ${text}`;
}

function streamTime(ms, now) {
  if (!known(ms)) return "–";
  return Math.abs(now - ms) < 1000 ? clock(ms) : `${clock(ms)} (${duration(now - ms)} ${now >= ms ? "ago" : "ahead"})`;
}

// ---------------------------------------------------------------------- what the worker answers

const alone = new URLSearchParams(location.search).get("worker") === "self";
const token = () => sessionStorage.getItem("token");

async function ask(path, options = {}) {
  const headers = token() ? { ...options.headers, Authorization: `Bearer ${token()}` } : { ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 401 && !byId("login").open) byId("login").showModal();
  return answer;
}

async function follow() {
  for (;;) {
    try {
      const answer = await ask(alone ? "events?worker=self" : "events");
      if (answer.ok) await read(answer.body.getReader());
      else await refused(answer);
    } catch {
      await pause(1000); // the worker is away: the watch says so
    }
  }
}

async function read(reader) {
  const decoder = new TextDecoder();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = parts.pop();
    if (parts.length) await take(JSON.parse(parts.at(-1).replace(/^data: /, "")));
  }
}

async function refused(answer) {
  const text = await answer.text();
  let message = `The worker answered ${answer.status}.`;
  try {
    message = JSON.parse(text).error ?? message;
  } catch { /* it is the answer of something else */ }
  notice(message);
  page.heardAt = Date.now();
  await pause(2000);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function take(snapshot) {
  const newest = Math.max(0, ...snapshot.workers.map((worker) => worker.started_at_ms ?? 0)), other = newest !== page.newest;
  page.heardAt = Date.now();
  page.newest = newest;
  page.latest = snapshot;
  if (!page.picture || other) await loadPicture(); // a worker that started may run another topology
  remember(snapshot);
  const remedy = snapshot.reasons.find(({ cause }) => cause === "failed")?.remedy ?? "";
  notice(snapshot.workers.filter(({ failure }) => failure).map((worker) => `${several() ? `Worker ${worker.name}` : "The worker"} failed: ${worker.failure}.`)
    .concat(remedy).join(" ").trim());
  sayMissing(snapshot.missing);
  update();
}

// Whether there is more than one worker, so that a row says of which it is.
const several = () => page.latest.workers.length + page.latest.missing.length > 1;

function sayMissing(missing) {
  const named = missing.slice(0, MOST_NAMED).map(({ worker, reason }) => `${worker} (${reason})`).join("; ");
  const more = missing.length > MOST_NAMED ? `; and ${missing.length - MOST_NAMED} more, see Workers` : "";
  const what = missing.length === 1 ? "The figures of one worker are missing" : `The figures of ${missing.length} workers are missing`;
  say(byId("missing"), missing.length ? `${what}: ${named}${more}.` : "");
  byId("missing").hidden = !missing.length;
}

function watch() {
  const silent = Date.now() - page.heardAt;
  if (!page.heardAt || silent < SILENT_MS) return;
  notice(`The worker has not responded for ${duration(silent)}. What you see is its last state; the page continues by itself.`);
  document.body.classList.add("gone");
  setState("away", "bad");
}

function notice(text) {
  document.body.classList.remove("gone");
  say(byId("notice"), text);
  byId("notice").hidden = !text;
}

function remember(snapshot) {
  const positions = new Map();
  for (const task of snapshot.tasks) {
    for (const one of task.partitions) {
      if (known(one.position)) positions.set(`${one.topic}\n${one.partition}`, one.position);
    }
  }
  for (const { client_id: id, at_ms: at } of snapshot.workers) { // the clocks of workers may differ
    if (page.changed.get(id)?.at !== at) page.changed.set(id, { at, since: Date.now() });
  }
  page.history.push({ at: snapshot.at_ms, positions, rate: sum(snapshot.threads.map((thread) => thread.rate)) });
  if (page.history.length > HISTORY) page.history.shift();
}

// ---------------------------------------------------------------------- what is known of a box

function topicFigures(box) {
  const name = box.kind === "topic" ? box.name : `${page.latest.application_id}-${box.name}`;
  const parts = page.latest.tasks.flatMap((task) => task.partitions.filter((one) => one.topic === name));
  if (!parts.length) return null;
  const lags = parts.map((one) => one.lag);
  return { parts, lag: lags.some(known) ? sum(lags.filter(known)) : null, rate: readRate(name) };
}

function readRate(topic) {
  const now = page.history.at(-1);
  const then = page.history.find((one) => one.at >= now.at - RATE_OVER_MS);
  if (!then || then === now) return null;
  let read = 0;
  for (const [key, position] of now.positions) {
    const before = then.positions.get(key);
    if (key.startsWith(`${topic}\n`) && known(before)) read += Math.max(0, position - before);
  }
  return (read * 1000) / (now.at - then.at);
}

function nodeFigures(box) {
  const [records, own, share] = page.latest.nodes[box.name] ?? [];
  const drops = page.latest.drops.filter((drop) => drop.node === box.name);
  const held = page.latest.tasks.flatMap((task) => task.held.filter((one) => one.node === box.name).map((one) => ({ ...one, task })));
  return { records, rate: own ?? sourceRate(box), share, drops, held, dropped: sum(drops.filter(isFault).map((drop) => drop.count)) };
}

const isFault = (drop) => drop.dropped && !drop.expected;

function sourceRate(box) {
  if (box.kind !== "source") return null;
  const topics = page.picture.lines.filter((line) => line.target === box.id).map((line) => page.boxes.get(line.source)?.box);
  const rates = topics.map((topic) => topic && TOPICS.includes(topic.kind) ? topicFigures(topic)?.rate : null);
  return rates.length && rates.every(known) ? sum(rates) : null;
}

function storeFigures(name) {
  const of = (tasks) => tasks.flatMap((task) => task.stores.filter((one) => one.name === name).map((one) => ({ ...one, task })));
  // Each worker has the same rows of a global store: those of the worker with most are shown.
  const copies = of(page.latest.global_tasks).sort((one, other) => (other.entries ?? 0) - (one.entries ?? 0));
  const parts = [...of(page.latest.tasks), ...copies.slice(0, 1)];
  if (!parts.length) return null;
  const total = (field) => (parts.some((one) => known(one[field])) ? sum(parts.map((one) => one[field] ?? 0)) : null);
  const left = total("restore_remaining") ?? 0, most = Math.max(left, page.mostToRestore.get(name) ?? 0);
  page.mostToRestore.set(name, left ? most : 0);
  const restoring = parts.some((one) => one.restoring);
  return { parts, restoring, left, restored: most ? 1 - left / most : 1, entries: total("entries"), size: total("size"),
    uncommitted: total("uncommitted") };
}

function groupFigures(title) {
  const inside = page.picture.groups[title] ?? [];
  const nodes = inside.filter((box) => NODES.includes(box.kind)).map(nodeFigures);
  const sources = inside.filter((box) => box.kind === "source").map((box) => page.latest.nodes[box.name]?.[1]).filter(known);
  const id = title.replace(/^\D+/, "");
  const tasks = page.latest.tasks.filter((task) => task.id.startsWith(`${id}_`));
  return { nodes, tasks, stores: inside.filter((box) => box.kind === "store").length,
    rate: sources.length ? sum(sources) : sum(tasks.map((task) => task.rate)), dropped: sum(nodes.map((node) => node.dropped)) };
}

function summary(box) {
  if (box.kind === "subtopology") {
    const found = groupFigures(box.name);
    return { text: `${found.nodes.length} nodes · ${rate(found.rate)}`, dropped: found.dropped };
  }
  if (TOPICS.includes(box.kind)) return { text: "" }; // its figures are on the arrow
  if (box.kind === "store") {
    const found = storeFigures(box.name);
    if (!found) return { text: "" };
    if (found.restoring) return { text: found.left ? `restoring, ${count(found.left)} left` : "restoring", restored: found.restored };
    return { text: [known(found.entries) ? `${count(found.entries)} entries` : "", known(found.size) ? bytes(found.size) : ""].filter(Boolean).join(" · ") };
  }
  const found = nodeFigures(box);
  const text = [known(found.rate) ? rate(found.rate) : "", known(found.share) ? percent(found.share) : ""].filter(Boolean);
  return { text: text.join(" · "), share: found.share, dropped: found.dropped };
}

// ---------------------------------------------------------------------- the picture

async function loadPicture() {
  const query = new URLSearchParams((page.collapsed ?? []).map((title) => ["collapsed", title]));
  if (page.names) query.set("names", "java");
  const answer = await ask(`page/topology?${query}`);
  if (!answer.ok) return refused(answer);
  const drawing = await answer.text();
  if (drawing === page.drawing) return;
  page.drawing = drawing;
  page.picture = JSON.parse(drawing);
  if (page.collapsed === null) {
    page.collapsed = [];
  }
  drawPicture();
}

function drawPicture() {
  const world = byId("world");
  page.boxes.clear();
  const boxes = page.picture.boxes.map(drawBox);
  for (const one of boxes) page.boxes.set(one.box.id, one);
  page.lines = page.picture.lines.map(drawLine);
  world.replaceChildren(
    ...page.picture.frames.map(drawFrame),
    ...page.lines.map((line) => line.path),
    ...page.picture.frames.map(drawTitle), // over the arrows that cross them
    ...page.lines.map((line) => line.label),
    ...boxes.map((one) => one.group),
  );
  for (const line of page.lines) placeLabel(line);
  byId("collapse").setAttribute("aria-pressed", String(page.collapsed.length > 0));
  boxes[0]?.group.setAttribute("tabindex", "0");
  if (!page.boxes.has(page.chosen)) choose(null);
  drawMap();
  fit(LEGIBLE);
  search();
}

function drawFrame({ x, y, width, height }) {
  return drawn("g", { class: "frame" }, drawn("rect", { x, y, width, height, rx: 8 }));
}

function drawTitle(frame) {
  const title = drawn("text", { x: frame.x + 18, y: frame.y + 22, class: "fold" });
  title.textContent = `▾ ${frame.title}`;
  title.setAttribute("role", "button");
  title.setAttribute("tabindex", "0");
  const fold = () => collapse([...page.collapsed, frame.title]);
  title.addEventListener("click", fold);
  title.addEventListener("keydown", (event) => event.key === "Enter" && fold());
  return drawn("g", { class: "frame" }, title);
}

function drawBox(box) {
  const { width, height } = box, middle = width / 2;
  const group = drawn("g", { class: `box ${box.kind.replace(" ", "-")}`, transform: `translate(${box.x},${box.y})`,
    role: "button", tabindex: "-1", "data-name": box.name });
  const title = drawn("title");
  title.textContent = [box.name, box.call, box.line].filter(Boolean).join("\n");
  const left = NODES.includes(box.kind), x = left ? 12 : middle, top = (box.kind === "store" ? 8 : 0) + 18;
  const write = (text, at) => Object.assign(drawn("text", at), { textContent: text });
  group.classList.toggle("left", left);
  group.append(title, ...outline(box), ...box.title.map((line, index) => write(line, { x, y: top + 15 * index, class: "name" })));
  const far = farName(box), first = height / 2 + (top - 18) / 2 + (far.length > 1 ? -3 : 6);
  group.append(...far.map((line, index) => write(line, { x: middle, y: first + 17 * index, class: far.length > 1 ? "far-name two" : "far-name" })));
  if (left) group.append(write(box.small, { x, y: height - 9, class: "small" }));
  const figures = drawn("text", { x: left ? width - 12 : middle, y: height - 9, class: "figures" });
  const restore = drawn("rect", { class: "restore", x: 0, y: height - 4, width: 0, height: 3 });
  const badge = drawn("g", { class: "badge", visibility: "hidden" }, drawn("rect", { y: -11, height: 20, rx: 10 }), drawn("text", { y: 4 }));
  group.append(figures, restore, badge);
  group.addEventListener("click", () => choose(box.id));
  return { box, group, figures, restore, badge };
}

// The title that is read from far away: a line of large letters, or two of letters that are a little smaller.
function farName({ title, width }) {
  const text = title.join(""), fits = (size) => Math.floor((width - 10) / (size * 0.603));
  if (text.length <= fits(19)) return [text];
  const most = fits(16), marks = ["(", "-", ".", "_", " "].map((mark) => text.lastIndexOf(mark, most - 1) + 1);
  const cut = Math.max(...marks) > most / 3 ? Math.max(...marks) : most, rest = text.slice(cut);
  return [text.slice(0, cut), rest.length > most ? `${rest.slice(0, most - 1)}…` : rest];
}

function outline({ kind, width, height }) {
  if (kind === "store") {
    const arc = `a${width / 2},7 0 0`;
    return [
      drawn("path", { class: "shape", d: `M0,7 ${arc} 1 ${width},0 v${height - 14} ${arc} 1 ${-width},0 z` }),
      drawn("path", { class: "shape rim", d: `M0,7 ${arc} 0 ${width},0` }),
    ];
  }
  const round = { source: 14, sink: 14, topic: height / 2, "internal topic": height / 2, subtopology: 10 };
  return [drawn("rect", { class: "shape", width, height, rx: round[kind] ?? 4 })];
}

function drawLine(line) {
  const path = drawn("path", { class: `line ${line.flows ? "flows" : "state"}`, d: line.path });
  const ends = [page.boxes.get(line.source).box, page.boxes.get(line.target).box];
  const inside = ends[0].group !== null && ends[0].group === ends[1].group;
  return { ...line, path, ends, label: drawn("text", { class: inside ? "label" : "label outside" }) };
}

function placeLabel({ path, label, ends }) {
  const length = path.getTotalLength();
  const at = path.getPointAtLength(TOPICS.includes(ends[0].kind) ? Math.min(24, length / 2) : length / 2); // above a frame's title
  label.setAttribute("x", at.x + 6);
  label.setAttribute("y", at.y + 4);
}

function updatePicture() {
  byId("legend").hidden = !Object.values(page.latest.nodes).some(([, , share]) => known(share));
  for (const { box, group, figures, restore, badge } of page.boxes.values()) {
    const found = summary(box);
    say(figures, found.text);
    group.style.setProperty("--share", found.share ?? 0);
    restore.setAttribute("width", known(found.restored) ? box.width * found.restored : 0);
    showBadge(badge, box, found.dropped);
    const dropped = found.dropped ? `, ${count(found.dropped)} dropped` : "";
    group.setAttribute("aria-label", [`${box.kind} ${box.call ?? box.name}`, found.text].filter(Boolean).join(", ") + dropped);
  }
  for (const line of page.lines) updateLine(line);
}

function showBadge(badge, box, dropped) {
  badge.setAttribute("visibility", dropped ? "visible" : "hidden");
  if (!dropped) return;
  const text = `${count(dropped)} dropped`, width = text.length * 7.3 + 14;
  badge.setAttribute("transform", `translate(${box.width - width + 12},-5)`);
  badge.firstChild.setAttribute("width", width);
  badge.lastChild.setAttribute("x", width / 2);
  say(badge.lastChild, text);
}

function updateLine({ flows, ends, path, label }) {
  if (!flows) return;
  const [source, target] = ends;
  let flow = null, lag = null;
  if (TOPICS.includes(source.kind)) ({ rate: flow = null, lag = null } = topicFigures(source) ?? {});
  else if (TOPICS.includes(target.kind)) flow = NODES.includes(source.kind) ? nodeFigures(source).rate : null;
  else if (page.lines.filter((line) => line.flows && line.target === target.id).length === 1) flow = nodeFigures(target).rate;
  path.classList.toggle("busy", flow > 0);
  say(label, [flow > 0 ? rate(flow) : "", lag > 0 ? `lag ${count(lag)}` : ""].filter(Boolean).join(" · "));
}

async function collapse(titles) {
  page.collapsed = [...new Set(titles)];
  await loadPicture();
  update();
}

// ---------------------------------------------------------------------- the view

const canvas = byId("canvas"), map = byId("map");
const pointers = new Map();

function fitting() {
  const { width, height } = canvas.getBoundingClientRect();
  return Math.min((width - 40) / page.picture.width, (height - 40) / page.picture.height, 1.25);
}

function fit(least = SMALLEST) {
  if (!page.picture) return;
  const { width, height } = canvas.getBoundingClientRect(), scale = Math.max(fitting(), least);
  const y = (height - page.picture.height * scale) / 2;
  show({ scale, x: (width - page.picture.width * scale) / 2, y: Math.max(y, 16) });
}

function show(view) {
  page.view = view;
  byId("world").setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
  canvas.classList.toggle("far", view.scale < FAR);
  const { width, height } = canvas.getBoundingClientRect(), { x, y, scale } = view;
  const place = { x: -x / scale, y: -y / scale, width: width / scale, height: height / scale };
  for (const [name, value] of Object.entries(place)) map.lastChild?.setAttribute(name, value);
  const all = x >= 0 && y >= 0 && x + page.picture.width * scale <= width && y + page.picture.height * scale <= height;
  map.classList.toggle("needless", all);
}

// The whole picture in a corner, with what is seen of it now.
function drawMap() {
  const { width, height, boxes, frames } = page.picture;
  map.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const areas = [...frames, ...boxes].map(({ x, y, width, height, kind = "frame" }) =>
    drawn("rect", { x, y, width, height, class: kind.replace(" ", "-") }));
  map.replaceChildren(...areas, drawn("rect", { class: "seen" }));
}

function moveBy(event) {
  if (!event.buttons) return;
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  const { width, height } = canvas.getBoundingClientRect(), { scale } = page.view;
  show({ scale, x: width / 2 - at.x * scale, y: height / 2 - at.y * scale });
}

function zoom(factor, at) {
  const box = canvas.getBoundingClientRect(), { x, y, scale } = page.view;
  const [px, py] = at ? [at.clientX - box.left, at.clientY - box.top] : [box.width / 2, box.height / 2];
  const next = Math.min(LARGEST, Math.max(SMALLEST, scale * factor));
  show({ scale: next, x: px - ((px - x) * next) / scale, y: py - ((py - y) * next) / scale });
}

function bringIntoView({ box }, least = 0) {
  const { width, top, bottom } = canvas.getBoundingClientRect(), sheet = byId("details").getBoundingClientRect();
  const covered = sheet.height && sheet.left < width / 2 ? Math.max(0, bottom - sheet.top) : 0, height = bottom - top - covered;
  const { x, y, scale } = page.view, next = Math.max(scale, least);
  const middle = [box.x + box.width / 2, box.y + box.height / 2], at = [x + middle[0] * scale, y + middle[1] * scale];
  if (next === scale && at[0] > 60 && at[1] > 40 && at[0] < width - 60 && at[1] < height - 40) return;
  show({ scale: next, x: width / 2 - middle[0] * next, y: height / 2 - middle[1] * next });
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event);
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => pointers.set(event.pointerId, event));
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const [other] = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
  if (other) {
    const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
    const middle = { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 };
    zoom(far(event) / far(before), middle);
  } else if (canvas.hasPointerCapture(event.pointerId) || Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) > 4) {
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
    show({ ...page.view, x: page.view.x + event.clientX - before.clientX, y: page.view.y + event.clientY - before.clientY });
  } else return;
  pointers.set(event.pointerId, event);
});
for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
  canvas.addEventListener(end, (event) => {
    if (end === "pointerleave" && canvas.hasPointerCapture(event.pointerId)) return;
    pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
  });
}

function focusBox(found) {
  for (const one of page.boxes.values()) one.group.setAttribute("tabindex", one === found ? "0" : "-1");
  found.group.focus({ preventScroll: true });
  bringIntoView(found);
}

function nextBox(from, key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const middle = ({ box }) => [box.x + box.width / 2, box.y + box.height / 2];
  const [x, y] = middle(from);
  let best = null, least = Infinity;
  for (const one of page.boxes.values()) {
    const [ox, oy] = middle(one), ahead = (ox - x) * dx + (oy - y) * dy, beside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
    const cost = ahead + 2 * beside;
    if (ahead > 4 && cost < least) [best, least] = [one, cost];
  }
  return best;
}

canvas.addEventListener("keydown", (event) => {
  const from = [...page.boxes.values()].find((one) => one.group === document.activeElement);
  if (!from) return;
  if (event.key === "Enter" || event.key === " ") choose(from.box.id, true);
  else if (event.key.startsWith("Arrow")) {
    const found = nextBox(from, event.key);
    if (found) focusBox(found);
  } else return;
  event.preventDefault();
});

function search() {
  const text = byId("search").value.trim().toLowerCase();
  const has = (one) => [one.name, one.call, one.line].some((part) => part?.toLowerCase().includes(text));
  const matches = [];
  for (const one of page.boxes.values()) {
    const inside = one.box.kind === "subtopology" && page.picture.groups[one.box.name].some(has);
    const match = text !== "" && (has(one.box) || inside);
    one.group.classList.toggle("match", match);
    if (match) matches.push(one);
  }
  canvas.classList.toggle("searching", text !== "");
  say(byId("found"), text ? `${matches.length} found` : "");
  return matches;
}

// ---------------------------------------------------------------------- what was chosen

function choose(id, focus = false) {
  page.boxes.get(page.chosen)?.group.classList.remove("chosen");
  page.chosen = id;
  const found = page.boxes.get(id);
  byId("details").hidden = !found;
  byId("tables").hidden = Boolean(found);
  byId("query").hidden = true;
  byId("answer").replaceChildren();
  if (!found) return;
  found.group.classList.add("chosen");
  const { box } = found;
  say(byId("details-kind"), box.group ? `${box.kind} of ${box.group}` : box.kind);
  say(byId("details-name"), box.call && !page.names ? box.call : box.name);
  if (box.kind === "store") openQuery(box);
  updateDetails();
  bringIntoView(found);
  if (focus) byId("details-name").focus();
}

function updateDetails() {
  const found = page.boxes.get(page.chosen);
  if (!found || !page.latest) return;
  const { box } = found;
  const of = { topic: topicFacts, "internal topic": topicFacts, store: storeFacts, subtopology: groupFacts }[box.kind] ?? nodeFacts;
  const { facts, parts = [] } = of(box);
  const pairs = Object.entries(facts).filter(([, value]) => known(value) && value !== "");
  fill(byId("facts"), pairs.flat(), (index) => element(index % 2 ? "dd" : "dt"));
  fill(byId("parts"), parts, (index) => element(index % 2 ? "p" : "h3"));
}

// Writes texts into the children of an element, which stay the same elements: what a person selected stays selected.
function fill(where, texts, make) {
  while (where.children.length > texts.length) where.lastChild.remove();
  texts.forEach((text, index) => {
    if (index >= where.children.length) where.append(make(index));
    const link = where.children[index].querySelector("a");
    say(link ?? where.children[index], String(text?.text ?? text));
    // The address is what another worker says of itself, so it may be any text.
    if (link && /^https?:\/\//.test(text.address ?? "")) link.href = `${text.address}/?worker=self`;
    else link?.removeAttribute("href");
  });
}

function nodeFacts(box) {
  const found = nodeFigures(box);
  const parts = found.drops.flatMap((drop) => [`${count(drop.count)} without a result: ${drop.text}`, dropText(drop)]);
  for (const one of found.held) parts.push(`${heldCount(one)} ${one.what} held back in task ${one.task.id}`, heldText(one));
  const error = page.latest.errors[box.name];
  if (error) parts.push("The last error", error);
  return { parts, facts: { Call: box.call, At: box.line, Name: box.name, Records: known(found.records) ? count(found.records) : "",
    Rate: known(found.rate) ? rate(found.rate) : "", "Part of the time": known(found.share) ? percent(found.share) : "",
    Dropped: count(found.dropped) } };
}

function dropText(drop) {
  const late = known(drop.late_by_ms) ? `the latest came ${duration(drop.late_by_ms)} too late` : "";
  const decides = drop.setting ? `decided by ${drop.setting}` : "";
  return [late, decides, drop.expected ? "" : drop.remedy].filter(Boolean).join("; ");
}

function heldText(one) {
  const task = one.task.stream_time_ms;
  const next = known(one.next_ms) ? `the next goes out at stream time ${clock(one.next_ms)}` : "";
  const more = known(one.next_ms) && known(task) ? `${duration(one.next_ms - task)} after that of the task` : "";
  return [next, more, one.waits_for ? `waits for ${one.waits_for}` : ""].filter(Boolean).join(", ");
}

function topicFacts(box) {
  const found = topicFigures(box);
  if (!found) return { facts: { Topic: box.name, Note: alone ? "no task of this worker reads it" : "no task reads it" } };
  const parts = found.parts.flatMap((one) => [`Partition ${one.partition}`,
    `position ${count(one.position)} of ${count(one.end)}, committed ${count(one.committed)}, lag ${count(one.lag)},` +
    ` ${count(one.buffered)} buffered, latest record of ${streamTime(one.stream_time_ms, page.latest.at_ms)}`]);
  return { parts, facts: { Topic: box.name, Rate: rate(found.rate), Lag: count(found.lag) } };
}

function storeFacts(box) {
  const found = storeFigures(box.name);
  if (!found) return { facts: { Store: box.name, Note: alone ? "no task of this worker has it" : "no task has it" } };
  const [first] = found.parts;
  return { facts: { Kind: first.kind, Engine: first.engine, Entries: known(found.entries) ? `about ${count(found.entries)}` : "",
    Size: known(found.size) ? bytes(found.size) : "", "Not committed": known(found.uncommitted) ? count(found.uncommitted) : "",
    Tasks: found.parts.map((one) => one.task.id).join(", "),
    Restoring: found.restoring ? `${percent(found.restored)}, ${count(found.left)} offsets left` : "" } };
}

function groupFacts(box) {
  const found = groupFigures(box.name);
  return { facts: { Nodes: count(found.nodes.length), Stores: count(found.stores), Rate: rate(found.rate),
    Dropped: count(found.dropped), Tasks: found.tasks.map((task) => task.id).join(", ") } };
}

// ---------------------------------------------------------------------- queries of a store

// The reads of a store that a person asks for, with their parameters; those with a star may be left out.
const READS = {
  get: ["One key", "key", "as_of*"],
  range: ["Keys from … to", "from*", "to*", "as_of*"],
  prefix: ["Keys that begin with", "prefix", "as_of*"],
  windows: ["Windows", "key*", "from*", "to*"],
  sessions: ["Sessions", "key*", "from*", "to*"],
  versions: ["Versions", "key*", "from*", "to*"],
  count: ["Number of rows"],
};
const LABELS = { as_of: "at time", from: "from", to: "to", key: "key", prefix: "prefix" };
const MOST_ROWS = 50;

async function openQuery(box) {
  const form = byId("query"), answer = await ask(`stores/${encodeURIComponent(box.name)}`);
  if (!answer.ok || page.chosen !== box.id) return;
  const store = await answer.json(), reads = store.reads.filter((name) => READS[name]);
  if (!reads.length) return;
  const kinds = element("select", { name: "read" }, ...reads.map((name) => element("option", { value: name, textContent: READS[name][0] })));
  const fields = element("div"), send = element("button", { type: "submit", textContent: "Ask" });
  const open = () => fields.replaceChildren(...READS[kinds.value].slice(1)
    .filter((field) => !field.startsWith("as_of") || reads.includes("versions")).map(queryField));
  kinds.addEventListener("change", open);
  open();
  form.replaceChildren(element("h3", { textContent: "Ask this store" }), element("label", {}, "read", kinds), fields, send);
  form.onsubmit = (event) => {
    event.preventDefault();
    const given = [...fields.querySelectorAll("input")].filter((input) => input.value || input.required);
    askStore(box.name, kinds.value, new URLSearchParams(given.map((input) => [input.name, input.value])));
  };
  form.hidden = false;
}

function queryField(field) {
  const name = field.replace("*", ""), required = name === field;
  const input = element("input", { name, required, autocomplete: "off", spellcheck: false, dir: "auto" });
  if (name === "as_of") input.placeholder = "now; else 2026-01-31T12:00Z or ms";
  else if (!required) input.placeholder = name === "key" ? "all" : "no bound";
  return element("label", {}, LABELS[name], input);
}

async function askStore(store, read, query, rows = []) {
  const where = byId("answer"), paged = !["get", "count"].includes(read);
  if (paged) query.set("limit", MOST_ROWS);
  try {
    const answer = await ask(`stores/${encodeURIComponent(store)}/${read}?${query}`);
    const lines = (await answer.text()).trim().split("\n").map((line) => JSON.parse(line));
    if (!answer.ok) throw new Error(lines[0].error);
    if (read === "count") return where.replaceChildren(element("p", { textContent: `about ${count(lines[0].count)} rows` }));
    const last = paged ? lines.pop() : { end: true };
    showRows([...rows, ...lines], last, () => {
      query.set("cursor", last.next);
      askStore(store, read, query, [...rows, ...lines]);
    });
  } catch (error) {
    where.replaceChildren(element("p", { className: "fault", textContent: error.message }));
  }
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

function showRows(rows, last, more) {
  const parts = rows.map((row) => element("tbody", {},
    element("tr", {}, ...["key", "value"].map((name) => element("td", { textContent: asText(row[name]), dir: "auto" }))),
    element("tr", { className: "more" }, element("td", { colSpan: 2, textContent: rowText(row) }))));
  const heads = ["Key", "Value"].map((name) => element("th", { scope: "col", textContent: name }));
  const many = `${count(rows.length)} ${rows.length === 1 ? "row" : "rows"}${last.next || last.cut_off ? ", and there are more" : ""}`;
  const note = element("p", { className: last.error ? "fault" : "quiet", textContent: last.error ?? many });
  byId("answer").replaceChildren(note);
  if (rows.length) byId("answer").append(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ...parts));
  if (last.next) byId("answer").append(element("button", { type: "button", textContent: "More", onclick: more }));
}

function rowText(row) {
  const of = known(row.start) ? `${clock(row.start)}${known(row.end) ? ` to ${clock(row.end)}` : ""}` : "";
  const valid = known(row.valid_to) ? `valid until ${clock(row.valid_to)}` : "";
  return [of, known(row.timestamp) && row.timestamp >= 0 ? `record of ${clock(row.timestamp)}` : "", valid,
    known(row.partition) ? `partition ${row.partition}` : ""].filter(Boolean).join(" · ");
}

// ---------------------------------------------------------------------- the top and the tables

function setState(text, kind) {
  say(byId("state"), text);
  byId("state").className = `state ${kind}`;
}

function updateTop() {
  const it = page.latest, [first] = it.workers, { totals } = it;
  document.title = `${it.application_id} · streams`;
  say(byId("application"), it.application_id);
  setState(...stateOf(it));
  const started = it.workers.map((worker) => worker.started_at_ms).filter(known);
  const up = started.length ? `, up ${duration(it.at_ms - Math.min(...started))}` : "";
  const each = (field) => [...new Set(it.workers.map((worker) => worker[field]))].join(" and ");
  const who = it.workers.length === 1 ? `${first.host}, process ${first.pid}` : `${it.workers.length} workers`;
  say(byId("where"), `${who}, version ${each("version")}, ${each("group_protocol")} group${up}`);
  byId("all").hidden = !alone;
  const shown = {
    Records: [rate(page.history.at(-1).rate)],
    Lag: [totals.unknown_lags && totals.unknown_lags === totals.tasks ? "–" : count(totals.lag)],
    Dropped: [count(totals.dropped), totals.dropped > 0],
    ...(totals.dead_letters ? { "Dead letters": [count(totals.dead_letters), true] } : {}),
    Tasks: [count(totals.tasks)],
    ...(totals.restoring ? { Restoring: [`${count(totals.restoring)} (${count(totals.restore_remaining)} left)`] } : {}),
    ...(several() ? { Workers: [it.missing.length ? `${it.workers.length} of ${it.workers.length + it.missing.length}` : count(totals.workers), it.missing.length > 0] } : {}),
  };
  fillTotals(shown);
  byId("letters-open").hidden = !it.may_replay;
  updateHistory();
  const reasons = it.reasons.filter(({ cause }) => !(cause === "failed" && it.workers.some(({ failure }) => failure))); // the notice says that already
  byId("why").hidden = !reasons.length;
  fill(byId("why").querySelector("ul"), reasons.map(({ text, remedy }) => `${text[0].toUpperCase()}${text.slice(1)}. ${remedy}`), () => element("li"));
}

const workerState = (worker) => (worker.failure ? "failed" : worker.paused ? "paused" : worker.state.toLowerCase().replaceAll("_", " "));

// What the state of the application is called, and its colour.
function stateOf(it) {
  const number = it.workers.length + it.missing.length, states = new Set(it.workers.map(workerState));
  const well = it.workers.filter((worker) => worker.ready && workerState(worker) === "running").length;
  const [state] = states, ended = it.workers.some((worker) => worker.failure || ["ERROR", "PENDING_ERROR", "NOT_RUNNING"].includes(worker.state));
  if (states.size === 1 && !it.missing.length) return [state, ended ? "bad" : well === number ? "good" : "warn"];
  return [`${well} of ${number} workers running`, ended || !well ? "bad" : "warn"];
}

function fillTotals(totals) {
  const where = byId("totals"), names = Object.keys(totals);
  if (where.dataset.names !== names.join()) {
    where.dataset.names = names.join();
    where.replaceChildren(...names.map((name) => element("div", {}, element("dt", { textContent: name }), element("dd"))));
  }
  Object.values(totals).forEach(([text, isBad], index) => {
    say(where.children[index].lastChild, text);
    where.children[index].classList.toggle("bad", Boolean(isBad));
  });
}

function updateHistory() {
  const rates = page.history.map((one) => one.rate), most = Math.max(...rates, 1);
  const points = rates.map((one, index) => `${(120 - rates.length + 1 + index).toFixed(0)},${(26 - (one / most) * 24).toFixed(1)}`);
  byId("history").querySelector("path").setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
}

const NUMBER = true;
const ofWorker = ({ worker }) => (several() ? worker : "");
// Each table's columns, and its rows: a text for each column, then one that has the next line to itself.
const TABLES = {
  tasks: {
    title: "Tasks",
    columns: [["Task"], ["State"], ["Rate", NUMBER], ["Lag", NUMBER], ["Stream time", NUMBER]],
    rows: (it) => it.tasks.map((task) => [task.id, task.state.toLowerCase(), rate(task.rate), count(task.lag),
      streamTime(task.stream_time_ms, it.at_ms), taskText(task)]),
  },
  dropped: {
    title: "No result",
    columns: [["Records", NUMBER], ["Node"], ["At"]],
    rows: (it) => [...it.drops].sort((one, other) => isFault(other) - isFault(one) || other.count - one.count).map((drop) =>
      [count(drop.count), drop.call ?? drop.node, drop.made_at ?? "–", [drop.text, dropText(drop)].filter(Boolean).join(": ")]),
  },
  held: {
    title: "Held back",
    columns: [["Task"], ["Number", NUMBER], ["What"], ["Node"]],
    rows: (it) => it.tasks.flatMap((task) => task.held.map((one) => [task.id, heldCount(one), one.what,
      one.call ?? one.node, heldText({ ...one, task })])),
  },
  threads: {
    title: "Threads",
    columns: [["Thread"], ["State"], ["Rate", NUMBER], ["Busy", NUMBER]],
    rows: (it) => it.threads.map((thread) => [thread.name, thread.state.toLowerCase().replaceAll("_", " "),
      rate(thread.rate), percent(thread.process_ratio + thread.commit_ratio), threadText(thread)]),
  },
  brokers: {
    title: "Brokers",
    columns: [["Broker"], ["State"], ["Answers in", NUMBER], ["99 of 100", NUMBER]],
    rows: (it) => it.brokers.map((one) => [one.id < 0 ? one.address : `${one.id}, ${one.address}`,
      one.unreachable ? "not reached" : one.connected ? "connected" : "idle", brokerTime(one.latency_ms), brokerTime(one.latency_p99_ms),
      [one.unanswered ? `${count(one.unanswered)} requests without an answer in time` : "", one.queued ? `${count(one.queued)} requests wait` : "",
        one.disconnects ? `${count(one.disconnects)} disconnects` : "", ofWorker(one)].filter(Boolean).join(" · ")]),
  },
  workers: {
    title: "Workers",
    columns: [["Worker"], ["State"], ["Tasks", NUMBER], ["Rate", NUMBER], ["Lag", NUMBER], ["Dropped", NUMBER]],
    rows: (it) => [
      ...it.missing.map(({ worker, reason }) => Object.assign([{ text: worker }, "missing", "–", "–", "–", "–", reason], { fault: true })),
      ...it.workers.map((worker) => [{ text: worker.name, address: worker.endpoint }, workerState(worker), count(worker.totals.tasks),
        rate(worker.totals.rate), count(worker.totals.lag), count(worker.totals.dropped), workerText(worker)]),
    ],
  },
};

function brokerTime(ms) {
  return !known(ms) ? "–" : ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : duration(ms);
}

function workerText(worker) {
  const { dead_letters: letters, restoring, restore_remaining: left } = worker.totals, age = Date.now() - page.changed.get(worker.client_id).since;
  return [worker.failure ?? "", worker.ready ? "" : "not ready", letters ? `${count(letters)} dead letters` : "",
    restoring ? `${count(restoring)} tasks restore, ${count(left)} records left` : "",
    known(worker.started_at_ms) ? `up ${duration(worker.at_ms - worker.started_at_ms)}` : "",
    age > LATE_MS ? `unchanged for ${duration(age)}` : "", worker.endpoint ?? ""].filter(Boolean).join(" · ");
}

function taskText(task) {
  const letters = task.dead_letters ? `${count(task.dead_letters)} dead letters` : "";
  const dropped = [task.dropped ? `${count(task.dropped)} dropped` : "", letters].filter(Boolean).join(" · "), size = stateSize(task);
  return [copyingText(task), heldShort(task), dropped, size, snapshotText(task),
    known(task.latency_ms) ? `latency ${duration(task.latency_ms)}` : "", ofWorker(task), task.thread].filter(Boolean).join(" · ");
}

// The snapshot with which a task is to begin, and the last one that was written of it.
function copyingText({ copying }) {
  if (!copying) return "";
  return copying.size ? `copies a snapshot, ${percent(copying.bytes / copying.size)} of ${bytes(copying.size)}` : "waits for a snapshot";
}

function snapshotText({ snapshot }) {
  if (!snapshot) return "";
  const failed = snapshot.failures ? `, ${count(snapshot.failures)} failed` : "";
  return (known(snapshot.made_ms) ? `snapshot ${duration(page.latest.at_ms - snapshot.made_ms)} ago, ${bytes(snapshot.size)}` : "no snapshot") + failed;
}

function threadText(thread) {
  const commit = known(thread.commit_latency_ms) ? `, a commit takes ${duration(thread.commit_latency_ms)}` : "";
  return `${percent(thread.process_ratio)} processing, ${percent(thread.commit_ratio)} committing, ` +
    `${percent(thread.poll_ratio)} waiting for records${commit}${several() ? ` · ${thread.worker}` : ""}`;
}

const heldCount = (one) => (known(one.count) ? `${one.at_least ? "≥ " : ""}${count(one.count)}` : "some");

function heldShort(task) {
  if (!task.held.length) return "";
  const next = task.held.map((one) => one.next_ms).filter(known), all = task.held.map((one) => one.count).filter(known);
  return `${all.length ? count(sum(all)) : "some"} held back${next.length ? `, next at ${clock(Math.min(...next))}` : ""}`;
}

function stateSize(task) {
  const sizes = task.stores.map((one) => one.size).filter(known), entries = task.stores.map((one) => one.entries).filter(known);
  if (sizes.length) return `state ${bytes(sum(sizes))}`;
  return entries.length ? `${count(sum(entries))} entries` : "";
}

function makeTabs() {
  byId("tabs").replaceChildren(...Object.entries(TABLES).map(([name, { title }]) => {
    const tab = element("button", { type: "button", id: `tab-${name}`, role: "tab", textContent: title, "aria-controls": "table" });
    tab.addEventListener("click", () => openTab(name));
    return tab;
  }));
  byId("tabs").addEventListener("keydown", (event) => {
    const names = Object.keys(TABLES), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) byId(`tab-${openTab(names.at((names.indexOf(page.tab) + step) % names.length))}`).focus();
  });
  openTab(page.tab);
}

function openTab(name) {
  page.tab = name;
  for (const tab of byId("tabs").children) {
    const mine = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(mine));
    tab.tabIndex = mine ? 0 : -1;
  }
  byId("table").setAttribute("aria-labelledby", `tab-${name}`);
  const heads = TABLES[name].columns.map(([title, number]) => element("th", { scope: "col", textContent: title, className: number ? "number" : "" }));
  byId("table").querySelector("thead").replaceChildren(element("tr", {}, ...heads));
  for (const body of [...byId("table").querySelectorAll("tbody")]) body.remove();
  if (page.latest) updateTable();
  return name;
}

function updateTable() {
  const { columns, rows } = TABLES[page.tab], table = byId("table").querySelector("table");
  const found = rows(page.latest);
  byId("none").hidden = found.length > 0;
  table.hidden = !found.length;
  while (table.tBodies.length > found.length) table.tBodies[table.tBodies.length - 1].remove();
  found.forEach((texts, index) => {
    const body = table.tBodies[index] ?? table.appendChild(element("tbody", {}, element("tr"), element("tr", { className: "more" })));
    body.classList.toggle("fault", Boolean(texts.fault));
    fill(body.rows[0], texts.slice(0, -1), (column) => element("td", { className: columns[column][1] ? "number" : "" },
      ...(page.tab === "workers" && !column ? [element("a", { rel: "noreferrer" })] : [])));
    fill(body.rows[1], texts.slice(-1), () => element("td", { colSpan: columns.length }));
  });
  for (const name of ["dropped", "held"]) {
    const many = TABLES[name].rows(page.latest).length;
    say(byId(`tab-${name}`), many ? `${TABLES[name].title} (${many})` : TABLES[name].title);
  }
}

function update() {
  if (!page.latest || !page.picture) return;
  updateTop();
  updatePicture();
  updateDetails();
  updateTable();
}

// ---------------------------------------------------------------------- dead letters

async function answered(path, options) {
  const answer = await ask(path, options), found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

async function listLetters() {
  say(byId("letters-note"), "Reading…");
  try {
    const { topic, letters } = await answered("dead-letters");
    const heads = ["Letter", "Time", "From", "Key", ""].map((name) => element("th", { scope: "col", textContent: name }));
    const line = (text) => element("tr", { className: "more" }, element("td", { colSpan: heads.length, textContent: text, dir: "auto" }));
    const rows = letters.map((letter) => element("tbody", {}, letterRow(letter),
      line(`${letter.exception ?? "unknown"}: ${letter.message}`), line(letter.value ?? "null")));
    byId("letters-list").replaceChildren(...(rows.length ? [element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ...rows)] : []));
    say(byId("letters-note"), letters.length ? `The newest ${letters.length} of topic ${topic}` : `Topic ${topic} has no dead letters`);
  } catch (error) {
    say(byId("letters-note"), error.message);
  }
}

function letterRow(letter) {
  const from = letter.topic === null ? "unknown" : `${letter.topic}, partition ${letter.source_partition}, offset ${letter.source_offset}`;
  const texts = [`${letter.partition}:${letter.offset}`, clock(letter.timestamp), from, letter.key ?? "null"];
  const last = letter.is_replayed ? "replayed" : element("button", { type: "button", textContent: "Replay…", onclick: () => confirmReplay(letter, from) });
  return element("tr", {}, ...texts.map((text) => element("td", { textContent: text, dir: "auto" })), element("td", {}, last));
}

function confirmReplay(letter, from) {
  const dialog = byId("replay");
  say(byId("replay-text"), `The record of dead letter ${letter.partition}:${letter.offset} is sent back to where it came from: ${from}.`);
  dialog.returnValue = "";
  dialog.onclose = () => dialog.returnValue === "replay" && replayLetter(letter);
  dialog.showModal();
}

async function replayLetter({ partition, offset }) {
  const place = `${partition}:${offset}`;
  let text;
  say(byId("letters-note"), `Replaying ${place}…`);
  try {
    const body = JSON.stringify({ partition, offset });
    const { sent, left } = await answered("dead-letters/replay", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    const [reason] = Object.keys(left);
    text = sent ? `Dead letter ${place} was sent` : reason ? `Dead letter ${place} was not sent: ${reason}` : `Dead letter ${place} was sent before`;
    await listLetters();
  } catch (error) {
    text = `${error.message}. Reload the list to see whether ${place} was sent.`;
  }
  say(byId("letters-note"), text);
}

byId("letters-open").addEventListener("click", () => {
  byId("letters").showModal();
  listLetters();
});
byId("letters-reload").addEventListener("click", listLetters);
byId("letters-close").addEventListener("click", () => byId("letters").close());

// ---------------------------------------------------------------------- buttons and keys

byId("fit").addEventListener("click", () => fit());
for (const kind of ["pointerdown", "pointermove"]) map.addEventListener(kind, moveBy);
byId("in").addEventListener("click", () => zoom(1.3));
byId("out").addEventListener("click", () => zoom(1 / 1.3));
byId("close").addEventListener("click", () => {
  const from = page.boxes.get(page.chosen);
  choose(null);
  from?.group.focus({ preventScroll: true });
});
byId("collapse").addEventListener("click", () => collapse(page.collapsed.length ? [] : Object.keys(page.picture.groups)));
byId("names").addEventListener("click", async () => {
  page.names = !page.names;
  localStorage.setItem("names", page.names ? "java" : "");
  byId("names").setAttribute("aria-pressed", String(page.names));
  await loadPicture();
  update();
});
byId("search").addEventListener("input", () => {
  const [first] = search();
  if (first) bringIntoView(first, FAR);
});
byId("search").addEventListener("keydown", (event) => {
  const [first] = event.key === "Enter" ? search() : [];
  if (first) choose(first.box.id, true);
});
byId("login").addEventListener("close", () => {
  sessionStorage.setItem("token", byId("token").value);
  location.reload();
});
document.addEventListener("keydown", (event) => {
  const writes = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
  if (event.key === "Escape") {
    if (document.activeElement === byId("search")) byId("search").value = "", search(), byId("search").blur();
    else choose(null);
  } else if (!writes && !event.ctrlKey && !event.metaKey && !event.altKey && (event.key === "/" || event.key === "f")) {
    event.preventDefault();
    if (event.key === "/") byId("search").focus();
    else fit();
  }
});
new ResizeObserver(() => fit(LEGIBLE)).observe(canvas);

byId("names").setAttribute("aria-pressed", String(page.names));
makeTabs();
setInterval(watch, 1000);
follow();
