"use strict";
// The page of results: the matrix, its filters, and the failures of a cell. All text from the
// results goes through textContent, so none of it can become markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COUNTS = ["passed", "failed", "skipped", "known", "surprise"]; // The order in a cell.
const SIGNS = {
  passed: ["✓", "passed"],
  failed: ["✗", "failed"],
  few: ["✗", "failed, fewer than a tenth"],
  surprise: ["‼", "unexpected pass"],
  known: ["≈", "known failure"],
  partial: ["◐", "partly skipped"],
  skipped: ["○", "skipped"],
};
const FEW = 0.1; // Of the answered tests; fewer that fail are drawn in outline.
const WORST = ["failed", "few", "surprise", "known", "partial", "passed", "skipped"];
const FIRST_KINDS = ["crash", "hang"];
const BYTES_A_ROW = matchMedia("(max-width: 760px)").matches ? 8 : 16;
const PAGE_ROWS = 12;

const $ = (id) => document.getElementById(id);
const state = { q: "", set: "", failing: false, answered: false, hidden: new Set(), cell: "" };
const rows = []; // {set, message, element, cells: [td by run], text}
const groups = []; // {set, element}
const headers = []; // th by run
let current = null; // The cell that the Tab key reaches.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const number = (value) => value.toLocaleString("en-US");
const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function share(part, whole) {
  if (part === whole) return "100 %";
  return `${(Math.floor((part / whole) * 1000) / 10).toFixed(1)} %`;
}

// -- Verdicts --------------------------------------------------------------------------------

function verdict([, passed, failed, skipped, known, surprise]) {
  if (failed) return failed > FEW * (passed + failed + known + surprise) ? "failed" : "few";
  if (surprise) return "surprise";
  if (known) return "known";
  if (passed) return skipped ? "partial" : "passed";
  return "skipped";
}

function runsOfVersions(cell) {
  const marks = [];
  for (const counts of cell) {
    const [version] = counts;
    const what = verdict(counts);
    if (version === null) { // Only told where it is news that such versions are not refused.
      if (["failed", "few", "surprise", "known"].includes(what)) marks.push({ what });
      continue;
    }
    const last = marks.at(-1);
    if (last && last.what === what && last.to === version - 1) last.to = version;
    else marks.push({ what, from: version, to: version });
  }
  return marks;
}

function spelled({ from, to }) {
  if (from === undefined) return "other";
  return from === to ? `${from}` : `${from}–${to}`;
}

function spoken({ what, from, to }) {
  const [, meaning] = SIGNS[what];
  if (from === undefined) return `versions that the message does not have ${meaning}`;
  return from === to ? `version ${from} ${meaning}` : `versions ${from} to ${to} ${meaning}`;
}

function worst(cell) {
  const found = new Set(cell.map(verdict));
  return WORST.find((what) => found.has(what));
}

const isFailing = (cell) => Boolean(cell) && cell.some(([, , failed, , , odd]) => failed || odd);
const isAnswered = (cell) => Boolean(cell) && worst(cell) !== "skipped";

// -- The matrix ------------------------------------------------------------------------------

function mark(one) {
  const attributes = { class: `mark ${one.what}`, "data-sign": SIGNS[one.what][0] };
  return make("span", { ...attributes, title: spoken(one) }, spelled(one));
}

function header(run, index) {
  const [passed, failed, skipped, known, surprise] = run.counts;
  const answered = passed + failed + known + surprise;
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  for (const [what, count] of [["passed", passed], ["failed", failed + surprise], ["known", known],
    ["skipped", skipped]]) {
    const piece = make("i", { class: what });
    piece.style.flexGrow = count;
    if (count) bar.append(piece);
  }
  const told = make("span", { class: "share" },
    make("span", {}, answered ? share(passed, answered) : "no answers"));
  if (failed + surprise) told.append(make("b", {}, `✗ ${number(failed + surprise)}`));
  if (known) told.append(make("span", {}, `≈ ${number(known)}`));
  if (skipped) told.append(make("span", { class: "muted" }, `○ ${number(skipped)}`));
  if (run.brokeOff) told.append(make("b", {}, "broke off"));
  const title = COUNTS.map((what, at) => `${number(run.counts[at])} ${SIGNS[what][1]}`).join(", ");
  const cell = make("th", { scope: "col", role: "columnheader", title },
    make("span", { class: "name" }, run.label),
    make("span", { class: "version" }, `${run.version} · ${run.language}`), bar, told);
  headers[index] = cell;
  return cell;
}

