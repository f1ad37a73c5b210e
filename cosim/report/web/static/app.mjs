// The dashboard: gets the scene, draws frames as they come, and joins map, charts and lists.

import { Charts } from "./charts.mjs";
import { CanvasMap } from "./map_2d.mjs";
import { canDraw, GlMap } from "./map_gl.mjs";
import { searchNodes, showDetail, showEvents, showHead, showLayers, showOrigins } from "./panel.mjs";
import { steering } from "./steer.mjs";
import { Frames, get } from "./wire.mjs";
import { whatIf } from "./whatif.mjs";
import { clock } from "./words.mjs";
import { World } from "./world.mjs";

const $ = (id) => document.getElementById(id);
const SILENCE = 5000; // ms without a frame after which the page says so
const CHARTS = 1000; // ms between two readings of the series of a live run

let scene = null, world = null, map = null, charts = null, frames = null, events = [], counted = -1;
let state = {}, heard = performance.now(), lost = false, showState = () => {}, playing = false, moment = 0, drawn = 0;

/** Loads the scene and builds everything that depends on it. */
async function begin() {
  const found = await get("/api/scene");
  if (!found || found.waiting || !found.nodes) {
    $("name").textContent = found ? "waiting for a run to publish" : "the dashboard's server cannot be reached";
    $("waiting").hidden = !found;
    $("where").textContent = found?.address ?? "";
    setTimeout(begin, 1000);
    return;
  }
  $("waiting").hidden = true;
  map?.remove(); charts?.remove();
  world = new World(found);
  map = await makeMap();
  charts = new Charts($("charts"), found, seek);
  scene = found;
  showOrigins(scene);
  showLayers(world, () => map.draw());
  showDetail(null, world);
  $("replay").hidden = scene.live;
  $("steer").hidden = !scene.controllable;
  if (scene.controllable) showState = steering(scene, () => state);
  whatIf(scene, () => (scene.live ? null : moment));
  counted = -1; events = [];
  if (!frames) frames = new Frames(draw, () => { lost = true; });
  frames.still = !scene.live;
  frames.watch = -1;
  if (!scene.live) { $("time").max = scene.duration; seek(0); }
  else frames.ask(true);
  charts.load();
}

async function makeMap() {
  if (new URLSearchParams(location.search).get("map") !== "canvas" && canDraw()) {
    try {
      const maplibre = await import("/static/vendor/maplibre-gl.mjs");
      return new GlMap(maplibre, $("map"), world, choose);
    } catch (error) {
      console.info("no WebGL map:", error.message);
    }
  }
  return new CanvasMap($("map"), world, choose);
}

/** One frame. */
function draw(header, columns) {
  heard = performance.now();
  lost = false;
  if (!scene) return; // another run begins
  if (header.run && header.run !== scene.run) { scene = null; begin(); return; }
  state = header.state;
  const outside = world.take(header, columns);
  if (!world.seen && columns["m.node"]) { world.seen = true; world.spread(); map.fit(); } else if (outside && map.fitted) map.fit();
  if (header.events !== counted) {
    counted = header.events;
    get("/api/events").then((found) => { events = found?.events ?? []; charts.events = events; tell(); });
  }
  world.happened(events);
  if (header.detail && header.detail.node === world.chosen) {
    if (world.name && header.detail.name !== world.name) choose(-1); // it has left, and another one has its slot
    else { world.name = header.detail.name; showDetail(header.detail, world, (...what) => charts.follow(...what), scene.live ? null : header.time); }
  }
  map.draw();
  showState(state);
  if (!scene.live) {
    $("clock").textContent = `${clock(header.time, scene.duration)} / ${clock(scene.duration)}`;
    charts.at(header.time);
  }
  tell();
  document.body.dataset.map = map.kind;
  document.body.dataset.frames = ++drawn;
  document.body.dataset.time = header.time;
  document.body.dataset.movers = columns["m.node"]?.length ?? 0;
}

/** The words around the map. */
function tell() {
  const gone = performance.now() - heard;
  const silent = lost ? "the dashboard's server does not answer" : scene.live && gone > SILENCE ? `no news for ${Math.round(gone / 1000)} s` : "";
  showHead(scene, world.time, state, silent);
  const list = JSON.stringify([events.length, scene.live ? 0 : events.filter(([at]) => at <= world.time).length]);
  if (list !== tell.list) { tell.list = list; showEvents(events, world.time, scene.duration, scene.live ? null : seek); }
}

function choose(number) {
  world.chosen = number;
  world.name = "";
  frames.watch = number;
  if (number < 0) showDetail(null, world);
  frames.ask(true);
  map.draw();
}

/** Shows the finished run at `time` s. */
function seek(time) {
  if (!scene || scene.live) return;
  moment = Math.min(Math.max(time, 0), scene.duration);
  $("time").value = moment;
  frames.at = moment;
  frames.ask();
}

/** Goes on playing; a frame that takes longer than its time is left out. */
function play(on) {
  playing = on && !scene.live;
  $("play").textContent = playing ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", playing ? "Stop playing" : "Play");
  if (!playing) return;
  if (moment >= scene.duration) moment = 0;
  let before = performance.now();
  const forward = (now) => {
    if (!playing) return;
    const next = moment + ((now - before) / 1000) * Number($("rate").value);
    before = now;
    seek(next);
    next >= scene.duration ? play(false) : requestAnimationFrame(forward);
  };
  requestAnimationFrame(forward);
}

$("play").addEventListener("click", () => play(!playing));
$("time").addEventListener("input", () => { play(false); seek(Number($("time").value)); });
$("fit").addEventListener("click", () => { world?.spread(); map?.fit(); });
$("closer").addEventListener("click", () => map?.zoom(1.5));
$("farther").addEventListener("click", () => map?.zoom(1 / 1.5));
$("more").addEventListener("click", () => { charts?.add(); charts?.load(); });
document.addEventListener("keydown", (e) => {
  if (!scene || /INPUT|SELECT|BUTTON|TEXTAREA/.test(e.target.tagName)) return;
  if (e.key === " ") { e.preventDefault(); play(!playing); }
  else if (e.key === "Escape") choose(-1);
  else if (e.key === "," || e.key === ".") { play(false); seek(moment + (e.key === "." ? scene.step : -scene.step)); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!world) return;
  world.colours(); map.recolour ? map.recolour() : map.draw();
  charts.recolour(); showLayers(world, () => map.draw());
});
searchNodes(choose);
// For the browser's console, and for tests that click on nodes.
globalThis.dashboard = { place: (n) => map.toScreen(...world.places.get(n)), seek, choose };
setInterval(() => { if (scene?.live) { charts.load(); tell(); } }, CHARTS);
begin();
