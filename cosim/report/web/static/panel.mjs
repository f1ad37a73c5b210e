// The side: one node in detail, events, and where numbers come from.

import { get } from "./wire.mjs";
import { clock, element, quantity } from "./words.mjs";

const $ = (id) => document.getElementById(id);

/** Everything known of the chosen node; `detail` is null while none is chosen. */
export function showDetail(detail, world, follow, time = null) {
  const place = $("detail"), said = JSON.stringify(detail);
  if (said === place.dataset.said || (detail && getSelection()?.toString() && place.contains(getSelection().anchorNode))) return; // somebody copies a value
  place.dataset.said = said;
  if (eye && eye.node !== detail?.node) { eye.image.removeAttribute("src"); eye = null; } // which ends the stream
  if (!detail) {
    place.replaceChildren(element("p", { class: "empty" }, "Choose a node on the map to see all of its signals."));
    return;
  }
  const { scene } = world, kind = scene.kinds[world.kindOf(detail.node)];
  const rows = [];
  for (const [signal, values] of Object.entries(detail.signals)) {
    const about = scene.signals[signal];
    rows.push(element("tr", { class: "group" }, element("th", { colspan: 2, title: about?.meaning ?? "" }, signal.replaceAll("_", " "), mark(originOf(scene, signal)))));
    for (const [name, value] of Object.entries(values)) {
      const column = about?.columns[name];
      const words = name.replaceAll("_", " "), number = typeof value === "number" && /value|counter/.test(column?.role);
      const head = number ? element("button", { class: "quiet", title: `Chart: ${column.meaning || words}`, onclick: () => follow(signal, name, detail) }, words) : words;
      rows.push(element("tr", {}, element("th", { title: column?.meaning ?? "" }, head), element("td", {}, quantity(value, column?.unit ?? "", name))));
    }
  }
  const gone = !rows.length ? element("p", { class: "empty" }, "It says nothing at this moment.") : null;
  place.replaceChildren(
    element("h2", {}, detail.name), element("p", { class: "sub" }, `${kind?.name ?? ""} · ${kind?.tier ?? ""}`),
    ...picture(detail, time), ...gauge(detail.signals.link, world),
    element("table", {}, ...rows), ...(gone ? [gone] : []),
  );
}

let eye = null; // the stream of pictures on the page: {node, image}, kept while its node is chosen

/** What a camera sees, live, or took last, in a replay. The server renders it where it has the field; else there is none. */
function picture(detail, time) {
  const reported = detail.signals.picture;
  if (!Number.isFinite(reported?.taken)) return [];
  const onerror = ({ target }) => { target.dataset.failed = ""; target.closest("figure")?.remove(); };
  const shown = (src) => element("img", { src: `/api/${src}`, onerror });
  if (time === null && !eye) eye = { node: detail.node, image: shown(`stream?node=${detail.node}`) };
  const image = eye?.image ?? shown(`picture?node=${detail.node}&at=${reported.taken}`);
  if ("failed" in image.dataset) return [];
  image.alt = eye ? `What ${detail.name} sees` : `What ${detail.name} took at ${clock(reported.taken)}`;
  const words = `Picture ${reported.pictures}, ${clock(reported.taken)}: ${reported.found} weeds found, ${quantity(reported.density, "")} per m²`;
  return [element("figure", { class: "picture" }, image, element("figcaption", {}, eye ? `As it sees now, rendered. ${words}` : `${words}, rendered`))];
}

const FROM = 1e5, DECADES = 3; // bit/s at the left end, and what lies between it and the right one

/** The rate of the link that serves the chosen node, on the scale of the map's colours. */
function gauge(link, world) {
  if (!link || !Number.isFinite(link.uplink_rate)) return [];
  const at = (part, radius) => [100 - radius * Math.cos(Math.PI * part), 96 - radius * Math.sin(Math.PI * part)].map((v) => v.toFixed(1)).join(" ");
  const n = world.ramp.length, part = Math.min(Math.max(Math.log10(Math.max(link.uplink_rate, 1) / FROM) / DECADES, 0), 1);
  const arcs = world.ramp.map((colour, i) => `<path d="M ${at(i / n + 0.004, 80)} A 80 80 0 0 1 ${at((i + 1) / n - 0.004, 80)}" stroke="${colour}" stroke-width="12" fill="none"/>`);
  const words = link.uplink_rate > 0 ? quantity(link.uplink_rate, "bit/s") : "no link", drawing = document.createElement("template");
  drawing.innerHTML = `<svg viewBox="0 0 200 104" role="img" aria-label="Uplink: ${words}">${arcs.join("")}<path class="needle" d="M 100 96 L ${at(part, 68)}"/><circle class="hub" cx="100" cy="96" r="5"/></svg>`; // numbers and colours of ours
  const facts = [link.cell ? `to ${link.cell}` : "", Number.isFinite(link.snr) ? `SNR ${quantity(link.snr, "dB")}` : "", link.loss > 0 ? `loss ${quantity(link.loss, "1", "loss")}` : ""];
  return [element("figure", { class: "gauge" }, drawing.content, element("figcaption", {}, element("b", {}, words), ` ${facts.filter(Boolean).join(" · ")}`))];
}

const originOf = (scene, signal) => [...new Set(scene.adapters.filter((adapter) => adapter.writes.includes(signal)).map((adapter) => adapter.origin))].join(", ");
const mark = (origin) => element("span", { class: `mark origin-${origin}` }, origin);

