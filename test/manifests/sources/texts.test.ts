import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { promptKeys, soulKey, tenantManifestPrefix } from "../../../manifests/sources/object-keys.ts";
import { neededTexts, readTexts } from "../../../manifests/sources/texts.ts";
import { checkKey } from "../../../storage/objects/keys.ts";
import { agent } from "../support.ts";

test("the needed texts are soul, files and bodies in files, each key once", () => {
  const manifest = parseManifest(
    agent({
      system_prompt: { soul: true, files: ["a.md", "sub/b.md"] },
      prompts: [
        { name: "p", file: "a.md" },
        { name: "q", body: "has one", file: "unused.md" },
        { name: "r", file: "c.md" },
      ],
    }),
  );

  assert.deepEqual(neededTexts(manifest, "acme"), [
    "souls/acme.md",
    "prompts/acme/a.md",
    "prompts/_shared/a.md",
    "prompts/acme/sub/b.md",
    "prompts/_shared/sub/b.md",
    "prompts/acme/c.md",
    "prompts/_shared/c.md",
  ]);
});

test("system_md needs no texts of the parts that it replaces", () => {
  const system_prompt = { soul: true, files: ["a.md"], system_md: "All." };

  assert.deepEqual(neededTexts(parseManifest(agent({ system_prompt })), "acme"), []);
  assert.deepEqual(neededTexts(parseManifest(agent()), "acme"), []);
});

test("texts that are not there or not UTF-8 are left out", async () => {
  const bytes = new Map([
    ["a", Buffer.from("Grüße")],
    ["b", Buffer.from([0xff, 0xfe])],
  ]);
  const objects = { get: async (key: string) => bytes.get(key) ?? null, list: async () => [] };

  const texts = await readTexts(objects, ["a", "b", "c"]);

  assert.deepEqual([...texts], [["a", "Grüße"]]);
});

test("a tenant's keys are its own, and stay in their folder", () => {
  assert.equal(tenantManifestPrefix("acme-1.x"), "manifests/acme-1.x/");
  assert.equal(soulKey(".."), "souls/~2e~2e.md");
  assert.equal(soulKey("a/b"), "souls/a~2fb.md");
  assert.deepEqual(promptKeys("_shared", "a.md"), ["prompts/~5fshared/a.md", "prompts/_shared/a.md"]);
  assert.equal(soulKey("größe"), "souls/gr~c3~b6~c3~9fe.md");

  const ids = fc.string({ minLength: 1, maxLength: 300, unit: "binary" });
  fc.assert(
    fc.property(ids, ids, (one, other) => {
      if (!one.isWellFormed() || !other.isWellFormed()) return;
      assert.doesNotThrow(() => checkKey(soulKey(one)));
      assert.equal(soulKey(one) === soulKey(other), one === other);
    }),
  );
});
