// The buttons, and the keys P (present) and K (keep beside). How a page presents is in style.css and common.css, which depend on `data-present` of the document.
const THANKS = 2500; // ms for which the button says that the link is copied
const CHARTS = "[data-testid=stVegaLiteChart], [data-testid=stPlotlyChart]";
const SETTLED = 1000; // ms until the output of a run is on the page

class Tools {
  constructor(root) {
    this.root = root;
    this.button = root.querySelector(".present");
    this.copy = root.querySelector(".copy");
    this.byHand = root.querySelector(".by-hand");
    this.button.onclick = () => this.toggle();
    this.pin = root.querySelector(".pin");
    this.pin.onclick = () => this.togglePin();
    this.copy.onclick = () => this.copyLink();
    useKeys(root, { Escape: () => (this.byHand.hidden ? false : this.close()) });
    this.onKey = (event) => this.key(event);
    this.onWindow = () => this.measure();
    this.glossary = new Glossary(root.querySelector(".glossary"));
    this.skip = new SkipLink();
    this.name("Copy link");
  }

  show({ presents, fields, pinned, pins, size, longest }, tell) {
    Object.assign(this, { presents, fields, pinned, size, longest, tell });
    document.documentElement.toggleAttribute("data-present", presents);
    this.button.textContent = presents ? "End" : "Present";
    this.button.title = presents
      ? "Back to the normal size (key P). Page Down and Page Up, as on a presenter's remote, turn to the next and the previous page"
      : "Larger type, for a projector (key P)";
    this.button.setAttribute("aria-pressed", presents);
    this.pin.textContent = pinned ? "Unpin" : "Pin";
    this.pin.title = pinned ? "Show the current run alone (key K)" : "Keep this run beside the next ones, on every page (key K)";
    this.pin.setAttribute("aria-pressed", pinned);
    this.pin.disabled = !pins;
    document.removeEventListener("keydown", this.onKey);
    document.addEventListener("keydown", this.onKey);
    document.documentElement.addEventListener("windowsize", this.onWindow);
    clearTimeout(this.settling);
    this.settling = setTimeout(this.onWindow, SETTLED); // a rerun that interrupts another can leave its controls empty
    this.glossary.start(); // so that a pointer that rests meanwhile also gets an answer
    this.skip.start();
  }

  end() {
    this.glossary.end();
    this.skip.end();
    document.removeEventListener("keydown", this.onKey);
    document.documentElement.removeEventListener("windowsize", this.onWindow);
    clearTimeout(this.settling);
  }

  // Charts are drawn on the server, which knows the window that the page was opened in (first_paint.js). Without a chart nothing would
  // be drawn otherwise.
  measure() {
    const size = document.documentElement.dataset.window;
    if (size && this.size !== size && document.querySelector(CHARTS)) this.tell("window", { size });
  }

  toggle() {
    this.tell("present", !this.presents);
  }

  togglePin() {
    if (!this.pin.disabled) this.tell("pin", !this.pinned);
  }

  // P and K, unless someone is typing. The focused element may be inside a component.
  key(event) {
    const held = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.repeat || event.defaultPrevented;
    const typed = event.composedPath()[0].closest?.(
      "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])",
    );
    if (held || typed) return;
    if (this.presents && Object.hasOwn(PAGES_ON, event.key) && turn(PAGES_ON[event.key])) event.preventDefault();
    if (event.key === "p") this.toggle();
    if (event.key === "k") this.togglePin();
  }

  async copyLink() {
    const link = linkOf(location.href, this.fields), field = this.byHand.querySelector("input");
    if (link.length > this.longest) return this.answer("Text too long"); // for a link that opens
    this.byHand.hidden = false; // a hidden field cannot be selected
    const done = await copied(link, field);
    if (done) this.close();
    this.answer(done ? "Link copied" : "Copy link");
  }

  // Shows this on the button for a moment.
  answer(text) {
    this.name(text);
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

// The keys that a presenter's remote sends, and by how many pages each turns.
const PAGES_ON = { PageDown: 1, PageUp: -1 };

// To the page this many after this one in the navigation; false if there is none.
function turn(by) {
  const links = [...document.querySelectorAll("[data-testid=stTopNavLink]")].filter((link) => link.checkVisibility());
  const at = links.findIndex((link) => link.getAttribute("aria-current") === "page"), next = links[at + by];
  if (at < 0 || !next) return false;
  next.click();
  return true;
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".tools");
  const view = (root.view ??= new Tools(root));
  view.show(data, setTriggerValue);
  return () => view.end();
}
