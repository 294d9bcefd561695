// The same head as matrix products. A dimension has the same length everywhere, so that inner sides meet; the row and
// the column convention are the same numbers, transposed. Pointing at a product outlines the row and column it comes from.
// Where a dimension counts tokens its length is the same however many there are: nothing moves while one types.
// In a low window, on a phone, and with larger letters, all are shorter, so that as many products as possible are visible; the rest scrolls below the title.
const SHORTEST = 30, LOW = 900;
const SIZES = {
  tall: { longest: { small: 110, large: 210 }, unit: { small: 6, large: 12 }, tokens: { small: 84, large: 168 } },
  presented: { longest: { small: 92, large: 160 }, unit: { small: 6, large: 11 }, tokens: { small: 66, large: 128 } },
  low: { longest: { small: 66, large: 80 }, unit: { small: 6, large: 8 }, tokens: { small: 48, large: 70 } },
};

class Matrices {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.place = root.querySelector(".equations");
    offerCanvas(root.querySelector(".files"), () => sharply(() => this.repaint(), () => this.download()), () => [root, this.picture]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const heading = this.root.querySelector(".title");
    heading.textContent = heading.title = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    this.tip.hidden = true;
    this.place.replaceChildren();
    this.figures = [];
    this.pooled = false;
    const scores = picture.equations.findIndex(({ size }) => size === "large"), before = put(this.place, "div", "before swiped");
    picture.equations.forEach((equation, i) => this.equation(i < scores ? before : this.place, equation));
    this.hold();
    this.root.querySelector(".note").textContent = `${picture.part ? `${picture.part} ` : ""}` +
      "Blue is above 0, orange below. Weights go from the page's colour (0) to blue (1); hatched = blocked. Point at a number to see what it is computed from. " +
      `Click in the scores or in Â to choose that weight, or use the tokens above.${
        this.pooled ? " Where there are more numbers than pixels, a pixel shows the one furthest from 0." : ""
      }`;
    const { site, head, convention, first } = picture, query = picture.query + first[0], key = picture.key + first[1];
    Object.assign(this.root.dataset, { site, head, query, key, convention });
    countPaint(this.root);
  }

  equation(place, { title, formula, terms, size }) {
    const block = put(place, "div", "equation"), line = put(block, "p", "", title);
    setFormula(put(line, "span", "formula"), formula);
    const row = put(block, "div", "terms"), drawn = [];
    for (const term of terms) {
      if (typeof term === "string") put(row, "span", "sign", term);
      else drawn.push(this.matrix(row, this.picture.matrices[term.matrix], term, size));
    }
    if (drawn.length === 3) drawn[2].from = drawn.slice(0, 2);
    if (drawn.length === 2) drawn[1].same = drawn[0];
  }

  matrix(parent, matrix, term, size) {
    const turned = this.picture.convention === "columns", flip = turned !== Boolean(term.transposed);
    const [rows, cols] = flip ? [matrix.shape[1], matrix.shape[0]] : matrix.shape;
    const figure = put(parent, "figure", matrix.pick ? "pick" : ""), caption = put(figure, "figcaption", "quiet");
    setFormula(caption, `${term.name} `);
    caption.append(`${rows} × ${cols}`);
    const cells = put(figure, "div", "cells"), canvas = put(cells, "canvas");
    const view = { matrix, flip, rows, cols, cells, canvas, name: term.name, figure };
    const [down, across] = flip ? [...matrix.axes].reverse() : matrix.axes;
    const { longest, unit, tokens } = innerHeight < LOW || isPhone() ? SIZES.low : scaleOf() > 1 ? SIZES.presented : SIZES.tall;
    const length = (n, axis) => (this.picture.tokens[axis] ? tokens[size] : Math.max(SHORTEST, Math.min(longest[size], n * unit[size])));
    const [wide, tall] = [length(cols, across), length(rows, down)], [context, ratio] = sized(canvas, wide, tall);
    Object.assign(view, { wide, tall });
    this.paint(context, view);
    this.pooled ||= rows > view.tall * ratio || cols > view.wide * ratio;
    const names = (
      n,
      axis,
    ) => (this.picture.tokens[axis] ? positions(this.picture.tokens[axis]) : Array.from({ length: n }, (_, i) => `${axis} ${i + 1}`));
    const { arrays } = this.picture,
      value = (r, c) => {
        const i = this.index(view, r, c);
        return matrix.masked && arrays.blocked[i] ? "masked" : arrays[matrix.array][i];
      };
    const name = `${matrix.says}, ${rows} rows, ${cols} columns`;
    describe(canvas, { name, rows: names(rows, down), columns: names(cols, across), value });
    canvas.onpointermove = (event) => this.hover(view, this.at(view, event), event);
    canvas.onpointerleave = () => this.hover(null);
    if (matrix.pick) canvas.onclick = (event) => this.choose(view, this.at(view, event));
    this.figures.push(view);
    return view;
  }

