import assert from "node:assert/strict";
import { calls, inTurn, turn } from "./chat.ts";
import type { Answer } from "./http-client.ts";
import type { MockModel } from "./mock-model.ts";
import type { TestServer } from "./server.ts";

/** A brand `lumen` in the tenant of `key`, whose agent calls tools as a test asks. */
export interface Shop {
  readonly server: TestServer;
  readonly mock: MockModel;
  /** Key of a member with every scope. */
  readonly key: string;
}

/** Lets the model call one tool on a thread, and returns the text of its result. */
export async function useTool(
  { server, mock, key }: Shop,
  thread: string,
  name: string,
  args: object = {},
): Promise<string> {
  mock.answer("scripted", inTurn(calls([name, args]), { text: "done" }));
  const stream = await server.stream("/chat/stream", turn("brand-lumen", name, { thread_id: thread }), { key });
  let text: string | null = null;
  for await (const { name: frame, json } of stream) if (frame === "tool_end") text = json.data.output;
  assert.ok(text !== null, stream.text);
  return text;
}

/** Decides about the pending approval of a thread of the tenant. */
export async function decideOn(
  { server, key }: Shop,
  threadId: string,
  decision: "approved" | "denied",
): Promise<Answer> {
  const { json } = await server.get(`/approvals?status=pending&thread_id=${threadId}`, { key });
  return server.post(`/approvals/${json.items[0].approval_id}/decide`, { decision }, { key });
}

interface SeededBrand {
  readonly id: string;
  readonly name: string;
  readonly brand_tenant?: string;
  readonly domains?: readonly string[];
  readonly identity?: object;
  readonly products?: readonly object[];
}

/** Makes a brand unless it exists, with its domains, and imports its products. */
export async function seedBrand(
  server: TestServer,
  key: string,
  { id, name, brand_tenant = id, domains = [], identity = {}, products = [] }: SeededBrand,
): Promise<void> {
  const made = await server.post("/brands", { id, name, brand_tenant, identity }, { key });
  assert.ok([201, 409].includes(made.status), made.text);
  for (const host of domains) {
    const answer = await server.post(`/brands/${id}/domains`, { host }, { key });
    assert.equal(answer.status, 201, answer.text);
  }
  if (products.length === 0) return;
  const imported = await server.post(`/brands/${id}/catalog`, { products }, { key });
  assert.deepEqual([imported.status, imported.json.errors], [200, []], imported.text);
}
