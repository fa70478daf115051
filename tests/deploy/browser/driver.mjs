// A browser that obeys: a command of JSON per line comes in, an answer of JSON per line goes out. Run by chromium.py.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [playwright, executablePath, ...args] = process.argv.slice(2);
const { chromium } = (await import(pathToFileURL(playwright))).default;
const browser = await chromium.launch({ executablePath, args });
let page, seen;

const COMMANDS = {
  async open({ url, width, height, scheme, motion }) {
    await page?.context().close();
    seen = { errors: [], requests: [] };
    const isPhone = Math.min(width, height) < 600;
    const context = await browser.newContext({
      viewport: { width, height }, colorScheme: scheme, reducedMotion: motion, deviceScaleFactor: isPhone ? 2 : 1, hasTouch: isPhone,
    });
    page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("request", (request) => seen.requests.push(request.url()));
    await page.goto(url);
    await page.waitForFunction(() => ["ready", "failed", "file"].includes(document.body.dataset.state), null, { timeout: 120_000 });
  },
  evaluate: ({ script, given }) => page.evaluate(`(async (given) => { ${script} })(${JSON.stringify(given ?? null)})`),
  async wait({ until }) {
    // Not waitForFunction: it evaluates strings inside the page, which the page's policy forbids.
    for (const end = Date.now() + 60_000; Date.now() < end; await page.waitForTimeout(50)) if (await page.evaluate(until)) return;
    throw new Error(`After a minute, still not: ${until}`);
  },
  screenshot: ({ path, whole }) => page.screenshot({ path, fullPage: whole }).then(() => null),
  resize: ({ width, height }) => page.setViewportSize({ width, height }),
  theme: ({ scheme }) => page.emulateMedia({ colorScheme: scheme }),
  press: ({ key }) => page.keyboard.press(key),
  click: ({ what }) => page.locator(what).click(),
  async drag({ from, to, milliseconds }) {
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move(...to, { steps: 5 });
    await page.waitForTimeout(milliseconds);
    await page.mouse.up();
  },
  /** A finger: the page scrolls by it as by a real one. */
  async swipe({ from, to }) {
    const session = await page.context().newCDPSession(page);
    const touch = (type, ...touchPoints) => session.send("Input.dispatchTouchEvent", { type, touchPoints });
    const along = (part) => ({ x: from[0] + part * (to[0] - from[0]), y: from[1] + part * (to[1] - from[1]) });
    await touch("touchStart", along(0));
    for (let i = 1; i <= 10; i++) await touch("touchMove", along(i / 10));
    await touch("touchEnd");
  },
  seen: () => seen,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...given } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ answer: (await COMMANDS[command](given)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await browser.close();
