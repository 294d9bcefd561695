// The two buttons, and the key P. How a page presents is in style.css and common.css, which ask for `data-present` of the document.
const THANKS = 2500; // ms for which the button says that the link is copied

class Tools {
  constructor(root) {
    this.root = root;
    this.button = root.querySelector(".present");
    this.copy = root.querySelector(".copy");
    this.byHand = root.querySelector(".by-hand");
    this.button.onclick = () => this.toggle();
    this.copy.onclick = () => this.copyLink();
    useKeys(root, { Escape: () => (this.byHand.hidden ? false : this.close()) });
    this.onKey = (event) => this.key(event);
    this.glossary = new Glossary(root.querySelector(".glossary"));
    this.name("Copy link");
  }

  show({ presents, fields }, tell) {
    Object.assign(this, { presents, fields, tell });
    document.documentElement.toggleAttribute("data-present", presents);
    this.button.textContent = presents ? "End (P)" : "Present (P)";
    this.button.title = presents ? "Back to the page with its sidebar" : "Larger type and no sidebar, for a projector";
    this.button.setAttribute("aria-pressed", presents);
    document.removeEventListener("keydown", this.onKey);
    document.addEventListener("keydown", this.onKey);
    this.glossary.end();
    this.glossary.start();
  }

  end() {
    this.glossary.end();
    document.removeEventListener("keydown", this.onKey);
  }

  toggle() {
    this.tell(!this.presents);
  }

  // P, where nobody types. The element that has the keyboard may lie within a component.
  key(event) {
    const held = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.repeat || event.defaultPrevented;
    const typed = event.composedPath()[0].closest?.(
      "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])",
    );
    if (event.key === "p" && !held && !typed) this.toggle();
  }

  async copyLink() {
    const link = linkOf(location.href, this.fields), field = this.byHand.querySelector("input");
    this.byHand.hidden = false; // a field that is not there cannot be selected
    const done = await copied(link, field);
    if (done) this.close();
    this.name(done ? "Link copied" : "Copy link");
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.name("Copy link"), THANKS);
  }

  close() {
    this.byHand.hidden = true;
    this.copy.focus();
  }

  name(text) {
    this.copy.textContent = text;
    this.copy.setAttribute("aria-live", "polite");
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".tools");
  const view = (root.view ??= new Tools(root));
  view.show(data, (isOn) => setTriggerValue("present", isOn));
  return () => view.end();
}
