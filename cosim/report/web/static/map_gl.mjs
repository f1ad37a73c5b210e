// The map in WebGL: MapLibre draws grid, links and nodes from memory; there are no tiles and no requests.

import { drawFixed, drawMover, drawWords, fitCanvas, nearest, step } from "./marks.mjs";

const collection = (features) => ({ type: "FeatureCollection", features });
const LOADS = 10; // steps of a host's load that have a picture

/** Whether the browser can draw WebGL 2. */
export function canDraw() {
  try {
    return !!document.createElement("canvas").getContext("webgl2");
  } catch {
    return false;
  }
}

export class GlMap {
  constructor(maplibre, host, world, pick) {
    this.kind = "webgl";
    this.host = host;
    this.world = world;
    this.map = new maplibre.Map({
      container: host, attributionControl: false, renderWorldCopies: false, maxZoom: 23.5, dragRotate: false,
      pitchWithRotate: false, touchPitch: false, fadeDuration: 0, bounds: this.bounds(), fitBoundsOptions: this.margins(),
      style: { version: 8, sources: {}, layers: [{ id: "paper", type: "background", paint: { "background-color": world.paper } }] },
    });
    host.removeAttribute("tabindex"); // MapLibre's own canvas takes the keys
    this.map.touchZoomRotate.disableRotation();
    this.map.keyboard.disableRotation();
    this.words = host.appendChild(document.createElement("canvas"));
    this.fitted = true;
    this.map.on("load", () => { this.ready = true; this.layers(); this.draw(); });
    this.map.on("move", () => this.write());
    this.map.on("moveend", (e) => { if (e.originalEvent) this.fitted = false; this.gridLines(); });
    this.map.on("resize", () => (this.fitted ? this.fit() : this.write()));
    this.map.on("click", (e) => pick(nearest(world, this.toScreen, e.point.x, e.point.y)));
  }

  remove() { this.map.remove(); this.words.remove(); this.host.setAttribute("tabindex", 0); }
  bounds() { const [x0, y0, x1, y1] = this.world.box; return [this.world.lonlat(x0, y0), this.world.lonlat(x1, y1)]; }
  margins() { return { padding: { left: 55, right: 60, top: 100, bottom: 45 }, duration: 0 }; }
  fit() { this.map.fitBounds(this.bounds(), this.margins()); this.fitted = true; }
  zoom(factor) { this.fitted = false; this.map.zoomTo(this.map.getZoom() + Math.log2(factor), { duration: 120 }); }
  toScreen = (x, y) => { const p = this.map.project(this.world.lonlat(x, y)); return [p.x, p.y]; };
  local = (px, py) => { const at = this.map.unproject([px, py]); return this.world.local(at.lng, at.lat); };

  layers() {
    const { map, world } = this;
    for (const id of ["grid", "lines", "trails", "wires", "radio", "movers", "fixed"]) map.addSource(id, { type: "geojson", data: collection([]), buffer: 8, tolerance: 0 });
    const ofFeature = (name) => ["get", name];
    map.addLayer({ id: "grid", type: "line", source: "grid", paint: { "line-color": world.grid, "line-width": 1 } });
    map.addLayer({ id: "lines", type: "line", source: "lines", layout: { "line-join": "round" }, paint: { "line-color": world.street, "line-width": ["interpolate", ["linear"], ["zoom"], 13, 1, 17, 5] } });
    const streets = world.lines.map((line) => line.map(([x, y]) => world.lonlat(x, y)));
    map.getSource("lines").setData(collection([{ type: "Feature", properties: {}, geometry: { type: "MultiLineString", coordinates: streets } }]));
    map.addLayer({ id: "trails", type: "circle", source: "trails", paint: { "circle-color": world.trace, "circle-radius": 1.2 } });
    map.addLayer({ id: "wires", type: "line", source: "wires", paint: { "line-color": ofFeature("colour"), "line-width": 1.6, "line-opacity": world.many ? 0.3 : 0.7, "line-dasharray": [4, 2.5] } });
    map.addLayer({ id: "radio", type: "line", source: "radio", paint: { "line-color": ofFeature("colour"), "line-width": ofFeature("width"), "line-opacity": ofFeature("opacity") } });
    const still = { "icon-image": ofFeature("icon"), "icon-allow-overlap": true, "icon-ignore-placement": true };
    map.addLayer({ id: "fixed", type: "symbol", source: "fixed", layout: still });
    map.addLayer({ id: "movers", type: "symbol", source: "movers", layout: { ...still, "icon-rotate": ofFeature("heading"), "icon-rotation-alignment": "map" } });
    this.gridLines();
  }

