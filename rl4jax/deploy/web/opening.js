/** Why nothing starts, where main.js cannot say it: browsers load no modules from a file. This is none, so they load it. */
{
  const isFile = location.protocol === "file:";
  document.body.dataset.state = isFile ? "file" : "loading";
  addEventListener("error", ({ target }) => {
    if (isFile || target.type !== "module") return;
    document.body.dataset.state = "failed";
    document.getElementById("message").textContent = "main.js, or what it needs, cannot be loaded. Write the page again, and see the browser's console.";
  }, true); // on the way down: errors of loading do not rise
}
