// The numbers of a picture as CSV: the facts about them, then a table for each of its parts, named in its first cell; as
// viz_app/drawing/csv_file.py and stamp.py write them. The page's own files may have its name, hence ".picture".
function saveCsv(parts, picture) {
  const runs = (text) => /^[=+\-@\t\r\n]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  const cell = (value) => {
    const text = typeof value === "number"
      ? (Number.isFinite(value) && !Number.isInteger(value) ? exact(value) : String(value))
      : String(value ?? "");
    const safe = typeof value !== "number" && runs(text) ? `'${text}` : text;
    return /[",\r\n#]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const facts = picture.about.split("\n").map((fact) =>
    `# ${fact.split(",").map((part) => (runs(part) || part.startsWith('"') ? `'${part}` : part)).join(",")}\r\n`
  );
  const named = (names) => names.inFiles ?? names;
  const tables = parts.map(({ name, rows, columns, value }) =>
    [
      [name, ...named(columns)],
      ...named(rows).map((row, r) => [row, ...columns.map((_, c) => value(r, c))]),
    ].map((line) => line.map(cell).join(",")).join("\r\n")
  );
  save(new Blob([`${facts.join("")}${tables.join("\r\n\r\n")}\r\n`], { type: "text/csv" }), `${picture.file}.picture.csv`);
}

// The parts of a picture that have a table behind them (behind.js).
const tablesIn = (root) =>
  [...root.querySelectorAll("canvas, svg")].filter((e) => e.described && e.checkVisibility()).flatMap((e) => e.described);

// The menu that saves a picture, the same for each: its formats, {name: [what it does, its title]}. It lies over all of the page, so
// that nothing around the picture cuts it off.
function menu(place, forms) {
  const box = put(place, "span", "take"), button = put(box, "button", "open", "Save"), list = put(box, "div", "formats");
  Object.assign(button, { type: "button", title: "Download this picture or its numbers" });
  list.popover = "auto";
  button.popoverTargetElement = list;
  list.addEventListener("toggle", () => {
    const at = button.getBoundingClientRect(), above = at.top - list.offsetHeight - 3;
    list.style.left = `${Math.max(2, at.right - list.offsetWidth)}px`;
    list.style.top = `${above > 0 ? above : at.bottom + 3}px`;
  });
  for (const [name, [take, title]] of Object.entries(forms)) {
    const form = put(list, "button", `save ${name.toLowerCase()}`, name);
    Object.assign(form, { type: "button", title });
    form.onclick = () => {
      if (list.matches(":popover-open")) list.hidePopover();
      take();
    };
  }
}

const TITLES = {
  PNG: "Download this picture as PNG",
  SVG: "Download this picture as SVG",
  PDF: "Download this picture as PDF",
  CSV: "Download its numbers as CSV",
};

// The menu of a picture on canvases: `draw` draws it for a file, like `sharply`; `of` gives the part of the page whose numbers are taken
// and its picture.
function offerCanvas(place, draw, of) {
  const as = (name) => () => {
    taking.form = name;
    words.painted = name !== "svg";
    try {
      draw();
    } finally {
      taking.form = "png";
      words.painted = true;
    }
  };
  const csv = () => {
    const [root, picture] = of();
    saveCsv(tablesIn(root), picture);
  };
  menu(place, { PNG: [as("png"), TITLES.PNG], SVG: [as("svg"), TITLES.SVG], PDF: [as("pdf"), TITLES.PDF], CSV: [csv, TITLES.CSV] });
}

// The menu of a drawing; `of` gives the SVG element, a title, its picture and its theme.
function offer(place, of) {
  const csv = () => {
    const [svg, , picture] = of();
    saveCsv(svg.described, picture);
  };
  menu(place, {
    PNG: [() => saveSvgAsPng(...of()), TITLES.PNG],
    SVG: [() => saveSvg(...of()), TITLES.SVG],
    PDF: [() => saveSvgAsPdf(...of()), TITLES.PDF],
    CSV: [csv, TITLES.CSV],
  });
}
