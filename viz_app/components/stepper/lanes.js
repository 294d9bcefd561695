// Both runs as rows of tokens at the same positions: training reads the given text, inference reads what it wrote.
const CELL = 21, HEAD = 19, TOP = 17 + HEAD;
const NARROW = 760, FINGER = 40; // px: a phone's window, a target for a finger
const DIFFERS = "#D55E00";

class Lanes {
  constructor(root, choose) {
    this.names = root.querySelector(".lane-names");
    this.scroll = root.querySelector(".lane-scroll");
    this.svg = this.scroll.querySelector("svg");
    this.legend = root.querySelector(".legend");
    this.choose = choose;
  }

  // The rows from top to bottom with their places, once for each picture.
  plan({ parallel, serial, free }) {
    const rows = [
      { key: "given", name: "given text", tokens: parallel.given, y: TOP },
      { key: "reads", name: "decoder reads", tokens: parallel.read, y: TOP + CELL + 10 },
      { key: "predicts", name: "model predicts", tokens: parallel.predicted, y: TOP + 2 * CELL + 19 },
    ];
    const second = rows[2].y + CELL + 7 + HEAD;
    rows.push({ key: "serial-reads", name: "decoder reads", tokens: serial.read, y: second, serial: true });
    rows.push({ key: "writes", name: "model writes", tokens: serial.written, y: second + CELL + 11, serial: true });
    if (free) rows.push({ key: "free", name: "unforced run", tokens: free.written, y: second + 2 * CELL + 16 });
    this.rows = rows;
    this.row = Object.fromEntries(rows.map((row) => [row.key, row]));
    this.height = rows.at(-1).y + CELL + 6;
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.plan(picture);
    this.done = css(theme.ramp[40]); // the background of computed cells
    const measure = widthIn(`13px ${theme.font}`);
    const longest = Math.max(...this.rows.flatMap((row) => row.tokens.map(([text]) => measure(text))));
    this.room = Math.max(window.innerWidth <= NARROW ? FINGER - 6 : 30, Math.min(96, longest + 14));
    this.scale = scaleOf();
    const free = this.scroll.clientWidth / this.scale - 6;
    this.pitch = Math.max(this.room + 6, Math.min(110, free / picture.steps));
    this.width = Math.max(free, picture.steps * this.pitch);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("width", this.width * this.scale);
    this.svg.setAttribute("height", this.height * this.scale);
    this.svg.style.cssText = `width:${this.width * this.scale}px;height:${this.height * this.scale}px`;
    this.write();
    this.explain();
    this.after();
    this.columns = this.bands().map(([y, height]) =>
      this.draw("rect", {
        class: "column",
        y,
        width: this.pitch - 2,
        height,
        rx: 5,
        fill: theme.accent,
        "fill-opacity": 0.1,
        stroke: theme.accent,
        "stroke-opacity": 0.6,
      })
    );
    this.numbers = Array.from({ length: picture.steps }, (_, i) => this.number(i));
    this.arrows();
    this.cells = Object.fromEntries(this.rows.map((row) => [row.key, row.tokens.map((label, i) => this.cell(row, label, i))]));
    this.pads();
    const columns = Array.from({ length: picture.steps }, (_, i) => `position ${i + 1}`);
    const names = this.rows.map(({ name, serial, key }) => `${serial ? "inference" : key === "free" ? "" : "training"} ${name}`.trim());
    const name = "Training reads the given text, shifted right; inference writes one token at a time";
    describe(this.svg, { name, rows: names, columns, value: (r, c) => this.rows[r].tokens[c]?.[0] ?? "" });
  }

  write() {
    this.names.replaceChildren();
    this.names.style.height = `${this.height * this.scale}px`;
    const at = (y, className, text) => (put(this.names, "div", className, text).style.top = `${y * this.scale}px`);
    at(2, "head", "position");
    this.titles = [TOP, this.row["serial-reads"].y].map((y) => {
      const title = put(this.names, "div", "title");
      title.style.top = `${(y - HEAD) * this.scale}px`;
      return title;
    });
    for (const row of this.rows) at(row.y + 3, `name${row.serial ? " serial" : ""}`, row.name);
  }

  draw(tag, attributes, text, parent = this.svg) {
    return putSvg(parent, tag, attributes, text);
  }

  x(i) {
    return i * this.pitch;
  }

  // Where the rows of each run are, [y, height]: a column's mark leaves out the captions between them.
  bands() {
    const from = this.row["serial-reads"].y - 4, last = this.row.predicts.y + CELL + 3;
    return [[TOP - 4, last - TOP + 4], [from, this.height - from - 1]];
  }

