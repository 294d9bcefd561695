// Explains the field's words and symbols on hover, wherever they are: in prose, in a formula, in a component. The
// entries are on the page (viz_app/words/glossary.py). A user's own text is not explained, nor an element with its own title.
const REST = 200; // ms that the pointer rests before an entry is shown
const OWN = "textarea, input, [title]:not(abbr), .token, .source, .output, button.place, .read, .keys, .chips, .who, svg, canvas";
const FORMULA = ".katex, .formula, [data-formula]";
const TEX = {
  "\\cdot": "·",
  "\\circ": "∘",
  "\\sum": "Σ",
  "\\partial": "∂",
  "\\lambda": "λ",
  "\\alpha": "α",
  "\\infty": "∞",
  "\\sqrt": "√",
  "\\tanh": "tanh",
  "\\exp": "exp",
  "\\ln": "ln",
  "\\top": "^T",
  "\\lVert": "‖",
  "\\rVert": "‖",
  "\\cos": "cos",
  "\\sin": "sin",
  "\\log": "log",
};

class Glossary {
  constructor(tip) {
    this.tip = tip;
    this.onMove = (event) => this.rest(event);
    this.onEnd = () => this.hide();
  }

  start() {
    document.addEventListener("pointermove", this.onMove);
    for (const name of ["scroll", "keydown", "pointerdown"]) document.addEventListener(name, this.onEnd, true);
  }

  end() {
    clearTimeout(this.waiting);
    document.removeEventListener("pointermove", this.onMove);
    for (const name of ["scroll", "keydown", "pointerdown"]) document.removeEventListener(name, this.onEnd, true);
  }

  hide() {
    clearTimeout(this.waiting);
    this.tip.hidden = true;
  }

  rest({ clientX: x, clientY: y }) {
    if (!this.tip.hidden && !inside(this.box, x, y)) this.tip.hidden = true;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.point(x, y), REST);
  }

  point(x, y) {
    const match = meant(deepest(x, y), x, y, this.read ??= entries());
    this.tip.hidden = !match?.entries.length;
    if (this.tip.hidden) return;
    this.box = match.box;
    this.tip.replaceChildren();
    for (const [name, says] of match.entries) {
      const line = put(this.tip, "p");
      put(line, "b", "", name);
      line.append(` ${says}`);
    }
    const { width, height } = this.tip.getBoundingClientRect(), below = match.box.bottom + 6, fits = below + height < innerHeight;
    this.tip.style.left = `${Math.max(4, Math.min(x - 20, innerWidth - width - 8))}px`;
    this.tip.style.top = `${fits ? below : Math.max(4, match.box.top - height - 6)}px`;
  }
}

const inside = (box, x, y) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;

// The innermost element at a point, also inside components.
function deepest(x, y) {
  let element = document.elementFromPoint(x, y);
  for (let next; (next = element?.shadowRoot?.elementFromPoint(x, y)) && next !== element;) element = next;
  return element;
}

// { word: [[name, meaning], …], symbol, letter }; null before the page has them.
function entries() {
  const list = document.querySelector("dl.glossary"), byKind = { word: [], symbol: [], letter: [] };
  if (!list) return null;
  for (const name of list.querySelectorAll("dt")) byKind[name.className].push([name.textContent, name.nextElementSibling.textContent]);
  for (const each of Object.values(byKind)) each.sort((one, other) => other[0].length - one[0].length);
  return byKind;
}

// What is meant at a point: the symbols of a formula, all together, or the one word or symbol there, with the box in which the explanation
// stays; null for an element without any text.
function meant(element, x, y, known) {
  if (!element || !known || element.closest(OWN)) return null;
  const formula = element.closest(FORMULA);
  if (formula) return { entries: inFormula(sourceOf(formula), known), box: formula.getBoundingClientRect() };
  for (const text of element.childNodes) {
    if (text.nodeType !== Node.TEXT_NODE) continue;
    for (const [name, says, start, end] of inProse(text.data, known)) {
      const range = document.createRange();
      range.setStart(text, start);
      range.setEnd(text, end);
      const box = [...range.getClientRects()].find((one) => inside(one, x, y));
      if (box) return { entries: [[name, says]], box };
    }
  }
  return null;
}

// A formula in one line, with _ and ^ before subscripts and superscripts.
function sourceOf(formula) {
  const source = formula.querySelector("annotation")?.textContent ?? formula.dataset.formula ?? formula.textContent;
  let plain = source.replace(/\\(mathrm|text|mathbf|hat)\{([^}]*)\}/g, (_, how, inner) => (how === "hat" ? `${inner}\u0302` : inner));
  for (const [tex, sign] of Object.entries(TEX)) plain = plain.replaceAll(tex, sign);
  return plain.replace(/\\[a-zA-Z]+/g, " ").replace(/[{}\\]/g, "").replaceAll("dₖ", "d_k").normalize("NFC");
}

const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
// A name on its own: no letter on either side, and no mark over its last one.
const alone = (name) => new RegExp(`(?<![A-Za-z])${escaped(name)}(?![A-Za-z\u0300-\u036f])`, "gu");

function inFormula(source, { symbol, letter }) {
  const found = [];
  let rest = source;
  for (const [name, says] of [...symbol, ...letter].sort((one, other) => other[0].length - one[0].length)) {
    const spelled = [name, name.replace("_", "^")].find((one) => (/[A-Za-z]/.test(one) ? alone(one).test(rest) : rest.includes(one)));
    if (!spelled) continue;
    found.push([name, says, source.indexOf(spelled)]);
    if (spelled.length > 1) rest = rest.replaceAll(spelled, " ");
  }
  return found.sort((one, other) => one[2] - other[2]).map(([name, says]) => [name, says]);
}

function inProse(text, { word, symbol }) {
  const found = [], taken = new Set();
  const add = (name, says, start, end) => {
    for (let at = start; at < end; at++) if (taken.has(at)) return;
    for (let at = start; at < end; at++) taken.add(at);
    found.push([name, says, start, end]);
  };
  for (const [name, says] of word) {
    const plural = name.endsWith("y") ? `${name.slice(0, -1)}(?:y|ies)` : `${escaped(name)}(?:e?s)?`;
    for (const { 0: all, index } of text.matchAll(new RegExp(`(?<![A-Za-z])${plural}(?![A-Za-z])`, "gi"))) {
      add(name, says, index, index + all.length);
    }
  }
  for (const [name, says] of symbol) {
    for (const one of name === "d_k" ? [name, "dₖ"] : [name]) {
      for (const { 0: all, index } of text.matchAll(alone(one))) add(name, says, index, index + all.length);
    }
  }
  return found;
}
