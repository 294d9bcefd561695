// The chosen mask, to paint on. A stroke forbids cells if its first one is open, else it allows them. When the pointer
// is released, Python receives all painted cells, so that no stroke can be lost.
class Brush {
  constructor(section, forms, on) {
    this.on = on;
    this.heading = section.querySelector("h2");
    this.subheading = section.querySelector(".subtitle");
    this.legend = section.querySelector(".legend");
    this.reading = forms.querySelector(".said");
    this.table = forms.querySelector("tbody");
    this.painted = new Map(); // "query,key" → 0 forbidden, 1 allowed
    this.board = new Board(section.querySelector(".holder"), "paintable", {
      hover: (spot, event) => on.hover(spot, event),
      down: (spot, event) => this.down(spot, event),
      move: (spot) => this.move(spot),
      up: () => this.up(),
      cancel: () => this.cancel(),
    }, true);
    const canvas = this.board.cells;
    canvas.tabIndex = 0;
    useKeys(canvas, { ...arrows((rows, columns) => this.go(rows, columns)), " ": () => this.toggle(), Enter: () => this.toggle() });
    canvas.onblur = () => {
      this.cursor = null;
      on.hover(null);
    };
  }

  show(picture, theme) {
    const other = this.picture && this.picture.kind !== picture.kind;
    Object.assign(this, { picture, theme, rows: picture.queries.length, cols: picture.keys.length });
    if (other) {
      this.waiting = undefined;
      this.cursor = null;
    }
    const answer = textOf(picture.painted);
    if (this.waiting === answer) this.waiting = undefined;
    // a stroke under way, or on its way to Python, is not undone by an older answer
    if (this.waiting === undefined && !this.stroke) this.painted = new Map(picture.painted.map(([q, k, open]) => [`${q},${k}`, open]));
    this.heading.textContent = this.heading.title = picture.title;
    this.subheading.textContent = this.subheading.title = picture.subtitle;
    this.explain(picture);
    this.draw();
  }

  // What the colours mean; for a part or for blocks, also what is shown.
  explain({ fixed, block, size, first, queries, keys }) {
    const { legend, theme } = this, part = queries.length < size[0] || keys.length < size[1];
    const span = (from, n, all) => `${from} to ${from + n - 1} of ${all}`;
    legend.replaceChildren();
    if (block > 1) {
      legend.textContent = `Each cell is ${block} × ${block}: tinted where any of them is allowed, hatched where none is. Click ${
        fixed ? "for" : "to see and paint"
      } each of them.`;
      return;
    }
    if (part) {
      put(legend, "span", "quiet", `Queries ${span(first[0], queries.length, size[0])}, keys ${span(first[1], keys.length, size[1])}. `);
    }
    const key = (name, colours, meaning) => {
      Object.assign(put(legend, "span", `swatch ${name}`).style, colours);
      put(legend, "span", "", meaning);
    };
    key("open", { background: css(theme.ramp[tintOf(theme)]) }, "allowed (0)");
    const line = css(theme.hatch);
    key("closed", { background: `repeating-linear-gradient(135deg, ${line} 0 1px, transparent 1px 4px)` }, "blocked (−∞)");
    key("framed", { borderColor: css(signedRamp(theme).colours[0]) }, fixed ? "painted" : "changed");
  }

  // A cell by its positions in the whole text, as painted cells are stored.
  name(q, k) {
    const [row, column] = this.picture.first;
    return `${q + row},${k + column}`;
  }

  paintAt(q, k) {
    return this.picture.block > 1 ? undefined : this.painted.get(this.name(q, k));
  }

  open(q, k) {
    return this.paintAt(q, k) ?? !this.picture.arrays.base[q * this.cols + k];
  }

  draw() {
    const { rows, cols, picture, theme } = this;
    const codes = Uint8Array.from({ length: rows * cols }, (_, i) => (this.open(Math.floor(i / cols), i % cols) ? 1 : 0));
    const { queries, keys, block, queryAxis, keyAxis } = picture;
    this.board.show({
      name: `${picture.title}. Arrow keys move${picture.fixed ? "" : ", Space forbids or allows a cell"}.`,
      value: (q, k) => (codes[q * cols + k] ? "allowed" : "blocked"),
      codes,
      packed: maskColours(theme),
      rows,
      cols,
      queries,
      keys,
      block,
      queryAxis,
      keyAxis,
      text: (i) => (codes[i] ? "0" : "−∞"),
      ink: (i) => (codes[i] ? theme.on(tintOf(theme)) : theme.text),
    }, theme);
    this.board.cells.style.cursor = picture.fixed ? "crosshair" : "";
    this.mark(this.spot);
  }

  mark(spot) {
    this.spot = spot;
    const colour = css(signedRamp(this.theme).colours[0]);
    const { first, block } = this.picture, place = (i, axis) => Math.floor((i - first[axis]) / block);
    const framed = [...this.painted.keys()].map((name) => name.split(",").map(Number).map(place));
    this.board.mark(spot, framed.filter((cell) => cell.every((i) => i >= 0)).map((cell) => [...cell, colour]));
  }