  // What each mark means; those of the first difference only once it has happened.
  explain() {
    const { legend, theme } = this, { free, diverges } = this.picture;
    legend.replaceChildren();
    const key = (name, text, style) => {
      const one = put(legend, "span", name);
      Object.assign(put(one, "i", "swatch").style, style);
      put(one, "span", "", text);
      return one;
    };
    key("done", "computed", { background: this.done });
    key("later", "not yet", { borderStyle: "dashed" });
    const differs = key("differs", "not the given token", { borderColor: DIFFERS, borderWidth: "2px" });
    if (free) differs.title = "In the unforced run: not the token written now";
    this.differenceKeys = diverges < 0 ? [] : [
      key("first", "first difference", { border: `1.6px dashed ${DIFFERS}` }),
      key("apart", "different texts read", {
        background: `color-mix(in srgb, ${DIFFERS} 22%, ${theme.background})`,
        borderColor: "transparent",
      }),
    ];
  }

  number(i) {
    return this.draw(
      "text",
      { x: this.x(i) + this.pitch / 2, y: 14, "text-anchor": "middle", "font-size": 12, fill: this.theme.quiet },
      String(i + 1),
    );
  }

  // The background of the rows after the first difference, where the two runs read different texts; it is visible once inference
  // has reached it.
  after() {
    const { diverges, steps } = this.picture;
    this.first = [];
    this.apart = [];
    if (diverges < 0) return;
    const x = this.x(diverges + 1);
    for (const [y, height] of this.bands()) {
      if (diverges + 1 < steps) {
        this.apart.push(this.draw("rect", { class: "apart", x, y, width: this.x(steps) - x, height, fill: DIFFERS, "fill-opacity": 0.09 }));
      }
      this.first.push(this.draw("rect", {
        class: "first",
        x: this.x(diverges) + 1,
        y,
        width: this.pitch - 2,
        height,
        fill: "none",
        stroke: DIFFERS,
        "stroke-width": 1.6,
        "stroke-dasharray": "5 3",
        rx: 5,
      }));
    }
  }

  // Shifted right: what the decoder reads comes from the given text in training, from the model's own output in inference.
  arrows() {
    const { parallel, serial } = this.picture, { given, reads, predicts, writes } = this.row;
    const from = this.row["serial-reads"], middle = this.pitch / 2, half = this.room / 2;
    for (let i = 0; i + 1 < parallel.n; i++) this.arrow(this.x(i) + middle + 4, given.y + CELL, this.x(i + 1) + middle - 6, reads.y - 1);
    for (let i = 0; i < parallel.n; i++) this.arrow(this.x(i) + middle, reads.y + CELL, this.x(i) + middle, predicts.y - 1, 0.45);
    this.down = serial.taken.map((_, i) => this.arrow(this.x(i) + middle, from.y + CELL, this.x(i) + middle, writes.y - 1, 0.45));
    this.back = serial.taken.slice(1).map((_, i) =>
      this.arrow(this.x(i) + middle + Math.min(half, 14), writes.y - 1, this.x(i + 1) + middle - Math.min(half, 12), from.y + CELL + 1)
    );
  }

  arrow(x1, y1, x2, y2, strength = 0.85) {
    const group = this.draw("g", { stroke: this.theme.quiet, fill: "none", "stroke-width": 1.3, opacity: strength });
    this.draw("path", { d: `M${x1} ${y1}L${x2} ${y2}` }, undefined, group);
    const turn = Math.atan2(y2 - y1, x2 - x1),
      side = (a) => `${(x2 - 5 * Math.cos(turn + a)).toFixed(1)} ${(y2 - 5 * Math.sin(turn + a)).toFixed(1)}`;
    this.draw("path", { d: `M${side(0.5)}L${x2} ${y2}L${side(-0.5)}` }, undefined, group);
    return group;
  }

  cell(row, label, i) {
    const { theme } = this, group = this.draw("g", { "data-row": row.key, "data-position": i });
    const x = this.x(i) + (this.pitch - this.room) / 2;
    const box = this.draw(
      "rect",
      { x, y: row.y, width: this.room, height: CELL, rx: 4, fill: theme.background, stroke: theme.line },
      undefined,
      group,
    );
    const text = this.draw(
      "text",
      {
        x: x + this.room / 2,
        y: row.y + CELL / 2 + 1,
        "text-anchor": "middle",
        "dominant-baseline": "middle",
        "font-size": 13,
        fill: label[2] ? theme.quiet : theme.text,
        style: "unicode-bidi: plaintext",
      },
      fit(label[0], this.room - 8, widthIn(`13px ${theme.font}`)),
      group,
    );
    if (this.differs(row.key, i)) Object.entries({ stroke: DIFFERS, "stroke-width": 1.8 }).forEach((pair) => box.setAttribute(...pair));
    if (row.key === "predicts") box.setAttribute("fill", this.done);
    if (row.key === "free") group.setAttribute("opacity", 0.75);
    if (row.key === "writes" && this.picture.forced.includes(i)) {
      this.draw("circle", { cx: x + this.room - 1, cy: row.y + 2, r: 4, fill: DIFFERS }, undefined, group);
      text.setAttribute("font-weight", 700);
    }
    return { group, box, text };
  }

