// How things look, for both kinds of map: marks of nodes, names, grid and ruler.

import { length } from "./words.mjs";

/** A node that stands still: a square, filled from below by the share of its cores in use. */
export function drawFixed(pen, x, y, colour, card, load, down, placed, bad, size = 7) {
  pen.lineWidth = 1.6;
  pen.setLineDash(placed ? [] : [2.5, 2]);
  pen.fillStyle = card;
  pen.strokeStyle = down ? bad : colour;
  pen.beginPath(); pen.rect(x - size, y - size, 2 * size, 2 * size); pen.fill(); pen.stroke();
  pen.setLineDash([]);
  if (down) {
    pen.beginPath();
    pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size); pen.moveTo(x - size, y + size); pen.lineTo(x + size, y - size);
    pen.stroke();
    return;
  }
  const inner = size - 2, height = load === undefined ? 2 * inner : 2 * inner * Math.min(1, load);
  pen.fillStyle = colour;
  pen.fillRect(x - inner, y + inner - height, 2 * inner, height);
}

/** A moving node: an arrowhead along its heading (degrees clockwise from north). */
export function drawMover(pen, x, y, heading, colour, card, size = 6) {
  const turn = (heading * Math.PI) / 180, s = Math.sin(turn), c = Math.cos(turn);
  const to = (right, ahead) => [x + right * c + ahead * s, y + right * s - ahead * c];
  pen.beginPath();
  pen.moveTo(...to(0, size)); pen.lineTo(...to(0.72 * size, -0.8 * size)); pen.lineTo(...to(0, -0.4 * size)); pen.lineTo(...to(-0.72 * size, -0.8 * size));
  pen.closePath();
  pen.fillStyle = colour; pen.fill();
  if (size > 4) { pen.lineWidth = 1; pen.strokeStyle = card; pen.stroke(); }
}

/** The next of 1, 2, 5, 10, ... metres above `least`. */
export function step(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((m) => m * power >= least) ?? 10);
}

/** Names of nodes, the ring around the chosen one, figures along the edges, and the ruler. */
export function drawWords(pen, world, view) {
  const { width, height, toScreen, metres } = view;
  pen.clearRect(0, 0, width, height);
  pen.font = `11px ${world.sans}`;
  const every = step(90 * metres), [west, south] = view.local(0, height), [east, north] = view.local(width, 0);
  pen.fillStyle = world.faint;
  pen.textAlign = "center";
  for (let x = Math.ceil(west / every) * every; x < east; x += every) {
    const at = toScreen(x, 0)[0];
    if (at > 130 && at < width - 30) pen.fillText(label(x), at, height - 6);
  }
  pen.textAlign = "left";
  for (let y = Math.ceil(south / every) * every; y < north; y += every) {
    const at = toScreen(0, y)[1];
    if (at > 60 && at < height - 40) pen.fillText(label(y), 5, at + 4);
  }
  const wide = step(60 * metres) / metres;
  pen.strokeStyle = pen.fillStyle = world.soft;
  pen.lineWidth = 1.5;
  pen.beginPath(); pen.moveTo(12, height - 22); pen.lineTo(12, height - 16); pen.lineTo(12 + wide, height - 16); pen.lineTo(12 + wide, height - 22); pen.stroke();
  pen.fillText(length(wide * metres), 18, height - 21);
  if (world.layers.labels) {
    pen.font = `12px ${world.sans}`;
    const taken = [];
    for (const node of world.named()) {
      const [x, y] = toScreen(node.x, node.y);
      const aside = node.n === world.chosen ? 18 : 12; // beside the ring
      const words = node.id.length > 22 ? node.id.slice(0, 21) + "…" : node.id, w = pen.measureText(words).width;
      const left = x + aside + w > width ? x - aside - w : x + aside, box = [left - 1, y - 8, left + 1 + w, y + 8];
      if (x < -60 || y < 0 || x > width || y > height) continue;
      if (node.n !== world.chosen && taken.some((o) => box[0] < o[2] && box[2] > o[0] && box[1] < o[3] && box[3] > o[1])) continue;
      taken.push(box);
      halo(pen, words, left, y + 4, world);
    }
  }
  const place = world.places.get(world.chosen);
  if (place) {
    const [x, y] = toScreen(...place);
    pen.beginPath(); pen.arc(x, y, 14, 0, 7); pen.lineWidth = 2; pen.strokeStyle = world.accent; pen.stroke();
    if (world.chosen >= world.nodes.length && world.name) { pen.font = `600 12px ${world.sans}`; halo(pen, world.name, x + 18, y + 4, world); }
  }
}

const label = (metres) => (metres === 0 ? "0" : Math.abs(metres) >= 10000 ? `${+(metres / 1000).toFixed(2)} km` : `${Math.round(metres)} m`);

function halo(pen, words, x, y, world) {
  pen.lineWidth = 3; pen.lineJoin = "round"; pen.strokeStyle = world.paper; pen.strokeText(words, x, y);
  pen.fillStyle = world.ink; pen.fillText(words, x, y);
}

/** A canvas as large as `host`, sharp on any screen; gives its pen. */
export function fitCanvas(canvas, host) {
  const ratio = window.devicePixelRatio || 1, w = host.clientWidth, h = host.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

/** The node nearest to a place on the screen, within 18 pixels; -1 for none. */
export function nearest(world, toScreen, px, py) {
  let best = -1, least = 18 ** 2;
  for (const [n, [x, y]] of world.places) {
    const [sx, sy] = toScreen(x, y), d = (sx - px) ** 2 + (sy - py) ** 2 - (n < world.nodes.length ? 30 : 0);
    if (d < least) { best = n; least = d; }
  }
  return best;
}
