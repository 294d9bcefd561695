// A table on a canvas: a row for each token or head; a column of vectors as strips of colours, of numbers, weights or lengths.
// Where a strip has more numbers than pixels, each pixel shows the largest. Columns that do not fit are left out, those
// with the highest `drop` first.
const ROW = { own: 22, finger: 30, least: 14 }, HEAD = 40, PAD = 12, NAMES = 118;
// px: a phone's window, a projector's, and the height that it leaves for all rows, in a presentation and otherwise
const NARROW = 700, PROJECTOR = { tall: 720, rows: 116, beside: 188 };

class Table {
  constructor(stage, on) {
    this.stage = stage;
    this.on = on;
    this.cells = put(stage, "canvas", "cells");
    this.marks = put(stage, "canvas", "marks");
    this.cells.tabIndex = 0;
    this.marks.setAttribute("aria-hidden", "true");
    this.cells.onpointermove = (event) => this.hover(this.at(event), event);
    this.cells.onpointerleave = () => this.hover(null);
    this.cells.onclick = (event) => {
      const spot = this.at(event);
      if (spot?.row.index !== undefined) this.on.click?.(spot.row.index);
    };
  }

  // table: {columns, rows, names, lines, label, spare}. `spare` px are free in addition to what a walk needs; `lines` keeps the height the same however many rows a stage has.
  show(table, theme) {
    Object.assign(this, { table, theme });
    describe(this.cells, {
      name: table.label,
      rows: table.rows.map(({ label, aside }) => [label[0], aside].filter(Boolean).join(" ")),
      columns: table.columns.map(({ title, note }) => [title, note].filter(Boolean).join(", ")),
      value: (r, c) => inWords(table.rows[r], table.columns[c]),
    });
    this.scale = scaleOf();
    this.width = this.stage.clientWidth / this.scale;
    const lines = (this.scale > 1 ? undefined : table.lines) ?? table.rows.length;
    this.pitch = this.pitchOf(lines);
    this.height = HEAD + lines * this.pitch + 6;
    const [context, ratio] = sized(this.cells, this.width, this.height, this.scale);
    sized(this.marks, this.width, this.height, this.scale);
    this.fitStage(lines);
    context.scale(ratio, ratio);
    Object.assign(this, { context, ratio });
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.width, this.height);
    context.textBaseline = "middle";
    this.place();
    this.title(0, this.namesWidth - 8, table.names, "", "right");
    for (const column of this.columns) this.title(column.x, column.width, column.title, column.note, "left");
    table.rows.forEach((row, i) => this.row(row, HEAD + i * this.pitch));
    this.focus(null);
  }

  // The height of a row: on a phone a target for a finger, else such that all rows fit the window.
  pitchOf(lines) {
    if (window.innerWidth < NARROW) return ROW.finger;
    return Math.max(ROW.least, Math.min(ROW.own, Math.floor(this.room() / lines)));
  }

  room() {
    return (this.scale === 1 ? PROJECTOR.beside : PROJECTOR.rows) + (window.innerHeight - PROJECTOR.tall) / this.scale +
      (this.table.spare ?? 0);
  }

  // In a presentation, rows that do not fit are scrolled to, first the chosen one.
  fitStage(lines) {
    const { stage, scale, pitch, table } = this, all = lines * pitch, isCut = scale > 1 && window.innerWidth >= NARROW && all > this.room();
    stage.style.height = `${(isCut ? HEAD + Math.floor(this.room() / pitch) * pitch + 6 : this.height) * scale}px`;
    stage.style.overflow = isCut ? "hidden auto" : "";
    const chosen = table.rows.findIndex(({ index }) => index !== undefined && index === table.chosen);
    if (isCut && chosen >= 0) {
      const end = (HEAD + (chosen + 1) * pitch) * scale;
      if (end > stage.scrollTop + stage.clientHeight) stage.scrollTop = end - stage.clientHeight + 6;
    }
  }

  // As a file: `keys` say what its colours mean.
  save(title, picture) {
    const kinds = new Set(this.columns.map((column) => (column.colours === "weights" ? "length" : column.kind)));
    const keys = [["strip", signedKey(this.theme, "every column on its own scale: ± the number at its head")], [
      "weight",
      weightKey(this.theme, "weight; hatched = masked"),
    ], ["length", { ...weightKey(this.theme, "the lengths' scale, with its end above it"), most: "" }]];
    const drawn = keys.filter(([kind]) => kinds.has(kind) || (kind === "strip" && kinds.has("number"))).map(([, key]) => key);
    const { table, theme } = this, whole = { ...table, lines: undefined }; // no space is kept free in a file
    sharply(() => this.show(making ? whole : table, theme), () => saveCanvas(this.cells, title, picture, theme, drawn));
  }

  // Chooses the columns that fit and distributes the width.
  place() {
    this.namesWidth = Math.min(NAMES, this.width * 0.3);
    const room = this.width - this.namesWidth - 2, columns = [...this.table.columns];
    const least = () => columns.reduce((sum, column) => sum + column.min + PAD, 0);
    while (columns.length > 1 && least() > room) {
      const first = columns.reduce((worst, column) => ((column.drop ?? 0) > (worst.drop ?? 0) ? column : worst));
      if (!first.drop) break;
      columns.splice(columns.indexOf(first), 1);
    }
    const spare = Math.max(0, room - least()), grow = columns.reduce((sum, column) => sum + (column.grow ?? 0), 0);
    const squeeze = Math.min(1, room / least());
    let x = this.namesWidth;
    this.columns = columns.map((column) => {
      const wanted = column.min * squeeze + (grow ? (spare * (column.grow ?? 0)) / grow : 0);
      const width = Math.min(wanted, column.max ?? Infinity);
      const placed = { ...column, x, width };
      x += width + PAD * squeeze;
      return placed;
    });
  }

  title(x, width, text, note, side) {
    const { context, theme } = this, right = side === "right";
    context.textAlign = right ? "right" : "left";
    const at = right ? x + width : x;
    context.font = `600 12.5px ${theme.font}`;
    context.fillStyle = right ? theme.quiet : theme.text;
    if (right) context.font = `12px ${theme.font}`;
    const measure = (t) => context.measureText(t).width;
    context.fillText(fit(text, width + 6, measure), at, right ? HEAD - 12 : 11);
    if (!note) return;
    context.font = `12px ${theme.font}`;
    context.fillStyle = theme.quiet;
    context.fillText(fit(note, width + 8, measure), at, 27);
  }

  row(row, y) {
    const { context, theme } = this;
    if (row.mark === "foot" || row.mark === "top") {
      context.fillStyle = theme.line;
      context.fillRect(0, row.mark === "foot" ? y : y + this.pitch - 1, this.width, 1);
    }
    const measure = (text) => context.measureText(text).width;
    context.textAlign = "right";
    context.font = `${row.mark === "row" ? 400 : 600} 12.5px ${theme.font}`;
    context.fillStyle = row.label[2] ? theme.quiet : theme.text;
    context.fillText(
      fit(row.label[0], this.namesWidth - (row.aside ? 62 : row.colour ? 26 : 14), measure),
      this.namesWidth - 10,
      y + this.pitch / 2,
    );
    if (row.aside) {
      context.textAlign = "left";
      context.font = `12px ${theme.font}`;
      context.fillStyle = theme.quiet;
      context.fillText(row.aside, 4, y + this.pitch / 2);
    }
    if (row.colour) {
      context.fillStyle = row.colour;
      context.fillRect(2, y + 6, 8, this.pitch - 12);
    }
    for (const column of this.columns) {
      const value = row.cells[column.id];
      if (value !== undefined) this[column.kind](value, column, y, row);
    }
  }

  strip(values, column, y, row) {
    const { context, ratio, theme } = this, ramp = signedRamp(theme), size = values.length;
    const x0 = Math.round(column.x * ratio), wide = Math.max(1, Math.round(column.width * ratio));
    const top = Math.round((y + 3) * ratio), tall = Math.round((this.pitch - 6) * ratio);
    const scale = row.scale ?? column.scale, weights = column.colours === "weights";
    const colour = (v) => (weights ? css(theme.ramp[weightCode(v / scale)]) : ramp.css[signedCode(v, scale)]);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (size <= wide) {
      for (let i = 0; i < size; i++) {
        const [a, b] = [Math.round((i * wide) / size), Math.round(((i + 1) * wide) / size)];
        context.fillStyle = colour(values[i]);
        context.fillRect(x0 + a, top, b - a, tall);
      }
    } else {
      const ends = spans(size, wide);
      for (let p = 0; p < wide; p++) {
        context.fillStyle = colour(strongest(values, ends[2 * p], ends[2 * p + 1]));
        context.fillRect(x0 + p, top, 1, tall);
      }
    }
    context.strokeStyle = theme.line;
    context.lineWidth = ratio;
    context.strokeRect(x0 - 0.5, top - 0.5, wide + 1, tall + 1);
    context.restore();
  }

  number(value, column, y, row) {
    const ramp = signedRamp(this.theme), code = signedCode(value, column.scale);
    if (value === -Infinity) return this.hatched(column, y, "−∞");
    return this.box(column, y, ramp.css[code], ramp.inks[code], brief(value), row);
  }

  weight(value, column, y, row) {
    if (row.blocked?.length) return this.hatched(column, y, "0");
    const code = weightCode(value);
    return this.box(column, y, css(this.theme.ramp[code]), this.theme.on(code), value.toFixed(value < 0.0995 && value > 0 ? 3 : 2), row);
  }

  length(value, column, y) {
    const { context, theme } = this, wide = (column.width - 44) * (column.scale ? Math.min(1, value / column.scale) : 0);
    context.fillStyle = theme.accent;
    context.fillRect(column.x, y + 5, wide, this.pitch - 10);
    this.text(brief(value), column.x + wide + 5, y, "left", theme.text);
  }

  box(column, y, fill, ink, text) {
    const { context, theme } = this;
    context.fillStyle = fill;
    context.fillRect(column.x, y + 2, column.width, this.pitch - 4);
    context.strokeStyle = theme.line;
    context.strokeRect(column.x + 0.5, y + 2.5, column.width - 1, this.pitch - 5);
    this.text(text, column.x + column.width / 2, y, "center", ink);
  }

  hatched(column, y, text) {
    const { context, ratio, theme } = this, at = (v) => Math.round(v * ratio);
    paintCodes(context, [0], 1, 1, at(column.x), at(y + 2), Math.max(1, at(column.width)), at(this.pitch - 4), theme, Math.round(6 * ratio));
    context.font = `12px ${theme.font}`;
    const wide = context.measureText(text).width + 8;
    context.fillStyle = theme.background;
    context.fillRect(column.x + (column.width - wide) / 2, y + 4, wide, this.pitch - 8);
    this.text(text, column.x + column.width / 2, y, "center", theme.text);
  }

  text(text, x, y, align, ink) {
    const { context, theme } = this;
    context.font = `12px ${theme.font}`;
    context.textAlign = align;
    context.fillStyle = ink;
    context.fillText(text, x, y + this.pitch / 2 + 0.5);
  }

  // What is under the pointer: {row, line, column, cell}; cell is the number's place in its vector.
  at(event) {
    const [x, y] = [event.offsetX, event.offsetY].map((length) => length / this.scale);
    const line = Math.floor((y - HEAD) / this.pitch), row = this.table.rows[line];
    if (!row) return null;
    const column = this.columns.find((c) => x >= c.x && x < c.x + c.width);
    const value = column && row.cells[column.id];
    if (value === undefined) return { row, line };
    const cell = column.kind === "strip" ? Math.min(value.length - 1, Math.floor(((x - column.x) / column.width) * value.length)) : undefined;
    return { row, line, column, cell, value: cell === undefined ? value : value[cell] };
  }

  hover(spot, event) {
    this.cells.style.cursor = spot?.row.index !== undefined && this.on.click ? "pointer" : "default";
    this.focus(spot);
    this.on.hover(spot, event);
  }

  // Outlines the chosen row, the number under the pointer, and the same place of the vectors it belongs with.
  focus(spot) {
    const { ratio, theme } = this, context = this.marks.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const chosen = this.table.rows.findIndex((row) => row.index !== undefined && row.index === this.table.chosen);
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    if (chosen >= 0) context.strokeRect(1, HEAD + chosen * this.pitch + 0.5, this.width - 2, this.pitch - 1);
    if (!spot?.column || spot.cell === undefined) return;
    context.strokeStyle = theme.text;
    const family = this.columns.filter((c) => c === spot.column || (c.family && c.family === spot.column.family));
    for (const column of family) {
      for (const line of new Set([spot.line, ...(column.family ? this.tops : [])])) {
        const values = this.table.rows[line].cells[column.id];
        if (!values?.length || spot.cell >= values.length) continue;
        const step = column.width / values.length;
        context.strokeRect(column.x + spot.cell * step - 1, HEAD + line * this.pitch + 2, Math.max(step, 2) + 2, this.pitch - 4);
      }
    }
  }

  get tops() {
    return this.table.rows.flatMap((row, line) => (row.mark === "top" ? [line] : []));
  }
}

