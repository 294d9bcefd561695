// The question at the end of the page: a click opens the page that answers it.
function mount({ data, parentElement, setTriggerValue }) {
  const button = parentElement.querySelector("button");
  button.textContent = data.question;
  button.onclick = () => setTriggerValue("go", true);
}
