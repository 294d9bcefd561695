// The places of a text to click: one token each, coloured by how surprising it is, or with its alternatives below it.
const bits = (value) => (Number.isFinite(value) ? value.toFixed(1) : "∞");

class Strip {
  constructor(box) {
    this.box = box;
    useKeys(box, { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) });
  }

  // To the place before or after; false if there is none.
  step(by) {
    const to = this.picture ? this.picture.position + by : -1;
    if (!(to in (this.picture?.places ?? []))) return false;
    this.choose(to);
    this.buttons[to].focus();
    return true;
  }

  show(picture, theme, choose) {
    Object.assign(this, { picture, choose });
    if (this.kind !== picture.kind) this.box.replaceChildren();
    this.kind = picture.kind;
    this.box.classList.toggle("cards", this.kind === "alternatives");
    const before = picture.opening ? 1 : 0,
      all = children(this.box, picture.places.length + before, picture.kind === "alternatives" ? card : plainPlace);
    if (before) this.open(all[0], picture.opening);
    this.before = before;
    this.buttons = all.slice(before);
    this.buttons.forEach((button, i) => {
      button.type = "button";
      button.disabled = false;
      button.onclick = () => this.choose(i);
      button.dataset.position = i;
      button.className = `place${picture.kind === "alternatives" ? " card" : ""}${
        picture.places[i] === null ? " unknown" : picture.places[i][2] ? " special" : ""
      }`;
      FILL[picture.kind](button, picture, i, theme);
    });
    this.mark(picture.position);
  }

  // The places that are known, as a part of the table behind a picture (common/behind.js).
  part() {
    const { picture } = this, known = [...picture.places.keys()].filter((i) => picture.places[i]), columns = NUMBERS[picture.kind](picture);
    return {
      name: picture.title,
      rows: known.map((i) => picture.places[i][0]),
      columns: columns.map(([name]) => name),
      value: (r, c) => columns[c][1](known[r]),
    };
  }

  // The token before the first position has no prediction.
  open(button, label) {
    Object.assign(button, {
      type: "button",
      disabled: true,
      className: `place${label[2] ? " special" : ""}`,
      title: `${label[0]}: nothing comes before it`,
    });
    delete button.dataset.position;
    button.style.background = button.style.color = "";
    button.children[0].textContent = label[0];
    button.children[1].textContent = "–";
  }

  // The chosen place, and the token before it, which answers there.
  mark(position) {
    this.picture.position = position;
    [...this.box.children].forEach((button, i) => {
      button.setAttribute("aria-pressed", i - this.before === position);
      button.classList.toggle("reads", this.kind === "surprisal" && i === position);
    });
    const chosen = this.buttons[position];
    if (!chosen) return;
    const top = chosen.offsetTop - this.box.offsetTop;
    if (top < this.box.scrollTop || top + chosen.offsetHeight > this.box.scrollTop + this.box.clientHeight) {
      this.box.scrollTop = top - this.box.clientHeight / 2;
    }
    const left = chosen.offsetLeft - this.box.offsetLeft;
    if (left < this.box.scrollLeft || left + chosen.offsetWidth > this.box.scrollLeft + this.box.clientWidth) {
      this.box.scrollLeft = left - this.box.clientWidth / 2;
    }
  }
}

function plainPlace(parent) {
  const button = put(parent, "button");
  put(button, "b");
  put(button, "small");
}

function fillPlace(button, { places, arrays, most }, i, theme) {
  const [name, value] = button.children, label = places[i];
  if (label === null) { // what follows the last token is not known
    [name.textContent, value.textContent] = ["?", "next"];
    button.style.background = button.style.color = button.dataset.surprisal = "";
    button.title = "What comes next?";
    return;
  }
  const surprisal = arrays.surprisal[i];
  [name.textContent, value.textContent] = [shorten(label[0], 18), bits(surprisal)];
  paint(button, surprisal / most, theme);
  button.dataset.surprisal = exact(surprisal);
  button.title = `${label[0]}: ${exact(surprisal)} bits, probability ${exact(arrays.probability[i])}, rank ${arrays.rank[i]}${
    label[1] ? `; ${label[1]}` : ""
  }`;
}

// A token over its most probable class.
function fillClass(button, { places, classes, arrays }, i, theme) {
  const [name, value] = button.children, label = places[i], p = arrays.probability[i];
  [name.textContent, value.textContent] = [shorten(label[0], 18), shorten(classes[i], 18)];
  paint(button, p, theme);
  button.dataset.class = classes[i];
  button.dataset.p = exact(p);
  button.title = `${label[0]}: ${classes[i]}, probability ${exact(p)}${label[1] ? `; ${label[1]}` : ""}`;
}

function card(parent) {
  const button = put(parent, "button");
  put(button, "small", "rank");
}

function fillCard(button, { places, alternatives, arrays }, i, theme) {
  const rank = button.querySelector(".rank"), n = alternatives[i].length;
  while (button.querySelectorAll("span").length < n + 1) {
    const row = document.createElement("span");
    put(row, "b");
    put(row, "em");
    button.insertBefore(row, rank);
  }
  while (button.querySelectorAll("span").length > n + 1) rank.previousSibling.remove();
  const rows = [[places[i], arrays.probability[i]], ...alternatives[i].map((label, j) => [label, arrays.others[i * n + j]])];
  [...button.querySelectorAll("span")].forEach((row, j) => {
    const [label, p] = rows[j];
    row.className = j ? "" : "taken";
    row.children[0].textContent = shorten(label[0], 14);
    row.children[1].textContent = decimals(p);
    row.title = `${label[0]}: probability ${exact(p)}`;
    row.dataset.p = exact(p);
    paint(row, p, theme);
  });
  rank.textContent = arrays.rank[i] > 1 ? `rank ${arrays.rank[i]}` : "";
}

// What is known of each place: the name of a number, and the number.
const NUMBERS = {
  surprisal: ({ arrays }) => [["surprisal in bits", (i) => arrays.surprisal[i]], ...likely(arrays)],
  alternatives: ({ arrays, alternatives }) => {
    const n = alternatives[0]?.length ?? 0,
      others = Array.from({ length: n }, (_, j) => [
        [`alternative ${j + 1}`, (i) => alternatives[i][j][0]],
        [`its probability`, (i) => arrays.others[i * n + j]],
      ]);
    return [...likely(arrays), ...others.flat()];
  },
  classes: ({ arrays, classes }) => [["class", (i) => classes[i]], ["probability", (i) => arrays.probability[i]]],
};
const likely = ({ probability, rank }) => [["probability", (i) => probability[i]], ["rank", (i) => rank[i]]];

const FILL = { surprisal: fillPlace, alternatives: fillCard, classes: fillClass };
