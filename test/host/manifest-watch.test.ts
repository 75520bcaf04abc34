import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const atEnd = cleanup();

test("an invalid file is logged at the start and after each change, and marked", async () => {
  const directory = tempDir(atEnd);
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
  write("fine.yaml", "metadata: {name: fine}\n");
  write("typo.yaml", "metadata: {name: typo}\nspec: {a: 1, b: 2, c: 3, d: 4, e: 5}\n");
  write("lost.json", '{"metadata": {"name": "lost"}, "spec": {"model": {"id": "nowhere"}}}');
  write("my agent.yaml", "metadata: {name: my agent}\n");
  const server = await startServerProcess({ atEnd, env: { SVC_MANIFEST_DIR: directory } });
  const logged = () => server.logs.filter(({ msg }) => msg === "a manifest of SVC_MANIFEST_DIR is invalid");
  const files = () => logged().map(({ file }) => file);
  const untilLogged = (count: number) => eventually(`${count} lines`, async () => logged().length >= count);
  const rowOf = async (wanted: string) => {
    const { json } = await server.get("/manifests");
    assert.deepEqual(json.items, json.manifests);
    return json.items.find(({ name }: { name: string }) => name === wanted);
  };

  await untilLogged(3);
  const [typo, lost, fine] = [await rowOf("typo"), await rowOf("lost"), await rowOf("fine")];
  write("fine.yaml", "metadata: {name: fine}\nspec: {nonsense: 1}\n");
  await untilLogged(4);
  const broken = await rowOf("fine");
  write("typo.yaml", "metadata: {name: typo}\n");
  const mended = await rowOf("typo");
  // The later change shows that unchanged and repaired files were not logged.
  write("lost.json", '{"metadata": {"name": "lost"}, "spec": {"model": {"id": "elsewhere"}}}');
  await untilLogged(5);

  assert.deepEqual(files().slice(0, 3).sort(), ["lost.json", "my agent.yaml", "typo.yaml"]);
  assert.deepEqual(files().slice(3), ["fine.yaml", "lost.json"]);
  assert.match(String(logged()[3]?.problem), /nonsense/);
  assert.match(String(logged()[4]?.problem), /elsewhere/);
  assert.match(String(logged()[2]?.problem), /^my agent\.yaml: a manifest cannot have this name; /);
  for (const line of logged()) assert.equal(line.level, "warn");
  assert.deepEqual([typo.valid, typo.version, typo.source, typo.problems.length], [false, null, "directory", 3]);
  assert.equal(lost.valid, false);
  assert.match(lost.problems.join(), /nowhere/);
  assert.deepEqual(fine, { name: "fine", version: null, source: "directory" });
  assert.equal(broken.valid, false);
  assert.deepEqual(mended, { name: "typo", version: null, source: "directory" });
});

test("a file that needs other tenants' manifests is logged with the failing tenant", async () => {
  const directory = tempDir(atEnd);
  const spec = { execution: { mode: "durable", webhooks: ["ops"] } };
  writeFileSync(join(directory, "nightly.json"), JSON.stringify({ metadata: { name: "nightly" }, spec }));
  const endpoint = { url: "https://hooks.example.com", secret: "4f1c9a7b5d2e8f0a6b", tenants: ["acme"] };
  const env = { SVC_MANIFEST_DIR: directory, SVC_WEBHOOK_ENDPOINTS: JSON.stringify({ ops: endpoint }) };
  const server = await startServerProcess({ atEnd, env });

  const line = await eventually("the line", async () => server.logs.find(({ file }) => file === "nightly.json"));

  assert.match(String(line.problem), /unknown webhook endpoint: ops/);
  assert.equal(line.tenant, "default");
});

test("a missing SVC_MANIFEST_DIR is logged once, and works once it exists", async () => {
  const directory = join(tempDir(atEnd), "agents");
  const server = await startServerProcess({ atEnd, env: { SVC_MANIFEST_DIR: directory } });
  const logged = () => server.logs.filter(({ msg }) => String(msg).startsWith("SVC_MANIFEST_DIR is not there"));
  const warned = () => server.logs.some(({ msg }) => msg === "a manifest of SVC_MANIFEST_DIR is invalid");

  await eventually("the line", async () => logged().length > 0);
  mkdirSync(directory);
  writeFileSync(join(directory, "typo.yaml"), "metadata: {name: typo}\nspec: {nonsense: 1}\n");
  await eventually("a file that is seen", async () => warned());

  assert.deepEqual(
    logged().map(({ level, directory: named }) => [level, named]),
    [["warn", directory]],
  );
});

test("unread entries of SVC_MANIFEST_DIR that look like manifests are logged once", async () => {
  const directory = tempDir(atEnd);
  const write = (...path: string[]) => writeFileSync(join(directory, ...path), "metadata: {name: fine}\n");
  for (const name of ["team", "empty", "prompts", "..data", "folder.yaml"]) mkdirSync(join(directory, name));
  write("fine.yaml");
  write("README.md");
  write("loud.YAML");
  write("team", "one.yaml");
  write("prompts", "system.md");
  write("..data", "fine.yaml");
  const server = await startServerProcess({ atEnd, env: { SVC_MANIFEST_DIR: directory } });
  const logged = () =>
    server.logs.filter(({ msg }) => String(msg).startsWith("SVC_MANIFEST_DIR has entries that are ignored"));

  await eventually("the first line", async () => logged().length === 1);
  write("empty", "two.json");
  await eventually("the second line", async () => logged().length === 2);
  write("team", "three.yaml");
  write("shout.Yml");
  await eventually("the third line", async () => logged().length === 3);

  const names = logged().map((line) => (line.names as string[]).sort());
  assert.deepEqual(names, [["loud.YAML", "team"], ["empty"], ["shout.Yml"]]);
  assert.match(String(logged()[0]?.msg), /end with \.yaml, \.yml or \.json in lower case$/);
});
