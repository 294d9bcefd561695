// The same weights as lines: query tokens in the left column, key tokens in the right, a line as strong as its cell.
const FAINTEST = 0.01, SHADES = 100, LINE_TOP = 26, MOST_LINES = 300, MOST_A_ROW = 2, WIDEST_PITCH = 32, ROOMY = 16, LARGEST_NAME = 14;
const SHARE = { query: 0.47, key: 0.32 }, NUMBER_ROOM = 30; // of the width, at most, for a column of tokens where both want more than that together; px, for the weights beside it

class Lines {
  constructor(figure, on) {
    this.svg = figure.querySelector("svg");
    this.stage = figure.querySelector(".stage");
    this.note = figure.querySelector(".note");
    this.on = on;
  }

  measure() {
    const scale = scaleOf();
    Object.assign(this, { width: this.stage.clientWidth / scale, height: this.stage.clientHeight / scale });
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.svg.replaceChildren();
    const pitch = (tokens) => Math.min(WIDEST_PITCH, (this.height - LINE_TOP - 10) / tokens);
    this.pitch = { query: pitch(picture.rows), key: pitch(picture.cols) };
    const wanted = { query: this.room(picture.queries), key: this.room(picture.keys) };
    const crowded = wanted.query + wanted.key > this.width * (SHARE.query + SHARE.key);
    const widthOf = (side) => (crowded ? Math.min(this.width * SHARE[side], wanted[side]) : wanted[side]);
    this.column = { query: widthOf("query"), key: this.width - widthOf("key") };
    this.draw("text", { x: this.column.query, y: 11, "text-anchor": "end", "font-size": 12, fill: theme.quiet }, "query");
    this.draw("text", { x: this.column.key, y: 11, "font-size": 12, fill: theme.quiet }, "key");
    this.idle = this.draw("g", {});
    const [drawn, all] = this.drawAll();
    this.near = this.draw("g", {});
    this.tokens = { query: this.write("query", picture.queries), key: this.write("key", picture.keys) };
    this.note.textContent = drawn < all ? `Only the ${drawn} strongest of ${all} are drawn.` : `Lines under ${FAINTEST} are not drawn.`;
    const { rows, cols, queries, keys, weights, first } = picture, value = (r, c) => weights[r * cols + c];
    const name = "The same weights as lines from each query token to the key tokens it attends to";
    if (rows) describe(this.svg, { name, rows: positions(queries, first[0]), columns: positions(keys, first[1]), value });
    this.note.title = `A line is as strong as its cell, to ±${0.5 / SHADES}.`;
  }

  // px that a column wants: its longest name and the weights.
  room(labels) {
    const measure = widthIn(`${LARGEST_NAME}px ${this.theme.font}`), longest = Math.max(64, ...labels.map(([text]) => measure(text)));
    return longest + NUMBER_ROOM + 4;
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

  // All lines of one strength, to two decimals, as one path: few elements, so that hovering stays fast. If there are very many, only the
  // strongest are drawn; returns how many are drawn and how many there are.
  drawAll() {
    const { rows, cols, strengths } = this.picture, paths = Array.from({ length: SHADES + 1 }, () => []);
    const all = strengths.filter((strength) => strength >= FAINTEST).sort();
    const most = Math.max(MOST_LINES, MOST_A_ROW * rows), least = Math.max(FAINTEST, all[all.length - most] ?? 0);
    let drawn = 0;
    for (let i = 0; i < rows * cols && drawn < most; i++) {
      if (strengths[i] < least) continue;
      drawn++;
      paths[Math.min(SHADES, Math.round(strengths[i] * SHADES))].push(this.curve(Math.floor(i / cols), i % cols));
    }
    paths.forEach((curves, shade) => curves.length && this.stroke(this.idle, curves.join(""), shade / SHADES));
    return [drawn, all.length];
  }

  stroke(group, d, strength) {
    const width = (0.8 + 2.4 * strength) * Math.min(1, Math.min(this.pitch.query, this.pitch.key) / ROOMY);
    this.draw(
      "path",
      { d, fill: "none", stroke: this.theme.accent, "stroke-opacity": strength.toFixed(3), "stroke-width": width.toFixed(2) },
      undefined,
      group,
    );
  }

  write(side, labels) {
    const pitch = this.pitch[side], size = Math.max(12, Math.min(LARGEST_NAME, pitch * 0.72)), every = Math.ceil((size - 0.5) / pitch);
    const measure = widthIn(`${size}px ${this.theme.font}`), left = side === "query";
    const wide = left ? this.column.query : this.width - this.column.key;
    return labels.map((label, i) => {
      const text = this.draw("text", {
        x: this.column[side],
        y: this.y(side, i),
        "text-anchor": left ? "end" : "start",
        "dominant-baseline": "middle",
        "font-size": size,
        fill: this.theme.text,
        class: `token${label[2] ? " special" : ""}`,
        "data-side": side,
        "data-index": i,
      }, fit(label[0], wide - NUMBER_ROOM, measure));
      if (i % every) text.setAttribute("visibility", "hidden");
      this.draw("rect", {
        x: left ? 0 : this.column.key - 6,
        y: this.y(side, i) - pitch / 2,
        width: wide + 6,
        height: pitch,
        fill: "transparent",
        style: "cursor: pointer",
      }).onpointerenter = () => this.on.hover({ [side]: i });
      const pad = this.svg.lastChild;
      pad.onpointerleave = () => this.on.hover(null);
      pad.onclick = () => this.on.click({ [side]: i });
      Object.assign(pad.dataset, { side, index: i });
      putSvg(pad, "title", {}, label[1] ? `${label[0]} (${label[1]})` : label[0]);
      return text;
    });
  }

  // Only the lines of the token or cell in focus, with the weights written beside the other ends.
  focus(spot, lock) {
    const { rows, cols, weights, strengths } = this.picture;
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
      const cell = q * cols + k, single = byQuery && spot.key !== undefined;
      if (strengths[cell] < FAINTEST || (single && k !== spot.key)) continue;
      this.stroke(this.near, this.curve(q, k), strengths[cell]);
      if (this.pitch[byQuery ? "key" : "query"] >= 11) this.weigh(byQuery ? "key" : "query", i, weights[cell]);
    }
  }

  weigh(side, index, weight) {
    const x = side === "key" ? this.width - 2 : 2;
    this.draw(
      "text",
      {
        x,
        y: this.y(side, index),
        "text-anchor": side === "key" ? "end" : "start",
        "dominant-baseline": "middle",
        "font-size": 12,
        fill: this.theme.quiet,
        "font-variant-numeric": "tabular-nums",
        "pointer-events": "none",
      },
      weight.toFixed(2),
      this.near,
    );
  }
}
