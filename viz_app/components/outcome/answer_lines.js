// Two answers, one line each, and the tokens of an answer, whose decisions can be chosen.
function writeAnswers(box, answers) {
  box.replaceChildren();
  for (const { whose, words, from } of answers) {
    put(box, "span", "whose", whose);
    const line = put(box, "span", "text");
    words.forEach((word, i) => {
      if (i) put(line, "span", "", " ");
      put(line, "span", from >= 0 && i >= from ? "token differs" : "token", word);
    });
  }
}

function offerDecisions(box, decisions, choose) {
  const buttons = children(box, decisions.length, () => {
    const button = put(box, "button");
    button.type = "button";
    put(button, "b");
    put(button, "small");
  });
  decisions.forEach(({ label, change = null, chosen }, i) => {
    const button = buttons[i], [token, number] = button.children;
    token.textContent = shorten(label[0], 16);
    number.textContent = change === null ? "" : brief(change);
    button.title = [label[0], label[1], change === null ? "" : `${plain(change)} nats`].filter(Boolean).join(", ");
    button.setAttribute("aria-pressed", chosen);
    button.dataset.change = change === null ? "" : exact(change);
    button.onclick = () => choose(i);
  });
}

// Moves the focus to the next button of a group; false if there is none.
function stepIn(box, by) {
  const all = [...box.children], next = all[all.indexOf(box.getRootNode().activeElement) + by];
  if (!next) return false;
  next.focus();
}
