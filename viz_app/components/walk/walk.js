// The walk from two vectors to one weight and on to what the head hands over. All stages are here from the start, so that
// stepping is immediate; only where one stopped is told to Python, for the URL.
const TELL_AFTER = 350;     // ms of rest

// Which columns each stage shows, what a number in them is called, and when to leave one out for want of room.
const COLUMNS = {
  a: { title: "a", note: (p) => `d_model = ${p.d_model}`, kind: "strip", scale: "a", min: 110, grow: 3, drop: 3 },
  k: { title: "k", note: (p) => `d_k = ${p.d_head}`, kind: "strip", scale: "qk", min: 100, grow: 1, max: 620, drop: 2, family: "d_k" },
  products: { title: "q ∘ k", note: () => "number by number", kind: "strip", scale: "products", min: 100, grow: 1, max: 620, drop: 1, family: "d_k" },
  scaled: { title: "q ∘ k / √dₖ", note: () => "sums to the score", kind: "strip", scale: "scaled", min: 100, grow: 1, max: 620, drop: 1, family: "d_k" },
  raw: { title: "q · k", note: () => "their sum", kind: "number", scale: "raw", min: 66, drop: 2 },
  scores: { title: "÷ √dₖ", note: (p) => `÷ ${brief(Math.sqrt(p.d_head))}`, kind: "number", scale: "raw", min: 66, drop: 1 },
  masked: { title: "+ mask", note: () => "", kind: "number", scale: "raw", min: 66, drop: 1 },
  weights: { title: "softmax", note: () => "weight, 0 to 1", kind: "weight", min: 70 },
  v: { title: "v", note: (p) => `d_v = ${p.d_head}`, kind: "strip", scale: "v", min: 100, grow: 1, max: 620, drop: 2, family: "d_v" },
  parts: { title: "weight × v", note: () => "on the scale of v", kind: "strip", scale: "v", min: 100, grow: 1, max: 620, family: "d_v" },
};
const SHOWN_AT = [
  ["a"], ["a", "k", "v"], ["k", "products", "raw"], ["k", "scaled", "raw", "scores"], ["scaled", "raw", "scores", "masked"],
  ["scaled", "raw", "scores", "masked", "weights"], ["weights", "v", "parts"], ["weights", "v", "parts"],
];
const LINKS = [["raw", "q·k", 2], ["scores", "÷ √dₖ", 3], ["masked", "+ mask", 4], ["weights", "softmax", 5]];

