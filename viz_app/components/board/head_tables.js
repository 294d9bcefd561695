// The numbers of these tables as parts of the table behind a picture (common/behind.js); `value(kind, layer, head)` is the number of a head.
const headParts = (kinds, unit, value) =>
  kinds.map(({ title, layers, heads }, k) => ({
    name: `${title}, ${unit}`,
    rows: layers.map((layer) => `Layer ${layer}`),
    columns: Array.from({ length: heads }, (_, head) => `Head ${head + 1}`),
    value: (row, head) => value(kinds[k], row, head) ?? "",
  }));

// A table for each kind of attention, a row for each layer and a column for each head. `cell` makes the button of a head in
// its place. Returns the buttons by kind, layer and head.
function headTables(tables, kinds, cell) {
  tables.replaceChildren();
  return kinds.map(({ title, note, sites, layers, heads }) => {
    const section = put(tables, "section", "kind"), name = put(section, "h3", "", title);
    if (note) put(name, "small", "", ` ${note}`);
    const table = put(section, "table"), top = put(put(table, "thead"), "tr");
    table.setAttribute("aria-label", title);
    put(top, "th", "", "Head");
    for (let h = 1; h <= heads; h++) put(top, "th", "", String(h)).scope = "col";
    const body = put(table, "tbody");
    return sites.map((site, row) => {
      const line = put(body, "tr");
      put(line, "th", "", `Layer ${layers[row]}`).scope = "row";
      return Array.from({ length: heads }, (_, head) => cell(put(line, "td"), site, head));
    });
  });
}
