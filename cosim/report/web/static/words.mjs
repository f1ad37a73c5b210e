// Numbers and times as text.

const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const PLAIN = new Set(["", "1", "dB", "dBm", "deg", "/s", "simulated s per s"]); // units that take no prefix

/** `value` with its unit in three or four digits: 4.26 Mbit/s, 97.5 %. */
export function quantity(value, unit, column = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value === true ? "yes" : value === false ? "no" : value);
  if (unit === "1" && /loss|utilisation|fraction|charge|^cpu$/.test(column)) return `${round(100 * value)} %`;
  if (unit === "1") unit = "";
  if (unit === "1/s") unit = "/s";
  if (unit === "simulated s per s") unit = "×";
  if (PLAIN.has(unit) || unit === "×" || value === 0) return `${round(value)}${unit ? " " + unit : ""}`;
  if (Math.abs(value) < 1e-12) return `0 ${unit}`; // what arithmetic leaves of zero
  if (unit === "s" && Math.abs(value) >= 60) return clock(value);
  if (unit === "m" && Math.abs(value) < 1000) return `${round(value)} m`;
  const [size, prefix] = STEPS.find(([least]) => Math.abs(value) >= least * 0.9995) ?? STEPS.at(-1);
  return `${round(value / size)} ${prefix}${unit}`;
}

export function round(value) {
  const size = Math.abs(value);
  if (size === 0 || size < 1e-12) return "0";
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1);
  return String(+value.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

/** Seconds as 59.5 s, 02:03 or 1:02:03. */
export function clock(seconds, end = seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (end < 120) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds + 1e-9), pad = (v) => String(v).padStart(2, "0");
  return (end >= 3600 ? `${Math.floor(whole / 3600)}:` : "") + `${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
}

export const length = (metres) =>
  metres >= 1000 ? `${+(metres / 1000).toPrecision(4)} km` : metres >= 1 ? `${+metres.toPrecision(4)} m` : `${Math.round(metres * 100)} cm`;

/** An element with attributes and children; text is never read as HTML. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