  /** Puts the places that were passed on the map, when there are more of them and not with every frame. */
  trail() {
    const { trails } = this.world, now = performance.now();
    if (trails.length === this.trailed || now - (this.trailedAt ?? -Infinity) < 2000) return;
    this.trailed = trails.length; this.trailedAt = now;
    const points = [];
    for (let i = 0; i < trails.length; i += 2) points.push(this.world.lonlat(trails[i], trails[i + 1]));
    this.map.getSource("trails").setData(collection([{ type: "Feature", properties: {}, geometry: { type: "MultiPoint", coordinates: points } }]));
  }

  /** Takes up the colours of another theme. */
  recolour() {
    for (const id of this.map.listImages()) this.map.removeImage(id);
    this.map.setPaintProperty("paper", "background-color", this.world.paper);
    this.map.setPaintProperty("grid", "line-color", this.world.grid);
    this.map.setPaintProperty("lines", "line-color", this.world.street);
    this.map.setPaintProperty("trails", "circle-color", this.world.trace);
    this.draw();
  }

  draw() {
    if (!this.ready) return;
    const { map, world } = this;
    this.trail();
    map.setLayoutProperty("lines", "visibility", world.layers.lines ? "visible" : "none");
    map.setLayoutProperty("trails", "visibility", world.layers.trails ? "visible" : "none");
    map.getSource("wires").setData(collection([...world.wired()].map(([look, lines]) => this.lines(lines, { colour: look === "down" ? world.faint : world.ramp[look] }))));
    const movers = [...world.movers()], crowd = movers.length > 300;
    map.getSource("radio").setData(collection(world.aired().map((lines, q) => this.lines(lines, { colour: world.ramp[q], width: crowd ? 0.8 : 1.7, opacity: world.faintness(movers.length) }))));
    map.getSource("fixed").setData(collection(world.fixed().map((node) => this.point(node.x, node.y, { icon: this.fixedIcon(node) }))));
    map.getSource("movers").setData(collection(movers.map(([, x, y, heading, kind]) => this.point(x, y, { heading, icon: this.moverIcon(kind, crowd) }))));
    this.write();
  }

  write() {
    const width = this.host.clientWidth, height = this.host.clientHeight, [west] = this.local(0, height / 2), [east] = this.local(width, height / 2);
    drawWords(fitCanvas(this.words, this.host), this.world, { width, height, toScreen: this.toScreen, local: this.local, metres: (east - west) / width });
  }

  gridLines() {
    if (!this.ready) return;
    const w = this.host.clientWidth, h = this.host.clientHeight, [west, south] = this.local(-w, 2 * h), [east, north] = this.local(2 * w, -h);
    const every = step((90 * (east - west)) / (3 * w)), lines = [];
    for (let x = Math.ceil(west / every) * every; x < east; x += every) lines.push([x, south, x, north]);
    for (let y = Math.ceil(south / every) * every; y < north; y += every) lines.push([west, y, east, y]);
    this.map.getSource("grid").setData(collection([this.lines(lines, {})]));
  }

  lines(lines, properties) {
    const { lonlat } = this.world;
    return { type: "Feature", properties, geometry: { type: "MultiLineString", coordinates: lines.map(([x0, y0, x1, y1]) => [lonlat(x0, y0), lonlat(x1, y1)]) } };
  }

  point(x, y, properties) { return { type: "Feature", properties, geometry: { type: "Point", coordinates: this.world.lonlat(x, y) } }; }

  fixedIcon(node) {
    const { world } = this, load = world.load.get(node.n), down = world.down.has(node.n);
    const steps = load === undefined ? -1 : Math.round(Math.min(1, load) * LOADS), size = world.nodes.length > 60 ? 5 : 7;
    return this.icon(`fixed ${node.kind} ${steps} ${down} ${node.placed} ${size}`, (pen, x) =>
      drawFixed(pen, x, x, world.hue[node.kind], world.card, steps < 0 ? undefined : steps / LOADS, down, node.placed, world.bad, size));
  }

  moverIcon(kind, crowd) {
    return this.icon(`mover ${kind} ${crowd}`, (pen, x) => drawMover(pen, x, x, 0, this.world.hue[kind], this.world.card, crowd ? 3.6 : 7.5));
  }

  icon(id, paint) {
    if (!this.map.hasImage(id)) {
      const ratio = 3, canvas = document.createElement("canvas");
      canvas.width = canvas.height = 22 * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      paint(pen, 11);
      this.map.addImage(id, pen.getImageData(0, 0, canvas.width, canvas.height), { pixelRatio: ratio });
    }
    return id;
  }
}
