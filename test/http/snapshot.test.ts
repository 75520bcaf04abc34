// A snapshot's facts about the whole log. Call ids are the model's own, unique in one run only.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { SnapshotMaker, snapshotState } from "../../http/snapshot.ts";
import type { Store } from "../../storage/store/store.ts";
import { appendOp, type EventExtra, type LogEvent } from "../../storage/tables/events.ts";
import { insertThreadOp, threadBySuffix } from "../../storage/tables/threads.ts";
import { threadRow } from "../support/rows.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

type Step = Partial<LogEvent> & Pick<LogEvent, "kind">;

const user: Step = { kind: "message", role: "user", content: "go" };
const says: Step = { kind: "message", role: "assistant", content: "Done." };
const asks = (...calls: readonly (readonly [id: string, name: string, args?: object])[]): Step => ({
  kind: "message",
  role: "assistant",
  extra: { tool_calls: calls.map(([id, name, args = {}]) => ({ id, name, args })) },
});
const result = (id: string, status: "ok" | "error" | "denied"): Step => ({
  kind: "tool_result",
  role: "tool",
  extra: { tool_call_id: id, metadata: { status } } satisfies EventExtra,
});
const list = (id: string, content: string) => [id, "todo_write", { todos: [{ content }] }] as const;

describe("a snapshot", () => {
  const atEnd = cleanup();
  let store: Store;
  let threads = 0;
  before(async () => {
    ({ store } = await testStore("sqlite", atEnd));
  });

  /** The snapshot of a conversation with these events in a chain. */
  async function snapshotOf(...steps: readonly Step[]) {
    const tenant = store.tenant("acme");
    const thread_key = ++threads;
    const suffix = `thread-${thread_key}`;
    const events = steps.map((step, seq): LogEvent => {
      const blank = { seq, parent_seq: seq - 1, ts: seq, role: null, content: "", extra: null };
      return { ...blank, ...step };
    });
    await tenant.write([
      insertThreadOp(tenant, threadRow(thread_key, suffix, { next_seq: steps.length, leaf_seq: steps.length - 1 })),
      ...events.map((event) => appendOp(tenant, thread_key, event)),
    ]);
    const thread = (await threadBySuffix(tenant, suffix)) ?? null;
    const of = {
      threadId: `acme:${suffix}`,
      thread,
      next_seq: steps.length,
      leaf_seq: steps.length - 1,
      summarizing: false,
      compacting: false,
      continuing: false,
      queued_steers: 0,
      queued_follow_ups: 0,
      isLive: false,
    };
    const maker = new SnapshotMaker(tenant, of);
    let text = "";
    for (let from: number | null = maker.first; from !== null; ) {
      const page: Awaited<ReturnType<SnapshotMaker["make"]>> = await maker.make(from);
      text += page.text;
      from = page.next;
    }
    const { wake, todos } = JSON.parse(text);
    return {
      todos: todos.map(({ content }: { content: string }) => content),
      pending: wake.pendingToolCalls.map(({ id, name }: { id: string; name: string }) => `${id} ${name}`),
    };
  }

  for (const status of ["denied", "error"] as const) {
    test(`SESS-018 shows the list as it was before a call that was ${status}, whatever its id`, async () => {
      const first = [user, asks(list("call_1", "first")), result("call_1", "ok"), says, user];

      for (const id of ["call_1", "call_2"]) {
        const { todos } = await snapshotOf(...first, asks(list(id, "second")), result(id, status), says);
        assert.deepEqual(todos, ["first"], id);
      }
    });

    test(`SESS-018 omits the list of a call that was ${status}, though its id succeeded elsewhere`, async () => {
      const { todos } = await snapshotOf(
        ...[user, asks(list("call_1", "never")), result("call_1", status), says],
        ...[user, asks(["call_1", "calculator"]), result("call_1", "ok"), says],
      );

      assert.deepEqual(todos, []);
    });
  }

  test("SESS-018 shows the last successful list of one reply", async () => {
    const { todos } = await snapshotOf(
      ...[user, asks(list("a", "first"), list("b", "second"), list("c", "third"))],
      ...[result("a", "ok"), result("b", "ok"), result("c", "denied")],
    );

    assert.deepEqual(todos, ["second"]);
  });

  test("has the waiting calls of the newest reply, though their ids have older results", async () => {
    const { pending } = await snapshotOf(
      ...[user, asks(["call_1", "calculator"], ["call_2", "calculator"])],
      ...[result("call_1", "ok"), result("call_2", "ok"), says],
      ...[user, asks(["call_1", "glob"], ["call_2", "glob"], ["call_3", "glob"]), result("call_2", "error")],
    );

    assert.deepEqual(pending, ["call_1 glob", "call_3 glob"]);
  });
});

test("changes when a client starts to watch or drive the thread", () => {
  const queued = { queued_steers: 0, queued_follow_ups: 0 };
  const at = { next_seq: 0, leaf_seq: -1, summarizing: false, compacting: false, continuing: false, ...queued };
  const of = { threadId: "acme:t", thread: null, isLive: false, ...at };
  const waits = { ...of, queued_steers: 1 };
  const states = [of, { ...of, attached: true, locked: false }, { ...of, attached: true, locked: true }, waits];

  assert.equal(new Set(states.map(snapshotState)).size, 4);
});
