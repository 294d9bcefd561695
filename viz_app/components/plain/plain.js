// Text that came from outside, as text: every row is set with textContent, so no markup in it can mean anything.
function mount({ data, parentElement }) {
  const box = parentElement.querySelector(".plain");
  box.className = `plain ${data.look}`;
  if (data.look.includes("bad")) box.setAttribute("role", "alert");
  else box.removeAttribute("role");
  box.replaceChildren(...data.rows.map(([look, text]) => {
    const row = document.createElement("p");
    row.className = look;
    row.dir = "auto";
    row.textContent = text;
    return row;
  }));
}
