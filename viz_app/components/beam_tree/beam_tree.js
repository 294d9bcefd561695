// The beam and, under it, the node chosen in it: what it had read, what it expected, where its attention went.
class Beam {
  constructor(root) {
    this.root = root;
    this.tree = new Tree(root.querySelector("svg"), (step, rank) => this.pick({ step, rank }));
    const detail = root.querySelector(".detail");
    this.lead = detail.querySelector(".lead");
    const [expected, read] = [put(detail, "div"), put(detail, "div")];
    put(expected, "div", "what", "What the model predicted at this node, and the token of the node:");
    this.bars = new Bars(expected, null);
    this.cross = new Chips(read, "cross");
    this.self = new Chips(read, "self");
    this.watcher = new ResizeObserver(() => this.resized());
    this.watcher.observe(root);
    offer(
      root.querySelector(".files"),
      () => [this.tree.svg, "Beam search: the hypotheses kept at each step, with their scores", this.picture, this.theme],
    );
  }

  // A presentation begins or ends.
  resized() {
    if (!this.picture || this.tree.scale === scaleOf()) return;
    this.tree.show(this.picture, this.theme);
    this.follow(this.picture.node[0]);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.tree.show(picture, theme);
    const [step, rank] = picture.node, node = picture.steps[step][rank];
    this.root.querySelector(".note").textContent =
      `The beam as a tree: each step keeps the best few texts and drops the rest. Best at the top, with its score; thick: the path of the best. Click a node, or use the arrow keys.`;
    this.say(node, step, rank);
    this.follow(step);
    const { ids, p, cross, self } = picture.arrays;
    this.bars.show(
      Array.from(ids, (id, n) => ({ id, label: picture.candidates[n], p: p[n], mark: id === picture.taken ? "this node" : "", rank: 0 })),
    );
    this.cross.hide(!cross);
    this.self.hide(!self);
    if (cross) {
      this.cross.show(`${picture.cross}: what it attended to in ${picture.sourceName} (${picture.reading})`, picture.source, cross, theme);
    }
    if (self) this.self.show(`Self-attention: what it attended to in its own text (${picture.reading})`, picture.read, self, theme);
    Object.assign(this.root.dataset, { step: step + 1, rank: rank + 1 });
    countPaint(this.root);
  }

  // Brings the node into sight without moving the page.
  follow(step) {
    const scroll = this.root.querySelector(".tree-scroll"), { scale, across } = this.tree, left = this.tree.x(step) * scale;
    const sees = left >= scroll.scrollLeft && left + NODE.wide * scale <= scroll.scrollLeft + scroll.clientWidth;
    if (!sees) scroll.scrollLeft = left + across * scale - scroll.clientWidth;
  }

  say(node, step, rank) {
    this.lead.replaceChildren();
    const say = (text, className) => put(this.lead, "span", className, text);
    say(`Step ${step + 1}, rank ${rank + 1}: `);
    say(node.text || "(no text yet)", "token");
    say(node.ended ? " [end]. " : " … ");
    say(
      `Log-probability ${signed(node.logProb)} nats over ${node.n} ${node.n === 1 ? "token" : "tokens"}; score ${signed(node.score)} = ${
        node.total === node.logProb ? "log-probability" : signed(node.total)
      } / ((5 + ${node.n}) / 6)`,
    );
    put(this.lead, "sup", "", `α = ${this.picture.alpha}`);
    say(node.total === node.logProb ? "." : `. The model's generation settings change the sum to ${signed(node.total)}.`);
    if (node.carried) say(" It had ended before this step and only waits in the beam.", "quiet");
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".beam");
  const view = (root.view ??= new Beam(root));
  view.pick = (choice) => setTriggerValue("node", choice);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
