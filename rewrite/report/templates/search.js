// Finding nodes by operator, name, value or rule.

const MOST_FOUND = 60;

class Finder {
  constructor(input, list, choose) {
    Object.assign(this, { input, list, choose, found: [], at: -1 });
    input.addEventListener("input", () => this.find());
    input.addEventListener("focus", () => { if (input.value) this.find(); });
    input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".finder")) this.close();
    });
  }

  // Text that is searched, by view and cell.
  lines() {
    if (this.known) return this.known;
    this.known = [];
    for (const view of ["after", "before"]) {
      const graph = graphs[view];
      for (let cell = 0; cell < graph.count; cell += 1) {
        if (graph.kindOf(cell) === "graph") continue;
        const values = graph.outputs[cell].map((value) => text(graph.valueName[value]));
        const by = graph.by[cell] >= 0 && applications[graph.by[cell]].rule;
        const rule = by !== false && by >= 0 ? `rule:${rules[by].name}` : "";
        const line = [graph.titleOf(cell), graph.nameOf(cell), text(graph.label[cell]), rule, ...values].join("\n").toLowerCase();
        this.known.push({ view, cell, line });
      }
    }
    return this.known;
  }

  find() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) { this.close(); return; }
    let count = 0;
    this.found = [];
    for (const entry of this.lines()) {
      if (!words.every((word) => entry.line.includes(word))) continue;
      count += 1;
      if (this.found.length < MOST_FOUND) this.found.push(entry);
    }
    this.at = this.found.length ? 0 : -1;
    const items = this.found.map((entry, number) => this.item(entry, number));
    if (!items.length) items.push(make("li", { class: "none" }, "Nothing found"));
    if (count > items.length) items.push(make("li", { class: "none" }, `and ${count - items.length} more`));
    this.list.replaceChildren(...items);
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.move(0);
  }

  item({ view, cell }, number) {
    const graph = graphs[view], kind = graph.kindOf(cell);
    const title = kind === "input" || kind === "output" ? kind : graph.titleOf(cell);
    return make("li", { role: "option", id: `found-${number}`, "aria-selected": "false", onpointerdown: (event) => {
      event.preventDefault();
      this.take(number);
    } }, make("span", { class: "op" }, title), make("span", { class: "name mono" }, graph.nameOf(cell)), make("span", { class: "tag" }, view));
  }

  move(step) {
    if (!this.found.length) { this.input.removeAttribute("aria-activedescendant"); return; }
    this.at = (this.at + step + this.found.length) % this.found.length;
    [...this.list.querySelectorAll("[role=option]")].forEach((item, number) => {
      item.setAttribute("aria-selected", String(number === this.at));
      if (number === this.at && step) item.scrollIntoView({ block: "nearest" });
    });
    this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
  }

  take(number) {
    const entry = this.found[number];
    if (!entry) return;
    this.close();
    this.choose(entry.view, entry.cell);
  }

  key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") this.move(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Enter") this.take(this.at);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
