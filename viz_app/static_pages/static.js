// A static page: the stills that Python has drawn beforehand, and the clicks that lead from one to another. A still is the page at one address of
// the app; its address here is the part after "#". Addresses without a still need the app, and the page says so.
const pictures = document.querySelector(".pictures"), drawn = document.querySelector("#drawn");
const { stills, layouts, kept, objects, arrays, says } = await unpacked(drawn);
if (attnscope.shared) Object.assign(arrays, (await unzipped(attnscope.shared)).arrays); // what pages of other models have, too
const parts = new Map(); // key → its part
const charts = new Map(), choices = new Map(); // key → the element of its chart, or of its choice
let still, held = { token: "" }; // the current still; the token locked in a head

// Shows the still of an address. Parts that stay keep their element, and so their state.
function show(next) {
  const previous = still;
  still = next;
  const isRebuilt = previous?.layout !== next.layout;
  if (isRebuilt) pictures.replaceChildren(...layouts[next.layout].map(built));
  for (const place of document.querySelectorAll("[data-text]")) fill(place);
  for (const [key, [, array]] of Object.entries(next.parts)) {
    if (isRebuilt || previous.parts[key]?.[1] !== array) parts.get(key)?.show(payloadOf(key));
  }
  Object.keys(next.choices).forEach(offer); // equal ones, too: their options lead on from this still
  for (const [key, array] of Object.entries(next.charts)) {
    if (isRebuilt || previous.charts[key] !== array) draw(key);
  }
  const question = parts.get("next").root.querySelector("button");
  Object.assign(question, { disabled: !next.next, title: next.next ? "" : says.unavailable });
}

// The payload of a part in this still. A head keeps its locked token as long as its rows are the same (session/focus.py).
function payloadOf(key) {
  const [name, array] = still.parts[key];
  if (objects.includes(array)) return parsed(arrays[array]);
  if (name !== "head") return arrays[array];
  const { site, lock } = unpack(arrays[array]), rows = (text) => text?.replace(/\d/g, "");
  if (rows(held.site) !== rows(site)) held = { site, token: lock };
  return held.token === lock ? arrays[array] : changed(arrays[array], { lock: held.token });
}

// An element for a node of a layout (layout.py).
function built(node) {
  if (node.columns) {
    const columns = make("div", "columns", ...node.columns.map((column) => make("div", "", ...column.map(built))));
    columns.style.setProperty("--widths", node.widths.map((width) => `minmax(0, ${width}fr)`).join(" "));
    return columns;
  }
  if (node.row) return make("div", "row", ...node.row.map(built));
  if (node.scroll) return make("div", "scroll", ...node.scroll.map(built));
  if (node.details) {
    const drawer = make("details", "", make("summary", "", node.details), make("div", "", ...node.cells.map(built)));
    return make("div", "foot", ...node.lead.map(placed), drawer, ...node.end.map(placed));
  }
  if (node.end) return make("div", "foot", ...node.end.map(placed));
  if (node.choices) return make("div", "choices", ...node.choices.map(chosen));
  if (node.chart) return charted(node.chart);
  return node.part ? placed(node.part) : texted(node);
}

// The room of a choice among a few options, which keeps its element, and so the focus.
function chosen(key) {
  if (!choices.has(key)) choices.set(key, make("div", "choice"));
  return choices.get(key);
}

function offer(key) {
  const { label, help, names, chosen: at } = parsed(arrays[still.choices[key]]), place = chosen(key);
  if (place.dataset.names !== names.join("\n")) {
    place.dataset.names = names.join("\n");
    Object.assign(place, { title: help.replaceAll("**", "") });
    const options = make("div", "options", ...names.map((name) => Object.assign(make("button", "", name), { type: "button" })));
    options.setAttribute("role", "group");
    options.setAttribute("aria-label", label);
    place.replaceChildren(make("span", "", label), options);
  }
  [...place.lastChild.children].forEach((button, option) => {
    const move = moveOf(key, "option", { option }), isMissing = !move && option !== at;
    button.setAttribute("aria-pressed", option === at);
    button.setAttribute("aria-disabled", isMissing);
    button.onclick = () => (move ? go(move[3]) : isMissing && tell(says.unavailable));
  });
}

