// The same weights as lines: query tokens in the left column, key tokens in the right, a line as strong as its weight.
const FAINTEST = 0.01, SHADES = 100, LINE_TOP = 26;
const SHARE = 0.37, NUMBER_ROOM = 28;      // of the width, for one column of tokens; px, for the weights beside it

class Lines {
  constructor(figure, on) {
    this.svg = figure.querySelector("svg");
    this.stage = figure.querySelector(".stage");
    this.note = figure.querySelector(".note");
    this.on = on;
  }

  measure() {
    Object.assign(this, { width: this.stage.clientWidth, height: this.stage.clientHeight });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.svg.replaceChildren();
    const pitch = (tokens) => Math.min(24, (this.height - LINE_TOP - 10) / tokens);
    this.pitch = { query: pitch(picture.rows), key: pitch(picture.cols) };
    this.column = { query: this.width * SHARE, key: this.width * (1 - SHARE) };
    this.draw("text", { x: this.column.query, y: 8, "text-anchor": "end", "font-size": 11, fill: theme.quiet }, "reads (query)");
    this.draw("text", { x: this.column.key, y: 8, "font-size": 11, fill: theme.quiet }, "is read (key)");
    this.idle = this.draw("g", {});
    this.drawAll();
    this.near = this.draw("g", {});
    this.tokens = { query: this.write("query", picture.queries), key: this.write("key", picture.keys) };
    this.note.textContent = `Strength of a line = weight ±${0.5 / SHADES}; under ${FAINTEST} not drawn.`;
  }

  draw(tag, attributes, text, parent = this.svg) {
    return putSvg(parent, tag, attributes, text);
  }

  y(side, index) {
    return LINE_TOP + (index + 0.5) * this.pitch[side];
  }

  curve(query, key) {
    const [a, b] = [this.column.query + 6, this.column.key - 6], bend = (b - a) * 0.35;
    const [from, to] = [this.y("query", query).toFixed(1), this.y("key", key).toFixed(1)];
    return `M${a} ${from}C${a + bend} ${from} ${b - bend} ${to} ${b} ${to}`;
  }

  // All lines of one weight, to two decimals, as one path: few elements, so that hovering stays fast.
  drawAll() {
    const { rows, cols, weights } = this.picture, paths = Array.from({ length: SHADES + 1 }, () => []);
    for (let i = 0; i < rows * cols; i++) {
      if (weights[i] < FAINTEST) continue;
      paths[Math.min(SHADES, Math.round(weights[i] * SHADES))].push(this.curve(Math.floor(i / cols), i % cols));
    }
    paths.forEach((curves, shade) => curves.length && this.stroke(this.idle, curves.join(""), shade / SHADES));
  }

  stroke(group, d, strength) {
    this.draw("path", { d, fill: "none", stroke: this.theme.accent, "stroke-opacity": strength.toFixed(3), "stroke-width": (0.8 + 2.4 * strength).toFixed(2) }, undefined, group);
  }

  write(side, labels) {
    const pitch = this.pitch[side], size = Math.max(8, Math.min(13, pitch * 0.72)), every = Math.ceil((size + 1) / pitch);
    const measure = widthIn(`${size}px ${this.theme.font}`), room = this.width * SHARE - NUMBER_ROOM;
    return labels.map((label, i) => {
      const left = side === "query";
      const text = this.draw("text", {
        x: this.column[side], y: this.y(side, i), "text-anchor": left ? "end" : "start", "dominant-baseline": "middle",
        "font-size": size, fill: this.theme.text, class: `token${label[2] ? " special" : ""}`, "data-side": side, "data-index": i,
      }, fit(label[0], room, measure));
      if (i % every) text.setAttribute("visibility", "hidden");
      this.draw("rect", {
        x: left ? 0 : this.column.key - 6, y: this.y(side, i) - pitch / 2, width: this.width * SHARE + 6, height: pitch,
        fill: "transparent", style: "cursor: pointer",
      }).onpointerenter = () => this.on.hover({ [side]: i });
      const pad = this.svg.lastChild;
      pad.onpointerleave = () => this.on.hover(null);
      pad.onclick = () => this.on.click({ [side]: i });
      Object.assign(pad.dataset, { side, index: i });
      return text;
    });
  }

  // Only the lines of the token or cell in focus, with the weights written beside the other ends.
  focus(spot, lock) {
    const { rows, cols, weights } = this.picture;
    this.idle.setAttribute("opacity", spot ? 0.06 : 1);
    this.near.replaceChildren();
    for (const side of ["query", "key"]) {
      this.tokens[side].forEach((text, i) => {
        const held = spot && spot[side] === i;
        text.classList.toggle("on", Boolean(held));
        text.classList.toggle("dim", Boolean(spot) && spot[side] !== undefined && !held);
        text.classList.toggle("locked", Boolean(lock) && lock[side] === i);
      });
    }
    if (!spot) return;
    const byQuery = spot.query !== undefined;
    for (let i = 0; i < (byQuery ? cols : rows); i++) {
      const [q, k] = byQuery ? [spot.query, i] : [i, spot.key];
      const weight = weights[q * cols + k], single = byQuery && spot.key !== undefined;
      if (weight < FAINTEST || (single && k !== spot.key)) continue;
      this.stroke(this.near, this.curve(q, k), weight);
      if (this.pitch[byQuery ? "key" : "query"] >= 9) this.weigh(byQuery ? "key" : "query", i, weight);
    }
  }

  weigh(side, index, weight) {
    const x = side === "key" ? this.width - 2 : 2;
    this.draw("text", {
      x, y: this.y(side, index), "text-anchor": side === "key" ? "end" : "start", "dominant-baseline": "middle",
      "font-size": Math.min(11, this.pitch[side] * 0.8), fill: this.theme.quiet, "font-variant-numeric": "tabular-nums", "pointer-events": "none",
    }, weight.toFixed(2), this.near);
  }
}
