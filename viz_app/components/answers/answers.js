// What a model expects along a text: the places, the distribution at the chosen one, and the attention row of the token that answers.
class Answers {
  constructor(root) {
    this.root = root;
    this.strip = new Strip(root.querySelector(".strip"));
    this.bars = new Bars(root.querySelector(".list"), null);
  }

  show(picture, theme, send) {
    const { root } = this, write = (selector, text) => (root.querySelector(selector).textContent = text);
    if (this.waiting === picture.position) this.waiting = undefined;
    write("h3", picture.title);
    this.strip.show(picture, theme, (position) => {
      if (position === this.waiting) return;
      this.waiting = position;
      this.strip.mark(position);
      send({ position });
    });
    if (this.waiting !== undefined && this.waiting < picture.places.length) this.strip.mark(this.waiting);    // on its way to Python
    const [least, most, how] = picture.scale;
    write(".least", least);
    write(".most", most);
    write(".how", how);
    write(".summary", picture.summary);
    root.querySelector(".ramp").style.background = `linear-gradient(to right, ${theme.ramp.filter((_, i) => i % 32 === 1).concat([theme.ramp[255]]).map(css)})`;
    this.answer(picture, write);
    this.reading(picture, theme, write);
    Object.assign(root.dataset, { position: picture.position, kind: picture.kind, painted: (Number(root.dataset.painted) || 0) + 1 });
  }

  answer({ answer, arrays }, write) {
    write(".answer h4", answer.title);
    write(".fact", answer.fact);
    write(".rest", answer.rest);
    this.bars.show(answer.rows.map(([id, label, mark], i) => ({ id, label, mark, p: arrays.p[i], rank: arrays.ranks[i] })));
  }

  reading({ reading, arrays }, theme, write) {
    write(".reading h4", reading.title);
    write(".note", reading.note);
    const boxes = children(this.root.querySelector(".keys"), reading.keys.length, (parent) => {
      const box = put(parent, "span");
      put(box, "b");
      put(box, "small");
    });
    boxes.forEach((box, k) => {
      const label = reading.keys[k], weight = arrays.weights[k], open = arrays.allowed[k];
      box.className = `read${label[2] ? " special" : ""}${k === reading.own ? " reads" : ""}`;
      box.dataset.state = open ? "open" : "masked";
      box.dataset.weight = open ? exact(weight) : "";
      box.children[0].textContent = shorten(label[0], 18);
      box.children[1].textContent = open ? weight.toFixed(2) : "\u00a0";
      if (open) paint(box, weight, theme);
      else box.style.background = box.style.color = "";
      box.title = open ? `${label[0]}: weight ${exact(weight)}${label[1] ? `; ${label[1]}` : ""}` : `${label[0]}: masked (${reading.blocked[k].join(", ")})`;
    });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".answers");
  const view = (root.view ??= new Answers(root));
  view.show(unpack(data), themeOf(root), (pick) => setTriggerValue("pick", pick));
}