  set(q, k, open) {
    const name = this.name(q, k), base = !this.picture.arrays.base[q * this.cols + k];
    if (open === base) this.painted.delete(name);
    else this.painted.set(name, open ? 1 : 0);
  }

  down(spot, event) {
    if (!spot || event.button > 0) return;
    if (this.picture.block > 1) return void this.on.enlarge(spot);
    if (this.picture.fixed) return;
    this.board.cells.setPointerCapture?.(event.pointerId);
    this.stroke = { before: new Map(this.painted) };
    if (spot.query === undefined || spot.key === undefined) return this.line(spot);
    Object.assign(this.stroke, { open: !this.open(spot.query, spot.key), last: spot });
    this.set(spot.query, spot.key, this.stroke.open);
    this.draw();
  }

  // All cells between the last one and this: a fast pointer skips some.
  move(spot) {
    if (!this.stroke?.last || spot?.query === undefined || spot?.key === undefined) return;
    const { last } = this.stroke, steps = Math.max(Math.abs(spot.query - last.query), Math.abs(spot.key - last.key));
    if (!steps) return;
    for (let i = 1; i <= steps; i++) {
      const between = (a, b) => Math.round(a + ((b - a) * i) / steps);
      this.set(between(last.query, spot.query), between(last.key, spot.key), this.stroke.open);
    }
    this.stroke.last = spot;
    this.draw();
  }

  up() {
    if (!this.stroke) return;
    this.stroke = null;
    this.tell();
  }

  // The finger was there to scroll.
  cancel() {
    if (!this.stroke) return;
    this.painted = this.stroke.before;
    this.stroke = null;
    this.draw();
  }

  // A click on a token: its whole row or column is forbidden, or, if it already is, as before.
  line(spot) {
    const cells = [];
    if (spot.query !== undefined) { for (let k = 0; k < this.cols; k++) cells.push([spot.query, k]); }
    else for (let q = 0; q < this.rows; q++) cells.push([q, spot.key]);
    const forbid = cells.some(([q, k]) => this.open(q, k));
    for (const [q, k] of cells) this.set(q, k, !forbid && !this.picture.arrays.base[q * this.cols + k]);
    this.draw();
  }

  // Moves the keyboard's cell by this many rows and columns; the first key puts it on the first cell.
  go(rows, columns) {
    const { cursor } = this, within = (v, n) => Math.min(n - 1, Math.max(0, v));
    this.cursor = cursor
      ? { query: within(cursor.query + rows, this.rows), key: within(cursor.key + columns, this.cols) }
      : { query: 0, key: 0 };
    this.on.hover(this.cursor);
  }

  toggle() {
    if (this.picture.block > 1) return void this.on.enlarge(this.cursor ?? { query: 0, key: 0 });
    if (this.picture.fixed) return;
    const { query, key } = (this.cursor ??= { query: 0, key: 0 });
    this.set(query, key, !this.open(query, key));
    this.draw();
    this.tell();
    this.on.hover(this.cursor);
  }

  tell() {
    const cells = [...this.painted].map(([name, open]) => [...name.split(",").map(Number), Number(open)]);
    this.waiting = textOf(cells);
    this.on.paint(this.picture.kind, cells);
  }

  // Sentences, one for each layer, that say why a cell is blocked.
  why(q, k) {
    const drawn = this.paintAt(q, k);
    if (drawn === 1) return ["allowed by hand, against the other layers"];
    const bits = this.picture.arrays.base[q * this.cols + k];
    const layers = this.picture.layers.filter((_, i) => bits & (1 << i));
    if (drawn === 0) layers.push(this.picture.drawn);
    return layers.map(({ name, reason }) => (reason ? `${name}: ${reason}` : name));
  }

  // The row of the query in both forms, and the cell in words; always the same height.
  read(spot) {
    const { queries, keys, block } = this.picture, q = spot?.query, some = block > 1;
    this.reading.replaceChildren();
    const say = (text, className) => put(this.reading, "span", className, text);
    this.table.replaceChildren();
    if (q === undefined) {
      return void say(
        `Point at a cell to see why it is allowed or blocked${
          some
            ? "; click to see each of its cells"
            : this.picture.fixed
            ? ""
            : ". Click or drag to change it (keys: arrows and Space). Click a token for its whole row or column"
        }.`,
        "quiet",
      );
    }
    if (spot.key !== undefined) {
      const reasons = this.why(q, spot.key), open = this.open(q, spot.key);
      say(queries[q][0], "token");
      say(open ? ` may attend to ${some ? "some of " : ""}` : ` may not attend to ${some ? "any of " : ""}`);
      say(keys[spot.key][0], "token");
      say(reasons.length ? ` (${reasons.join("; ")}).` : ".");
    } else {
      say("The row of ");
      say(queries[q][0], "token");
    }
    const row = (name, text) => {
      const line = put(this.table, "tr");
      put(line, "th", "", name);
      for (let k = 0; k < this.cols; k++) put(line, "td", k === spot.key ? "on" : "", text(k));
    };
    row("boolean", (k) => (this.open(q, k) ? "True" : "False"));
    row("additive", (k) => (this.open(q, k) ? "0" : "−∞"));
  }
}

const textOf = (cells) => cells.map((cell) => cell.join(",")).sort().join(" ");
