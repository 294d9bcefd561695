// What a canvas shows, as a table behind it that a screen reader walks: a row, a column and a value. It is made once the picture is
// at rest, since nobody waits for it; of a matrix that is too wide to walk it holds the values furthest from 0 of each row.
const WALKED = 40, STRONGEST = 5, AT_REST = 250; // columns of a whole table; values in a row of another; ms

// picture: {name, rows, columns, value(r, c)}: names as texts, values as numbers, or as texts where there is no number.
function describe(canvas, picture) {
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", picture.name);
  clearTimeout(canvas.atRest);
  canvas.atRest = setTimeout(() => fillBehind(canvas, picture), AT_REST);
}

function fillBehind(canvas, { name, rows, columns, value }) {
  canvas.behind ??= Object.assign(document.createElement("div"), { className: "behind" });
  if (canvas.behind.previousSibling !== canvas) canvas.after(canvas.behind);
  const isWhole = columns.length <= WALKED, table = document.createElement("table");
  put(table, "caption", "", isWhole ? name : `${name}. Of each row the ${STRONGEST} values furthest from 0.`);
  const head = put(put(table, "thead"), "tr"),
    body = put(table, "tbody"),
    heading = (line, scope, text) => (put(line, "th", "", text).scope = scope);
  put(head, "td");
  if (isWhole) { for (const column of columns) heading(head, "col", column); }
  rows.forEach((row, r) => {
    const line = put(body, "tr"), values = columns.map((_, c) => value(r, c));
    heading(line, "row", row);
    if (isWhole) { for (const found of values) put(line, "td", "", said(found)); }
    else for (const c of furthest(values)) put(line, "td", "", `${columns[c]}: ${said(values[c])}`);
  });
  canvas.behind.replaceChildren(table);
}

const said = (value) => (typeof value === "number" ? (Number.isInteger(value) ? String(value) : value.toPrecision(3)) : value ?? "");

const furthest = (values) => {
  const size = (c) => (typeof values[c] === "number" ? Math.abs(values[c]) : -1);
  return [...values.keys()].sort((a, b) => size(b) - size(a)).slice(0, STRONGEST);
};

// Names of positions: what the text says there, and where.
const positions = (labels, first = 0) => labels.map(([text], i) => `${first + i + 1} ${text}`);
