// GET /v1/models builds the card of each stored version once, and shows only active versions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cleanup } from "../../support/temp.ts";
import { ManifestsWorld, principal } from "./world.ts";

const atEnd = cleanup();

function described(name: string, description: string, spec: object = {}): string {
  return JSON.stringify({ metadata: { name, description }, spec });
}

async function cards(world: ManifestsWorld, tenant: string): Promise<string[]> {
  const { items } = await world.ask(tenant, "list", { models: true });
  return items
    .filter(({ source }) => source === "store")
    .map(({ name, model }) => `${name} ${model?.description ?? "does not compile"}`);
}

function put(world: ManifestsWorld, tenant: string, name: string, description: string, spec: object = {}) {
  const manifest = described(name, description, spec);
  return world.ask(tenant, "put", { name, manifest, comment: "", activate: true, principal });
}

test("a listing of more manifests than the cache holds reads none again", async () => {
  const world = await ManifestsWorld.open(atEnd);
  const names = Array.from({ length: 620 }, (_, n) => `agent-${String(n).padStart(3, "0")}`);
  for (const name of names) await put(world, "acme", name, `This is ${name}`);
  const home = world.partsOf(world.homeOf("acme"));
  home.store.reads.clear();

  const first = await cards(world, "acme");
  const second = await cards(world, "acme");

  assert.deepEqual(
    first,
    names.map((name) => `${name} This is ${name}`),
  );
  assert.deepEqual(second, first);
  assert.equal(home.store.reads.get("manifest_versions_by_name_version") ?? 0, 0);
});

test("after a start each is read once, for any number of listings", async () => {
  const world = await ManifestsWorld.open(atEnd);
  for (let n = 0; n < 30; n++) await put(world, "acme", `agent-${n}`, `This is ${n}`);
  const again = new ManifestsWorld(atEnd, world.disk);
  const home = again.partsOf(again.homeOf("acme"));

  const listings = [again.asking("acme", "list", { models: true }), again.asking("acme", "list", { models: true })];
  const [one, two] = await again.sim.until(Promise.all(listings));
  await cards(again, "acme");

  assert.deepEqual(one, two);
  assert.equal(home.store.reads.get("manifest_versions_by_name_version"), 30);
});

test("a card follows puts, rollbacks and another tenant's manifest of the same name", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await put(world, "acme", "helper", "one");
  await put(world, "globex", "helper", "theirs");
  const seen = [await cards(world, "acme")];

  await put(world, "acme", "helper", "two");
  seen.push(await cards(world, "acme"));
  await world.ask("acme", "rollback", { name: "helper", version: 1, comment: "", principal });
  seen.push(await cards(world, "acme"));

  assert.deepEqual(seen, [["helper one"], ["helper two"], ["helper one"]]);
  assert.deepEqual(await cards(world, "globex"), ["helper theirs"]);
});

test("a text from the object store is read for each listing", async () => {
  const world = await ManifestsWorld.open(atEnd);
  world.objects.set("prompts/acme/greet.md", "Say hello");
  const prompts = [{ name: "greet", file: "greet.md", description: "d" }];
  await put(world, "acme", "helper", "one", { prompts });
  const seen = [await cards(world, "acme")];

  world.objects.delete("prompts/acme/greet.md");
  seen.push(await cards(world, "acme"));
  world.objects.set("prompts/acme/greet.md", "Say hi");
  seen.push(await cards(world, "acme"));
  const home = world.partsOf(world.homeOf("acme"));
  home.store.reads.clear();
  seen.push(await cards(world, "acme"));

  assert.deepEqual(seen, [["helper one"], ["helper does not compile"], ["helper one"], ["helper one"]]);
});
