// A picture as a PDF with one page of its size: its pixels without loss, and over them its words, invisible, to be searched and copied.
// The letters are of Type 3 fonts whose glyphs draw nothing (ISO 32000-2, 9.6.4), so that every script can be read and no font is needed.
const POINTS = 0.75, GLYPH = 500, A_FONT = 255; // points to a CSS px; the width of each glyph in 1/1000; glyphs of a font

// `letters` are words with their places in pixels of the canvas: {text, x, y, size, wide, angle}, y at the foot of the letters.
async function pdfOf(canvas, letters, { title, about }) {
  const { width, height } = canvas, per = POINTS / SHARP, [wide, tall] = [width * per, height * per];
  const signs = [...new Set(letters.flatMap(({ text }) => [...text]))], fonts = Math.ceil(signs.length / A_FONT);
  const placeOf = new Map(signs.map((sign, i) => [sign, [Math.floor(i / A_FONT), i % A_FONT]]));
  const lines = letters.map((one) => textLine(one, placeOf, per, tall));
  const fontAt = 7, names = Array.from({ length: fonts }, (_, i) => `/F${i} ${fontAt + 3 * i} 0 R`).join(" ");
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${short(wide)} ${
      short(tall)
    }] /Contents 4 0 R /Resources << /XObject << /Picture 5 0 R >> /Font << ${names} >> >> >>`,
    await stream(new TextEncoder().encode(`q ${short(wide)} 0 0 ${short(tall)} 0 0 cm /Picture Do Q\n${lines.join("\n")}`)),
    await pixelsOf(canvas),
    `<< /Title ${utf16(title)} /Subject ${utf16(about)} /Creator (Attnscope) >>`,
  ];
  for (let font = 0; font < fonts; font++) {
    objects.push(...(await fontOf(signs.slice(font * A_FONT, (font + 1) * A_FONT), fontAt + 3 * font + 1)));
  }
  return new Blob(whole(objects), { type: "application/pdf" });
}

// All objects one after the other, and where each begins.
function whole(objects) {
  const parts = ["%PDF-1.7\n%\u00e2\u00e3\u00cf\u00d3\n"].map(latin), starts = [];
  let at = parts[0].length;
  const add = (...pieces) => pieces.forEach((piece) => (parts.push(piece), at += piece.length));
  objects.forEach((object, i) => {
    starts.push(at);
    add(latin(`${i + 1} 0 obj\n`), ...(typeof object === "string" ? [latin(object)] : object), latin("\nendobj\n"));
  });
  const table = starts.map((start) => `${String(start).padStart(10, "0")} 00000 n \n`).join(""), n = objects.length + 1, tableAt = at;
  add(latin(`xref\n0 ${n}\n0000000000 65535 f \n${table}trailer\n<< /Size ${n} /Root 1 0 R /Info 6 0 R >>\nstartxref\n${tableAt}\n%%EOF\n`));
  return parts;
}

const latin = (text) => Uint8Array.from(text, (sign) => sign.charCodeAt(0));
const hex = (number, digits) => number.toString(16).padStart(digits, "0");
const short = (number) => String(Math.round(number * 1000) / 1000);
const codeUnits = (text) => Array.from({ length: text.length }, (_, i) => hex(text.charCodeAt(i), 4)).join("");
const utf16 = (text) => `<feff${codeUnits(text)}>`;

async function stream(bytes, entries = "") {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  const data = new Uint8Array(await new Response(packed).arrayBuffer());
  return [latin(`<< /Length ${data.length} /Filter /FlateDecode ${entries} >>\nstream\n`), data, latin("\nendstream")];
}

// Each row as its difference from the row above, which packs well (PNG's predictor "up").
function pixelsOf(canvas) {
  const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const line = 3 * width + 1, out = new Uint8Array(line * height);
  for (let y = 0; y < height; y++) {
    out[y * line] = 2;
    for (let x = 0; x < width; x++) {
      const from = 4 * (y * width + x), to = y * line + 1 + 3 * x;
      for (let c = 0; c < 3; c++) out[to + c] = data[from + c] - (y ? data[from + c - 4 * width] : 0);
    }
  }
  return stream(
    out,
    `/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceRGB /BitsPerComponent 8` +
      ` /DecodeParms << /Predictor 15 /Colors 3 /BitsPerComponent 8 /Columns ${width} >>`,
  );
}

// One text at its place, as wide as it is drawn there.
function textLine({ text, x, y, size, wide, angle }, placeOf, per, tall) {
  const signs = [...text], font = size * per, stretch = (100 * wide * per) / (signs.length * (GLYPH / 1000) * font);
  const [cos, sin] = [Math.cos(-angle), Math.sin(-angle)].map(short);
  const shown = signs.map((sign) => {
    const [of, code] = placeOf.get(sign);
    return `/F${of} ${short(font)} Tf <${hex(code, 2)}> Tj`;
  });
  return `BT ${short(stretch)} Tz ${cos} ${sin} ${short(-sin)} ${cos} ${short(x * per)} ${short(tall - y * per)} Tm ${shown.join(" ")} ET`;
}

// A font of these signs, followed by the table of what they mean, which is the object `meanings`.
async function fontOf(signs, meanings) {
  const n = signs.length, empty = signs.map((_, i) => `/g${i}`).join(" "), glyph = `${GLYPH} 0 d0`;
  const ranges = [];
  for (let i = 0; i < n; i += 100) {
    const part = signs.slice(i, i + 100).map((sign, k) => `<${hex(i + k, 2)}> <${codeUnits(sign)}>`);
    ranges.push(`${part.length} beginbfchar\n${part.join("\n")}\nendbfchar`);
  }
  const table = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Signs def /CMapType 2 def
1 begincodespacerange <00> <ff> endcodespacerange\n${ranges.join("\n")}\nendcmap end end`;
  const procs = signs.map((_, i) => `/g${i} ${meanings + 1} 0 R`).join(" ");
  return [
    `<< /Type /Font /Subtype /Type3 /FontBBox [0 -200 ${GLYPH} 800] /FontMatrix [0.001 0 0 0.001 0 0] /FirstChar 0 /LastChar ${n - 1}` +
    ` /Widths [${signs.map(() => GLYPH).join(" ")}] /Encoding << /Type /Encoding /Differences [0 ${empty}] >> /CharProcs << ${procs} >>` +
    ` /Resources << >> /ToUnicode ${meanings} 0 R >>`,
    await stream(latin(table)),
    await stream(latin(glyph)),
  ];
}