/** Adapters, what they write, and whether that is simulated, emulated or measured. */
export function showOrigins(scene) {
  $("origins").replaceChildren(...scene.adapters.map((adapter) => element("tr", {},
    element("th", {}, adapter.name), element("td", {}, adapter.writes.map((name) => name.replaceAll("_", " ")).join(", ") || "nothing"), element("td", {}, mark(adapter.origin)))));
}

/** Events, newest first; those after `time` are still to come and faint. */
export function showEvents(events, time, end, seek) {
  $("no-events").hidden = events.length > 0;
  $("events").replaceChildren(...[...events].reverse().slice(0, 200).map(([at, kind, node, detail]) => element("li", { class: at > time + 1e-9 ? "later" : "" },
    element("button", { class: "quiet", disabled: !seek, onclick: () => seek?.(at) }, clock(at, end)),
    element("b", { class: `event ${/fail|degrade|empty|stop/.test(kind) ? "bad" : /recover|restore|ready|resume/.test(kind) ? "good" : ""}` }, kind), " ", node, detail ? element("small", {}, detail) : null)));
}

/** Finds nodes while the reader types; `choose` gets the number. */
export function searchNodes(choose) {
  const query = $("query"), list = $("found");
  let asked = 0;
  query.addEventListener("input", async () => {
    const mine = ++asked, text = query.value.trim();
    const found = text ? await get("/api/find?name=" + encodeURIComponent(text)) : { nodes: [] };
    if (mine === asked) list.replaceChildren(...(found?.nodes ?? []).slice(0, 8).map(([number, name]) =>
      element("li", {}, element("button", { class: "quiet", onclick: () => { choose(number); query.value = ""; list.replaceChildren(); } }, name))));
  });
  $("find").addEventListener("submit", (e) => { e.preventDefault(); list.querySelector("button")?.click(); });
}

/** Why the emulated links of a run are not to be believed everywhere, and when. */
function doubts(told, end) {
  const why = [
    told.late ? `packets up to ${quantity(told.lag, "s")} late in ${told.late} s` : "",
    told.unread ? `${told.unread} packets dropped before the links had them` : "",
    told.overflowed ? `${told.overflowed} packets that the service had no room for` : "",
  ];
  return `${why.filter(Boolean).join("; ")}. At ${told.at.map((at) => clock(at, end)).join(", ")}`;
}

/** The heading: what run this is and how it goes. */
export function showHead(scene, time, state, silent) {
  $("name").textContent = scene.name;
  $("title").textContent = scene.title || scene.name;
  $("credit").textContent = scene.credit ?? "";
  document.title = `${scene.name} – continuum-cosim`;
  const badges = [];
  if (!scene.live) badges.push([scene.status === "complete" ? "finished" : scene.status, scene.status === "complete" ? "" : "warn"]);
  else if (state.ended) badges.push([`ended, ${state.ended}`, state.ended === "complete" ? "" : "warn"]);
  else if (silent) badges.push([silent, "bad"]);
  else badges.push(state.paused ? ["paused", "warn"] : ["live", "good"]);
  if (state.emulation) badges.push([`emulation in doubt: ${state.emulation.doubtful} s, last at ${clock(state.emulation.doubtful_at, scene.duration)}`, "warn", doubts(state.emulation, scene.duration)]);
  if (scene.interactive || state.interactive) badges.push(["interactive", "warn"]);
  for (const origin of new Set(scene.adapters.filter((adapter) => adapter.writes.length && (scene.real || adapter.origin !== "emulated")).map((adapter) => adapter.origin))) badges.push([origin, `origin-${origin}`]);
  $("badges").replaceChildren(...badges.map(([text, look, title]) => element("span", { class: `mark ${look}`, title: title ?? "" }, text)));
  const facts = [["time", `${clock(time, scene.duration)} of ${clock(scene.duration)}`]];
  if (scene.live && !state.ended) facts.push(["pace", state.factor ? `${state.factor} ×` : "as fast as possible"], ["lag", state.lag > 1e-3 ? quantity(state.lag, "s") : "< 1 ms"]);
  if (state.tasks) {
    const [completed, ...failed] = state.tasks.status;
    if (completed || failed.some(Boolean)) facts.push(["completed", completed.toLocaleString("en")], ["failed", failed.reduce((a, b) => a + b, 0).toLocaleString("en")]);
  }
  facts.push(["seed", String(scene.seed)]);
  $("facts").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

/** Boxes to show and hide what is on the map, and what the colours mean. */
export function showLayers(world, redraw) {
  const has = { lines: world.lines.length > 0, radio: "link" in world.scene.signals || "peer_link" in world.scene.signals, wires: world.wires.length > 0, trails: world.trails.length > 0 || world.scene.live, labels: world.nodes.length > 0 };
  const words = { lines: "streets", radio: world.span.words, wires: "wired links", trails: "paths", labels: "names" };
  const boxes = Object.keys(words).filter((layer) => has[layer]).map((layer) => {
    const box = element("input", { type: "checkbox", "data-layer": layer, onchange: () => { world.layers[layer] = box.checked; redraw(); } });
    box.checked = world.layers[layer];
    return element("label", {}, box, words[layer]);
  });
  const kinds = world.scene.kinds.map((kind, i) => { const dot = element("i", {}); dot.style.background = world.hue[i]; return element("span", {}, dot, kind.name); });
  const ramp = element("span", { class: "ramp", title: "Rate of a link on a logarithmic scale, less for loss" }, `${world.span.low} `, ...world.ramp.map((colour) => { const dot = element("i", {}); dot.style.background = colour; return dot; }), ` ${world.span.high}`);
  $("layers").replaceChildren(element("div", {}, ...boxes), element("div", {}, ...kinds), ...(has.radio || has.wires ? [ramp] : []));
}
