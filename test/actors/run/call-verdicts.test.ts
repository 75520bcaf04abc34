// The verdicts of controls on calls and results, through a chat: the view of model, client, log, audit and tool.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { runAddress, threadAddress } from "../../../bus/address.ts";
import type { Control, GovernedCall } from "../../../governance/controls/control.ts";
import { pass } from "../../../governance/controls/verdicts.ts";
import { decideOps } from "../../../storage/tables/approvals.ts";
import { tenantId } from "../../support/actor-process.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { cleanup } from "../../support/temp.ts";
import { asks, framesOf, GovernedChat, type GovernedTurn, resultsOf, secret } from "./governed-chat.ts";

const done = { text: ["Done."] };
const call = asks(["leaky", { path: "a.txt" }]);
const no = { verdict: "deny", rule: "no-files", detail: "not today" } as const;
const ends = (audit: GovernedTurn["audit"]) =>
  audit.filter(({ event_type }) => event_type === "final_response").map(({ status }) => status);
const intents = (events: { kind: string }[]) => events.filter(({ kind }) => kind === "tool_call");

describe("a control", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  before(async () => {
    disk = await SimDisk.open(atEnd);
  });

  const chat = (...controls: Control[]) => new GovernedChat(atEnd, disk, controls);
  const shownLast = (of: GovernedChat) => of.model.requests.at(-1)?.at(-1)?.content;

  test("denies: the tool does not run, and all readers see the control's name", async () => {
    const hook: Control = { name: "hook", before: () => ({ verdict: "deny", rule: "no-files", detail: "not today" }) };
    const governed = chat(hook);

    const { turn, events, audit } = await governed.play("denied", [call, done]);

    const told = "[hook denied] no-files";
    assert.deepEqual(governed.ran, []);
    assert.equal(shownLast(governed), told);
    assert.deepEqual(framesOf(turn, "tool_end"), [{ name: "leaky", output: told, id: "c0" }]);
    const controls = [{ control: "hook", verdict: "deny", rule: "no-files", ms: 0 }];
    assert.deepEqual(resultsOf(events), [[told, { status: "denied", controls, passed: ["limits", "policy"] }]]);
    assert.deepEqual(intents([...events]), []);
    assert.deepEqual(
      audit.map(({ event_type, status }) => `${event_type} ${status}`),
      ["user_input ok", "policy_deny denied", "final_response error"],
    );
    const { tool, control, layer, reason, hook: id } = audit[1]?.payload ?? {};
    assert.deepEqual([tool, control, layer, reason, id], ["leaky", "hook", "hook", "not today", "no-files"]);
  });

  test("replaces arguments: tool, client, audit and intent get them, no message does", async () => {
    const seen: unknown[] = [];
    const governed = chat(
      { name: "hook", before: () => ({ verdict: "replace", args: { path: "b.txt" }, rule: "elsewhere" }) },
      {
        name: "screening",
        before({ asked, args }) {
          seen.push([asked, args]);
          return pass;
        },
      },
    );

    const { turn, events, audit } = await governed.play("replaced", [call, done]);

    assert.deepEqual(governed.ran, [{ path: "b.txt" }]);
    assert.deepEqual(seen, [[{ path: "a.txt" }, { path: "b.txt" }]]);
    assert.deepEqual(framesOf(turn, "tool_start")[0].input, { path: "b.txt" });
    assert.deepEqual(audit[1]?.payload.args, { path: "b.txt" });
    const [said] = events.filter(({ role }) => role === "assistant");
    assert.deepEqual(said?.extra?.tool_calls?.[0]?.args, { path: "a.txt" });
    const [intent] = events.filter(({ kind }) => kind === "tool_call");
    assert.deepEqual(intent?.extra?.metadata?.args, { path: "b.txt" });
    assert.deepEqual(
      resultsOf(events).map(([text, metadata]) => [text, (metadata as { controls: unknown[] }).controls]),
      [
        [
          "found [REDACTED] in b.txt",
          [
            { control: "hook", verdict: "replace", rule: "elsewhere", ms: 0 },
            { control: "secret_masking", verdict: "replace", ms: 0 },
          ],
        ],
      ],
    );
  });

  test("replaces arguments by invalid ones: no call is made, the model reads why", async () => {
    const governed = chat({ name: "hook", before: () => ({ verdict: "replace", args: { file: "b.txt" } }) });

    const { events, audit } = await governed.play("misfit", [call, done]);

    const told = "[tool error/invalid_arguments] changed by hook: file is not an argument of this tool";
    assert.deepEqual([governed.ran, shownLast(governed)], [[], told]);
    const controls = [{ control: "hook", verdict: "replace", ms: 0 }];
    assert.deepEqual(resultsOf(events), [[told, { status: "error", controls, passed: ["limits", "policy"] }]]);
    const { error_code, args } = audit[1]?.payload ?? {};
    assert.deepEqual([audit[1]?.event_type, error_code, args], ["tool_call", "invalid_arguments", { file: "b.txt" }]);
  });

  test("replaces arguments, and a person is asked: the request shows the new ones", async () => {
    const governed = chat({ name: "hook", before: () => ({ verdict: "replace", args: { path: "b.txt" } }) });
    const turn = governed.submit("shown", [call, done], { manifest: "gated" });
    await governed.sim.until(turn.accepted);
    await governed.sim.advance(1_000);

    const [asked] = framesOf(turn, "approval_required");
    assert.deepEqual(asked.args, { path: "b.txt", preview: "looks into b.txt" });
  });

  test("waits: the run suspends, and the call is refused when no answer comes in time", async () => {
    const may_answer = { scopes: [], principal: null, not_principal: null };
    const wait = { kind: "approval", subject: "May it?", deadline: 1, may_answer };
    let asked = 0;
    const governed = chat({
      name: "approvals",
      before() {
        asked++;
        return { verdict: "wait", rule: "gate", wait };
      },
    });
    const turn = governed.submit("waiting", [call, done]);
    await governed.sim.until(turn.accepted);
    await governed.sim.advance(1_000);
    const live = governed.process.deps.liveRuns.size;
    governed.process.bus.tell(runAddress(tenantId, "waiting", turn.runId), "resume", { due: true });
    await governed.sim.until(turn.ended);

    const { events, audit } = await governed.left("waiting", turn);
    const told = "[approval timeout] tool=leaky rule=gate";
    assert.deepEqual([live, asked, governed.ran, shownLast(governed)], [0, 1, [], told]);
    const controls = [{ control: "approvals", verdict: "wait", rule: "gate", ms: 0 }];
    assert.deepEqual(resultsOf(events), [[told, { status: "denied", controls, passed: ["limits", "policy"] }]]);
    assert.deepEqual([audit[1]?.event_type, audit[1]?.payload.control], ["policy_deny", "approvals"]);
    assert.deepEqual(framesOf(turn, "tool_start").length, 1);
    assert.deepEqual(intents([...events]), []);
  });

  test("denies the last call of a suspended run: its goal is not done either", async () => {
    const governed = chat({ name: "hook", before: ({ tool }) => (tool === "leaky" ? no : pass) });
    const both = asks(["calculator", { expression: "6*7" }], ["leaky", { path: "a.txt" }]);
    const turn = governed.submit("beside", [both, done], { manifest: "beside" });
    await governed.sim.until(turn.accepted);
    await governed.sim.advance(1_000);
    const live = governed.process.deps.liveRuns.size;
    const [{ approval_id }] = framesOf(turn, "approval_required");
    const tenant = governed.process.deps.store.tenant(tenantId);
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await governed.sim.until(tenant.write(decideOps(tenant, approval_id, decision, "bob")));
    governed.process.bus.tell(runAddress(tenantId, "beside", turn.runId), "resume", { due: false });
    await governed.sim.until(turn.ended);

    const { audit } = await governed.left("beside", turn);
    assert.equal(live, 0);
    assert.deepEqual(ends(audit), ["error"]);
  });

  test("denies the last call of a step before a postponed durable run: the same", async () => {
    const governed = chat({ name: "hook", before: () => no });
    const turn = governed.submit("put-off", [call, { failure: "the provider is gone" }, done], { manifest: "durable" });
    await governed.sim.until(turn.accepted);
    await governed.sim.advance(2_000);
    await governed.sim.until(governed.process.bus.ask(runAddress(tenantId, "put-off", turn.runId), "work", {}));

    const { audit, events } = await governed.left("put-off", turn);
    assert.equal(events.at(-1)?.content, "Done.");
    assert.deepEqual(ends(audit), ["error"]);
  });

  test("denies the last call before a steering message: the new turn is judged by itself", async () => {
    const governed = chat({ name: "hook", before: () => no });
    const turn = governed.submit("again", [call, done, done]);
    await governed.sim.until(turn.accepted);
    const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
    const said = { text: "and now?", kind: "follow_up", principal } as const;
    await governed.sim.until(governed.process.bus.ask(threadAddress(tenantId, "again"), "steer", said));
    await governed.sim.until(turn.ended);

    const { audit } = await governed.left("again", turn);
    assert.deepEqual(ends(audit), ["ok"]);
  });

  test("replaces a result: all readers see the new one, masked, with its error flag", async () => {
    const seen: unknown[] = [];
    const governed = chat({
      name: "guardrails",
      after(_call: GovernedCall, result) {
        seen.push(result);
        if (result.error !== undefined) return { verdict: "replace", result: { text: `softly: ${result.text}` } };
        return { verdict: "replace", result: { ...result, text: `${result.text}, see ${secret}` } };
      },
    });

    const both = asks(["leaky", { path: "a.txt" }], ["failing", {}]);
    const { turn, events, audit } = await governed.play("result", [both, done]);

    const told = ["found [REDACTED] in a.txt, see [REDACTED]", "softly: no such thing"];
    assert.deepEqual(seen, [{ text: `found ${secret} in a.txt` }, { text: "no such thing", error: "not_found" }]);
    assert.deepEqual(
      framesOf(turn, "tool_end").map(({ output }) => output),
      told,
    );
    assert.deepEqual(
      governed.model.requests
        .at(-1)
        ?.slice(-2)
        .map(({ content }) => content),
      told,
    );
    assert.deepEqual(
      resultsOf(events).map(([text, metadata]) => [text, (metadata as { status: string }).status]),
      told.map((text) => [text, "ok"]),
    );
    const codes = audit.slice(1, -1).map(({ status, payload }) => [status, payload.error_code]);
    assert.deepEqual(
      codes,
      [
        ["ok", undefined],
        ["error", "not_found"],
      ],
      "audit says what the tools did",
    );
  });

  test("blocks a result: no reader sees it, and audit has the call and its outcome", async () => {
    const detail = `quotes ${secret}`;
    const governed = chat({ name: "screening", after: () => ({ verdict: "block", rule: "injection", detail }) });

    const { turn, events, audit } = await governed.play("blocked", [call, done]);

    const told = "denied by screening: quotes [REDACTED]";
    assert.deepEqual([governed.ran, shownLast(governed)], [[{ path: "a.txt" }], told]);
    assert.deepEqual(
      framesOf(turn, "tool_end").map(({ output }) => output),
      [told],
    );
    const [[text, metadata] = []] = resultsOf(events);
    assert.deepEqual([text, (metadata as { status: string }).status], [told, "denied"]);
    assert.ok(!JSON.stringify([events, turn.text, governed.model.texts]).includes("found"));
    // Rows of one millisecond have no order.
    assert.deepEqual(audit.map(({ event_type, status }) => `${event_type} ${status}`).toSorted(), [
      "final_response error",
      "policy_deny denied",
      "tool_call ok",
      "user_input ok",
    ]);
  });

  test("is not asked about unknown or invalid calls, and does not see their answers", async () => {
    const passed: string[] = [];
    const governed = chat({
      name: "hook",
      before({ tool }) {
        passed.push(`before ${tool}`);
        return pass;
      },
      after({ tool }) {
        passed.push(`after ${tool}`);
        return pass;
      },
    });

    const three = asks(["no_such_tool", {}], ["leaky", { file: 1 }], ["failing", {}]);
    const { events } = await governed.play("unasked", [three, done]);

    assert.deepEqual(passed, ["before failing", "after failing"]);
    assert.deepEqual(
      resultsOf(events).map(([text]) => text),
      [
        "[tool error/permission_denied] no tool of this name is bound",
        "[tool error/invalid_arguments] file is not an argument of this tool",
        "[tool error/not_found] no such thing",
      ],
    );
  });

  test("that is slow is measured, and an abort during it keeps the tool from running", async () => {
    let abort = () => {};
    const governed: GovernedChat = chat({
      name: "hook",
      before: () =>
        new Promise((resolve) => {
          abort();
          governed.env.timer(20, () => resolve({ verdict: "replace", args: {} }));
        }),
    });

    const measured = await governed.play("slow", [asks(["failing", {}]), done]);
    abort = () => void governed.process.abort("stopped");
    const { turn, events } = await governed.play("stopped", [asks(["failing", {}]), done]);

    const [[, metadata] = []] = resultsOf(measured.events);
    const controls = [{ control: "hook", verdict: "replace", ms: 20 }];
    assert.deepEqual(metadata, { status: "error", controls, passed: ["limits", "policy", "secret_masking"] });
    assert.deepEqual([governed.ran.length, turn.outline.includes("aborted")], [1, true]);
    assert.deepEqual(
      resultsOf(events).map(([text]) => text),
      ["[tool error/interrupted] not run: the run was stopped"],
    );
  });
});
