// The message about what needs the app.
const notice = document.querySelector(".notice");
notice.querySelector("button").onclick = () => (notice.hidden = true);

function tell(text) {
  notice.querySelector("span").textContent = text;
  notice.hidden = false;
}

// Whether a component handles this message itself, so that Python would only write it into the address.
const isKept = (kept, name, trigger, value) =>
  kept.some(([component, on, fields]) => component === name && on === trigger && Object.keys(value).every((one) => fields.includes(one)));