  // Whether this token is not the one the given text has here (for the unforced run: not the one written now).
  differs(key, i) {
    const { parallel, serial, free } = this.picture;
    if (key === "predicts") return parallel.best[i] !== parallel.taken[i];
    if (key === "writes") return serial.taken[i] !== parallel.taken[i];
    if (key === "free") return free.taken[i] !== serial.taken[i];
    return false;
  }

  pads() {
    for (let i = 0; i < this.picture.steps; i++) {
      const pad = this.draw("rect", {
        x: this.x(i),
        y: 0,
        width: this.pitch,
        height: this.height,
        fill: "transparent",
        style: "cursor: pointer",
        class: "pad",
      });
      this.draw("title", {}, this.hover(i), pad);
      pad.onclick = () => this.choose(i);
    }
  }

  hover(i) {
    const line = this.rows.filter((row) => row.tokens[i]).map((row) => `${row.name}: ${row.tokens[i][0]}`);
    return [`position ${i + 1}`, ...line].join("\n");
  }

  // At step `step` inference has written nothing beyond it; training has everything from the start.
  at(step) {
    const { theme } = this, show = (element, on) => element.setAttribute("visibility", on ? "visible" : "hidden");
    this.columns.forEach((column) => column.setAttribute("x", this.x(step) + 1));
    this.numbers.forEach((number, i) => number.setAttribute("font-weight", i === step ? 700 : 400));
    const haveDiverged = this.picture.diverges >= 0 && step >= this.picture.diverges;
    [...this.first, ...this.apart].forEach((mark) => show(mark, haveDiverged));
    this.differenceKeys.forEach((key) => (key.style.visibility = haveDiverged ? "visible" : "hidden"));
    this.entitle(step);
    if (this.picture.family === "recurrent") this.predicted(step);
    for (const key of ["serial-reads", "writes"]) {
      this.cells[key].forEach(({ box, text, group }, i) => {
        show(text, i <= step);
        if (i <= step) box.removeAttribute("stroke-dasharray");
        else box.setAttribute("stroke-dasharray", "3 3");
        box.setAttribute("fill", i > step ? "transparent" : key !== "writes" ? theme.background : i === step ? theme.accent : this.done);
        if (key === "writes") text.setAttribute("fill", i === step ? theme.background : theme.text);
        group.setAttribute("opacity", i <= step ? 1 : 0.55);
        group.dataset.shown = i <= step;
        const differs = i <= step && this.differs(key, i);
        box.setAttribute("stroke", differs ? DIFFERS : theme.line);
      });
    }
    this.down.forEach((arrow, i) => show(arrow, i <= step));
    this.back.forEach((arrow, i) => show(arrow, i < step));
    this.follow(step);
  }

  // An RNN has computed only up to this step in training too, although all of its text is given.
  predicted(step) {
    this.cells.predicts.forEach(({ box, text, group }, i) => {
      text.setAttribute("visibility", i <= step ? "visible" : "hidden");
      box.setAttribute("stroke-dasharray", i <= step ? "none" : "3 3");
      box.setAttribute("fill", i <= step ? this.done : "transparent");
      const differs = i <= step && this.differs("predicts", i);
      box.setAttribute("stroke", differs ? DIFFERS : this.theme.line);
      group.setAttribute("opacity", i <= step ? 1 : 0.55);
      group.dataset.shown = i <= step;
    });
  }

  entitle(step) {
    const { parallel, serial, how, ownText } = this.picture, [training, inference] = this.titles;
    const pass = Math.min(step + 1, serial.n);
    const fill = (title, tag, rest) => (title.replaceChildren(), put(title, "b", "tag", tag), put(title, "span", "", rest));
    const roomy = this.scroll.clientWidth > 520;
    fill(
      training,
      "Training",
      `${WORDING[this.picture.family].trainingTitle(parallel.n)}${
        roomy
          ? `. ${
            ownText
              ? `${
                this.picture.prompt.length ? `Nothing is typed under “${this.picture.box}”` : "No text is typed"
              }: the given text is ${ownText}.`
              : "The given text is the one that was typed."
          }`
          : ""
      }`,
    );
    fill(
      inference,
      "Inference",
      `sequential (${how}), pass ${pass} of ${serial.n}${roomy ? ": each output becomes the next input" : ""}`,
    );
    inference.classList.add("serial");
  }

  // Keeps the column visible without moving the page.
  follow(step) {
    const left = this.x(step) * this.scale, pitch = this.pitch * this.scale, room = this.scroll.clientWidth;
    if (left < this.scroll.scrollLeft + pitch) this.scroll.scrollLeft = Math.max(0, left - pitch);
    else if (left + 2 * pitch > this.scroll.scrollLeft + room) this.scroll.scrollLeft = left + 2 * pitch - room;
  }
}
