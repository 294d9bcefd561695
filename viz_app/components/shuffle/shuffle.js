// The shuffle test in one drawing: where each token goes, how far its vector moves at each stage, the mean of that by stage.
// The parts are side by side where there is room, else one below the other; on a phone the maps are side by side below the tokens.
const PART = { least: 250, most: 420, gap: 26, top: 66, below: 62 }; // px; above the first row and under the last one
const ROW = { most: 40, all: 460, fewest: 130, least: 4, around: 585 }; // px: of one row and of all, so that no text needs more space
const ON_PHONE = { least: 170, gap: 10, rows: 150 }; // px: two maps beside each other, below where the tokens go
// The height of all rows: what the window leaves below the controls.
const roomForRows =
  () => (isPhone() ? ON_PHONE.rows : Math.max(ROW.fewest, Math.min(ROW.all, innerHeight - ROW.around * Math.max(1, scaleOf() / 1.34))));
const BAR = { height: 190, low: 110, left: 46 };
const barHeight = () => (isPhone() ? BAR.low : BAR.height);
const MOVED = HEAD_COLOURS[5], STAYED = "#8f96a3", SECOND = HEAD_COLOURS[1];

// A change for the screen: two decimals, or its order of magnitude where it is only rounding.
const shortChange = (v) => (v === 0 ? "0" : v >= 0.005 ? v.toFixed(2) : v.toExponential(0));

// A stage if its name does not fit: "layer 2" as L2, "input" as in.
const initials = (stage) => stage.replace(/^layer /i, "L").replace(/^input$/i, "in");

class Shuffle extends Fitted {
  constructor(root) {
    super(root);
    this.svg = root.querySelector("svg");
    this.tip = root.querySelector(".tip");
    this.place = root.querySelector(".place");
    this.svg.onpointermove = (event) => this.point(event);
    this.svg.onpointerleave = () => (this.tip.hidden = true);
    offer(root.querySelector(".files"), () => [this.svg, this.picture.title, this.picture, this.theme]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.tip.hidden = true;
    const isBars = picture.parts.every(({ kind }) => kind === "bars");
    this.root.querySelector(".quiet").textContent = `Point at a ${isBars ? "bar" : "cell or a token"} for its exact number.`;
    describe(this.svg, ...picture.parts.map((part) => this.table(part)));
    this.fit();
  }

  // The numbers of a part: the new places of the tokens, how far each vector moved, or the heights of its bars.
  table({ title, kind, array, stages, names }) {
    const { tokens, order, arrays } = this.picture, value = (r, c) => arrays[array][r * stages.length + c];
    if (kind !== "tangle") return { name: title, rows: kind === "bars" ? names : numbered(tokens), columns: stages, value };
    return {
      name: title,
      rows: order.map((from) => tokens[from][0]),
      columns: ["position before", "position after"],
      value: (r, c) => (c ? r : order[r]),
    };
  }

  // In a presentation the letters are larger but not the rows, so that the drawing is no higher than necessary.
  draw(whole) {
    const { parts, tokens } = this.picture, n = tokens.length, scale = scaleOf(), width = whole / scale;
    const phone = isPhone(), gap = phone ? ON_PHONE.gap : PART.gap, first = phone && parts.length > 1 ? 1 : 0; // number of parts with their own row
    const fitting = Math.floor((width + gap) / ((phone ? ON_PHONE.least : PART.least) + gap));
    const columns = Math.max(1, Math.min(parts.length - first, fitting)), wide = (width - gap * (columns - 1)) / columns;
    this.pitch = Math.min(ROW.most, Math.max(ROW.least, roomForRows() / n)) / scale;
    this.labelSize = this.pitch >= 14 ? 13 : 12;
    this.every = Math.ceil((this.labelSize - 0.5) / this.pitch); // rows from one name to the next
    const below = (i) => (i < first ? ON_PHONE.gap : PART.below); // a tangle has no scale under it
    const heights = parts.map((part, i) => PART.top + (part.kind === "bars" ? barHeight() : n * this.pitch) + below(i));
    const bars = parts.every((part) => part.kind === "bars");
    this.svg.replaceChildren();
    let y = 0, tallest = 0;
    parts.forEach((part, i) => {
      const at = i < first ? 0 : (i - first) % columns, room = i < first ? width : wide;
      if (at === 0) {
        y += tallest;
        tallest = 0;
      }
      tallest = Math.max(tallest, heights[i]);
      const group = putSvg(this.svg, "g", { transform: `translate(${at * (wide + gap)} ${y})` });
      this.head(group, part.title, room);
      this[part.kind](group, part, part.kind === "bars" ? room : Math.min(room, PART.most));
    });
    const most = bars ? heights[0] : (first + 1) * (PART.top + roomForRows() / scale) + first * ON_PHONE.gap + PART.below;
    const height = y + tallest;
    this.place.style.height = `${most * scale}px`;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height * scale);
    countPaint(this.root);
  }