  repaint() {
    for (const view of this.figures) this.paint(sized(view.canvas, view.wide, view.tall)[0], view);
  }

  index({ matrix, flip }, row, col) {
    return flip ? col * matrix.shape[1] + row : row * matrix.shape[1] + col;
  }

  paint(context, view) {
    const { canvas, rows, cols, matrix } = view, { theme } = this, values = this.picture.arrays[matrix.array];
    const blocked = matrix.masked ? this.picture.arrays.blocked : null, ramp = signedRamp(theme);
    const weights = (theme.packed ??= Uint32Array.from(theme.ramp, pack32)), hatch = pack32(theme.hatch), paper = pack32(theme.paper);
    const image = context.createImageData(canvas.width, canvas.height), out = new Uint32Array(image.data.buffer);
    const tops = spans(rows, canvas.height), lefts = spans(cols, canvas.width), period = Math.round(6 * pixelRatio());
    for (let y = 0; y < canvas.height; y++) {
      for (let x = 0; x < canvas.width; x++) {
        let best = 0, open = false;
        for (let r = tops[2 * y]; r < tops[2 * y + 1]; r++) {
          for (let c = lefts[2 * x]; c < lefts[2 * x + 1]; c++) {
            const i = this.index(view, r, c);
            if (blocked?.[i]) continue;
            open = true;
            if (Math.abs(values[i]) > Math.abs(best)) best = values[i];
          }
        }
        const shown = matrix.weights ? weights[weightCode(best)] : ramp.packed[signedCode(best, matrix.scale)];
        out[y * canvas.width + x] = open ? shown : (x + y) % period === 0 ? hatch : paper;
      }
    }
    context.putImageData(image, 0, 0);
    context.strokeStyle = theme.line;
    context.strokeRect(0.5, 0.5, canvas.width - 1, canvas.height - 1);
  }

  at(view, event) {
    const row = Math.min(view.rows - 1, Math.max(0, Math.floor((event.offsetY / view.tall) * view.rows)));
    return { row, col: Math.min(view.cols - 1, Math.max(0, Math.floor((event.offsetX / view.wide) * view.cols))) };
  }

  hover(view, spot, event) {
    for (const band of this.root.querySelectorAll(".band:not(.held)")) band.remove();
    this.tip.hidden = !view;
    if (!view) return;
    this.band(view, spot.row, spot.col, 1, 1);
    if (view.from) {
      this.band(view.from[0], spot.row, 0, 1, view.from[0].cols);
      this.band(view.from[1], 0, spot.col, view.from[1].rows, 1);
    }
    if (view.same) this.band(view.same, spot.row, spot.col, 1, 1);
    this.say(view, spot, event);
  }

