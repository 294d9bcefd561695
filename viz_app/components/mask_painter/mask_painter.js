// The whole page: small masks, the one to paint on, and what painting does. What is pointed at in one picture of a kind
// is framed in the others of that kind.
class Masks {
  constructor(root) {
    this.root = root;
    this.tip = root.querySelector(".tip");
    this.strip = new Strip(root.querySelector(".strip"), { kind: (kind) => this.sendKind({ kind }) });
    this.brush = new Brush(root.querySelector(".painting"), root.querySelector(".forms"), {
      hover: (spot, event) => this.hover(spot, event, "mask"),
      paint: (kind, cells) => this.sendPaint({ kind, cells }),
      enlarge: (spot) => this.enlarge(spot, this.picture),
    });
    this.effect = new Effect(root.querySelector("section.effect"), {
      hover: (spot, event) => this.hover(spot, event, "effect"),
      enlarge: (spot) => this.enlarge(spot, this.picture.effect),
    });
    this.all = root.querySelector(".all");
    this.all.onclick = () => this.sendTile({});
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.size = "";
    this.tell(picture.story);
    this.spot = null;
    this.tip.hidden = true;
    this.all.hidden = picture.block > 1 || (picture.queries.length === picture.size[0] && picture.keys.length === picture.size[1]);
    this.layout();
    const { kind, effect, arrays } = picture;
    Object.assign(this.root.dataset, {
      kind,
      site: effect.site,
      head: effect.head,
      before: effect.sums[0],
      after: effect.sums[1],
      wrote: effect.outputs[1],
    });
    countPaint(this.root);
    this.root.values = arrays;
  }

  // The part of a long text around the middle of a block; for a row or a column, around the middle of that.
  enlarge(spot, { block, size, queries, keys }) {
    if (!spot || block === 1) return;
    const middle = (i, n, all) => Math.min(all - 1, Math.floor(((i ?? (n - 1) / 2) + 0.5) * block));
    this.sendTile({ query: middle(spot.query, queries.length, size[0]), key: middle(spot.key, keys.length, size[1]) });
  }

  tell(story) {
    const box = this.root.querySelector(".story");
    box.replaceChildren();
    for (const line of story) put(box, "p", "", line);
  }

  layout() {
    const width = this.root.clientWidth, size = [width, this.root.clientHeight, scaleOf()].join();
    if (!this.picture || !width || size === this.size) return;
    Object.assign(this, { width, size });
    const { picture, theme } = this;
    this.strip.show(picture.strip, picture.arrays.strip, picture.kind, theme);
    this.brush.show(picture, theme);
    this.effect.show(picture.effect, picture.arrays, theme);
    const { board } = this.brush;
    Object.assign(this.root.dataset, { left: board.left, top: board.top, wide: board.wide, tall: board.tall });
    this.brush.read(this.spot);
    this.size = [width, this.root.clientHeight, scaleOf()].join(); // what is drawn may itself have made the page taller
  }

  hover(spot, event, where) {
    this.spot = spot;
    const linked = this.picture.kind === this.picture.effect.kind;
    this.brush.mark(where === "mask" || linked ? spot : null);
    this.effect.mark(where === "effect" || linked ? spot : null);
    if (where === "mask" || linked) this.brush.read(spot);
    this.point(spot, event, where);
  }

  point(spot, event, where) {
    const { tip } = this;
    tip.hidden = !event || spot?.query === undefined || spot?.key === undefined;
    if (tip.hidden) return;
    const { queries, keys } = where === "mask" ? this.picture : this.picture.effect;
    const open = where === "mask" ? this.brush.open(spot.query, spot.key) : true, some = this.picture.block > 1 ? " some of " : " ";
    tip.querySelector(".query").textContent = queries[spot.query][0];
    tip.querySelector(".key").textContent = keys[spot.key][0];
    tip.querySelector(".verb").textContent = where === "mask"
      ? (open ? ` may attend to${some}` : ` may not attend to${some.replace("some", "any")}`)
      : " attends to ";
    const why = tip.querySelector(".why");
    why.replaceChildren();
    for (const line of where === "mask" ? this.reasons(spot, open) : this.numbers(spot)) put(why, "div", "", line);
    placeTip(tip, this.root, event);
  }

  reasons(spot, open) {
    const why = this.brush.why(spot.query, spot.key);
    return [...(why.length ? why : ["no layer blocks it"]), open ? "True, adds 0 to its score" : "False, adds −∞ to its score"];
  }

  numbers({ query, key }) {
    const { effect, arrays } = this.picture, i = query * effect.keys.length + key;
    const valueText = (value, blocked) => (blocked ? "blocked" : plain(value)),
      [largest, furthest] = effect.block > 1 ? ["largest ", "furthest "] : ["", ""];
    return [
      `${largest}before: ${valueText(arrays.before[i], arrays.blockedBefore[i])}`,
      `${largest}after: ${valueText(arrays.after[i], arrays.blockedAfter[i])}`,
      `${furthest}difference: ${plain(arrays.difference[i])}`,
    ];
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".masks");
  const view = (root.view ??= new Masks(root));
  view.sendPaint = (stroke) => setTriggerValue("paint", stroke);
  view.sendKind = (kind) => setTriggerValue("kind", kind);
  view.sendTile = (tile) => setTriggerValue("tile", tile);
  view.show(unpack(data), themeOf(root));
  return () => view.watcher.disconnect();
}