  write(group, text, x, y, how = {}, room = Infinity) {
    const size = how["font-size"] ?? 12, style = { x, y, fill: this.theme.text, "font-size": size, ...how };
    return putSvg(
      group,
      "text",
      style,
      room < Infinity ? fit(text, room, widthIn(`${how["font-weight"] ?? 400} ${size}px ${this.theme.font}`)) : text,
    );
  }

  // A title in one line, or if it does not fit, in two, the second starting after its colon.
  head(group, title, room) {
    const look = { "font-weight": 600, "font-size": 13 }, cut = title.indexOf(": ") + 1;
    const wide = widthIn(`600 13px ${this.theme.font}`)(title) > room;
    const lines = wide && cut ? [title.slice(0, cut), title.slice(cut + 1)] : [title];
    lines.forEach((line, i) => this.write(group, line, 0, 14 + 17 * i, look, room));
  }

  // An element whose text is shown when it is pointed at.
  put(group, tag, attributes, text) {
    const element = putSvg(group, tag, attributes);
    element.dataset.says = text;
    return element;
  }

  rowAt(i) {
    return PART.top + (i + 0.5) * this.pitch;
  }

  tangle(group, part, wide) {
    const { tokens, order } = this.picture, { theme } = this, left = wide * 0.36, right = wide * 0.64;
    this.write(group, "as typed", left, PART.top - 12, { "text-anchor": "end", fill: theme.quiet });
    this.write(group, "reordered", right, PART.top - 12, { fill: theme.quiet });
    order.forEach((from, to) => {
      const move = `${tokens[from][0]}: position ${from} → ${to}`, [a, b] = [this.rowAt(from), this.rowAt(to)];
      putSvg(group, "line", { x1: left + 6, y1: a, x2: right - 6, y2: b, stroke: from === to ? STAYED : MOVED, "stroke-width": 1.8 }).dataset
        .moves = `${from} ${to}`;
      for (const [x, y, anchor] of [[left, a, "end"], [right, b, "start"]]) {
        if ((anchor === "end" ? from : to) % this.every === 0) this.name(group, tokens[from], x, y, anchor, left - 4);
        const pad = anchor === "end" ? 0 : right - 6;
        this.put(group, "rect", { x: pad, y: y - this.pitch / 2, width: left + 6, height: this.pitch, fill: "transparent" }, move);
      }
    });
  }

  name(group, token, x, y, anchor, room, before = "") {
    const how = {
      "text-anchor": anchor,
      "dominant-baseline": "middle",
      "font-size": this.labelSize,
      fill: token[2] ? this.theme.quiet : this.theme.text,
    };
    this.write(group, before + token[0], x, y, { ...how, style: "unicode-bidi: plaintext" }, room);
  }

  map(group, part, wide) {
    const { tokens, unrelated, arrays } = this.picture, { theme, pitch } = this, values = arrays[part.array], stages = part.stages.length;
    const left = Math.min(96, wide * 0.34),
      cell = Math.min(62, (wide - left - 18) / stages),
      middle = { "text-anchor": "middle", "dominant-baseline": "middle" };
    const measure = widthIn(`12px ${theme.font}`), fits = part.stages.every((stage) => measure(stage) <= cell - 2);
    part.stages.forEach((stage, s) =>
      this.write(group, fits ? stage : initials(stage), left + (s + 0.5) * cell, PART.top - 12, { ...middle, fill: theme.quiet }, cell - 2)
    );
    tokens.forEach((token, i) => {
      const y = this.rowAt(i);
      if (i % this.every === 0) this.name(group, token, left - 6, y, "end", left - 10, `${i} `);
      for (let s = 0; s < stages; s++) {
        const value = values[i * stages + s], code = weightCode(value / unrelated), x = left + s * cell;
        const place = { x, y: y - pitch / 2, width: cell - 1, height: Math.max(1, pitch - 1), fill: css(theme.ramp[code]) };
        const change = `${i} ${token[0]}, ${part.stages[s]}: moved by ${exact(value)} of its length`;
        Object.assign(this.put(group, "rect", place, change).dataset, { map: part.array, row: i, stage: s, value: exact(value) });
        if (this.every === 1) {
          this.write(group, shortChange(value), x + cell / 2, y, {
            ...middle,
            "font-size": 12,
            fill: theme.on(code),
            "pointer-events": "none",
          });
        }
      }
    });
    const height = tokens.length * pitch;
    putSvg(group, "rect", { x: left - 0.5, y: PART.top - 0.5, width: stages * cell, height, fill: "none", stroke: theme.line });
    this.scale(group, left, PART.top + height + 12, stages * cell, Math.max(...values) > unrelated);
  }

