// What if, from now: the candidates that the dashboard was started with, answered for the next minutes of the run.

import { ask } from "./wire.mjs";
import { clock, element, quantity, round } from "./words.mjs";

const $ = (id) => document.getElementById(id);
const FIGURES = { response: ["response, mean", "s"], response_p95: ["response, 95th percentile", "s"], completed: ["completed tasks", ""], failed: ["failed tasks", ""] };
const LESS = new Set(["response", "response_p95", "failed"]); // is better

/** Offers the candidates of `scene`; `now()` is the time of the run that the page shows, null for the newest state. */
export function whatIf(scene, now) {
  const names = scene.candidates ?? [];
  $("what-if").hidden = !names.length;
  $("candidates").replaceChildren(...names.map((name) => element("label", {}, element("input", { type: "checkbox", value: name, checked: true }), name)));
  $("answers").replaceChildren();
  $("what-if-said").textContent = "";
  $("ask").onsubmit = async (e) => {
    e.preventDefault();
    const chosen = [...$("candidates").querySelectorAll("input:checked")].map((box) => box.value), said = $("what-if-said");
    const at = now(), button = $("ask").querySelector("button");
    button.disabled = true;
    said.className = "";
    said.textContent = "simulating …";
    const answer = await ask({ names: chosen, horizon: Number($("horizon").value), now: at });
    button.disabled = false;
    said.textContent = answer.ok ? `From ${at === null ? "the newest state" : clock(at, scene.duration)} on; 90 % of the runs lie within each band.` : answer.error;
    said.className = answer.ok ? "" : "bad";
    if (answer.ok && exact(answer.answers)) said.textContent = `From ${at === null ? "the newest state" : clock(at, scene.duration)} on: the run itself under each candidate.`;
    if (answer.ok) $("answers").replaceChildren(...answer.answers.flatMap(rows));
  };
}

/** A group of rows: the bands of one candidate, and how they differ from the run as it is. */
function rows({ name, bands, differences }, i) {
  const shown = Object.entries(FIGURES).filter(([figure]) => Number.isFinite(bands[figure]?.middle));
  const say = (value, unit) => (unit ? quantity(value, unit) : round(value));
  return [element("tr", { class: "group" }, element("th", { colspan: 3 }, name)), ...shown.map(([figure, [words, unit]]) => {
    const band = bands[figure], change = differences[figure];
    const sure = i > 0 && (change.low > 0 || change.high < 0), better = change.low > 0 !== LESS.has(figure);
    return element("tr", {}, element("th", {}, words),
      element("td", {}, say(band.middle, unit), element("small", {}, `${say(band.low, unit)} to ${say(band.high, unit)}`)),
      element("td", { class: sure ? (better ? "good" : "bad") : "" }, i === 0 ? "" : signed(change.middle, unit, say), i === 0 ? null : element("small", {}, `${signed(change.low, unit, say)} to ${signed(change.high, unit, say)}`)));
  })];
}

/** Whether the answers are of one run each, and not bands. */
const exact = (answers) => answers.every(({ bands }) => Object.values(bands).every((band) => band.runs <= 1));
const signed = (value, unit, say) => (value < 0 ? "−" : value > 0 ? "+" : "") + say(Math.abs(value), unit);
