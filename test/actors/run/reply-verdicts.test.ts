// The verdicts of controls on a model's text, through a chat: no client sees text before its release.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Run } from "../../../actors/run/lifecycle/run.ts";
import type { EntryPoint } from "../../../bus/protocol/run.ts";
import type { Control, GovernedReply } from "../../../governance/controls/control.ts";
import { pass } from "../../../governance/controls/verdicts.ts";
import type { TestTurn } from "../../support/actor-process.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { cleanup } from "../../support/temp.ts";
import { asks, framesOf, GovernedChat } from "./governed-chat.ts";

/** In three pieces, so that a leaked piece is seen. */
const reply = { text: ["Write to ", "ann@example", ".com."], reasoning: "Ann is ann@example.com." };
const word = /ann@example/;

describe("text of the model", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  before(async () => {
    disk = await SimDisk.open(atEnd);
  });

  const chat = (...controls: Control[]) => new GovernedChat(atEnd, disk, controls);
  const saidIn = (turn: TestTurn) => framesOf(turn, "text_delta").map(({ delta }) => delta);

  /** Replaces addresses by a mark, and records the text it was shown. */
  function redacting(shown: GovernedReply[] = []): Control {
    return {
      name: "guardrails",
      reply(said) {
        shown.push(said);
        const text = said.text.replaceAll(/\S+@\S+\.com/g, "<EMAIL>");
        return text === said.text ? pass : { verdict: "replace", text, rule: "email" };
      },
    };
  }

  test("a thought is returned with its signature, or not at all after a control's change", async () => {
    const by = "scripted/model";
    const of = (thinking: string) => ({
      reasoning: thinking,
      thoughts: [{ type: "thinking" as const, thinking, signature: "proof", by }],
    });
    const kept = async (thread: string, control: Control, thinking: string) => {
      const { events } = await chat(control).play(thread, [{ text: ["Yes."], ...of(thinking) }]);
      return events.find(({ role }) => role === "assistant")?.extra?.metadata?.thinking;
    };
    const refusing: Control = {
      name: "judges",
      reply: ({ kind }) => (kind === "text" ? { verdict: "block", rule: "tone", detail: "no" } : pass),
    };

    const same = await kept("same", redacting(), "Nothing of that.");
    const changed = await kept("changed", redacting(), "Ann is ann@example.com.");
    const refused = await kept("refused", refusing, "Nothing of that.");

    assert.deepEqual(same, of("Nothing of that.").thoughts);
    assert.deepEqual(changed, [{ type: "thinking", thinking: "Ann is <EMAIL>." }]);
    assert.equal(refused, undefined, "the reasoning of a refused text");
  });

  test("that a control replaces is replaced for client, log, prompts and reply", async () => {
    const shown: GovernedReply[] = [];
    const governed = chat(redacting(shown));

    const { turn, events, audit } = await governed.play("replaced", [reply]);
    await governed.play("replaced", [{ text: ["Bye."] }]);

    const told = "Write to <EMAIL>.";
    assert.deepEqual(
      shown.slice(0, 2).map(({ kind, text, final }) => [kind, text, final]),
      [
        ["thinking", "Ann is ann@example.com.", true],
        ["text", "Write to ann@example.com.", true],
      ],
    );
    assert.deepEqual(saidIn(turn), [told], "sent once");
    assert.deepEqual(
      framesOf(turn, "thinking_delta").map(({ delta }) => delta),
      ["Ann is <EMAIL>."],
    );
    const [done] = framesOf(turn, "done");
    assert.deepEqual([done.final.content, done.messages.at(-1).content], [told, told]);
    const answer = events.at(-1);
    assert.equal(answer?.content, told);
    const { thinking, controls } = answer?.extra?.metadata ?? {};
    assert.deepEqual(thinking, [{ type: "thinking", thinking: "Ann is <EMAIL>." }]);
    const spoken = { control: "guardrails", verdict: "replace", rule: "email", ms: 0 };
    assert.deepEqual(controls, [spoken, spoken]);
    assert.deepEqual(
      governed.model.requests.at(-1)?.map(({ content }) => content),
      ["go", told, "go"],
    );
    assert.doesNotMatch(JSON.stringify([turn.text, events, audit, governed.model.texts]), word);
    assert.deepEqual(audit.at(-1)?.payload.chars, told.length);
  });

  for (const [name, told, control] of [
    ["guardrails", "[blocked by guardrails]", "guardrails"],
    ["judges", "[withheld: judge tone]", "guardrails"],
    ["screening", "[blocked by screening]", "screening"],
  ] as const)
    test(`that ${name} blocks is replaced, fails the turn, and is audited`, async () => {
      const governed = chat({
        name,
        reply: ({ kind }) => (kind === "text" ? { verdict: "block", rule: "tone", detail: "unkind" } : pass),
      });

      const { turn, events, audit } = await governed.play(`blocked-by-${name}`, [{ text: reply.text }]);

      assert.deepEqual([saidIn(turn), framesOf(turn, "done")[0].final.content], [[told], told]);
      assert.equal(events.at(-1)?.content, told);
      assert.deepEqual(audit.map(({ event_type, status }) => `${event_type} ${status}`).toSorted(), [
        "final_response error",
        "policy_deny denied",
        "user_input ok",
      ]);
      const { payload } = audit.find(({ event_type }) => event_type === "policy_deny") ?? {};
      assert.deepEqual(
        [payload?.control, payload?.layer, payload?.reason, payload?.tool],
        [control, name, "unkind", undefined],
      );
      assert.doesNotMatch(JSON.stringify([turn.text, events, audit]), word);
    });

  test("next to calls passes too, and the calls run; blocked reasoning is left out", async () => {
    const finals: boolean[] = [];
    const governed = chat({
      name: "guardrails",
      reply({ kind, text, final }) {
        if (kind === "thinking") return { verdict: "block", rule: "thoughts", detail: "private" };
        finals.push(final);
        return { verdict: "replace", text: text.toUpperCase() };
      },
    });

    const calling = { ...asks(["failing", {}]), text: ["let me ", "see"], reasoning: "hm" };
    const { turn, events } = await governed.play("beside", [calling, { text: ["done"] }]);

    assert.deepEqual([finals, governed.ran.length], [[false, true], 1]);
    assert.deepEqual(saidIn(turn), ["LET ME SEE", "DONE"]);
    assert.deepEqual(framesOf(turn, "thinking_delta"), []);
    const said = events.filter(({ role }) => role === "assistant");
    assert.deepEqual(
      said.map(({ content, extra }) => [content, extra?.metadata?.thinking]),
      [
        ["LET ME SEE", undefined],
        ["DONE", undefined],
      ],
    );
    assert.deepEqual(governed.model.requests[1]?.at(-2)?.content, "LET ME SEE");
  });

  test("that is buffered is hidden from a new client, which learns of the call only", async () => {
    const governed = chat({
      name: "judges",
      reply: () => new Promise((resolve) => governed.env.timer(50, () => resolve(pass))),
    });

    const turn = governed.submit("held", [{ text: reply.text }]);
    await governed.sim.advance(30);
    const [run] = [...governed.process.deps.liveRuns] as Run[];
    const meanwhile = [run?.liveText.text, saidIn(turn), framesOf(turn, "session_progress")];
    await governed.sim.until(turn.ended);

    assert.deepEqual(meanwhile, ["", [], [{ phase: "turn" }, { phase: "held" }]]);
    assert.deepEqual(saidIn(turn), ["Write to ann@example.com."]);
  });

  for (const [moment, afterMs] of [
    ["while the model speaks", 4],
    ["while a control thinks", 30],
  ] as const)
    test(`that is buffered when the run is stopped ${moment} is never sent`, async () => {
      const governed = chat({
        name: "judges",
        reply: () => new Promise((resolve) => governed.env.timer(10_000, () => resolve(pass))),
      });
      const suffix = `stopped-after-${afterMs}`;

      const turn = governed.submit(suffix, [{ text: reply.text }]);
      await governed.sim.advance(afterMs);
      await governed.sim.until(governed.process.abort(suffix));
      await governed.sim.until(turn.ended, 1_000);
      const { events, audit } = await governed.left(suffix, turn);

      assert.deepEqual(turn.outline.slice(-4), ["aborted", "on_chain_end", "done", "[DONE]"]);
      assert.equal(framesOf(turn, "done")[0].final, null);
      assert.doesNotMatch(JSON.stringify([turn.text, events, audit]), /Write/);
    });

  test("that is buffered when the provider fails is never sent", async () => {
    const governed = chat(redacting());

    const { turn, events } = await governed.play("failed", [{ ...reply, failure: "the stream broke off" }]);

    assert.equal(framesOf(turn, "done")[0].final, null);
    assert.equal(framesOf(turn, "on_error").length, 1);
    assert.doesNotMatch(JSON.stringify([turn.text, events]), /Write|Ann/);
  });

  test("that is buffered when a limit ends the call is released up to it, not beyond", async () => {
    const governed = chat(redacting());
    const text = ["Write to ", "ann@example.com ", "and so on, ".repeat(9), "never read"];

    const { turn, events } = await governed.play("cut", [{ text }], { manifest: "brief" });

    // Six tokens are left: 48 characters of a provider that received this bound.
    const told = "Write to <EMAIL> and so on, and so on, a";
    const limit = "run limit reached: max_output_tokens";
    assert.deepEqual(saidIn(turn), [told, `\n\n${limit}`]);
    assert.equal(framesOf(turn, "done")[0].final.content, `${told}\n\n${limit}`);
    assert.equal(events.at(-1)?.content, `${told}\n\n${limit}`);
    assert.doesNotMatch(JSON.stringify([turn.text, events]), word);
  });

  for (const surface of ["chat", "openai", "openai_stream"] as const satisfies readonly EntryPoint[])
    test(`is released before it is sent over ${surface}, also without a thread`, async () => {
      const governed = chat(redacting());

      const turn = governed.submit(null, [reply], { surface, include_reasoning: true });
      await governed.sim.until(turn.ended);

      assert.match(turn.text, /Write to <EMAIL>\./);
      if (surface !== "chat") assert.match(turn.text, /"reasoning_content":"Ann is <EMAIL>\."/);
      assert.doesNotMatch(turn.text, word);
    });

  test("streams at once when no control of the run checks replies", async () => {
    const governed = chat({ name: "guardrails", before: () => pass, after: () => pass });

    const { turn, events } = await governed.play("free", [{ text: reply.text }]);

    assert.deepEqual(saidIn(turn), reply.text);
    assert.deepEqual(
      framesOf(turn, "session_progress").filter(({ phase }) => phase === "held"),
      [],
    );
    assert.equal(events.at(-1)?.extra?.metadata?.controls, undefined);
  });
});