  // The key to the colours, from nothing to a right angle.
  scale(group, left, top, width, beyond) {
    const { theme } = this, { unrelated } = this.picture;
    for (let i = 0; i < 64; i++) {
      putSvg(group, "rect", {
        x: left + (i * width) / 64,
        y: top,
        width: width / 64 + 0.5,
        height: 9,
        fill: css(theme.ramp[weightCode(i / 63)]),
      });
    }
    putSvg(group, "rect", { x: left, y: top, width, height: 9, fill: "none", stroke: theme.line });
    for (const tick of [0, 0.5, 1, unrelated]) {
      const text = tick === unrelated ? `${beyond ? "≥ " : ""}1.41` : String(tick);
      this.write(group, text, left + (tick / unrelated) * width, top + 22, { "text-anchor": "middle", "font-size": 12, fill: theme.quiet });
    }
    const whole = "moved by (share of its length)",
      fits = widthIn(`12px ${theme.font}`)(whole) < 2 * Math.min(left + width / 2, width / 2 + 18);
    this.write(group, isPhone() && !fits ? "moved by" : whole, left + width / 2, top + 38, {
      "text-anchor": "middle",
      "font-size": 12,
      fill: theme.quiet,
    });
  }

  bars(group, part, wide) {
    const { arrays, unrelated } = this.picture, { theme } = this, values = arrays[part.array];
    const looks = [{ fill: theme.accent }, { fill: SECOND, "fill-opacity": 0.15, stroke: SECOND }]; // filled and hollow
    const floor = PART.top + barHeight(),
      each = (wide - BAR.left) / part.stages.length,
      thick = Math.min(48, (each * 0.8) / part.names.length);
    for (const tick of [0, 0.5, 1]) {
      const y = floor - (tick / unrelated) * barHeight();
      putSvg(group, "line", { x1: BAR.left, y1: y, x2: wide, y2: y, stroke: theme.line });
      this.write(group, tick.toFixed(1), BAR.left - 8, y, { "text-anchor": "end", "dominant-baseline": "middle", fill: theme.quiet });
    }
    this.write(group, "mean change", 0, 0, { transform: `translate(11 ${PART.top + barHeight() / 2 + 40}) rotate(-90)` });
    part.stages.forEach((stage, s) => {
      const middle = BAR.left + (s + 0.5) * each;
      this.write(group, stage, middle, floor + 18, { "text-anchor": "middle" }, each - 4);
      part.names.forEach((name, k) => {
        const value = values[k * part.stages.length + s], tall = (Math.min(value, unrelated) / unrelated) * barHeight();
        const x = middle + (k - part.names.length / 2) * thick;
        const place = { x: x + 1, y: floor - Math.max(tall, 1), width: thick - 2, height: Math.max(tall, 1), ...looks[k] };
        Object.assign(this.put(group, "rect", place, `${stage}, ${name}: ${exact(value)}`).dataset, { bar: k, stage: s, value: exact(value) });
        this.write(group, shortChange(value), x + thick / 2, floor - tall - 6, { "text-anchor": "middle", "font-size": 12 });
      });
    });
    part.names.forEach((name, k) => {
      putSvg(group, "rect", { x: BAR.left + k * 170, y: floor + 36, width: 11, height: 11, ...looks[k] });
      this.write(group, name, BAR.left + k * 170 + 17, floor + 46);
    });
  }

  point(event) {
    const text = event.target.dataset?.says, { tip } = this;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    placeTip(tip, this.root, event);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".shuffle");
  const view = (root.view ??= new Shuffle(root));
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
