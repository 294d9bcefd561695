// What a canvas or a drawing shows, as a table behind it that a screen reader walks: a row, a column and a value. It is made once the picture is
// at rest, since it is not urgent; for a matrix that is too wide to walk it contains the values furthest from 0 in each row.
const WALKED = 40, STRONGEST = 5, AT_REST = 250; // columns of a whole table; values in a row of another; ms

// A part of a picture: {name, rows, columns, value(r, c)}: names as texts, values as numbers, or as texts where there is no number.
// An element that is not a picture to the screen reader, because its parts can be pressed, keeps its role and its name.
function describe(element, ...parts) {
  if (!element.hasAttribute("role") || element.role === "img") {
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", parts.map(({ name }) => name).join(". "));
  }
  element.described = parts;
  clearTimeout(element.atRest);
  element.atRest = setTimeout(() => fillBehind(element, parts), AT_REST);
}

function fillBehind(element, parts) {
  element.behind ??= Object.assign(document.createElement("div"), { className: "behind" });
  if (element.behind.previousSibling !== element) element.after(element.behind);
  element.behind.replaceChildren(...parts.map(tableOf));
}

function tableOf({ name, rows, columns, value }) {
  const isWhole = columns.length <= WALKED, table = document.createElement("table");
  put(table, "caption", "", isWhole ? name : `${name}. For each row, the ${STRONGEST} values furthest from 0.`);
  const head = put(put(table, "thead"), "tr"),
    body = put(table, "tbody"),
    heading = (line, scope, text) => (put(line, "th", "", text).scope = scope);
  put(head, "td");
  if (isWhole) { for (const column of columns) heading(head, "col", column); }
  rows.forEach((row, r) => {
    const line = put(body, "tr"), values = columns.map((_, c) => value(r, c));
    heading(line, "row", row);
    if (isWhole) { for (const value of values) put(line, "td", "", cellText(value)); }
    else for (const c of furthest(values)) put(line, "td", "", `${columns[c]}: ${cellText(values[c])}`);
  });
  return table;
}

const cellText = (value) => (typeof value === "number" ? (Number.isInteger(value) ? String(value) : value.toPrecision(3)) : value ?? "");

const furthest = (values) => {
  const size = (c) => (typeof values[c] === "number" ? Math.abs(values[c]) : -1);
  return [...values.keys()].sort((a, b) => size(b) - size(a)).slice(0, STRONGEST);
};

// Names of positions: what the text says there, and where, from `first`.
const numbered = (labels, first = 0) => labels.map(([text], i) => `${first + i} ${text}`);

// The same from 1 on as on the screen, but in files from `first` on.
const positions = (labels, first = 0) => Object.assign(numbered(labels, first + 1), { inFiles: numbered(labels, first) });
