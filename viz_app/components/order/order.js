// Tokens in the order of their prediction. A drag moves one to another turn, and so do the arrow keys; a click shows its prediction.
const THRESHOLD = 6; // px; less is a click

class InOrder {
  constructor(root) {
    this.root = root;
    this.row = root.querySelector(".row");
    const answer = root.querySelector(".answer");
    this.parts = { heading: answer.querySelector("h3"), from: answer.querySelector(".from"), fact: answer.querySelector(".fact") };
    this.bars = new Bars(answer, null);
    this.rest = put(answer, "p", "rest quiet");
    this.reads = new ReadRow(root.querySelector(".reading"));
    this.visibility = [0, 1].map(() => new Visibility(root.querySelector(".seen"), (position) => this.send({ position })));
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme, send) {
    const names = JSON.stringify(picture.tokens);
    if (names !== this.names || String(picture.order) === String(this.pending)) this.pending = undefined; // another text, or it has arrived
    Object.assign(this, { picture, theme, names, send });
    const { root, parts } = this, { answer, arrays } = picture;
    root.querySelector("h2").textContent = picture.title;
    root.querySelector(".said").textContent = picture.summary;
    if (this.drag) this.stop();
    this.order = this.pending ?? [...picture.order];
    this.chips();
    parts.heading.textContent = answer.title;
    parts.from.textContent = answer.from;
    parts.fact.textContent = answer.fact;
    this.rest.textContent = answer.rest;
    this.bars.show(answer.rows.map(([id, label, mark], i) => ({ id, label, mark, p: arrays.p[i], rank: arrays.ranks[i] })));
    this.reads.show(picture.reading, arrays.weights, arrays.allowed, theme);
    this.width = 0;
    this.layout();
    Object.assign(root.dataset, {
      order: picture.order.join(" "),
      position: picture.position,
    });
    countPaint(root);
  }

  layout() {
    const width = this.root.clientWidth;
    if (!this.picture || !width || width === this.width) return;
    this.width = width;
    const { picture, theme } = this, { tokens, position, axes, arrays, order } = picture, turns = [];
    order.forEach((place, turn) => (turns[place] = turn));
    const room = this.visibility[0].section.clientWidth;
    picture.streams.forEach(([role, title], i) =>
      this.visibility[i].show(
        { title, allowed: arrays[role], tokens, turns, position, axes, picture: { ...picture, file: `${picture.file}.${role}` } },
        theme,
        room,
      )
    );
  }

  chips() {
    const { tokens, arrays, expected, position } = this.picture, current = this.row.getRootNode().activeElement;
    const focused = this.row.contains(current) ? Number(current.dataset.position) : null;
    const buttons = children(this.row, this.order.length, () => this.chip());
    this.order.forEach((place, turn) => {
      const button = buttons[turn], [name, bits, guess] = button.children, label = tokens[place];
      button.dataset.position = place;
      button.dataset.bits = exact(arrays.surprisal[place]);
      button.classList.toggle("special", label[2]);
      button.toggleAttribute("aria-current", place === position);
      name.textContent = shorten(label[0], 18);
      bits.textContent = `${place + 1} · ${arrays.surprisal[place].toFixed(1)} bits`;
      guess.textContent = `${shorten(expected[place][0], 12)} ${decimals(arrays.best[place])}`;
      button.title = `${label[0]}, position ${place + 1}, predicted in turn ${turn + 1}: ${
        exact(arrays.surprisal[place])
      } bits; expected first: ${expected[place][0]}, probability ${exact(arrays.best[place])}. Drag it, or move it with the arrow keys.`;
    });
    if (focused !== null) this.of(focused)?.focus();
  }

  of(position) {
    return [...this.row.children].find((button) => Number(button.dataset.position) === position);
  }

  chip() {
    const button = put(this.row, "button", "place");
    button.type = "button";
    put(button, "b");
    put(button, "small");
    put(button, "i");
    const step = (by) => () => this.move(Number(button.dataset.position), [...this.row.children].indexOf(button) + by);
    useKeys(button, { ArrowLeft: step(-1), ArrowRight: step(1) });
    button.onpointerdown = (event) => this.start(event, button);
    button.onpointermove = (event) => this.follow(event);
    button.onpointerup = () => this.end();
    button.onpointercancel = () => this.stop();
    button.onclick = (event) => {
      if (event.detail === 0 || !this.dropped) this.send({ position: Number(button.dataset.position) }); // 0: from the keyboard
      this.dropped = false;
    };
  }

  start(event, button) {
    if (event.button !== 0) return;
    this.dropped = false;
    this.drag = { position: Number(button.dataset.position), x: event.clientX, y: event.clientY, from: [...this.order], moving: false };
    button.setPointerCapture(event.pointerId);
  }

  // The dragged token takes the turn of the one under the pointer; the new order is sent when it is dropped.
  follow(event) {
    const { drag } = this;
    if (!drag) return;
    drag.moving ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > THRESHOLD;
    if (!drag.moving) return;
    const to = this.under(event.clientX, event.clientY);
    if (to >= 0 && this.order[to] !== drag.position) this.place(drag.position, to);
    this.markDragged();
  }

  under(x, y) {
    return [...this.row.children].findIndex((button) => {
      const box = button.getBoundingClientRect();
      return x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
    });
  }

  place(position, turn) {
    this.order = this.order.filter((other) => other !== position);
    this.order.splice(turn, 0, position);
    this.chips();
  }

  markDragged() {
    for (const button of this.row.children) {
      button.classList.toggle("dragged", Boolean(this.drag?.moving) && Number(button.dataset.position) === this.drag.position);
    }
  }

  end() {
    const { drag } = this;
    if (!drag) return;
    this.drag = undefined;
    this.dropped = drag.moving;
    this.markDragged();
    if (drag.moving && String(drag.from) !== String(this.order)) this.ask();
  }

  stop() {
    this.order = this.drag?.from ?? this.order;
    this.drag = undefined;
    this.chips();
    this.markDragged();
  }

  // To another turn; false if there is no such turn.
  move(position, turn) {
    if (turn < 0 || turn >= this.order.length) return false;
    this.place(position, turn);
    this.of(position).focus();
    this.ask();
  }

  ask() {
    this.pending = [...this.order];
    this.send({ order: this.pending });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".order");
  const view = (root.view ??= new InOrder(root));
  view.show(unpack(data), themeOf(root), (pick) => setTriggerValue("pick", pick));
  return () => view.watcher.disconnect();
}
