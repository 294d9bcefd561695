// Signed numbers as a matrix, such as states: the tokens down the left side, the numbers of a state along the bottom, or the
// names of the columns above it. The picture has one height for any text, so that nothing moves while someone types.
const ROOM = { left: 108, right: 10, top: 24, bottom: 62 },
  NAMED = { top: 62, bottom: 32 },
  HEIGHT = 420,
  LEAST = 190,
  TALLEST = 40,
  BAR = 120,
  TICK = 56; // px

class States extends Fitted {
  constructor(root) {
    super(root);
    this.canvas = root.querySelector(".cells");
    this.tip = root.querySelector(".tip");
    this.canvas.onpointermove = (event) => this.hover(event);
    this.canvas.onpointerleave = () => (this.tip.hidden = true);
    offerCanvas(
      root.querySelector(".files"),
      () => sharply(() => this.draw(this.width), () => saveCanvas(this.canvas, this.picture.title, this.picture, this.theme)),
      () => [root, this.picture],
    );
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.root.querySelector(".title").textContent = picture.title;
    const { title, rows, columns, arrays, names } = picture;
    const numbers = names ? positions(names) : Array.from({ length: columns }, (_, i) => `number ${i + 1}`);
    [this.top, this.bottom] = names ? [NAMED.top, NAMED.bottom] : [ROOM.top, ROOM.bottom];
    this.high = picture.above ? Math.max(LEAST, Math.min(HEIGHT, innerHeight - picture.above)) : HEIGHT;
    this.canvas.parentElement.style.height = `${this.high}px`;
    const places = picture.numbered ? rows.map(([text]) => text) : positions(rows);
    describe(this.canvas, { name: title, rows: places, columns: numbers, value: (r, c) => arrays.states[r * columns + c] });
    this.tip.hidden = true;
    this.fit();
    Object.assign(this.root.dataset, { rows: picture.rows.length });
    countPaint(this.root);
  }

  draw(whole) {
    const { picture, theme } = this, n = picture.rows.length, d = picture.columns, scale = (this.scale = scaleOf());
    const width = whole / scale, height = this.high / scale;
    const [context, ratio] = sized(this.canvas, width, height, scale), wide = width - ROOM.left - ROOM.right;
    this.side = wide / d;
    this.tall = Math.min(TALLEST / scale, (height - this.top - this.bottom) / n);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.cells(
      context,
      Math.round(ROOM.left * ratio),
      Math.round(this.top * ratio),
      Math.round(wide * ratio),
      Math.round(n * this.tall * ratio),
    );
    context.scale(ratio, ratio);
    nameTokens(context, picture.rows, picture.names ?? [], { left: ROOM.left, top: this.top, wide: this.side, tall: this.tall, theme });
    if (picture.names) this.axes(context);
    this.frames(context, n * this.tall);
    this.foot(context, this.top + n * this.tall, wide);
    Object.assign(this.root.dataset, { left: ROOM.left, top: this.top, side: this.side, tall: this.tall });
  }

  // Where a pixel covers several numbers it shows the one of the largest size.
  cells(context, left, top, width, height) {
    const { picture: { rows, columns, limit, arrays }, theme } = this, { packed } = signedRamp(theme);
    const image = context.createImageData(width, height), out = new Uint32Array(image.data.buffer);
    const [tops, lefts] = [spans(rows.length, height), spans(columns, width)];
    for (let y = 0; y < height; y++) {
      if (y && tops[2 * y] === tops[2 * y - 2] && tops[2 * y + 1] === tops[2 * y - 1]) {
        out.copyWithin(y * width, (y - 1) * width, y * width);
        continue;
      }
      for (let x = 0; x < width; x++) {
        const extremes = [];
        for (let r = tops[2 * y]; r < tops[2 * y + 1]; r++) {
          extremes.push(strongest(arrays.states, r * columns + lefts[2 * x], r * columns + lefts[2 * x + 1]));
        }
        out[y * width + x] = packed[signedCode(strongest(extremes, 0, extremes.length), limit)];
      }
    }
    context.putImageData(image, left, top);
  }

