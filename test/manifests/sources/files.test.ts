import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { builtInRoutes } from "../../../actors/models/built-in-routes.ts";
import { decisionRoutes } from "../../../actors/models/decision-routes.ts";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { manifestBytesMax } from "../../../manifests/bounds.ts";
import { compile } from "../../../manifests/compile/compile.ts";
import { isManifestName } from "../../../manifests/fields/names.ts";
import { bundledManifests, openManifestDirectory, readManifestFile } from "../../../manifests/sources/files.ts";
import { tempDir } from "../../support/temp.ts";
import { plainSource, problemsOf, registries } from "../support.ts";

function text(name: string, description = ""): string {
  return JSON.stringify({ metadata: { name, description } });
}

test("files of all three extensions are found by the name of the manifest", (t) => {
  const directory = tempDir(t);
  writeFileSync(join(directory, "a.yaml"), "metadata: {name: a}\n");
  writeFileSync(join(directory, "b.yml"), "metadata: {name: b}\n");
  writeFileSync(join(directory, "c.d.json"), text("c.d"));
  writeFileSync(join(directory, "notes.txt"), "not a manifest");
  mkdirSync(join(directory, "folder.yaml"));

  const layer = openManifestDirectory(directory, Date.now);

  for (const name of ["a", "b", "c.d"]) assert.equal(layer.get(name)?.metadata.name, name);
  for (const name of ["d", "notes", "folder"]) assert.equal(layer.get(name), null);
  assert.deepEqual([...layer.names()].toSorted(), ["a", "b", "c.d"]);
});

test("an unchanged file is parsed once, and a changed one is seen at once", (t) => {
  const directory = tempDir(t);
  const file = join(directory, "a.json");
  const layer = openManifestDirectory(directory, Date.now);
  const write = (description: string) => writeFileSync(file, text("a", description));

  write("one");
  const first = layer.get("a");
  assert.equal(layer.get("a"), first);
  assert.equal(first?.metadata.description, "one");

  write("two");
  assert.equal(layer.get("a")?.metadata.description, "two");

  // The same size and the same time: the file itself is another one.
  const moment = new Date(1_000_000);
  utimesSync(file, moment, moment);
  assert.equal(layer.get("a")?.metadata.description, "two");
  writeFileSync(join(directory, "new"), text("a", "six"));
  utimesSync(join(directory, "new"), moment, moment);
  renameSync(join(directory, "new"), file);
  assert.equal(layer.get("a")?.metadata.description, "six");

  rmSync(file);
  assert.equal(layer.get("a"), null);
});

test("an invalid file fails its own name only, is named, and recovers at once", (t) => {
  const directory = tempDir(t);
  writeFileSync(join(directory, "good.yaml"), "metadata: {name: good}\n");
  writeFileSync(join(directory, "typo.yaml"), "metadata: {name: typo}\nspec: {tool: []}\n");
  writeFileSync(join(directory, "broken.yaml"), "metadata: {name: [\n");
  writeFileSync(join(directory, "other.yaml"), "metadata: {name: another}\n");
  writeFileSync(join(directory, "bytes.yaml"), Buffer.from([0x61, 0xff]));
  writeFileSync(join(directory, "huge.yaml"), "#".repeat(manifestBytesMax + 1));
  writeFileSync(join(directory, "twice.yaml"), "metadata: {name: twice}\n");
  writeFileSync(join(directory, "twice.json"), text("twice"));
  const layer = openManifestDirectory(directory, Date.now);
  const refusal = (name: string) => {
    const [problem] = problemsOf(() => layer.get(name));
    return [problem?.type, problem?.msg];
  };

  assert.equal(layer.get("good")?.metadata.name, "good");
  assert.deepEqual(refusal("typo"), [
    "extra_forbidden",
    "typo.yaml: tool is not a field of spec (did you mean tools?).",
  ]);
  assert.match(refusal("broken")[1] ?? "", /^broken\.yaml: Line 2/);
  assert.deepEqual(refusal("other"), ["conflict", "other.yaml: metadata.name must be other, as other.yaml is named."]);
  assert.deepEqual(refusal("bytes"), ["syntax", "bytes.yaml: The text is not UTF-8."]);
  assert.match(refusal("huge")[1] ?? "", /^huge\.yaml: it is longer/);
  assert.match(refusal("twice")[1] ?? "", /^twice\.yaml: twice\.json exists too/);

  writeFileSync(join(directory, "typo.yaml"), "metadata: {name: typo}\nspec: {tools: []}\n");
  assert.equal(layer.get("typo")?.metadata.name, "typo");
});

