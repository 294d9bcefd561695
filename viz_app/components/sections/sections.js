// Disables the sections of a page that the model lacks, each with the reason on hover. They stay focusable, so that a screen reader
// reads the reason too; Streamlit's control has no such state.
const STOPPED = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "keydown"];

class Sections {
  constructor() {
    this.watcher = new MutationObserver(() => this.mark());
    this.stop = (event) => {
      const passes = event.type === "keydown" && event.key !== "Enter" && event.key !== " ";
      if (passes || !event.target.closest?.("[data-lacks]")) return;
      event.stopPropagation();
      event.preventDefault();
    };
  }

  show({ control, reasons }) {
    this.end();
    this.place = document.querySelector(`.st-key-${control}`);
    this.reasons = reasons;
    if (!this.place) return;
    for (const type of STOPPED) this.place.addEventListener(type, this.stop, true);
    this.watcher.observe(this.place, { childList: true, subtree: true });
    this.mark();
  }

  mark() {
    for (const button of this.place.querySelectorAll("button[data-variant], button[data-testid^=stBaseButton], [role=radio]")) {
      const reason = this.reasons[button.textContent.trim()];
      if ((button.dataset.lacks ?? "") === (reason ?? "")) continue;
      button.toggleAttribute("data-lacks", Boolean(reason));
      if (reason) Object.assign(button.dataset, { lacks: reason });
      button.title = reason ?? "";
      if (reason) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
  }

  end() {
    this.watcher.disconnect();
    for (const type of STOPPED) this.place?.removeEventListener(type, this.stop, true);
  }
}

function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".sections");
  const view = (root.view ??= new Sections());
  view.show(data);
  return () => view.end();
}
