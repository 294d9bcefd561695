// A link for each model, with its training and size folded away below it; for the open model, which has no link, a marked box with
// everything visible. Masks are small matrices: the row attends to the column; filled cells are allowed, hatched ones blocked.
const CELL = 9;

class Cards {
  constructor(root) {
    this.root = root;
  }

  show({ groups, none, more, python, arrays }, theme) {
    let from = 0;
    this.root.replaceChildren(...groups.map(({ title, cards }) => {
      const section = document.createElement("section");
      put(section, "h2", "", title);
      const grid = put(section, "div", "grid");
      for (const card of cards) from = this.card(grid, card, { title, none, more }, arrays.cells, from, theme);
      return section;
    }));
    if (python) this.root.prepend(this.reference(python));
    countPaint(this.root);
  }

  reference({ label, href }) {
    const line = Object.assign(document.createElement("p"), { className: "python" });
    Object.assign(put(line, "a", "", label), { href, target: "_blank" });
    return line;
  }

  // Returns where the next card's cells begin.
  card(grid, card, { title, none, more }, cells, from, theme) {
    const isOpen = card.href === undefined; // without a page to open, it is ""
    const box = put(grid, "div", isOpen ? "box open" : "box"), presents = document.documentElement.hasAttribute("data-present");
    const link = put(box, card.href ? "a" : "div", "card");
    if (card.href) Object.assign(link, { href: card.href + (presents ? "&present=1" : ""), target: "_self" });
    link.dataset.name = card.name;
    put(link, "span", "name", card.name);
    if (card.family !== title) put(link, "p", "family", card.family);
    put(link, "p", "purpose", card.purpose);
    for (const line of card.shown ?? []) put(link, "p", "shown", line);
    const masks = put(link, "div", "masks");
    if (!card.masks.length && !card.shown) put(masks, "span", "none", none);
    for (const [name, says, rows, cols] of card.masks) {
      const figure = put(masks, "figure");
      put(figure, "figcaption", "quiet", name);
      const canvas = put(figure, "canvas"), [context, ratio] = sized(canvas, cols * CELL, rows * CELL);
      const codes = Uint8Array.from(cells.subarray(from, from + rows * cols), (open) => (open ? 150 : 0));
      paintCodes(context, codes, rows, cols, 0, 0, Math.round(cols * CELL * ratio), Math.round(rows * CELL * ratio), theme, 5);
      context.scale(ratio, ratio);
      context.strokeStyle = theme.line;
      for (let r = 0; r <= rows; r++) context.strokeRect(0, 0, cols * CELL, r * CELL);
      for (let k = 0; k <= cols; k++) context.strokeRect(0, 0, k * CELL, rows * CELL);
      canvas.title = says;
      const allowed = cells.subarray(from, from + rows * cols), numbers = (n) => Array.from({ length: n }, (_, i) => String(i + 1));
      const value = (r, k) => (allowed[r * cols + k] ? "allowed" : "masked");
      describe(canvas, { name: says, rows: numbers(rows), columns: numbers(cols), value });
      canvas.dataset.cells = [...allowed].join("");
      from += rows * cols;
    }
    put(link, "p", "scores", card.scores ?? "");
    const rest = isOpen ? link : put(box, "details");
    if (!isOpen) put(rest, "summary", "quiet", more);
    for (const name of ["sizes", "made", "licence"]) put(rest, "p", name, card[name] ?? "");
    return from;
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".cards");
  const view = (root.view ??= new Cards(root));
  view.show(unpack(data), themeOf(root));
}
