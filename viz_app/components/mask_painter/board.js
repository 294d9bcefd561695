// One matrix of cells with its tokens: queries down the side, keys along the top.
// px: a cell at most, one that has room for a number, one that a finger hits, a window where it has to
const LARGEST = 40, NUMBER = 30, FINGER = 40, PHONE = 700;

class Board {
  // on: {hover(spot, event), down(spot, event), move(spot, event), up(), cancel()}; each may be missing. On a `touched` board
  // every cell is as large as a finger on a phone, and what does not fit is scrolled to.
  constructor(parent, className, on, touched = false) {
    this.touched = touched;
    this.stage = put(parent, "div", `stage ${className}`);
    this.cells = put(this.stage, "canvas", "cells");
    this.marks = put(this.stage, "canvas", "marks");
    this.marks.setAttribute("aria-hidden", "true");
    this.cells.onpointerdown = (event) => on.down?.(this.at(event), event);
    this.cells.onpointermove = (event) => {
      on.hover?.(this.at(event), event);
      on.move?.(this.at(event), event);
    };
    this.cells.onpointerleave = () => on.hover?.(null);
    this.cells.onpointerup = () => on.up?.();
    this.cells.onpointercancel = () => on.cancel?.();
  }

  // picture: {name, value(q, k), codes (0 = hatched, 1 … 255), packed colours, rows, cols, queries, keys, block, queryAxis, keyAxis, text(i), ink(i)}; boards with
  // the same `room`, {queries, keys}, have their cells in the same place
  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.scale = scaleOf();
    this.stage.style.width = this.stage.style.height = "";
    this.width = this.stage.clientWidth / this.scale;
    this.height = this.stage.clientHeight / this.scale;
    this.place(widthIn(`12px ${theme.font}`));
    const [context, ratio] = sized(this.cells, this.width, this.height, this.scale);
    sized(this.marks, this.width, this.height, this.scale);
    this.ratio = ratio;
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.cells.width, this.cells.height);
    context.scale(ratio, ratio);
    this.paint(context, ratio);
    this.rule(context);
    this.names(context);
    this.values(context);
    this.axes(context);
    const { name, value, queries, keys } = picture;
    describe(this.cells, { name, rows: positions(queries), columns: positions(keys), value });
  }

  // Where the cells go: what the longest tokens leave free, square if that leaves room to read.
  place(measure) {
    const { rows, cols, block, room = this.picture } = this.picture,
      { queries, keys } = room,
      blocks = block > 1,
      longest = (labels) => Math.max(...labels.map((label) => measure(label[0])));
    this.left = Math.min(18 + longest(queries), this.width * 0.36) + 6;
    const slanted = Math.min(30, longest(keys) * 0.6); // px that the last name leans over the cells
    this.steep = blocks || Math.min(NUMBER, (this.width - this.left - slanted) / cols) * Math.SQRT1_2 < LEAST_LETTERS;
    const turned = this.steep ? 1.05 : 0.72, right = this.steep ? 8 : slanted, roomX = this.width - this.left - right; // as nameTokens turns them
    const most = this.height * (blocks ? 0.4 : 0.3), bracketed = 26 + measure("[padding]") * turned;
    this.top = Math.min(24 + longest(keys) * turned, blocks ? most : Math.max(most, bracketed));
    const roomY = this.height - this.top - 4, side = Math.min(LARGEST, roomX / cols, roomY / rows);
    this.wide = Math.min(Math.max(side, NUMBER), roomX / cols);
    this.tall = Math.min(Math.max(side, 20), roomY / rows);
    this.left = Math.max(this.left, Math.min(24 + longest(queries), this.width - right - cols * this.wide)); // names have what cells leave free
    if (this.touched && !blocks && window.innerWidth <= PHONE) this.grow(this.left + cols * FINGER + right, this.top + rows * FINGER + 4);
  }

  grow(width, height) {
    this.wide = this.tall = FINGER;
    this.width = Math.max(this.width, width);
    this.height = Math.max(this.height, height);
    Object.assign(this.stage.style, { width: `${this.width * this.scale}px`, height: `${this.height * this.scale}px` });
  }

  paint(context, ratio) {
    const { codes, packed, rows, cols } = this.picture, across = (v) => Math.round(v * ratio);
    const colours = { ...this.theme, packed };
    paintCodes(
      context,
      codes,
      rows,
      cols,
      across(this.left),
      across(this.top),
      Math.max(1, across(cols * this.wide)),
      Math.max(1, across(rows * this.tall)),
      colours,
      Math.round(6 * ratio),
    );
  }

  rule(context) {
    const { rows, cols } = this.picture, { wide, tall, left, top } = this, fine = Math.min(wide, tall) >= 6;
    context.strokeStyle = this.theme.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let c = 0; c <= cols; c += fine ? 1 : cols) {
      context.moveTo(left + c * wide, top);
      context.lineTo(left + c * wide, top + rows * tall);
    }
    for (let r = 0; r <= rows; r += fine ? 1 : rows) {
      context.moveTo(left, top + r * tall);
      context.lineTo(left + cols * wide, top + r * tall);
    }
    context.stroke();
  }

  names(context) {
    const { queries, keys } = this.picture, { wide, tall, left, top, theme, steep } = this;
    nameTokens(context, queries, keys, { left, top, wide, tall, theme, largest: 12, steep });
  }

  values(context) {
    const { rows, cols, text, ink } = this.picture, { wide, tall } = this;
    if (!text || tall < 14 || wide < 26) return;
    context.font = `12px ${this.theme.font}`;
    context.textAlign = "center";
    const labels = Array.from({ length: rows * cols }, (_, i) => text(i));
    if (labels.some((label) => context.measureText(label).width > wide - 2)) return;
    for (const [i, label] of labels.entries()) {
      if (!label) continue;
      context.fillStyle = ink(i);
      context.fillText(label, this.left + ((i % cols) + 0.5) * wide, this.top + (Math.floor(i / cols) + 0.5) * tall + 0.5);
    }
  }

  axes(context) {
    const { queryAxis, keyAxis } = this.picture, measure = (text) => context.measureText(text).width;
    context.font = `12px ${this.theme.font}`;
    context.fillStyle = this.theme.quiet;
    context.textAlign = "left";
    context.fillText(fitAxis(keyAxis, (name) => `${name} →`, this.width - 4, measure), 2, 7);
    const down = fitAxis(queryAxis, (name) => `← ${name}`, this.height - this.top - 6, measure);
    context.save();
    context.translate(8, this.top + measure(down));
    context.rotate(-Math.PI / 2);
    context.fillText(down, 0, 0);
    context.restore();
  }

  // The cell or token under the pointer: {query, key}, {query}, {key} or null.
  at(event) {
    if (!this.picture) return null;
    const [x, y] = [event.offsetX, event.offsetY].map((length) => length / this.scale);
    const q = Math.floor((y - this.top) / this.tall), k = Math.floor((x - this.left) / this.wide);
    const row = q >= 0 && q < this.picture.rows, col = k >= 0 && k < this.picture.cols;
    if (row && col) return { query: q, key: k };
    if (row && x < this.left) return { query: q };
    if (col && y < this.top && y > 14) return { key: k };
    return null;
  }

  // Frames a cell, row or column; `pinned` are [query, key, colour] of cells that keep a frame of their own.
  mark(spot, pinned = []) {
    if (!this.picture) return;
    const { rows, cols } = this.picture, { wide, tall, left, top, ratio } = this;
    const context = this.marks.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.lineWidth = Math.min(2, wide / 4, tall / 4);
    const inset = context.lineWidth / 2 + 0.5;
    for (const [q, k, colour] of pinned) {
      if (q >= rows || k >= cols) continue;
      context.strokeStyle = colour;
      context.strokeRect(left + k * wide + inset, top + q * tall + inset, wide - 2 * inset, tall - 2 * inset);
    }
    if (!spot) return;
    context.strokeStyle = this.theme.text;
    context.lineWidth = 2;
    const frame = (k, q, w, h) => context.strokeRect(left + k * wide - 1, top + q * tall - 1, w * wide + 2, h * tall + 2);
    if (spot.query !== undefined && spot.key !== undefined) frame(spot.key, spot.query, 1, 1);
    else if (spot.query !== undefined) frame(0, spot.query, cols, 1);
    else frame(spot.key, 0, 1, rows);
  }
}
