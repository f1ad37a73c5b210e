// What there is on the map: places, colours and links of all nodes at the moment that is shown.

const RADIUS = 6378137; // m
const MOST_WIRES = 4000;
const MOST_TRAILS = 20000; // places remembered as passed, while a run is watched
const CROWD = 60; // moving nodes above which their names are not shown
const BUSY = 150; // wired links above which they are shown for the chosen node only
export const CLASSES = 5; // of link quality, 0 worst

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Rates between which links are told apart, three decades each: of radio, and of circuits through optical switches.
const RADIO = { words: "radio links", from: 5, low: "100 kbit/s", high: "100 Mbit/s" };
const CIRCUITS = { words: "optical circuits", from: 9, low: "1 Gbit/s", high: "1 Tbit/s" };

/** 0 (hardly a link) to 4 (three decades above 10^`from` bit/s, without loss): the decade of the rate, less what loss takes away. */
export function quality(rate, loss, from = RADIO.from) {
  const good = Math.min(Math.max((Math.log10(Math.max(rate, 1)) - from) / 3, 0), 1) * (1 - Math.min(1, 5 * loss));
  return Math.min(CLASSES - 1, Math.floor(good * CLASSES));
}

const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);

export class World {
  constructor(scene) {
    this.scene = scene;
    const [latitude, longitude] = scene.geo ?? [0, 0];
    this.origin = [longitude, latitude];
    this.perDegree = (RADIUS * Math.PI) / 180;
    this.shrink = Math.cos((latitude * Math.PI) / 180);
    this.kinds = scene.kinds.map((kind) => kind.name);
    this.nodes = scene.nodes.map((node, n) => ({
      n, id: node.id, kind: this.kinds.indexOf(node.kind), hosts: node.cores > 0, placed: node.at !== null,
      x: node.at?.[0] ?? 0, y: node.at?.[1] ?? 0,
    }));
    this.span = "circuit" in scene.signals && !("link" in scene.signals) ? CIRCUITS : RADIO;
    this.columns = {};
    this.time = 0;
    this.trails = [...(scene.trails ?? [])]; // x, y, x, y, ...
    this.lines = (scene.lines ?? []).map((flat) => pairs(flat)); // streets, [x, y] of each point
    this.passed = new Set();
    this.places = new Map(); // node number -> [x, y], of those that are there now
    this.load = new Map(); // host -> share of the cores in use
    this.down = new Set();
    this.degraded = new Set(); // "a/b" by node numbers
    this.chosen = -1;
    this.layers = { lines: true, radio: true, wires: true, trails: true, labels: true };
    this.colours();
    this.spread();
    this.wires = this.expand(scene.links);
    this.many = this.wires.length > BUSY;
    this.layers.wires = !this.many;
  }

