// The choice of a model: a text box that searches names and descriptions, and under it the models in groups. Enter takes the model
// of that name, else the first match; text that looks like the path of a folder is taken as typed.
const ROOM = 8; // px between the menu and the edge of the window
const WIDEST = 460, TALLEST = 520; // px, of the menu
const PATH = /[/\\]|^~|^\.{1,2}$/;

class Picker {
  constructor(root) {
    this.root = root;
    [this.box, this.menu, this.list] = ["input", ".menu", "[role=listbox]"].map((name) => root.querySelector(name));
    [this.detail, this.none] = ["#detail", ".none"].map((name) => root.querySelector(name));
    this.box.onfocus = () => this.box.select();
    this.box.onclick = () => this.open();
    this.box.oninput = () => this.open(this.box.value);
    this.box.onblur = () => this.close();
    this.menu.onpointerdown = (event) => event.preventDefault(); // the box keeps the focus
    useKeys(this.box, {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Enter: () => this.enter(),
      Escape: () => this.close(),
    });
  }

  show({ value, groups, takesPaths }, send) {
    const isTyping = this.isOpen && this.value === value;
    Object.assign(this, { value, groups, takesPaths, send });
    this.models = groups.flatMap(({ options }) => options);
    const chosen = this.models.find(({ name }) => name === value);
    this.detail.title = chosen?.detail ?? "";
    this.detail.textContent = this.detail.title.split(" · ")[0]; // what it does; all of it on hover and in the menu
    this.box.placeholder = takesPaths ? "Search, or type a folder" : "Search";
    if (!isTyping) this.close();
  }

  open(searched = "") {
    this.list.replaceChildren();
    this.shown = [];
    const words = searched.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { title, options } of this.groups) {
      const matches = options.filter(({ name, detail }) => {
        const text = `${title} ${name} ${detail}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
      if (matches.length) this.group(title, matches);
    }
    const isPath = this.takesPaths && PATH.test(searched);
    const hint = this.takesPaths ? "Pick one from the list, or type the path of a folder." : "Pick one from the list.";
    this.none.textContent = this.shown.length ? "" : isPath ? "Press Enter to open this folder." : `No model called “${searched}”. ${hint}`;
    this.activate(searched ? this.first(searched) : this.models.findIndex(({ name }) => name === this.value));
    this.place();
  }

  // What Enter takes: the model of this name, else the first whose name contains the text, else the first match.
  first(searched) {
    const exact = this.shown.findIndex(({ dataset }) => dataset.name === searched);
    const named = this.shown.findIndex(({ dataset }) => dataset.name.includes(searched));
    return exact >= 0 ? exact : Math.max(named, 0);
  }

  group(title, options) {
    const group = put(this.list, "div"), heading = put(group, "b", "quiet", title);
    heading.id = `group-${this.list.children.length}`;
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", heading.id);
    for (const { name, label, detail } of options) {
      const option = put(group, "div");
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", name === this.value);
      Object.assign(option, { id: `option-${this.shown.length}`, onclick: () => this.pick(name) });
      option.dataset.name = name;
      put(option, "b", "", label);
      put(option, "span", "quiet", detail);
      this.shown.push(option);
    }
  }

  activate(index) {
    this.active = Math.min(Math.max(index, 0), this.shown.length - 1);
    this.shown.forEach((option, i) => option.toggleAttribute("data-active", i === this.active));
    this.box.setAttribute("aria-activedescendant", this.shown[this.active]?.id ?? "");
    if (this.isOpen) this.shown[this.active]?.scrollIntoView({ block: "nearest" });
  }

  move(by) {
    if (this.isOpen) this.activate((this.active + by + this.shown.length) % Math.max(this.shown.length, 1));
    else this.open();
  }

  enter() {
    if (!this.isOpen) return this.open();
    const typed = this.box.value.trim(), isTyped = typed !== this.value;
    const exact = this.models.some(({ name }) => name === typed);
    if (isTyped && !exact && this.takesPaths && PATH.test(typed) && !this.shown.length) this.pick(typed);
    else if (this.shown.length) this.pick(this.shown[this.active].dataset.name);
  }

  pick(name) {
    this.close();
    this.box.value = name;
    if (name !== this.value) this.send({ name });
  }

  close() {
    this.isOpen = false;
    if (this.menu.matches(":popover-open")) this.menu.hidePopover();
    this.box.setAttribute("aria-expanded", false);
    this.box.removeAttribute("aria-activedescendant");
    const value = this.value ?? "";
    this.box.value = this.models.find(({ name }) => name === value)?.label ?? value.split(/[/\\]/).filter(Boolean).pop() ?? value;
    this.box.title = this.box.value === value ? "" : value; // the folder of a path; all of it on hover and in the menu
  }

  place() {
    if (!this.menu.matches(":popover-open")) this.menu.showPopover();
    this.isOpen = true;
    this.box.setAttribute("aria-expanded", true);
    const { left, top, bottom, width } = this.box.getBoundingClientRect();
    const wide = Math.min(Math.max(width, WIDEST), innerWidth - 2 * ROOM);
    const below = innerHeight - bottom, isBelow = below >= Math.min(TALLEST, top);
    Object.assign(this.menu.style, {
      left: `${Math.min(left, innerWidth - wide - ROOM)}px`,
      top: isBelow ? `${bottom + 4}px` : "auto",
      bottom: isBelow ? "auto" : `${innerHeight - top + 4}px`,
      width: `${wide}px`,
      maxHeight: `${Math.min(TALLEST, (isBelow ? below : top) - 2 * ROOM)}px`,
    });
    this.shown[this.active]?.scrollIntoView({ block: "nearest" });
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".picker");
  const view = (root.view ??= new Picker(root));
  view.show(data, (pick) => setTriggerValue("pick", pick));
}