function gridCell(run, row, cell) {
  const label = DATA.runs[run].label;
  const element = make("td", { role: "gridcell", tabindex: "-1", "data-label": label });
  element.dataset.run = run;
  element.dataset.row = row;
  if (!cell) {
    element.className = "none";
    element.setAttribute("aria-label", `${label}: not in this run`);
    element.append("–");
    return element;
  }
  const marks = runsOfVersions(cell);
  element.dataset.verdict = worst(cell);
  element.setAttribute("aria-label",
    `${label}, ${DATA.rows[row][1]}: ${marks.map(spoken).join(", ")}`);
  element.append(make("div", { class: "marks", "aria-hidden": "true" }, ...marks.map(mark)));
  return element;
}

// A long name breaks between its words.
function breakable(name) {
  return name.split(/(?<=[a-z0-9])(?=[A-Z])/).flatMap((word) => [word, make("wbr")]);
}

function haystack(set, message, row) {
  const words = [set, message];
  for (const run of DATA.runs) {
    for (const one of (run.failures[row] || { shown: [] }).shown) {
      words.push(one.id, one.path || "", one.family || "", one.kind || "", ...(one.flags || []));
    }
  }
  return words.join(" ").toLowerCase();
}

function build() {
  const table = $("matrix");
  table.setAttribute("aria-colcount", DATA.runs.length + 1);
  const corner = make("th", { scope: "col", role: "columnheader" }, "Message");
  table.tHead.append(make("tr", { role: "row" }, corner, ...DATA.runs.map(header)));
  table.tHead.setAttribute("role", "rowgroup");
  let body = null;
  DATA.rows.forEach(([set, message], row) => {
    if (!groups.length || groups.at(-1).set !== set) {
      const span = DATA.runs.length + 1;
      const title = make("th", { scope: "rowgroup", role: "rowheader", colspan: span }, set);
      const element = make("tr", { class: "group", role: "row" }, title);
      body = make("tbody", { role: "rowgroup" }, element);
      groups.push({ set, element });
      table.append(body);
    }
    const name = make("th", { scope: "row", role: "rowheader" }, ...breakable(message));
    const cells = DATA.runs.map((run, index) => gridCell(index, row, run.cells[row]));
    const element = make("tr", { class: "row", role: "row" }, name, ...cells);
    rows.push({ set, message, element, cells, text: haystack(set, message, row) });
    body.append(element);
  });
  $("legend").append(make("li", {}, "Numbers are versions."));
  for (const [what, [sign, meaning]] of Object.entries(SIGNS)) {
    const sample = make("span", { class: `mark ${what}`, "data-sign": sign, "aria-hidden": "true" });
    $("legend").append(make("li", {}, sample, ` ${meaning}`));
  }
  DATA.runs.forEach((run) => {
    const box = make("input", { type: "checkbox", value: run.label });
    box.addEventListener("change", () => {
      if (box.checked) state.hidden.delete(run.label);
      else state.hidden.add(run.label);
      filter();
    });
    const shown = `${run.label} ${run.version}`;
    $("column-choices").append(make("label", { class: "check" }, box, shown));
  });
}

function visibleRuns() {
  return DATA.runs.map((run, index) => index).filter((at) => !state.hidden.has(DATA.runs[at].label));
}

function filter() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const shownRuns = visibleRuns();
  let count = 0;
  rows.forEach((row, index) => {
    const fits = (!state.set || row.set === state.set)
      && words.every((word) => row.text.includes(word))
      && (!state.failing || shownRuns.some((run) => isFailing(DATA.runs[run].cells[index])))
      && (!state.answered || shownRuns.some((run) => isAnswered(DATA.runs[run].cells[index])));
    row.element.hidden = !fits;
    count += fits;
  });
  for (const group of groups) {
    group.element.hidden = rows.every((row) => row.set !== group.set || row.element.hidden);
  }
  DATA.runs.forEach((run, index) => {
    const off = state.hidden.has(run.label);
    headers[index].hidden = off;
    for (const row of rows) row.cells[index].hidden = off;
  });
  $("nothing").hidden = count > 0;
  $("matrix").setAttribute("aria-rowcount", count + 1);
  $("shown").value = count === rows.length
    ? counted(count, "message") : `${number(count)} of ${counted(rows.length, "message")}`;
  if (!current || current.hidden || current.parentElement.hidden) rove(firstCell());
  remember(false);
}

