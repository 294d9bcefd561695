// The effect of a forced token: what the model would have written and what it writes now, with their differences marked.
class Fork {
  constructor(box) {
    this.box = box;
  }

  show({ free, serial, forced, how }) {
    this.box.replaceChildren();
    this.box.hidden = !free;
    if (!free) return;
    this.line("free", `Original (${how})`, free.written, free.shared, []);
    this.line("forced", forced.length > 1 ? "With your tokens" : "With your token", serial.written, free.sharedByForced, forced);
  }

  line(name, title, tokens, shared, forced) {
    const line = put(this.box, "p", name);
    put(line, "span", "who", `${title}: `);
    tokens.forEach((label, i) => {
      const token = put(line, "span", `token${shared[i] ? "" : " differs"}${forced.includes(i) ? " taken" : ""}`, label[0]);
      if (forced.includes(i)) token.title = `forced at position ${i + 1}`;
      put(line, "span", "", " ");
    });
  }
}
