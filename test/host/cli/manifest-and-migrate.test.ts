import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { storeConfigOf } from "../../../governance/settings/store-config.ts";
import { allMigrations } from "../../../host/all-migrations.ts";
import { migrateCommand } from "../../../host/cli/migrate.ts";
import { validateManifestCommand } from "../../../host/cli/validate-manifest.ts";
import { plugin as commerce } from "../../../plugins/commerce/commerce.ts";
import { currentRevision } from "../../../storage/migrate.ts";
import { connectToSchema } from "../../../storage/postgres/connection.ts";
import { lockDataDir } from "../../../storage/sqlite/data-dir-lock.ts";
import { pgvectorDatabase } from "../../support/postgres.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson, someRegistries, temporaryDirectory } from "./support.ts";

/** The revisions of all migrations with those of the shop, the lowest first. */
const revisions = allMigrations([{ from: "svc", plugin: commerce }]).map(({ revision }) => revision);

describe("svc validate-manifest", () => {
  const seen: string[] = [];
  const validate = validateManifestCommand(async ({ settings }) => {
    seen.push(settings.environment);
    return someRegistries();
  });

  function manifestFile(directory: string, text: string): string {
    const path = join(directory, "helper.yaml");
    writeFileSync(path, text);
    return path;
  }

  test("accepts a good manifest and describes it", async (context) => {
    const path = manifestFile(temporaryDirectory(context), "metadata: {name: helper}\nspec: {tools: [calculator]}\n");

    const { code, answer } = await runJson(validate, [path]);

    assert.equal(code, 0);
    assert.deepEqual([answer.ok, answer.name, answer.model, answer.tools], [true, "helper", "hosted", ["calculator"]]);
    assert.match((await run(validate, [path])).stdout, /^helper is valid: model hosted, tools calculator\.$/m);
  });

  test("refuses a bad one with exit 1 and every problem", async (context) => {
    const path = manifestFile(
      temporaryDirectory(context),
      "metadata: {name: helper}\nspec: {tool: [], max_turns: many}\n",
    );

    const { code, answer } = await runJson(validate, [path]);

    assert.deepEqual([code, answer.error], [1, "invalid_manifest"]);
    const locs = (answer.detail as { loc: string[] }[]).map(({ loc }) => loc.join("."));
    assert.deepEqual(locs.sort(), ["spec.max_turns", "spec.tool"]);
    const { stdout, stderr } = await run(validate, [path]);
    assert.equal(stdout, "");
    assert.match(stderr, /spec\.max_turns/);
  });

  test("refuses a manifest that does not compile", async (context) => {
    const path = manifestFile(temporaryDirectory(context), "metadata: {name: helper}\nspec: {tools: [nothing]}\n");

    const { code, answer } = await runJson(validate, [path]);

    assert.equal(code, 1);
    assert.equal((answer.detail as { type: string }[])[0]?.type, "unresolved");
  });

  test("finds the manifest's texts in the deployment's object store", async (context) => {
    const directory = temporaryDirectory(context);
    const path = manifestFile(directory, "metadata: {name: helper}\nspec: {system_prompt: {files: [tone.md]}}\n");
    const environment = { SVC_OBJECT_STORE_PATH: join(directory, "objects") };
    assert.equal((await run(validate, [path], environment)).code, 1);

    mkdirSync(join(directory, "objects/prompts/acme"), { recursive: true });
    writeFileSync(join(directory, "objects/prompts/acme/tone.md"), "Be kind.");

    assert.equal((await run(validate, [path, "--tenant", "acme"], environment)).code, 0);
    assert.equal((await run(validate, [path, "--tenant", "globex"], environment)).code, 1);
  });

  test("looks up sub-agents at every level in the files that the server reads", async (context) => {
    const directory = temporaryDirectory(context);
    const others = temporaryDirectory(context);
    const environment = { SVC_MANIFEST_DIR: others };
    const made = (...names: string[]) =>
      manifestFile(directory, `metadata: {name: helper}\nspec: {pattern: router, sub_agents: [${names.join(", ")}]}\n`);
    const other = (name: string, spec: string) =>
      writeFileSync(join(others, `${name}.yaml`), `metadata: {name: ${name}}\nspec: ${spec}\n`);
    other("broken", "{tools: [nothing]}");
    other("back", "{pattern: router, sub_agents: [helper]}");
    other("deep", "{pattern: router, sub_agents: [broken]}");
    other("open", "{pattern: router, sub_agents: [stored]}");
    const problem = async (...names: string[]) => {
      const { code, answer } = await runJson(validate, [made(...names)], environment);
      return code === 0 ? null : (answer.detail as { msg: string }[])[0]?.msg;
    };

    assert.equal(await problem("quick"), null);
    assert.match((await problem("quick", "broken")) ?? "", /sub_agents\[1\]: broken is refused: .*nothing/);
    assert.match((await problem("deep")) ?? "", /sub_agents\[0\]: deep > broken is refused/);
    assert.match((await problem("back")) ?? "", /sub_agents\[0\]: back > helper is a circle/);
    // The sub-agents may be manifests that a tenant has stored.
    const { code, answer } = await runJson(validate, [made("open", "stored", "mine")], environment);
    assert.deepEqual([code, answer.unseen_sub_agents], [0, ["stored", "mine"]]);
    assert.match(
      (await run(validate, [made("mine")], environment)).stdout,
      /^Not found in a file, .* sub-agent mine\.$/m,
    );
    const bundledOnly = await runJson(validate, [made("mine")], { ...environment, SVC_MANIFEST_SOURCE: "bundled" });
    assert.equal(bundledOnly.code, 1);
  });

  test("checks with the environment of -e", async (context) => {
    const path = manifestFile(temporaryDirectory(context), "metadata: {name: helper}\n");
    seen.length = 0;

    await run(validate, [path]);
    await run(validate, [path, "-e", "production"]);

    assert.deepEqual(seen, ["development", "production"]);
    assert.equal((await run(validate, [path, "-e", "prod"])).code, 2);
  });

  const refused: [string, string, string | Buffer, RegExp][] = [
    [
      "another name than its own",
      "other.yaml",
      "metadata: {name: helper}\n",
      /metadata\.name must be other, as other\.yaml/,
    ],
    ["a name that no manifest has", "my helper.yml", "metadata: {name: helper}\n", /my helper\.yml/],
    [
      "bytes that are not UTF-8",
      "helper.json",
      Buffer.from('{"metadata": {"name": "helper", "description": "\xff"}}', "latin1"),
      /not UTF-8/,
    ],
    [
      "such bytes in a file that the server does not look for",
      "helper.txt",
      Buffer.from("metadata: {name: helper} # \xff", "latin1"),
      /not UTF-8/,
    ],
    [
      "more than a manifest may have",
      "helper.yaml",
      `metadata: {name: helper} #${" ".repeat(1024 * 1024)}`,
      /longer than 1048576/,
    ],
  ];
  for (const [what, name, content, words] of refused) {
    test(`refuses a file with ${what}, as the server does`, async (context) => {
      const path = join(temporaryDirectory(context), name);
      writeFileSync(path, content);

      const { code, answer } = await runJson(validate, [path]);

      assert.deepEqual([code, answer.error], [1, "invalid_manifest"]);
      assert.match((answer.detail as { msg: string }[])[0]?.msg ?? "", words);
    });
  }

  test("refuses a file next to another one of the same name", async (context) => {
    const directory = temporaryDirectory(context);
    const path = manifestFile(directory, "metadata: {name: helper}\n");
    writeFileSync(join(directory, "helper.json"), "{}");

    const { code, stderr } = await run(validate, [path]);

    assert.equal(code, 1);
    assert.match(stderr, /helper\.json exists too/);
  });

  test("requires no name in a file outside of SVC_MANIFEST_DIR", async (context) => {
    const path = join(temporaryDirectory(context), "draft.txt");
    writeFileSync(path, "metadata: {name: helper}\n");

    assert.equal((await run(validate, [path])).code, 0);
  });

  test("is exit 2 for a file that cannot be read, and without one", async (context) => {
    assert.equal((await run(validate, [join(temporaryDirectory(context), "missing.yaml")])).code, 2);
    assert.equal((await run(validate, [temporaryDirectory(context)])).code, 2);
    const folder = join(temporaryDirectory(context), "folder.yaml");
    mkdirSync(folder);
    assert.equal((await run(validate, [folder])).code, 2);
    assert.equal((await run(validate, [])).code, 2);
  });
});