  /** Reads the colours of the page's theme. */
  colours() {
    this.hue = this.scene.kinds.map((kind, i) => (/^#[0-9a-f]{6}$/i.test(kind.color) ? kind.color : css(`--c${i % 8}`)));
    this.ramp = [...Array(CLASSES).keys()].map((i) => css(`--q${i}`));
    this.ink = css("--ink"); this.soft = css("--soft"); this.faint = css("--faint"); this.paper = css("--bg");
    this.card = css("--card"); this.grid = css("--grid"); this.bad = css("--bad"); this.accent = css("--accent");
    this.trace = css("--trail"); this.street = css("--street"); this.sans = css("--sans");
  }

  /** The box that holds everything, and places in rows above it for nodes that have none. */
  spread() {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    const grow = (x, y) => { x0 = Math.min(x0, x); y0 = Math.min(y0, y); x1 = Math.max(x1, x); y1 = Math.max(y1, y); };
    for (const node of this.nodes) if (node.placed) grow(node.x, node.y);
    const trails = this.trails;
    for (let i = 0; i < trails.length; i += 2) grow(trails[i], trails[i + 1]);
    for (const [n, [x, y]] of this.places) if (n >= this.nodes.length) grow(x, y);
    const empty = x0 > x1;
    if (empty) [x0, y0, x1, y1] = [-100, 0, 100, 0];
    const side = Math.max(x1 - x0, y1 - y0, 20);
    const loose = this.nodes.filter((node) => !node.placed);
    const across = Math.max(4, Math.ceil(Math.sqrt(2 * loose.length))), rows = Math.ceil(loose.length / across);
    const step = side / across, gap = step * (empty ? 0.8 : 0.4);
    loose.forEach((node, i) => {
      const row = Math.floor(i / across), there = Math.min(across, loose.length - row * across);
      node.x = (x0 + x1) / 2 + (i % across - (there - 1) / 2) * step;
      node.y = y1 + gap * (rows - row);
    });
    this.box = [x0, y0, Math.max(x1, x0 + 1), Math.max(y1, y0 + 1) + gap * rows];
  }

  expand(links) {
    const seen = new Set(), wires = [];
    const all = (ranges) => ranges.flatMap(([first, count]) => [...Array(Math.min(count, 2000)).keys()].map((i) => first + i));
    for (const [left, right, rate, delay, loss] of links) {
      const others = all(right).filter((b) => b < this.nodes.length);
      for (const a of all(left)) for (const b of others) {
        const key = `${Math.min(a, b)}/${Math.max(a, b)}`;
        if (a >= this.nodes.length || a === b || seen.has(key)) continue;
        if (wires.length >= MOST_WIRES) return wires;
        seen.add(key);
        wires.push({ a: Math.min(a, b), b: Math.max(a, b), key, rate, delay, loss, q: quality(rate, loss, this.span.from) });
      }
    }
    return wires;
  }

  kindOf(n) {
    if (n < this.nodes.length) return this.nodes[n].kind;
    for (const [first, count, kind] of this.scene.members) if (n >= first && n < first + count) return kind;
    return 0;
  }

  /** Takes in a frame. Gives whether something moves out of the box, so that the map should be fitted anew. */
  take(header, columns) {
    this.time = header.time;
    const holds = (part) => columns[part + ".node"] !== undefined;
    if (header.columns.length || !this.scene.live) this.columns = columns;
    if (header.columns.length) {
      this.places = new Map(this.nodes.map((node) => [node.n, [node.x, node.y]]));
      if (holds("m")) columns["m.node"].forEach((n, i) => {
        const x = columns["m.x"][i], y = columns["m.y"][i];
        if (!Number.isFinite(x + y)) return;
        this.places.set(n, [x, y]);
        if (this.scene.live) this.pass(x, y);
        if (n < this.nodes.length) Object.assign(this.nodes[n], { x, y, placed: true });
      });
      this.load = new Map(); this.down = new Set();
      if (holds("h")) columns["h.node"].forEach((n, i) => {
        this.load.set(n, columns["h.load"][i]);
        if (!columns["h.up"][i]) this.down.add(n);
      });
    }
    const [x0, y0, x1, y1] = this.box;
    const margin = 0.15 * Math.max(x1 - x0, y1 - y0);
    for (const [x, y] of this.places.values())
      if (x < x0 - margin || x > x1 + margin || y < y0 - margin || y > y1 + margin) { this.spread(); return true; }
    return false;
  }

  /** Remembers that something has been at a place, in steps of a 400th of the box. */
  pass(x, y) {
    this.grain ??= Math.max((this.box[2] - this.box[0]) / 400, (this.box[3] - this.box[1]) / 400, 0.1);
    const place = [Math.round(x / this.grain) * this.grain, Math.round(y / this.grain) * this.grain], key = place.join();
    if (this.trails.length >= 2 * MOST_TRAILS || this.passed.has(key)) return;
    this.passed.add(key);
    this.trails.push(...place);
  }

  /** Which wired links the events up to now have degraded. */
  happened(events) {
    this.degraded = new Set();
    const numbers = new Map(this.nodes.map((node) => [node.id, node.n]));
    for (const [time, kind, target] of events) {
      if (time > this.time + 1e-9 || (kind !== "degrade" && kind !== "restore")) continue;
      const [left, right] = target.split("/").map((side) => side.split(", ").map((id) => numbers.get(id)));
      for (const a of left) for (const b of right ?? []) {
        const key = `${Math.min(a, b)}/${Math.max(a, b)}`;
        kind === "degrade" ? this.degraded.add(key) : this.degraded.delete(key);
      }
    }
  }

  /** Wired links as [x, y, x, y] by look: 0..4 quality, "down" where an end has failed. */
  wired() {
    const looks = new Map();
    for (const wire of this.wires) {
      if (!this.layers.wires && wire.a !== this.chosen && wire.b !== this.chosen) continue;
      const look = this.down.has(wire.a) || this.down.has(wire.b) ? "down" : this.degraded.has(wire.key) ? 0 : wire.q;
      if (!looks.has(look)) looks.set(look, []);
      const a = this.nodes[wire.a], b = this.nodes[wire.b];
      looks.get(look).push([a.x, a.y, b.x, b.y]);
    }
    return looks;
  }

  /** Radio links as [x, y, x, y] by quality: of devices to their cells, and between peers, which are as good as the worse direction. */
  aired() {
    const classes = [...Array(CLASSES)].map(() => []), worst = new Map();
    if (!this.layers.radio) return classes;
    for (const [part, other] of [["l", "cell"], ["p", "peer"]]) {
      const nodes = this.columns[`${part}.node`] ?? [], ends = this.columns[`${part}.${other}`];
      const rates = this.columns[`${part}.rate`], losses = this.columns[`${part}.loss`];
      for (let i = 0; i < nodes.length; i++) {
        const a = nodes[i], b = ends[i], q = quality(rates[i], losses[i], this.span.from);
        if (b < 0 || (part === "p" && !(rates[i] > 0))) continue;
        const key = `${Math.min(a, b)}/${Math.max(a, b)}`;
        worst.set(key, [a, b, Math.min(q, worst.get(key)?.[2] ?? q)]);
      }
    }
    for (const [a, b, q] of worst.values()) {
      const from = this.places.get(a), to = this.places.get(b);
      if (from && to) classes[q].push([...from, ...to]);
    }
    return classes;
  }

  /** Moving nodes: number, place, heading in degrees, kind. */
  *movers() {
    const { "m.node": nodes, "m.x": xs, "m.y": ys, "m.heading": headings } = this.columns;
    if (!nodes) return;
    for (let i = 0; i < nodes.length; i++) {
      if (!Number.isFinite(xs[i] + ys[i])) continue;
      yield [nodes[i], xs[i], ys[i], headings[i] || 0, this.kindOf(nodes[i])];
    }
  }

  /** How opaque radio links are drawn among `count` moving nodes. */
  faintness = (count) => (count > 3000 ? 0.15 : count > 300 ? 0.5 : 0.85);

  /** Nodes whose names are shown: those of the scenario, but not a crowd that moves. */
  named() {
    return (this.columns["m.node"]?.length ?? 0) > CROWD ? this.fixed() : this.nodes;
  }

  /** Nodes that stand still. */
  fixed() {
    const moving = new Set(this.columns["m.node"] ?? []);
    return this.nodes.filter((node) => !moving.has(node.n));
  }

  lonlat = (x, y) => [this.origin[0] + x / (this.perDegree * this.shrink), this.origin[1] + y / this.perDegree];
  local = (lon, lat) => [(lon - this.origin[0]) * this.perDegree * this.shrink, (lat - this.origin[1]) * this.perDegree];
}
