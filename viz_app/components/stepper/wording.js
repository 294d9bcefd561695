// The names of the two runs, and their sentences. A Transformer's decoder computes all positions of a given text at
// once; an RNN computes each state from the one before, whether the text is given or its own.
const WORDING = {
  attention: {
    trainingTitle: (n) => (n === 1 ? "its 1 position, in 1 pass" : `all ${n} positions at once, in 1 pass`),
    here: ["Position ", (n) => ` of ${n} in one single pass. Given: `, "(the rest is given too, but masked)"],
    ahead: "(the rest is given too, and later tokens may be attended to)",
    alone: "(the rest is given too, but each position reads only its own token)",
    same: "Both read the same tokens, so both give the same probabilities. Training needs one pass, inference one per token.",
    work: "What is computed at this step, and what comes from the cache",
    sum: (n, work) => `Training computes ${n === 1 ? "its one position" : `all its ${n} positions`} in one pass: ${work}.`,
  },
  recurrent: {
    trainingTitle: (
      n,
    ) => (n === 1
      ? "the text is given, but its one state must be computed too"
      : `the text is given, yet its ${n} states are computed one after the other`),
    here: ["Step ", (n) => ` of ${n}, each from the state before. Given: `, "(the rest is known too, but its states come later)"],
    same: "Both read the same tokens, so at each step their states and probabilities are the same.",
    work: "What is computed at this step, and what is kept from the step before",
    sum: (n, work) =>
      `Training takes its ${n} step${
        n === 1 ? "" : "s one after the other"
      } too: ${work}; the readout and the logits after the states are computed for all at once.`,
  },
};