describe("svc migrate", () => {
  test("OPS-020 migrates an empty database to the newest revision, and then does nothing", async (context) => {
    const environment = { SVC_DATA_DIR: temporaryDirectory(context) };

    const first = await runJson(migrateCommand, [], environment);
    const second = await runJson(migrateCommand, ["head"], environment);

    assert.equal(first.code, 0);
    assert.equal(first.answer.from, "base");
    assert.deepEqual(first.answer.applied, revisions);
    assert.deepEqual([second.code, second.answer.applied], [0, []]);
    assert.equal(await currentRevision(storeConfigOf(loadSettings(environment))), revisions.at(-1));
  });

  test("makes the index of vectors on Postgres with pgvector", async (context) => {
    const { url, config } = await pgvectorDatabase(cleanup(context));
    const environment = {
      SVC_DATA_DIR: temporaryDirectory(context),
      ...{ SVC_DATABASE_URL: url, SVC_MEMORY_EMBEDDING_DIM: "24" },
    };
    const indexes = async (): Promise<string[]> => {
      const client = await connectToSchema(config);
      const { rows } = await client.query("SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vectors_near_%'");
      await client.end();
      return rows.map(({ indexname }) => indexname);
    };

    const without = await run(migrateCommand, [], { ...environment, SVC_MEMORY_EMBEDDER: "none" });
    const before = await indexes();
    const { code } = await run(migrateCommand, [], environment);

    assert.deepEqual([without.code, before, code, await indexes()], [0, [], 0, ["vectors_near_24"]]);
  });

  test("OPS-021 is exit 2 for an earlier revision, unless --downgrade is given", async (context) => {
    const environment = { SVC_DATA_DIR: temporaryDirectory(context) };
    await run(migrateCommand, [], environment);

    const refused = await run(migrateCommand, ["base"], environment);
    const revision = await currentRevision(storeConfigOf(loadSettings(environment)));
    const undone = await runJson(migrateCommand, ["base", "--downgrade"], environment);

    assert.deepEqual([refused.code, refused.stdout], [2, ""]);
    assert.match(refused.stderr, /--downgrade/);
    assert.equal(revision, revisions.at(-1));
    assert.deepEqual([undone.code, undone.answer.to, undone.answer.applied], [0, "base", revisions.toReversed()]);
  });

  test("an unknown revision, and a downgrade to none, are exit 2", async (context) => {
    const environment = { SVC_DATA_DIR: temporaryDirectory(context) };

    assert.equal((await run(migrateCommand, ["9999"], environment)).code, 2);
    assert.equal((await run(migrateCommand, ["--down"], environment)).code, 2);
  });

  test("leaves a data directory in use unchanged, with exit 1", async (context) => {
    const environment = { SVC_DATA_DIR: temporaryDirectory(context) };
    const server = lockDataDir(environment.SVC_DATA_DIR);

    const during = await run(migrateCommand, [], environment);
    server.release();
    const after = await run(migrateCommand, [], environment);

    assert.equal(during.code, 1);
    assert.match(during.stderr, /another process uses the data directory/);
    assert.equal(after.code, 0);
  });

  test("is exit 1 without a database that answers, and does not print its password", async () => {
    const { code, stderr } = await run(migrateCommand, [], {
      SVC_DATABASE_URL: "postgres://svc:planted-password@127.0.0.1:1/svc",
    });

    assert.equal(code, 1);
    assert.match(stderr, /ECONNREFUSED/);
    assert.doesNotMatch(stderr, /planted-password/);
  });
});
