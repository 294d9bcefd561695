// A table of heads for each kind of attention: a cell says how far a head is from another in bits, coloured up to the largest of all.
// A click shows that pair.
class Distances {
  constructor(root) {
    this.root = root;
    this.tables = root.querySelector(".kinds");
    offerPage(root, () => {
      const { picture, theme } = this, { title, unit, kinds } = picture;
      return [title, picture, theme, headParts(kinds, unit, ({ values }, row, head) => values[row][head])];
    });
  }

  show(picture, theme) {
    const why = this.root.querySelector(".why");
    why.textContent = picture.why;
    why.classList.toggle("bad", Boolean(picture.isError));
    this.root.classList.toggle("unable", Boolean(picture.why));
    if (picture.why) return; // the last picture stays
    Object.assign(this, { picture, theme });
    const { root } = this, { title, sentence, legend, kinds, reasons } = picture;
    root.querySelector(".title").textContent = title;
    root.querySelector(".sentence").textContent = sentence;
    root.querySelector(".says").textContent = legend;
    root.querySelector(".most").textContent = picture.largest.toFixed(2);
    root.querySelector(".key").style.background = rampGradient(theme);
    const shape = JSON.stringify(kinds.map(({ sites, heads, note }) => [sites, heads, note]));
    if (shape !== this.shape) this.cells = headTables(this.tables, kinds, (...of) => this.cell(...of));
    this.shape = shape;
    const { chosen } = picture;
    if (this.waiting?.site === chosen.site && this.waiting.head === chosen.head) this.waiting = undefined;
    kinds.forEach((kind, k) => kind.sites.forEach((site, row) => this.fill(kind, k, site, row)));
    const list = root.querySelector(".reasons");
    list.replaceChildren();
    for (const reason of reasons) put(list, "li", "", reason);
    countPaint(root);
  }

  cell(place, site, head) {
    const button = put(place, "button");
    button.type = "button";
    Object.assign(button.dataset, { site, head });
    button.onclick = () => {
      this.waiting = { site, head };
      this.press();
      this.tell({ site, head });
    };
    return button;
  }

  fill({ values, title, layers }, k, site, row) {
    const { theme, picture: { reference, unit, largest } } = this;
    this.cells[k][row].forEach((button, head) => {
      const value = values[row][head];
      button.hidden = value === null; // a layer may have fewer heads than another
      if (value === null) return;
      const code = weightCode(value / largest);
      button.textContent = value.toFixed(2).replace(/^0\./, ".").replace(/^\.00$/, value === 0 ? "0" : ".00");
      button.className = reference?.site === site && reference.head === head ? "reference" : "";
      Object.assign(button.style, { background: css(theme.ramp[code]), color: theme.on(code) });
      button.dataset.value = exact(value);
      const about = `${title}, layer ${layers[row]}, head ${head + 1}: ${exact(value)} ${unit}`;
      button.title = button.className ? `${about}. All are compared with this head.` : `${about}. Click to see both maps.`;
      button.setAttribute("aria-label", about);
    });
    this.press();
  }

  press() {
    const { site, head } = this.waiting ?? this.picture.chosen;
    for (const button of this.tables.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.dataset.site === site && Number(button.dataset.head) === head);
    }
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".distances");
  const view = (root.view ??= new Distances(root));
  view.tell = (event) => setTriggerValue("pick", event);
  view.show(data, themeOf(root));
}
