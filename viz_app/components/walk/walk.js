// The walk from two vectors to one weight and then to the output of the head. The payload has all stages, so that
// stepping is immediate; Python is told only where the walk stopped, for the URL.
const TELL_AFTER = 350; // ms without another step

// How wide a column is, how much of the spare space it takes, and when it is left out if space is lacking (the highest first).
const ROOM = {
  strip: { min: 100, grow: 1, max: 620 },
  number: { min: 66 },
  weight: { min: 70 },
};
const LEAVE = { a: 3, k: 2, sides: 2, products: 1, terms: 1, raw: 2, scores: 1, masked: 1, v: 2, weights: 0, parts: 0 }; // 1 for a score's named terms

class Walk {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.range = root.querySelector("input");
    this.table = new Table(root.querySelector(".stage"), {
      hover: (spot, event) => this.point(spot, event),
      click: (index) => this.choose(index),
    });
    this.range.oninput = () => this.go(Number(this.range.value));
    root.querySelector(".back").onclick = () => this.go(this.stage - 1);
    root.querySelector(".on").onclick = () => this.go(this.stage + 1);
    const file = () => ({ ...this.picture, file: `${this.picture.file}.stage${this.stage}` });
    offerCanvas(
      root.querySelector(".foot .files"),
      () => this.table.save(`${this.picture.title} (${this.picture.stages[this.stage].title})`, file()),
      () => [root, file()],
    );
    useKeys(this.table.cells, {
      ArrowLeft: () => this.stage > 0 && this.go(this.stage - 1),
      ArrowRight: () => this.stage < this.range.max && this.go(this.stage + 1),
      ArrowUp: () => this.neighbour(-1),
      ArrowDown: () => this.neighbour(1),
    });
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
    this.back = () => (clearTimeout(this.telling), (this.waiting = undefined)); // the state in the address is shown
    addEventListener("popstate", this.back);
  }

  end() {
    this.watcher.disconnect();
    removeEventListener("popstate", this.back);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.key_ = picture.key;
    this.range.max = picture.stages.length - 1;
    this.range.style.setProperty("--stops", picture.stages.length);
    if (this.waiting === picture.stage) this.waiting = undefined;
    this.stage = Math.max(0, Math.min(this.waiting ?? picture.stage ?? 0, picture.stages.length - 1)); // a stage on its way to Python is not undone
    const heading = this.root.querySelector(".title");
    heading.textContent = heading.title = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    const buttons = children(this.root.querySelector(".names"), picture.stages.length, (names) => put(names, "button"));
    picture.stages.forEach((stage, i) => {
      Object.assign(buttons[i], { type: "button", title: stage.title, textContent: stage.name, onclick: () => this.go(i) });
    });
    this.tip.hidden = true;
    this.width = 0;
    this.layout();
    const { site, head, query, key } = picture;
    Object.assign(this.root.dataset, { site, head, query, key });
    countPaint(this.root);
  }

  layout() {
    const width = this.root.clientWidth;
    if (!this.picture || !width || width === this.width) return;
    this.width = width;
    this.draw();
  }

  go(stage) {
    if (stage < 0 || stage >= this.picture.stages.length || stage === this.stage) return;
    this.stage = this.waiting = stage;
    this.tip.hidden = true;
    this.draw();
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.tell({ stage: this.stage }), TELL_AFTER);
  }

  // A click on a row chooses its key; the picture follows at once, the sentences when Python has answered.
  choose(index) {
    if (this.atHeads) return;
    this.key_ = index;
    this.draw();
    clearTimeout(this.telling);
    this.tell({ query: this.picture.query, key: index, ...(this.waiting === undefined ? {} : { stage: this.waiting }) });
  }

  // The key above or below the chosen one; false if there is none.
  neighbour(step) {
    const { indices } = this.picture, next = indices[indices.indexOf(this.key_) + step];
    return next !== undefined && !this.atHeads && this.choose(next);
  }

  draw() {
    const { picture, stage } = this, { name, title, sentence, formula } = picture.stages[stage];
    this.range.value = stage;
    this.root.querySelector(".back").disabled = stage === 0;
    this.root.querySelector(".on").disabled = stage === picture.stages.length - 1;
    [...this.root.querySelectorAll(".names button")].forEach((button, i) => button.toggleAttribute("aria-current", i === stage));
    const line = this.root.querySelector(".sentence");
    line.replaceChildren();
    put(line, "b", "", /[?!]$/.test(title) ? `${title} ` : `${title}. `);
    line.append(sentence);
    setFormula(this.root.querySelector(".formula"), formula);
    this.chain();
    this.table.show(this.atHeads ? this.headsTable(title) : this.keysTable(title), this.theme);
    this.root.querySelector(".note").textContent = this.note();
    Object.assign(this.root.dataset, { stage, name });
  }

  // Whether this is the stage where the heads are added up, which has no columns.
  get atHeads() {
    return !this.picture.stages[this.stage].columns.length;
  }

  // The chosen weight's numbers from the first sum to the share, each lit when its stage is reached.
  chain() {
    const { picture, stage } = this, { arrays } = picture, row = picture.indices.indexOf(this.key_), chain = this.root.querySelector(".chain");
    chain.replaceChildren();
    put(chain, "span", "token", `${picture.queryLabel[0]} → ${picture.keyLabels[row][0]}`);
    for (const [name, title, from] of picture.links) {
      const value = arrays[name][row], link = put(chain, "span", "link", `${title} = ${brief4(value)}`);
      link.classList.toggle("reached", stage >= from);
      link.classList.toggle("now", stage === from);
      Object.assign(link.dataset, { name, value: exact(value) });
      link.title = plain(value);
    }
  }

  keysTable(title) {
    const { picture } = this, { arrays, indices, stages } = picture, n = indices.length;
    const { columns: ids, main, top, foot, rest } = stages[this.stage], left = rest ? picture.n_keys - n : 0;
    const columns = ids.map((id) => ({
      ...ROOM[picture.columns[id].kind],
      ...picture.columns[id],
      id,
      drop: main.includes(id) ? 0 : (LEAVE[id] ?? 1),
    }));
    if (ids.length > 1 && ids[0] === "a") Object.assign(columns[0], { min: 110, grow: 3 });
    const strip = (values, i) => values.subarray((i * values.length) / n, ((i + 1) * values.length) / n);
    const cell = ({ array, kind }, i) => (kind === "strip" ? strip(arrays[array], i) : arrays[array][i]);
    const rows = indices.map((index, i) => ({
      label: picture.keyLabels[i],
      mark: "row",
      index,
      place: i,
      blocked: picture.blocked[i],
      cells: Object.fromEntries(columns.map((column) => [column.id, cell(column, i)])),
    }));
    rows[0].aside = "key";
    const own = Object.fromEntries(Object.entries(top).map(([id, array]) => [id, arrays[array]]));
    const feet = [];
    if (left) feet.push({ label: [`${left} others`, "", true], mark: "foot", cells: { parts: arrays.rest } });
    if (foot) feet.push({ label: [foot, "", false], mark: "foot", cells: { parts: arrays.b } });
    const first = { label: picture.queryLabel, mark: "top", aside: "query", cells: own };
    return {
      columns,
      rows: [first, ...rows, ...feet],
      names: "token",
      chosen: this.key_,
      lines: picture.lines,
      label: `${picture.title}. ${title}`,
    };
  }

  headsTable(title) {
    const { picture } = this, { headScales, d_head, d_model } = picture, rows = headRows(picture);
    const columns = [
      {
        id: "head_out",
        title: "b of each head",
        note: `${d_head} numbers each, ±${brief(headScales.head_out)}`,
        kind: "strip",
        scale: headScales.head_out,
        min: 80,
        grow: 1,
        max: 300,
        drop: 1,
      },
      {
        id: "added",
        title: "b · W_O",
        note: `${d_model} numbers, ±${brief(headScales.added)}`,
        kind: "strip",
        scale: headScales.added,
        min: 110,
        grow: 3,
      },
      { id: "norm", title: "length", note: "of the vector", kind: "length", scale: headScales.length, min: 96 },
    ];
    return { columns, rows, names: "head", chosen: picture.head, lines: picture.lines, label: `${picture.title}. ${title}` };
  }

  note() {
    const pooled = this.table.columns.some((c) => c.kind === "strip" && this.longest(c) > c.width * this.table.ratio);
    const pooledNote = pooled ? " Where a strip has more numbers than pixels, a pixel shows the one furthest from 0." : "";
    return `${this.picture.shown} Blue is above 0, orange below; ± is the number with the strongest colour. Point at a strip for exact numbers. Click a row or press ↑ or ↓ to choose it; ← and → step.${pooledNote}`
      .trim();
  }

  longest(column) {
    return Math.max(...this.table.table.rows.map((row) => row.cells[column.id]?.length ?? 0));
  }

  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot?.column;
    if (tip.hidden) return;
    const [what, why] = this.atHeads ? this.sayHead(spot) : this.sayKey(spot);
    tip.querySelector(".what").textContent = what;
    tip.querySelector(".value").textContent = plain(spot.value);
    tip.querySelector(".why").textContent = why;
    Object.assign(tip.dataset, {
      column: spot.column.id,
      cell: spot.cell ?? "",
      value: exact(spot.value),
      line: spot.line,
      head: picture.head,
    });
    placeTip(tip, this.root, event);
  }

  sayHead({ row, column, cell }) {
    return [`${row.label[0]}, ${column.title}${cell === undefined ? "" : `, number ${cell + 1}`}`, ""];
  }

  // What the number under the pointer is, and how it comes from others.
  sayKey({ row, column, cell }) {
    const { blocked } = this.picture, [top, key] = column.names.some(Boolean) ? column.names : [column.title, column.title];
    const name = { top, row: key, foot: row.label[0] }[row.mark];
    const what = `${row.label[0]}: ${name}${cell === undefined ? "" : `, number ${cell + 1}`}`;
    if (row.mark !== "row") return [what, ""];
    const hidden = blocked[row.place].length ? `blocked by: ${blocked[row.place].join(", ")}` : "";
    if (column.id === "masked") return [what, hidden || "open: the score stays"];
    const why = column.why.map((part) => (typeof part === "string" ? part : plain(this.number(part, row.place, cell)))).join("");
    if (column.id === "weights") return [what, hidden || why || `exp(${brief(this.picture.arrays.masked[row.place])}) / Σ`];
    return [what, why];
  }

  // A number of the query's own row ("top"), of a key's vector ("row"), or a key's one number ("key").
  number({ top, row, key }, place, cell) {
    const { arrays, indices } = this.picture;
    if (top) return arrays[top][cell];
    return row ? arrays[row][(place * arrays[row].length) / indices.length + cell] : arrays[key][place];
  }
}

const brief4 = (value) => (value === -Infinity ? "−∞" : value.toFixed(4).replace("-", "−"));

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".walk");
  const view = (root.view ??= new Walk(root));
  view.tell = (event) => setTriggerValue("news", event);
  view.show(unpack(data), themeOf(root));
  return () => view.end();
}