function charted(key) {
  if (!charts.has(key)) charts.set(key, make("div", "library-chart"));
  return charts.get(key);
}

// A chart in the current theme, drawn by its library; the colours of a Vega-Lite chart's frame are those of the page.
function draw(key) {
  const { library, config, ...figures } = parsed(arrays[still.charts[key]]), place = charts.get(key);
  const narrow = place.clientWidth < 480; // px
  const figure = figures[document.documentElement.dataset.theme][narrow ? "phone" : "usual"];
  if (library === "plotly") return Plotly.react(place, figure.data, figure.layout, { ...config, responsive: true });
  const options = { actions: false, renderer: "svg", ast: true, config: frameColours(getComputedStyle(place)) };
  return vegaEmbed(place, figure, options);
}

function frameColours(style) {
  const colour = (name) => style.getPropertyValue(`--st-${name}`), text = colour("text-color"), line = colour("border-color");
  const words = { labelColor: text, titleColor: text, labelFontWeight: "normal", titleFontWeight: "normal" };
  return {
    background: "transparent", font: style.fontFamily, view: { stroke: "transparent" }, title: { color: text }, text: { color: text },
    axis: { ...words, gridColor: line, domainColor: line, tickColor: line }, legend: words, header: words,
  };
}

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

function texted({ text, small }) {
  const place = make("div", small ? "text small" : "text");
  place.dataset.text = text;
  return place;
}

// The texts of the app are in the page itself, as templates.
function fill(place) {
  const template = `text-${still.texts[place.dataset.text]}`;
  if (place.dataset.template === template) return;
  place.dataset.template = template;
  place.replaceChildren(document.getElementById(template).content.cloneNode(true));
}

function placed(key) {
  if (!parts.has(key)) parts.set(key, mounted(key, pictures));
  return parts.get(key).place;
}

function mounted(key, room) {
  const name = still.parts[key][0];
  return new Part(name, attnscope.files[name], key, room, (trigger, value) => answer(key, trigger, value));
}

// The answer to a click: a still, a page, nothing if the component handles it itself, or the message that it needs the app.
function answer(key, trigger, value) {
  notice.hidden = true;
  const move = moveOf(key, trigger, value);
  if (move) return go(move[3]);
  const name = still.parts[key][0];
  if (name === "next" && still.next) return void (location.href = still.next);
  if (trigger === "lock") held.token = value.token;
  if (isKept(kept, name, trigger, value)) return undefined;
  tell(says.unavailable);
  if (name !== "next") rebuild(key);
  return undefined;
}

const moveOf = (key, trigger, value) => still.moves.find(([from, on, values]) => from === key && on === trigger && fits(values, value));
const fits = (values, value) => Object.entries(values).every(([name, one]) => JSON.stringify(one) === JSON.stringify(value[name]));

// Rebuilds a part that has already changed on a click which gets no answer.
function rebuild(key) {
  const { place } = parts.get(key), other = mounted(key, pictures);
  place.replaceWith(other.place);
  parts.set(key, other);
  other.show(payloadOf(key));
}

function go(index) {
  if (stills[index] === still) return;
  const query = stills[index].query;
  if (location.hash.slice(1) === query) show(stills[index]);
  else location.hash = query;
}

function follow() {
  const query = location.hash.slice(1), linked = stills.find((one) => one.query === query);
  if (still && document.getElementById(query)) return; // a place on this page, such as the target of the skip link
  notice.hidden = true;
  if (query && !linked) tell(says.elsewhere);
  const next = linked ?? stills[0];
  if (next !== still) show(next);
}

addEventListener("hashchange", follow);
addEventListener("themechange", () => {
  for (const [key, part] of parts) if (still.parts[key] && part.place.isConnected) part.show(payloadOf(key));
  for (const [key, place] of charts) if (still.charts[key] && place.isConnected) draw(key);
});
pictures.replaceChildren();
follow();
