// An image of one's own: chosen or dropped, and sent to the server in one request (viz_app/session/own_images.py).
// Where the server refuses it, the last picture stays and the reason is given beside the button.
const WHERE = "or drop it here", ABOUT = (most) => `PNG, JPEG or WebP, at most ${most / 1e6} MB`;

class OwnImage {
  constructor(root) {
    this.root = root;
    this.button = root.querySelector(".choose");
    this.says = root.querySelector(".says");
    const file = root.querySelector("input");
    this.button.onclick = () => file.click();
    file.onchange = () => {
      if (file.files.length) this.post(file.files[0]);
      file.value = ""; // the same file again, once it is put right
    };
    root.ondragover = (event) => {
      event.preventDefault();
      root.classList.add("dropping");
    };
    root.ondragleave = () => root.classList.remove("dropping");
    root.ondrop = (event) => {
      event.preventDefault();
      root.classList.remove("dropping");
      if (event.dataTransfer.files.length) this.post(event.dataTransfer.files[0]);
    };
  }

  show(data, tell) {
    Object.assign(this, { data, tell });
    this.root.title = ABOUT(data.most);
    if (!this.says.textContent) this.say(WHERE);
  }

  say(words, bad = false) {
    this.says.textContent = words;
    this.says.classList.toggle("bad", bad);
  }

  async post(file) {
    const { path, token, most } = this.data, { name } = file;
    if (file.size > most) return this.say(`${name}: more than ${most / 1e6} MB`, true);
    this.button.disabled = true;
    this.say(`Reading ${name} …`);
    try {
      const headers = { Authorization: `Bearer ${token}` };
      const answer = await fetch(`${path}?name=${encodeURIComponent(name)}`, { method: "POST", headers, body: file });
      const { kept, reference, error } = answer.status === 404 ? { error: "load this page again" } : await answer.json();
      this.say(`${name}: ${error ?? kept}`, Boolean(error));
      if (reference) this.tell("kept", { reference });
    } catch {
      this.say(`${name}: the server did not answer`, true);
    }
    this.button.disabled = false;
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".own-image");
  const view = (root.view ??= new OwnImage(root));
  view.show(data, setTriggerValue);
}
