// A step of a lesson: its question, what is predicted, and after that what happened in the run on the screen.
class Lesson {
  constructor(root) {
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.asked = this.step = "";
  }

  show(picture, send) {
    const { find } = this, last = picture.predicted_steps.length;
    find("h2").textContent = picture.lesson;
    find(".question").textContent = picture.question;
    find(".text").textContent = picture.text;
    find(".away").textContent = picture.is_elsewhere ? "The step is on another page. “Show again” opens it." : picture.departure;
    find(".error").textContent = picture.error ?? "";
    const leave = find(".leave"), inClass = picture.role !== "";
    Object.assign(leave, { hidden: picture.role === "teacher", textContent: inClass ? "Leave" : "End" });
    leave.title = inClass ? "Leave the class and keep this page" : "End the lesson and keep this page";
    leave.onclick = () => send("leave", true);
    find(".steps").hidden = picture.role === "pupil";
    for (const name of [".back", ".on"]) find(name).hidden = inClass;
    const steps = find(".steps");
    steps.replaceChildren(...picture.predicted_steps.map((isPredicted, i) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: i + 1, className: isPredicted ? "made" : "" });
      button.setAttribute("aria-label", `Step ${i + 1} of ${last}${isPredicted ? ", predicted" : ""}`);
      if (i + 1 === picture.step) button.setAttribute("aria-current", "step");
      button.onclick = () => send("step", i + 1);
      return button;
    }));
    const to = (name, step) => {
      find(name).disabled = step < 1 || step > last;
      find(name).onclick = () => send("step", step);
    };
    to(".back", picture.step - 1);
    to(".on", picture.step + 1);
    const on = find(".on"), ends = picture.step === last && "next" in picture;
    Object.assign(on, { textContent: ends ? picture.next : "Next →", title: ends ? picture.nextTitle : "" });
    if (ends) Object.assign(on, { disabled: false, onclick: () => send("next", true) });
    to(".again", picture.step);
    this.ask(picture.form, send);
    this.wait(picture.waiting);
    this.tell(picture.reveal);
    this.look(picture.look);
    // a step that was not the first thing seen: a screen reader continues from its question
    const step = `${picture.lesson} ${picture.step}`;
    if (this.step && this.step !== step) find(".question").focus({ preventScroll: innerWidth > 767 });
    this.step = step;
  }

  // Controls in which something is chosen already stay while a text is typed.
  ask(asks, send) {
    const form = this.find("form"), asked = JSON.stringify(asks);
    if (asked === this.asked) return;
    this.asked = asked;
    form.replaceChildren();
    if (!asks) return;
    const { read, watch } = ASK[asks.kind](form, asks), commit = put(form, "button", "commit", "Predict");
    commit.type = "submit";
    const check = () => (commit.disabled = read() === null);
    watch?.(check);
    form.oninput = check;
    form.onsubmit = (event) => {
      event.preventDefault();
      const prediction = read();
      if (prediction !== null) send("predict", prediction);
    };
    check();
  }

  // In a class, until the teacher shows what happened.
  wait(waiting) {
    const box = this.find(".waits");
    box.replaceChildren();
    if (!waiting) return;
    if (waiting.prediction) {
      const list = put(box, "dl");
      put(list, "dt", "", "You predicted");
      put(list, "dd", "said", waiting.prediction);
    }
    put(box, "p", "", waiting.text);
  }

  tell(reveal) {
    const box = this.find(".told"), now = JSON.stringify(reveal);
    if (box.told === now) return;
    box.told = now;
    box.replaceChildren();
    if (!reveal) return;
    const list = put(box, "dl");
    if (reveal.prediction) {
      put(list, "dt", "", "You predicted");
      put(list, "dd", "said", reveal.prediction);
    }
    put(list, "dt", "", reveal.is_departed ? "In this run" : reveal.agrees === false ? "But it was" : reveal.agrees ? "And it was" : "It was");
    put(list, "dd", "happened", reveal.happened);
    for (const paragraph of reveal.paragraphs) put(box, "p", "", paragraph).dir = "auto";
  }

  // Marks the picture that the step is about, even if the page draws it later.
  look(name) {
    mark.replaceSync(name ? `.st-key-${CSS.escape(name)} { ${LINE} }` : "");
    if (!document.adoptedStyleSheets.includes(mark)) document.adoptedStyleSheets.push(mark);
  }
}

