// Two rows of tokens to click: queries and keys. Each key is shaded by the chosen query's weight on it.
function shade(button, weight, blocked, theme) {
  const code = weightCode(weight);
  button.style.background = blocked.length
    ? `repeating-linear-gradient(135deg, transparent 0 4px, ${theme.line} 4px 5px)`
    : css(theme.ramp[code]);
  button.style.color = blocked.length ? "" : theme.on(code);
}

function fill(root, picture, theme, tell) {
  const [queries, keys] = root.querySelectorAll(".tokens"), [reads, read] = root.querySelectorAll(".axis");
  reads.textContent = reads.title = picture.queryAxis;
  read.textContent = read.title = picture.keyAxis;
  const offer = (parent, labels, chosen, send) => {
    const buttons = children(parent, labels.length, () => put(parent, "button"));
    labels.forEach(([text, note, special], i) => {
      const button = buttons[i];
      button.type = "button";
      button.textContent = text;
      button.className = special ? "special" : "";
      button.title = note;
      button.setAttribute("aria-pressed", i === chosen);
      button.onclick = () => send(i);
    });
    return buttons;
  };
  offer(queries, picture.queries, picture.query, (query) => tell({ query, key: -1 }));
  const keyButtons = offer(keys, picture.keys, picture.key, (key) => tell({ query: picture.query, key }));
  keyButtons.forEach((button, j) => {
    const blocked = picture.blocked[j], weight = picture.arrays.weights[j];
    shade(button, weight, blocked, theme);
    button.title = [blocked.length ? `blocked by: ${blocked.join(", ")}` : `weight ${exact(weight)}`, picture.keys[j][1]].filter(Boolean).join(
      "; ",
    );
  });
  for (const parent of [queries, keys]) {
    const on = parent.querySelector('[aria-pressed="true"]');
    if (on) parent.scrollLeft = Math.max(0, on.offsetLeft - parent.offsetLeft - parent.clientWidth / 2);
  }
  Object.assign(root.dataset, { query: picture.query, key: picture.key });
  countPaint(root);
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".choice");
  fill(root, unpack(data), themeOf(root), (cell) => setTriggerValue("pick", cell));
}