class Walk {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.range = root.querySelector("input");
    this.table = new Table(root.querySelector(".stage"), { hover: (spot, event) => this.point(spot, event), click: (index) => this.choose(index) });
    this.stage = Number(new URLSearchParams(location.search).get("inside-stage")) || 0;   // Python only writes it there
    this.range.oninput = () => this.go(Number(this.range.value));
    root.querySelector(".back").onclick = () => this.go(this.stage - 1);
    root.querySelector(".on").onclick = () => this.go(this.stage + 1);
    root.querySelector(".save").onclick = () =>
      saveCanvas(this.table.cells, `${this.picture.title} (${this.picture.stages[this.stage].title})`, `${this.picture.file}.stage${this.stage}`, this.theme);
    this.table.cells.onkeydown = (event) => this.key(event);
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.key_ = picture.key;
    this.range.max = picture.stages.length - 1;
    this.range.style.setProperty("--stops", picture.stages.length);
    this.stage = Math.max(0, Math.min(this.stage, picture.stages.length - 1));
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".chip").style.background = headColour(picture.head);
    const names = this.root.querySelector(".names");
    names.replaceChildren();
    picture.stages.forEach((stage, i) => {
      const button = put(names, "button", "", stage.name);
      Object.assign(button, { type: "button", title: stage.title, onclick: () => this.go(i) });
    });
    this.tip.hidden = true;
    this.width = 0;
    this.layout();
    const { site, head, query, key } = picture;
    Object.assign(this.root.dataset, { site, head, query, key, painted: (Number(this.root.dataset.painted) || 0) + 1 });
  }

  layout() {
    const width = this.root.clientWidth;
    if (!this.picture || !width || width === this.width) return;
    this.width = width;
    this.draw();
  }

  go(stage) {
    if (stage < 0 || stage >= this.picture.stages.length || stage === this.stage) return;
    this.stage = stage;
    this.tip.hidden = true;
    this.draw();
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.tell({ stage: this.stage }), TELL_AFTER);
  }

  // A click on a row chooses its key; the picture follows at once, the sentences when Python has answered.
  choose(index) {
    if (this.stage === 8) return;
    this.key_ = index;
    this.draw();
    this.tell({ query: this.picture.query, key: index });
  }

  key(event) {
    const { indices } = this.picture, step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") return this.go(this.stage + (event.key === "ArrowLeft" ? -1 : 1));
    const next = step && indices[indices.indexOf(this.key_) + step];
    if (next === undefined || this.stage === 8) return undefined;
    event.preventDefault();
    return this.choose(next);
  }

  draw() {
    const { picture, stage } = this, { name, title, sentence, formula } = picture.stages[stage];
    this.range.value = stage;
    this.root.querySelector(".back").disabled = stage === 0;
    this.root.querySelector(".on").disabled = stage === picture.stages.length - 1;
    [...this.root.querySelectorAll(".names button")].forEach((button, i) => button.toggleAttribute("aria-current", i === stage));
    const said = this.root.querySelector(".sentence");
    said.replaceChildren();
    put(said, "b", "", /[?!]$/.test(title) ? `${title} ` : `${title}. `);
    said.append(sentence);
    setFormula(this.root.querySelector(".formula"), formula);
    this.chain();
    this.table.show(stage === 8 ? this.headsTable(title) : this.keysTable(title), this.theme);
    this.root.querySelector(".note").textContent = this.note();
    Object.assign(this.root.dataset, { stage, name });
  }

  // The chosen weight's numbers from the raw product to the share, each lit when its stage is reached.
  chain() {
    const { picture, stage } = this, { arrays } = picture, row = picture.indices.indexOf(this.key_), chain = this.root.querySelector(".chain");
    chain.replaceChildren();
    put(chain, "span", "token", `${picture.queryLabel[0]} → ${picture.keyLabels[row][0]}`);
    for (const [name, title, from] of LINKS) {
      const value = arrays[name][row], link = put(chain, "span", "link", `${title} = ${brief4(value)}`);
      link.classList.toggle("reached", stage >= from);
      link.classList.toggle("now", stage === from);
      Object.assign(link.dataset, { name, value: exact(value) });
      link.title = plain(value);
    }
  }

  keysTable(title) {
    const { picture, stage } = this, { arrays, d_head, d_model, indices } = picture, n = indices.length;
    const columns = SHOWN_AT[stage].map((id) => {
      const column = COLUMNS[id], scale = picture.scales[column.scale], strip = column.kind === "strip";
      const drop = column.drop && this.main(id) ? 0 : column.drop;
      return { ...column, id, scale, drop, note: strip && scale ? `${column.note(picture)}, ±${brief(scale)}` : column.note(picture) };
    });
    const part = (values, i, size) => values.subarray(i * size, (i + 1) * size), strip = (name) => (i) => part(arrays[name], i, d_head);
    const take = {
      a: (i) => part(arrays.memory, i, d_model), k: strip("k"), products: strip("products"), scaled: strip("scaled"), v: strip("v"), parts: strip("parts"),
    };
    const rows = indices.map((index, i) => ({
      label: picture.keyLabels[i], mark: "row", index, place: i, blocked: picture.blocked[i],
      cells: Object.fromEntries(SHOWN_AT[stage].map((id) => [id, take[id] ? take[id](i) : arrays[id][i]])),
    }));
    rows[0].aside = "is read";
    const top = { label: picture.queryLabel, mark: "top", aside: "reads", cells: stage === 0 ? { a: arrays.a } : stage === 1 ? { a: arrays.a, k: arrays.q } : { k: arrays.q } };
    const feet = [];
    const left = picture.n_keys - n;
    if (left && stage >= 6) feet.push({ label: [`${left} others`, "", true], mark: "foot", cells: { parts: arrays.rest } });
    if (stage === 7) feet.push({ label: ["b", "", false], mark: "foot", cells: { parts: arrays.b } });
    if (stage === 1 || stage === 2 || stage === 3) columns.find((c) => c.id === "k").title = "q (top), k";
    return { columns, rows: [top, ...rows, ...feet], names: "token", chosen: this.key_, lines: this.lines, label: `${picture.title}. ${title}` };
  }

  // The column a stage is about stays even where there is little room.
  main(id) {
    return { 0: ["a"], 1: ["k", "v"], 2: ["products", "raw"], 3: ["scaled", "scores"], 4: ["scores", "masked"], 5: ["masked"], 6: ["v"] }[this.stage]?.includes(id);
  }

  headsTable(title) {
    const { picture } = this, { headScales, d_head, d_model } = picture, rows = headRows(picture);
    const columns = [
      { id: "head_out", title: "b of each head", note: `${d_head} numbers each, ±${brief(headScales.head_out)}`, kind: "strip", scale: headScales.head_out, min: 80, grow: 1, max: 300, drop: 1 },
      { id: "added", title: "b · W_O", note: `${d_model} numbers, ±${brief(headScales.added)}`, kind: "strip", scale: headScales.added, min: 110, grow: 3 },
      { id: "norm", title: "length", note: "of the vector", kind: "length", scale: Math.max(...rows.map((row) => row.cells.norm)), min: 96 },
    ];
    return { columns, rows, names: "head", chosen: picture.head, lines: this.lines, label: `${picture.title}. ${title}` };
  }

  get lines() {
    const { picture } = this;
    return Math.max(picture.indices.length + 2 + (picture.n_keys > picture.indices.length ? 1 : 0), picture.n_heads + 3);
  }

  note() {
    const pooled = this.table.columns.some((c) => c.kind === "strip" && this.longest(c) > c.width * this.table.ratio);
    const face = pooled ? " Where a strip has more numbers than pixels, a pixel shows the largest." : "";
    return `${this.picture.shown} Blue is above 0, orange below, ± the strongest colour. Point at a strip for exact numbers; click a row to choose it.${face}`.trim();
  }

  longest(column) {
    return Math.max(...this.table.table.rows.map((row) => row.cells[column.id]?.length ?? 0));
  }

  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot?.column;
    if (tip.hidden) return;
    const [what, why] = this.stage === 8 ? this.sayHead(spot) : this.sayKey(spot);
    tip.querySelector(".what").textContent = what;
    tip.querySelector(".value").textContent = plain(spot.value);
    tip.querySelector(".why").textContent = why;
    Object.assign(tip.dataset, { column: spot.column.id, cell: spot.cell ?? "", value: exact(spot.value), line: spot.line, head: picture.head });
    placeTip(tip, this.root, event);
  }

  sayHead({ row, column, cell }) {
    return [`${row.label[0]}, ${column.title}${cell === undefined ? "" : `, number ${cell + 1}`}`, ""];
  }

  // What the number under the pointer is, and how it comes from others.
  sayKey({ row, column, cell }) {
    const { arrays, d_head, blocked } = this.picture, at = row.place * d_head + cell, d = cell + 1;
    const vector = row.mark === "top" && column.id === "k" ? "q" : row.mark === "foot" ? row.label[0] : column.title;
    const what = `${row.label[0]}: ${column.id === "k" && row.mark === "row" ? "k" : vector}${cell === undefined ? "" : `, number ${d}`}`;
    if (row.mark !== "row") return [what, ""];
    const why = {
      products: () => `= q ${plain(arrays.q[cell])} × k ${plain(arrays.k[at])}`,
      scaled: () => `= ${plain(arrays.products[at])} / √${d_head}`,
      parts: () => `= weight ${plain(arrays.weights[row.place])} × v ${plain(arrays.v[at])}`,
      raw: () => `the sum of ${d_head} products`,
      scores: () => `= ${plain(arrays.raw[row.place])} / √${d_head}`,
      masked: () => (blocked[row.place].length ? `blocked by: ${blocked[row.place].join(", ")}` : "open: the score stays"),
      weights: () => (blocked[row.place].length ? `blocked by: ${blocked[row.place].join(", ")}` : `exp(${brief(arrays.masked[row.place])}) / Σ`),
    }[column.id];
    return [what, why ? why() : ""];
  }
}

const brief4 = (value) => (value === -Infinity ? "−∞" : value.toFixed(4).replace("-", "−"));

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".walk");
  const view = (root.view ??= new Walk(root));
  view.tell = (news) => setTriggerValue("news", news);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
