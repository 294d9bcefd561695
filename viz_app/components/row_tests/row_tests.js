// One row of weights beside alternative weights for it: a table of bars, a column for each. The first column's bars are dragged, or moved with the
// arrow keys: the rest of its row is rescaled, so that it still sums to 1.
const FEW_KEYS = 11; // with more, the lines are narrower, so that all are visible
const WEIGHT_STEP = 0.05, SAME = 1e-3; // weights: of a key press; taken for equal
const LEAST_MARK = 0.01; // own weights below it have no mark in the other columns

class RowTests {
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(name);
    offerPage(root, () => {
      const { picture, theme } = this,
        { title, keys, columns, allowed } = picture,
        weights = [this.weights, ...columns.slice(1).map((one) => one.weights)];
      const value = (k, c) => (allowed[k] ? weights[c]?.[k] ?? "" : "masked");
      const part = { name: title, rows: keys.map(([text]) => text), columns: columns.map((one) => one.of ?? one.title), value };
      return [title, picture, theme, [part]];
    });
    const box = this.part(".decisions");
    useKeys(box, { ArrowLeft: () => stepIn(box, -1), ArrowRight: () => stepIn(box, 1) });
  }

  show(picture, theme, send) {
    Object.assign(this, { picture, theme, send });
    writeAnswers(this.part(".answers"), picture.answers);
    this.part(".verdict").textContent = picture.verdict;
    offerDecisions(this.part(".decisions"), picture.decisions, (position) => send({ position }));
    this.part(".title").textContent = picture.title;
    this.part("table").setAttribute("aria-label", picture.title);
    const row = JSON.stringify([picture.title, picture.keys]);
    if (row !== this.row) this.waiting = undefined; // weights on their way to Python
    this.row = row;
    this.root.style.setProperty("--row", picture.keys.length > FEW_KEYS ? "15px" : "17px");
    const shape = `${picture.keys.length} ${picture.columns.length}`;
    if (shape !== this.shape) this.build(picture);
    this.shape = shape;
    picture.columns.forEach((column, c) => this.column(column, c));
    picture.keys.forEach(([text, note], k) => {
      const head = this.cells[k].head;
      head.textContent = shorten(text, 14);
      head.title = [text, note].filter(Boolean).join(", ");
    });
    countPaint(this.root);
  }

  build({ keys, columns }) {
    const heads = this.part("thead tr"), body = this.part("tbody"), foot = this.part("tfoot tr");
    for (const part of [heads, body, foot]) part.replaceChildren();
    put(heads, "th", "", "Key").scope = "col";
    put(foot, "th", "", "Answer").scope = "row";
    this.heads = columns.map(() => {
      const head = put(heads, "th");
      head.scope = "col";
      return { name: put(head, "span"), of: put(head, "small") };
    });
    this.cells = keys.map((_, k) => {
      const line = put(body, "tr"), head = put(line, "th");
      head.scope = "row";
      return { head, bars: columns.map((_, c) => this.bar(put(line, "td"), c, k)) };
    });
    this.feet = columns.map(() => {
      const end = put(foot, "td"), text = put(end, "div", "says"), button = put(end, "button");
      button.type = "button";
      return { text, button };
    });
  }

  bar(place, c, k) {
    const box = put(place, "div", "weight"), track = put(box, "span", "track");
    const fill = put(track, "i"), own = put(track, "u"), number = put(box, "span", "number");
    box.dataset.column = c;
    box.dataset.key = k;
    if (c === 0) {
      const by = (step) => () => (this.moves(k) ? this.moved(k, this.weights[k] + step) : false);
      useKeys(box, { ArrowUp: by(WEIGHT_STEP), ArrowRight: by(WEIGHT_STEP), ArrowDown: by(-WEIGHT_STEP), ArrowLeft: by(-WEIGHT_STEP) });
      box.onpointerdown = (event) => this.moves(k) && this.drag(box, track, k, event);
    }
    return { box, fill, own, number };
  }

  column({ name, title, about, weights, of, js, tv, says, search, used, edited }, c) {
    const { words, keys, columns, allowed } = this.picture, own = columns[0].own, head = this.heads[c], { text: place, button } = this.feet[c];
    head.name.textContent = of ?? title;
    head.name.parentElement.title = about;
    const distances = [js === undefined ? "" : `JS ${js.toFixed(3)}`, tv === undefined ? "" : `TV ${tv.toFixed(3)}`].filter(Boolean).join(
      ", ",
    );
    head.of.textContent = c === 0 ? `  ${words.mark}` : distances ? `  ${distances}` : "";
    if (c === 0) weights = this.weights = this.newest(weights);
    keys.forEach((_, k) => this.fill(this.cells[k].bars[c], weights?.[k] ?? null, own[k], allowed[k], c, k));
    place.replaceChildren();
    for (const line of says) put(place, "p", "", line);
    const action = c === 0 ? (edited ? words.undo : "") : search ? words.search : used ? words.used : weights ? words.apply : "";
    button.textContent = action;
    button.hidden = !action;
    button.disabled = Boolean(used);
    Object.assign(button.dataset, { test: name, screenOnly: "" });
    button.setAttribute("aria-label", c === 0 ? action : `${action}: ${of ?? title}`);
    if (used) button.setAttribute("aria-pressed", true);
    else button.removeAttribute("aria-pressed");
    button.onclick = () => {
      if (search) {
        button.textContent = words.searching;
        button.disabled = true;
        this.send({ search: true });
      } else {
        this.waiting = undefined;
        this.send({ weights: c === 0 ? [] : weights });
      }
    };
  }

  fill({ box, fill, own: mark, number }, weight, own, allowed, c, k) {
    const moves = c === 0 && this.moves(k), name = this.picture.keys[k][0], there = weight !== null;
    box.className = ["weight", moves ? "moves" : "", allowed ? "" : "blocked"].filter(Boolean).join(" ");
    fill.style.width = `${100 * (weight ?? 0)}%`;
    mark.style.left = `calc(${100 * own}% - 1px)`;
    mark.hidden = !there || !allowed || own < LEAST_MARK || Math.abs(own - weight) < 1e-6;
    number.textContent = there && allowed ? decimals(weight) : "";
    box.dataset.weight = there ? weight : "";
    box.title = !allowed
      ? `${name}: blocked by the mask`
      : there
      ? `${name}: ${weight.toPrecision(4)}; the model's own ${own.toPrecision(4)}`
      : "";
    if (moves) {
      box.tabIndex = 0;
      for (const [key, value] of Object.entries({ valuemin: 0, valuemax: 1, valuenow: weight.toFixed(3), label: `Weight on ${name}` })) {
        box.setAttribute(`aria-${key}`, value);
      }
      box.setAttribute("role", "slider");
    } else {
      for (const key of ["tabindex", "role", "aria-valuemin", "aria-valuemax", "aria-valuenow", "aria-label"]) box.removeAttribute(key);
    }
  }

  // The user's weights until Python has answered them; an older answer does not undo them.
  newest(weights) {
    if (this.waiting?.every((w, k) => Math.abs(w - weights[k]) < SAME)) this.waiting = undefined;
    return this.waiting ?? weights;
  }

  moves(k) {
    return this.picture.columns[0].moves && this.picture.allowed[k];
  }

  // These weights with this one on key k and the rest in the same proportions, or with an equal rest if the rest is 0.
  withWeight(weights, k, weight) {
    const wanted = Math.max(0, Math.min(1, weight)), { allowed } = this.picture;
    const rest = weights.reduce((sum, w, j) => (j === k ? sum : sum + w), 0);
    if (rest > 1e-9) return weights.map((w, j) => (j === k ? wanted : (w * (1 - wanted)) / rest));
    const n = allowed.filter((open, j) => open && j !== k).length;
    return weights.map((_, j) => (j === k ? wanted : allowed[j] ? (1 - wanted) / n : 0));
  }

  moved(k, weight) {
    const weights = this.withWeight(this.weights, k, weight);
    this.preview(weights);
    this.send({ weights });
  }

  preview(weights) {
    const { columns, allowed } = this.picture;
    this.weights = this.waiting = weights;
    weights.forEach((w, j) => this.fill(this.cells[j].bars[0], w, columns[0].own[j], allowed[j], 0, j));
  }

  drag(box, track, k, start) {
    const at = (event) => {
      const { left, width } = track.getBoundingClientRect();
      return (event.clientX - left) / width;
    };
    const before = this.weights;
    let weights = null;
    const move = (event) => {
      if (!weights && Math.abs(event.clientX - start.clientX) < 3) return;
      weights = this.withWeight(before, k, at(event));
      this.preview(weights);
    };
    const end = () => {
      box.removeEventListener("pointermove", move);
      if (weights) this.send({ weights });
    };
    box.setPointerCapture(start.pointerId);
    box.addEventListener("pointermove", move);
    box.addEventListener("pointerup", end, { once: true });
    box.addEventListener("pointercancel", () => {
      box.removeEventListener("pointermove", move);
      this.preview(before);
      this.waiting = undefined;
    }, { once: true });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".rowtests");
  const view = (root.view ??= new RowTests(root));
  view.show(data, themeOf(root), (event) => setTriggerValue("pick", event));
}
