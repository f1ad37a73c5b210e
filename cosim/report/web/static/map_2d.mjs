// The map on a plain 2D canvas, for browsers without WebGL: the same marks, links and gestures.

import { drawFixed, drawMover, drawWords, fitCanvas, nearest, step } from "./marks.mjs";

export class CanvasMap {
  constructor(host, world, pick) {
    this.kind = "canvas";
    this.host = host;
    this.world = world;
    this.pick = pick;
    this.canvas = host.appendChild(document.createElement("canvas"));
    this.words = host.appendChild(document.createElement("canvas"));
    this.pointers = new Map();
    this.gestures();
    this.watcher = new ResizeObserver(() => { if (this.fitted) this.fit(); else this.draw(); });
    this.watcher.observe(host);
    this.fit();
  }

  remove() { this.watcher.disconnect(); this.off.abort(); this.canvas.remove(); this.words.remove(); }

  fit() {
    const [x0, y0, x1, y1] = this.world.box, w = this.host.clientWidth, h = this.host.clientHeight;
    this.scale = Math.min((w - 115) / (x1 - x0), (h - 145) / (y1 - y0)); // pixels per metre
    this.x = (x0 + x1) / 2; this.y = (y0 + y1) / 2 + 27 / this.scale; // the legend is above
    this.fitted = true;
    this.draw();
  }

  zoom(factor, px = this.host.clientWidth / 2, py = this.host.clientHeight / 2) {
    const [x, y] = this.local(px, py), before = this.scale;
    this.scale = Math.min(Math.max(this.scale * factor, 1e-5), 1e4);
    const part = 1 - before / this.scale;
    this.x += (x - this.x) * part; this.y += (y - this.y) * part;
    this.fitted = false;
    this.draw();
  }

  pan(dx, dy) { this.x -= dx / this.scale; this.y += dy / this.scale; this.fitted = false; this.draw(); }
  toScreen = (x, y) => [this.host.clientWidth / 2 + (x - this.x) * this.scale, this.host.clientHeight / 2 - (y - this.y) * this.scale];
  local = (px, py) => [this.x + (px - this.host.clientWidth / 2) / this.scale, this.y - (py - this.host.clientHeight / 2) / this.scale];
  draw() { if (!this.asked) this.asked = requestAnimationFrame(() => { this.asked = 0; this.paint(); }); }

  paint() {
    const { world, toScreen } = this, width = this.host.clientWidth, height = this.host.clientHeight;
    const pen = fitCanvas(this.canvas, this.host), metres = 1 / this.scale;
    pen.fillStyle = world.paper; pen.fillRect(0, 0, width, height);
    this.lines(pen, this.gridLines(step(90 * metres)), world.grid, 1, 1);
    if (world.layers.lines && world.lines.length) {
      pen.beginPath();
      for (const line of world.lines) line.forEach(([x, y], i) => (i ? pen.lineTo(...toScreen(x, y)) : pen.moveTo(...toScreen(x, y))));
      pen.strokeStyle = world.street; pen.lineWidth = Math.min(5, Math.max(1, 4 * this.scale)); pen.lineJoin = "round"; pen.stroke();
    }
    const trails = world.layers.trails ? world.trails : [];
    pen.fillStyle = world.trace;
    for (let i = 0; i < trails.length; i += 2) { const [x, y] = toScreen(trails[i], trails[i + 1]); pen.fillRect(x - 1, y - 1, 2, 2); }
    for (const [look, wires] of world.wired())
      this.lines(pen, wires, look === "down" ? world.faint : world.ramp[look], 1.6, world.many ? 0.3 : 0.7, look === "down" ? [2, 4] : [7, 4]);
    const movers = [...world.movers()], crowd = movers.length > 300;
    world.aired().forEach((links, q) => this.lines(pen, links, world.ramp[q], crowd ? 0.8 : 1.7, world.faintness(movers.length)));
    for (const node of world.fixed()) {
      const [x, y] = toScreen(node.x, node.y), size = world.nodes.length > 60 ? 5 : 7;
      drawFixed(pen, x, y, world.hue[node.kind], world.card, world.load.get(node.n), world.down.has(node.n), node.placed, world.bad, size);
    }
    for (const [, x, y, heading, kind] of movers) drawMover(pen, ...toScreen(x, y), heading, world.hue[kind], world.card, crowd ? 3.6 : 7.5);
    drawWords(fitCanvas(this.words, this.host), world, { width, height, toScreen, local: this.local, metres });
  }

  gridLines(every) {
    const [west, north] = this.local(0, 0), [east, south] = this.local(this.host.clientWidth, this.host.clientHeight), lines = [];
    for (let x = Math.ceil(west / every) * every; x < east; x += every) lines.push([x, south, x, north]);
    for (let y = Math.ceil(south / every) * every; y < north; y += every) lines.push([west, y, east, y]);
    return lines;
  }

  lines(pen, lines, colour, width, alpha, dash = []) {
    pen.beginPath();
    for (const [x0, y0, x1, y1] of lines) { pen.moveTo(...this.toScreen(x0, y0)); pen.lineTo(...this.toScreen(x1, y1)); }
    pen.strokeStyle = colour; pen.lineWidth = width; pen.globalAlpha = alpha; pen.setLineDash(dash); pen.stroke();
    pen.globalAlpha = 1; pen.setLineDash([]);
  }

  gestures() {
    this.off = new AbortController();
    const on = (name, act, more = {}) => this.host.addEventListener(name, act, { signal: this.off.signal, ...more });
    const place = (e) => { const box = this.host.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
    on("pointerdown", (e) => { this.host.setPointerCapture(e.pointerId); this.pointers.set(e.pointerId, place(e)); this.moved = this.pointers.size > 1; });
    on("pointermove", (e) => {
      const before = this.pointers.get(e.pointerId), now = place(e);
      if (!before) return;
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)?.[1];
      if (other) this.zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), ...other);
      else if (this.moved || Math.hypot(now[0] - before[0], now[1] - before[1]) > 3) { this.moved = true; this.pan(now[0] - before[0], now[1] - before[1]); }
      else return;
      this.pointers.set(e.pointerId, now);
    });
    on("pointerup", (e) => { this.pointers.delete(e.pointerId); if (!this.moved) this.pick(nearest(this.world, this.toScreen, ...place(e))); });
    on("pointercancel", (e) => this.pointers.delete(e.pointerId));
    on("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY / 400), ...place(e)); }, { passive: false });
    const keys = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    on("keydown", (e) => {
      if (keys[e.key]) this.pan(...keys[e.key]);
      else if (e.key === "+" || e.key === "=") this.zoom(1.4);
      else if (e.key === "-") this.zoom(1 / 1.4);
      else return;
      e.preventDefault();
    });
  }
}
