// The answer before and after a change: both texts with their first difference, the tokens to ask about, and one distribution.
class Outcome {
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(`.${name}`);
    root.style.setProperty("--differs", "#D55E00");
    useKeys(this.part("decisions"), { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) });
  }

  // The keyboard to the next token; false where there is none.
  step(by) {
    const all = [...this.part("decisions").children], next = all[all.indexOf(this.root.getRootNode().activeElement) + by];
    if (!next) return false;
    next.focus();
  }

  show(picture, send) {
    Object.assign(this, { picture, send });
    this.answers(picture.answers);
    this.part("verdict").textContent = picture.verdict;
    this.part("which").textContent = picture.which;
    this.part("decisions").setAttribute("aria-label", picture.which);
    this.decisions(picture.decisions);
    this.distribution(picture);
    this.part("fact").textContent = picture.fact;
    this.root.dataset.painted = (Number(this.root.dataset.painted) || 0) + 1;
  }

  answers(answers) {
    const box = this.part("answers");
    box.replaceChildren();
    for (const { whose, words, from } of answers) {
      put(box, "span", "whose", whose);
      const line = put(box, "span", "text");
      words.forEach((word, i) => {
        if (i) put(line, "span", "", " ");
        put(line, "span", from >= 0 && i >= from ? "token differs" : "token", word);
      });
    }
  }

  decisions(decisions) {
    const box = this.part("decisions"), all = box.children;
    while (all.length > decisions.length) box.lastChild.remove();
    while (all.length < decisions.length) {
      const button = put(box, "button");
      button.type = "button";
      put(button, "b");
      put(button, "small");
    }
    decisions.forEach(({ label, change, chosen }, i) => {
      const button = all[i], [token, number] = button.children;
      token.textContent = shorten(label[0], 16);
      number.textContent = change === null ? "" : brief(change);
      button.title = [label[0], label[1], change === null ? "" : `${plain(change)} nats`].filter(Boolean).join(", ");
      button.setAttribute("aria-pressed", chosen);
      button.dataset.change = change === null ? "" : exact(change);
      button.onclick = () => this.send({ position: i });
    });
  }

  distribution({ asked, options }) {
    const table = this.part("distribution"), body = table.tBodies[0];
    table.caption.textContent = asked;
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
  view.show(data, (pick) => setTriggerValue("pick", pick));
}
