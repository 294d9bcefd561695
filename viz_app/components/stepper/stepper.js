// Goes through both runs step by step. The payload has all steps; Python is told the step when the slider is released.
const PACE = 900; // ms a step while playing

class Stepper {
  constructor(root) {
    this.root = root;
    this.lanes = new Lanes(root, (step) => this.rest(step));
    this.panels = [
      new Panel(root.querySelector(".panel.parallel"), "parallel", null),
      new Panel(root.querySelector(".panel.serial"), "serial", (id) => this.force(id)),
    ];
    this.fork = new Fork(root.querySelector(".fork"));
    this.cost = new Cost(root.querySelector(".cost"));
    this.story = root.querySelector(".story");
    this.slider = root.querySelector(".slider");
    this.slider.oninput = () => (this.stop(), this.go(this.slider.value - 1));
    this.slider.onchange = () => this.rest(this.slider.value - 1);
    this.playing = null;
    this.button = root.querySelector(".play");
    this.button.onclick = () => (this.playing ? this.rest(this.step) : this.play());
    root.querySelector(".back").onclick = () => this.rest(this.step - 1);
    root.querySelector(".on").onclick = () => this.rest(this.step + 1);
    offer(
      root.querySelector(".cost .files"),
      () => [this.cost.svg, "Multiply-adds of each decoding step", { ...this.picture, file: `${this.picture.file}.work` }, this.theme],
    );
    this.views = Object.fromEntries(["next", "attention", "work"].map((name) => [name, root.querySelector(`.views .${name}`)]));
    for (const [name, button] of Object.entries(this.views)) button.onclick = () => (this.look(name), this.draw());
    this.look("next");
    this.freeButton = root.querySelector(".free");
    this.freeButton.onclick = () => (this.stop(), this.free());
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(root);
  }

  show(picture, theme) {
    Object.assign(this, { picture, theme });
    this.wording = WORDING[picture.family];
    this.root.querySelector(".cost .title").textContent = this.wording.work;
    this.root.querySelector(".cost").hidden = !picture.work;
    this.views.work.hidden = !picture.work;
    this.views.attention.textContent = picture.vectors.length ? "State" : "Attention";
    if (!picture.work && this.root.dataset.view === "work") this.look("next");
    if (this.waiting === picture.step) this.waiting = undefined;
    this.step = this.playing ? this.step : (this.waiting ?? picture.step); // a step on its way to Python is not undone
    this.slider.max = picture.steps;
    this.prompt();
    this.fork.show(picture);
    this.freeButton.disabled = !picture.forced.length;
    this.root.style.setProperty("--differs", DIFFERS);
    this.panels.forEach((panel) => panel.show(picture, theme));
    this.size = "";
    this.layout();
    this.root.dataset.family = picture.family;
    countPaint(this.root);
  }

  // The prompt, which both runs continue; its last token is what they read first.
  prompt() {
    const line = this.root.querySelector(".prompt"), { prompt, parallel } = this.picture;
    line.replaceChildren();
    line.hidden = !prompt.length;
    if (line.hidden) return;
    put(line, "span", "", "Given to both: ");
    [...prompt, parallel.read[0]].forEach((label) => (put(line, "span", "token", label[0]), put(line, "span", "", " ")));
  }

  // Which picture of the step is shown if there is no space for all of them.
  look(view) {
    this.root.dataset.view = view;
    for (const [name, button] of Object.entries(this.views)) button.setAttribute("aria-pressed", name === view);
  }

  layout() {
    const width = this.root.clientWidth, size = [width, scaleOf(), window.innerHeight].join();
    if (!this.picture || !width || size === this.size) return;
    this.size = size;
    this.draw();
  }

  draw() {
    this.lanes.show(this.picture, this.theme);
    this.cost.show(this.picture, this.theme);
    this.go(this.step);
  }

  // Show a step (from 0) without telling Python.
  go(step) {
    this.step = Math.max(0, Math.min(this.picture.steps - 1, Number(step)));
    this.slider.value = this.step + 1;
    this.root.querySelector(".where").textContent = `step ${this.step + 1} of ${this.picture.steps}`;
    this.root.dataset.step = this.step + 1;
    this.lanes.at(this.step);
    this.panels.forEach((panel) => panel.at(this.step));
    this.cost.at(this.step);
    this.tell();
    this.label();
  }

  // Stop at a step and report it.
  rest(step) {
    this.stop();
    this.go(step);
    if (this.picture.step === this.step && this.waiting === undefined) return;
    this.waiting = this.step;
    this.report(this.step);
  }

  play() {
    if (this.step === this.picture.steps - 1) this.go(0);
    this.playing = setInterval(() => {
      if (this.step === this.picture.steps - 1 || !this.root.isConnected) return this.rest(this.step);
      return this.go(this.step + 1);
    }, PACE);
    this.label();
  }

  stop() {
    clearInterval(this.playing);
    this.playing = null;
    this.label();
  }

  label() {
    this.button.textContent = this.playing ? "❚❚ Pause" : this.step === this.picture.steps - 1 ? "↺ Replay" : "▶ Play";
  }

  force(id) {
    this.stop();
    this.waiting = this.step;
    this.take({ position: this.step, id });
  }

  // Says in one sentence whether the two runs are still reading the same.
  tell() {
    const { story, step } = this, { diverges, disagrees, parallel, serial } = this.picture;
    const sameSoFar = diverges < 0 || step < diverges;
    story.replaceChildren();
    const say = (text, tag = "span", className = "") => put(story, tag, className, text);
    if (this.picture.note) say(`${this.picture.note} `, "span", "quiet");
    if (diverges < 0 && step >= serial.n && !serial.ended) {
      return void say(
        `Inference was stopped after ${serial.n} steps, the most it may write ${
          this.picture.prompt.length ? "here" : "for this source"
        }. The given text continues.`,
      );
    }
    if (this.picture.seesAhead && sameSoFar) {
      return void say("So far both have read the same. But a position may attend to later tokens here, so the probabilities may differ.");
    }
    if (diverges < 0 && step >= parallel.n) return void say("The given text has ended. Up to there both read the same tokens.");
    if (sameSoFar && disagrees >= 0 && step >= disagrees) {
      return void say("So far both have read the same. But their probabilities differ, as the checks below show.");
    }
    if (diverges < 0 && disagrees < 0) return void say(this.wording.same);
    const token = (label) => say(label[0], "b", "token");
    if (sameSoFar) return void say("So far both have read the same, and their probabilities agree.");
    say(step === diverges ? "Here is the first difference: " : `They diverged at position ${diverges + 1}: `, "span", "warn");
    say("inference takes ");
    token(serial.written[diverges]);
    say(" where the given text has ");
    token(parallel.given[diverges]);
    say(".");
    return undefined;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".stepper");
  const view = (root.view ??= new Stepper(root));
  view.report = (step) => setTriggerValue("step", { position: step });
  view.take = (choice) => setTriggerValue("force", choice);
  view.free = () => setTriggerValue("free", true);
  view.show(unpack(data), themeOf(root));
  return () => {
    view.watcher.disconnect();
    clearInterval(view.playing);
  };
}
