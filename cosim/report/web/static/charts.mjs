// Time series: a list of charts, each with a figure of the reader's choice.

import { get } from "./wire.mjs";
import { clock, element, quantity } from "./words.mjs";

const FIRST = ["task.completed", "task.response", "resources.cpu", "host.utilisation", "run.lag", "host.power"];
const HEIGHT = 128;
const STEPS = [0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]; // s between two figures of the time axis
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Charts {
  /** `seek` is called with the time (s) that the reader clicks on. */
  constructor(host, scene, seek) {
    this.host = host;
    this.scene = scene;
    this.seek = seek;
    this.now = null;
    this.events = [];
    this.charts = [];
    this.sync = uPlot.sync("charts");
    const known = scene.figures.map((figure) => figure.name), chosen = FIRST.filter((name) => known.includes(name));
    for (const name of (chosen.length ? chosen : known).slice(0, 4)) this.add(name);
    this.watcher = new ResizeObserver(() => this.charts.forEach((chart) => chart.plot?.setSize({ width: this.host.clientWidth, height: HEIGHT })));
    this.watcher.observe(host);
  }

  remove() { this.watcher.disconnect(); this.host.replaceChildren(); }

  /** Adds the chart of one column of one node. */
  follow(signal, column, node) {
    const figure = `${signal}.${column}`, name = `${figure}@${node.node}`, about = this.scene.figures.find((one) => one.name === figure);
    if (!about || this.charts.some((chart) => chart.name === name)) return;
    if (!this.scene.figures.some((one) => one.name === name)) this.scene.figures.push({ name, label: `${about.label}, ${node.name}`, unit: about.unit });
    this.add(name);
    this.load();
  }

  add(name = this.scene.figures.find((figure) => !this.charts.some((chart) => chart.name === figure.name))?.name) {
    if (!name || this.charts.length >= 12) return;
    const chart = { name, plot: null };
    const choose = element("select", { "aria-label": "Figure", onchange: () => { chart.name = choose.value; this.draw(chart); this.load(); } });
    for (const figure of this.scene.figures) choose.append(element("option", { value: figure.name, selected: figure.name === name }, figure.label));
    chart.value = element("output", {});
    chart.place = element("div", { class: "plot" });
    chart.legend = element("p", { class: "lines" });
    chart.box = element("div", { class: "chart" },
      element("div", { class: "head" }, choose, chart.value,
        element("button", { class: "quiet", "aria-label": "Remove this chart", onclick: () => { this.charts.splice(this.charts.indexOf(chart), 1); chart.plot?.destroy(); chart.box.remove(); } }, "×")),
      chart.legend, chart.place);
    this.charts.push(chart);
    this.host.append(chart.box);
  }

  /** Gets the series anew and draws them. */
  async load() {
    const names = [...new Set(this.charts.map((chart) => chart.name))];
    if (!names.length || this.loading) return;
    this.loading = true;
    const found = await get("/api/series?" + names.map((name) => "figure=" + encodeURIComponent(name)).join("&"));
    this.loading = false;
    if (!found) return;
    this.series = found.figures;
    for (const chart of this.charts) this.draw(chart);
  }

  draw(chart) {
    const found = this.series?.[chart.name];
    if (!found) return;
    const labels = Object.keys(found.lines), data = [found.times, ...Object.values(found.lines)];
    if (!found.times.length || !labels.length) {
      chart.plot?.destroy(); chart.plot = null;
      chart.place.replaceChildren(element("p", { class: "empty" }, "No values yet."));
      chart.value.textContent = "";
      chart.legend.replaceChildren();
      chart.lines = null;
      return;
    }
    const about = this.scene.figures.find((figure) => figure.name === chart.name), unit = about.unit;
    chart.lines = { labels, data, unit };
    if (chart.plot && chart.shown === chart.name + labels) chart.plot.setData(data);
    else {
      chart.plot?.destroy();
      chart.place.replaceChildren();
      chart.shown = chart.name + labels;
      chart.plot = new uPlot(this.options(chart, labels, unit), data, chart.place);
    }
    this.say(chart);
  }

  options(chart, labels, unit) {
    const end = this.scene.duration, soft = css("--soft"), grid = css("--grid");
    const axis = { stroke: soft, font: `11px ${css("--sans")}`, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const name = chart.name.split(".").pop();
    return {
      width: this.host.clientWidth || 360, height: HEIGHT, legend: { show: false }, padding: [6, 20, 0, 0],
      cursor: { sync: { key: "charts" }, points: { size: 5 }, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => (low === null ? [0, 1] : low >= 0 ? [0, high * 1.08 || 1] : [low - 0.05 * (high - low), high + 0.05 * (high - low) || 1]) } },
      axes: [
        { ...axis, space: 50, size: 24, incrs: STEPS, values: (_, ticks) => ticks.map((tick) => clock(tick, end)) },
        { ...axis, space: 34, size: 62, values: (_, ticks) => ticks.map((tick) => quantity(tick, unit, name)) },
      ],
      series: [{ label: "time", value: (_, v) => clock(v, end) }, ...labels.map((text, i) => ({
        label: text, stroke: css(`--c${i % 8}`), width: 1.5, spanGaps: true, points: { show: false }, value: (_, v) => quantity(v, unit, name),
      }))],
      hooks: {
        draw: [(plot) => this.marks(plot)],
        setCursor: [(plot) => this.say(chart, plot.cursor.left >= 0 ? plot.cursor.idx : null)],
        ready: [(plot) => plot.over.addEventListener("click", () => this.seek(plot.posToVal(plot.cursor.left, "x")))],
      },
    };
  }

  /** Lines for the moment that the map shows and for events. */
  marks(plot) {
    const { ctx: pen, bbox } = plot;
    const line = (time, colour, dash) => {
      const x = plot.valToPos(time, "x", true);
      if (!(x >= bbox.left && x <= bbox.left + bbox.width)) return;
      pen.save();
      pen.strokeStyle = colour; pen.lineWidth = window.devicePixelRatio || 1; pen.setLineDash(dash);
      pen.beginPath(); pen.moveTo(x, bbox.top); pen.lineTo(x, bbox.top + bbox.height); pen.stroke();
      pen.restore();
    };
    if (this.events.length <= 40) for (const [time] of this.events) line(time, css("--faint"), [3, 4]);
    if (this.now !== null) line(this.now, css("--accent"), []);
  }

  /** The chart's value at the cursor, at the moment shown, or the newest. */
  say(chart, index = null) {
    if (!chart.lines) return;
    const [times, ...lines] = chart.lines.data, several = lines.length > 1;
    let i = index ?? times.length - 1;
    if (index === null && this.now !== null) while (i > 0 && times[i] > this.now) i--;
    const texts = lines.map((values) => quantity(values[i], chart.lines.unit, chart.name.split(".").pop()));
    chart.value.textContent = several ? "" : texts[0];
    if (several) chart.legend.replaceChildren(...texts.map((text, k) => {
      const dot = element("i", {});
      dot.style.background = css(`--c${k % 8}`);
      return element("span", {}, dot, `${chart.lines.labels[k]} `, element("b", {}, text));
    }));
    else chart.legend.replaceChildren();
  }

  /** Moves the mark of the moment shown. */
  at(time) {
    this.now = time;
    for (const chart of this.charts) { chart.plot?.redraw(false); this.say(chart); }
  }

  recolour() { for (const chart of this.charts) { chart.shown = ""; this.draw(chart); } }
}
