// The user's own file, an image or a sound: chosen or dropped, and sent to the server in one request (viz_app/session/own_files.py).
// Where the server refuses it, the last picture stays and the reason is shown beside the button.
const WHERE = "or drop it here";

class OwnFile {
  constructor(root) {
    this.root = root;
    this.button = root.querySelector(".choose");
    this.says = root.querySelector(".says");
    const file = this.file = root.querySelector("input");
    this.button.onclick = () => file.click();
    file.onchange = () => {
      if (file.files.length) this.post(file.files[0]);
      file.value = ""; // so that the same file can be chosen again once it is corrected
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
    this.file.accept = data.accept;
    this.root.title = `${data.formats}, at most ${data.most / 1e6} MB`;
    if (!this.says.textContent) this.say(WHERE);
  }

  say(words, bad = false) {
    this.says.textContent = words;
    this.says.classList.toggle("bad", bad);
  }

  async post(file) {
    const { path, kind, token, most } = this.data, { name } = file;
    if (file.size > most) return this.say(`${name}: more than ${most / 1e6} MB`, true);
    this.button.disabled = true;
    this.say(`Reading ${name} …`);
    try {
      const headers = { Authorization: `Bearer ${token}` };
      const answer = await fetch(`${path}?kind=${kind}&name=${encodeURIComponent(name)}`, { method: "POST", headers, body: file });
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
  const root = parentElement.querySelector(".own-file");
  const view = (root.view ??= new OwnFile(root));
  view.show(data, setTriggerValue);
}
