// Replaces Streamlit if there is no server: gives a browser component its element and its payload.
class Part {
  constructor(name, { html, css }, key, room, send) {
    Object.assign(this, { name, key, send });
    this.place = room.appendChild(document.createElement("div"));
    this.place.className = `st-key-${key.replace(/[^\w-]/g, "-")}`;
    this.root = this.place.attachShadow({ mode: "open" });
    this.root.innerHTML = `<style>${css}</style>${html}`;
  }

  show(payload = this.payload) {
    const setTriggerValue = (event, value) => queueMicrotask(() => this.send(event, value));      // no answer before the gesture ends
    this.payload = payload;
    window.attnscope[this.name]({ key: this.key, data: payload, parentElement: this.root, setTriggerValue });
  }
}

// What Python has packed and compressed into an element of the page.
const unpacked = (element) => unzipped(JSON.parse(element.textContent));

// What Python has packed and compressed into a text.
async function unzipped(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(new Uint8Array(await new Response(stream).arrayBuffer()));
}

// A payload with other fields in its header (drawing/payload.py).
function changed(payload, fields) {
  const end = 4 + new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(payload.subarray(4, end)));
  const encoded = new TextEncoder().encode(JSON.stringify({ ...header, ...fields })), whole = new Uint8Array(4 + encoded.length + payload.length - end);
  new DataView(whole.buffer).setUint32(0, encoded.length, true);
  whole.set(encoded, 4);
  whole.set(payload.subarray(end), 4 + encoded.length);
  return whole;
}

const parsed = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
