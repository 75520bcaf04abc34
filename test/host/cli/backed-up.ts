import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { png } from "../../support/image-bytes.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";

// Data that backup tests store on a server and expect after a restore.

/** Credentials with all scopes. */
export const { env: auth, keys } = apiKeys({ alice: { scopes: ["admin"] } });

/** Runs a turn in a conversation. */
export const ask = (server: TestServer, thread_id: string, text: string, manifest = "quick") =>
  server.post("/chat", { manifest, thread_id, messages: [{ role: "user", content: text }] }, { key: keys.alice });
/** The messages of a conversation. */
export const historyOf = async (server: TestServer, thread: string) =>
  ((await server.get(`/chat/history/${thread}`, { key: keys.alice })).json as { messages: { content: string }[] })
    .messages;

const unnamed = "01234567-89ab-4cde-8f01-23456789abcd.txt";

/** Id of the artifact that `fill` stores. */
async function artifactOf(server: TestServer): Promise<string> {
  const { json } = await server.get("/chat/sessions/stored", { key: keys.alice });
  return json.transcript.find(({ kind }: { kind: string }) => kind === "tool_result").metadata.artifact_id;
}

/** Stores conversations, a manifest, a file, a document of a file, an artifact and an object of the operator. */
export async function fill(server: TestServer): Promise<string> {
  await ask(server, "kept", "Grüße \u2028 \u0001 \\ \" 'x' and 6 * 7?");
  const spec = { tools: ["calculator"], artifacts: { enabled: true, threshold_chars: 1 } };
  const manifest = { metadata: { name: "own" }, spec };
  assert.ok((await server.request("PUT", "/manifests/own", { body: { manifest }, key: keys.alice })).status < 300);
  mkdirSync(join(server.dataDir, "objects/prompts"), { recursive: true });
  writeFileSync(join(server.dataDir, "objects/prompts/one.md"), "Be brief.");
  assert.equal((await ask(server, "stored", "6 * 7?", "own")).status, 200);
  const artifacts = join(server.dataDir, "objects/artifacts/acme/own");
  assert.ok(readFileSync(join(artifacts, `${await artifactOf(server)}.txt`)).length > 0);
  writeFileSync(join(artifacts, unnamed), "an object without a row");
  const asText = { key: keys.alice, body: Buffer.from("A jasmine."), headers: { "content-type": "text/plain" } };
  assert.equal((await server.request("POST", "/documents/files", asText)).status, 200);
  const upload = { data: png(5_000).toString("base64"), media_type: "image/png" };
  return (await server.post("/files", upload, { key: keys.alice })).json.file_id;
}

/** Asserts that a restored server has all data and works. */
export async function checkRestored(server: TestServer, fileId: string, history: unknown): Promise<void> {
  assert.deepEqual(await historyOf(server, "kept"), history);
  assert.deepEqual(await historyOf(server, "later"), []);
  assert.equal((await server.get("/manifests/own", { key: keys.alice })).status, 200);
  const file = await server.get(`/files/${fileId}`, { key: keys.alice });
  assert.ok(Buffer.from(file.json.data, "base64").equals(png(5_000)));
  const [document] = (await server.get("/documents", { key: keys.alice })).json.items;
  const original = await server.get(`/documents/${document.doc_id}/file`, { key: keys.alice });
  assert.equal(original.text, "A jasmine.");
  const artifact = await server.get(`/artifacts/own/${await artifactOf(server)}`, { key: keys.alice });
  assert.equal(artifact.json.content, "42");
  assert.ok(!existsSync(join(server.dataDir, "objects/artifacts/acme/own", unnamed)));
  assert.equal(readFileSync(join(server.dataDir, "objects/prompts/one.md"), "utf8"), "Be brief.");
  assert.equal((await ask(server, "kept", "And 2 + 3?")).status, 200);
}
