// The data of the page (rewrite/report/data.py) as two graphs of cells and values.

const raw = JSON.parse(document.getElementById("data").textContent);
const strings = [];
for (let at = 0, last = ""; at < raw.strings.length; at += 2) {
  last = last.slice(0, raw.strings[at]) + raw.strings[at + 1];
  strings.push(last);
}
const text = (number) => strings[number];
const BOXES = new Set(raw.boxes);

class Graph {
  constructor(name, columns) {
    Object.assign(this, columns);
    this.view = name;
    this.count = this.x.length;
    this.producer = new Map(); // value -> cell; of a box, the box
    this.users = new Map(); // value -> cells
    for (let cell = this.count - 1; cell >= 0; cell -= 1) {
      for (const value of this.outputs[cell]) this.producer.set(value, cell);
    }
    for (let cell = 0; cell < this.count; cell += 1) {
      for (const value of new Set(this.inputs[cell])) {
        if (!this.users.has(value)) this.users.set(value, []);
        this.users.get(value).push(cell);
      }
    }
  }

  kindOf(cell) { return raw.kinds[this.kind[cell]]; }
  fateOf(cell) { return raw.fates[this.fate[cell]]; }
  isBox(cell) { return BOXES.has(this.kindOf(cell)); }
  isNode(cell) { return this.operator[cell] !== 0; }
  nameOf(cell) { return text(this.name[cell]); }
  titleOf(cell) { return text(this.operator[cell]) || text(this.title[cell]); }

  // The nearest box around a cell that is of a kind, or -1.
  around(cell, kind) {
    let box = this.parent[cell];
    while (box >= 0 && this.kindOf(box) !== kind) box = this.parent[box];
    return box;
  }

  // The cell that computes a value of this name, or -1.
  named(name) {
    if (!this.names) {
      this.names = new Map();
      for (let cell = this.count - 1; cell >= 0; cell -= 1) {
        for (const value of this.outputs[cell]) this.names.set(this.valueName[value], cell);
      }
    }
    return this.names.has(name) ? this.names.get(name) : -1;
  }
}

const graphs = { before: new Graph("before", raw.before), after: new Graph("after", raw.after) };
const applications = raw.applications.map(([rule, summary, before, after]) => ({ rule, summary, before, after }));
const rules = raw.rules.map((parts) => {
  const [name, phase, claim, doc, place] = parts.map(text);
  return { name, phase, claim, doc, place, uses: [] };
});
applications.forEach((application, number) => {
  if (application.rule >= 0) rules[application.rule].uses.push(number);
});

// What a cell before became: cells after that come from it.
const becameOf = new Map();
graphs.after.origin.forEach((origins, cell) => {
  for (const origin of origins) {
    if (!becameOf.has(origin)) becameOf.set(origin, []);
    becameOf.get(origin).push(cell);
  }
});

// Cells before that are a part of one kernel now.
const fused = new Set([...becameOf].filter(([, cells]) => cells.some((cell) => graphs.after.around(cell, "group") >= 0)).map(([cell]) => cell));

// The cells of the other graph that belong to a cell.
function counterparts(view, cell) {
  return view === "before" ? becameOf.get(cell) || [] : graphs.after.origin[cell];
}

const other = (view) => (view === "before" ? "after" : "before");