  // The titles of both axes, beside and above the names.
  axes(context) {
    const { picture: { queryAxis = "", keyAxis = "" }, theme, scale } = this, measure = widthIn(`12px ${theme.font}`);
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet, textAlign: "left", textBaseline: "middle" });
    if (keyAxis) context.fillText(fitAxis(keyAxis, (name) => `${name} →`, this.width / scale - 8, measure), 4, 8);
    if (!queryAxis) return;
    const down = fitAxis(queryAxis, (name) => `← ${name}`, this.high / scale - this.top, measure);
    context.save();
    context.translate(9, this.top + measure(down));
    context.rotate(-Math.PI / 2);
    context.fillText(down, 0, 0);
    context.restore();
  }

  frames(context, high) {
    const { picture: { frames, ways, columns, rows }, theme, side, tall } = this, middle = ROOM.left + (columns * side) / 2;
    context.strokeStyle = theme.line;
    context.strokeRect(ROOM.left, this.top, columns * side, rows.length * tall);
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet, textBaseline: "middle" });
    ways.forEach((way, i) => {
      context.textAlign = i ? "right" : "left";
      context.fillText(way, i ? ROOM.left + columns * side : ROOM.left, this.top - 11);
    });
    if (ways.length) {
      context.strokeStyle = theme.quiet;
      context.setLineDash([2, 3]);
      context.beginPath();
      context.moveTo(middle, this.top);
      context.lineTo(middle, this.top + high);
      context.stroke();
      context.setLineDash([]);
    }
    Object.assign(context, { strokeStyle: theme.text, lineWidth: 2.5 });
    for (const { row, first, count } of frames) context.strokeRect(ROOM.left + first * side, this.top + row * tall, count * side, tall);
    context.lineWidth = 1;
  }

  // The numbers of the columns, counted from 1, and under them the scale of the colours.
  foot(context, y, wide) {
    const { picture: { columns, limit, axis, names, unit }, theme, side } = this,
      low = y + (names ? 12 : 40),
      [least, most] = ["−", ""].map((sign) => scaleEnd(sign, limit)),
      step = stepOf(Math.ceil((columns * TICK) / wide));
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet, textBaseline: "middle", textAlign: "center" });
    if (!names) { for (let i = step; i <= columns; i += step) context.fillText(String(i), ROOM.left + (i - 0.5) * side, y + 10); }
    context.textAlign = "left";
    context.fillText(axis, ROOM.left, y + 27);
    const { css: colours } = signedRamp(theme), x = ROOM.left + wide - BAR - 44;
    for (let i = 0; i < BAR; i++) {
      context.fillStyle = colours[signedCode((2 * i) / (BAR - 1) - 1, 1)];
      context.fillRect(x + i, low, 1.2, 9);
    }
    context.strokeStyle = theme.line;
    context.strokeRect(x, low, BAR, 9);
    context.fillStyle = theme.text;
    context.fillText(most, x + BAR + 4, low + 5);
    context.textAlign = "right";
    context.fillText(least, x - 4, low + 5);
    const named = x - 12 - context.measureText(least).width;
    context.fillStyle = theme.quiet;
    context.fillText(unit ?? "value", named, low + 5);
  }

  hover(event) {
    const { picture: { rows, columns, arrays, names, numbered, what = "token" }, scale } = this, box = this.canvas.getBoundingClientRect();
    const r = Math.floor(((event.clientY - box.top) / scale - this.top) / this.tall);
    const c = Math.floor(((event.clientX - box.left) / scale - ROOM.left) / this.side);
    this.tip.hidden = r < 0 || r >= rows.length || c < 0 || c >= columns;
    if (this.tip.hidden) return;
    const [text, note] = rows[r], place = numbered ? text : `${r + 1}, ${text}`;
    this.tip.querySelector(".where").textContent = `${what} ${place}${note ? ` (${note})` : ""}: ${
      names ? names[c][0] : `number ${c + 1} of ${columns}`
    }`;
    this.tip.querySelector(".number").textContent = plain(arrays.states[r * columns + c]);
    placeTip(this.tip, this.root, event);
  }
}

// The least of 1, 2, 5, 10, 20, … that is no smaller.
function stepOf(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((n) => n * power >= least) * power;
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".states");
  const view = (root.view ??= new States(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
