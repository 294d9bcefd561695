// The lines of several heads between the same two rows of tokens: a head keeps its colour, and also has a line style and ends
// slightly lower than the one before, so that colour is never the only difference between two heads.
const STYLES = ["", "7 4", "2 3", "10 3 2 3"], FAINT = 0.05, STEPS = 20, LEAST = 12, APART = 3.2, ROOF = 24;

class Strands extends Fitted {
  constructor(section, on) {
    super(section);
    Object.assign(this, { svg: section.querySelector(":scope > svg"), legend: section.querySelector(".legend"), on });
    this.svg.setAttribute("tabindex", 0);
    useKeys(this.svg, { ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1), Escape: () => this.on.query(-1) });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.legend.replaceChildren(...picture.chosen.map((number, n) => this.legendItem(number, n)));
    this.svg.setAttribute("aria-label", `${picture.title}; heads ${picture.chosen.map((number) => picture.heads[number].name).join(", ")}`);
    this.fit();
  }

  // By key: pins the lines of the query token after or before the pinned one.
  step(by) {
    const last = this.picture.queries.length - 1, held = this.picture.query;
    this.on.query(held < 0 ? (by > 0 ? 0 : last) : Math.max(0, Math.min(last, held + by)));
  }

  legendItem(number, n) {
    const item = document.createElement("span"), sample = putSvg(item, "svg", { viewBox: "0 0 34 10" });
    putSvg(sample, "line", { x1: 0, x2: 34, y1: 5, y2: 5, ...this.stroke(number, n), "stroke-width": 2.4 });
    item.append(this.picture.heads[number].name);
    return item;
  }

  stroke(number, n) {
    return { stroke: headColour(this.picture.heads[number].head), "stroke-dasharray": STYLES[n], fill: "none" };
  }

  draw(whole) {
    const scale = scaleOf(), width = whole / scale, height = this.svg.clientHeight / scale, { queries, keys, chosen } = this.picture;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const pitch = (n) => Math.min(38, (height - ROOF - 8) / n), side = Math.min(150, width * 0.28);
    Object.assign(this, { pitch: { query: pitch(queries.length), key: pitch(keys.length) }, left: side, right: width - side });
    this.write(side, 9, "query", "end");
    this.write(width - side, 9, "key", "start");
    this.lines = putSvg(this.svg, "g", {});
    chosen.forEach((number, n) => this.strand(number, n));
    this.column("query", queries, side);
    this.column("key", keys, side);
  }

  y(side, i) {
    return ROOF + (i + 0.5) * this.pitch[side];
  }

  // All lines of one head, those of similar strength as one path; if a token is pinned, only its lines.
  strand(number, n) {
    const { arrays, queries, keys, query, chosen } = this.picture, size = queries.length * keys.length;
    const weights = arrays.weights.subarray(n * size, (n + 1) * size), paths = Array.from({ length: STEPS + 1 }, () => []);
    const [a, b] = [this.left + 7, this.right - 7], bend = (b - a) * 0.35, lower = (n - (chosen.length - 1) / 2) * APART;
    for (let i = 0; i < size; i++) {
      const from = Math.floor(i / keys.length);
      if (weights[i] < FAINT || (query >= 0 && from !== query)) continue;
      const [y1, y2] = [this.y("query", from) + lower, this.y("key", i % keys.length) + lower].map((v) => v.toFixed(1));
      paths[Math.min(STEPS, Math.round(weights[i] * STEPS))].push(`M${a} ${y1}C${a + bend} ${y1} ${b - bend} ${y2} ${b} ${y2}`);
    }
    paths.forEach((curves, step) => {
      if (!curves.length) return;
      const strength = step / STEPS,
        line = { "stroke-opacity": (0.15 + 0.85 * strength).toFixed(2), "stroke-width": (0.7 + 2.3 * strength).toFixed(2) };
      const path = putSvg(this.lines, "path", { d: curves.join(""), ...this.stroke(number, n), ...line });
      Object.assign(path.dataset, { head: number, step });
    });
  }

  write(x, y, text, anchor, more = {}) {
    return putSvg(this.svg, "text", {
      x,
      y,
      "text-anchor": anchor,
      "dominant-baseline": "central",
      "font-size": LEAST,
      fill: this.theme.quiet,
      ...more,
    }, text);
  }

  // The tokens of one side, as many as fit at their size; each can be pointed at, even if its name is left out.
  column(side, labels, room) {
    const pitch = this.pitch[side], size = Math.max(LEAST, Math.min(14, pitch * 0.7)), every = Math.ceil((size + 2) / pitch);
    const measure = widthIn(`${size}px ${this.theme.font}`), left = side === "query", x = left ? this.left : this.right;
    labels.forEach(([text, note, special], i) => {
      const held = left && i === this.picture.query;
      if (i % every === 0 || held) {
        this.write(x, this.y(side, i), fit(text, room - 4, measure), left ? "end" : "start", {
          "font-size": size,
          fill: special ? this.theme.quiet : this.theme.text,
          class: "name",
          "font-weight": held ? 700 : 400,
          style: "unicode-bidi: plaintext; white-space: pre",
        });
      }
      const pad = putSvg(this.svg, "rect", {
        x: left ? 0 : this.right,
        y: this.y(side, i) - pitch / 2,
        width: room,
        height: pitch,
        fill: "transparent",
        style: left ? "cursor: pointer" : "",
      });
      Object.assign(pad.dataset, { side, index: i });
      pad.onpointermove = (event) => this.on.point({ side, index: i }, event);
      pad.onpointerleave = () => this.on.point(null);
      if (left) pad.onclick = () => this.on.query(held ? -1 : i);
    });
  }
}