  say(view, { row, col }, event) {
    const { tip, picture } = this, { matrix, flip } = view, i = this.index(view, row, col), value = picture.arrays[matrix.array][i];
    const [first, second] = flip ? [col, row] : [row, col], hidden = matrix.masked && picture.arrays.blocked[i];
    const masks = hidden ? picture.masks.filter((_, bit) => picture.arrays.blocked[i] & (1 << bit)) : [];
    const where = (axis, n) => (picture.tokens[axis] ? picture.tokens[axis][n][0] : `${axis} ${n + 1}`);
    tip.querySelector(".what").textContent = `${matrix.says}: ${where(matrix.axes[0], first)}, ${where(matrix.axes[1], second)}`;
    tip.querySelector(".value").textContent = plain(value);
    tip.querySelector(".why").textContent = masks.length ? `blocked by: ${masks.join(", ")}` : matrix.made ?? "";
    Object.assign(tip.dataset, { matrix: matrix.array, first, second, value: exact(value) });
    placeTip(tip, this.root, event);
  }

  band(view, row, col, rows, cols, held = false) {
    const band = put(view.cells, "div", `band${held ? " held" : ""}`), { wide, tall } = view;
    const w = (wide * cols) / view.cols, h = (tall * rows) / view.rows;
    band.style.left = `${(wide * col) / view.cols - 1}px`;
    band.style.top = `${(tall * row) / view.rows - 1}px`;
    band.style.width = `${Math.max(w, 3) + 2}px`;
    band.style.height = `${Math.max(h, 3) + 2}px`;
  }

  // The chosen weight, and the query's row or column, wherever they are.
  hold() {
    const { query, key } = this.picture;
    for (const view of this.figures) {
      if (!view.matrix.pick) continue;
      const [row, col] = view.flip ? [key, query] : [query, key];
      this.band(view, row, col, 1, 1, true);
    }
  }

  choose(view, { row, col }) {
    const [query, key] = view.flip ? [col, row] : [row, col];
    const [rows, columns] = this.picture.first;
    this.tell({ query: query + rows, key: key + columns });
  }

  keys() {
    const { theme, figures } = this, signed = figures.filter(({ matrix }) => !matrix.weights);
    const ends = new Map(signed.map(({ name, matrix }) => [name.replace(/[{}]/g, ""), brief(matrix.scale)]));
    const scales = `± the largest number of each: ${[...ends].map(([name, end]) => `${name} ${end}`).join(", ")}`;
    const weights = signed.length < figures.length ? [weightKey(theme, "weight; hatched = masked")] : [];
    return [...(signed.length ? [signedKey(theme, scales)] : []), ...weights];
  }

  // All equations as one picture, as laid out on the page, including what is scrolled out of view.
  download() {
    for (const scrolled of this.place.querySelectorAll(".terms, .before")) scrolled.scrollLeft = 0;
    const [whole, context, box] = blankAs(this.place, this.theme, this.place.querySelectorAll(".terms > *"));
    context.fillStyle = this.theme.text;
    for (const line of this.place.querySelectorAll(".equation > p, figcaption, .sign")) {
      const at = line.getBoundingClientRect();
      writeMarked(context, line, at.left - box.left, at.top - box.top + 2, this.theme.font);
    }
    for (const { canvas, wide, tall } of this.figures) {
      const at = canvas.getBoundingClientRect();
      context.drawImage(canvas, at.left - box.left, at.top - box.top, wide, tall);
    }
    saveCanvas(whole, this.picture.title, this.picture, this.theme, this.keys());
  }
}

// The text of an element as laid out on the page, with small sub- and superscripts; returns where it ends.
function writeMarked(context, element, x, y, font) {
  const size = parseFloat(getComputedStyle(element).fontSize);
  for (const part of element.childNodes) {
    if (part.nodeName === "SPAN") x = writeMarked(context, part, x + parseFloat(getComputedStyle(part).marginLeft), y, font);
    else {
      const drop = { SUB: 0.38, SUP: -0.12 }[part.nodeName]; // relative to the font size
      context.font = `${drop === undefined ? size : 0.72 * size}px ${font}`;
      context.fillText(part.textContent, x, y + size * (drop ?? 0));
      x += context.measureText(part.textContent).width;
    }
  }
  return x;
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".matrices");
  const view = (root.view ??= new Matrices(root));
  view.tell = (cell) => setTriggerValue("pick", cell);
  view.show(unpack(data), themeOf(root));
}