// The value of a cell for screen readers: for a vector, how many numbers it has, and their range.
function inWords(row, column) {
  const value = row.cells[column.id];
  if (value === undefined || typeof value === "number") return column.kind === "weight" && row.blocked?.length ? "masked" : value;
  return `${value.length} numbers from ${Math.min(...value).toPrecision(3)} to ${Math.max(...value).toPrecision(3)}`;
}

// The rows of Concat(b)·W_O: one for each head, then the bias, if there is one, their sum, and the stream it is added to.
function headRows(picture) {
  const { arrays, n_heads, d_model, headScales } = picture;
  const part = (values, h, size) => values.subarray(h * size, (h + 1) * size);
  const rows = Array.from({ length: n_heads }, (_, h) => ({
    label: [`head ${h + 1}`, "", false],
    mark: "row",
    index: h,
    colour: headColour(h),
    cells: {
      head_out: part(arrays.head_out, h, arrays.head_out.length / n_heads),
      added: part(arrays.added, h, d_model),
      norm: arrays.sizes[h],
    },
  }));
  const sums = [["+ bias", arrays.bias], ["= output", arrays.total], ["added to", arrays.residual]].filter(([, values]) => values);
  const feet = sums.map(([label, values], n) => ({
    label: [label, "", false],
    mark: "foot",
    cells: { added: values, norm: arrays.sizes[n_heads + n] },
    ...(values === arrays.residual && { scale: headScales.residual, aside: `±${brief(headScales.residual)}` }),
  }));
  return [...rows, ...feet];
}
