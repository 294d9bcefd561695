// Runs side by side, each with its classes as bars; a click on a run's name opens it.
class Classes {
  constructor(root) {
    this.root = root;
    this.runs = [];
    offerPage(root, () => {
      const { picture, theme } = this;
      return [picture.title, picture, theme, picture.runs.map(({ title }, i) => this.runs[i].bars.part(title))];
    });
  }

  show(picture, theme, send) {
    Object.assign(this, { picture, theme });
    const { root } = this, { runs, arrays } = picture, box = root.querySelector(".runs");
    root.querySelector("h2").textContent = picture.title;
    root.querySelector(".note").textContent = picture.note;
    while (this.runs.length > runs.length) this.runs.pop().section.remove();
    while (this.runs.length < runs.length) this.runs.push(runBox(box));
    let start = 0;
    runs.forEach((run, i) => {
      const { section, choose, title, whose, bars, score } = this.runs[i], first = start;
      Object.assign(section.dataset, { name: run.name, chosen: run.chosen });
      [title.textContent, whose.textContent, score.textContent] = [run.title, run.whose, run.score];
      choose.disabled = run.chosen;
      choose.setAttribute("aria-pressed", run.chosen);
      choose.title = run.chosen ? "" : `Open ${run.name}`;
      choose.onclick = () => send({ name: run.name });
      bars.show(run.rows.map(([id, label, mark], j) => ({ id, label, mark, p: arrays.p[first + j], rank: arrays.ranks[first + j] })));
      start += run.rows.length;
    });
    countPaint(root);
  }
}

function runBox(parent) {
  const section = put(parent, "section", "run"), choose = put(section, "button", "choose");
  choose.type = "button";
  const title = put(choose, "b"), whose = put(choose, "span", "quiet");
  return { section, choose, title, whose, bars: new Bars(section, null), score: put(section, "p", "score quiet") };
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".classes");
  const view = (root.view ??= new Classes(root));
  view.show(unpack(data), themeOf(root), (pick) => setTriggerValue("pick", pick));
}
