// Messages to a live run: the real thread actor, run and SQLite on the simulated clock.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Steering } from "../../../../actors/run/context/steering.ts";
import { runAddress, threadAddress } from "../../../../bus/address.ts";
import { approvalPage, decideOps } from "../../../../storage/tables/approvals.ts";
import { type LogEvent, readEvents } from "../../../../storage/tables/events.ts";
import { queuedHeads } from "../../../../storage/tables/queued-inputs.ts";
import { waitingRun } from "../../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../../storage/tables/threads.ts";
import { usagePage } from "../../../../storage/tables/usage.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../../support/actor-process.ts";
import { outcomeOf } from "../../../support/outcome.ts";
import { ScriptedModel, type ScriptedReply } from "../../../support/scripted-model.ts";
import { SimDisk } from "../../../support/sim-disk.ts";
import { Sim } from "../../../support/sim-env.ts";
import { call, slow } from "../../../support/slow-turns.ts";
import { cleanup } from "../../../support/temp.ts";

const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const principal = { tenant_id: tenantId, sub: "bob", scopes: [], scheme: "none", issuer: "" };
const tools = ["slow", "calculator"];
const oneAtATime = { session: { steering_mode: "one-at-a-time", follow_up_mode: "one-at-a-time" } };
const parallel = { tools: "parallel" };
const gated = { tools, approvals: [{ id: "sums", tools: ["calculator"] }] };
const manifests = {
  agent: { tools },
  parallel: { tools, execution: parallel },
  single: { tools, ...oneAtATime },
  gated,
  gated_parallel: { ...gated, execution: parallel },
  short: { tools, recursion_limit: 2 },
  poor: { tools, limits: { max_output_tokens: 3 } },
  team: { pattern: "parallel", sub_agents: ["mate"] },
  mate: gated,
  windowed: { tools, session: { strategy: "windowed:2" } },
};
const add = (id: string) => call(id, "calculator", { expression: "1+1" });
const three: ScriptedReply = { text: ["See."], calls: [call("a", "slow"), call("b", "slow"), add("c")], usage };

