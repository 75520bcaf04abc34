// The reference as a page: what is served, and what a browser makes of it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { findChromium, openPage } from "../support/chromium.ts";
import { has } from "../support/needs.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { routes } from "./support.ts";

describe("/docs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ atEnd });
  });

  test("OPS-010 is a page whose every reference is served by this server", async () => {
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

  test("the page forbids the browser everything but this server, and has no script of its own in it", async () => {
    const { headers, text } = await server.get("/docs");
    const policy = String(headers["content-security-policy"]).split("; ");

    assert.equal(policy[0], "default-src 'none'");
    for (const part of policy) assert.doesNotMatch(part, /https?:|\*|unsafe-(inline|eval)/);
    assert.doesNotMatch(text, /<script>|<script [^>]*>[^<]|<style|\bon\w+=/);
  });

  test("the files have the types that a browser insists on", async () => {
    const types = await Promise.all(
      ["start.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"].map(
        async (name) => (await server.get(`/docs/${name}`)).headers["content-type"],
      ),
    );

    assert.deepEqual(types, [
      "text/javascript; charset=utf-8",
      "text/javascript; charset=utf-8",
      "text/css; charset=utf-8",
      "image/png",
    ]);
  });

  test("no other file is served, of the package or of the machine", async () => {
    for (const name of [
      "package.json",
      "index.html",
      "swagger-ui-bundle.js.map",
      "constructor",
      "..%2fpackage.json",
      "%2e%2e",
      "start.js%00",
    ]) {
      const { status } = await server.get(`/docs/${name}`);
      assert.ok(status === 404 || status === 400, `${name}: ${status}`);
    }
  });

  test("OPS-010 a browser shows every operation, and asks nobody else for anything", {
    timeout: 60_000,
  }, async (t) => {
    const chromium = findChromium();
    if (!has(t, chromium !== null, "needs Chromium: apt-get install chromium")) return;
    const page = await openPage(chromium ?? "", atEnd);
    for (const domain of ["Network", "Log", "Runtime", "Page"]) await page.send(`${domain}.enable`);

    await page.send("Page.navigate", { url: `${server.url}/docs` });
    const shown = await page.evaluate(`new Promise((resolve) => {
      const look = () => {
        const operations = [...document.querySelectorAll(".opblock")].map((block) =>
          block.querySelector(".opblock-summary-method").textContent + " " +
          block.querySelector(".opblock-summary-path").dataset.path);
        if (operations.length >= ${routes.length}) resolve(operations);
      };
      new MutationObserver(look).observe(document, { childList: true, subtree: true });
      look();
    })`);

    assert.deepEqual((shown as string[]).sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
    const asked = page.events
      .filter(({ method }) => method === "Network.requestWillBeSent")
      .map(({ params }) => params.request.url);
    assert.ok(asked.length >= 5);
    for (const url of asked) assert.ok(url.startsWith(`${server.url}/`) || url.startsWith("data:"), url);
    const complaints = page.events.filter(
      ({ method, params }) =>
        (method === "Log.entryAdded" && params.entry.level === "error") || method === "Runtime.exceptionThrown",
    );
    assert.deepEqual(complaints, []);
  });
});
