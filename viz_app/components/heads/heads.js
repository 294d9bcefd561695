// What each head adds to the residual stream at one token: the parts of Concat, each times its rows of W_O, how long it is and
// which way it points. A click on a row chooses the head.
const SPARE = 40; // px that a walk needs for its steps

class Heads {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.table = new Table(root.querySelector(".stage"), {
      hover: (spot, event) => this.point(spot, event),
      click: (index) => this.tell({ head: index }),
    });
    offerCanvas(root.querySelector(".files"), () => this.table.save(this.picture.title, this.picture), () => [root, this.picture]);
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.root.querySelector(".title").textContent = picture.title;
    this.root.querySelector(".sentence").textContent = picture.sentence;
    this.tip.hidden = true;
    this.width = 0;
    this.layout();
    const { site, head, query } = picture;
    Object.assign(this.root.dataset, { site, head, query });
    countPaint(this.root);
  }

  layout() {
    const width = this.root.clientWidth;
    if (!this.picture || !width || width === this.width) return;
    this.width = width;
    const { arrays, n_heads, title } = this.picture, rows = headRows(this.picture), n = this.picture.queries.length;
    rows.slice(0, n_heads).forEach((row, h) =>
      Object.assign(row.cells, {
        along_total: arrays.along_total[h],
        ...(arrays.along_residual && { along_residual: arrays.along_residual[h] }),
        between: arrays.between.subarray(h * n_heads, (h + 1) * n_heads),
        lengths: arrays.lengths.subarray(h * n, (h + 1) * n),
      })
    );
    this.table.show({ columns: this.columns(), rows, names: "head", chosen: this.picture.head, label: title, spare: SPARE }, this.theme);
    this.root.querySelector(".note").textContent =
      "Blue is above 0, orange below; ± is the number with the strongest colour. “Length” is the vector's; cosine 1 = same direction, 0 = at right angles, −1 = opposite. " +
      `${arrays.residual ? "“Added to” is the residual stream. " : ""}Point at anything for exact numbers; click a row to choose that head.`;
  }

  columns() {
    const { headScales, n_heads, d_head, d_model, longest: peak, queries, arrays } = this.picture;
    const all = [
      {
        id: "head_out",
        title: "Concat: b",
        note: `${d_head} numbers, ±${brief(headScales.head_out)}`,
        kind: "strip",
        scale: headScales.head_out,
        min: 80,
        grow: 1,
        max: 240,
        drop: 3,
      },
      {
        id: "added",
        title: "b · W_O",
        note: `${d_model} numbers, ±${brief(headScales.added)}`,
        kind: "strip",
        scale: headScales.added,
        min: 100,
        grow: 2,
        max: 520,
        drop: 1,
      },
      { id: "norm", title: "length", note: "what it adds", kind: "length", scale: headScales.length, min: 96 },
      { id: "along_total", title: "with output", note: "cosine", kind: "number", scale: 1, min: 74 },
      { id: "along_residual", title: "with stream", note: "cosine", kind: "number", scale: 1, min: 74 },
      {
        id: "between",
        title: "other heads",
        note: "cosine",
        kind: "strip",
        scale: 1,
        min: Math.min(120, 20 * n_heads),
        drop: 4,
        size: n_heads,
      },
      {
        id: "lengths",
        title: "at each token",
        note: `length, 0 to ${brief(peak)}`,
        kind: "strip",
        colours: "weights",
        scale: peak,
        min: Math.min(160, 8 * queries.length),
        grow: 1,
        max: 300,
        drop: 2,
      },
    ];
    return all.filter(({ id }) => id !== "along_residual" || arrays.along_residual);
  }

  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot?.column;
    if (tip.hidden) return;
    const { row, column, cell } = spot;
    const what = {
      between: () => `${row.label[0]} with head ${cell + 1}, cosine`,
      lengths: () => `${row.label[0]} at ${picture.queries[cell][0]}: length of what it adds`,
      along_total: () => `${row.label[0]} with the sublayer's output, cosine`,
      along_residual: () => `${row.label[0]} with the residual stream, cosine`,
      norm: () => `${row.label[0]}: length`,
    }[column.id];
    tip.querySelector(".what").textContent = what ? what() : `${row.label[0]}, ${column.title}, number ${cell + 1}`;
    tip.querySelector(".value").textContent = plain(spot.value);
    Object.assign(tip.dataset, { column: column.id, line: spot.line, cell: cell ?? "", value: exact(spot.value) });
    placeTip(tip, this.root, event);
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".heads");
  const view = (root.view ??= new Heads(root));
  view.tell = (event) => setTriggerValue("pick", event);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
