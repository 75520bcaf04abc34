// The memory of a thread between its turns.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type ContextMessage, contextMessage } from "../../../actors/log/message.ts";
import { loadThreadState, type ThreadState, trimBranch } from "../../../actors/thread/thread-state.ts";
import { threadAddress } from "../../../bus/address.ts";
import type { Store } from "../../../storage/store/store.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

describe("a thread between its turns", () => {
  const atEnd = cleanup();
  let store: Store;
  before(async () => {
    ({ store } = await testStore("sqlite", atEnd));
  });

  async function stateWith(branch: ContextMessage[], branchNeeded: number): Promise<ThreadState> {
    const { state } = await loadThreadState(store, threadAddress("acme", "thread"));
    return Object.assign(state, { branch, branchNeeded, recent: [] });
  }
  const said = (role: "user" | "assistant" | "tool", content: string) => contextMessage({ role, content });
  const contentsOf = ({ branch }: ThreadState) => branch?.map(({ content }) => content);
  const numbered = (count: number) => Array.from({ length: count }, (_, at) => said("user", String(at)));

  test("keeps up to twice the needed window, and the newest part of a longer one", async () => {
    const twice = await stateWith(numbered(8), 4);
    const more = await stateWith(numbered(9), 4);

    trimBranch(twice);
    trimBranch(more);

    assert.equal(twice.branch?.length, 8);
    assert.deepEqual(contentsOf(more), ["5", "6", "7", "8"]);
  });

  test("keeps the reply with the calls of its results", async () => {
    const branch = [...numbered(6), said("assistant", "asks"), said("tool", "a"), said("tool", "b"), said("user", "c")];
    const state = await stateWith(branch, 2);

    trimBranch(state);

    assert.deepEqual(contentsOf(state), ["asks", "a", "b", "c"]);
  });

  test("keeps 128 Ki characters of a full replay, and reads a longer one again", async () => {
    const all = Number.POSITIVE_INFINITY;
    const longest = await stateWith([said("user", "x".repeat(131_071)), said("assistant", "y")], all);
    const tooLong = await stateWith([said("user", "x".repeat(131_072)), said("assistant", "y")], all);

    trimBranch(longest);
    trimBranch(tooLong);

    assert.equal(longest.branch?.length, 2);
    assert.equal(tooLong.branch, null);
  });
});
