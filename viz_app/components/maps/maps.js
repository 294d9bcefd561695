// Matrices over the same two rows of tokens, one beside the other, each with its scale; and, if there are any, bars beside
// the same rows. What is pointed at in one is outlined in all, with the exact values.
// As tall as the window allows below the controls (maps.css has the same height), so that nothing moves while one types.
const ROOM = { left: 76, top: 74, right: 24, bottom: 44 },
  CELL = { largest: 30, high: 26, tallest: 430, least: 190, onPhone: 240 },
  ABOVE = 520,
  SLANT = 0.96, // radians that the names of columns are turned by, where they have room
  KEY_WIDE = 96,
  LINE = 14, // px from one line of small print to the next
  FIRST = 1,
  LAST = 255;

class Maps {
  constructor(root) {
    this.root = root;
    this.place = root.querySelector(".pictures");
    this.tip = root.querySelector(".tip");
    offerCanvas(root.querySelector(".files"), () => sharply(() => this.redraw(), () => this.download()), () => [root, this.picture]);
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme, width: 0 });
    this.root.querySelector(".title").textContent = picture.title;
    this.tip.hidden = true;
    const parts = [...picture.maps, ...(picture.bars ? [picture.bars] : [])];
    const figures = children(this.place, parts.length, () => this.empty());
    this.views = parts.map((part, i) => this.figure(figures[i], part));
    this.layout();
    Object.assign(this.root.dataset, { rows: picture.rows.length });
    countPaint(this.root);
  }

  empty() {
    const figure = put(this.place, "figure"), caption = put(figure, "figcaption");
    put(caption, "b");
    put(caption, "span", "quiet");
    const stage = put(figure, "div", "stage");
    put(stage, "canvas", "cells");
    put(stage, "canvas", "marks").setAttribute("aria-hidden", "true");
    return figure;
  }

  figure(figure, part) {
    figure.querySelector("b").textContent = part.title;
    figure.querySelector("span").textContent = part.note;
    const cells = figure.querySelector(".cells"), view = { figure, part, cells, marks: figure.querySelector(".marks") };
    view.values = this.picture.arrays[part.array];
    const { rows, cols } = this.picture, columns = part.bars ? [part.says] : positions(cols);
    const value = (r, c) => view.values[r * columns.length + c];
    describe(cells, { name: `${part.title}. ${part.note}`, rows: positions(rows), columns, value });
    cells.onpointermove = (event) => this.hover(view, event);
    cells.onpointerleave = () => this.hover(null);
    return view;
  }

  layout() {
    const width = this.root.clientWidth;
    if (!this.picture || !width || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  redraw() {
    const { rows, cols } = this.picture, scale = (this.scale = scaleOf());
    this.top = Number(getComputedStyle(this.root).getPropertyValue("--attnscope-top")) || ROOM.top; // set in style.css for short names
    const wide = Math.floor(Math.min(...this.views.map((v) => v.figure.clientWidth)) / scale);
    const { font } = this.theme, longest = Math.max(...rows.map(([text]) => widthIn(`12.5px ${font}`)(text)));
    this.left = Math.max(ROOM.left, Math.min(longest + 13, 0.34 * wide)); // no longer name than what cells need
    this.side = Math.min(CELL.largest, (wide - this.left - ROOM.right) / cols.length);
    const says = this.views.map(({ part }) => wrapped(part.bars ? "" : part.says, wide, widthIn(`12px ${font}`)));
    this.bottom = ROOM.bottom + LINE * Math.max(0, ...says.map((lines) => lines.length - 1));
    this.views.forEach((view, i) => (view.says = says[i]));
    this.tall = Math.min(
      Math.max(this.side, CELL.high / scale),
      (isPhone() ? CELL.onPhone : Math.max(CELL.least, Math.min(CELL.tallest, innerHeight - ABOVE))) / scale / rows.length,
    );
    for (const view of this.views) this.paint(view, wide);
    Object.assign(this.root.dataset, { left: this.left, top: this.top, side: this.side, tall: this.tall });
  }

  paint(view, width) {
    const { picture, theme, side, tall, left } = this, { rows, cols } = picture;
    const height = this.top + rows.length * tall + this.bottom, [context, ratio] = sized(view.cells, width, height, this.scale);
    sized(view.marks, width, height, this.scale);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, view.cells.width, view.cells.height);
    context.scale(ratio, ratio);
    const measure = (text) => context.measureText(text).width;
    this.tokens(context, rows, tall, 1, (text, r) => {
      context.textAlign = "right";
      context.fillText(fit(text, left - 12, measure), left - 5, this.top + (r + 0.5) * tall);
    });
    if (view.part.bars) return this.bars(context, view, width);
    const isSlanted = side * Math.sin(SLANT) >= LEAST_LETTERS - 1;
    this.tokens(context, cols, isSlanted ? side * Math.sin(SLANT) : side, -1, (text, c) => {
      context.save();
      context.translate(left + (c + 0.5) * side + (isSlanted ? 2 : 0), this.top - 5);
      context.rotate(isSlanted ? -SLANT : -Math.PI / 2);
      context.textAlign = "left";
      context.fillText(fit(text, this.top - 10, measure), 0, 0);
      context.restore();
    });
    this.axes(context);
    const snap = (v) => Math.round(v * ratio) / ratio;
    for (let r = 0; r < rows.length; r++) {
      for (let c = 0; c < cols.length; c++) {
        const value = view.values[r * cols.length + c], x = snap(this.left + c * side), y = snap(this.top + r * tall);
        const w = snap(this.left + (c + 1) * side) - x, h = snap(this.top + (r + 1) * tall) - y;
        if (this.lacks(view, r * cols.length + c)) this.hatch(context, x, y, w, h);
        else {
          context.fillStyle = css(theme.ramp[this.code(view.part, value)]);
          context.fillRect(x, y, w, h);
        }
      }
    }
    context.strokeStyle = theme.line;
    context.strokeRect(this.left, this.top, cols.length * side, rows.length * tall);
    this.legend(context, view, this.top + rows.length * tall + 12, width);
  }

  // Whether a cell has no value, for the reason in `none`: one marked in the array `without`, or any 0 if there is no such array.
  lacks({ part, values }, cell) {
    return Boolean(part.none) && (part.without ? this.picture.arrays[part.without][cell] === 1 : values[cell] === 0);
  }

  code({ least, largest, scale }, value) {
    const share = SHARES[scale](value, least, largest);
    return FIRST + Math.round((LAST - FIRST) * Math.min(1, Math.max(0, share)));
  }

  // Every n-th name where lines of letters, `between` px wider than themselves, would touch.
  tokens(context, labels, pitch, between, write) {
    const { theme } = this, size = Math.max(12, Math.min(12.5, pitch * 0.8)), every = Math.ceil((size + between) / pitch);
    Object.assign(context, { font: `${size}px ${theme.font}`, fillStyle: theme.text, textBaseline: "middle" });
    labels.forEach(([text], i) => i % every || write(text, i));
  }

  // Beside the names of the columns, or above them if those are letters that they would cover.
  axes(context) {
    const { picture, theme } = this, width = (text) => context.measureText(text).width;
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet, textAlign: "left", textBaseline: "middle" });
    const says = [`${picture.rowAxis} ↓`, `${picture.colAxis} →`], over = (Math.max(...says.map(width)) - this.left) / this.side;
    const isAbove = over > 0 && picture.cols.slice(0, 1 + over).every(([text]) => width(text) <= LINE);
    says.forEach((text, i) => context.fillText(text, 0, this.top - (isAbove ? 20 : 8) - LINE * (1 - i)));
  }

  hatch(context, x, y, w, h) {
    context.strokeStyle = css(this.theme.hatch);
    context.lineWidth = 0.7;
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.beginPath();
    for (let s = Math.floor((x + y) / 6) * 6; s < x + y + w + h; s += 6) {
      context.moveTo(s - y, y);
      context.lineTo(s - y - h, y + h);
    }
    context.stroke();
    context.restore();
    context.lineWidth = 1;
  }

  // Narrow enough to leave room for the number at its end.
  legend(context, { part, says }, y, width) {
    const { theme } = this, x = this.left, end = brief(part.largest);
    const wide = Math.floor(Math.min(KEY_WIDE, width - x - widthIn(`12px ${theme.font}`)(end) - 5));
    for (let i = 0; i < wide; i++) {
      context.fillStyle = css(theme.ramp[FIRST + Math.round(((LAST - FIRST) * i) / (wide - 1))]);
      context.fillRect(x + i, y, 1.2, 9);
    }
    context.strokeStyle = theme.line;
    context.strokeRect(x, y, wide, 9);
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.text, textBaseline: "middle", textAlign: "right" });
    context.fillText(part.scale === "log" ? `≤ ${brief(part.least)}` : "0", x - 4, y + 5);
    context.textAlign = "left";
    context.fillText(end, x + wide + 4, y + 5);
    context.fillStyle = theme.quiet;
    says.forEach((line, i) => context.fillText(line, 0, y + 24 + LINE * i));
  }

  bars(context, { part, values }, width) {
    const { theme, tall } = this, room = width - this.left - ROOM.right - 30;
    Object.assign(context, { textBaseline: "middle", textAlign: "left" });
    values.forEach((value, r) => {
      const y = this.top + r * tall, long = (room * value) / part.largest;
      context.fillStyle = theme.accent;
      context.fillRect(this.left, y + 1, Math.max(0.5, long), Math.max(1, tall - 2));
      if (tall < 11) return;
      context.fillStyle = theme.text;
      context.font = `12px ${theme.font}`;
      context.fillText(brief(value), this.left + long + 4, y + tall / 2);
    });
    context.strokeStyle = theme.line;
    context.strokeRect(this.left, this.top, room, values.length * tall);
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet });
    const foot = this.top + values.length * tall + 17;
    context.fillText("0", this.left, foot);
    context.textAlign = "right";
    context.fillText(`${brief(part.largest)} ${part.says}`, this.left + room, foot);
  }

  spot({ part, cells }, event) {
    const { rows, cols } = this.picture, box = cells.getBoundingClientRect(), { scale } = this;
    const r = Math.floor(((event.clientY - box.top) / scale - this.top) / this.tall);
    const c = Math.floor(((event.clientX - box.left) / scale - this.left) / this.side);
    if (r < 0 || r >= rows.length || c < 0 || (!part.bars && c >= cols.length)) return null;
    return part.bars ? { r } : { r, c };
  }

  hover(view, event) {
    const spot = view && this.spot(view, event);
    for (const other of this.views) this.outline(other, spot);
    this.tip.hidden = !spot;
    if (!spot) return;
    const { rows, cols, rowAxis, colAxis } = this.picture, { r, c } = spot;
    this.tip.querySelector(".where").textContent = `${rowAxis}: ${named(rows[r], r)}${
      c === undefined ? "" : `, ${colAxis}: ${named(cols[c], c)}`
    }`;
    const table = this.tip.querySelector("table");
    table.replaceChildren();
    for (const other of this.views) {
      if (c === undefined && !other.part.bars) continue;
      const value = other.values[other.part.bars ? r : r * cols.length + c], line = put(table, "tr", other === view ? "on" : "");
      put(line, "td", "", other.part.title);
      put(line, "td", "", c !== undefined && this.lacks(other, r * cols.length + c) ? `0: ${other.part.none}` : exact(value));
      if (other === view) Object.assign(this.tip.dataset, { row: r, col: c ?? "", value: exact(value) });
    }
    placeTip(this.tip, this.root, event);
  }

  outline({ part, marks }, spot) {
    const context = marks.getContext("2d"), ratio = pixelRatio() * this.scale;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, marks.width, marks.height);
    if (!spot) return;
    context.strokeStyle = this.theme.text;
    const { side, tall } = this, wide = this.picture.cols.length * side;
    context.lineWidth = 0.6;
    context.strokeRect(this.left, this.top + spot.r * tall, wide, tall);
    if (part.bars || spot.c === undefined) return;
    context.strokeRect(this.left + spot.c * side, this.top, side, this.picture.rows.length * tall);
    context.lineWidth = 1.8;
    context.strokeRect(this.left + spot.c * side, this.top + spot.r * tall, side, tall);
  }

  // All pictures as one, as laid out on the page.
  download() {
    const [whole, context, box] = blankAs(this.place, this.theme);
    for (const { figure, cells, part } of this.views) {
      const at = figure.getBoundingClientRect(), stage = cells.getBoundingClientRect();
      context.fillStyle = this.theme.text;
      context.font = `600 14px ${this.theme.font}`;
      context.fillText(part.title, at.left - box.left, at.top - box.top + 2);
      context.font = `12px ${this.theme.font}`;
      wrapped(part.note, at.width - 6, widthIn(context.font)).forEach((line, i) =>
        context.fillText(line, at.left - box.left, at.top - box.top + 22 + 15 * i)
      );
      context.drawImage(cells, stage.left - box.left, stage.top - box.top, stage.width, stage.height);
    }
    saveCanvas(whole, this.picture.title, this.picture, this.theme);
  }
}

// How far up the colour map a value is, from 0 at white to 1 at the largest.
const SHARES = {
  linear: (value, least, largest) => value / largest,
  root: (value, least, largest) => Math.sqrt(value / largest),
  log: (value, least, largest) => Math.log(Math.max(value, least) / least) / Math.log(largest / least),
};

const brief = (
  value,
) => (value === 0 ? "0" : Math.abs(value) >= 0.01 && Math.abs(value) < 1000 ? String(Number(value.toPrecision(3))) : value.toExponential(1));
const named = ([text, note], i) => `${i + 1} ${text}${note ? ` (${note})` : ""}`;

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".maps");
  const view = (root.view ??= new Maps(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
