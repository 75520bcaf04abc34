// SVC_MAX_BODY_BYTES and SVC_MAX_UPLOAD_BYTES: sizes that a deployment with raised limits accepts, and fixed upper
// bounds.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { allDuties } from "../../governance/settings/duties.ts";
import { readSettings } from "../../governance/settings/settings.ts";
import { allRoutes } from "../../http/routes/all.ts";
import { shown, startChat, turn } from "../support/chat.ts";
import { png } from "../support/image-bytes.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const miB = 1024 * 1024;

describe("a server with raised limits", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({ ann: { scopes: ["chat:write", "files:write", "files:read"] } });
  const as = { key: keys.ann };
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: [],
      routes: { eyes: { provider: "openai", model: "eyes", modalities: ["text", "image"] } },
      manifests: { sees: { model: { id: "eyes" } } },
      env: { ...env, SVC_MAX_BODY_BYTES: String(3 * miB), SVC_MAX_UPLOAD_BYTES: String(12 * miB) },
    }));
    mock.answer("eyes", { text: "Seen." });
  });

  /** The parts of the last message that the model received. */
  const given = () => shown(mock.requests.at(-1)).at(-1)?.content as unknown as { image_url?: { url: string } }[];

  test("accepts a body up to its limit, and passes its image to the model", async () => {
    const url = `data:image/png;base64,${png(2 * miB).toString("base64")}`;
    const image = { type: "image_url", image_url: { url } };

    const answer = await server.post("/chat", { manifest: "sees", messages: [{ role: "user", content: [image] }] }, as);
    const refused = await server.post("/chat", turn("sees", "x".repeat(3 * miB)), as);

    assert.equal(answer.status, 200, answer.text);
    assert.equal(given()[0]?.image_url?.url, url);
    assert.deepEqual([refused.status, refused.json], [413, { error: "payload_too_large" }]);
  });

  test("accepts a file up to its limit, in a longer body, and passes it to the model", async () => {
    const upload = (bytes: number) =>
      server.post("/files", { data: png(bytes).toString("base64"), media_type: "image/png" }, as);

    const largest = await upload(12 * miB);
    const larger = await upload(12 * miB + 1);
    // The mock model accepts requests of 16 MiB.
    const sent = await upload(11 * miB);
    const part = { type: "file", file: { file_id: sent.json.file_id } };
    const answer = await server.post("/chat", { manifest: "sees", messages: [{ role: "user", content: [part] }] }, as);

    assert.deepEqual([largest.status, largest.json.size_bytes], [200, 12 * miB]);
    assert.deepEqual([larger.status, larger.json.error], [400, "file_too_large"]);
    assert.equal(answer.status, 200, answer.text);
    assert.ok((given()[0]?.image_url?.url.length ?? 0) > 14 * miB);
  });
});

test("the limits are raised to 16 and 12 MiB at most, and are never lowered", () => {
  const issues = (name: string, bytes: number) => readSettings({ [name]: String(bytes) }).issues.map((one) => one.name);

  for (const [name, least, most] of [
    ["SVC_MAX_BODY_BYTES", miB, 16 * miB],
    ["SVC_MAX_UPLOAD_BYTES", 600 * 1024, 12 * miB],
  ] as const) {
    for (const bytes of [least, most]) assert.deepEqual(issues(name, bytes), []);
    for (const bytes of [least - 1, most + 1]) assert.deepEqual(issues(name, bytes), [name]);
  }
});

test("keeps the limit of a route that has its own", () => {
  const asked = { manifestSource: "store", triggers: null, duties: allDuties } as const;
  const limits = (more: object) =>
    new Map(
      allRoutes({ ...asked, ...more }).map(({ method, path, bodyBytesMax }) => [`${method} ${path}`, bodyBytesMax]),
    );

  const [plain, raised] = [limits({}), limits({ maxBodyBytes: 16 * miB, maxUploadBytes: 12 * miB })];

  for (const [name, bytes] of plain)
    if (name === "POST /files") assert.ok((raised.get(name) ?? 0) > 16 * miB);
    else assert.equal(raised.get(name), bytes === miB ? 16 * miB : bytes, name);
});
