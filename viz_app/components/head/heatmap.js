// The weights of one head as cells, query tokens down the side and key tokens along the top, both by their text. The cells grow
// to fill the space available.
const MARGIN = { side: 24, head: 22, edge: 8, foot: 30 }; // px around names and cells: the names of the axes, the scale
const LARGEST_CELL = 120, NAME = 13, LEAST_CELL = 24;
const WIDEST = 2, TALLEST = 2; // of a cell, times its other side

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
    const { clientWidth, clientHeight } = this.stage, scale = scaleOf();
    Object.assign(this, { scale, room: clientHeight, width: clientWidth / scale, height: clientHeight / scale });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.lay();
    const { rows, cols } = picture, { left, top } = this;
    const [context, ratio] = sized(this.cells, this.width, this.height, this.scale);
    sized(this.marks, this.width, this.height, this.scale);
    this.ratio = ratio;
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.cells.width, this.cells.height);
    const across = (v) => Math.round(v * ratio);
    paintCodes(
      context,
      picture.codes,
      rows,
      cols,
      across(left),
      across(top),
      Math.max(1, across(cols * this.wide)),
      Math.max(1, across(rows * this.tall)),
      theme,
      Math.round(6 * ratio),
    );
    context.scale(ratio, ratio);
    this.hide(context);
    this.rule(context);
    this.names(context);
    this.values(context);
    this.legend(context);
    const { title, queries, keys, first, weights, codes, hidden } = picture;
    const value = (q, k) => (hidden.has(k) ? "hidden" : codes[q * cols + k] ? weights[q * cols + k] : "masked");
    describe(this.cells, { name: title, rows: positions(queries, first[0]), columns: positions(keys, first[1]), value });
    this.explain(Math.ceil(1 / (Math.min(this.wide, this.tall) * ratio) - 1e-9));
  }

  // Where the cells are: `left` and `top` of the first, each `wide` × `tall`. The names get the room that they need, up to a third.
  lay() {
    const { rows, cols, queries, keys } = this.picture, measure = widthIn(`${NAME}px ${this.theme.font}`);
    const longest = (labels) => Math.max(...labels.map(([text]) => measure(text)));
    this.left = Math.round(MARGIN.side + Math.min(Math.max(36, longest(queries) + 8), this.width / 3));
    const widest = longest(keys), tilted = Math.min(widest, 110) * Math.SQRT1_2, last = measure(keys.at(-1)[0]) * Math.SQRT1_2;
    this.right = Math.round(Math.max(MARGIN.edge, Math.min(last, tilted) - 4));
    this.top = Math.round(MARGIN.head + tilted + 12);
    this.size(rows, cols);
    if (widest < this.wide - 4) {
      Object.assign(this, { right: MARGIN.edge, top: MARGIN.head + 18 }); // the names lie flat
      this.size(rows, cols);
    }
    this.stagger(longest);
  }

  // Where only every second row's name has room, the others are in a column of their own beside them.
  stagger(longest) {
    const { queries, rows, cols } = this.picture;
    this.aside = 0;
    if (Math.ceil((LEAST_LETTERS - 0.5) / this.tall) !== 2) return;
    const [inner, outer] = [0, 1].map((odd) => longest(queries.filter((_, q) => q % 2 === odd)));
    const left = Math.round(MARGIN.side + inner + outer + 14);
    if (left > this.width / 3) return;
    Object.assign(this, { left, aside: inner + 8 });
    this.size(rows, cols);
  }

  size(rows, cols) {
    const x = (this.width - this.left - this.right) / cols, y = (this.height - this.top - MARGIN.foot) / rows;
    this.wide = Math.min(x, LARGEST_CELL, Math.max(WIDEST * y, LEAST_CELL));
    this.tall = Math.min(y, LARGEST_CELL, Math.max(TALLEST * x, LEAST_CELL));
  }

  // What a cell covers, and where the weights that it does not show are.
  explain(pixels) {
    const { block, rows, cols, size, first, joins } = this.picture,
      pooled = pixels > 1 ? ` Each pixel = largest of ${pixels} × ${pixels} cells.` : "";
    if (block > 1) {
      this.note.textContent = `Each cell is the largest of ${block} × ${block} weights; the other ${
        block * block - 1
      } are hidden, and so are the tokens of the largest one. Click for the exact weights.${pooled}`;
    } else if (rows < size[0] || cols < size[1]) {
      const span = (from, n, all) => `${from} to ${from + n - 1} of ${all}`;
      this.note.textContent = `Exact weights: queries ${span(first[0], rows, size[0])}, keys ${span(first[1], cols, size[1])}.`;
    } else this.note.textContent = pooled.trim() || "Point at a cell for its exact weight.";
    if (joins) this.note.textContent = `${joins} ${this.note.textContent}`;
  }

  // Columns that are left out are neither a weight nor masked.
  hide(context) {
    const { rows, hidden } = this.picture;
    context.fillStyle = this.theme.line;
    for (const k of hidden) context.fillRect(this.left + k * this.wide, this.top, this.wide, rows * this.tall);
  }

  rule(context) {
    const { rows, cols } = this.picture, { wide, tall, left, top } = this;
    context.strokeStyle = this.theme.line;
    context.lineWidth = 1;
    context.beginPath();
    const step = (n) => (Math.min(wide, tall) >= 7 ? 1 : n);
    for (let c = 0; c <= cols; c += step(cols)) lineTo(context, left + c * wide, top, 0, rows * tall);
    for (let r = 0; r <= rows; r += step(rows)) lineTo(context, left, top + r * tall, cols * wide, 0);
    context.stroke();
  }

  // Tokens on both axes, every n-th where there is no room for all, and what each axis is.
  names(context) {
    const { queries, keys, queryAxis, keyAxis } = this.picture, { wide, tall, left, top, theme } = this;
    nameTokens(context, queries, keys, { left, top, wide, tall, theme, aside: this.aside });
    const measure = (text) => context.measureText(text).width;
    this.axes(context, measure, keyAxis, queryAxis);
  }

  axes(context, measure, keyAxis, queryAxis) {
    context.font = `12px ${this.theme.font}`;
    context.fillStyle = this.theme.quiet;
    context.textAlign = "left";
    context.fillText(fitAxis(keyAxis, (name) => `${name} →`, this.width - 8, measure), 4, 8);
    const down = fitAxis(queryAxis, (name) => `← ${name}`, this.height - MARGIN.foot - this.top, measure);
    context.save();
    context.translate(9, this.top + measure(down));
    context.rotate(-Math.PI / 2);
    context.fillText(down, 0, 0);
    context.restore();
  }

  // Exact numbers where they fit: without the leading 0 where it is narrow.
  values(context) {
    const { rows, cols, codes, weights, hidden } = this.picture, { wide, tall } = this;
    if (wide < 22 || tall < 14) return;
    const size = Math.max(12, Math.min(18, wide / 3.4, tall / 2)), digits = wide >= 52 ? 3 : 2;
    context.font = `${size}px ${this.theme.font}`;
    context.textAlign = "center";
    for (let i = 0; i < rows * cols; i++) {
      const [q, k] = [Math.floor(i / cols), i % cols];
      if (!codes[i] || weights[i] < 0.005 || hidden.has(k)) continue;
      context.fillStyle = this.theme.on(codes[i]);
      const text = weights[i].toFixed(digits);
      context.fillText(wide < 30 ? text.replace(/^0|\.00$/, "") : text, this.left + (k + 0.5) * wide, this.top + (q + 0.5) * tall);
    }
  }

  legend(context) {
    const { theme, picture, ratio } = this, y = this.height - 18, x = MARGIN.side;
    for (let i = 0; i < 110; i++) {
      const [r, g, b] = theme.ramp[weightCode(i / 109)];
      context.fillStyle = `rgb(${r} ${g} ${b})`;
      context.fillRect(x + i, y, 1.5, 10);
    }
    context.strokeStyle = theme.line;
    context.strokeRect(x, y, 110, 10);
    context.font = `12px ${theme.font}`;
    context.textAlign = "left";
    let end = x + 116;
    const write = (text, room) => {
      const shown = fit(text, room, (t) => context.measureText(t).width);
      context.fillStyle = theme.quiet;
      context.fillText(shown, end, y + 5);
      end += context.measureText(shown).width + 14;
    };
    context.fillStyle = theme.quiet;
    context.fillText("0", x - 10, y + 5);
    const masked = picture.codes.includes(0), swatches = 70 * (masked + (picture.hidden.size > 0));
    write(SCALES[picture.scale].says, this.width - end - swatches - 8);
    if (masked) {
      paintCodes(
        context,
        [0],
        1,
        1,
        Math.round(end * ratio),
        Math.round(y * ratio),
        Math.round(12 * ratio),
        Math.round(10 * ratio),
        theme,
        Math.round(6 * ratio),
      );
      end += 17;
      write("masked", 60);
    }
    if (!picture.hidden.size) return;
    context.fillStyle = theme.line;
    context.fillRect(end, y, 12, 10);
    end += 17;
    write("hidden", 60);
  }

  // The cell or the token under the pointer: {query, key}, {query}, {key} or null.
  at(event) {
    const [x, y] = [event.offsetX, event.offsetY].map((length) => length / this.scale);
    const q = Math.floor((y - this.top) / this.tall), k = Math.floor((x - this.left) / this.wide);
    const row = q >= 0 && q < this.picture.rows, col = k >= 0 && k < this.picture.cols;
    if (row && col) return { query: q, key: k };
    if (row && x < this.left) return { query: q };
    if (col && y < this.top && y > 16) return { key: k };
    return null;
  }

  focus(spot) {
    const { rows, cols } = this.picture, { wide, tall, theme, ratio } = this;
    const context = this.marks.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (!spot) return;
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    const [x, y] = [this.left, this.top];
    const bar = (k, q, w, h) => context.strokeRect(x + k * wide - 1, y + q * tall - 1, w * wide + 2, h * tall + 2);
    if (spot.query !== undefined && spot.key !== undefined) bar(spot.key, spot.query, 1, 1);
    else if (spot.query !== undefined) bar(0, spot.query, cols, 1);
    else bar(spot.key, 0, 1, rows);
    this.name(context, spot);
  }

  // The whole names of what is in focus, over those of their neighbours, where not every token could be named.
  name(context, { query, key }) {
    const { picture, theme, wide, tall, left, top } = this;
    Object.assign(context, { font: `600 12px ${theme.font}`, textBaseline: "middle" });
    const write = (text, x, y, align) => {
      const width = context.measureText(text).width,
        from = Math.max(2, Math.min(align === "right" ? x - width : x - width / 2, this.width - width - 2));
      Object.assign(context, { fillStyle: theme.background, textAlign: "left" });
      context.fillRect(from - 2, y - 8, width + 4, 16);
      context.fillStyle = theme.text;
      context.fillText(text, from, y);
    };
    if (query !== undefined && tall < NAME) write(picture.queries[query][0], left - 6, top + (query + 0.5) * tall, "right");
    if (key !== undefined && wide < NAME) write(picture.keys[key][0], left + (key + 0.5) * wide, top - 10, "center");
  }
}

function lineTo(context, x, y, dx, dy) {
  context.moveTo(x, y);
  context.lineTo(x + dx, y + dy);
}
