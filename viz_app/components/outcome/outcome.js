// The answer before and after a change: both texts with their first difference, the tokens to choose a decision from, and one distribution.
class Outcome {
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(`.${name}`);
    root.style.setProperty("--differs", "#D55E00");
    const box = this.part("decisions");
    offerPage(root, () => {
      const { picture, theme } = this, { asked, options } = picture, columns = ["before", "after"];
      const part = { name: asked, rows: options.map(({ label }) => label[0]), columns, value: (r, c) => options[r][columns[c]] };
      return [asked, picture, theme, [part]];
    });
    useKeys(box, { ArrowLeft: () => stepIn(box, -1), ArrowRight: () => stepIn(box, 1) });
  }

  show(picture, theme, send) {
    Object.assign(this, { picture, theme });
    writeAnswers(this.part("answers"), picture.answers);
    this.part("verdict").textContent = picture.verdict;
    this.part("which").textContent = picture.which;
    this.part("decisions").setAttribute("aria-label", picture.which);
    offerDecisions(this.part("decisions"), picture.decisions, (position) => send({ position }));
    this.distribution(picture);
    this.part("fact").textContent = picture.fact;
    countPaint(this.root);
  }

  distribution({ asked, option, options }) {
    const table = this.part("distribution"), body = table.tBodies[0];
    table.caption.textContent = asked;
    table.rows[0].cells[0].textContent = option;
    body.replaceChildren();
    for (const { label, before, after, chosen } of options) {
      const row = put(body, "tr", chosen ? "chosen" : "");
      put(row, "td", "", shorten(label[0], 18));
      for (const p of [before, after]) {
        const cell = put(row, "td", "share"), track = put(cell, "span", "track");
        put(track, "i").style.width = `${100 * p}%`;
        put(cell, "span", "", decimals(p));
        cell.dataset.p = exact(p);
      }
    }
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".outcome");
  const view = (root.view ??= new Outcome(root));
  view.show(data, themeOf(root), (pick) => setTriggerValue("pick", pick));
}
