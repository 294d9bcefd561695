// Writes Python's address over the browser's: a deliberate step as an entry of the history, to which Back returns, everything else over
// the current entry. After Back or Forward, only a run that started from that address may write it.
// Parameters that Streamlit itself reads ("embed") stay.
class History {
  constructor() {
    addEventListener("popstate", () => (this.led = location.search.slice(1)));
  }

  write({ query, steps, query_at_start: queryAtStart }) {
    const isStep = steps > (this.steps ?? steps);
    this.steps = steps;
    if ((this.led ?? queryAtStart) !== queryAtStart) return;
    this.led = undefined;
    const own = [...new URLSearchParams(location.search)].filter(([name]) => /^embed(_options)?$/i.test(name));
    const search = new URLSearchParams([...new URLSearchParams(query), ...own]).toString();
    if (search === new URLSearchParams(location.search).toString()) return;
    const url = location.pathname + (search && `?${search}`) + location.hash;
    isStep ? history.pushState({}, "", url) : history.replaceState({}, "", url);
  }
}

// Asks for new pictures while someone types in the text boxes: one question at a time, then for what has been typed
// since. Without an answer nothing is lost, because Streamlit's rerun follows. An answer that was made with the choices before the
// last rerun is not shown: it is requested again.
class Live {
  constructor() {
    document.addEventListener("input", (event) => this.boxes.some((box) => event.target.closest?.(box)) && this.ask());
  }

  follow(session) {
    if (this.socket && this.token !== session.token) this.leave();
    Object.assign(this, session);
    this.boxes = this.fields.map((name) => `.st-key-${CSS.escape(name)}`);
    if (this.open) this.connect();
    this.catchUp();
  }

  // Pictures of a newer text that were made before this rerun do not have its choices.
  catchUp() {
    for (const picture of pictures.values()) {
      const { edition, rerun } = picture;
      if (edition[1] >= rerun.edition[1]) continue;
      if (this.open) return this.ask();
      Object.assign(picture, rerun);
      picture.show();
    }
  }

  connect() {
    if (this.socket?.readyState <= WebSocket.OPEN) return;
    this.socket = new WebSocket(new URL(this.path, location.href.replace(/^http/, "ws")), ["attnscope", this.token]);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.late && this.ask();
    this.socket.onmessage = ({ data }) => this.receive(new Uint8Array(data));
    this.socket.onclose = () => (this.pending = undefined);
  }

  texts() {
    return this.boxes.map((box) => document.querySelector(`${box} textarea`)?.value ?? "");
  }

  leave() {
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.pending = undefined;
  }

  ask() {
    if (!this.open || this.pending) return;
    this.late = this.socket.readyState !== WebSocket.OPEN;
    if (this.late) return void this.connect();
    const texts = this.texts();
    if (texts.some((text) => text.length > this.longest)) return; // Streamlit's rerun cuts it and says so
    this.pending = texts;
    this.socket.send(JSON.stringify({ texts: this.pending }));
  }

  receive(message) {
    const { pending } = this;
    this.pending = undefined;
    if (this.texts().some((text, i) => text !== pending?.[i])) this.ask();
    if (!message.length) return;
    const answer = unpack(message);
    answer.edition[1] < this.edition[1] ? this.ask() : this.show(answer);
  }

  show({ edition, plain, arrays }) {
    for (const [key, data] of Object.entries({ ...plain, ...arrays })) {
      const picture = pictures.get(key);
      if (!picture || older(edition, picture.edition)) continue;
      Object.assign(picture, { edition, data });
      picture.show();
    }
  }
}

function mount({ data }) {
  (window.attnscopeLive ??= new Live()).follow(data);
  (window.attnscopeBoxes ??= new Boxes()).follow(data);
  (window.attnscopeHistory ??= new History()).write(data.address);
}