test("a missing directory is empty until it is made", (t) => {
  const directory = join(tempDir(t), "later");
  const layer = openManifestDirectory(directory, Date.now);

  assert.equal(layer.get("a"), null);
  assert.deepEqual(layer.names(), []);

  mkdirSync(directory);
  writeFileSync(join(directory, "a.json"), text("a"));
  assert.equal(layer.get("a")?.metadata.name, "a");
});

test("other entries than files are neither listed nor read, and link loops are refused", (t) => {
  const directory = tempDir(t);
  execFileSync("mkfifo", [join(directory, "pipe.yaml")]);
  symlinkSync("loop.yaml", join(directory, "loop.yaml"));
  symlinkSync("gone.yaml", join(directory, "link.yaml"));
  mkdirSync(join(directory, "folder.yaml"));
  writeFileSync(join(directory, "a.json"), text("a"));
  symlinkSync("a.json", join(directory, "b.json"));
  const layer = openManifestDirectory(directory, Date.now);

  assert.equal(layer.get("pipe"), null);
  assert.deepEqual([...layer.names()].sort(), ["a", "b", "loop"]);
  assert.equal(problemsOf(() => layer.get("loop"))[0]?.msg, "loop.yaml: it cannot be read.");
});

test("an endless file is read up to the maximum length of a manifest", { skip: !existsSync("/dev/zero") }, () => {
  const [problem] = problemsOf(() => readManifestFile("/dev/zero", Date.now));

  assert.equal(problem?.msg, `zero: it is longer than ${manifestBytesMax} bytes.`);
});

test("names that could leave a directory or a key are no names", () => {
  for (const name of ["quick", "a.b", "A_b-9", "...", ".hidden", "x".repeat(128)])
    assert.equal(isManifestName(name), true, name);
  for (const name of ["", ".", "..", "a/b", "../a", "a\\b", "a b", "a\0", "a\n", "é", "a:b", "%2e", "x".repeat(129)])
    assert.equal(isManifestName(name), false, name);
});

test("each bundled file is a manifest of its name, compiles, and is read once", () => {
  const directory = new URL("../../../manifests/bundled/", import.meta.url);
  const files = readdirSync(directory);
  const layer = bundledManifests();
  const routes = new Map([...registries().routes.values(), ...builtInRoutes].map((route) => [route.id, route]));
  const tools = new Map(builtInTools.map((tool) => [tool.name, tool]));
  const leads = { routes, deciding: [], defaultModelId: registries().defaultModelId };
  const decisions = decisionRoutes({}, leads, (reason) => new Error(reason));

  for (const name of layer.names()) {
    const manifest = layer.get(name);
    assert.ok(manifest);
    assert.doesNotThrow(() => compile(manifest, registries({ routes, tools, decisions }), plainSource));
    assert.equal(bundledManifests().get(name), manifest);
  }
  assert.deepEqual([...layer.names()].toSorted(), files.map((file) => file.replace(/\.yaml$/, "")).toSorted());
  assert.equal(layer.get("nothing"), null);
});

test("the bundled quick agent is a react agent for the first try", () => {
  const manifest = bundledManifests().get("quick");
  assert.ok(manifest);

  const compiled = compile(manifest, registries(), plainSource);

  assert.match(compiled.systemPrompt, /^You are svc's quick agent/);
  assert.match(compiled.systemPrompt, /## Tool guidance\n\n- calculator: /);
  assert.deepEqual(
    compiled.tools.map((tool) => tool.name),
    ["calculator", "todo_write"],
  );
  assert.equal(compiled.inbound.allow_anonymous, true);
  assert.equal(compiled.prompts.get("summarize")?.command, true);
  assert.ok(manifest.metadata.greeting);
  assert.ok(manifest.metadata.starters.length > 0);
});
