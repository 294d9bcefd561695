// A few round numbers from the least to the most, the first and the last just beyond them; none
// nearer to each other than `apart`.
function rounds(least, most, count, apart = 0) {
  const rough = (most - least || 1) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(apart, power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999));
  const first = Math.floor(least / step), last = Math.max(first + 1, Math.ceil(most / step));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
