// The user's own data: pasted, dropped or chosen, and sent to the server in one request (viz_app/session/own_data_route.py).
// What was pasted stays in the box, whatever the server answers.
const PASTED = "pasted text";

class OwnData {
  constructor(root) {
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    const { find } = this, file = find("input");
    find(".use").onclick = () => this.post(new Blob([find("textarea").value]), PASTED);
    find(".choose").onclick = () => file.click();
    file.onchange = () => {
      if (file.files.length) this.post(file.files[0], file.files[0].name);
      file.value = ""; // so that the same file can be chosen again once it is corrected
    };
    find("textarea").oninput = () => this.offer();
    root.ondragover = (event) => {
      event.preventDefault();
      root.classList.add("dropping");
    };
    root.ondragleave = () => root.classList.remove("dropping");
    root.ondrop = (event) => {
      event.preventDefault();
      root.classList.remove("dropping");
      const [dropped] = event.dataTransfer.files, text = event.dataTransfer.getData("text/plain");
      if (dropped) this.post(dropped, dropped.name);
      else if (text) find("textarea").value = text;
      this.offer();
    };
  }

  show(data, tell) {
    const changed = data.path !== this.data?.path;
    Object.assign(this, { data, tell });
    this.find(".label").textContent = `${data.expects} Paste it here, or drop a file (UTF-8, at most ${data.most / 1e6} MB).`;
    if (changed || data.kept) this.say(data.kept);
    this.offer();
  }

  offer() {
    this.find(".use").disabled = this.sending || !this.find("textarea").value.trim();
    this.find(".choose").disabled = Boolean(this.sending);
  }

  say(words, bad = false) {
    const says = this.find(".says");
    says.textContent = words;
    says.classList.toggle("bad", bad);
  }

  async post(body, name) {
    const { path, token, most } = this.data;
    if (body.size > most) return this.say(`${name}: more than ${most / 1e6} MB`, true);
    this.sending = true;
    this.offer();
    this.say(`Reading ${name} …`);
    try {
      const headers = { Authorization: `Bearer ${token}` };
      const answer = await fetch(`${path}?name=${encodeURIComponent(name)}`, { method: "POST", headers, body });
      const { kept, error } = answer.status === 404 ? { error: "load this page again" } : await answer.json();
      this.say(error ? `${name}: ${error}` : `${name}: ${kept}`, Boolean(error));
      if (kept) this.tell("kept", Date.now());
    } catch {
      this.say(`${name}: the server did not answer`, true);
    }
    this.sending = false;
    this.offer();
  }
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".own-data");
  const view = (root.view ??= new OwnData(root));
  view.show(data, setTriggerValue);
}
