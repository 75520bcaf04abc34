// POST /documents/files: texts of files, and files that give none.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { pdfFile } from "../support/pdf-file.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { zipFile } from "../support/zip-file.ts";

const { env, keys } = apiKeys({
  writer: { scopes: ["documents:read", "documents:write"] },
  reader: { scopes: ["documents:read"] },
  unscoped: { scopes: ["chat"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/** A DOCX file with a heading, a paragraph and a list of entries besides. */
function docxFile(more: Readonly<Record<string, string | Uint8Array>> = {}): Buffer {
  const types = "http://schemas.openxmlformats.org/package/2006";
  const word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
  const paragraph = (text: string, style = "") =>
    `<w:p>${style && `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`}<w:r><w:t>${text}</w:t></w:r></w:p>`;
  return zipFile({
    "[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="${types}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" ContentType="${docx}.main+xml"/></Types>`,
    "_rels/.rels": `<?xml version="1.0"?><Relationships xmlns="${types}/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
    "word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="${word}"><w:body>${paragraph("Refunds", "Heading1")}${paragraph("Money arrives after a marigold.")}</w:body></w:document>`,
    ...more,
  });
}

describe("files as documents", () => {
  const atEnd = cleanup();
  let server: TestServer;
  before(async () => {
    server = await startServer({ env: { ...env, SVC_DOCUMENTS_MAX_PER_TENANT: "16" }, atEnd });
  });

  const post = (bytes: string | Buffer, contentType: string, query = "", key: string = keys.writer) =>
    server.request("POST", `/documents/files${query}`, {
      key,
      body: Buffer.from(bytes),
      headers: { "content-type": contentType },
    });
  async function found(q: string): Promise<string> {
    const { json } = await server.get(`/documents/search?q=${q}`, { key: keys.writer });
    return `${json.items[0]?.title}: ${json.items[0]?.content}`;
  }

  test("the texts of files are found, with the titles of the files", async () => {
    const html =
      "<html><head><title>Shop</title></head><body><script>evil()</script><h1>Returns</h1><p>A <b>petunia</b>.</p></body></html>";

    const answers = [
      await post("# Notes\n\nA quokka.", "text/markdown; charset=utf-8"),
      await post("A plain begonia.", "text/plain", "?title=Plain&source=a.txt"),
      await post(html, "text/html"),
      await post(pdfFile(["A tulip on a page.", "A dahlia."]), "application/pdf", "?title=Paper"),
      await post(docxFile(), docx),
    ];

    assert.deepEqual(
      answers.map(({ status, json }) => [status, json.title ?? json.detail]),
      [
        [200, "Notes"],
        [200, "Plain"],
        [200, "Shop"],
        [200, "Paper"],
        [200, "Refunds"],
      ],
    );
    assert.equal(await found("quokka"), "Notes: # Notes\n\nA quokka.");
    assert.equal(await found("petunia"), "Shop: # Returns\n\nA **petunia**.");
    assert.match(await found("dahlia"), /^Paper: A tulip on a page\.\s+A dahlia\.$/);
    assert.equal(await found("marigold"), "Refunds: # Refunds\n\nMoney arrives after a marigold.");
    assert.equal((await post("x", "text/plain", "", keys.reader)).status, 403);
  });

  test("the file of a document is stored with it, is read by its tenant, and goes with it", async () => {
    const source = "?title=Kept&source=kept";
    const pdf = pdfFile(["A heliotrope."]);
    const objects = () => readdirSync(join(server.dataDir, "objects/document-files/acme"));
    const listed = async (title: string) =>
      (await server.get("/documents", { key: keys.writer })).json.items.find(
        (item: { title: string }) => item.title === title,
      );
    const before = objects().length;
    const posted = await post(pdf, "application/pdf", `${source}&metadata=${encodeURIComponent('{"team":"shop"}')}`);
    const path = `/documents/${posted.json.doc_id}/file`;

    const shown = await listed("Kept");
    const read = await fetch(server.url + path, { headers: { authorization: `Bearer ${keys.reader}` } });
    const refused = [
      await server.get(path, { key: keys.stranger }),
      await server.get(path, { key: keys.unscoped }),
      await server.get("/documents/unknown/file", { key: keys.reader }),
    ];

    assert.deepEqual(
      [shown.metadata, shown.file],
      [{ team: "shop" }, { media_type: "application/pdf", size_bytes: pdf.length }],
    );
    assert.equal(objects().length, before + 1);
    assert.deepEqual(Buffer.from(await read.arrayBuffer()), pdf);
    assert.equal(read.headers.get("content-type"), "application/octet-stream");
    assert.match(read.headers.get("content-disposition") ?? "", /^attachment; filename="[0-9a-f]+\.pdf"$/);
    assert.deepEqual(
      refused.map(({ status }) => status),
      [404, 403, 404],
    );

    // Another file replaces it, a text has none, and a deletion removes it.
    await post("An acacia.", "text/plain", source);
    assert.deepEqual((await listed("Kept")).file, { media_type: "text/plain", size_bytes: 10 });
    assert.equal(objects().length, before + 1);
    await server.post("/documents", { title: "Kept", source: "kept", text: "A birch." }, { key: keys.writer });
    assert.equal((await listed("Kept")).file, null);
    assert.equal((await server.get(path, { key: keys.reader })).status, 404);
    assert.equal(objects().length, before);
    await post("A cedar.", "text/plain", source);
    await server.request("DELETE", `/documents/${posted.json.doc_id}`, { key: keys.writer });
    assert.equal(objects().length, before);
  });

  test("a document that is refused leaves no file and no bytes", async () => {
    const objects = readdirSync(join(server.dataDir, "objects/document-files/acme")).length;
    const answers: string[] = [];

    for (let at = 0; at < 14; at++)
      answers.push((await post(`Text ${at}`, "text/plain", `?title=Filler${at}`)).json.error ?? "stored");

    const stored = readdirSync(join(server.dataDir, "objects/document-files/acme")).length;
    assert.deepEqual([answers.at(0), answers.at(-1)], ["stored", "documents_full"]);
    assert.equal(stored, objects + answers.filter((answer) => answer === "stored").length);
    assert.equal((await post("x", "text/plain", "?metadata=%5B1%5D")).status, 422);
  });

  const bad: readonly (readonly [name: string, bytes: () => string | Buffer, type: string, detail: RegExp])[] = [
    ["another type", () => "x", "image/png", /Content-Type/],
    ["Latin-1", () => Buffer.from([0xe4]), "text/plain", /UTF-8/],
    ["control characters", () => "a\u0001", "text/plain", /control characters/],
    ["a blank page", () => pdfFile([""]), "application/pdf", /no text/],
    ["a damaged PDF", () => "%PDF-1.4 nothing", "application/pdf", /damaged/],
    ["an encrypted PDF", () => pdfFile(["x"], { encrypt: true }), "application/pdf", /encrypted/],
    ["too many pages", () => pdfFile(new Array(501).fill("x")), "application/pdf", /500 pages/],
    ["a PDF bomb", () => pdfFile(["x"], { bomb: 400_000_000 }), "application/pdf", /memory|too long|failed|damaged/],
    ["a damaged DOCX", () => "PK nothing", docx, /damaged/],
    ["a zip bomb", () => docxFile({ "word/x.xml": Buffer.alloc(150_000_000) }), docx, /unpacked/],
    ["a deep page", () => `${"<div>".repeat(200_000)}x`, "text/html", /nested/],
  ];
  for (const [name, bytes, type, detail] of bad)
    test(`${name} is refused with the reason`, async () => {
      const { status, json } = await post(bytes(), type);

      assert.deepEqual([status, json.error], [422, "document_unreadable"], JSON.stringify(json));
      assert.match(json.detail, detail);
    });

  test("an empty file is refused", async () => {
    assert.equal((await post("", "text/plain")).json.error, "empty_data");
  });
});
