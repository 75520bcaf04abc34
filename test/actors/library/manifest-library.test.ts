import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ManifestLibrary } from "../../../actors/library/manifest-library.ts";
import { Metrics } from "../../../governance/metrics.ts";
import { createResolver } from "../../../manifests/resolve/resolve.ts";
import type { ObjectSource } from "../../../manifests/sources/texts.ts";
import { registries } from "../../manifests/support.ts";
import { gate } from "../../support/chat.ts";
import { type Cleanup, tempDir } from "../../support/temp.ts";
import { stillEnv } from "../models/support.ts";

/** A library over a directory, in a world without time. Reads of its texts wait while `hold` is set. */
function libraryOver(t: Cleanup) {
  const directory = tempDir(t);
  const path = join(directory, "a.json");
  const { env } = stillEnv();
  const asked = gate();
  const world = { hold: null as Promise<void> | null, reads: 0, looks: 0, asked: asked.opened };
  const objects: ObjectSource = {
    async get(key) {
      if (key.startsWith("manifests/")) {
        world.looks++;
        return null;
      }
      world.reads++;
      asked.open();
      await world.hold;
      return null;
    },
    list: async () => [],
  };
  const resolver = createResolver({ env, store: null, objects, directory, objectFreshMs: 0 });
  const library = new ManifestLibrary(resolver, registries(), objects, new Metrics(), () => env.monotonic());
  // A change of a file that precedes a request must be seen in a later turn of the event loop.
  const write = async (description: string, tools: string[] = []) => {
    const spec = { system_prompt: { soul: true }, tools };
    writeFileSync(path, JSON.stringify({ metadata: { name: "a", description }, spec }));
    await nextTurn();
  };
  const described = async (tenant = "acme") => (await library.resolve(tenant, "a", null)).manifest.metadata.description;
  return { world, library, write, described, path };
}

test("a turn after a change of its file gets the change, however soon it comes", async (t) => {
  const { write, described, path } = libraryOver(t);

  for (let at = 0; at < 50; at++) {
    await write(`text ${at}`);
    assert.equal(await described(), `text ${at}`);
    assert.equal(await described("globex"), `text ${at}`);
  }
  writeFileSync(path, "metadata: [");
  await nextTurn();
  await assert.rejects(described(), { code: "invalid_manifest" });
  rmSync(path);
  await nextTurn();
  await assert.rejects(described(), { code: "unknown_manifest" });
});

test("a turn that starts during a read of the old file gets the change too", async (t) => {
  const { world, write, described } = libraryOver(t);
  const { opened, open } = gate();
  await write("before");
  world.hold = opened;
  const early = described();
  await world.asked;
  await write("after");
  const late = described();

  open();

  assert.deepEqual(await Promise.all([early, late]), ["before", "after"]);
});

test("a turn that starts during a failing read reads again", async (t) => {
  const { world, write, described } = libraryOver(t);
  const { opened, open } = gate();
  await write("before", ["no_such_tool"]);
  world.hold = opened;
  const refused = assert.rejects(described(), { code: "invalid_manifest" });
  await world.asked;
  await write("mended");
  const late = described();

  open();

  await refused;
  assert.equal(await late, "mended");
});

test("turns that start together read once, and later ones use the result", async (t) => {
  const { world, write, library } = libraryOver(t);
  await write("shared");

  const together = await Promise.all(Array.from({ length: 20 }, () => library.resolve("acme", "a", null)));
  const after = await library.resolve("acme", "a", null);

  assert.equal(new Set([...together, after]).size, 1);
  // The object of the tenant and the one for all; then the texts.
  assert.deepEqual([world.looks, world.reads], [2, 1]);
});
