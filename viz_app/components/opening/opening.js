// The progress of a model that is being opened. The server is asked for it over its own route, and the page runs again when the
// model is ready. That rerun sends the value of every box of the page, so it waits until the browser has shown all of the last one:
// a box that does not yet have the value that Python set would be taken for a choice of the user.
const LAST = "live"; // the component that a rerun shows last
const LOOK = 50; // ms between two checks whether it is shown
const LOOKS = 200; // a rerun that has not ended after this many has failed
const RETRY = 1000; // ms after a request that was not answered

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

class Opening {
  constructor(root) {
    this.bar = root.querySelector("progress");
    this.text = root.querySelector("span");
  }

  show(data, tell) {
    Object.assign(this, data, { tell, isGone: false });
    this.draw(data);
    if (!this.isAsking) this.ask();
  }

  draw({ share, progress }) {
    this.bar.value = share;
    this.text.textContent = progress;
  }

  async ask() {
    this.isAsking = true;
    let answer = await this.answer();
    while (!this.isGone && answer && !answer.ready) {
      this.draw(answer);
      answer = await this.answer();
    }
    if (!answer) await pause(RETRY);
    await this.shown();
    this.isAsking = false;
    if (!this.isGone) this.tell();
  }

  async answer() {
    try {
      const response = await fetch(`${this.path}/${this.number}`, { headers: { Authorization: `Bearer ${this.token}` } });
      return response.ok ? await response.json() : undefined;
    } catch {
      return undefined; // the server has stopped, or the page is being left
    }
  }

  async shown() {
    for (let look = 0, held = 0; held < 2 && look < LOOKS && !this.isGone; look++) {
      await pause(LOOK);
      const last = pictures.get(LAST);
      const isShown = last && !older(last.edition, this.edition) && !document.querySelector("[data-testid=stSkeleton]");
      held = isShown ? held + 1 : 0;
    }
  }

  leave() {
    this.isGone = true;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".opening");
  const view = (root.view ??= new Opening(root));
  view.show(data, () => setTriggerValue("ready", true));
  return () => view.leave();
}
