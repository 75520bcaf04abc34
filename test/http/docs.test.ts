// The reference as a page: the served files, and their behaviour in a browser.
import assert from "node:assert/strict";
import { before, describe, type TestContext, test } from "node:test";
import { type Browser, findChromium, type Page, startBrowser } from "../support/chromium.ts";
import { has } from "../support/needs.ts";
import { apiKeys, startServer, startServerProcess, type TestServer } from "../support/server.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { routes } from "./support.ts";

const chromium = findChromium();
const browserEnd = cleanup();
/** The browser of all tests, started by the first that needs it. */
let browser: Browser | null = null;

function hasBrowser(t: TestContext): boolean {
  return has(t, chromium !== null, "needs Chromium: apt-get install chromium");
}

describe("/docs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let opened: Promise<Page> | null = null;
  before(async () => {
    server = await startServer({ atEnd });
  });

  /** The page of all tests: it takes seconds to load. */
  function reference(): Promise<Page> {
    opened ??= pageAt(`${server.url}/docs`, atEnd);
    return opened;
  }

  test("OPS-010 is a page whose references are all served by this server", async () => {
    const page = await server.get("/docs");
    const slash = await server.get("/docs/");

    assert.deepEqual([page.status, page.headers["content-type"]], [200, "text/html; charset=utf-8"]);
    assert.equal(slash.text, page.text);
    const references = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    assert.ok(references.length >= 4);
    for (const path of references) {
      assert.match(path, /^\/docs\//);
      const file = await server.get(path);
      assert.equal(file.status, 200, path);
      assert.ok(file.bytes.length > 0);
    }
  });

  test("its content policy allows this server only, and no inline script", async () => {
    const { headers, text } = await server.get("/docs");
    const policy = String(headers["content-security-policy"]).split("; ");

    assert.equal(policy[0], "default-src 'none'");
    for (const part of policy) assert.doesNotMatch(part, /https?:|\*|unsafe-(inline|eval)/);
    assert.doesNotMatch(text, /<script>|<script [^>]*>[^<]|<style|\bon\w+=/);
  });

  test("its files have the content types that a browser requires", async () => {
    const types = await Promise.all(
      ["docs.js", "swagger-ui-bundle.js", "swagger-ui.css", "page.css", "favicon-32x32.png"].map(
        async (name) => (await server.get(`/docs/${name}`)).headers["content-type"],
      ),
    );

    assert.deepEqual(types, [
      "text/javascript; charset=utf-8",
      "text/javascript; charset=utf-8",
      "text/css; charset=utf-8",
      "text/css; charset=utf-8",
      "image/png",
    ]);
  });

  test("no other file of the package or the machine is served", async () => {
    for (const name of [
      "package.json",
      "index.html",
      "swagger-ui-bundle.js.map",
      "constructor",
      "..%2fpackage.json",
      "%2e%2e",
      "docs.js%00",
    ]) {
      const { status } = await server.get(`/docs/${name}`);
      assert.ok(status === 404 || status === 400, `${name}: ${status}`);
    }
  });

  test("OPS-010 a browser shows every operation and sends no request to other hosts", {
    timeout: 60_000,
  }, async (t) => {
    if (!hasBrowser(t)) return;
    const page = await reference();

    const shown = await page.evaluate(operationsShown);

    assert.deepEqual((shown as string[]).sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
    const asked = page.events
      .filter(({ method }) => method === "Network.requestWillBeSent")
      .map(({ params }) => params.request.url);
    assert.ok(asked.length >= 5);
    for (const url of asked) assert.ok(url.startsWith(`${server.url}/`) || url.startsWith("data:"), url);
    assert.deepEqual(complaintsOf(page), []);
  });

  test("the version badges of the reference show their whole text", { timeout: 60_000 }, async (t) => {
    if (!hasBrowser(t)) return;
    const page = await reference();
    await page.evaluate(operationsShown);

    const badges =
      (await page.evaluate(`[...document.querySelectorAll(".info .title small pre.version")].map((badge) => {
      const [text, around] = [badge.getBoundingClientRect(), badge.parentElement.getBoundingClientRect()];
      return {
        text: badge.textContent.trim(),
        isInside: text.top >= around.top - 1 && text.bottom <= around.bottom + 1,
        isWhole: badge.scrollHeight <= badge.clientHeight && badge.scrollWidth <= badge.clientWidth,
        background: getComputedStyle(badge).backgroundColor,
      };
    })`)) as { text: string }[];

    assert.ok(badges.length >= 2, "the version of svc and that of OpenAPI");
    for (const { text, ...badge } of badges)
      assert.deepEqual(badge, { isInside: true, isWhole: true, background: "rgba(0, 0, 0, 0)" }, text);
  });

  test("a first request from the page runs the agent quick", { timeout: 60_000 }, async (t) => {
    if (!hasBrowser(t)) return;
    const page = await reference();
    await page.evaluate(operationsShown);

    await page.evaluate(`document.querySelector("#operations-Chat-postChat .opblock-summary-control").click()`);
    // The header of the answer 401 is a reference.
    await page.evaluate(textOf("#operations-Chat-postChat .responses-wrapper", "How to authenticate"));
    for (const button of [".try-out__btn", ".execute"])
      await page.evaluate(clicked(`#operations-Chat-postChat ${button}`));
    const answer = await page.evaluate(
      textOf("#operations-Chat-postChat .live-responses-table .response .highlight-code", "final"),
    );

    assert.equal(JSON.parse(String(answer).replace(/^[^{]*/, "")).final.role, "assistant");
  });

  test("text of others on the page is text, and does not run", { timeout: 60_000 }, async (t) => {
    if (!hasBrowser(t)) return;
    const hostile = `<img src=x onerror="window.ran=1"><script>window.ran=1</script>[link](javascript:window.ran=1)`;
    const turn = { manifest: "quick", thread_id: "tour", messages: [{ role: "user", content: hostile }] };
    assert.equal((await server.post("/chat", turn)).status, 200);
    const page = await reference();
    await page.evaluate(operationsShown);

    await page.evaluate(
      `document.querySelector("#operations-Sessions-getChatHistoryByThreadId .opblock-summary-control").click()`,
    );
    for (const button of [".try-out__btn", ".execute"])
      await page.evaluate(clicked(`#operations-Sessions-getChatHistoryByThreadId ${button}`));
    const answer = await page.evaluate(
      textOf(
        "#operations-Sessions-getChatHistoryByThreadId .live-responses-table .response .highlight-code",
        "window.ran",
      ),
    );
    const ran = await page.evaluate(
      `[window.ran === undefined, document.querySelectorAll("img[src=x], a[href^=javascript], [onerror]").length]`,
    );

    assert.ok(String(answer).includes("<img src=x onerror="));
    assert.deepEqual(ran, [true, 0]);
    assert.deepEqual(complaintsOf(page), []);
  });
});

describe("/docs where the reference needs credentials", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ reader: { scopes: ["chat:read"] }, none: { scopes: [] } });
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd, env });
  });

  const asBrowser = { headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } };

  test("OPS-011 without credentials a browser gets 401 with a key form, programs the refusal", async () => {
    const page = await server.get("/docs", asBrowser);
    const slash = await server.get("/docs/", asBrowser);
    const wrong = await server.get("/docs", { ...asBrowser, key: "key-of-nobody-01" });
    const head = await server.request("HEAD", "/docs", asBrowser);
    const document = await server.get("/openapi.json", asBrowser);
    const others = ["*/*", "application/json", "text/html;q=0, */*", "text/htmlx"];

    for (const answer of [page, slash, wrong]) {
      assert.deepEqual([answer.status, answer.headers["content-type"]], [401, "text/html; charset=utf-8"]);
      assert.match(answer.text, /<body data-key="needed">/);
      assert.match(String(answer.headers["content-security-policy"]), /^default-src 'none'; script-src 'self';/);
      assert.equal(answer.headers["cache-control"], "no-store");
      assert.equal(answer.headers.vary, "Accept");
    }
    assert.deepEqual([head.status, head.headers["content-type"]], [401, "text/html; charset=utf-8"]);
    assert.deepEqual(document.json, { error: "unauthorized", reason: "missing_credentials" });
    for (const accept of others) {
      const { status, json, headers } = await server.get("/docs", { headers: { accept } });
      assert.deepEqual([status, json], [401, { error: "unauthorized", reason: "missing_credentials" }], accept);
      assert.equal(headers["www-authenticate"], 'Bearer realm="svc"');
    }
    const { status, text } = await server.get("/docs", { ...asBrowser, key: keys.reader });
    assert.equal(status, 200);
    assert.match(text, /<body data-key="open">/);
  });

  test("a browser that is refused for another reason sees the reason", async () => {
    const scopeless = await server.get("/docs", { ...asBrowser, key: keys.none });
    const stranger = await server.get("/docs", { headers: { ...asBrowser.headers, host: "evil.example.com" } });

    assert.deepEqual([scopeless.status, scopeless.json], [403, { detail: "missing scopes: chat" }]);
    assert.deepEqual([stranger.status, stranger.json.error], [403, "host_not_allowed"]);
  });

  test("the style sheet has no rule for elements that Swagger UI draws too", async () => {
    const { text } = await server.get("/docs/page.css");

    assert.match(text, /^main pre \{/m);
    assert.doesNotMatch(text, /^(pre|code|h1|input|button)\b/m);
  });

  test("the page's files need no credentials and contain no data of the server", async () => {
    const { text } = await server.get("/docs", asBrowser);
    const references = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");

    assert.ok(references.length >= 5);
    for (const path of references) assert.equal((await server.get(path)).status, 200, path);
    assert.doesNotMatch(text, /<script>|<script [^>]*>[^<]|<style|\bon\w+=/);
  });

  test("the page explains a refused key, and keeps an accepted one for the tab", {
    timeout: 60_000,
  }, async (t) => {
    if (!hasBrowser(t)) return;
    const page = await pageAt(`${server.url}/docs`, cleanup(t));
    const said = (words: string) => page.evaluate(textOf("#said", words));
    const enter = (key: string) =>
      page.evaluate(`document.querySelector("#key").value = ${JSON.stringify(key)};
        document.querySelector("#key-form button").click()`);

    await page.evaluate(clicked("#key-form button"));
    const empty = await said("key");
    await enter("clé");
    const foreign = await said("ASCII");
    await enter("<img src=x onerror=alert(1)>");
    const hostile = await said("blanks");
    await enter("key-of-nobody-0123456789");
    const wrong = await said("know");
    // A key that was valid at the last visit and has been revoked since.
    await page.evaluate(`sessionStorage.setItem("svc.key", "key-of-nobody-0123456789")`);
    await loaded(page, () => page.send("Page.reload"));
    const revoked = await said("know");
    const keptOfRevoked = await page.evaluate(`sessionStorage.getItem("svc.key")`);
    await enter(keys.none);
    const scopeless = await said("scopes");
    const keptOfNone = await page.evaluate(`sessionStorage.getItem("svc.key")`);
    await enter(keys.reader);
    const shown = (await page.evaluate(operationsShown)) as string[];
    const kept = await page.evaluate(`[sessionStorage.getItem("svc.key"), localStorage.length, document.cookie]`);
    await loaded(page, () => page.send("Page.reload"));
    const again = (await page.evaluate(operationsShown)) as string[];
    await page.evaluate(visible("#forget"));
    await loaded(page, () => page.evaluate(`setTimeout(() => document.querySelector("#forget").click()) > 0`));
    await page.evaluate(visible("#key-form"));
    const forgotten = await page.evaluate(`sessionStorage.getItem("svc.key")`);

    assert.equal(empty, "Enter a key.");
    assert.equal(foreign, "A key has only visible ASCII characters, and no blanks.");
    assert.equal(hostile, foreign);
    assert.match(String(wrong), /^The server does not know this key\./);
    assert.equal(scopeless, "The key may not read the reference: missing scopes: chat.");
    assert.deepEqual([revoked, keptOfRevoked, keptOfNone], [wrong, null, null]);
    assert.equal(shown.length, routes.length);
    assert.deepEqual(kept, [keys.reader, 0, ""]);
    assert.equal(again.length, routes.length);
    assert.equal(forgotten, null);
  });

  test("a request from the page carries the key", { timeout: 60_000 }, async (t) => {
    if (!hasBrowser(t)) return;
    const page = await pageAt(`${server.url}/docs`, cleanup(t));
    await page.evaluate(`sessionStorage.setItem("svc.key", ${JSON.stringify(keys.reader)})`);
    await loaded(page, () => page.send("Page.reload"));
    await page.evaluate(operationsShown);

    await page.evaluate(`document.querySelector("#operations-System-getMetrics .opblock-summary-control").click()`);
    for (const button of [".try-out__btn", ".execute"])
      await page.evaluate(clicked(`#operations-System-getMetrics ${button}`));
    const status = await page.evaluate(
      textOf("#operations-System-getMetrics .live-responses-table .response .response-col_status", "200"),
    );

    assert.match(String(status), /^200/);
  });

  test("the page reports a server that has stopped", { timeout: 60_000 }, async (t) => {
    if (!hasBrowser(t)) return;
    const gone = await startServerProcess({ atEnd, env });
    const page = await pageAt(`${gone.url}/docs`, cleanup(t));
    await page.evaluate(visible("#key-form"));
    await gone.kill();

    await page.evaluate(`document.querySelector("#key").value = "some-key-0123456789";
      document.querySelector("#key-form button").click()`);

    assert.equal(await page.evaluate(textOf("#said", "answer")), "The server does not answer. Try again when it runs.");
  });
});

