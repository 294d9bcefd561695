// The available lessons; a click begins one.
function mount({ data, parentElement, setTriggerValue }) {
  parentElement.querySelector(".lesson-list").replaceChildren(...data.lessons.map(({ name, title, about, length }, i) => {
    const item = document.createElement("li"), button = put(item, "button");
    button.type = "button";
    put(button, "b", "", `${i + 1}. ${title}`).dir = "auto";
    put(button, "span", "", about).dir = "auto";
    put(button, "span", "quiet", length);
    button.onclick = () => setTriggerValue("begin", name);
    return item;
  }));
}
