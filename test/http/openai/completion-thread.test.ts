// The thread of a completion: X-Svc-Thread-Id has precedence over `user`, and `user` counts only if the deployment says
// so.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChat } from "../../support/chat.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const { env: keyed, keys } = apiKeys({ ann: { scopes: ["*"] }, rival: { tenant_id: "rival", scopes: ["*"] } });
const messages = [{ role: "user", content: "hi" }];

for (const meaning of ["thread", "ignore"] as const)
  describe(`a completion with SVC_OPENAI_USER=${meaning}`, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    before(async () => {
      ({ server, mock } = await startChat(atEnd, {
        models: ["plain"],
        manifests: { agent: { auth: { inbound: { allow_anonymous: true } } } },
        env: {
          ...keyed,
          SVC_OPENAI_USER: meaning,
          SVC_OPENAI_REASONING: String(meaning === "thread"),
          SVC_ANONYMOUS_TENANT: "public",
          SVC_LEASE_ENFORCE: "strict",
        },
      }));
      mock.answer("plain", { reasoning: ["Hm."], text: "Ok." });
    });

    const ask = (fields: object, headers: Record<string, string> = {}, key: string | null = keys.ann) =>
      server.post(
        "/v1/chat/completions",
        { model: "agent", messages, ...fields },
        { headers, ...(key !== null && { key }) },
      );
    const spoken = async (thread: string, key = keys.ann): Promise<number> => {
      const { status, json } = await server.get(`/chat/history/${encodeURIComponent(thread)}`, { key });
      return status === 404 ? 0 : json.messages.length;
    };

    for (const stream of [false, true])
      test(`the header names the thread${stream ? " of a stream" : ""}, also next to user`, async () => {
        const named = `named-${stream}`;
        const first = await ask({ stream }, { "x-svc-thread-id": named });
        const second = await ask({ stream, user: `person-${stream}` }, { "x-svc-thread-id": named });

        assert.deepEqual([first.status, second.status], [200, 200]);
        assert.deepEqual(
          [first, second].map(({ headers }) => headers["x-svc-thread-id"]),
          Array(2).fill(`acme:${named}`),
        );
        assert.deepEqual([await spoken(named), await spoken(`person-${stream}`)], [4, 0]);
        assert.equal(await spoken(named, keys.rival), 0);
      });

    test(`user ${meaning === "thread" ? "names the thread" : "has no effect"} without the header`, async () => {
      const { status, headers } = await ask({ user: "person" });
      const empty = await ask({ user: "person" }, { "x-svc-thread-id": "" });
      const odd = await ask({ user: "a:b" });

      const isThread = meaning === "thread";
      assert.deepEqual([status, headers["x-svc-thread-id"]], [200, isThread ? "acme:person" : undefined]);
      assert.deepEqual([empty.status, await spoken("person")], [200, isThread ? 4 : 0]);
      assert.deepEqual([odd.status, odd.json.error?.code], isThread ? [400, "invalid_user"] : [200, undefined]);
    });

    test("the header has the id in the form of answers, escaped", async () => {
      const suffix = "Käse & Brot";
      const { status, headers } = await ask({}, { "x-svc-thread-id": encodeURIComponent(suffix) });

      assert.deepEqual([status, await spoken(suffix)], [200, 2]);
      const again = await ask({}, { "x-svc-thread-id": String(headers["x-svc-thread-id"]).slice("acme:".length) });
      assert.deepEqual([again.status, await spoken(suffix)], [200, 4]);
    });

    test("a header that is no suffix is 400 with the name of the header", async () => {
      for (const value of ["acme:person", "a%2Fb", "%zz", "a#b", "x".repeat(201), "task-0123456789abcdef"]) {
        const { status, json } = await ask({}, { "x-svc-thread-id": value });

        assert.deepEqual([status, json.error.code], [400, "invalid_thread_id:X-Svc-Thread-Id"], value);
      }
    });

    test("the header is subject to leases and to the threads of anonymous callers", async () => {
      await ask({}, { "x-svc-thread-id": "held" });
      await server.post("/chat/sessions/lease", { thread_id: "held", holder_id: "me" }, { key: keys.ann });

      const held = await ask({}, { "x-svc-thread-id": "held" });
      const stranger = await ask({}, { "x-svc-thread-id": "held" }, null);
      const own = await ask({}, { "x-svc-thread-id": `anon-${"0".repeat(32)}` }, null);

      assert.deepEqual([held.status, held.json.error.code], [409, "lease_held"]);
      assert.deepEqual([stranger.status, stranger.json.error.code], [400, "invalid_user"]);
      assert.equal(own.status, 200);
    });

    test(`thoughts are ${meaning === "thread" ? "sent" : "not sent if SVC_OPENAI_REASONING is false"}`, async () => {
      const whole = await ask({});
      const streamed = await ask({ stream: true });

      const told = meaning === "thread";
      assert.equal(whole.json.choices[0].message.reasoning_content, told ? "Hm." : undefined);
      assert.equal(streamed.text.includes('"reasoning_content":"Hm."'), told);
    });
  });
