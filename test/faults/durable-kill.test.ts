// Durable runs whose server is killed at several moments, on both engines: the next server finishes them, once.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, framesUntil, gate, inTurn, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { dialects } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { checkoutKillTests } from "./checkout-kill.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "approvals:write", "runs:write", "spend"] },
  reviewer: { scopes: ["chat:write", "approvals:read", "approvals:write", "audit:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  bob: { scopes: ["chat:write"] },
  carol: { scopes: ["chat:write", "spend"] },
});
const sum = ["calculator", { expression: "6*7" }] as const;
const over = ["completed", "failed", "expired", "dead"];

/** A plugin with a tool of effect once. */
const payingPlugin = (held: string, paid: string): string => `import { appendFileSync, existsSync } from "node:fs";
import { defineTool } from "svc/actors/tools/tool.ts";
import { Type } from "typebox";
const pay = defineTool({ name: "pay", description: "Pays.", parameters: Type.Object({}), effect: "once", risk: "spends",
  timeoutMs: 600_000,
  async execute() {
    appendFileSync(${JSON.stringify(paid)}, "x");
    if (existsSync(${JSON.stringify(held)})) await new Promise(() => {});
    return { text: "Paid." };
  } });
export const plugin = { name: "pays", description: "Pays.", tools: [pay] };`;