describe("a steered run", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  let seed = 0;
  before(async () => {
    settings = processSettings(atEnd, manifests);
    disk = await SimDisk.open(atEnd);
  });

  /** A process whose model gives these replies in turn, 2 ms for each piece, on a disk that takes 1 ms. */
  function start(replies: readonly ScriptedReply[]) {
    const sim = new Sim(++seed, { orderly: true });
    const env = sim.env();
    const store = disk.store(sim, env, () => 0.5);
    let asked = 0;
    const model = new ScriptedModel(
      env,
      () => replies[asked++] ?? { text: ["Next."], usage },
      () => 2,
    );
    const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: env.id() });
    atEnd.after(() => process.close());
    const suffix = `steered-${seed}`;
    const address = threadAddress(tenantId, suffix);
    const tenant = store.tenant(tenantId);
    const steer = (text: string, kind: "steer" | "follow_up" = "steer") =>
      process.bus.ask(address, "steer", { text, kind, principal });
    const key = async () => (await threadBySuffix(tenant, suffix))?.thread_key ?? -1;
    const events = async (): Promise<LogEvent[]> => readEvents(tenant, await key(), 0, 1_000);
    return {
      sim,
      process,
      model,
      tenant,
      suffix,
      address,
      steer,
      key,
      events,
      said: (text: string, kind: "steer" | "follow_up" = "steer") => sim.until(steer(text, kind)),
      turn: (manifest: string, rest: Partial<AskedTurn> = {}) =>
        process.submit({ manifest, thread_suffix: suffix, ...rest }),
      note: (subject: string, content: string) =>
        sim.until(
          process.bus.ask(address, "note", {
            subject,
            content,
            metadata: { type: "workspace_edit" },
            frame: { name: "workspace_note", data: { path: subject } },
          }),
        ),
      waiting: async () => (await queuedHeads(tenant, await key())).map(({ kind }) => kind),
      /** The log as text. */
      log: async () =>
        (await events())
          .filter(({ kind }) => kind !== "tool_call" && kind !== "audit")
          .map(({ role, content, extra }) => {
            const mark = extra?.tool_call_id ?? (role === "user" ? extra?.metadata?.type : undefined);
            return [role, mark, content].filter(Boolean).join(" ");
          }),
      parked: async () => (await waitingRun(tenant, await key())) !== undefined,
    };
  }
  const skipped = "[tool error/interrupted] not run: superseded by what the user has said since";
  const words = (frames: readonly { name: string; json?: { data?: { content?: string } } }[]) =>
    frames
      .filter(({ name }) => ["steer", "follow_up", "workspace_note", "done"].includes(name))
      .map(({ name, json }) => `${name} ${json?.data?.content ?? ""}`.trim());

  test("STEER-001 STREAM-035 the active call ends, and later ones are skipped", async () => {
    const { sim, model, said, turn, log, waiting, process } = start([three, { text: ["Blue."], usage }]);
    const going = turn("agent");
    await sim.until(going.accepted);
    await sim.advance(10);
    await said("Make it blue.");
    await sim.until(going.ended);

    assert.deepEqual(await log(), [
      "user go",
      "assistant See.",
      "tool a slept",
      `tool b ${skipped}`,
      `tool c ${skipped}`,
      "user steer Make it blue.",
      "assistant Blue.",
    ]);
    assert.deepEqual(model.requests[1]?.at(-1), { role: "user", content: "Make it blue." });
    assert.deepEqual(words(going.frames), ["steer Make it blue.", "done"]);
    assert.deepEqual(await waiting(), []);
    assert.deepEqual(process.crashes, []);
  });

  test("STEER-001 all parallel calls that have begun run to their end", async () => {
    const { sim, said, turn, log } = start([three, { text: ["Blue."], usage }]);
    const going = turn("parallel");
    await sim.until(going.accepted);
    await sim.advance(10);
    await said("Make it blue.");
    await sim.until(going.ended);

    const after = (await log()).slice(2);
    assert.deepEqual(after.slice(0, 3).sort(), ["tool a slept", "tool b slept", "tool c 2"]);
    assert.deepEqual(after.slice(3), ["user steer Make it blue.", "assistant Blue."]);
  });

  test("while the model streams, none of its calls is begun", async () => {
    const { sim, said, turn, log } = start([three, { text: ["Blue."], usage }]);
    const going = turn("agent");
    await sim.until(going.accepted);
    await said("Make it blue.");
    await sim.until(going.ended);

    assert.deepEqual((await log()).slice(2, 6), [
      `tool a ${skipped}`,
      `tool b ${skipped}`,
      `tool c ${skipped}`,
      "user steer Make it blue.",
    ]);
  });

  test("a message before the run ends continues it, with one done and bill per answer", async () => {
    const seen = new Set<string>();
    for (let ms = 0; ms < 14; ms += 0.5) {
      const replies: ScriptedReply[] = [
        { text: ["One."], usage },
        { text: ["Two."], usage },
      ];
      const { sim, said, turn, log, waiting, tenant, suffix } = start(replies);
      const going = turn("agent");
      await sim.until(going.accepted);
      await sim.advance(ms);
      await said("More.");
      await sim.until(going.ended);

      const logged = await log();
      const isTaken = logged.includes("user steer More.");
      seen.add(`${isTaken}`);
      assert.deepEqual(await waiting(), isTaken ? [] : ["steer"], `${ms}`);
      assert.deepEqual(logged.slice(-1), [isTaken ? "assistant Two." : "assistant One."], `${ms}`);
      assert.equal(going.outline.filter((name) => name === "done").length, 1, `${ms}`);
      const { rows } = await usagePage(tenant, { thread_id: `${tenantId}:${suffix}` }, null, 9);
      assert.equal(rows.length, isTaken ? 2 : 1, `${ms}`);
      const done = going.frames.find(({ name }) => name === "done")?.json?.data;
      assert.equal(done.usage.input, isTaken ? 20 : 10);
      assert.equal(done.final.content, isTaken ? "Two." : "One.");
      assert.deepEqual(
        done.messages.map(({ content }: { content: string }) => content),
        isTaken ? ["go", "One.", "More.", "Two."] : ["go", "One."],
      );
    }
    assert.deepEqual([...seen], ["true", "false"]);
  });

  test("STEER-002 a follow-up is another turn of the same run after its answer", async () => {
    const first = { text: ["Wait."], calls: [call("a", "slow")], usage };
    const { sim, said, turn, log, events, model } = start([
      first,
      { text: ["One."], usage },
      { text: ["Two."], usage },
    ]);
    const going = turn("windowed");
    await sim.until(going.accepted);
    await said("And then?", "follow_up");
    await sim.until(going.ended);

    assert.deepEqual((await log()).slice(1), [
      "assistant Wait.",
      "tool a slept",
      "assistant One.",
      "user follow_up And then?",
      "assistant Two.",
    ]);
    assert.deepEqual(words(going.frames), ["follow_up And then?", "done"]);
    // The window is that of the new turn.
    assert.deepEqual(
      model.requests[2]?.map(({ content }) => content),
      ["One.", "And then?"],
    );
    assert.equal((await events()).filter(({ kind }) => kind === "audit").length, 0);
  });

  test("STEER-003 a steer without a run waits, and follows the next turn's own message", async () => {
    const { sim, said, turn, log, waiting } = start([
      { ...three, calls: [add("c")] },
      { text: ["Done."], usage },
    ]);
    assert.deepEqual(await said("First."), { queued: "steer" });
    await said("Second.");
    await said("Later.", "follow_up");
    assert.deepEqual(await waiting(), ["steer", "steer", "follow_up"]);
    const going = turn("single");
    await sim.until(going.ended);

    assert.deepEqual(await log(), [
      "user go",
      "user steer First.",
      "user steer Second.",
      "assistant See.",
      "tool c 2",
      "assistant Done.",
      "user follow_up Later.",
      "assistant Next.",
    ]);
    assert.deepEqual(await waiting(), []);
  });

  test("a thread of waiting messages only is unlisted until its first turn", async () => {
    const { sim, said, turn, tenant, suffix, process, address, key } = start([]);
    await said("Hello.");
    const before = await threadBySuffix(tenant, suffix);
    await sim.until(turn("agent").ended);
    const after = await threadBySuffix(tenant, suffix);
    await said("Again.");
    await sim.until(process.bus.ask(address, "erase", {}));

    assert.deepEqual([before?.updated_at, before?.next_seq, before?.preview], [0, 0, null]);
    assert.deepEqual([after?.preview, after?.next_seq], ["go", 3]);
    assert.equal(await key(), -1);
    assert.deepEqual(disk.query("SELECT * FROM queued_inputs WHERE thread_key = ?", before?.thread_key ?? 0), []);
  });

  test("STEER-005 SESS-027 one at a time or all: steps take steers, ends follow-ups", async () => {
    for (const [manifest, expected] of [
      ["single", ["assistant Next.", "user steer B", "assistant Next.", "user steer C"]],
      ["agent", ["user steer B", "user steer C", "assistant Next."]],
    ] as const) {
      const { sim, said, turn, log } = start([three]);
      const going = turn(manifest);
      await sim.until(going.accepted);
      await sim.advance(10);
      for (const text of ["A", "B", "C"]) await said(text);
      for (const text of ["X", "Y"]) await said(text, "follow_up");
      await sim.until(going.ended);

      const logged = await log();
      const from = logged.indexOf("user steer A") + 1;
      assert.deepEqual(logged.slice(from, from + expected.length), expected);
      const follow = logged.indexOf("user follow_up X");
      assert.deepEqual(
        logged.slice(follow),
        manifest === "single"
          ? ["user follow_up X", "assistant Next.", "user follow_up Y", "assistant Next."]
          : ["user follow_up X", "user follow_up Y", "assistant Next."],
      );
    }
  });

  test("STEER-006 aborts, limits and step limits leave waiting messages to the next run", async () => {
    const endless = { text: ["On."], calls: [call("a", "slow")], usage };
    const long = { text: ["Much more than this run may say."], usage };
    for (const [manifest, replies, abort] of [
      ["agent", [three], true],
      ["poor", [long], false],
      ["short", [endless, { ...endless, calls: [call("b", "slow")] }], false],
    ] as const) {
      const { sim, said, turn, log, waiting, process, suffix } = start(replies);
      const going = turn(manifest);
      await sim.until(going.accepted);
      await said("Later.", "follow_up");
      if (abort) {
        await sim.advance(8);
        await said("Now.");
        await sim.until(process.abort(suffix));
      }
      await sim.until(going.ended);

      assert.deepEqual(await waiting(), abort ? ["follow_up", "steer"] : ["follow_up"], manifest);
      const next = turn("agent");
      await sim.until(next.ended);
      const logged = await log();
      assert.equal(logged.filter((line) => line === "user follow_up Later.").length, 1, manifest);
      assert.equal(logged.filter((line) => line === "user steer Now.").length, abort ? 1 : 0, manifest);
      assert.deepEqual(await waiting(), [], manifest);
    }
  });

  test("an answer in the last step continues with follow-ups, which get new steps", async () => {
    const step = (id: string) => ({ text: ["On."], calls: [call(id, "slow")], usage });
    const replies = [step("a"), { text: ["One."], usage }, step("b"), { text: ["Two."], usage }];
    const { sim, said, turn, log } = start(replies);
    const going = turn("short");
    await sim.until(going.accepted);
    await sim.advance(17);
    await said("Then.", "follow_up");
    await said("Now.");
    await sim.until(going.ended);

    assert.deepEqual((await log()).slice(3), [
      "assistant One.",
      "user follow_up Then.",
      "user steer Now.",
      "assistant On.",
      "tool b slept",
      "assistant Two.",
    ]);
  });

  test("a steer before an answer is answered in the remaining steps of the turn", async () => {
    const more = { text: ["On."], calls: [call("a", "slow")], usage };
    const { sim, said, turn, log } = start([{ text: ["One."], usage }, more]);
    const going = turn("short");
    await sim.until(going.accepted);
    await said("Now.");
    await sim.until(going.ended);

    assert.deepEqual((await log()).slice(1), [
      "assistant One.",
      "user steer Now.",
      "assistant On.",
      "tool a [tool error/interrupted] not run: the run is out of steps",
    ]);
    assert.ok(going.outline.includes("max_turns"));
  });

  test("a hint that arrives after its subject does nothing", () => {
    const steering = new Steering({ queued: null, resumed: null });
    steering.hinted({ number: 3, interrupts: true });
    assert.deepEqual([steering.isDue, steering.interrupts], [true, true]);
    steering.took({ durable_seq: 0, inputs: [], seen: 3, steers: 0 });
    steering.hinted({ number: 3, interrupts: true });
    assert.deepEqual([steering.isDue, steering.interrupts], [false, false]);
    steering.hinted({ number: 4, interrupts: false });
    assert.deepEqual([steering.isDue, steering.interrupts], [true, false]);
  });

  test("STEER-005 sub-agents are asked again about a message after an answer", async () => {
    const merged: ScriptedReply = { text: Array.from({ length: 50 }, () => "One. "), usage };
    const again: ScriptedReply[] = [
      { calls: [add("m")], usage },
      { text: ["Yes."], usage },
      { text: ["Two."], usage },
    ];
    const { sim, said, turn, log, parked, tenant, process, suffix, events, model } = start([
      { text: ["No."], usage },
      merged,
      ...again,
    ]);
    const going = turn("team");
    await sim.until(going.accepted);
    await sim.advance(40);
    await said("Are you sure?");
    await sim.advance(2_000);
    assert.equal(await sim.until(parked()), true);
    const [asked] = (await sim.until(approvalPage(tenant, { status: "pending" }, null, 10))).rows;
    const id = asked?.id ?? "";
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await sim.until(tenant.write(decideOps(tenant, id, decision, "bob")));
    process.bus.tell(runAddress(tenantId, suffix, going.runId), "resume", { due: false });
    await sim.until(going.ended);

    assert.equal((await sim.until(log())).at(-1), "assistant Two.");
    const ends = (await sim.until(events())).flatMap(({ extra }) =>
      extra?.metadata?.type === "member_end" ? [extra.metadata.text] : [],
    );
    assert.deepEqual(ends, ["No.", "Yes."]);
    assert.equal(model.requests.length, 5);
  });

  test("a run that waits for an approval resumes; the request is denied as superseded", async () => {
    for (const manifest of ["gated", "gated_parallel"]) {
      const asks = { text: ["May I?"], calls: [add("a"), add("b"), call("c", "slow")], usage };
      const { sim, said, turn, log, parked, suffix, process } = start([asks, { text: ["Fine."], usage }]);
      const going = turn(manifest);
      await sim.until(going.accepted);
      await sim.advance(50);
      assert.equal(await parked(), true);
      await said("Never mind.");
      await sim.until(going.ended);

      const ran = manifest === "gated" ? `tool c ${skipped}` : "tool c slept";
      assert.deepEqual((await log()).slice(2).sort(), [
        "assistant Fine.",
        `tool a ${skipped}`,
        `tool b ${skipped}`,
        ran,
        "user steer Never mind.",
      ]);
      const rows = disk.query("SELECT status, decision FROM approvals WHERE thread_id = ?", `${tenantId}:${suffix}`);
      assert.deepEqual(
        rows.map(({ status, decision }) => [status, JSON.parse(String(decision)).value.note]),
        [["denied", "superseded"]],
      );
      assert.deepEqual(words(going.frames), ["steer Never mind.", "done"]);
      assert.deepEqual(process.crashes, []);
    }
  });

  test("a message at any moment of a suspension is stored, and no wait remains", async () => {
    for (const manifest of ["gated", "gated_parallel"])
      for (let ms = 0; ms < 24; ms += 0.5) {
        const asks = { text: ["May I?"], calls: [call("s", "slow"), add("a")], usage };
        const { sim, said, turn, log, waiting, process, key } = start([asks, { text: ["Fine."], usage }]);
        const going = turn(manifest);
        await sim.until(going.accepted);
        await sim.advance(ms);
        await said("Never mind.");
        await sim.until(going.ended);

        const logged = await log();
        const where = `${manifest} ${ms}: ${logged}`;
        assert.equal(logged.filter((line) => line === "user steer Never mind.").length, 1, where);
        assert.deepEqual(await waiting(), [], where);
        assert.deepEqual(process.crashes, [], where);
        const open = disk.query("SELECT * FROM waits WHERE thread_key = ? AND state <> 'closed'", await key());
        assert.deepEqual(open, [], where);
        process.close();
      }
  });

  test("a follow-up does not disturb a waiting run", async () => {
    const asks = { text: ["May I?"], calls: [add("a")], usage };
    const { sim, said, turn, parked, waiting, process, suffix } = start([asks]);
    const going = turn("gated");
    await sim.until(going.accepted);
    await sim.advance(50);
    await said("Later.", "follow_up");
    await sim.advance(50);

    assert.equal(await parked(), true);
    await sim.until(process.abort(suffix));
    await sim.until(going.ended);
    assert.deepEqual(await waiting(), ["follow_up"]);
  });

  test("messages that an abort finds in the last batch are stopped before they run", async () => {
    const seen = new Set<string>();
    for (let ms = 0; ms < 8; ms += 0.25) {
      const { sim, said, turn, process, suffix, waiting, log } = start([{ text: ["One."], usage }]);
      const going = turn("agent");
      await sim.until(going.accepted);
      await said("Later.", "follow_up");
      await sim.advance(ms);
      const { aborted } = await sim.until(process.abort(suffix));
      await sim.until(going.ended);

      const logged = await log();
      const isTaken = logged.includes("user follow_up Later.");
      assert.deepEqual(await waiting(), isTaken ? [] : ["follow_up"], `${ms}`);
      assert.equal(going.outline.includes("aborted"), aborted, `${ms}`);
      assert.ok(aborted || !isTaken, `${ms}: the run went on`);
      seen.add(`${aborted} ${isTaken} ${logged.includes("assistant One.")}`);
    }
    assert.ok(seen.has("true false true"), [...seen].join());
    assert.ok(seen.has("true true true"), [...seen].join());
  });

  test("two concurrent messages are both stored, in order of arrival", async () => {
    const { sim, steer, turn, log } = start([three]);
    const going = turn("agent");
    await sim.until(going.accepted);
    await sim.advance(8);
    const both = Promise.all([steer("A"), steer("B")]);
    await sim.until(both);
    await sim.until(going.ended);

    const logged = await log();
    assert.deepEqual(
      logged.filter((line) => line.startsWith("user steer")),
      ["user steer A", "user steer B"],
    );
  });

  test("a thread has at most 64 waiting messages", async () => {
    const { said, waiting, sim, steer, turn } = start([]);
    for (let at = 0; at < 64; at++) await said(`${at}`, at % 2 === 0 ? "steer" : "follow_up");

    assert.deepEqual(await sim.until(outcomeOf(steer("one more"))), { refused: "queue_full" });
    assert.equal((await waiting()).length, 64);
    await sim.until(turn("agent").ended);
    assert.equal((await waiting()).length, 0);
    await said("again");
  });

  test("WS-009 WS-010 a note waits for the next model call and blocks no tool", async () => {
    const { sim, turn, note, log, waiting, said } = start([three, { text: ["Done."], usage }]);
    const going = turn("agent");
    await sim.until(going.accepted);
    await sim.advance(8);
    assert.deepEqual(await note("a.ts", "old"), { status: "queued", event_id: null });
    await note("b.ts", "other");
    await note("a.ts", "new");
    assert.deepEqual(await waiting(), ["note", "note"]);
    await sim.until(going.ended);
    await said("Held.");
    await sim.until(turn("agent").ended);

    assert.deepEqual((await log()).slice(2), [
      "tool a slept",
      "tool b slept",
      "tool c 2",
      "user workspace_edit other",
      "user workspace_edit new",
      "assistant Done.",
      "user go",
      "user steer Held.",
      "assistant Next.",
    ]);
    assert.deepEqual(words(going.frames), ["workspace_note", "workspace_note", "done"]);
  });

  test("WS-011 a note without a run is logged at once, after older waiting ones", async () => {
    const { sim, turn, note, log, waiting, events, process, suffix } = start([{ text: ["Long ", "answer."], usage }]);
    const made = await note("a.ts", "made");
    const going = turn("agent");
    await sim.until(going.accepted);
    await sim.advance(1);
    for (const name of ["a.ts", "b.ts"]) await note(name, `queued ${name}`);
    await sim.until(going.ended);
    assert.deepEqual(await waiting(), ["note", "note"]);
    const { event_id } = await note("a.ts", "last");
    await sim.until(process.bus.ask(threadAddress(tenantId, suffix), "attach", {}));

    assert.equal(made.status, "recorded");
    assert.deepEqual(await log(), [
      "user workspace_edit made",
      "user go",
      "assistant Long answer.",
      "user workspace_edit queued b.ts",
      "user workspace_edit last",
    ]);
    assert.equal(event_id?.endsWith("4"), true);
    assert.deepEqual(await waiting(), []);
    const [first] = await events();
    assert.deepEqual([first?.kind, first?.extra?.metadata], ["custom", { type: "workspace_edit", in_context: true }]);
  });

  test("STEER-001 at any moment of a turn it is logged once, or waits", async () => {
    const replies: ScriptedReply[] = [
      three,
      { text: ["More."], calls: [call("d", "slow"), add("e")], usage },
      { text: ["That ", "is ", "all."], usage },
    ];
    for (let ms = 0; ms < 60; ms++) {
      const { sim, said, turn, log, waiting, events, process } = start(replies);
      const going = turn(ms % 2 === 0 ? "agent" : "parallel");
      await sim.until(going.accepted);
      await sim.advance(ms / 2);
      await said("S1");
      await sim.advance(ms % 7);
      await Promise.all([said("F1", "follow_up"), said("S2")]);
      await sim.until(going.ended);

      const logged = await log();
      const left = await waiting();
      const taken = logged.filter((line) => /^user (steer|follow_up)/.test(line));
      assert.equal(taken.length + left.length, 3, `${ms}: ${logged}`);
      const ids = (await events()).flatMap(({ extra }) => extra?.tool_calls ?? []).map(({ id }) => id);
      const results = (await events()).filter(({ kind }) => kind === "tool_result");
      assert.deepEqual(results.map(({ extra }) => extra?.tool_call_id).sort(), ids.sort(), `${ms}`);
      assert.deepEqual(process.crashes, [], `${ms}`);
      process.close();
    }
  });
});
