// A class: how many pupils there are and what they predict, kept up to date by a request that waits for updates (session/class_route.py).
const RETRY = 2000, KEPT = 1000; // ms after a request that failed, and until a page that was left stops asking
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];

class Classroom {
  constructor(root) {
    this.find = (selector) => root.querySelector(selector);
    this.token = this.moved = "";
  }

  show(data, send) {
    const { find } = this, { leads } = data;
    Object.assign(this, { data, send });
    find(".code b").textContent = data.code;
    find(".join").textContent = leads ? `Pupils join on the page Lessons, or at ${this.address()}` : "";
    const buttons = { release: leads && !data.is_released, next: leads && data.is_released && !data.is_last, take: leads, end: leads };
    for (const [name, shows] of Object.entries(buttons)) find(`.${name}`).hidden = !shows;
    for (const name of ["release", "next"]) {
      find(`.${name}`).classList.add("first");
      find(`.${name}`).onclick = () => send(name, true);
    }
    find(".take").onclick = () => this.take();
    this.offerEnd(false);
    this.tell(data.news);
    clearTimeout(this.leaving);
    if (data.path && this.token !== data.token) this.ask(data.version);
    this.token = data.path && data.token;
  }

  address() {
    const { host, join } = this.data;
    return `${host && LOCAL.includes(location.hostname) ? `${location.protocol}//${host}:${location.port}` : location.origin}${join}`;
  }

  // The class ends at the second click.
  offerEnd(sure) {
    const end = this.find(".end");
    end.textContent = sure ? "End and delete all predictions?" : "End the class";
    end.onclick = () => (sure ? this.send("end", true) : this.offerEnd(true));
  }

  async ask(version) {
    const { token, path } = this.data, asking = (this.asking = new AbortController());
    while (!asking.signal.aborted) {
      try {
        const answer = await fetch(`${path}/${version}`, { headers: { Authorization: `Bearer ${token}` }, signal: asking.signal });
        if (answer.status === 404) return; // the session has ended; a new one shows the page again
        if (!answer.ok) throw new Error(answer.statusText);
        const { news, version: now } = await answer.json();
        version = now;
        if (news) this.tell(news);
        if ((news?.stage ?? "") !== this.data.stage && this.moved !== now) this.send("moved", this.moved = now);
        if (!news) return;
      } catch {
        if (!asking.signal.aborted) await new Promise((done) => setTimeout(done, RETRY));
      }
    }
  }

  leave() {
    this.leaving = setTimeout(() => {
      this.asking?.abort();
      this.token = "";
    }, KEPT);
  }

  tell(news) {
    const { find } = this, box = find(".predicted"), n = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
    if (!news || news.stage !== this.data.stage) return;
    find(".there").textContent = "pupils" in news ? `${n(news.pupils, "pupil")}, ${n(news.votes, "prediction")}` : "";
    const shown = JSON.stringify(news.histogram ?? null);
    if (box.shown === shown) return;
    box.shown = shown;
    box.replaceChildren();
    find(".asked").textContent = news.votes ? `What the class predict${this.data.is_released ? "ed" : "s"}` : "";
    if (news.histogram?.bars) drawBars(box, news.histogram.bars);
    if (news.histogram?.cells) drawCells(box, news.histogram);
  }

  async take() {
    const answer = await fetch(this.data.table, { headers: { Authorization: `Bearer ${this.data.token}` } });
    if (answer.ok) save(await answer.blob(), "class-predictions.csv");
  }
}

// A row for each prediction: its words, a bar, and how many made it. What happened has another colour and a tick.
function drawBars(box, bars) {
  const most = Math.max(1, ...bars.map((bar) => bar.n)), table = put(box, "table", "bars");
  for (const { says, n, happened } of bars) {
    const row = put(table, "tr", happened ? "happened" : "");
    put(row, "th", "", happened ? `✓ ${says}` : says).scope = "row";
    put(put(row, "td"), "span", "bar").style.width = `${(100 * n) / most}%`;
    put(row, "td", "n", String(n));
  }
}

// How many predicted each cell to be open.
function drawCells(box, { cells, rows, columns }) {
  const most = Math.max(1, ...cells.flat()), table = put(put(box, "div", "grid"), "table", "cells");
  const head = put(put(table, "thead"), "tr");
  put(head, "td");
  for (const column of columns) put(head, "th", "", column).scope = "col";
  const body = put(table, "tbody");
  cells.forEach((line, r) => {
    const row = put(body, "tr");
    put(row, "th", "", rows[r]).scope = "row";
    for (const n of line) {
      const cell = put(row, "td", "", String(n));
      cell.style.background = `color-mix(in srgb, var(--st-primary-color) ${(60 * n) / most}%, transparent)`;
    }
  });
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".classroom");
  const view = (root.view ??= new Classroom(root));
  view.show(data, setTriggerValue);
  return () => view.leave();
}
