import assert from "node:assert/strict";
import { test } from "node:test";
import { FileMemory } from "../../../manifests/sources/file-memory.ts";

const changedAt = 1_000_000;

/** A file whose time is constant while its content changes, as within one tick of a file system. */
function tickingFile() {
  const file = { content: "one", reads: 0, made: 0 };
  const memory = new FileMemory((bytes) => {
    file.made++;
    const text = Buffer.from(bytes).toString();
    if (text === "broken") throw new Error("broken");
    return { text };
  });
  const at = (now: number, stamp = "same") =>
    memory.get({ stamp, changedAt }, now, () => {
      file.reads++;
      return Buffer.from(file.content);
    });
  return { file, at };
}

test("a file that was read soon after its change is read again, until its time moves", () => {
  const { file, at } = tickingFile();
  const first = at(changedAt);

  assert.equal(at(changedAt + 2_000), first);
  file.content = "two";
  const second = at(changedAt + 2_000);
  at(changedAt + 2_001);
  const reads = file.reads;

  assert.deepEqual([first.text, second.text], ["one", "two"]);
  assert.equal(at(changedAt + 60_000), second);
  assert.deepEqual([file.reads, file.made], [reads, 2]);
});

test("a file with a new stamp is read, and equal content keeps its parsed value", () => {
  const { file, at } = tickingFile();
  const first = at(changedAt + 60_000);

  assert.equal(at(changedAt + 60_000, "touched"), first);
  assert.deepEqual([file.reads, file.made], [2, 1]);
});

test("a file with a time in the future is read each time", () => {
  const { file, at } = tickingFile();
  at(changedAt - 60_000);
  file.content = "two";

  assert.equal(at(changedAt - 60_000).text, "two");
});

test("an invalid file is not parsed again, and an unreadable one is read again", () => {
  const { file, at } = tickingFile();
  file.content = "broken";
  for (let i = 0; i < 2; i++) assert.throws(() => at(changedAt + 60_000), { message: "broken" });
  assert.deepEqual([file.reads, file.made], [1, 1]);

  const memory = new FileMemory(() => "made");
  const unreadable = () => {
    throw new Error("unreadable");
  };
  const stats = { stamp: "same", changedAt };
  assert.throws(() => memory.get(stats, changedAt + 60_000, unreadable), { message: "unreadable" });
  assert.equal(
    memory.get(stats, changedAt + 60_000, () => Buffer.from("")),
    "made",
  );
});
