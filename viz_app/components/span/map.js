// A matrix of spans: a row for each token that an answer may begin with, a column for each that it may end with. A cell is
// ln p(start) + ln p(end); where the end would come before the start it is hatched.
const SIDE_LABELS = 92, TOP_LABELS = 78, LARGEST_CELL = 34;
const NAMED_ON_PHONE = 40; // tokens: up to this many are all named on a phone, where the picture can then be scrolled sideways
const tallestOf = () => (innerHeight > 800 ? 330 : scaleOf() > 1 ? 250 : 270); // px: of all rows, depending on the window

class SpanMap extends Fitted {
  constructor(figure) {
    super(figure);
    this.canvas = figure.querySelector("canvas");
    this.tip = figure.querySelector(".tip");
    this.canvas.onpointermove = (event) => this.hover(event);
    this.canvas.onpointerleave = () => (this.tip.hidden = true);
    offerCanvas(
      figure.querySelector(".files"),
      () => sharply(() => this.draw(this.width), () => saveCanvas(this.canvas, this.picture.title, this.picture, this.theme)),
      () => [figure, this.picture],
    );
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const write = (name, text) => (this.root.querySelector(`.${name}`).textContent = text), [least, most, unit] = picture.scale;
    write("least", least);
    write("most", most);
    write("unit", unit);
    write("ruled", picture.ruled);
    this.root.querySelector(".ramp").style.background = rampGradient(theme);
    const names = numbered(picture.tokens, picture.offset), value = (r, c) => (c < r ? picture.ruled : this.value(r, c));
    const name = `${picture.title} Rows: ${picture.axes[0]}, columns: ${picture.axes[1]}, ${unit}`;
    describe(this.canvas, { name, rows: names, columns: names, value });
    this.tip.hidden = true;
    this.fit();
  }

  // ln p of the span from token r to token c, nats; −∞ where it ends before it begins.
  value(r, c) {
    const { start, end } = this.picture.arrays;
    return c < r ? -Infinity : Math.fround(start[r] + end[c]);
  }

  code(value) {
    return weightCode(1 - value / this.picture.least);
  }

  draw(whole) {
    const { tokens, answer, axes } = this.picture, { theme, canvas } = this, n = tokens.length, scale = (this.scale = scaleOf());
    const named = isPhone() && n <= NAMED_ON_PHONE ? n * LEAST_LETTERS : 0, codes = new Uint8Array(n * n);
    const width = Math.max(whole / scale, SIDE_LABELS + named + 8), tallest = Math.max(tallestOf() / scale, named);
    this.lay(width, tallest);
    const { left, wide, side, aside } = this;
    const [context, ratio] = sized(canvas, width, TOP_LABELS + Math.max(tallest, n * side) + 2, scale);
    if (named) this.root.querySelector(".sideways").scrollLeft = left + (answer[1] + 1) * wide - whole / 2; // so that the answer is visible
    for (let r = 0; r < n; r++) for (let c = r; c < n; c++) codes[r * n + c] = this.code(this.value(r, c));
    context.fillStyle = theme.background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const at = Math.round(left * ratio), top = Math.round(TOP_LABELS * ratio);
    paintCodes(context, codes, n, n, at, top, Math.round(n * wide * ratio), Math.round(n * side * ratio), theme);
    context.scale(ratio, ratio);
    context.strokeStyle = theme.line;
    context.strokeRect(left, TOP_LABELS, n * wide, n * side);
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    context.strokeRect(left + answer[1] * wide, TOP_LABELS + answer[0] * side, wide, side);
    nameTokens(context, tokens, tokens, { left, top: TOP_LABELS, wide, tall: side, theme, aside });
    Object.assign(context, { font: `12px ${theme.font}`, fillStyle: theme.quiet, textAlign: "left", textBaseline: "top" });
    context.fillText(`${axes[0]} ↓`, 0, 0);
    context.fillText(`${axes[1]} →`, 0, 15);
    Object.assign(this.root.dataset, { side, wide, left, top: TOP_LABELS });
  }

  // Square cells; if they are too low for each token's name, the names are in two columns, and the cells are as wide as a name is high.
  lay(width, tallest) {
    const { tokens } = this.picture, n = tokens.length, widest = (left) => (width - left - 8) / n;
    const side = Math.min(LARGEST_CELL, widest(SIDE_LABELS), Math.max(tallest / n, 4));
    Object.assign(this, { side, wide: side, left: SIDE_LABELS, aside: 0 });
    if (Math.ceil((LEAST_LETTERS - 0.5) / side) !== 2) return;
    const measure = widthIn(`${LEAST_LETTERS}px ${this.theme.font}`);
    const [inner, outer] = [0, 1].map((odd) => Math.max(0, ...tokens.filter((_, i) => i % 2 === odd).map(([text]) => measure(text))));
    const left = Math.ceil(Math.max(SIDE_LABELS, inner + outer + 30));
    if (widest(left) >= LEAST_LETTERS - 0.5) {
      Object.assign(this, { left, aside: inner + 8, wide: Math.max(side, Math.min(LEAST_LETTERS, widest(left))) });
    }
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(), { tokens, offset, ruled, axes } = this.picture;
    const r = Math.floor(((event.clientY - box.top) / this.scale - TOP_LABELS) / this.side);
    const c = Math.floor(((event.clientX - box.left) / this.scale - this.left) / this.wide);
    this.tip.hidden = !(tokens[r] && tokens[c]);
    if (this.tip.hidden) return;
    const value = this.value(r, c), open = c >= r;
    this.tip.querySelector(".where").textContent = `${axes[0]}: ${offset + r} ${tokens[r][0]}; ${axes[1]}: ${offset + c} ${tokens[c][0]}`;
    this.tip.querySelector(".value").textContent = open ? `ln p ${exact(value)}, p ${exact(Math.fround(Math.exp(value)))}` : ruled;
    Object.assign(this.tip.dataset, { row: r, col: c, value: open ? exact(value) : "" });
    placeTip(this.tip, this.root, event);
  }
}
