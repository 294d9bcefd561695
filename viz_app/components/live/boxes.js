// The boxes that texts are typed into. Streamlit's take a text when Ctrl+Enter is pressed or the box is left; here they also take it when
// typing has paused. Enter hands a text over at once where no text of the model holds a line break, and pasted lines become one.
const BREAKS = /\s*\n\s*/g;

class Boxes {
  constructor() {
    this.resting = new WeakMap();
    document.addEventListener("input", ({ target }) => isBox(target) && this.rest(target));
    document.addEventListener("keydown", (event) => isBox(event.target) && this.enter(event), true);
    document.addEventListener("paste", (event) => isBox(event.target) && this.paste(event), true);
  }

  // `pause` ms of rest, in the boxes of these `fields`; in all others, at every key. `lines` is true if texts may have line breaks.
  follow({ fields, pause, lines }) {
    Object.assign(this, { fields, pause, lines });
  }

  rest(box) {
    const isField = this.fields.some((name) => box.closest(`.st-key-${CSS.escape(name)}`));
    clearTimeout(this.resting.get(box));
    this.resting.set(box, setTimeout(() => this.hand(box), isField ? this.pause : 0));
  }

  hand(box) {
    clearTimeout(this.resting.get(box));
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));
  }

  enter(event) {
    if (event.key !== "Enter" || this.lines || event.ctrlKey || event.metaKey || event.isComposing) return;
    event.preventDefault();
    this.hand(event.target);
  }

  paste(event) {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (this.lines || !text.includes("\n")) return;
    event.preventDefault();
    document.execCommand("insertText", false, text.trim().replace(BREAKS, " "));
  }
}

const isBox = (element) => element.tagName === "TEXTAREA";
