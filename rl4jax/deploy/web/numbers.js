/** Numbers for people: few digits, and a real minus sign. */

const DIGITS = 4; // of a mean over episodes: more mean nothing

/** What changes all the time is steady: it keeps its decimals, so that it does not jump. */
export function show(x, steady = false) {
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  const digits = (Number.isInteger(x) && !steady) || size >= 1000 ? 0 : size >= 100 ? 1 : 2;
  return minus(x.toFixed(digits));
}

/** A mean and its spread with the decimals that the larger one deserves, as the command line prints them. */
export function plusMinus(mean, std) {
  const largest = Math.max(Math.abs(mean), Math.abs(std));
  const decimals = largest > 0 ? Math.min(Math.max(DIGITS - 1 - Math.floor(Math.log10(largest)), 0), DIGITS - 1) : 0;
  return `${rounded(mean, decimals)} ± ${rounded(std, decimals)}`;
}

const rounded = (x, decimals) => minus(String(Number(x.toFixed(decimals))));

export function minus(text) {
  return text.replace("-", "−").replace(/^−(0\.?0*)$/, "$1");
}

/** The ends of a scale for all from `low` to `high`: round, so that they seldom move, and each with its words. */
export function scale(low, high) {
  const least = Math.max(0.02 * Math.max(Math.abs(low), Math.abs(high)), 0.04); // what hardly changes shall look so
  const missing = Math.max(least - (high - low), 0);
  const rough = (high - low + missing) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const tick = power * [1, 2, 5, 10].find((n) => n * power >= rough);
  const words = (x) => rounded(x, Math.max(0, -Math.floor(Math.log10(tick))));
  const [bottom, top] = [tick * Math.floor((low - missing / 2) / tick), tick * Math.ceil((high + missing / 2) / tick)];
  return { bottom, top, words: [words(bottom), words(top)] };
}