const LINE = "outline: 2px solid var(--st-primary-color, currentColor); outline-offset: 6px; border-radius: 2px;";
const mark = (window.attnscopeMark ??= new CSSStyleSheet());

// Each draws its control in a form and reads what is predicted, null for nothing yet.
const ASK = {
  choose(form, { options }) {
    return radios(form, "Your prediction", options);
  },
  token(form, { tokens }) {
    const read = radios(form, "Mark the token", tokens.map((token, i) => [String(i), token]));
    form.querySelector("fieldset").classList.add("tokens");
    return read;
  },
  number(form, { unit }) {
    const line = put(form, "label", "number"), input = put(line, "input");
    Object.assign(input, { type: "number", step: "any", required: true });
    input.setAttribute("aria-label", `Your prediction in ${unit}`);
    put(line, "span", "", unit);
    return { read: () => (/^-?\d{1,9}(\.\d{1,9})?$/.test(input.value) ? input.value : null) };
  },
  order(form, { tokens }) {
    const order = tokens.map((_, i) => i), list = put(form, "ol", "order");
    list.setAttribute("aria-label", "Your order, the first on top");
    let touched = false, check;
    const draw = (focus) => {
      list.replaceChildren(...order.map((token, place) => {
        const item = document.createElement("li");
        put(item, "span", "", tokens[token]);
        for (const [by, sign, name] of [[-1, "↑", "up"], [1, "↓", "down"]]) {
          const button = put(item, "button", name, sign);
          Object.assign(button, { type: "button", disabled: place + by < 0 || place + by >= order.length });
          button.setAttribute("aria-label", `Move ${tokens[token]} ${name}`);
          button.onclick = () => {
            [order[place], order[place + by]] = [order[place + by], order[place]];
            touched = true;
            draw([place + by, name]);
            check();
          };
        }
        return item;
      }));
      if (!focus) return;
      const [place, name] = focus, at = list.children[place];
      (at.querySelector(`.${name}:enabled`) ?? at.querySelector("button:enabled")).focus();
    };
    draw();
    const same = put(form, "button", "same", "This order is right");
    same.type = "button";
    same.onclick = () => ((touched = true), check());
    return { read: () => (touched ? order.join("-") : null), watch: (tell) => (check = tell) };
  },
  cells(form, { rows, columns }) {
    const open = rows.map(() => columns.map(() => false)), table = put(put(form, "div", "grid"), "table", "cells");
    let check;
    table.setAttribute("aria-label", "Paint the cells: a row attends to the columns");
    const head = put(put(table, "thead"), "tr");
    put(head, "td");
    for (const column of columns) put(head, "th", "", column).scope = "col";
    const body = put(table, "tbody");
    rows.forEach((row, r) => {
      const line = put(body, "tr");
      put(line, "th", "", row).scope = "row";
      columns.forEach((column, c) => {
        const cell = put(put(line, "td"), "button");
        cell.type = "button";
        cell.setAttribute("aria-label", `${row} attends to ${column}`);
        cell.setAttribute("aria-pressed", "false");
        cell.onclick = () => {
          open[r][c] = !open[r][c];
          cell.setAttribute("aria-pressed", open[r][c]);
          check();
        };
      });
    });
    const some = () => open.some((row) => row.includes(true));
    return { read: () => (some() ? open.map((row) => row.map(Number).join("")).join("-") : null), watch: (tell) => (check = tell) };
  },
};

function radios(form, legend, options) {
  const set = put(form, "fieldset");
  put(set, "legend", "", legend);
  for (const [key, text] of options) {
    const label = put(set, "label", "option"), input = put(label, "input");
    Object.assign(input, { type: "radio", name: "prediction", value: key });
    put(label, "span", "", text);
  }
  return { read: () => set.querySelector(":checked")?.value ?? null };
}

function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".lesson");
  const view = (root.view ??= new Lesson(root));
  view.show(data, setTriggerValue);
  return () => view.look("");
}