for (const dialect of dialects) {
  describe(`durable runs and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    const alice = { key: keys.alice };
    let server: ProcessServer;
    let mock: MockModel;
    /** The tool does not return while the first file exists, and appends each of its calls to the second. */
    let held: string;
    let paid: string;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      const execution = { mode: "durable" };
      const place = mkdtempSync(join(tempDir(atEnd), "pays-"));
      [held, paid] = [join(place, "held"), join(place, "paid")];
      const plugin = join(place, "pays.ts");
      writeFileSync(plugin, payingPlugin(held, paid));
      writeFileSync(held, "");
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["first", "second", "third", "fourth", "slow", "lead"]),
          ...manifestEnv(atEnd, {
            first: { model: { id: "first" }, tools: ["calculator"], execution },
            second: { model: { id: "second" }, tools: ["calculator"], execution },
            third: {
              model: { id: "third" },
              tools: ["calculator"],
              execution,
              approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
            },
            fourth: {
              model: { id: "fourth" },
              tools: ["calculator"],
              execution,
              policies: [{ id: "spends", tools: ["calculator"], required_scopes: ["spend"] }],
            },
            lead: { model: { id: "lead" }, tools: ["pay"], execution },
            slow: { model: { id: "slow" }, execution },
          }),
          SVC_PLUGINS: plugin,
          ...env,
          ...database.env,
        },
      });
    });

    async function accept(manifest: string, fields: object = {}, key = keys.alice): Promise<string> {
      const { status, json } = await server.post("/chat", turn(manifest, "sum", fields), { key });
      assert.equal(status, 202, JSON.stringify(json));
      return json.resume_token;
    }
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    const until = (token: string, ...statuses: readonly string[]): Promise<any> =>
      eventually(`${token} as ${statuses}`, async () => {
        const { json } = await server.get(`/runs/${token}`, alice);
        return statuses.includes(json.status) ? json : undefined;
      });
    const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;
    /** The event log of a run as short texts. */
    async function eventsOf(token: string): Promise<string[]> {
      const frames = await (await server.listen(`/chat/runs/${token}/stream`, alice)).rest();
      return frames
        .filter(({ name }) => name === "session_event")
        .map(({ json }) => `${json.data.kind} ${json.data.role ?? ""} ${json.data.content}`.replace(/ +/g, " ").trim());
    }

    test("DUR-008 a run killed in its first or last model call resumes there without a poll", async () => {
      mock.answer("first", inTurn(calls(sum), says("It is", never)));
      mock.answer("second", says("Hel", never));
      const inLast = await accept("first", { thread_id: "in-last" });
      const inFirst = await accept("second", { thread_id: "in-first" });
      await eventually("both last calls", async () => (asked("first") === 2 && asked("second") === 1) || undefined);

      await server.kill();
      mock.answer("first", inTurn(calls(sum), says("It is 42.")));
      mock.answer("second", says("Hello."));
      // The poll for due runs is a minute away, so the start itself must find them.
      await server.restart({ SVC_FIBER_POLL_SECONDS: "60" });
      await eventually("both calls again", async () => (asked("first") === 3 && asked("second") === 2) || undefined);
      const ended = await Promise.all([inLast, inFirst].map((token) => until(token, ...over)));

      assert.deepEqual(
        ended.map(({ status, final }) => [status, final.content]),
        [
          ["completed", "It is 42."],
          ["completed", "Hello."],
        ],
      );
      assert.deepEqual(await eventsOf(inLast), [
        "message user sum",
        "message assistant",
        "tool_call",
        "tool_result tool 42",
        "message assistant It is 42.",
      ]);
      assert.deepEqual(await eventsOf(inFirst), ["message user sum", "message assistant Hello."]);
      assert.equal(asked("first"), 3, "the answer that the log has is not asked for again");
    });

    test("DUR-008 a waiting run resumes on its answer, on another server", async () => {
      mock.answer("third", inTurn(calls(sum), says("It is 42.")));
      const token = await accept("third", { thread_id: "waits" });
      const waiting = await until(token, "waiting");

      await server.kill();
      await server.restart();
      const still = await until(token, "waiting");
      await server.post(`/approvals/${waiting.waiting_on.id}/decide`, { decision: "approved" }, alice);
      const ended = await until(token, ...over);

      assert.deepEqual(still.waiting_on, waiting.waiting_on);
      assert.equal(ended.final.content, "It is 42.");
      assert.equal(asked("third"), 2);
    });

    test("DUR-008 AUTH-012 a run killed in a once call waits for a person to decide its outcome", async () => {
      const reviewer = { key: keys.reviewer };
      mock.answer("lead", inTurn(calls(["pay", {}]), says("It is done.")));
      const tokens = [await accept("lead", { thread_id: "cut" }), await accept("lead")];
      const made = () => (existsSync(paid) ? readFileSync(paid, "utf8").length : 0);
      await eventually("both calls", async () => made() === 2 || undefined);

      await server.kill();
      await server.restart();
      const waiting = await Promise.all(tokens.map((token) => until(token, "waiting")));
      const ids = waiting.map(({ waiting_on }) => waiting_on.id);
      const stream = await server.listen(`/chat/runs/${tokens[0]}/stream`, reviewer);
      const blind = await server.listen(`/chat/runs/${tokens[0]}/stream`, { key: keys.bob });
      const [seen, unseen] = await Promise.all(
        [stream, blind].map((each) => framesUntil(each, ({ json }) => json?.data?.status === "waiting")),
      );
      const { json: listed } = await server.get("/approvals", reviewer);
      const decide = (id: string, body: object, key = keys.reviewer) =>
        server.post(`/approvals/${id}/decide`, body, { key });
      const refused = await Promise.all([
        decide(ids[0], { decision: "approved", result: "paid" }),
        decide(ids[0], { decision: "approved", edited_args: { to: "eve" } }),
        decide(ids[0], { decision: "denied", result: "é".repeat(32 * 1024 + 1) }),
        decide(ids[0], { decision: "denied", result: 7 }),
      ]);
      const others = [
        await decide(ids[0], { decision: "approved" }, keys.bob),
        await decide(ids[0], { decision: "approved" }, keys.stranger),
      ];
      rmSync(held);
      const result = "é".repeat(32 * 1024);
      const told = await decide(ids[0], { decision: "denied", note: "by hand", result });
      const late = await decide(ids[0], { decision: "approved" });
      const again = await decide(ids[1], { decision: "approved" });
      const ended = await Promise.all(tokens.map((token) => until(token, ...over)));
      await Promise.all([stream.rest(), blind.rest()]);

      for (const { waiting_on } of waiting) assert.equal(waiting_on.kind, "approval");
      const gates = (frames: typeof seen) => frames?.filter(({ name }) => name === "approval_required") ?? [];
      const [gate, ...more] = gates(seen);
      assert.deepEqual([more.length, gates(unseen).length], [0, 0]);
      assert.deepEqual(
        [gate?.json.data.approval_id, gate?.json.data.rule_id, gate?.json.data.evidence.outcome],
        [ids[0], "outcome-unknown", "unknown"],
      );
      const row = listed.items.find(({ id }: { id: string }) => id === ids[0]);
      assert.deepEqual(
        [row.rule_id, row.tool_name, row.status, row.ttl_seconds, row.expires_at, row.evidence.effect],
        ["outcome-unknown", "pay", "pending", 604_800, gate?.json.data.expires_at, "once"],
      );
      assert.deepEqual(
        refused.map(({ status, json }) => [status, json.error, json.detail[0].loc.at(-1)]),
        [
          [422, "invalid_request", "result"],
          [422, "invalid_request", "edited_args"],
          [422, "invalid_request", "result"],
          [422, "invalid_request", "result"],
        ],
      );
      assert.deepEqual(
        others.map(({ status }) => status),
        [403, 404],
      );
      assert.deepEqual([told.status, told.json.status, told.json.result], [200, "denied", result]);
      assert.deepEqual([late.status, late.json.error], [409, "approval_not_pending"]);
      assert.deepEqual([again.status, again.json.result], [200, undefined]);
      assert.ok(ended.every(({ status, final }) => status === "completed" && final.content === "It is done."));
      const read = mock.requests.findLast(({ model, body }) => model === "lead" && JSON.stringify(body).includes("éé"));
      assert.equal((read?.body.messages as { content: string }[] | undefined)?.at(-1)?.content, result);
      assert.ok((await eventsOf(tokens[1] as string)).includes("tool_result tool Paid."));
      assert.equal(made(), 3, "the one that was told is not made again");
      const { json: audit } = await server.get("/audit?event_type=approval_decided", reviewer);
      const payloads = audit.items.map(({ payload }: { payload: object }) => payload);
      const mine = payloads.find(({ approval_id }: { approval_id: string }) => approval_id === ids[0]);
      assert.deepEqual(
        [mine.rule_id, mine.decision, mine.note, mine.result],
        ["outcome-unknown", "denied", "by hand", result.slice(0, 2000)],
      );
    });

    test("DUR-007 a run resumes as its requester, unless that principal has lost access", async () => {
      const held = gate();
      mock.answer("fourth", says("Hmm", held.opened));
      const [ours, theirs] = [await accept("fourth"), await accept("fourth", {}, keys.bob)];
      const poorer = await accept("fourth", {}, keys.carol);
      await eventually("all model calls", async () => asked("fourth") === 3 || undefined);

      await server.kill();
      mock.answer("fourth", inTurn(calls(sum), says("Done.")));
      const left = JSON.parse(env.SVC_AUTH_API_KEYS as string);
      delete left[keys.bob];
      left[keys.carol].scopes = ["chat:write"];
      await server.restart({ SVC_AUTH_API_KEYS: JSON.stringify(left) });
      const [done, gone] = [await until(ours, ...over), await until(theirs, ...over)];

      assert.deepEqual([done.status, done.principal_subj], ["completed", "alice"]);
      assert.ok((await eventsOf(ours)).includes("tool_result tool 42"), "the scope of the one who has asked holds");
      assert.deepEqual([gone.status, gone.error], ["failed", "principal_revoked"]);
      await until(poorer, ...over);
      const results = (await eventsOf(poorer)).filter((event) => event.startsWith("tool_result"));
      assert.match(results.join(), /denied by policy: spends requires scope spend/);
    });

    test("DUR-011 accepted runs without a slot start on the next server, as many as slots", async () => {
      const held = gate();
      mock.answer("slow", says("Hello", held.opened, "."));
      await server.restart({ SVC_FIBER_CONCURRENCY: "2" });
      const tokens = await Promise.all(Array.from({ length: 6 }, () => accept("slow")));
      await eventually("two model calls", async () => asked("slow") === 2 || undefined);
      const statuses = await Promise.all(
        tokens.map(async (token) => (await until(token, "accepted", "running")).status),
      );

      await server.kill();
      await server.restart();
      await eventually("two again", async () => asked("slow") === 4 || undefined);
      held.open();
      const ended = await Promise.all(tokens.map((token) => until(token, ...over)));

      assert.deepEqual(statuses.toSorted(), [...Array(4).fill("accepted"), "running", "running"]);
      assert.ok(ended.every(({ status }) => status === "completed"));
      assert.equal(asked("slow"), 8, "each is asked once, and twice where the server was killed in it");
    });

    test("DUR-008 SIGTERM suspends runs after their step, and the next server finishes them", async () => {
      mock.answer("first", inTurn({ ...calls(sum), wire: { gapMs: 300 } }, says("It is 42.")));
      const before = asked("first");
      const token = await accept("first", { thread_id: "drained" });
      await eventually("its model call", async () => asked("first") === before + 1 || undefined);

      const exit = await server.stop();
      await server.restart();
      const ended = await until(token, ...over);

      assert.equal(exit.code, 0);
      assert.equal(ended.final.content, "It is 42.");
      assert.equal(asked("first"), before + 2);
    });
  });
}

describe("checkouts and SIGKILL, on sqlite", checkoutKillTests);
