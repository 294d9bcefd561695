// The beam and, under it, the node chosen in it: what it had read, what it expected, where its attention went.
class Beam {
  constructor(root) {
    this.root = root;
    this.tree = new Tree(root.querySelector("svg"), (step, rank) => this.pick({ step, rank }));
    const detail = root.querySelector(".detail");
    this.lead = detail.querySelector(".lead");
    put(detail, "div", "what", "What the model expected at this node, and the token it stands for:");
    this.bars = new Bars(detail, null);
    this.cross = new Chips(detail, "cross");
    this.self = new Chips(detail, "self");
    offer(root.querySelector(".files"), () => [this.tree.svg, "Beam search: the hypotheses kept at each step, with their scores", this.picture, this.theme]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.tree.show(picture, theme);
    const [step, rank] = picture.node, node = picture.steps[step][rank];
    this.root.querySelector(".note").textContent =
      `Best at the top; the number is the score, log-probability / ((5 + length) / 6)^α with α = ${picture.alpha}. Thick: the path of the best. Click a node.`;
    this.say(node, step, rank);
    this.follow(step);
    const { ids, p, cross, self } = picture.arrays;
    this.bars.show(Array.from(ids, (id, n) => ({ id, label: picture.candidates[n], p: p[n], mark: id === picture.taken ? "this node" : "", rank: 0 })));
    this.cross.hide(!cross);
    this.self.hide(!self);
    if (cross) this.cross.show(`${picture.cross}: what it read from ${picture.sourceName} (${picture.reading})`, picture.source, cross, theme);
    if (self) this.self.show(`Self-attention: what it read from its own text (${picture.reading})`, picture.read, self, theme);
    Object.assign(this.root.dataset, { step: step + 1, rank: rank + 1, painted: (Number(this.root.dataset.painted) || 0) + 1 });
  }

  // Brings the node into sight without moving the page.
  follow(step) {
    const scroll = this.root.querySelector(".tree-scroll"), left = this.tree.x(step);
    if (left < scroll.scrollLeft || left + NODE.wide > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = left + NODE.across - scroll.clientWidth;
  }

  say(node, step, rank) {
    this.lead.replaceChildren();
    const say = (text, className) => put(this.lead, "span", className, text);
    say(`Step ${step + 1}, place ${rank + 1}: `);
    say(node.text || "(no text yet)", "token");
    say(node.ended ? " [end]. " : " … ");
    say(`Log-probability ${signed(node.logProb)} nats over ${node.n} ${node.n === 1 ? "token" : "tokens"}, score ${signed(node.score)}.`);
    if (node.carried) say(" It had ended before this step and only waits in the beam.", "quiet");
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".beam");
  const view = (root.view ??= new Beam(root));
  view.pick = (choice) => setTriggerValue("node", choice);
  view.show(unpack(data), themeOf(root));
}
