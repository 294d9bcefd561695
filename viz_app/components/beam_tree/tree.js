// The tree itself: a column for each step, the best hypothesis at the top; a line joins each to the one it grew from.
const NODE = { wide: 74, tall: window.innerWidth <= 760 ? 40 : 34, across: 104, down: 44, left: 8, top: 24 }; // px: as tall as a finger on a phone
const CLOSE = 92; // px: across, where everything is drawn larger

class Tree {
  constructor(svg, choose) {
    Object.assign(this, { svg, choose });
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    const { steps } = picture, most = Math.max(...steps.map((kept) => kept.length));
    this.scale = scaleOf();
    this.across = this.scale > 1 ? CLOSE : NODE.across;
    const width = NODE.left * 2 + (steps.length - 1) * this.across + NODE.wide, height = NODE.top + most * NODE.down;
    const held = this.svg.contains(this.svg.getRootNode().activeElement); // the keyboard focus stays in a tree that is redrawn
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.style.cssText = `width:${width * this.scale}px;height:${height * this.scale}px`;
    steps.forEach((kept, s) => {
      this.draw("text", { x: this.x(s) + NODE.wide / 2, y: 13, "text-anchor": "middle", "font-size": 12, fill: theme.quiet }, `step ${s + 1}`);
      kept.forEach((node, rank) => s && this.edge(node, s, rank));
    });
    steps.forEach((kept, s) => kept.forEach((node, rank) => this.node(node, s, rank)));
    const columns = Array.from({ length: most }, (_, rank) => `rank ${rank + 1}`),
      of = (node) => node && `${node.text || "(no text yet)"} ${signed(node.score)}`;
    const name = "The hypotheses of the beam at each step, best at the top";
    describe(this.svg, { name, rows: steps.map((_, s) => `step ${s + 1}`), columns, value: (s, rank) => of(steps[s][rank]) ?? "" });
    if (held) this.svg.querySelector('g.node[tabindex="0"]').focus();
  }

  draw(tag, attributes, text, parent = this.svg) {
    return putSvg(parent, tag, attributes, text);
  }

  x(step) {
    return NODE.left + step * this.across;
  }

  y(rank) {
    return NODE.top + rank * NODE.down;
  }

  edge(node, step, rank) {
    const from = [this.x(step - 1) + NODE.wide, this.y(node.parent) + NODE.tall / 2], to = [this.x(step), this.y(rank) + NODE.tall / 2];
    const bend = (this.across - NODE.wide) / 2;
    this.draw("path", {
      d: `M${from}C${from[0] + bend} ${from[1]} ${to[0] - bend} ${to[1]} ${to}`,
      fill: "none",
      stroke: node.best ? this.theme.accent : this.theme.quiet,
      "stroke-width": node.best ? 3 : 1.2,
      "stroke-opacity": node.best ? 1 : 0.6,
      ...(node.carried ? { "stroke-dasharray": "3 4" } : {}),
    });
  }

  // With the keyboard to another node; false if there is none.
  go(step, rank) {
    if (!this.picture.steps[step]?.[rank]) return false;
    this.svg.querySelector(`g.node[data-step="${step + 1}"][data-rank="${rank + 1}"]`).focus();
    this.choose(step, rank);
    return true;
  }

  node(node, step, rank) {
    const { theme, picture } = this, chosen = picture.node[0] === step && picture.node[1] === rank;
    const group = this.draw("g", {
      class: "node",
      tabindex: chosen ? 0 : -1,
      role: "button",
      "data-step": step + 1,
      "data-rank": rank + 1,
      "data-score": node.score,
    });
    const x = this.x(step), y = this.y(rank), shade = node.best ? theme.accent : theme.line;
    this.draw(
      "rect",
      {
        x,
        y,
        width: NODE.wide,
        height: NODE.tall,
        rx: 6,
        fill: chosen ? theme.accent : theme.background,
        stroke: shade,
        "stroke-width": node.best || chosen ? 2 : 1.2,
        ...(node.carried ? { "stroke-dasharray": "3 4" } : {}),
      },
      undefined,
      group,
    );
    const ink = chosen ? theme.background : theme.text, centre = x + NODE.wide / 2;
    const label = node.carried ? "ended" : node.label[0];
    this.draw(
      "text",
      {
        x: centre,
        y: y + 14,
        "text-anchor": "middle",
        "font-size": 13,
        fill: ink,
        opacity: node.carried ? 0.6 : 1,
        style: "unicode-bidi: plaintext",
      },
      fit(label, NODE.wide - 8, widthIn(`13px ${theme.font}`)),
      group,
    );
    this.draw("text", { x: centre, y: y + 28, "text-anchor": "middle", "font-size": 12, fill: ink, opacity: 0.8 }, signed(node.score), group);
    this.draw(
      "title",
      {},
      `${node.text || "(nothing yet)"}\nlog-probability ${node.logProb.toFixed(4)} nats, score ${node.score.toFixed(4)}${
        node.ended ? "\nended" : ""
      }`,
      group,
    );
    group.onclick = () => this.choose(step, rank);
    useKeys(group, {
      Enter: group.onclick,
      " ": group.onclick,
      ArrowUp: () => this.go(step, rank - 1),
      ArrowDown: () => this.go(step, rank + 1),
      ArrowLeft: () => this.go(step - 1, node.parent),
      ArrowRight: () => this.go(step + 1, Math.min(rank, (picture.steps[step + 1]?.length ?? 0) - 1)),
    });
  }
}

const signed = (v) => v.toFixed(3).replace("-", "−");
