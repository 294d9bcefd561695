// All heads of a model as a table for each kind of attention: a cell says what one edit of that head does to the answer.
// A click switches the head off or on again; a drag to the side, or the keys ← and →, scale what it passes on.
const PER_FACTOR = 60; // px of a drag that change the factor by 1
const MOST_FACTOR = 2, KEY_STEP = 0.25, DRAG_STEP = 0.1;

class Board {
  constructor(root) {
    this.root = root;
    this.tables = root.querySelector(".kinds");
    offerPage(root, () => {
      const { picture, theme } = this, { title, unit, kinds } = picture;
      return [title, picture, theme, headParts(kinds, unit, ({ effects }, row, head) => effects[row][head])];
    });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme, ramp: signedRamp(theme) });
    const { root } = this, { title, sentence, legend, largest, unit, kinds } = picture;
    root.querySelector(".title").textContent = title;
    root.querySelector(".sentence").textContent = sentence;
    root.querySelector(".legend").hidden = !legend;
    root.querySelector(".least").textContent = `${scaleEnd("−", largest)} ${unit}`;
    root.querySelector(".most").textContent = `${scaleEnd("+", largest)} ${unit}`;
    root.querySelector(".says").textContent = legend;
    root.querySelector(".key").style.background = `linear-gradient(to right, ${this.ramp.css.join(",")})`;
    const shape = JSON.stringify(kinds.map(({ sites, heads }) => [sites, heads]));
    if (shape !== this.shape) this.cells = headTables(this.tables, kinds, (...of) => this.cell(...of));
    this.shape = shape;
    kinds.forEach((kind, k) => kind.sites.forEach((site, row) => this.fill(kind, k, site, row)));
    countPaint(root);
  }

  cell(place, site, head) {
    const button = put(place, "button");
    button.type = "button";
    Object.assign(button.dataset, { site, head });
    button.onclick = () => (this.dragged ? (this.dragged = false) : this.switched(site, head));
    const scale = (by) => () => this.scaled(site, head, this.factorOf(site, head) + by);
    useKeys(button, { ArrowRight: scale(KEY_STEP), ArrowLeft: scale(-KEY_STEP) });
    button.onpointerdown = (event) => this.drag(button, site, head, event);
    return button;
  }

  fill({ effects, states, notes, title, layers }, k, site, row) {
    this.cells[k][row].forEach((button, head) => {
      const effect = effects[row][head], state = states[row][head], { css, inks } = this.ramp;
      button.hidden = state === null;
      if (state === null) return;
      const code = effect === null ? SIGNED_STEPS : signedCode(effect, this.picture.largest);
      const note = notes?.[row][head] ?? { mark: "", says: "" };
      const shown = state.factor === 1 ? (effect === null ? "" : brief(effect) + note.mark) : state.label;
      Object.assign(button, { textContent: shown, className: state.factor === 1 ? "" : state.factor === 0 ? "changed off" : "changed" });
      Object.assign(button.style, state.factor === 0 ? { background: "", color: "" } : { background: css[code], color: inks[code] });
      button.setAttribute("aria-pressed", state.factor !== 1);
      const about = `${title}, layer ${layers[row]}, head ${head + 1}`,
        effectText = effect === null ? "" : `: ${plain(effect)} ${this.picture.unit}${note.says}`;
      const { scales = true } = this.picture;
      const how = state.factor === 1
        ? `Click to switch it off${scales ? "; drag, or ← and →, to scale it" : ""}.`
        : `Now: ${state.says}. Click to undo${scales ? "; ← and → scale it" : ""}.`;
      button.title = `${about}${effectText}. ${how}`;
      button.setAttribute("aria-label", `${about}${effectText}${state.factor === 1 ? "" : `. ${state.says}`}`);
      button.dataset.effect = effect === null ? "" : exact(effect);
      button.dataset.factor = state.factor;
    });
  }

  state(site, head) {
    for (const { sites, states } of this.picture.kinds) if (sites.includes(site)) return states[sites.indexOf(site)][head];
  }

  factorOf(site, head) {
    return this.state(site, head).factor;
  }

  switched(site, head) {
    this.tell({ site, head, off: this.factorOf(site, head) === 1 });
  }

  scaled(site, head, factor) {
    this.tell({ site, head, factor: Math.max(-MOST_FACTOR, Math.min(MOST_FACTOR, factor)) });
  }

  drag(button, site, head, start) {
    const before = this.factorOf(site, head);
    let factor = before;
    const move = (event) => {
      const by = Math.round((event.clientX - start.clientX) / (PER_FACTOR * DRAG_STEP)) * DRAG_STEP;
      if (!this.dragged && Math.abs(event.clientX - start.clientX) < 6) return;
      this.dragged = true;
      factor = Math.round(10 * Math.max(-MOST_FACTOR, Math.min(MOST_FACTOR, before + by))) / 10;
      button.textContent = `×${brief(factor)}`;
    };
    const end = () => {
      button.removeEventListener("pointermove", move);
      if (this.dragged && factor !== before) this.scaled(site, head, factor);
    };
    this.dragged = false;
    button.setPointerCapture(start.pointerId);
    button.addEventListener("pointermove", move);
    button.addEventListener("pointerup", end, { once: true });
    button.addEventListener("pointercancel", end, { once: true });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".board");
  const view = (root.view ??= new Board(root));
  view.tell = (event) => setTriggerValue("pick", event);
  view.show(data, themeOf(root));
}
