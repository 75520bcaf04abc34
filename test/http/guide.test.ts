// The documents as a server serves them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

describe("the documents on a server", () => {
  const atEnd = cleanup();
  let open: TestServer;
  let closed: TestServer;
  before(async () => {
    const { env } = apiKeys({ reader: { tenant_id: "acme", sub: "r", scopes: ["chat:read"] } });
    [open, closed] = await Promise.all([startServer({ atEnd }), startServer({ atEnd, env })]);
  });

  test("/llms.txt lists every page with a link to its Markdown", async () => {
    const { status, headers, text } = await open.get("/llms.txt");

    assert.deepEqual([status, headers["content-type"]], [200, "text/plain; charset=utf-8"]);
    assert.match(text, /^# svc\n\n> /);
    const links = [...text.matchAll(/^- \[(.+)\]\((\/docs\/pages\/[\w-]+\.md)\): \S/gm)];
    assert.ok(links.length > 20);
    for (const [, title, path = ""] of links) {
      const page = await open.get(path);
      assert.deepEqual([page.status, page.headers["content-type"]], [200, "text/markdown; charset=utf-8"], path);
      assert.ok(page.text.startsWith(`# ${title}\n`), path);
    }
  });

  test("/llms.txt lists the skills that ship with svc, each as the SKILL.md of its folder", async () => {
    const { text } = await open.get("/llms.txt");
    const links = [...text.matchAll(/^- \[.+\]\((\/docs\/pages\/([\w-]+)\.skill\.md)\): \S/gm)];

    assert.deepEqual(
      links.map(([, , name]) => name),
      ["calculator-help", "debugging-svc-runs", "operating-svc", "writing-svc-manifests"],
    );
    for (const [, path = "", name] of links) {
      const file = new URL(`../../governance/skills/bundled/${name}/SKILL.md`, import.meta.url);
      assert.equal((await open.get(path)).text, readFileSync(file, "utf8"), path);
    }
  });

  test("/llms.txt describes each page in a whole sentence", async () => {
    const { text } = await open.get("/llms.txt");
    const abouts = [...text.matchAll(/^- \[.+\]\(.+?\): (.*)$/gm)].map(([, about = ""]) => about);

    for (const about of abouts) {
      assert.match(about, /^\D.{15,}\.$/);
      assert.doesNotMatch(about, /npm run generate/);
    }
  });

  test("a page is the file of this version, and no other file is served", async () => {
    const tools = await open.get("/docs/pages/tools.md");

    assert.equal(tools.text, readFileSync(new URL("../../docs/tools.md", import.meta.url), "utf8"));
    for (const name of ["no.md", "generate.ts", "tools", "..%2fREADME.md", "internals"])
      assert.notEqual((await open.get(`/docs/pages/${name}`)).status, 200, name);
  });

  test("OPS-011 they need credentials if /docs does", async () => {
    for (const path of ["/llms.txt", "/docs/pages/tools.md"]) assert.equal((await closed.get(path)).status, 401, path);
  });
});
