// Which token may see which in one stream: a row for each predicted token, a column for each token; hatched where it may not be seen.
const SIDE = 20, LEAST_CELL = 5, MOST_CELL = 26, TALL = 160; // px; TALL stays the same, so that nothing moves while someone types

class Visibility {
  constructor(parent, choose) {
    this.section = put(parent, "section");
    this.heading = put(this.section, "h3");
    this.canvas = put(this.section, "canvas");
    this.who = put(this.section, "p", "who quiet");
    const save = () => saveCanvas(this.canvas, this.heading.textContent, this.shown[0].picture, this.theme);
    const of = () => [this.section, this.shown[0].picture];
    offerCanvas(put(this.section, "span", "files"), () => sharply(() => this.show(...this.shown), save), of);
    this.choose = choose;
    this.canvas.onpointermove = (event) => this.hover(this.at(event));
    this.canvas.onpointerleave = () => this.hover(null);
    this.canvas.onclick = (event) => {
      const cell = this.at(event);
      if (cell) this.choose(cell[0]);
    };
  }

  show(shown, theme, width) {
    this.shown = [shown, theme, width];
    const { title, allowed, tokens, turns, position, axes } = shown;
    const scale = scaleOf(), most = TALL / scale; // in a presentation, letters are larger and the height stays the same
    width /= scale;
    Object.assign(this, { allowed, tokens, turns, position, axes, theme, scale });
    this.section.dataset.allowed = Array.from(allowed).join("");
    this.heading.textContent = title;
    const n = tokens.length, room = Math.min(150, 0.36 * width);
    const name = `${title}. ${Array.from(tokens, (_, i) => this.sentence(i)).join(" ")}`, names = positions(tokens);
    describe(this.canvas, { name, rows: names, columns: names, value: (r, c) => (allowed[r * n + c] ? "allowed" : "masked") });
    this.cell = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor((width - room - 4) / n), Math.floor(most / n)));
    this.left = room;
    const tall = SIDE + Math.max(most, this.cell * n) + 2, [context, ratio] = sized(this.canvas, room + this.cell * n + 4, tall, scale);
    const at = (v) => Math.round(v * ratio), size = at(this.cell * n);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    paintCodes(
      context,
      Uint8Array.from(allowed, (open) => (open ? 200 : 0)),
      n,
      n,
      at(room),
      at(SIDE),
      size,
      size,
      theme,
      Math.round(5 * ratio),
    );
    context.scale(ratio, ratio);
    context.strokeStyle = theme.line;
    for (let k = 0; k <= n; k++) {
      if (this.cell > 8 || k === 0 || k === n) {
        context.strokeRect(room, SIDE + k * this.cell, n * this.cell, 0);
        context.strokeRect(room + k * this.cell, SIDE, 0, n * this.cell);
      }
    }
    context.font = `12px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = theme.quiet;
    context.fillText(fit(`${axes[0]} ↓  ${axes[1]} →`, room - 6, (text) => context.measureText(text).width), 0, SIDE / 2);
    const step = Math.max(1, Math.ceil(13 / this.cell)), measure = (text) => context.measureText(text).width;
    for (let i = 0; i < n; i += step) {
      const chosen = i === position;
      context.fillStyle = chosen ? theme.accent : theme.text;
      context.textAlign = "right";
      context.fillText(fit(`${tokens[i][0]} ${i + 1}`, room - 8, measure), room - 6, SIDE + (i + 0.5) * this.cell);
      context.textAlign = "center";
      context.fillText(i + 1, room + (i + 0.5) * this.cell, SIDE / 2);
    }
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.strokeRect(room, SIDE + position * this.cell, n * this.cell, this.cell);
    this.hover(null);
  }

  at(event) {
    const { scale, cell, left, tokens } = this, n = tokens.length;
    const row = Math.floor((event.offsetY / scale - SIDE) / cell), column = Math.floor((event.offsetX / scale - left) / cell);
    return row >= 0 && row < n && column >= 0 && column < n ? [row, column] : null;
  }

  hover(cell) {
    this.canvas.style.cursor = cell ? "pointer" : "default";
    this.who.textContent = this.sentence(cell ? cell[0] : this.position);
  }

  // Which tokens the token at this position may see, in the order of their turns.
  sentence(i) {
    const n = this.tokens.length, name = (k) => `“${this.tokens[k][0]}”`;
    const sees = Array.from(this.tokens, (_, k) => k).filter((k) => this.allowed[i * n + k]).sort((a, b) => this.turns[a] - this.turns[b]);
    return `${name(i)}, position ${i + 1}, sees ${sees.length ? sees.map(name).join(", ") : "no token"}.`;
  }
}
