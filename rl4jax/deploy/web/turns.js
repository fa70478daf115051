/** A function that does one thing at a time: what is asked of it meanwhile waits for its turn. */
export function inTurn(work) {
  let last = Promise.resolve();
  return (...given) => {
    const now = last.then(() => work(...given));
    last = now.catch(() => {}); // whoever asked is told
    return now;
  };
}
