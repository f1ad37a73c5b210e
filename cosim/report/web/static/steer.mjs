// Commands to a live run: pause, pace, events, stop. The server asks for the token; it stays in this page.

import { command } from "./wire.mjs";

const $ = (id) => document.getElementById(id);

/** Makes the controls work; `state()` is what the run last said of itself. */
export function steering(scene, state) {
  const form = $("inject");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) { $("token").value = token; history.replaceState(null, "", location.pathname + location.search); }
  $("names").replaceChildren(...[...scene.nodes, ...scene.fleets].map((node) => new Option(node.name ?? node.id, node.name ?? node.id)));

  async function send(body) {
    const answer = await command($("token").value.trim(), body);
    $("answer").textContent = answer.ok ? "done" : answer.error;
    $("answer").className = answer.ok ? "" : "bad";
    if (answer.ok) show(answer);
    return answer.ok;
  }

  const show = (said) => { $("pause").textContent = said.paused ? "Resume" : "Pause"; };
  $("pause").onclick = () => send({ do: state().paused ? "resume" : "pause" });
  $("pace").onchange = () => { if ($("pace").value !== "") send({ do: "pace", factor: Number($("pace").value) }); };
  $("stop").onclick = () => { if (confirm("Stop the run? Its results are kept, marked as partial.")) send({ do: "stop" }); };
  form.elements.do.onchange = () => {
    const link = /degrade|restore/.test(form.elements.do.value);
    form.elements.target.placeholder = link ? "node/node" : "node";
    form.elements.loss.hidden = form.elements.delay.hidden = form.elements.do.value !== "degrade";
    form.elements.for.hidden = /recover|restore/.test(form.elements.do.value);
  };
  $("key").onsubmit = (e) => { e.preventDefault(); send({ do: "state" }); };
  form.onsubmit = async (e) => {
    e.preventDefault();
    const { do: verb, target, for: span, loss, delay } = form.elements, event = { do: verb.value };
    event[/degrade|restore/.test(verb.value) ? "link" : "node"] = target.value.trim();
    for (const input of [span, loss, delay]) if (!input.hidden && input.value.trim()) event[input.name] = input.value.replace(input.name, "").trim();
    await send({ do: "inject", event });
  };
  return show;
}