// -- Moving by keyboard ------------------------------------------------------------------------

const shownRows = () => rows.filter((row) => !row.element.hidden);
const shownCells = (row) => row.cells.filter((cell) => !cell.hidden);

function firstCell() {
  const row = shownRows()[0];
  return row ? shownCells(row)[0] || null : null;
}

function rove(cell, focus = false) {
  if (current) current.tabIndex = -1;
  current = cell;
  if (!cell) return;
  cell.tabIndex = 0;
  if (!focus) return;
  cell.focus({ preventScroll: true });
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function move(event) {
  const cell = event.target.closest("td");
  if (!cell || event.altKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openCell(cell);
    return;
  }
  const list = shownRows();
  let y = list.indexOf(rows[cell.dataset.row]);
  const across = shownCells(list[y]);
  let x = across.indexOf(cell);
  const steps = {
    ArrowLeft: () => { x -= 1; }, ArrowRight: () => { x += 1; },
    ArrowUp: () => { y -= 1; }, ArrowDown: () => { y += 1; },
    PageUp: () => { y -= PAGE_ROWS; }, PageDown: () => { y += PAGE_ROWS; },
    Home: () => { x = 0; if (event.ctrlKey) y = 0; },
    End: () => { x = across.length - 1; if (event.ctrlKey) y = list.length - 1; },
  };
  if (!(event.key in steps)) return;
  event.preventDefault();
  steps[event.key]();
  y = Math.max(0, Math.min(y, list.length - 1));
  x = Math.max(0, Math.min(x, across.length - 1));
  rove(shownCells(list[y])[x], true);
}

// -- The failures of a cell --------------------------------------------------------------------

const nameOf = (cell) => {
  const row = rows[cell.dataset.row];
  return `${DATA.runs[cell.dataset.run].label}/${row.set}/${row.message}`;
};

function cellNamed(name) {
  const [message, set, ...label] = name.split("/").reverse(); // A label may have a slash in it.
  const wanted = label.reverse().join("/");
  const run = DATA.runs.findIndex((one) => one.label === wanted);
  const row = rows.find((one) => one.set === set && one.message === message);
  return row && run >= 0 ? row.cells[run] : null;
}

function failingCells() {
  return shownRows().flatMap((row) => shownCells(row)).filter(
    (cell) => DATA.runs[cell.dataset.run].failures[cell.dataset.row]);
}

function step(by) {
  const cells = failingCells();
  if (!cells.length) return;
  const at = cells.indexOf(cellNamed(state.cell));
  const from = at < 0 && by < 0 ? 0 : at;
  openCell(cells[(from + by + cells.length) % cells.length]);
}

const versionOf = ([version]) => (version === null ? {} : { from: version, to: version });

function versionsTable(cell) {
  const columns = [["passed", 1], ["failed", 2], ["known", 4], ["skipped", 3], ["unexpected", 5]]
    .filter(([, at]) => at < 3 || cell.some((counts) => counts[at]));
  const head = make("tr", {}, make("th", { scope: "col" }, "version"),
    ...columns.map(([what]) => make("th", { scope: "col" }, what)));
  const lines = cell.map((counts) => make("tr", {},
    make("th", { scope: "row" }, mark({ what: verdict(counts), ...versionOf(counts) })),
    ...columns.map(([, at]) => make("td", {}, counts[at] ? number(counts[at]) : "·"))));
  return make("table", { class: "versions" }, make("thead", {}, head),
    make("tbody", {}, ...lines));
}

function hexRows(evidence) {
  const split = (text) => (text || "").match(/../g) || [];
  const [wanted, given] = [split(evidence.wanted), split(evidence.given)];
  const line = (bytes, other, start) => {
    const out = make("td");
    for (let at = start; at < start + BYTES_A_ROW && at < bytes.length; at += 1) {
      const same = bytes[at] === other[at];
      out.append(same ? bytes[at] : make("mark", {}, bytes[at]), at % 8 === 7 ? "  " : " ");
    }
    return out;
  };
  const table = make("table", { class: "hex" });
  for (let at = 0; at < Math.max(wanted.length, given.length); at += BYTES_A_ROW) {
    const place = make("th", { scope: "rowgroup" }, String(evidence.at + at));
    table.append(make("tr", {}, place, make("th", {}, "wanted"), line(wanted, given, at)),
      make("tr", {}, make("td"), make("th", {}, "given"), line(given, wanted, at)));
  }
  return [make("p", { class: "muted" },
    `The bytes part at byte ${number(evidence.differs)}${evidence.cut ? "; shown around it" : ""}:`),
  table];
}

function textPair(failure) {
  return ["wanted", "given"].filter((side) => failure[side]).map((side) => {
    const text = failure[side];
    const label = make("span", { class: "muted" }, `${side} `);
    return text.length > 60 ? make("div", {}, label, make("pre", {}, text))
      : make("p", {}, label, make("code", {}, text));
  });
}

function flagChip(name) {
  const note = DATA.flags[name];
  const chip = make("li", {}, make("strong", {}, name));
  if (!note) return chip;
  chip.append(note.type ? ` (${note.type})` : "", note.text ? `: ${note.text}` : "");
  note.links.forEach((link) => {
    chip.append(" ");
    // Only what a browser fetches by itself; any other scheme stays text.
    const known = /^https?:\/\//.test(link);
    const outside = { href: link, rel: "noreferrer", target: "_blank" };
    chip.append(known ? make("a", outside, link.replace(/^https?:\/\//, "")) : link);
  });
  return chip;
}

function command(text) {
  const button = make("button", { type: "button" }, "Copy");
  const words = text.split(" ").flatMap((word) => [make("span", {}, word), " "]);
  const line = make("pre", {}, ...words.slice(0, -1));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(line); // No clipboard here: it is ready for Ctrl+C.
      say("Selected");
    }
  });
  return make("div", { class: "command" }, line, button);
}

function failureArticle(failure) {
  const title = make("h4", {}, `v${failure.version} ${failure.direction}`);
  for (const word of [failure.kind, failure.family]) {
    if (word) title.append(make("span", { class: "chip" }, word));
  }
  title.append(make("code", {}, failure.id));
  const kind = failure.known ? "failure known" : "failure";
  const article = make("article", { class: kind }, title);
  const where = [failure.path, failure.offset === undefined ? "" : `byte ${failure.offset}`];
  const place = where.filter(Boolean).join(", ");
  if (place) article.append(make("p", {}, "at ", make("code", {}, place)));
  article.append(make("p", {}, failure.detail));
  if (failure.known) article.append(make("p", {}, `Known: ${failure.known}`));
  if (failure.flags) article.append(make("ul", {}, ...failure.flags.map(flagChip)));
  if (failure.hex) article.append(...hexRows(failure.hex));
  else article.append(...textPair(failure));
  if (failure.reproduce) article.append(command(failure.reproduce));
  return article;
}

function byKind(failures) {
  const place = (kind) => (FIRST_KINDS.indexOf(kind) + 1 || FIRST_KINDS.length + 1);
  const kinds = [...new Set(failures.map(({ kind }) => kind))].sort((a, b) => place(a) - place(b));
  return kinds.flatMap((kind) => {
    const some = failures.filter((failure) => failure.kind === kind);
    const title = make("h4", { class: "kind" }, `${kind}: ${number(some.length)}`);
    return [...(kinds.length > 1 ? [title] : []), ...some.map(failureArticle)];
  });
}

function detail(cell) {
  const { run, row } = cell.dataset;
  const judged = DATA.runs[run];
  const found = judged.failures[row];
  const parts = [];
  if (judged.cells[row]) parts.push(versionsTable(judged.cells[row]));
  else parts.push(make("p", {}, "This message was not in the run."));
  if (found) {
    const of = found.shown.length < found.count ? `${number(found.shown.length)} of ` : "";
    parts.push(make("h3", {}, `${of}${counted(found.count, "failure")}`));
    if (of) {
      parts.push(make("p", { class: "more" }, "Some of every version are shown; the JSON of the run "
        + "has them all."));
    }
    parts.push(...byKind(found.shown));
  } else if (judged.cells[row]) {
    const none = worst(judged.cells[row]) === "skipped" ? "Nothing was answered here." : "No failures.";
    parts.push(make("p", {}, none));
  }
  const skipped = (judged.cells[row] || []).some((counts) => counts[3]);
  if (skipped && judged.skips.length) {
    parts.push(make("h3", {}, `Why ${judged.label} skips, in the whole run`), make("ul", {},
      ...judged.skips.map(([why, count]) => make("li", {}, `${number(count)} × ${why}`))));
  }
  $("detail-title").replaceChildren(`${judged.label} · `, ...breakable(rows[row].message));
  $("detail-body").replaceChildren(...parts);
}

function openCell(cell) {
  if (cell.classList.contains("none")) return;
  rove(cell);
  detail(cell);
  const dialog = $("detail");
  const wasOpen = dialog.open;
  if (!wasOpen) dialog.showModal();
  dialog.scrollTop = 0;
  $("detail-title").focus();
  state.cell = nameOf(cell);
  remember(!wasOpen);
}

// -- The URL -----------------------------------------------------------------------------------

function remember(push) {
  const parts = new URLSearchParams();
  if (state.q) parts.set("q", state.q);
  if (state.set) parts.set("set", state.set);
  if (state.failing) parts.set("failures", "only");
  if (state.answered) parts.set("answered", "only");
  for (const label of state.hidden) parts.append("hide", label);
  if (state.cell) parts.set("cell", state.cell);
  const hash = parts.size ? `#${parts.toString().replaceAll("%2F", "/")}` : "";
  if (hash === location.hash) return;
  const url = hash || location.pathname + location.search;
  history[push ? "pushState" : "replaceState"](null, "", url);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  state.q = parts.get("q") || "";
  state.set = DATA.rows.some(([set]) => set === parts.get("set")) ? parts.get("set") : "";
  state.failing = parts.get("failures") === "only";
  state.answered = parts.get("answered") === "only";
  state.hidden = new Set(parts.getAll("hide").filter(
    (label) => DATA.runs.some((run) => run.label === label)));
  const cell = cellNamed(parts.get("cell") || "");
  state.cell = cell ? nameOf(cell) : "";
  $("search").value = state.q;
  $("set").value = state.set;
  for (const name of ["failing", "answered"]) $(name).checked = state[name];
  for (const box of $("column-choices").querySelectorAll("input")) {
    box.checked = !state.hidden.has(box.value);
  }
  filter();
  if (cell) openCell(cell);
  else if ($("detail").open) $("detail").close();
}

// -- Light and dark ------------------------------------------------------------------------------

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  return document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light");
}

