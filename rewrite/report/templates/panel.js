// What is told of a chosen node or rule. Text is only ever put in as text.

const MOST_LISTED = 40;

function make(tag, attributes = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...content.filter((piece) => piece !== null && piece !== undefined && piece !== ""));
  return made;
}

const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

class Panel {
  constructor(place, actions) {
    this.place = place;
    this.actions = actions; // choose(view, cell), rule(number), cells(view, list, words)
  }

  show(...content) {
    this.place.replaceChildren(...content.filter(Boolean));
    this.place.scrollTop = 0;
  }

  // --- pieces ---

  cellLink(view, cell) {
    const graph = graphs[view];
    const words = graph.isNode(cell) ? `${graph.titleOf(cell)} ` : "";
    return make("button", { type: "button", class: "link", onclick: () => this.actions.choose(view, cell) },
      words, make("span", { class: "name" }, graph.nameOf(cell)));
  }

  ruleLink(number) {
    return make("button", { type: "button", class: "link mono", onclick: () => this.actions.rule(number) }, rules[number].name);
  }

  list(items, most = MOST_LISTED) {
    const shown = items.slice(0, most).map((item) => make("li", {}, ...[item].flat()));
    if (items.length > most) shown.push(make("li", { class: "hint" }, `and ${items.length - most} more`));
    return make("ul", {}, ...shown);
  }

  part(title, ...content) {
    return content.some(Boolean) ? make("div", {}, make("h4", {}, title), ...content) : null;
  }

  // --- nothing chosen ---

  nothing() {
    const most = rules.map((rule, number) => [rule.uses.length, number]).filter(([uses]) => uses)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    this.show(
      make("p", { class: "hint" }, "Choose a node to see its operands and attributes, the rule that made it, and where it comes from."),
      most.length ? this.part("Rules fired", this.list(most.map(([uses, number]) =>
        make("div", { class: "row" }, this.ruleLink(number), make("span", { class: "hint" }, `${uses}×`))), 200)) : null,
    );
  }

  // --- a node ---

  node(view, cell) {
    const graph = graphs[view], kind = graph.kindOf(cell), name = graph.nameOf(cell), label = text(graph.label[cell]);
    const where = text(graph.graph[cell]), domain = graph.titleOf(cell).split(".").slice(0, -1).join(".");
    this.show(
      make("div", { class: "row" }, make("h3", {}, this.heading(graph, cell, kind)), make("span", { class: "tag" }, view)),
      kind === "input" || kind === "output" ? null : make("p", { class: "id" }, name),
      domain ? make("p", {}, make("span", { class: "hint" }, "of "), make("span", { class: "name" }, domain)) : null,
      label && label !== name ? make("p", {}, make("span", { class: "hint" }, "node "), make("span", { class: "name" }, label)) : null,
      graph.parent[cell] >= 0 && where ? make("p", {}, make("span", { class: "hint" }, "in "), make("span", { class: "name" }, where)) : null,
      graph.isNode(cell) ? this.state(view, cell) : null,
      this.attributes(graph, cell),
      this.part("Inputs", graph.inputs[cell].length ? this.list(graph.inputs[cell].map((v) => this.value(view, cell, v, true))) : null),
      this.part("Outputs", graph.outputs[cell].length ? this.list(graph.outputs[cell].map((v) => this.value(view, cell, v, false))) : null),
      this.insideOf(view, cell),
    );
  }

  heading(graph, cell, kind) {
    if (kind === "input") return `Input ${graph.nameOf(cell)}`;
    if (kind === "output") return `Output ${graph.nameOf(cell)}`;
    return graph.titleOf(cell).split(".").pop();
  }

  state(view, cell) {
    const graph = graphs[view], fate = graph.fateOf(cell), by = graph.by[cell];
    const elsewhere = graph.elsewhere && cell in graph.elsewhere;
    const lines = [];
    if (by >= 0 && (fate === "made" || fate === "rewritten")) {
      const application = applications[by];
      lines.push(make("p", {}, fate === "made" ? "Made by " : "Rewritten by ",
        application.rule >= 0 ? this.ruleLink(application.rule) : "a rule"));
      lines.push(make("p", { class: "hint" }, text(application.summary)));
      const rule = rules[application.rule];
      if (rule) lines.push(make("p", {}, rule.doc), make("p", { class: "hint" }, `Claims ${rule.claim}.`));
    } else lines.push(make("p", {}, this.fateWords(fate)));
    const group = graph.around(cell, "group");
    if (group >= 0) lines.push(make("p", {}, "Inside of the kernel ", this.cellLink(view, group)));
    if (view === "after" && elsewhere) lines.push(make("p", {}, `Not on the target: ${text(graph.elsewhere[cell])}.`));
    const others = counterparts(view, cell);
    const title = view === "before" ? "Became" : "Comes from";
    return make("div", {},
      make("div", { class: `state ${elsewhere ? "elsewhere" : by >= 0 ? "made" : ""}` }, ...lines),
      others.length ? this.part(title, this.list(others.map((c) => this.cellLink(other(view), c)))) : null);
  }

