import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { createResolver, type ManifestLayers } from "../../../manifests/resolve/resolve.ts";
import type { Store } from "../../../storage/store/store.ts";
import { bundledNames, withBundled } from "../../support/bundled-manifests.ts";
import { tempDir } from "../../support/temp.ts";
import { notingObjects, pointTo, storeVersion, temporaryStore } from "../layers.ts";

const nothing: ManifestLayers = { env: systemEnv(), store: null, objects: null, directory: null, objectFreshMs: 0 };

const manifest = (name: string, description = "") => ({ metadata: { name, description } });

async function refusal(asked: Promise<unknown>): Promise<SvcError> {
  const error = await asked.then(
    () => assert.fail("not refused"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SvcError, String(error));
  return error;
}

test("stored versions are the tenant's own and parsed once", async (t) => {
  const store = await temporaryStore(t);
  const { resolve } = createResolver({ ...nothing, store });
  await storeVersion(store, "acme", "a", 1, manifest("a", "one"));
  await pointTo(store, "acme", "a", 1);

  const first = await resolve("acme", "a", null);
  const again = await resolve("acme", "a", "t1");

  assert.equal(first.manifest.metadata.description, "one");
  assert.deepEqual(
    { ...first, manifest: null },
    { manifest: null, version: 1, variant: "stable", source: "store", hasCanary: false },
  );
  assert.equal(again.manifest, first.manifest);
  const error = await refusal(resolve("other", "a", null));
  assert.equal(error.message, "unknown_manifest:a");
});

test("a moved pointer, a first version and a new name are visible after a notice", async (t) => {
  const store = await temporaryStore(t);
  const { resolve, forget } = createResolver({ ...nothing, store });
  await refusal(resolve("acme", "a", null));
  await storeVersion(store, "acme", "a", 1, manifest("a", "one"));
  await storeVersion(store, "acme", "a", 2, manifest("a", "two"));

  await pointTo(store, "acme", "a", 1);
  await refusal(resolve("acme", "a", null));
  forget("acme", "a");
  assert.equal((await resolve("acme", "a", null)).version, 1);

  await pointTo(store, "acme", "a", 2);
  forget("acme", "a");
  const moved = await resolve("acme", "a", null);
  assert.deepEqual([moved.version, moved.manifest.metadata.description], [2, "two"]);
});

test("a pointer that changes during its read is not cached", async (t) => {
  const store = await temporaryStore(t);
  for (const version of [1, 2]) await storeVersion(store, "acme", "a", version, manifest("a"));
  await pointTo(store, "acme", "a", 1);
  const gate = Promise.withResolvers<void>();
  const hasRead = Promise.withResolvers<void>();
  let held = true;
  const slow = slowReads(store, async () => {
    if (!held) return;
    held = false;
    hasRead.resolve();
    await gate.promise;
  });
  const { resolve, forget } = createResolver({ ...nothing, store: slow });

  const early = resolve("acme", "a", null);
  await hasRead.promise;
  await pointTo(store, "acme", "a", 2);
  forget("acme", "a");
  await refusal(resolve("acme", "b", null));
  gate.resolve();

  assert.equal((await early).version, 1);
  assert.equal((await resolve("acme", "a", null)).version, 2);
});

/** The same store with delayed reads: each result is returned after `wait`. */
function slowReads(store: Store, wait: () => Promise<void>): Store {
  return {
    ...store,
    tenant(tenantId) {
      const tenant = store.tenant(tenantId);
      const read = tenant.read.bind(tenant);
      return Object.assign(tenant, {
        async read(...asked: Parameters<typeof read>) {
          const rows = await read(...asked);
          await wait();
          return rows;
        },
      });
    },
  };
}

test("canary threads get the canary version, stateless turns the stable one", async (t) => {
  const store = await temporaryStore(t);
  const { resolve } = createResolver({ ...nothing, store });
  await storeVersion(store, "acme", "a", 1, manifest("a", "stable"));
  await storeVersion(store, "acme", "a", 2, manifest("a", "canary"));
  await pointTo(store, "acme", "a", 1, [2, 100]);

  const inThread = await resolve("acme", "a", "t1");
  const stateless = await resolve("acme", "a", null);

  assert.deepEqual(
    [inThread.variant, inThread.version, inThread.manifest.metadata.description],
    ["canary", 2, "canary"],
  );
  assert.deepEqual([stateless.variant, stateless.version], ["stable", 1]);
});

test("an invalid stored manifest is refused with its version, and hides lower layers", async (t) => {
  const store = await temporaryStore(t);
  const { resolve } = createResolver({ ...nothing, store });
  await storeVersion(store, "acme", "quick", 3, { metadata: { name: "quick" }, spec: { gone: 1 } });
  await pointTo(store, "acme", "quick", 3);

  const error = await refusal(resolve("acme", "quick", null));

  assert.equal(error.code, "invalid_manifest");
  assert.deepEqual(error.details.detail, [
    { loc: ["spec", "gone"], msg: "version 3: gone is not a field of spec.", type: "extra_forbidden" },
  ]);
  assert.equal((await resolve("other", "quick", null)).source, "bundled");
});

test("an invalid file of the directory hides the bundled one of its name, and no other", async (t) => {
  const directory = tempDir(t);
  const { resolve } = createResolver({ ...nothing, directory });
  writeFileSync(join(directory, "quick.yaml"), "metadata: {name: quick}\nspec: {gone: 1}\n");
  writeFileSync(join(directory, "other.yaml"), "metadata: {name: other}\n");

  assert.equal((await refusal(resolve("acme", "quick", null))).code, "invalid_manifest");
  assert.equal((await resolve("acme", "other", null)).source, "directory");

  rmSync(join(directory, "quick.yaml"));
  assert.equal((await resolve("acme", "quick", null)).source, "bundled");
});

test("a name is checked before it becomes part of a path or key", async (t) => {
  const directory = tempDir(t);
  const { source, asked } = await notingObjects();
  const { resolve } = createResolver({ ...nothing, objects: source, directory: join(directory, "manifests") });
  writeFileSync(join(directory, "secret.json"), JSON.stringify(manifest("secret")));

  for (const name of ["../secret", "..", ".", "", "a/b", "a\0", "ü"]) {
    const error = await refusal(resolve("acme", name, null));
    assert.equal(error.code, "unknown_manifest");
    assert.equal(error.status, 404);
    assert.equal(error.details.subject, name);
  }
  assert.equal((await refusal(resolve("acme", "x".repeat(1e6), null))).details.subject?.length, 128);
  assert.deepEqual(asked, []);
});

test("the list has each name once, from the deciding layer, in order", async (t) => {
  const store = await temporaryStore(t);
  const directory = tempDir(t);
  const { source } = await notingObjects({
    "manifests/acme/b.json": JSON.stringify(manifest("b")),
    "manifests/c.json": JSON.stringify(manifest("c")),
    "manifests/a.json": JSON.stringify(manifest("a")),
  });
  await storeVersion(store, "acme", "a", 4, manifest("a"));
  await pointTo(store, "acme", "a", 4);
  await storeVersion(store, "other", "z", 1, manifest("z"));
  await pointTo(store, "other", "z", 1);
  for (const name of ["c", "d"]) writeFileSync(join(directory, `${name}.yaml`), `metadata: {name: ${name}}\n`);
  const { listManifests, resolve } = createResolver({ ...nothing, store, objects: source, directory });

  const listed = await listManifests("acme");

  assert.deepEqual(
    listed.map(({ name, version, source: from, pointer }) => [name, version, from, pointer?.version]),
    [
      ...[
        ["a", 4, "store", 4] as const,
        ["b", null, "object", undefined] as const,
        ["c", null, "object", undefined] as const,
        ["d", null, "directory", undefined] as const,
      ],
      ...bundledNames.map((name) => [name, null, "bundled", undefined] as const),
    ].sort(([one], [other]) => (one < other ? -1 : 1)),
  );
  for (const { name, source: from } of listed) assert.equal((await resolve("acme", name, null)).source, from);
});

test("without store and objects the directory and the bundled manifests remain", async (t) => {
  const directory = tempDir(t);
  writeFileSync(join(directory, "mine.json"), JSON.stringify(manifest("mine")));
  const { listManifests, resolve } = createResolver({ ...nothing, directory });

  assert.deepEqual(
    (await listManifests("acme")).map(({ name, source }) => [name, source]),
    withBundled("mine").map((name) => [name, name === "mine" ? "directory" : "bundled"]),
  );
  assert.deepEqual((await resolve("acme", "quick", "t")).version, null);
});
