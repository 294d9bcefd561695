// Several heads at once: all of their kind, sorted, on the left, the lines of the ticked ones on the right.
const LISTED = 4;

class Several {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.ranking = new Ranking(root.querySelector(".ranking"), {
      head: (head) => this.tell({ head }),
      measure: (measure) => this.tell({ measure }),
    });
    this.strands = new Strands(root.querySelector(".strands"), {
      point: (spot, event) => this.point(spot, event),
      query: (query) => this.tell({ query: query < 0 ? -1 : query * this.picture.block }),
    });
    const of = () => {
      const names = this.picture.chosen.map((number) => this.picture.heads[number].name).join(", ");
      return [this.strands.svg, `${this.picture.title}; layer.head ${names}`, this.picture, this.theme];
    };
    offer(root.querySelector(".files"), of);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const heading = this.root.querySelector(".title");
    heading.textContent = heading.title = picture.title;
    this.tip.hidden = true;
    this.ranking.show(picture, theme);
    this.strands.show(picture, theme);
    this.describe(picture);
    const { block } = picture,
      blocks = block > 1 ? `Each line is the largest of ${block} × ${block} weights; the other ${block * block - 1} are hidden. ` : "";
    this.root.querySelector(".note").textContent =
      `${blocks}Click a heading to sort the heads. Tick up to ${picture.most} to draw their lines, each in its own colour and line style. Weights under ${FAINT} have no line. ` +
      "Click a query token, or press ↑ or ↓, to pin its lines.";
    const { kind, measure, query, chosen } = picture;
    Object.assign(this.root.dataset, {
      kind,
      measure,
      query,
      chosen: chosen.join(" "),
    });
    countPaint(this.root);
  }

  // The lines as a table for each ticked head.
  describe({ chosen, heads, queries, keys, arrays }) {
    const size = queries.length * keys.length;
    const parts = chosen.map((number, n) => ({
      name: `Head ${heads[number].name}: from each query token to the key tokens it attends to`,
      rows: positions(queries),
      columns: positions(keys),
      value: (r, c) => arrays.weights[n * size + r * keys.length + c],
    }));
    if (parts.length) describe(this.strands.svg, ...parts);
  }

  // For each head, the tokens that this token attends to most, or those that attend to it most.
  point(spot, event) {
    const { tip, picture } = this;
    tip.hidden = !spot;
    if (!spot) return;
    const { queries, keys, chosen, heads, arrays } = picture, reads = spot.side === "query", size = queries.length * keys.length;
    const [own, others] = reads ? [queries, keys] : [keys, queries];
    tip.querySelector(".what").textContent = `${own[spot.index][0]} ${reads ? "attends to" : "is attended to by"}`;
    const table = tip.querySelector("table");
    table.replaceChildren(...chosen.map((number, n) => {
      const row = document.createElement("tr"),
        weight = (i) => arrays.weights[n * size + (reads ? spot.index * keys.length + i : i * keys.length + spot.index)];
      const best = others.map((_, i) => i).sort((i, j) => weight(j) - weight(i)).slice(0, LISTED);
      put(row, "td", "", heads[number].name);
      for (const i of best) put(row, "td", "", `${others[i][0]} ${weight(i).toFixed(2)}`);
      row.dataset.value = best.length ? exact(weight(best[0])) : "";
      return row;
    }));
    placeTip(tip, this.root, event);
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".several");
  const view = (root.view ??= new Several(root));
  view.tell = (event) => setTriggerValue("news", event);
  view.show(unpack(data), themeOf(root));
  return () => view.strands.watcher.disconnect();
}
