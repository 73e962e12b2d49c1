// One picture: moving about in it, and choosing cells.

const LEAST = 0.004, MOST = 3, FIT = 0.05, // FIT: below it a long graph is a hair
  READABLE = 0.7, // READABLE: a scale at which all text can be read
  MARGIN = 48, RAIL = 56; // RAIL: width of the overview at the right

class View {
  constructor(figure, graph, choose) {
    this.figure = figure;
    this.canvas = figure.querySelector("canvas");
    this.context = this.canvas.getContext("2d");
    this.graph = graph;
    this.choose = choose;
    this.painter = new Painter(graph);
    this.selection = { cell: -1, cells: null, related: new Set() };
    this.camera = { scale: 1, x: 0, y: 0 };
    this.pointers = new Map();
    this.placed = false;
    const left = graph.leftOut ? `, without ${graph.leftOut} nodes at the end` : "";
    figure.querySelector("figcaption").textContent = `${graph.view === "before" ? "Before" : "After"}${left}`;
    new ResizeObserver(() => this.resize()).observe(figure);
    this.listen();
  }

  // --- the camera ---

  resize() {
    const box = this.figure.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const { scale, x, y } = this.camera;
    const middle = this.placed && [(this.room() / 2 - x) / scale, (this.height / 2 - y) / scale];
    this.width = box.width;
    this.height = box.height;
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * this.ratio);
    this.canvas.height = Math.round(box.height * this.ratio);
    if (!this.placed) {
      this.placed = true;
      this.top();
    } else if (this.moved) this.look(...middle, scale);
    else this.top();
    const wanted = this.wanted;
    this.wanted = null;
    if (wanted) this.show(wanted);
    this.forget();
    this.clamp();
    this.redraw();
  }

  forget() { this.small = null; }

  recolour() {
    this.painter.colours = palette();
    this.forget();
    this.redraw();
  }

  redraw() {
    if (this.waiting || !this.width) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      this.painter.paint(this.context, this.camera, this.width, this.height, this.selection);
      this.rail();
    });
  }

  room() { return this.width - (this.hasRail() ? RAIL : 0); }

  // Whether the graph is much larger than what is seen of it at a readable scale.
  hasRail() { return this.graph.size[1] > 1.5 * this.height || this.graph.size[0] > 3 * this.width; }

  fit() {
    const [w, h] = this.graph.size;
    const scale = Math.min((this.room() - MARGIN) / Math.max(1, w), (this.height - 2 * MARGIN) / Math.max(1, h), 1.25);
    if (scale >= FIT) this.look(w / 2, h / 2, scale);
    else this.look(w / 2, -this.camera.y / this.camera.scale + this.height / 2 / this.camera.scale, FIT);
  }

  // The beginning of the graph, wide enough to be read.
  top() {
    const [w, h] = this.graph.size;
    const wide = (this.room() - MARGIN) / Math.max(1, w);
    const scale = Math.min(1, Math.max(wide, READABLE));
    if (h * scale <= this.height - 2 * MARGIN) { this.look(w / 2, h / 2, scale); this.moved = false; return; }
    const first = this.firstRow();
    this.look(w * scale > this.room() ? first : w / 2, (this.height / 2 - MARGIN) / scale, scale);
    this.moved = false;
  }

  // The middle of what comes first.
  firstRow() {
    let least = Infinity, at = 0;
    for (let cell = 0; cell < this.graph.count; cell += 1) {
      if (this.graph.parent[cell] < 0 && this.graph.y[cell] < least) {
        least = this.graph.y[cell];
        at = this.graph.x[cell] + this.graph.w[cell] / 2;
      }
    }
    return at;
  }

  // Bring a point of the graph to the middle.
  look(x, y, scale) {
    const bounded = Math.min(MOST, Math.max(LEAST, scale));
    this.moved = true;
    this.camera = { scale: bounded, x: this.room() / 2 - x * bounded, y: this.height / 2 - y * bounded };
    this.clamp();
    this.redraw();
  }

  zoom(factor, px = this.room() / 2, py = this.height / 2) {
    const { scale, x, y } = this.camera;
    const next = Math.min(MOST, Math.max(LEAST, scale * factor));
    this.moved = true;
    this.camera = { scale: next, x: px - (px - x) * (next / scale), y: py - (py - y) * (next / scale) };
    this.clamp();
    this.redraw();
  }

  pan(dx, dy) {
    const { x, y } = this.camera;
    this.camera = { ...this.camera, x: x + dx, y: y + dy };
    this.moved = true;
    this.clamp();
    this.redraw();
    return this.camera.x !== x || this.camera.y !== y;
  }

  // The graph never leaves the picture; what is smaller than the picture stays inside of it.
  clamp() {
    const { scale } = this.camera, [w, h] = this.graph.size;
    const bound = (at, length, room) => {
      const low = room - length - MARGIN, high = MARGIN;
      return low < high ? Math.min(high, Math.max(low, at)) : (room - length) / 2;
    };
    this.camera.x = bound(this.camera.x, w * scale, this.room());
    this.camera.y = bound(this.camera.y, h * scale, this.height);
  }

  // Bring cells into sight: one at a readable scale, several as a whole.
  show(cells) {
    if (!this.placed || this.figure.hidden) { this.wanted = cells; return; }
    const { x, y, w, h } = this.graph, list = [...cells];
    if (!list.length) return;
    const left = Math.min(...list.map((c) => x[c])), right = Math.max(...list.map((c) => x[c] + w[c]));
    const top = Math.min(...list.map((c) => y[c])), bottom = Math.max(...list.map((c) => y[c] + h[c]));
    const whole = Math.min((this.room() - 2 * MARGIN) / (right - left), (this.height - 2 * MARGIN) / (bottom - top));
    const one = list.length === 1;
    const near = this.camera.scale >= 0.5 && this.camera.scale <= 1.5 ? this.camera.scale : 1;
    if (!one && whole < FIT) { this.show([list.reduce((a, b) => (y[b] < y[a] ? b : a))]); return; }
    const scale = one ? Math.min(near, Math.max(whole, 0.5)) : Math.min(1, whole);
    this.look((left + right) / 2, one && h[list[0]] * scale > this.height ? top + this.height / scale / 3 : (top + bottom) / 2, scale);
  }

  inSight(cell) {
    const { scale, x, y } = this.camera, graph = this.graph;
    const left = graph.x[cell] * scale + x, top = graph.y[cell] * scale + y;
    return left >= 0 && top >= 0 && left + graph.w[cell] * scale <= this.room() && top + graph.h[cell] * scale <= this.height;
  }

  // --- the overview ---

  rail() {
    if (!this.hasRail()) return;
    const { context } = this, height = this.height - 16, width = RAIL - 16, left = this.width - RAIL + 8;
    if (!this.small) this.small = this.painter.overview(width, height, this.ratio, this.graph.size, this.selection);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.painter.colours.paper;
    context.fillRect(this.width - RAIL, 0, RAIL, this.height);
    context.fillStyle = this.painter.colours.line;
    context.fillRect(this.width - RAIL, 0, 1, this.height);
    context.drawImage(this.small, left, 8, width, height);
    const { scale, x, y } = this.camera, [w, h] = this.graph.size;
    const sx = width / Math.max(1, w), sy = height / Math.max(1, h);
    const clip = (at, most) => Math.min(most, Math.max(0, at));
    const x0 = clip((-x / scale) * sx, width), x1 = clip(((this.room() - x) / scale) * sx, width);
    const y0 = clip((-y / scale) * sy, height), y1 = clip(((this.height - y) / scale) * sy, height);
    context.strokeStyle = this.painter.colours.ink;
    context.lineWidth = 1.25;
    const tall = Math.max(6, y1 - y0);
    context.strokeRect(left + x0 - 1.5, 8 + Math.min(y0, height - tall) - 1.5, Math.max(6, x1 - x0) + 3, tall + 3);
  }

  jumpTo(px, py) {
    const [w, h] = this.graph.size, { scale } = this.camera;
    const x = ((px - (this.width - RAIL + 8)) / (RAIL - 16)) * w, y = ((py - 8) / (this.height - 16)) * h;
    this.look(x, y, scale);
  }

  // --- choosing ---

  // The cell at a point of the canvas: the innermost, or -1.
  at(px, py) {
    const { scale, x, y } = this.camera, gx = (px - x) / scale, gy = (py - y) / scale, graph = this.graph;
    const strip = this.painter.strips.cells[Math.floor(gy / BAND)] || [];
    let found = -1;
    for (const cell of strip) {
      if (graph.x[cell] <= gx && gx <= graph.x[cell] + graph.w[cell] && graph.y[cell] <= gy && gy <= graph.y[cell] + graph.h[cell]) found = cell;
    }
    return found >= 0 && graph.kindOf(found) === "graph" ? graph.parent[found] : found;
  }

  mark(selection) {
    this.selection = selection;
    this.forget();
    this.redraw();
  }

  // The next cell in a direction: along edges up and down, in the same row left and right.
  next(key) {
    const graph = this.graph, cell = this.selection.cell;
    if (cell < 0) return -1;
    if (key === "ArrowUp") return this.first(graph.inputs[cell].map((v) => graph.producer.get(v)), cell);
    if (key === "ArrowDown") return this.first(graph.outputs[cell].flatMap((v) => graph.users.get(v) || []), cell);
    const right = key === "ArrowRight", middle = (c) => graph.y[c] + graph.h[c] / 2;
    let best = -1, least = Infinity;
    for (let one = 0; one < graph.count; one += 1) {
      if (one === cell || graph.parent[one] !== graph.parent[cell] || Math.abs(middle(one) - middle(cell)) > 30) continue;
      const apart = right ? graph.x[one] - graph.x[cell] : graph.x[cell] - graph.x[one];
      if (apart > 0 && apart < least) { least = apart; best = one; }
    }
    return best;
  }

  first(cells, cell) {
    const found = cells.filter((c) => c !== undefined && c !== cell);
    return found.length ? found[0] : -1;
  }

  // --- events ---

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  onRail(px) { return this.hasRail() && px > this.width - RAIL; }

  listen() {
    this.canvas.addEventListener("wheel", (event) => {
      const [px, py] = this.place(event), unit = event.deltaMode === 1 ? 24 : event.deltaMode === 2 ? this.height : 1;
      let moved = true;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.004), px, py);
      else moved = this.pan(event.shiftKey ? -event.deltaY * unit : -event.deltaX * unit, event.shiftKey ? 0 : -event.deltaY * unit);
      if (moved) event.preventDefault();
    }, { passive: false });
    this.canvas.addEventListener("dblclick", (event) => {
      const [px, py] = this.place(event);
      if (!this.onRail(px)) this.zoom(event.shiftKey ? 0.5 : 2, px, py);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.listenToPointer();
  }

  listenToPointer() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      const [px, py] = this.place(event);
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [px, py]);
      this.still = this.pointers.size === 1;
      this.railed = this.onRail(px);
      if (this.railed) this.jumpTo(px, py);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = this.place(event), last = this.pointers.get(event.pointerId);
      if (!last) { canvas.classList.toggle("over", !this.onRail(px) && this.at(px, py) >= 0); return; }
      if (this.still && Math.hypot(px - last[0], py - last[1]) < 4) return;
      this.still = false;
      canvas.classList.add("moving");
      if (this.railed) this.jumpTo(px, py);
      else if (this.pointers.size === 2) this.pinch(event.pointerId, px, py);
      else this.pan(px - last[0], py - last[1]);
      this.pointers.set(event.pointerId, [px, py]);
    });
    const up = (event) => {
      const [px, py] = this.place(event);
      if (this.pointers.delete(event.pointerId) && this.still && !this.railed && event.type === "pointerup") this.choose(this, this.at(px, py));
      canvas.classList.remove("moving");
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
  }

  pinch(pointer, px, py) {
    const [id] = [...this.pointers.keys()].filter((key) => key !== pointer);
    const [ox, oy] = this.pointers.get(id), [lx, ly] = this.pointers.get(pointer);
    const factor = Math.hypot(px - ox, py - oy) / Math.max(1, Math.hypot(lx - ox, ly - oy));
    this.zoom(factor, (px + ox) / 2, (py + oy) / 2);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event, step = 60;
    const moves = { ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0] };
    if (key === "+" || key === "=") this.zoom(1.25);
    else if (key === "-") this.zoom(0.8);
    else if (key === "0") this.fit();
    else if (key === "1") this.top();
    else if (key === "PageDown") this.pan(0, -0.8 * this.height);
    else if (key === "PageUp") this.pan(0, 0.8 * this.height);
    else if (key === "Home") this.top();
    else if (key === "Escape") this.choose(this, -1);
    else if (key === "Enter" && this.selection.cell < 0) this.choose(this, this.middle());
    else if (key in moves && this.selection.cell < 0) this.pan(...moves[key]);
    else if (key in moves) {
      const next = this.next(key);
      if (next >= 0) this.choose(this, next, true);
    } else return;
    event.preventDefault();
  }

  // The node nearest to the middle of the picture.
  middle() {
    const { scale, x, y } = this.camera, graph = this.graph;
    const mx = (this.room() / 2 - x) / scale, my = (this.height / 2 - y) / scale;
    let best = -1, least = Infinity;
    for (let cell = 0; cell < graph.count; cell += 1) {
      const apart = Math.hypot(graph.x[cell] + graph.w[cell] / 2 - mx, graph.y[cell] + graph.h[cell] / 2 - my);
      if (!graph.isBox(cell) && apart < least) { least = apart; best = cell; }
    }
    return best;
  }
}
