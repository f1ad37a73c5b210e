"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Navigation: one link per section, the current one marked.
  const nav = $("nav"), links = new Map();
  for (const section of document.querySelectorAll("main section")) {
    const link = document.createElement("a");
    link.href = "#" + section.id;
    link.textContent = section.querySelector("h2").textContent;
    nav.append(link);
    links.set(section, link);
  }
  const seen = new Set();
  const eye = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? seen.add(e.target) : seen.delete(e.target);
    const first = [...links.keys()].find((s) => seen.has(s));
    for (const [s, link] of links) s === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-60px 0px -50% 0px" });
  for (const section of links.keys()) eye.observe(section);

  // Tooltips: any element with data-tip.
  const tip = $("tip");
  function showTip(words, x, y) {
    tip.textContent = words;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  }
  const hideTip = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (e) => {
    const at = e.target instanceof Element ? e.target.closest("[data-tip]") : null;
    if (at) showTip(at.getAttribute("data-tip"), e.clientX, e.clientY);
    else if (e.target.tagName !== "CANVAS") hideTip();
  });
  document.addEventListener("scroll", hideTip, { passive: true });

  // Charts: what is drawn, as a drawing with its colours and as a table.
  const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size", "font-weight", "text-anchor"];
  function drawing(svg) {
    const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((one, i) => {
      const style = getComputedStyle(one);
      for (const name of DRAWN) to[i].setAttribute(name, style.getPropertyValue(name));
      to[i].removeAttribute("class");
      to[i].removeAttribute("data-tip");
    });
    from.forEach((one, i) => { if (one.classList.contains("hit")) to[i].remove(); });
    copy.setAttribute("xmlns", svg.namespaceURI);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    return new XMLSerializer().serializeToString(copy);
  }
  function saved(name, text, type) {
    const link = document.createElement("a"), url = URL.createObjectURL(new Blob([text], { type }));
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
  for (const place of document.querySelectorAll(".save")) {
    const name = place.dataset.name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const svg = place.closest("figure").querySelector("svg");
    const offers = [["SVG", () => saved(name + ".svg", drawing(svg), "image/svg+xml")]];
    if (place.dataset.csv) offers.push(["CSV", () => saved(name + ".csv", place.dataset.csv, "text/csv")]);
    for (const [words, act] of offers) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words;
      button.setAttribute("aria-label", `Save ${place.dataset.name} as ${words}`);
      button.addEventListener("click", act);
      place.append(button);
    }
  }

  // Tables: a click or Enter on a head sorts; numbers first by value, blanks always last.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" || (head.classList.contains("n") && !head.hasAttribute("aria-sort"));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const number = head.classList.contains("n"), sign = down ? -1 : 1;
      const key = (row) => { const v = row.cells[column].dataset.v; return v === undefined ? null : number ? toNumber(v) : v; };
      const rows = [...body.rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null)
        : number ? sign * (a - b) : sign * a.localeCompare(b, undefined, { numeric: true }));
      body.append(...rows.map((pair) => pair[1]));
    }));
  }
  function toNumber(text) {
    const v = Number(text.replace("inf", "Infinity"));
    return Number.isNaN(v) ? null : v;
  }
  for (const input of document.querySelectorAll("input[data-for]")) {
    const rows = [...$(input.dataset.for).tBodies[0].rows];
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = [...row.cells].map((c) => c.title || c.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((w) => text.includes(w));
      }
    });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));

  // The map.
  const holder = $("world-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent), canvas = $("world").querySelector("canvas"), pen = canvas.getContext("2d");
  const tracks = data.tracks.map((t) => {
    const stretches = t.p.map((p) => {
      const xy = new Int32Array(p.length - 1);
      xy[0] = p[1]; xy[1] = p[2];
      for (let i = 2; i < xy.length; i++) xy[i] = xy[i - 2] + p[i + 1];
      return { first: p[0], xy };
    });
    return { id: t.id, k: t.k, stretches };
  });
  const lines = (data.lines || []).map((p) => { const xy = Int32Array.from(p); for (let i = 2; i < xy.length; i++) xy[i] += xy[i - 2]; return xy; });
  const layers = { lines: true, paths: true, areas: data.nodes.some((n) => n.r), handovers: data.handovers.length > 0 && data.handovers.length <= 800 };
  const shown = data.kinds.map(() => true);
  const extent = bounds();
  let view = null, now = data.end, timer = 0, ratio = 1, spots = [];

  function bounds() {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    const grow = (x, y) => { x0 = Math.min(x0, x); y0 = Math.min(y0, y); x1 = Math.max(x1, x); y1 = Math.max(y1, y); };
    for (const n of data.nodes) grow(...n.at);
    for (const t of tracks) for (const s of t.stretches) for (let i = 0; i < s.xy.length; i += 2) grow(s.xy[i], s.xy[i + 1]);
    return [x0, y0, Math.max(x1, x0 + 1), Math.max(y1, y0 + 1)];
  }
  const colors = () => data.kinds.map((k) => k.color || css("--c" + k.c));
  function fit() {
    const [x0, y0, x1, y1] = extent, w = canvas.clientWidth, h = canvas.clientHeight;
    const zoom = Math.min((w - 60) / (x1 - x0), (h - 60) / (y1 - y0));
    view = { zoom, x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
  }
  const px = (x) => canvas.clientWidth / 2 + (x - view.x) * view.zoom;
  const py = (y) => canvas.clientHeight / 2 - (y - view.y) * view.zoom;

  function draw() {
    const w = canvas.clientWidth, h = canvas.clientHeight;
    ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * ratio)) canvas.width = Math.round(w * ratio);
    if (canvas.height !== Math.round(h * ratio)) canvas.height = Math.round(h * ratio);
    if (!view) fit();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    const ink = css("--ink"), soft = css("--soft"), card = css("--card"), hue = colors();
    const bucket = now / data.bucket;
    spots = [];
    if (layers.lines && lines.length) {
      pen.beginPath();
      for (const xy of lines) for (let i = 0; i < xy.length; i += 2) i ? pen.lineTo(px(xy[i]), py(xy[i + 1])) : pen.moveTo(px(xy[i]), py(xy[i + 1]));
      pen.strokeStyle = css("--street"); pen.lineWidth = Math.min(5, Math.max(1, 4 / data.unit * view.zoom)); pen.lineJoin = "round"; pen.stroke();
    }
    if (layers.areas) for (const n of data.nodes) if (n.r && shown[n.k]) {
      pen.beginPath();
      pen.arc(px(n.at[0]), py(n.at[1]), n.r * view.zoom, 0, 7);
      pen.globalAlpha = 0.05 * Math.min(1, 8 / data.nodes.length); pen.fillStyle = hue[n.k]; pen.fill();
      pen.globalAlpha = 0.4; pen.strokeStyle = hue[n.k]; pen.lineWidth = 1; pen.setLineDash([4, 4]); pen.stroke(); pen.setLineDash([]);
    }
    if (layers.paths) {
      pen.lineWidth = 1; pen.globalAlpha = Math.max(0.05, Math.min(0.6, 12 / tracks.length ** 0.75));
      data.kinds.forEach((_, k) => {
        if (!shown[k]) return;
        pen.beginPath();
        for (const t of tracks) if (t.k === k) for (const s of t.stretches) for (let i = 0; i < s.xy.length; i += 2) {
          if (s.first + i / 2 > bucket) break;
          i ? pen.lineTo(px(s.xy[i]), py(s.xy[i + 1])) : pen.moveTo(px(s.xy[i]), py(s.xy[i + 1]));
        }
        pen.strokeStyle = hue[k]; pen.stroke();
      });
    }
    pen.globalAlpha = 1;
    if (layers.handovers) {
      pen.strokeStyle = ink; pen.lineWidth = 1; pen.globalAlpha = 0.55; pen.beginPath();
      for (let i = 0; i < data.handovers.length; i += 2) {
        const x = px(data.handovers[i]), y = py(data.handovers[i + 1]);
        pen.moveTo(x - 3, y - 3); pen.lineTo(x + 3, y + 3); pen.moveTo(x - 3, y + 3); pen.lineTo(x + 3, y - 3);
      }
      pen.stroke(); pen.globalAlpha = 1;
    }
    const size = tracks.length > 400 ? 2.4 : 4, few = data.nodes.length + tracks.length <= 30, labels = [];
    for (const t of tracks) if (shown[t.k]) {
      const at = where(t, bucket);
      if (!at) continue;
      const x = px(at[0]), y = py(at[1]);
      pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fillStyle = hue[t.k]; pen.fill();
      spots.push([x, y, `${t.id}\n${data.kinds[t.k].name}`]);
      if (few) labels.push([t.id, x, y]);
    }
    for (const n of data.nodes) if (shown[n.k]) {
      const x = px(n.at[0]), y = py(n.at[1]);
      pen.beginPath(); pen.rect(x - 5, y - 5, 10, 10);
      pen.fillStyle = hue[n.k]; pen.fill(); pen.lineWidth = 1.5; pen.strokeStyle = card; pen.stroke();
      spots.push([x, y, `${n.id}\n${data.kinds[n.k].name}, ${n.tier}` + (n.r ? `\nserved 95 % within ${length(n.r * data.unit)}` : "")]);
      if (data.nodes.length <= 30) labels.push([n.id, x, y]);
    }
    const taken = labels.map(([, x, y]) => [x - 5, y - 5, x + 5, y + 5]);
    pen.font = "12px " + css("--sans");
    for (const [id, x, y] of labels) {
      const words = id.length > 22 ? id.slice(0, 21) + "…" : id;
      const wide = pen.measureText(words).width;
      for (const [left, base] of [[x + 9, y + 4], [x - 9 - wide, y + 4], [x - wide / 2, y + 19], [x - wide / 2, y - 10]]) {
        const box = [left - 1, base - 11, left + 1 + wide, base + 3];
        if (x <= w && box[2] > w || taken.some((o) => box[0] < o[2] && box[2] > o[0] && box[1] < o[3] && box[3] > o[1])) continue;
        taken.push(box);
        pen.lineWidth = 3; pen.strokeStyle = css("--bg"); pen.strokeText(words, left, base); pen.fillStyle = ink; pen.fillText(words, left, base);
        break;
      }
    }
    ruler(w, h, soft);
    $("clock").textContent = clock(now);
  }
  function where(track, bucket) {
    for (const s of track.stretches) {
      const k = bucket - s.first, last = s.xy.length / 2 - 1;
      if (k >= 0 && k < last + 1) {
        const i = Math.min(Math.floor(k), last), j = Math.min(i + 1, last), part = k - i;
        return [s.xy[2 * i] + part * (s.xy[2 * j] - s.xy[2 * i]), s.xy[2 * i + 1] + part * (s.xy[2 * j + 1] - s.xy[2 * i + 1])];
      }
    }
    return null;
  }
  function ruler(w, h, ink) {
    const goal = 120 * data.unit / view.zoom, power = 10 ** Math.floor(Math.log10(goal));
    const metres = power * (goal / power >= 5 ? 5 : goal / power >= 2 ? 2 : 1), wide = metres / data.unit * view.zoom;
    pen.strokeStyle = ink; pen.fillStyle = ink; pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(14, h - 20); pen.lineTo(14, h - 14); pen.lineTo(14 + wide, h - 14); pen.lineTo(14 + wide, h - 20); pen.stroke();
    pen.font = "12px " + css("--sans"); pen.fillText(length(metres), 20, h - 20);
  }
  const length = (m) => m >= 1000 ? `${+(m / 1000).toPrecision(3)} km` : m >= 1 ? `${Math.round(m)} m` : `${+(m * 100).toPrecision(2)} cm`;
  function clock(s) {
    const pad = (v) => String(v).padStart(2, "0"), whole = Math.floor(s + 1e-9);
    if (data.end < 120) return `${s.toFixed(data.end < 10 ? 2 : 1)} s`;
    return (data.end >= 3600 ? Math.floor(whole / 3600) + ":" : "") + `${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
  }
  const later = (() => { let asked = 0; return () => { if (!asked) asked = requestAnimationFrame(() => { asked = 0; draw(); }); }; })();

  function toggle(words, color, on, change, round) {
    const label = document.createElement("label"), box = document.createElement("input"), dot = document.createElement("i");
    box.type = "checkbox"; box.checked = on;
    box.addEventListener("change", () => { change(box.checked); later(); });
    dot.style.background = color; if (!round) dot.style.borderRadius = "2px";
    label.append(box, ...(color ? [dot] : []), words);
    $("layers").append(label);
  }
  const moving = new Set(tracks.map((t) => t.k));
  data.kinds.forEach((k, i) => toggle(k.name, k.color || `var(--c${k.c})`, true, (v) => { shown[i] = v; }, moving.has(i)));
  if (lines.length) toggle("streets", "", true, (v) => { layers.lines = v; });
  if (tracks.length) toggle("paths", "", true, (v) => { layers.paths = v; });
  if (layers.areas) toggle("service areas", "", true, (v) => { layers.areas = v; });
  if (data.handovers.length) toggle("handovers ×", "", layers.handovers, (v) => { layers.handovers = v; });

  const time = $("time");
  time.addEventListener("input", () => { now = data.end * time.value / 1000; later(); });
  $("play").addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (now >= data.end) now = 0;
    let before = performance.now();
    $("play").textContent = "❚❚"; $("play").setAttribute("aria-label", "Pause");
    const speed = data.end / 20000;
    const step = (t) => {
      now = Math.min(data.end, now + (t - before) * speed); before = t;
      time.value = Math.round(1000 * now / data.end);
      draw();
      if (now >= data.end) stop(); else timer = requestAnimationFrame(step);
    };
    timer = requestAnimationFrame(step);
  });
  function stop() { cancelAnimationFrame(timer); timer = 0; $("play").textContent = "▶"; $("play").setAttribute("aria-label", "Play"); }
  if (!tracks.length) document.querySelectorAll("#play,#time,#clock").forEach((e) => { e.hidden = true; });

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const dx = x - canvas.clientWidth / 2, dy = y - canvas.clientHeight / 2;
    view.x += dx / view.zoom * (1 - 1 / factor); view.y -= dy / view.zoom * (1 - 1 / factor);
    view.zoom *= factor; later();
  }
  $("in").addEventListener("click", () => zoom(1.5)); $("out").addEventListener("click", () => zoom(1 / 1.5));
  $("all").addEventListener("click", () => { fit(); later(); });
  canvas.addEventListener("wheel", (e) => { if (e.ctrlKey || document.activeElement === canvas) { e.preventDefault(); const b = canvas.getBoundingClientRect(); zoom(1.0015 ** -e.deltaY, e.clientX - b.left, e.clientY - b.top); } }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const move = 60 / view.zoom, keys = { ArrowLeft: [-move, 0], ArrowRight: [move, 0], ArrowUp: [0, move], ArrowDown: [0, -move] };
    if (e.key === "+") zoom(1.5); else if (e.key === "-") zoom(1 / 1.5); else if (e.key === "0") fit();
    else if (keys[e.key]) { view.x += keys[e.key][0]; view.y += keys[e.key][1]; } else return;
    e.preventDefault(); later();
  });
  let held = null;
  canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); canvas.style.cursor = "grabbing"; });
  canvas.addEventListener("pointerup", () => { held = null; canvas.style.cursor = ""; });
  canvas.addEventListener("pointermove", (e) => {
    if (held) { view.x -= (e.clientX - held[0]) / view.zoom; view.y += (e.clientY - held[1]) / view.zoom; held = [e.clientX, e.clientY]; later(); hideTip(); return; }
    const b = canvas.getBoundingClientRect(), x = e.clientX - b.left, y = e.clientY - b.top;
    let best = null, least = 144;
    for (const s of spots) { const d = (s[0] - x) ** 2 + (s[1] - y) ** 2; if (d <= least) { least = d; best = s; } }
    best ? showTip(best[2], e.clientX, e.clientY) : hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  new ResizeObserver(() => { view = null; later(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  draw();
})();
