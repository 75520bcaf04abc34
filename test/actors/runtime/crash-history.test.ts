import assert from "node:assert/strict";
import { test } from "node:test";
import { CrashHistory } from "../../../actors/runtime/crash-history.ts";

const windowMs = 10_000;

test("five crashes within the window are a loop, until a window after the last one", () => {
  const history = new CrashHistory();

  for (let at = 0; at < 5; at++) {
    assert.equal(history.isLooping("a", 1_000 + at), false);
    history.note("a", 1_000 + at);
  }

  assert.equal(history.isLooping("a", 1_004), true);
  assert.equal(history.isLooping("a", 1_004 + windowMs - 1), true);
  assert.equal(history.isLooping("a", 1_004 + windowMs), false);
  assert.equal(history.isLooping("b", 1_004), false);
});

test("an actor that crashes often but slowly is not in a loop", () => {
  const history = new CrashHistory();

  for (let at = 0; at < 100 * windowMs; at += windowMs / 4) {
    history.note("a", at);
    assert.equal(history.isLooping("a", at), false);
  }
});

test("only crashes of the last window are remembered, for any number of actors", () => {
  const history = new CrashHistory();
  // The actor that crashes repeatedly must not hide those that come after it.
  for (let at = 0; at < 50 * windowMs; at += 10) {
    history.note(`actor ${at}`, at);
    if (at % 1_000 === 0) history.note("again", at);
    assert.ok(history.size <= windowMs / 10 + 1, `${history.size} remembered`);
  }

  assert.equal(history.isLooping("again", 50 * windowMs), true);
  history.note("b", 60 * windowMs);
  assert.equal(history.size, 1);
});