function showTheme() {
  const other = theme() === "dark" ? "Light" : "Dark";
  $("theme-name").textContent = other;
  $("theme").setAttribute("aria-label", `${other} colours`);
}

function keptTheme(value) {
  try { // A page from a file may have no storage.
    if (value) localStorage.setItem("kraftspec-theme", value);
    return localStorage.getItem("kraftspec-theme");
  } catch {
    return null;
  }
}

function say(text) {
  $("said").textContent = text;
}

function listen() {
  $("search").addEventListener("input", (event) => { state.q = event.target.value; filter(); });
  $("set").addEventListener("change", (event) => { state.set = event.target.value; filter(); });
  for (const name of ["failing", "answered"]) {
    $(name).addEventListener("change", (event) => {
      state[name] = event.target.checked;
      filter();
    });
  }
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("reset").addEventListener("click", () => {
    history.replaceState(null, "", location.pathname + location.search);
    recall();
    $("search").focus();
  });
  $("matrix").addEventListener("keydown", move);
  $("matrix").addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (cell) openCell(cell);
  });
  $("detail").addEventListener("close", () => {
    state.cell = "";
    remember(false);
    if (current) rove(current, true);
  });
  $("detail").addEventListener("click", (event) => { // The backdrop is the dialog itself.
    const box = $("detail").getBoundingClientRect();
    if (event.target === $("detail") && event.clientX && event.clientX < box.left) {
      $("detail").close();
    }
  });
  $("close").addEventListener("click", () => $("detail").close());
  $("next").addEventListener("click", () => step(1));
  $("previous").addEventListener("click", () => step(-1));
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    keptTheme(theme());
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  addEventListener("hashchange", recall);
  addEventListener("popstate", recall);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !$("detail").open) {
      event.preventDefault();
      $("search").focus();
    }
  });
}

if (["light", "dark"].includes(keptTheme())) document.documentElement.dataset.theme = keptTheme();
build();
listen();
showTheme();
document.querySelector("main").hidden = false;
recall();
