// svc docs sync: a folder of Markdown pages becomes documents, and pages that are gone are pruned.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, beforeEach, describe, test } from "node:test";
import { docsCommand, ingestDocsCommand } from "../../host/cli/docs/docs-command.ts";
import { embeddingsCommand } from "../../host/cli/embeddings.ts";
import { run, runJson } from "../host/cli/support.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  writer: { scopes: ["documents:read", "documents:write"] },
  reader: { scopes: ["documents:read"] },
  operator: { scopes: ["*"] },
});
const site = "https://docs.example/";

describe("svc docs sync", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let pages: string;
  before(async () => {
    server = await startServer({ env: { ...env, SVC_RATE_LIMIT: "100000" }, atEnd });
  });
  beforeEach(() => {
    pages = tempDir(atEnd);
  });

  const sync = (more: readonly string[] = [], SVC_KEY: string = keys.writer) =>
    runJson(docsCommand, ["sync", pages, "--site-url", site, "--url", server.url, ...more], { SVC_KEY });
  function write(path: string, text: string | Uint8Array): void {
    mkdirSync(join(pages, path, ".."), { recursive: true });
    writeFileSync(join(pages, path), text);
  }
  async function listed(): Promise<Record<string, string>> {
    const { json } = await server.get("/documents?limit=500", { key: keys.writer });
    return Object.fromEntries(json.items.map(({ source, title }: Record<string, string>) => [source, title]));
  }
  async function clear(): Promise<void> {
    const { json } = await server.get("/documents?limit=500", { key: keys.writer });
    for (const { doc_id } of json.items) await server.request("DELETE", `/documents/${doc_id}`, { key: keys.writer });
  }

  test("DOCS-009 each page is a document with its public URL as source", async () => {
    await clear();
    write("index.md", "# Home\n\nWelcome.");
    write("guide/start.md", "---\ntitle: First steps\n---\n\nInstall it.");
    write(
      "guide/index.mdx",
      'import { Card } from "x";\n\n<Card>\n\nThe guide.\n\n</Card>\n\n```js\nimport "kept";\n```',
    );
    write("ein weg.md", "No heading.");
    write(".hidden/secret.md", "# Secret");
    write("notes.txt", "No page.");

    const { code, answer } = await sync();
    const again = await sync();
    const { json } = await server.get("/documents/search?q=guide", { key: keys.writer });

    assert.deepEqual([code, answer.stored, again.answer.stored], [0, 4, 4]);
    assert.deepEqual(await listed(), {
      "https://docs.example/": "Home",
      "https://docs.example/guide/start": "First steps",
      "https://docs.example/guide/": "index",
      "https://docs.example/ein%20weg": "ein weg",
    });
    assert.equal(json.items[0].content, 'The guide.\n\n```js\nimport "kept";\n```');
  });

  test("DOCS-010 --prune deletes documents under the site URL that no page has produced", async () => {
    await clear();
    const other = { title: "Other", source: "https://docs.example.org/", text: "Stays." };
    await server.post("/documents", other, { key: keys.writer });
    write("a.md", "# A");
    write("b.md", "# B");
    await sync();
    rmSync(join(pages, "b.md"));

    const dry = await sync(["--prune", "--dry-run"]);
    const before = Object.keys(await listed());
    const { code, answer } = await sync(["--prune"]);

    assert.equal(before.length, 3);
    assert.deepEqual(dry.answer.pruned, ["https://docs.example/b"]);
    assert.deepEqual([code, answer.pruned], [0, ["https://docs.example/b"]]);
    assert.deepEqual(Object.keys(await listed()).toSorted(), ["https://docs.example.org/", "https://docs.example/a"]);
  });

  test("DOCS-010 a site URL without scheme or host is refused", async () => {
    write("a.md", "# A");
    for (const url of ["docs", "ftp://docs.example/", "https://", "file:///docs"]) {
      const { code, stderr } = await run(docsCommand, ["sync", pages, "--site-url", url, "--prune"], {});
      assert.equal(code, 2, url);
      assert.match(stderr, /--site-url must be an http or https URL with a host/);
    }
  });

  test("DOCS-011 nothing is pruned if a page has failed", async () => {
    await clear();
    write("a.md", "# A");
    write("b.md", "# B");
    await sync();
    rmSync(join(pages, "b.md"));
    write("bad.md", "---\ntitle: [\n---\nText");
    write("latin.md", new Uint8Array([0xe4, 0xf6]));

    const { code, answer } = await sync(["--prune"]);

    assert.equal(code, 1);
    assert.deepEqual(
      (answer.failed as { path: string }[]).map(({ path }) => path),
      ["bad.md", "latin.md"],
    );
    assert.deepEqual(answer.pruned, []);
    assert.ok("https://docs.example/b" in (await listed()));
  });

  test("DOCS-011 nothing is pruned if the list of documents is full at 500", async () => {
    await clear();
    for (let at = 0; at < 500; at++) write(`p${at}.md`, `# Page ${at}`);
    await sync();
    rmSync(join(pages, "p0.md"));

    const { answer } = await sync(["--prune"]);

    assert.deepEqual(answer.pruned, []);
    assert.ok("https://docs.example/p0" in (await listed()));
    await clear();
  });

  test("DOCS-012 nothing is deleted when more than --max-prune documents would go", async () => {
    await clear();
    for (let at = 0; at < 12; at++) write(`p${at}.md`, `# Page ${at}`);
    await sync();
    for (let at = 1; at < 12; at++) rmSync(join(pages, `p${at}.md`));

    const refused = await sync(["--prune"]);
    const kept = Object.keys(await listed()).length;
    const allowed = await sync(["--prune", "--max-prune", "11"]);

    assert.deepEqual([refused.answer.pruned, kept], [[], 12]);
    assert.equal((allowed.answer.pruned as string[]).length, 11);
    assert.deepEqual(Object.keys(await listed()), ["https://docs.example/p0"]);
  });

  test("svc ingest-docs is the same command, and a key without the scope is refused", async () => {
    write("a.md", "# A");
    const args = [pages, "--site-url", site, "--url", server.url];

    const done = await runJson(ingestDocsCommand, [...args, "--api-key", keys.writer]);
    const refused = await sync([], keys.reader);

    assert.equal(done.code, 0);
    assert.deepEqual([refused.code, refused.answer.error], [1, "forbidden"]);
  });

  test("svc embeddings shows that vectors are off, and refuses a rebuild", async () => {
    const svc = (action: string) => run(embeddingsCommand, [action, "--url", server.url], { SVC_KEY: keys.operator });

    const status = await svc("status");
    const rebuild = await svc("rebuild");

    assert.match(status.stdout, /vectors +off: no embedder/);
    assert.deepEqual([rebuild.code, status.code], [1, 0]);
    assert.match(rebuild.stderr, /no embedder/);
  });
});
