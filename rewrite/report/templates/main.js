// The page put together.

document.documentElement.classList.add("script");

const figures = Object.fromEntries([...document.querySelectorAll(".view")].map((figure) => [figure.dataset.view, figure]));
const say = (words) => { document.getElementById("told").textContent = words; };
let shownViews = "after", active = "after";

const views = {};
for (const name of ["before", "after"]) {
  views[name] = new View(figures[name], graphs[name], (view, cell, follow) => choose(view.graph.view, cell, follow ? "follow" : "stay"));
  views[name].canvas.addEventListener("focus", () => { active = name; });
  views[name].canvas.addEventListener("pointerdown", () => { active = name; });
}

const panel = new Panel(document.getElementById("panel"), {
  choose: (view, cell) => choose(view, cell, "show"),
  rule: (number) => showRule(number),
  cells: (view, cells) => showCells(view, cells),
});

function showViews(which) {
  shownViews = which;
  for (const name of ["before", "after"]) figures[name].hidden = which !== "both" && which !== name;
  for (const button of document.querySelectorAll("[data-show]")) button.setAttribute("aria-pressed", String(button.dataset.show === which));
  if (which !== "both") active = which;
  for (const name of ["before", "after"]) views[name].resize();
}

function reveal(view) {
  if (shownViews !== "both" && shownViews !== view) showViews(view);
  active = view;
}

// Choose a cell. `how`: stay (it was clicked), follow (move only if it is out of sight), show.
function choose(view, cell, how) {
  if (cell < 0) {
    for (const name of ["before", "after"]) views[name].mark({ cell: -1, cells: null, related: new Set() });
    panel.nothing();
    say("Nothing chosen");
    return;
  }
  reveal(view);
  const graph = graphs[view], there = other(view), related = new Set(counterparts(view, cell));
  views[view].mark({ cell, cells: null, related: new Set() });
  views[there].mark({ cell: -1, cells: null, related });
  if (how === "show" || (how === "follow" && !views[view].inSight(cell))) views[view].show([cell]);
  if (related.size && (shownViews !== "both" || ![...related].every((c) => views[there].inSight(c)))) views[there].show(related);
  panel.node(view, cell);
  say(`${graph.titleOf(cell)} ${graph.nameOf(cell)}, ${view}`);
}

function showCells(view, cells) {
  reveal(view);
  const related = new Set(cells.flatMap((cell) => counterparts(view, cell)));
  views[view].mark({ cell: -1, cells: new Set(cells), related: new Set() });
  views[other(view)].mark({ cell: -1, cells: related, related: new Set() });
  views[view].show(cells);
  views[other(view)].show(related);
  say(`${plural(cells.length, "node")} marked`);
}

function showRule(number) {
  const uses = rules[number].uses.map((use) => applications[use]);
  const before = [...new Set(uses.flatMap((use) => use.before))], after = [...new Set(uses.flatMap((use) => use.after))];
  views.before.mark({ cell: -1, cells: uses.length ? new Set(before) : null, related: new Set() });
  views.after.mark({ cell: -1, cells: uses.length ? new Set(after) : null, related: new Set() });
  if (shownViews === "after" && !after.length && before.length) reveal("before");
  views.before.show(before);
  views.after.show(after);
  panel.rule(number);
  say(`Rule ${rules[number].name}, applied ${plural(uses.length, "time")}`);
}

const toGraph = () => document.getElementById("graph").scrollIntoView({ block: "start" });

for (const button of document.querySelectorAll("[data-show]")) button.addEventListener("click", () => showViews(button.dataset.show));
for (const button of document.querySelectorAll("[data-zoom]")) {
  const acts = { in: (view) => view.zoom(1.4), out: (view) => view.zoom(1 / 1.4), fit: (view) => view.fit(), width: (view) => view.top() };
  button.addEventListener("click", () => acts[button.dataset.zoom](views[active]));
}
const finder = new Finder(document.getElementById("search"), document.getElementById("results"), (view, cell) => choose(view, cell, "show"));

document.addEventListener("click", (event) => {
  const rule = event.target.closest("a[data-rule]"), cells = event.target.closest("button.cells");
  if (rule) {
    event.preventDefault();
    showRule(Number(rule.dataset.rule));
    toGraph();
  } else if (cells && cells.dataset.cells) {
    const list = cells.dataset.cells.split(",").map(Number);
    if (list.length === 1) choose(cells.dataset.graph, list[0], "show");
    else { panel.nothing(); showCells(cells.dataset.graph, list); }
    toGraph();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input")) {
    event.preventDefault();
    finder.input.focus();
    toGraph();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { views.before.recolour(); views.after.recolour(); });
addEventListener("hashchange", openTarget);
for (const table of document.querySelectorAll("table.sortable")) { sortable(table); shorten(table); }
openTarget();
panel.nothing();
document.documentElement.dataset.ready = "";