/** Opens a tab that loads a page and records its events. */
async function pageAt(url: string, atEnd: Cleanup): Promise<Page> {
  browser ??= startBrowser(chromium ?? "", browserEnd);
  const page = await browser.open(atEnd);
  for (const domain of ["Network", "Log", "Runtime", "Page"]) await page.send(`${domain}.enable`);
  await loaded(page, () => page.send("Page.navigate", { url }));
  return page;
}

/** Triggers a page load and waits until it is complete, because earlier scripts would run in the old page. */
async function loaded(page: Page, load: () => Promise<unknown>): Promise<void> {
  const isThere = page.next("Page.loadEventFired");
  await load();
  await isThere;
}

/** Code for the page that resolves with the first truthy result of `find`. */
function shows(find: string): string {
  return `new Promise((resolve) => {
    const look = () => {
      // The search may itself change the page.
      observer.disconnect();
      const found = (${find})();
      if (found) resolve(found);
      else observer.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
    };
    const observer = new MutationObserver(look);
    look();
  })`;
}

const operationsShown = shows(`() => {
  const operations = [...document.querySelectorAll(".opblock")].map((block) =>
    block.querySelector(".opblock-summary-method").textContent + " " +
    block.querySelector("[data-path]").dataset.path);
  return operations.length >= ${routes.length} && operations;
}`);

const visible = (selector: string): string => shows(`() => document.querySelector("${selector}")?.checkVisibility()`);

const clicked = (selector: string): string =>
  shows(`() => {
    const found = document.querySelector("${selector}");
    if (!found?.checkVisibility()) return false;
    found.click();
    return true;
  }`);

/** The text of an element, once it contains this word. */
const textOf = (selector: string, word: string): string =>
  shows(`() => {
    const text = document.querySelector("${selector}")?.textContent ?? "";
    return text.includes("${word}") && text;
  }`);

/** The errors and warnings of the browser. */
function complaintsOf({ events }: Page): readonly unknown[] {
  return events.filter(
    ({ method, params }) =>
      (method === "Log.entryAdded" && params.entry.level === "error") || method === "Runtime.exceptionThrown",
  );
}
