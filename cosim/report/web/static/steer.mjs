// Commands to a live run: pause, pace, events, stop. The server asks for the token; it stays in this page.

import { command } from "./wire.mjs";

const NAMED = 4; // nodes in an answer
const $ = (id) => document.getElementById(id);

/** Makes the controls work; `state()` is what the run last said of itself. */
export function steering(scene, state) {
  const form = $("inject");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) { $("token").value = token; history.replaceState(null, "", location.pathname + location.search); }
  $("names").replaceChildren(...[...scene.nodes, ...scene.fleets].map((node) => new Option(node.name ?? node.id, node.name ?? node.id)));

  async function send(body) {
    const answer = await command($("token").value.trim(), body);
    $("answer").textContent = answer.ok ? (answer.event ? done(answer) : "done") : answer.error;
    $("answer").className = answer.ok ? "" : "bad";
    if (answer.ok) show(answer);
    return answer.ok;
  }

  const some = (names) => names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` and ${names.length - NAMED} more` : "");

  /** What was written: a text, or in brackets a list. */
  const read = (text) => /^\[.*\]$/.test(text) ? text.slice(1, -1).split(",").map((part) => part.trim()) : text;

  /** What an event will happen to, and when. */
  function done({ event, time }) {
    const where = event.link.map(some).join("/") || some(event.nodes);
    return `${event.do}${where ? " at " + where : ""}, with the next step after ${time.toFixed(1)} s`;
  }

  const show = (said) => { $("pause").textContent = said.paused ? "Resume" : "Pause"; };
  $("pause").onclick = () => send({ do: state().paused ? "resume" : "pause" });
  $("pace").onchange = () => { if ($("pace").value !== "") send({ do: "pace", factor: Number($("pace").value) }); };
  $("stop").onclick = () => { if (confirm("Stop the run? Its results are kept, marked as partial.")) send({ do: "stop" }); };
  const events = scene.takes ?? {};
  form.elements.do.replaceChildren(...Object.keys(events).map((name) => new Option(name)));

  /** A field for each key of the chosen event. */
  function fields() {
    const { meaning, keys } = events[form.elements.do.value];
    form.elements.do.title = meaning;
    $("fields").replaceChildren(...Object.entries(keys).map(([name, key]) => {
      const label = document.createElement("label"), input = document.createElement("input");
      Object.assign(input, { name, required: key.needed, size: 9, placeholder: key.needed ? "" : "optional" });
      if (name === "node") input.setAttribute("list", "names");
      label.title = key.meaning;
      label.append(name, " ", input);
      return label;
    }));
  }
  form.elements.do.onchange = fields;
  form.hidden = !Object.keys(events).length;
  if (!form.hidden) fields();
  $("key").onsubmit = (e) => { e.preventDefault(); send({ do: "state" }); };
  form.onsubmit = async (e) => {
    e.preventDefault();
    const event = { do: form.elements.do.value };
    for (const { name, value } of $("fields").querySelectorAll("input")) if (value.trim()) event[name] = read(value.trim());
    await send({ do: "inject", event });
  };
  return show;
}
