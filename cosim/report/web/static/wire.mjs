// What travels between server and page: frames as binary messages, everything else as JSON.

const KINDS = { i4: [Int32Array, 4], f4: [Float32Array, 4], u1: [Uint8Array, 1] };
const aligned = (n) => Math.ceil(n / 8) * 8;

/** Header and columns of a frame; the columns are views of the message's own memory. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let place = aligned(4 + length);
  const columns = {};
  for (const [name, kind, count] of header.columns) {
    const [type, size] = KINDS[kind];
    columns[name] = new type(buffer, place, count);
    place += aligned(size * count);
  }
  return { header, columns };
}

/** The JSON at `path`, or null when the server cannot be reached. */
export async function get(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

/** Sends a command with `token`; the answer says `ok` and, if not, `error`. */
export async function command(token, body) {
  try {
    const answer = await fetch("/api/control", {
      method: "POST",
      headers: { authorization: "Bearer " + token, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return await answer.json();
  } catch {
    return { ok: false, error: "the dashboard's server cannot be reached" };
  }
}

/** What candidates would do to the run; the answer says `ok` and, if not, `error`. */
export async function ask(body) {
  try {
    const answer = await fetch("/api/what-if", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    return await answer.json();
  } catch {
    return { ok: false, error: "the dashboard's server cannot be reached" };
  }
}

/** Frames one after another: the next one is asked for when the last one has been drawn. */
export class Frames {
  constructor(draw, lost) {
    this.draw = draw;
    this.lost = lost;
    this.at = null;
    this.watch = -1;
    this.after = 0;
    this.open();
  }

  open() {
    const address = new URL("/api/frames", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.busy = false;
    this.socket.onopen = () => { this.after = 0; this.ask(); };
    this.socket.onmessage = (message) => {
      const { header, columns } = unpack(message.data);
      this.busy = false;
      this.after = header.serial;
      this.draw(header, columns);
      requestAnimationFrame(() => { if (this.again || !this.still) this.ask(); });
    };
    this.socket.onclose = () => { this.lost(); setTimeout(() => this.open(), 2000); };
  }

  /** Asks for the frame at `this.at` (s; null: the newest), or does so as soon as the one under way is there. */
  ask(force = false) {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (this.busy && this.still) { this.again = true; return; }
    if (force) this.after = 0;
    this.busy = true;
    this.again = false;
    this.socket.send(JSON.stringify({ after: this.after, at: this.at, watch: this.watch }));
  }
}
