// The governance section: pins of threads to a version of a manifest, the notice for users, and credentials in manifests.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  operator: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});

describe("the governance section", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        plain: {},
        told: {
          governance: { transparency_notice: true },
          system_prompt: { inline: "Be brief." },
          a2a: { publish: true },
        },
      },
      env: { ...keyed, SVC_DEFAULT_MANIFEST: "told" },
    }));
  });

  let count = 0;
  const fresh = (): string => `g${++count}`;
  const as = (who: keyof typeof keys = "operator") => ({ key: keys[who] });

  async function publish(name: string, prompt: string, more: object = {}, who: keyof typeof keys = "operator") {
    const spec = {
      model: { id: "scripted" },
      system_prompt: { inline: prompt },
      governance: { pin_compile: true },
      ...more,
    };
    const answer = await server.request("PUT", `/manifests/${name}`, {
      ...as(who),
      body: { manifest: { metadata: { name }, spec } },
    });
    assert.equal(answer.status, 200, answer.text);
    return answer.json.version as number;
  }

  async function say(manifest: string, thread_id: string, path = "/chat", who: keyof typeof keys = "operator") {
    mock.answer("scripted", () => says("Yes."));
    const body = { manifest, thread_id, messages: [{ role: "user", content: "hi" }] };
    return server.post(path, body, as(who));
  }

  test("GOV-001 a turn after a publication is 409 with both versions until the old one is back", async () => {
    const thread = fresh();
    const first = await publish("pinned", "One.");
    assert.equal((await say("pinned", thread)).status, 200);
    const second = await publish("pinned", "Two.");

    const refused = await say("pinned", thread);
    const streamed = await say("pinned", thread, "/chat/stream");
    const other = await say("pinned", fresh());
    await server.post("/manifests/pinned/rollback", { version: first }, as());
    const again = await say("pinned", thread);

    const { detail } = refused.json;
    assert.deepEqual([refused.status, streamed.status, other.status, again.status], [409, 409, 200, 200], refused.text);
    assert.equal(detail.error, "manifest_pin_moved");
    assert.deepEqual([detail.pinned.version, detail.current.version], [first, second]);
    assert.match(detail.pinned.digest, /^[0-9a-f]{64}$/);
    assert.notEqual(detail.pinned.digest, detail.current.digest);
  });

  test("GOV-001 a pin binds turns under versions and manifests without pin_compile", async () => {
    const thread = fresh();
    await publish("loosened", "One.");
    await say("loosened", thread);
    await publish("loosened", "One.", { governance: {} });

    const loosened = await say("loosened", thread);
    const other = await say("plain", thread);

    assert.deepEqual([loosened.status, other.status], [409, 409]);
    assert.equal(other.json.detail.current.manifest, "plain");
  });

  test("GOV-001 a fork and a released thread are pinned anew", async () => {
    const [one, two, fork] = [fresh(), fresh(), fresh()];
    await publish("released", "One.");
    for (const thread of [one, two]) await say("released", thread);
    await publish("released", "Two.");
    const forked = await server.post("/chat/fork", { thread_id: one, new_thread_id: fork }, as());
    const onFork = await say("released", fork);

    const foreign = await server.post("/manifests/released/pins/release", {}, as("stranger"));
    const released = await server.post("/manifests/released/pins/release", { thread_id: one }, as());
    const statuses = [(await say("released", one)).status, (await say("released", two)).status];
    const rest = await server.post("/manifests/released/pins/release", {}, as());
    await publish("released", "Three.");
    const later = await say("released", one);

    assert.deepEqual([forked.status, onFork.status], [200, 200], forked.text + onFork.text);
    assert.deepEqual([foreign.json.released, released.json.released, rest.json.released], [0, 1, 3]);
    assert.deepEqual(statuses, [200, 409]);
    assert.equal(later.status, 200);
    const [row] = await eventually("the audit rows", async () => {
      const { items } = (await server.get("/audit?event_type=manifest_pins_released", as())).json;
      return items.length >= 2 && items;
    });
    assert.equal(row.manifest_id, "released");
  });

  test("GOV-001 a released thread is bound again by its next turn", async () => {
    const thread = fresh();
    await publish("rebound", "One.");
    await say("rebound", thread);
    await server.post("/manifests/rebound/pins/release", {}, as());
    await say("rebound", thread);
    await publish("rebound", "Two.");

    const refused = await say("rebound", thread);

    assert.equal(refused.status, 409);
  });

  test("GOV-001 a moved pin is a conflict on /v1 and outlives a restart", async () => {
    const thread = fresh();
    await publish("restarted", "One.");
    await say("restarted", thread);
    await publish("restarted", "Two.");
    await server.restart();

    const refused = await say("restarted", thread);
    const openai = await server.post(
      "/v1/chat/completions",
      { model: "restarted", user: thread, messages: [{ role: "user", content: "hi" }] },
      as(),
    );

    assert.equal(refused.status, 409);
    assert.deepEqual([openai.status, openai.json.error.code], [409, "conflict"], openai.text);
  });

  test("GOV-001 a canary that ends stops the threads of its side", async () => {
    const thread = fresh();
    await publish("birds", "One.");
    const spec = { model: { id: "scripted" }, system_prompt: { inline: "Two." }, governance: { pin_compile: true } };
    const canary = await server.request("PUT", "/manifests/birds", {
      ...as(),
      body: { manifest: { metadata: { name: "birds" }, spec }, activate: false },
    });
    const { version } = canary.json;
    await server.post("/manifests/birds/canary", { canary_version: version, canary_weight: 100 }, as());

    const first = await say("birds", thread);
    const second = await say("birds", thread);
    await server.request("DELETE", "/manifests/birds/canary", as());
    const moved = await say("birds", thread);

    assert.deepEqual([first.status, second.status, moved.status], [200, 200, 409]);
    assert.equal(moved.json.detail.pinned.version, version);
  });

  test("GOV-001 a run that waits for an approval is refused after its pin moved", async () => {
    const thread = fresh();
    const more = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 60 }] };
    await publish("waiting", "One.", more);
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1+1" }]), says("Two.")));
    const stream = await server.stream(
      "/chat/stream",
      { manifest: "waiting", thread_id: thread, messages: [{ role: "user", content: "sum" }] },
      as(),
    );
    const pending = await eventually("the approval", async () => {
      const { items } = (await server.get("/approvals?status=pending", as())).json;
      return items.find(({ thread_id }: { thread_id: string }) => thread_id.endsWith(`:${thread}`));
    });
    await publish("waiting", "Two.", more);
    await server.post(`/approvals/${pending.id}/decide`, { status: "approved" }, as());
    await stream.rest();

    const after = await say("waiting", thread);

    assert.equal(after.status, 409, after.text);
  });

  test("the transparency notice is in the prompt and in the agent card", async () => {
    await say("told", fresh());
    const [last] = mock.requests.slice(-1);
    const card = await server.get("/.well-known/agent-card.json", as());

    assert.match(JSON.stringify(last), /You are an AI system/);
    assert.equal(card.json.transparencyNotice, true, card.text);
    assert.match(card.json.description, /You are talking to an AI system\.$/);
  });

  test("credentials in a manifest are refused where plaintext secrets are forbidden", async () => {
    const write = async (auth: string, governance: object) => {
      const spec = { peers: [{ name: "p", url: "https://a.example", auth }], governance };
      const body = { manifest: { metadata: { name: "peering" }, spec } };
      return server.request("PUT", "/manifests/peering", { ...as(), body });
    };

    const [allowed, refused] = [
      await write("Bearer abc", {}),
      await write("Bearer abc", { forbid_plaintext_secrets: true }),
    ];

    assert.equal(allowed.status, 200, allowed.text);
    assert.equal(refused.status, 422);
    assert.match(refused.text, /spec\.peers\[?\.?0\]?\.auth must be secret:NAME/);
  });
});
