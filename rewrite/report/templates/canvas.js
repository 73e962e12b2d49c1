// Painting: what of a graph is in sight, on a canvas.

const BAND = 600; // height of the strips by which cells and edges are found
const FAR_OUT = 0.13, SMALL = 0.32; // scales below which text and borders are left out

// Cells and edges by the strips that they lie in.
class Strips {
  constructor(graph) {
    this.cells = [];
    this.edges = [];
    for (let cell = 0; cell < graph.count; cell += 1) {
      this.put(this.cells, cell, graph.y[cell], graph.y[cell] + graph.h[cell]);
    }
    graph.edges.forEach((edge, number) => {
      if (edge.length > 2) this.put(this.edges, number, edge[3], edge[edge.length - 1]);
    });
  }

  put(strips, item, top, bottom) {
    for (let band = Math.floor(top / BAND); band <= Math.floor(bottom / BAND); band += 1) {
      if (!strips[band]) strips[band] = [];
      strips[band].push(item);
    }
  }

  // Items of some strips, each once, in their own order.
  between(strips, top, bottom) {
    const first = Math.max(0, Math.floor(top / BAND));
    const last = Math.min(strips.length - 1, Math.floor(bottom / BAND));
    if (first === last) return strips[first] || [];
    const found = new Set();
    for (let band = first; band <= last; band += 1) {
      for (const item of strips[band] || []) found.add(item);
    }
    return [...found].sort((a, b) => a - b);
  }
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "panel", "ink", "soft", "line", "strong-line", "accent", "accent-soft", "accent-line",
    "group", "group-soft", "group-line", "warn", "warn-soft", "warn-line", "mark", "sans"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

class Painter {
  constructor(graph) {
    this.graph = graph;
    this.strips = new Strips(graph);
    this.colours = palette();
  }

  // Fill, border and text colour of a cell; whether the border is dashed.
  look(cell) {
    const c = this.colours, graph = this.graph, kind = graph.kindOf(cell), fate = graph.fateOf(cell);
    if (graph.elsewhere && cell in graph.elsewhere) return [c["warn-soft"], c["warn-line"], c.warn, false];
    if (kind === "group") return [c["group-soft"], c["group-line"], c.group, false];
    if (kind === "graph") return [c.panel, c.line, c.soft, true];
    if (kind === "input" || kind === "output") return [c.panel, c["strong-line"], c.ink, false];
    if (fate === "made" || fate === "rewritten") return [c["accent-soft"], c["accent-line"], c.ink, false];
    if (fate === "folded" || fate === "gone" || kind === "constant") return [c.panel, c["strong-line"], c.soft, true];
    if (graph.view === "before" && fused.has(cell)) return [c["group-soft"], c["group-line"], c.ink, false];
    return [c.paper, c["strong-line"], c.ink, false];
  }

  // camera: scale, x, y (a point of the graph times scale plus x, y is a point of the canvas).
  paint(context, camera, width, height, selection) {
    const { scale, x, y } = camera;
    const sight = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
    context.clearRect(0, 0, width, height);
    context.save();
    context.translate(x, y);
    context.scale(scale, scale);
    const cells = this.inSight(sight);
    for (const cell of cells) if (this.graph.isBox(cell)) this.cell(context, cell, scale, selection);
    this.edges(context, sight, scale, selection);
    for (const cell of cells) if (!this.graph.isBox(cell)) this.cell(context, cell, scale, selection);
    this.marks(context, scale, selection);
    context.restore();
  }

  inSight(sight) {
    const { x, w, y, h } = this.graph;
    return this.strips.between(this.strips.cells, sight.top, sight.bottom).filter((cell) =>
      x[cell] <= sight.right && x[cell] + w[cell] >= sight.left &&
      y[cell] <= sight.bottom && y[cell] + h[cell] >= sight.top);
  }

  cell(context, cell, scale, selection) {
    const graph = this.graph, x = graph.x[cell], y = graph.y[cell], w = graph.w[cell], h = graph.h[cell];
    const [fill, border, ink, dashed] = this.look(cell);
    const dim = selection.cells && !graph.isBox(cell) && !this.isMarked(cell, selection);
    context.globalAlpha = dim ? 0.35 : 1;
    context.fillStyle = scale < FAR_OUT && fill === this.colours.paper ? border : fill;
    if (scale < FAR_OUT) {
      context.fillRect(x, y, w, h);
      if (fill !== this.colours.paper) {
        context.strokeStyle = border;
        context.lineWidth = 1 / scale;
        context.strokeRect(x, y, w, h);
      }
    } else {
      const kind = graph.kindOf(cell);
      const radius = kind === "input" || kind === "output" ? h / 2 : kind === "constant" ? 3 : 5;
      context.beginPath();
      context.roundRect(x + 0.5, y + 0.5, w - 1, h - 1, radius);
      context.fill();
      context.strokeStyle = border;
      context.lineWidth = Math.max(1, 0.75 / scale);
      context.setLineDash(dashed ? [3, 3] : []);
      context.stroke();
      context.setLineDash([]);
      if (scale * 12 >= 4.5) this.words(context, cell, ink, scale);
    }
    context.globalAlpha = 1;
  }

  // Whether a cell, or a box around it, is among those chosen.
  isMarked(cell, selection) {
    for (let one = cell; one >= 0; one = this.graph.parent[one]) if (selection.cells.has(one)) return true;
    return false;
  }

