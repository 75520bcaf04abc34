// The rules for streams: recorded streams satisfy them, and any small mutation of one does not.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { before, describe, test } from "node:test";
import { tailEvents, turnEvents } from "../../http/schemas/frames.ts";
import { calls, inTurn, says, startChat, turn } from "../support/chat.ts";
import { type FrameMachine, frameMachine, onlyStarters } from "../support/frame-machine.ts";
import { HttpClient } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { type Frame, FrameReader } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const todos = [{ content: "Think", status: "in_progress" }];
const sum = ["calculator", { expression: "6*7" }] as const;

/** The reason why a complete stream of these frames is refused, or null. */
function refusal(machine: FrameMachine, frames: readonly Frame[]): string | null {
  try {
    for (const frame of frames) machine.take(frame);
    machine.end();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

test("the reference names the frames that listeners may get, and no starter's frame", () => {
  const nameOf = ({ schema }: (typeof turnEvents)[number]): string =>
    (schema as { examples?: { event?: string }[] }).examples?.[0]?.event ?? "error";
  const listed = new Set(tailEvents.map(nameOf));
  const left = turnEvents.map(nameOf).filter((name) => !listed.has(name));

  // Durable runs report a retried step with on_error and their failure with error.
  assert.deepEqual(
    left.toSorted(),
    [...onlyStarters].filter((name) => !["on_error", "error"].includes(name)).toSorted(),
  );
});

/** A frame with changed text. */
function changed(frame: Frame, from: string | RegExp, to: string): Frame {
  const raw = frame.raw.replace(from, to);
  assert.notEqual(raw, frame.raw);
  const [made] = new FrameReader().push(raw);
  return made as Frame;
}

describe("the rules of streams", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const recorded: { name: string; machine: () => FrameMachine; frames: readonly Frame[] }[] = [];
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["worker", "failing", "plain"],
      manifests: {
        agent: { tools: ["calculator", "todo_write"] },
        hasty: { tools: ["calculator"], recursion_limit: 1 },
      },
      env: { SVC_STREAM_RESUME_IDLE_SECONDS: "0.5" },
    }));
    mock.answer(
      "worker",
      inTurn(
        { text: "First.", ...calls(sum, ["todo_write", { todos }]) },
        { reasoning: ["Well."], ...calls(sum) },
        { text: ["It ", "is 42."] },
      ),
    );
    mock.answer("failing", { text: "Half", wire: { done: false }, finishReason: null });
    const record = async (name: string, manifest: string, model: string, thread: string | null, key?: string) => {
      const body = turn(manifest, "Go.", { model, ...(thread !== null && { thread_id: thread }) });
      const headers = key === undefined ? {} : { "idempotency-key": key };
      const frames = await (await server.stream("/chat/stream", body, { headers })).rest();
      const kind = name === "replay" ? ("replay" as const) : ("turn" as const);
      recorded.push({ name, machine: () => frameMachine({ kind, threaded: thread !== null }), frames });
    };
    await record("turn", "agent", "worker", "tools", "key-1");
    await record("replay", "agent", "worker", "tools", "key-1");
    await record("stateless turn", "agent", "worker", null);
    await record("turn without steps", "hasty", "worker", "steps");
    await record("turn that fails", "agent", "failing", "fails");
    const backlog = await (await server.listen("/chat/stream/tools")).rest();
    recorded.push({ name: "snapshot", machine: () => frameMachine({ kind: "tail", cursor: null }), frames: backlog });
    const cursor = 1;
    const events = await (await server.listen(`/chat/stream/tools?last_event_id=${cursor}`)).rest();
    recorded.push({ name: "events", machine: () => frameMachine({ kind: "tail", cursor }), frames: events });
    const listener = await server.listen("/chat/stream/live?last_event_id=0");
    mock.answer("plain", says("One ", "two."));
    await server.post("/chat", turn("agent", "Go.", { model: "plain", thread_id: "live" }));
    recorded.push({
      name: "live",
      machine: () => frameMachine({ kind: "tail", cursor: 0 }),
      frames: (await listener.rest()).filter(({ name }) => name !== ":"),
    });
  });

  const of = (wanted: string) => {
    const found = recorded.find(({ name }) => name === wanted);
    assert.ok(found, wanted);
    return found;
  };

  test("recorded streams satisfy the rules", () => {
    assert.equal(recorded.length, 8);
    for (const { name, machine, frames } of recorded) {
      assert.equal(refusal(machine(), frames), null, name);
      assert.ok(frames.length > 1, name);
    }
  });

  test("a stream without one of its frames, with one twice or cut off breaks the rules", () => {
    for (const { name, machine, frames } of recorded)
      for (const [at, frame] of frames.entries()) {
        const told = `${name}: ${at} ${frame.name}`;
        const without = refusal(machine(), frames.toSpliced(at, 1));
        const twice = refusal(machine(), frames.toSpliced(at, 0, frame));
        // Some frames are optional or repeatable as far as the order shows.
        if (!mayBeMissing(name, frames, at)) assert.ok(without !== null, `${told} is missing`);
        if (!mayComeTwice(frame)) assert.ok(twice !== null, `${told} comes twice`);
        assert.ok(refusal(machine(), frames.slice(0, at)) !== null, `cut before ${told}`);
      }
  });

  test("a stream with two swapped frames breaks the rules", () => {
    for (const { name, machine, frames } of recorded)
      for (const [at, frame] of frames.slice(0, -1).entries()) {
        const next = frames[at + 1] as Frame;
        // The start of a turn and its first event may be swapped.
        if (next.raw === frame.raw || [frame, next].some(isBeginning)) continue;
        assert.ok(
          refusal(machine(), frames.toSpliced(at, 2, next, frame)) !== null,
          `${name}: ${frame.name} ${next.name}`,
        );
      }
  });

  test("a decreasing, missing or misplaced id breaks the rules", () => {
    for (const { name, machine, frames } of recorded)
      for (const [at, frame] of frames.entries()) {
        if (frame.name === "[DONE]" || frame.name === ":") continue;
        const spoilt =
          frame.id === null ? changed(frame, /^/, "id: 3\n") : changed(frame, /^id: \d+\n/, at % 2 ? "" : "id: 0\n");
        assert.ok(refusal(machine(), frames.with(at, spoilt)) !== null, `${name}: ${spoilt.raw}`);
      }
  });

  test("the test client checks every stream of turns, retries and listeners", async () => {
    let text = "";
    let headers: Readonly<Record<string, string>> = {};
    const spoilt = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream", ...headers }).end(text);
    });
    await new Promise<void>((resolve) => spoilt.listen(0, "127.0.0.1", resolve));
    atEnd.after(() => void spoilt.close());
    const client = new HttpClient(() => `http://127.0.0.1:${(spoilt.address() as AddressInfo).port}`);
    atEnd.after(() => client.close());
    const raw = (name: string) => of(name).frames.map((frame) => frame.raw);
    const turnOf = async (thread_id: string | null) => (await client.stream("/chat/stream", { thread_id })).rest();

    text = raw("turn").toSpliced(3, 1).join("");
    await assert.rejects(turnOf("tools"), /breaks its rules/);
    text = raw("turn").slice(0, -1).join("");
    await assert.rejects(turnOf("tools"), /ends without/);
    // A turn without a thread has no ids, and one with a thread has them.
    text = raw("turn").join("");
    await assert.rejects(turnOf(null), /has an id/);
    await turnOf("tools");
    headers = { "idempotent-replayed": "true" };
    await assert.rejects(turnOf("tools"), /in a replay/);
    headers = {};
    text = raw("events").join("");
    await (await client.listen("/chat/stream/tools?last_event_id=1")).rest();
    await (await client.listen("/chat/stream/tools", { headers: { "last-event-id": "1" } })).rest();
    for (const query of ["", "?last_event_id=2"])
      await assert.rejects((await client.listen(`/chat/stream/tools${query}`)).rest(), /breaks its rules/);
  });

  test("data of another shape, and a text that is not derived from it, break the rules", () => {
    const { machine, frames } = of("turn");
    const spoil = (wanted: string, from: string | RegExp, to: string) => {
      const at = frames.findIndex(({ name }) => name === wanted);
      const spoilt = frames.with(at, changed(frames[at] as Frame, from, to));
      assert.ok(refusal(machine(), spoilt) !== null, `${wanted}: ${to}`);
    };

    spoil("text_delta", /"text":"[^"]*"/, '"text":"other"');
    spoil("tool_start", '"input"', '"args"');
    spoil("tool_end", '"output":"', '"more":1,"output":"');
    spoil("tool_execution_update", "running", "going");
    spoil("todo_updated", "in_progress", "begun");
    spoil("done", '"end_turn"', '"ended"');
    spoil("done", '"end_turn"', '"max_turns"');
    spoil("done", '"cacheRead":0', '"cacheRead":-1');
    spoil("on_chain_end", '"type":"on_chain_end"', '"type":"done"');
  });

  test("listeners get neither the requester's private frames nor unlogged text", () => {
    const { machine, frames } = of("live");
    const turnFrames = of("turn").frames;
    for (const name of ["tool_start", "tool_end", "on_chain_end", "done"]) {
      const foreign = turnFrames.find((frame) => frame.name === name) as Frame;
      assert.ok(refusal(machine(), frames.toSpliced(1, 0, foreign)) !== null, name);
    }
    const at = frames.findIndex(({ name, json }) => name === "session_event" && json.data.role === "assistant");
    const other = changed(frames[at] as Frame, "One two.", "Three.");
    assert.match(refusal(machine(), frames.with(at, other)) ?? "", /the log has/);
  });
});

function isBeginning({ name, json }: Frame): boolean {
  return name === "session_progress" && json.data.phase === "turn" && json.data.replay === undefined;
}

/** True if the order of a stream does not reveal that this frame is missing. */
function mayBeMissing(stream: string, frames: readonly Frame[], at: number): boolean {
  const { name } = frames[at] as Frame;
  if (name === ":" || name === "on_error") return true;
  // The events of a request need not be adjacent, and a tail need not begin with a turn.
  if (stream === "replay") return name === "session_event";
  if (name === "session_event") return frames[at + 1]?.name === "[DONE]";
  return false;
}

function mayComeTwice({ name, json }: Frame): boolean {
  return name === ":" || name === "snapshot" || (name === "session_progress" && json.data.phase !== undefined);
}
