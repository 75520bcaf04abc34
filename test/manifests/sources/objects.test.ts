import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { objectFreshMs, openObjectLayer } from "../../../manifests/sources/objects.ts";
import type { ObjectSource } from "../../../manifests/sources/texts.ts";
import { notingObjects } from "../layers.ts";

function clock() {
  let now = 0;
  return { env: { ...systemEnv(), monotonic: () => now }, pass: (ms: number) => (now += ms) };
}

const manifest = (name: string, description = "") => JSON.stringify({ metadata: { name, description } });

test("a tenant's object takes precedence over the common one, and is private", async () => {
  const { source } = await notingObjects({
    "manifests/acme/a.json": manifest("a", "acme's"),
    "manifests/a.json": manifest("a", "everyone's"),
  });
  const layer = openObjectLayer(source, systemEnv());

  assert.equal((await layer.get("acme", "a"))?.metadata.description, "acme's");
  assert.equal((await layer.get("other", "a"))?.metadata.description, "everyone's");
  assert.equal(await layer.get("acme", "b"), null);
});

test("an answer counts for a second, then the store is asked again", async () => {
  const { source, put, remove, asked } = await notingObjects({ "manifests/a.json": manifest("a", "one") });
  const { env, pass } = clock();
  const layer = openObjectLayer(source, env);

  const first = await layer.get("acme", "a");
  const callsOfOne = asked.length;
  await put("manifests/a.json", manifest("a", "two"));
  pass(objectFreshMs - 1);
  assert.equal(await layer.get("acme", "a"), first);
  assert.equal(asked.length, callsOfOne);

  pass(1);
  assert.equal((await layer.get("acme", "a"))?.metadata.description, "two");
  await remove("manifests/a.json");
  pass(objectFreshMs);
  assert.equal(await layer.get("acme", "a"), null);
  await put("manifests/acme/a.json", manifest("a", "three"));
  pass(objectFreshMs);
  assert.equal((await layer.get("acme", "a"))?.metadata.description, "three");
});

test("the same bytes give the same manifest object", async () => {
  const { source } = await notingObjects({ "manifests/a.json": manifest("a") });
  const layer = openObjectLayer(source, systemEnv(), 0);

  const first = await layer.get("acme", "a");

  assert.ok(first);
  assert.equal(await layer.get("acme", "a"), first);
  assert.equal(await layer.get("other", "a"), first);
});

test("an invalid object is refused with its key, also from the cache", async () => {
  const { source } = await notingObjects({ "manifests/a.json": manifest("b"), "manifests/c.json": "{" });
  const layer = openObjectLayer(source, systemEnv());
  const refusal = async (name: string) => {
    const error = await layer.get("acme", name).then(
      () => assert.fail("not refused"),
      (thrown: unknown) => thrown as SvcError,
    );
    assert.equal(error.code, "invalid_manifest");
    return (error.details.detail as { msg: string }[])[0]?.msg ?? "";
  };

  for (const _ of ["first", "kept"]) {
    assert.match(await refusal("a"), /^manifests\/a\.json: metadata\.name must be a/);
    assert.match(await refusal("c"), /^manifests\/c\.json: Line 1/);
  }
});

test("requests at the same time ask the object store once", async () => {
  const { source, asked } = await notingObjects({ "manifests/acme/a.json": manifest("a") });
  const layer = openObjectLayer(source, systemEnv());

  const [first, second] = await Promise.all([layer.get("acme", "a"), layer.get("acme", "a")]);

  assert.ok(first);
  assert.equal(second, first);
  assert.equal(asked.length, 1);
});

test("a failing object store is reported and asked again", async () => {
  const { source } = await notingObjects({ "manifests/a.json": manifest("a") });
  let failing = true;
  const shaky: ObjectSource = {
    ...source,
    get: (key) => (failing ? Promise.reject(new SvcError("storage_unavailable")) : source.get(key)),
  };
  const layer = openObjectLayer(shaky, systemEnv());

  await assert.rejects(layer.get("acme", "a"), { code: "storage_unavailable" });
  failing = false;

  assert.equal((await layer.get("acme", "a"))?.metadata.name, "a");
});

test("the cache is bounded, however many names are requested", async () => {
  const { source, asked } = await notingObjects({});
  const layer = openObjectLayer(source, systemEnv());
  for (let at = 0; at < 2000; at++) await layer.get("acme", `name-${at}`);
  const before = asked.length;

  await layer.get("acme", "name-1999");
  assert.equal(asked.length, before, "the last is still kept");
  await layer.get("acme", "name-0");

  assert.equal(asked.length, before + 2, "the first is not");
});

test("the names are those right below the tenant's and the common prefix", async () => {
  const many = Array.from({ length: 1200 }, (_, at) => `m${String(at).padStart(4, "0")}`);
  const { source } = await notingObjects({
    ...Object.fromEntries(many.map((name) => [`manifests/${name}.json`, manifest(name)])),
    "manifests/acme/own.json": manifest("own"),
    "manifests/acme/deep/er.json": manifest("er"),
    "manifests/acme/notes.txt": "",
    "manifests/other/secret.json": manifest("secret"),
  });
  const layer = openObjectLayer(source, systemEnv());

  assert.deepEqual((await layer.names("acme")).toSorted(), [...many, "own"].toSorted());
});
