// The weights of one head as cells, query tokens down the side and key tokens along the top, both by their text.
const AXIS = { left: 104, top: 88, right: 44, bottom: 30 };
const LARGEST_CELL = 44;

class Heatmap {
  constructor(figure, on) {
    this.stage = figure.querySelector(".stage");
    this.cells = figure.querySelector(".cells");
    this.marks = figure.querySelector(".marks");
    this.note = figure.querySelector(".note");
    this.cells.onpointermove = (event) => on.hover(this.at(event), event);
    this.cells.onpointerleave = () => on.hover(null);
    this.cells.onclick = (event) => on.click(this.at(event));
  }

  measure() {
    Object.assign(this, { width: this.stage.clientWidth, height: this.stage.clientHeight });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { rows, cols } = picture;
    const roomX = this.width - AXIS.left - AXIS.right, roomY = this.height - AXIS.top - AXIS.bottom;
    const side = Math.min(LARGEST_CELL, roomX / cols, roomY / rows), least = Math.max(side, 18);
    this.wide = Math.min(least, roomX / cols);
    this.tall = Math.min(least, roomY / rows);
    const [context, ratio] = sized(this.cells, this.width, this.height);
    sized(this.marks, this.width, this.height);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.cells.width, this.cells.height);
    const across = (v) => Math.round(v * ratio);
    paintCodes(
      context, picture.codes, rows, cols, across(AXIS.left), across(AXIS.top),
      Math.max(1, across(cols * this.wide)), Math.max(1, across(rows * this.tall)), theme, Math.round(6 * ratio),
    );
    context.scale(ratio, ratio);
    this.rule(context);
    this.names(context);
    this.values(context);
    this.legend(context);
    const block = Math.ceil(1 / (Math.min(this.wide, this.tall) * ratio) - 1e-9);
    this.note.textContent = block > 1 ? `Each pixel = largest weight of ${block} × ${block} cells.` : "Point at a cell for its exact weight.";
  }

  rule(context) {
    const { rows, cols } = this.picture, { wide, tall } = this;
    context.strokeStyle = this.theme.line;
    context.lineWidth = 1;
    context.beginPath();
    const step = (n) => (Math.min(wide, tall) >= 7 ? 1 : n);
    for (let c = 0; c <= cols; c += step(cols)) lineTo(context, AXIS.left + c * wide, AXIS.top, 0, rows * tall);
    for (let r = 0; r <= rows; r += step(rows)) lineTo(context, AXIS.left, AXIS.top + r * tall, cols * wide, 0);
    context.stroke();
  }

  // Tokens on both axes, every n-th where there is no room for all, and what each axis is.
  names(context) {
    const { queries, keys, queryAxis, keyAxis } = this.picture, { wide, tall, theme } = this;
    nameTokens(context, queries, keys, { ...AXIS, wide, tall, theme });
    const measure = (text) => context.measureText(text).width;
    this.axes(context, measure, `${keyAxis} →`, `← ${queryAxis}`);
  }

  axes(context, measure, across, down) {
    context.font = `11px ${this.theme.font}`;
    context.fillStyle = this.theme.quiet;
    context.textAlign = "left";
    context.fillText(fit(across, this.width - 8, measure), 4, 8);
    context.save();
    context.translate(9, AXIS.top + Math.min(measure(down), this.height - AXIS.bottom - AXIS.top));
    context.rotate(-Math.PI / 2);
    context.fillText(fit(down, this.height - AXIS.bottom - AXIS.top, measure), 0, 0);
    context.restore();
  }

  values(context) {
    const { rows, cols, codes, weights } = this.picture, { wide, tall } = this;
    if (wide < 24 || tall < 14) return;
    context.font = `${wide < 30 ? 9 : 11}px ${this.theme.font}`;
    context.textAlign = "center";
    for (let i = 0; i < rows * cols; i++) {
      if (!codes[i] || weights[i] < 0.005) continue;
      context.fillStyle = this.theme.on(codes[i]);
      const [q, k] = [Math.floor(i / cols), i % cols];
      context.fillText(weights[i].toFixed(2), AXIS.left + (k + 0.5) * wide, AXIS.top + (q + 0.5) * tall);
    }
  }

  legend(context) {
    const { theme } = this, y = this.height - 18, x = AXIS.left;
    for (let i = 0; i < 110; i++) {
      const [r, g, b] = theme.ramp[1 + Math.round((i / 109) * 254)];
      context.fillStyle = `rgb(${r} ${g} ${b})`;
      context.fillRect(x + i, y, 1.5, 10);
    }
    context.strokeStyle = theme.line;
    context.strokeRect(x, y, 110, 10);
    context.font = `11px ${theme.font}`;
    context.fillStyle = theme.quiet;
    context.textAlign = "left";
    context.fillText("0", x - 10, y + 5);
    context.fillText("1  weight", x + 116, y + 5);
    if (!this.picture.codes.includes(0)) return;
    const ratio = window.devicePixelRatio || 1;
    paintCodes(context, [0], 1, 1, Math.round((x + 176) * ratio), Math.round(y * ratio), Math.round(12 * ratio), Math.round(10 * ratio), theme, Math.round(6 * ratio));
    context.fillText("masked", x + 193, y + 5);
  }

  // The cell or the token under the pointer: {query, key}, {query}, {key} or null.
  at(event) {
    const q = Math.floor((event.offsetY - AXIS.top) / this.tall), k = Math.floor((event.offsetX - AXIS.left) / this.wide);
    const row = q >= 0 && q < this.picture.rows, col = k >= 0 && k < this.picture.cols;
    if (row && col) return { query: q, key: k };
    if (row && event.offsetX < AXIS.left) return { query: q };
    if (col && event.offsetY < AXIS.top && event.offsetY > 16) return { key: k };
    return null;
  }

  focus(spot) {
    const { rows, cols } = this.picture, { wide, tall, theme } = this, ratio = window.devicePixelRatio || 1;
    const context = this.marks.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (!spot) return;
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    const [x, y] = [AXIS.left, AXIS.top];
    const bar = (k, q, w, h) => context.strokeRect(x + k * wide - 1, y + q * tall - 1, w * wide + 2, h * tall + 2);
    if (spot.query !== undefined && spot.key !== undefined) bar(spot.key, spot.query, 1, 1);
    else if (spot.query !== undefined) bar(0, spot.query, cols, 1);
    else bar(spot.key, 0, 1, rows);
  }
}

function lineTo(context, x, y, dx, dy) {
  context.moveTo(x, y);
  context.lineTo(x + dx, y + dy);
}