  words(context, cell, ink, scale) {
    const graph = this.graph, colours = this.colours, x = graph.x[cell], y = graph.y[cell], w = graph.w[cell], h = graph.h[cell];
    const title = text(graph.title[cell]), note = text(graph.note[cell]), kind = graph.kindOf(cell);
    context.fillStyle = ink;
    context.textBaseline = "middle";
    if (graph.isBox(cell)) {
      context.textAlign = "left";
      context.font = `600 11px ${colours.sans}`;
      context.fillText(title, x + 10, y + 14, Math.max(10, w - 20));
      return;
    }
    context.textAlign = "center";
    const plain = kind === "constant";
    context.font = `${plain ? 400 : 600} ${plain ? 10 : 12}px ${colours.sans}`;
    const two = note && scale >= SMALL;
    context.fillText(title, x + w / 2, y + (two ? h * 0.34 : h / 2) + 0.5, w - 12);
    if (two) {
      context.fillStyle = colours.soft;
      context.font = `10px ${colours.sans}`;
      context.fillText(note, x + w / 2, y + h * 0.72, w - 10);
    }
  }

  edges(context, sight, scale, selection) {
    const graph = this.graph, numbers = this.strips.between(this.strips.edges, sight.top, sight.bottom);
    const heads = scale >= SMALL;
    context.strokeStyle = this.colours["strong-line"];
    context.fillStyle = this.colours["strong-line"];
    context.globalAlpha = selection.cells ? 0.4 : 0.75;
    context.lineWidth = Math.max(1, 0.6 / scale);
    context.beginPath();
    for (const number of numbers) this.line(context, graph.edges[number], scale);
    context.stroke();
    if (heads) {
      context.beginPath();
      for (const number of numbers) this.head(context, graph.edges[number]);
      context.fill();
    }
    context.globalAlpha = 1;
    const chosen = selection.cell;
    if (chosen < 0) return;
    context.strokeStyle = context.fillStyle = this.colours.accent;
    context.lineWidth = Math.max(1.75, 1.2 / scale);
    for (const edge of graph.edges) {
      if (edge[0] !== chosen && edge[1] !== chosen) continue;
      context.beginPath();
      if (edge.length > 2) this.line(context, edge, scale);
      else this.jump(context, edge, scale);
      context.stroke();
      context.setLineDash([]);
      if (edge.length > 2 && heads) {
        context.beginPath();
        this.head(context, edge);
        context.fill();
      }
    }
  }

  line(context, edge, scale) {
    context.moveTo(edge[2], edge[3]);
    for (let at = 4; at < edge.length; at += 2) {
      const x0 = edge[at - 2], y0 = edge[at - 1], x1 = edge[at], y1 = edge[at + 1];
      if (x0 === x1 || scale < FAR_OUT) context.lineTo(x1, y1);
      else {
        const middle = (y0 + y1) / 2;
        context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
      }
    }
  }

  // An edge that has no route: a dashed line, only where one of its ends is chosen.
  jump(context, edge, scale) {
    const { x, y, w, h } = this.graph, [source, target] = edge;
    const x0 = x[source] + w[source] / 2, y0 = y[source] + h[source], x1 = x[target] + w[target] / 2, y1 = y[target];
    context.setLineDash([6 / scale, 4 / scale]);
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + w[source], y0 + 60, x1 + w[target], y1 - 60, x1, y1);
  }

  head(context, edge) {
    const x = edge[edge.length - 2], y = edge[edge.length - 1];
    context.moveTo(x - 3.2, y - 5.5);
    context.lineTo(x + 3.2, y - 5.5);
    context.lineTo(x, y - 0.5);
    context.closePath();
  }

  // Rings around what is chosen, and around what belongs to it.
  marks(context, scale, selection) {
    const graph = this.graph;
    const ring = (cell, colour, width, dash) => {
      const pad = 2 + 1.5 / scale;
      context.strokeStyle = colour;
      context.lineWidth = width / scale;
      context.setLineDash(dash.map((length) => length / scale));
      context.beginPath();
      context.roundRect(graph.x[cell] - pad, graph.y[cell] - pad, graph.w[cell] + 2 * pad, graph.h[cell] + 2 * pad, 7);
      context.stroke();
      context.setLineDash([]);
    };
    for (const cell of selection.cells || []) ring(cell, this.colours.accent, 2, []);
    for (const cell of selection.related) ring(cell, this.colours.mark, 2, [5, 3]);
    if (selection.cell >= 0) ring(selection.cell, this.colours.mark, 2.5, []);
  }

  // The whole graph as a column of `width` by `height`, each axis with its own scale.
  overview(width, height, ratio, size, selection) {
    const made = document.createElement("canvas");
    made.width = Math.max(1, Math.round(width * ratio));
    made.height = Math.max(1, Math.round(height * ratio));
    const context = made.getContext("2d"), graph = this.graph;
    context.scale(ratio, ratio);
    const sx = width / Math.max(1, size[0]), sy = height / Math.max(1, size[1]);
    for (let cell = 0; cell < graph.count; cell += 1) {
      if (graph.isBox(cell) && graph.kindOf(cell) !== "group") continue;
      const [fill, border] = this.look(cell);
      const marked = selection.cells ? selection.cells.has(cell) : cell === selection.cell || selection.related.has(cell);
      context.fillStyle = marked ? this.colours.mark : fill === this.colours.paper || fill === this.colours.panel ? this.colours.line : border;
      context.fillRect(graph.x[cell] * sx, graph.y[cell] * sy, Math.max(1.5, graph.w[cell] * sx), Math.max(marked ? 2 : 0.8, graph.h[cell] * sy));
    }
    return made;
  }
}
