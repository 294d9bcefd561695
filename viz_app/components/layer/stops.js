// The stream of one token before the first layer and after each part: what was added, which way it points, how long the stream
// is, and what the model would predict if it stopped there. A row is a button that chooses its layer.
class Stops extends Rows {
  get least() {
    return window.innerWidth <= 760 ? 40 : 0; // a finger hits it on a phone
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const heading = this.root.querySelector("h3");
    heading.textContent = heading.title = picture.allTitle;
    this.root.querySelector(".without").textContent = picture.without;
    this.svg.setAttribute("aria-label", `${picture.title}. ${picture.allTitle}`);
    const columns = ["added", "direction", "length", "answer"].filter((id) =>
      picture.stops.some((stop) => stop[id] !== null && stop[id] !== undefined)
    );
    const rows = picture.stops.map(({ layer, name }) => (layer ? `layer ${layer}, ${name}` : name));
    describe(this.svg, { name: picture.allTitle, rows, columns, value: (r, c) => picture.stops[r][columns[c]] });
    this.fit();
  }

  // Where the columns are: names, then four of one width, then the tokens; on a narrow page without the less important ones.
  columns(width) {
    const { picture } = this, says = Boolean(picture.answer), narrow = width < 420;
    const name = 24 + Math.min(100 * scaleOf() + 34, Math.max(88, width * 0.2)), cell = Math.max(46, Math.min(92, width * 0.085));
    const wanted = ["added", "direction", "length", ...(says && !narrow ? ["answer"] : [])];
    let x = name + GAP;
    const placed = Object.fromEntries(wanted.map((id) => {
      const place = { x, wide: cell };
      x += cell + GAP;
      return [id, place];
    }));
    return { name, placed, tokens: says ? { x, wide: width - x } : null };
  }

  draw(width) {
    const { picture } = this, { stops } = picture, held = this.svg.querySelector(":focus")?.dataset.line;
    this.begin(width, stops.length);
    const { name, placed, tokens } = this.columns(width), largest = picture.scales;
    const heads = {
      added: picture.adds ? "adds" : "makes",
      direction: "cosine",
      length: "stream",
      answer: picture.answer && `p(${picture.answer[0]})`,
    };
    this.head(0, "layer", name);
    for (const [id, { x, wide }] of Object.entries(placed)) this.head(x, heads[id], wide + GAP - 2);
    if (tokens) this.head(tokens.x, tokens.wide < 140 ? "top" : "top predictions here", tokens.wide);
    stops.forEach((stop, line) => this.stop(stop, line, { name, placed, tokens, largest, width }));
    if (held !== undefined) this.svg.querySelector(`[data-line="${held}"]`)?.focus();
  }

  stop(stop, line, { name, placed, tokens, largest, width }) {
    const { picture, theme } = this, y = TOP_ROOM + line * this.line, first = line && stop.layer !== picture.stops[line - 1].layer;
    const row = this.put(
      "g",
      stop.site ? { tabindex: 0, role: "button", "aria-pressed": stop.chosen, "aria-label": `layer ${stop.layer}, ${stop.name}` } : {},
    );
    row.dataset.line = line;
    this.put(
      "rect",
      {
        class: "hit",
        x: 0.5,
        y,
        width: width - 1,
        height: this.line,
        fill: stop.chosen ? theme.accent : "transparent",
        "fill-opacity": stop.chosen ? 0.09 : 0,
      },
      undefined,
      row,
    );
    if (first) this.put("line", { x1: 0, x2: width, y1: y, y2: y, stroke: theme.line }, undefined, row);
    if (first && Number(stop.layer)) this.write(2, y + this.line / 2, stop.layer, 20, { bold: true, parent: row });
    const indent = stop.layer ? 24 : 2;
    this.write(indent, y + this.line / 2, stop.name, name - indent, { parent: row, bold: stop.chosen });
    const where = stop.layer ? `layer ${stop.layer}, ${stop.name}` : stop.name, pads = [];
    const cell = (id, say, draw) => {
      if (!placed[id] || stop[id] === null || stop[id] === undefined) return;
      draw(placed[id]);
      pads.push(this.place(placed[id].x, y, placed[id].wide, () => [say, stop[id], id, line], row));
    };
    cell(
      "added",
      `${where}: length of what it ${picture.adds ? "adds" : "makes"}`,
      ({ x, wide }) => this.bar(x, y, wide, stop.added, largest.added, row),
    );
    cell("direction", `${where}: cosine with the stream it read`, ({ x, wide }) => this.signed(x, y, wide, stop.direction, row));
    cell("length", `${where}: length of the stream after it`, ({ x, wide }) => this.bar(x, y, wide, stop.length, largest.length, row));
    cell(
      "answer",
      `${where}: probability of ${picture.answer?.[0]}, the model's answer`,
      ({ x, wide }) => this.bar(x, y, wide, stop.answer, 1, row, tight(stop.answer)),
    );
    if (tokens) this.predictions(stop, line, y, tokens, where, row);
    if (!stop.site) return;
    const choose = () => void this.on.choose(stop.site);
    row.onclick = choose;
    useKeys(row, { Enter: choose, " ": choose });
  }

  // The most probable tokens, as many as there is room for, each shaded by its probability.
  predictions(stop, line, y, { x, wide }, where, row) {
    const n = Math.max(1, Math.min(stop.best.length, Math.floor(wide / (6.4 * this.letters)))), each = wide / n - 4;
    stop.best.slice(0, n).forEach(([label, p], i) => {
      const left = x + i * (each + 4),
        code = weightCode(p),
        number = tight(p),
        room = this.measure(number) * (this.letters / 12.5) + 6;
      this.put(
        "rect",
        { x: left, y: y + 3, width: each, height: this.line - 6, rx: 3, fill: css(this.theme.ramp[code]), stroke: this.theme.line },
        undefined,
        row,
      );
      const ink = this.theme.on(code);
      this.write(left + 4, y + this.line / 2, label[0], each - room - 4, { parent: row, ink, bold: label[0] === this.picture.answer[0] });
      this.write(left + each - 4, y + this.line / 2, number, room, { parent: row, ink, anchor: "end" });
      this.place(
        left,
        y,
        each,
        () => [`${where}: the model would predict ${label[0]}${label[1] ? ` (${label[1]})` : ""} with p`, p, `best${i}`, line],
        row,
      );
    });
  }
}

const tight = (p) => percent(p, p < 0.0995 ? 1 : 0).replace(" ", "");