  fateWords(fate) {
    return {
      kept: "As it was.",
      folded: "Computed ahead: its value is a constant now.",
      constant: "Its value is an initializer now.",
      gone: "Removed: nothing uses it, an equal node stays, or it was inlined.",
      moved: "No rule made it: it was inlined, or had another name.",
      rewritten: "Rewritten.",
    }[fate] || "";
  }

  attributes(graph, cell) {
    const found = graph.attributes[cell].map(text);
    return this.part("Attributes", found.length ? this.list(found.map((line) => {
      const at = line.indexOf("=");
      return [make("span", { class: "name" }, line.slice(0, at)), " ", make("span", { class: "type" }, line.slice(at + 1))];
    })) : null);
  }

  // A value: its name and type, and what computes or uses it.
  value(view, cell, value, isInput) {
    const graph = graphs[view], name = text(graph.valueName[value]), constant = graph.valueConstant[value];
    const pieces = [make("span", { class: "name" }, name), " ", make("span", { class: "type" }, text(graph.valueType[value]))];
    const maker = graph.producer.get(value);
    if (constant >= 0) pieces.push(make("div", { class: "hint" }, `constant, ${text(constant)}`));
    if (isInput && maker !== undefined && maker !== cell) pieces.push(make("div", {}, make("span", { class: "hint" }, "from "), this.cellLink(view, maker)));
    if (!isInput) {
      const users = (graph.users.get(value) || []).filter((c) => c !== cell);
      for (const user of users.slice(0, 8)) pieces.push(make("div", {}, make("span", { class: "hint" }, "to "), this.cellLink(view, user)));
      if (users.length > 8) pieces.push(make("div", { class: "hint" }, `and to ${users.length - 8} more`));
    }
    const there = other(view), same = name ? graphs[there].named(graph.valueName[value]) : -1;
    const known = counterparts(view, isInput && maker !== undefined ? maker : cell);
    if (same >= 0 && graphs[there].isNode(same) && !known.includes(same)) {
      pieces.push(make("div", {}, make("span", { class: "hint" }, `${there}: `), this.cellLink(there, same)));
    }
    return pieces;
  }

  insideOf(view, box) {
    const graph = graphs[view];
    if (!graph.isBox(box)) return null;
    const inside = [];
    for (let cell = box + 1; cell < graph.count && inside.length <= 200; cell += 1) {
      if (graph.parent[cell] === box && graph.isNode(cell)) inside.push(cell);
    }
    return inside.length ? this.part("Inside", this.list(inside.map((c) => this.cellLink(view, c)))) : null;
  }

  // --- a rule ---

  rule(number) {
    const rule = rules[number], source = document.getElementById(`rule-${number}`);
    const pre = source && source.querySelector("pre");
    const uses = rule.uses.map((use) => applications[use]);
    const after = [...new Set(uses.flatMap((use) => use.after))], before = [...new Set(uses.flatMap((use) => use.before))];
    const shown = (view, cells) => (cells.length ? make("button", {
      type: "button", class: "link", onclick: () => this.actions.cells(view, cells),
    }, `${plural(cells.length, "node")} ${view}`) : null);
    this.show(
      make("div", { class: "row" }, make("h3", { class: "mono" }, rule.name), make("span", { class: "tag" }, rule.phase)),
      rule.doc ? make("p", {}, rule.doc) : null,
      make("p", { class: "hint" }, `claim ${rule.claim}, ${rule.place}`),
      uses.length ? make("div", { class: "state made" }, make("p", {}, `Applied ${plural(uses.length, "time")}`),
        make("div", { class: "row" }, shown("before", before) || "", shown("after", after) || "")) : make("p", { class: "state" }, "Not applied."),
      pre ? this.part("Text", pre.cloneNode(true)) : null,
      this.part("Applications", uses.length ? this.list(uses.map((use) => this.application(use)), 200) : null),
    );
  }

  application(use) {
    const line = [make("div", { class: "hint" }, text(use.summary))];
    const shown = use.after.length ? ["after", use.after] : ["before", use.before];
    for (const cell of shown[1].slice(0, 3)) line.push(make("div", {}, this.cellLink(shown[0], cell)));
    return line;
  }
}
