/** A file, with word of how much of it has come, and of how much there is: 0 where that is not known. */
export async function download(url, progress) {
  const answer = await fetch(url, { cache: "no-store" }); // another page may have been at this address before
  if (!answer.ok) throw new Error(`${url.pathname} cannot be loaded: ${answer.status} ${answer.statusText}.`);
  const { headers, body } = answer;
  const total = headers.has("content-encoding") ? 0 : Number(headers.get("content-length")); // else it is that of the compressed file
  const parts = [];
  let done = 0;
  for (const reader = body.getReader(); ; ) {
    const { value, done: isLast } = await reader.read();
    if (isLast) break;
    parts.push(value);
    done += value.length;
    progress(done, total);
  }
  return new Blob(parts).arrayBuffer();
}
