// The experts that a token was sent to, a row for each; the bar on a weight is as long as its share of the largest one.
function showExperts(root, experts) {
  root.hidden = !experts;
  if (!experts) return;
  root.querySelector("caption").textContent = experts.title;
  root.querySelector("p").textContent = experts.sentence;
  const head = root.querySelector("thead tr"), body = root.querySelector("tbody");
  head.replaceChildren();
  body.replaceChildren();
  for (const name of experts.columns) Object.assign(put(head, "th"), { textContent: name, scope: "col" });
  const most = Math.max(...experts.rows.map((row) => row[1]));
  for (const [name, ...numbers] of experts.rows) {
    const line = put(body, "tr");
    Object.assign(put(line, "th"), { textContent: name, scope: "row" });
    numbers.forEach((number, i) => {
      const cell = put(line, "td");
      Object.assign(cell, { textContent: brief(number), title: exact(number) });
      if (i === 0) cell.style.setProperty("--share", `${(100 * Math.max(0, number)) / most}%`);
    });
  }
}
