// One token's way through the layers: the tokens to choose from, all layers of the stack, and one layer in full.
class Layer {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    const on = { tip: (what, event) => this.point(what, event), choose: (site) => this.tell({ site }) };
    this.stops = new Stops(root.querySelector(".all"), on);
    this.vectors = new Vectors(root.querySelector(".one"), on);
    for (const [view, part] of [[this.stops, "layers"], [this.vectors, "layer"]]) {
      const title = () => `${this.picture.title}. ${view.root.querySelector("h3").textContent}`;
      offer(
        view.root.querySelector(".files"),
        () => [view.svg, title(), { ...this.picture, file: `${this.picture.file}.${part}` }, this.theme],
      );
    }
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const heading = this.root.querySelector(".title");
    heading.textContent = heading.title = picture.title;
    this.tip.hidden = true;
    this.tokens();
    this.stops.show(picture, theme);
    this.vectors.show(picture, theme);
    Object.assign(this.root.dataset, {
      position: picture.position,
      layer: picture.oneTitle,
    });
    countPaint(this.root);
  }

  tokens() {
    const line = this.root.querySelector(".tokens"), { tokens, position } = this.picture;
    const buttons = children(line, tokens.length, () => put(line, "button"));
    tokens.forEach(([text, note, special], i) => {
      Object.assign(buttons[i], {
        type: "button",
        textContent: text,
        className: special ? "special" : "",
        title: note,
        onclick: () => this.tell({ token: i }),
      });
      buttons[i].setAttribute("aria-pressed", i === position);
    });
    const chosen = buttons[position];
    line.scrollLeft = Math.max(0, chosen.offsetLeft - line.offsetLeft - line.clientWidth / 2);
  }

  point(what, event) {
    const { tip } = this;
    tip.hidden = !what;
    if (!what) return;
    const [says, value, column, line, cell] = what;
    tip.querySelector(".what").textContent = says;
    tip.querySelector(".value").textContent = plain(value);
    Object.assign(tip.dataset, { column, line, cell: cell ?? "", value: exact(value) });
    placeTip(tip, this.root, event);
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".layer");
  const view = (root.view ??= new Layer(root));
  view.tell = (event) => setTriggerValue("news", event);
  view.show(unpack(data), themeOf(root));
  return () => [view.stops, view.vectors].forEach((one) => one.watcher.disconnect());
}
