// Plays the steps from the current one, or from the first if that is the last; stops at the last. The next is requested some
// time after the one before it has arrived with all its pictures, so that a slow machine skips none.
const BEAT = 900; // ms that a step is shown
const LAST = "live"; // the component that a rerun shows last

class Player {
  constructor(root) {
    this.button = root.querySelector("button");
    this.status = root.querySelector("span");
    this.button.onclick = () => (this.isPlaying ? this.pause() : this.play());
  }

  show({ steps, step, edition }, tell) {
    const isNew = step !== this.step || String(steps) !== String(this.steps);
    Object.assign(this, { steps, step, edition, tell });
    const at = steps.indexOf(step);
    this.status.textContent = `${at + 1} of ${steps.length}`;
    if (this.isPlaying && isNew) {
      if (step !== this.pending || at === steps.length - 1) this.pause(); // the slider was moved, or this is the last step
      else this.wait(steps[at + 1]);
    }
    this.name();
  }

  play() {
    const at = this.steps.indexOf(this.step), isLast = at === this.steps.length - 1;
    this.isPlaying = true;
    this.name();
    this.ask(this.steps[isLast ? 0 : at + 1]);
  }

  wait(next) {
    clearTimeout(this.timer);
    const ended = () => !pictures.has(LAST) || !older(pictures.get(LAST).edition, this.edition);
    this.timer = setTimeout(() => (ended() ? this.ask(next) : this.wait(next)), BEAT);
  }

  ask(step) {
    this.pending = step;
    this.tell(step);
  }

  pause() {
    clearTimeout(this.timer);
    this.isPlaying = false;
    this.name();
  }

  name() {
    this.button.textContent = this.isPlaying ? "❚❚ Pause" : "▶ Play";
    this.button.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play the steps of the training");
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".player");
  const view = (root.view ??= new Player(root));
  view.show(data, (step) => setTriggerValue("step", step));
  return () => view.pause();
}
