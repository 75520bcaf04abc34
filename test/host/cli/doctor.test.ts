import assert from "node:assert/strict";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { settingsSections } from "../../../governance/settings/settings.ts";
import { doctorCommand } from "../../../host/cli/doctor.ts";
import { migrateCommand } from "../../../host/cli/migrate.ts";
import { validateManifestCommand } from "../../../host/cli/validate-manifest.ts";
import { migrations } from "../../../storage/migrations/list.ts";
import { hasBubblewrap } from "../../support/bubblewrap.ts";
import { has } from "../../support/needs.ts";
import { startRedis } from "../../support/redis.ts";
import { cleanup } from "../../support/temp.ts";
import { run, runJson, someRegistries, temporaryDirectory } from "./support.ts";

const doctor = doctorCommand(async () => someRegistries(), []);

interface Report {
  ok: boolean;
  settings: { name: string; value: unknown; source: string; secret: boolean }[];
  warnings: string[];
  refusals: string[];
  checks: { name: string; status: string; detail: string; problems?: string[] }[];
}

async function examine(environment: Record<string, string>, command = doctor) {
  const { code, answer } = await runJson(command, [], environment);
  const report = answer as unknown as Report;
  const check = (name: string) => report.checks.find((each) => each.name === name);
  const setting = (name: string) => report.settings.find((each) => each.name === name);
  return { code, report, check, setting };
}

function healthy(context: TestContext): Record<string, string> {
  return { SVC_DATA_DIR: join(temporaryDirectory(context), "data"), OPENAI_API_KEY: "an-openai-key-0001" };
}

describe("svc doctor", () => {
  test("finds no problem in the embedded default, and creates nothing", async (context) => {
    const environment = healthy(context);
    const { code, report, check } = await examine(environment);

    assert.equal(code, 0);
    assert.deepEqual([report.ok, report.refusals, report.warnings], [true, [], []]);
    assert.deepEqual(
      report.checks.map(({ name, status }) => [name, status]),
      [
        ["database", "ok"],
        ["redis", "ok"],
        ["object_store", "ok"],
        ["workspace_root", "ok"],
        ["commands", "ok"],
        ["secrets", "ok"],
        ["manifest_directory", "ok"],
        ["default_manifest", "ok"],
        ["model", "ok"],
        ["vectors", "ok"],
        ["http_engine", "ok"],
      ],
    );
    assert.match(check("database")?.detail ?? "", /will be created/);
    assert.ok(!existsSync(environment.SVC_DATA_DIR ?? ""));
  });

  test("shows every setting with value and source; of secrets only whether they are set", async (context) => {
    const planted = "planted-secret-value";
    const { report, setting } = await examine({
      ...healthy(context),
      SVC_PORT: "9000",
      SVC_AUTH_API_KEYS: JSON.stringify({ [planted]: { tenant_id: "a", sub: "b", scopes: ["admin"] } }),
      SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: { api_key: planted } }),
      SVC_GROQ_API_KEY: planted,
      SVC_SECRET_DB: planted,
      SVC_JWT_ISSUER: planted,
    });

    for (const { settings } of settingsSections) {
      for (const { name } of Object.values(settings)) assert.ok(setting(name), name);
    }
    assert.deepEqual(setting("SVC_PORT"), { name: "SVC_PORT", value: 9000, secret: false, source: "environment" });
    assert.deepEqual(setting("SVC_HOST"), { name: "SVC_HOST", value: "127.0.0.1", secret: false, source: "default" });
    for (const name of [
      "SVC_AUTH_API_KEYS",
      "SVC_MODEL_PROVIDER_OPTIONS",
      "SVC_GROQ_API_KEY",
      "SVC_SECRET_DB",
      "OPENAI_API_KEY",
    ]) {
      assert.deepEqual(setting(name), { name, value: "set", secret: true, source: "environment" });
    }
    assert.equal(setting("SVC_DATABASE_URL")?.value, "unset");
    assert.equal(setting("SVC_XAI_API_KEY")?.value, "unset");
    assert.doesNotMatch(JSON.stringify(report), /planted-secret/);
  });

  test("prints a report for a person on stdout, with and without problems", async (context) => {
    const good = await run(doctor, [], healthy(context));
    const bad = await run(doctor, [], { ...healthy(context), SVC_HOST: "0.0.0.0", SVC_PROT: "1" });

    assert.deepEqual([good.code, good.stderr], [0, ""]);
    assert.match(good.stdout, /SVC_RATE_LIMIT +120\n/);
    assert.deepEqual([bad.code, bad.stderr], [1, ""]);
    assert.match(bad.stdout, /SVC_HOST +0\.0\.0\.0 {2}\(environment\)/);
    assert.match(bad.stdout, /The server would not start\n {2}SVC_AUTH_MODE=none is only for loopback/);
    assert.match(bad.stdout, /SVC_PROT is not a setting/);
  });

  test("is exit 1 and continues its checks after a malformed or unbuilt setting", async (context) => {
    const { code, report, setting } = await examine({
      ...healthy(context),
      SVC_PORT: "x",
      SVC_REDIS_URL: "http://h",
      SVC_HOST: "::1",
    });

    assert.equal(code, 1);
    assert.deepEqual(report.refusals.map((line) => line.split(" ")[0]).sort(), ["SVC_PORT", "SVC_REDIS_URL"]);
    assert.equal(setting("SVC_PORT")?.value, 8080);
    assert.equal(setting("SVC_HOST")?.value, "::1");
  });

  test("recommends strict chat scopes in production", async (context) => {
    const { report } = await examine({
      ...healthy(context),
      SVC_ENVIRONMENT: "production",
      SVC_AUTH_MODE: "api_key",
      SVC_AUTH_API_KEYS: JSON.stringify({ "a-key-that-is-long": { tenant_id: "a", sub: "b", scopes: [] } }),
    });

    assert.match(report.warnings.join(), /SVC_CHAT_SCOPES=strict is recommended in production/);
  });
});

describe("svc doctor checks", () => {
  test("an existing database", async (context) => {
    const environment = healthy(context);
    await run(migrateCommand, [], environment);

    const { check } = await examine(environment);

    assert.equal(check("database")?.status, "ok");
    assert.equal(check("database")?.detail, `sqlite at revision ${migrations.at(-1)?.revision}`);
  });

  test("a database that does not answer, without printing its password", async (context) => {
    const { code, check } = await examine({
      ...healthy(context),
      SVC_DATABASE_URL: "postgres://svc:planted-password@127.0.0.1:1/svc",
    });

    assert.equal(code, 1);
    assert.equal(check("database")?.status, "error");
    assert.match(check("database")?.detail ?? "", /ECONNREFUSED/);
    assert.doesNotMatch(check("database")?.detail ?? "", /planted-password/);
  });

  test("warns of a scope that no route requires, by the entry of its key", async (context) => {
    const { report } = await examine({
      ...healthy(context),
      SVC_AUTH_MODE: "api_key",
      SVC_AUTH_API_KEYS: JSON.stringify({ "a-key-that-is-long": { tenant_id: "a", sub: "b", scopes: ["chat:wrtie"] } }),
    });

    assert.match(report.warnings.join(), /SVC_AUTH_API_KEYS: entry 1 has the scope chat:wrtie.*mean chat:write\?$/);
  });

  test("an unreachable and a working Redis, without printing its password", async (context) => {
    const redis = await startRedis(cleanup(context), "planted-password");
    if (!has(context, redis !== null, "needs redis-server") || redis === null) return;

    const gone = await examine({ ...healthy(context), SVC_REDIS_URL: "redis://:planted-password@127.0.0.1:1" });
    const wrong = await examine({
      ...healthy(context),
      SVC_REDIS_URL: redis.url.replace("password@", "password-not@"),
    });
    const there = await examine({ ...healthy(context), SVC_REDIS_URL: redis.url });
    await redis.client.call("REPLICAOF", "127.0.0.1", "1");
    const replica = await examine({ ...healthy(context), SVC_REDIS_URL: redis.url });

    assert.deepEqual([gone.code, gone.check("redis")?.status], [1, "error"]);
    assert.match(gone.check("redis")?.detail ?? "", /127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/);
    assert.match(wrong.check("redis")?.detail ?? "", /WRONGPASS/);
    assert.match(replica.check("redis")?.detail ?? "", /^127\.0\.0\.1:\d+ refuses commands: READONLY /);
    assert.deepEqual([there.code, there.check("redis")?.status], [0, "ok"]);
    for (const { report } of [gone, wrong, there]) assert.doesNotMatch(JSON.stringify(report), /planted-password/);
  });

  test("directories that are files or do not exist", async (context) => {
    const directory = temporaryDirectory(context);
    const file = join(directory, "file");
    writeFileSync(file, "");

    const { code, check } = await examine({
      SVC_DATA_DIR: join(file, "data"),
      SVC_OBJECT_STORE_PATH: file,
      SVC_WORKSPACE_ROOT: join(directory, "missing"),
      SVC_SECRETS_BACKEND: "file",
      SVC_SECRETS_DIR: join(directory, "missing"),
    });

    assert.equal(code, 1);
    for (const name of ["database", "object_store", "workspace_root", "secrets"]) {
      assert.equal(check(name)?.status, "error", name);
    }
  });

  test("runs a command as those of agents run, and says why it fails", async (context) => {
    const environment = healthy(context);
    const file = join(temporaryDirectory(context), "file");
    writeFileSync(file, "");
    const found = async (more: Record<string, string>) => {
      const { code, check } = await examine({ ...environment, ...more });
      return [code, check("commands")?.status, check("commands")?.detail];
    };
    const trusted = await found({ SVC_SHELL_LOCAL: "trusted" });
    const noProgram = await found({ SVC_SHELL_LOCAL: "trusted", SVC_SHELL_PATH: file });
    const remote = await found({
      SVC_SHELL_LOCAL: "bwrap",
      SVC_SHELL_RUNNER_URL: "http://127.0.0.1:1",
      SVC_SHELL_RUNNER_TOKEN: "token-of-the-runner-0123456789-abcdef",
    });

    assert.deepEqual(trusted, [0, "ok", "with all rights of svc"]);
    assert.deepEqual(remote, [0, "ok", "on the runner of SVC_SHELL_RUNNER_URL"]);
    assert.deepEqual(noProgram.slice(0, 2), [1, "error"]);
    if (!hasBubblewrap(context)) return;

    const sandbox = await found({ SVC_SHELL_LOCAL: "bwrap" });
    const broken = await found({ SVC_SHELL_LOCAL: "bwrap", SVC_SHELL_READABLE: join(file, "below") });

    assert.deepEqual(sandbox, [0, "ok", "bubblewrap makes sandboxes"]);
    assert.deepEqual(broken.slice(0, 2), [1, "error"]);
    assert.match(String(broken[2]), /the command "true" does not run: bwrap: .*Not a directory/);
  });

  test("checks a default manifest of the operator, and a missing one", async (context) => {
    const directory = temporaryDirectory(context);
    mkdirSync(join(directory, "manifests"));
    writeFileSync(join(directory, "manifests", "own.yaml"), "metadata: {name: own}\nspec: {model: {id: nowhere}}\n");
    const environment = { ...healthy(context), SVC_MANIFEST_DIR: join(directory, "manifests") };

    const own = await examine({ ...environment, SVC_DEFAULT_MANIFEST: "own" });
    const nobody = await examine({ ...environment, SVC_DEFAULT_MANIFEST: "nobody" });

    assert.equal(own.check("default_manifest")?.status, "error");
    assert.match(own.check("default_manifest")?.detail ?? "", /nowhere/);
    assert.equal(nobody.check("default_manifest")?.status, "warning");
    assert.equal(nobody.code, 0);
  });

  test("the operator's manifest directory: missing, a file, empty, valid", async (context) => {
    const environment = healthy(context);
    const directory = temporaryDirectory(context);
    const at = async (path: string) => examine({ ...environment, SVC_MANIFEST_DIR: join(directory, path) });
    mkdirSync(join(directory, "empty"));
    mkdirSync(join(directory, "good"));
    writeFileSync(join(directory, "file"), "");
    writeFileSync(join(directory, "empty", "notes.md"), "no manifest");
    writeFileSync(join(directory, "good", "fine.yaml"), "metadata: {name: fine}\n");

    const found = await Promise.all(["nowhere", "file", "empty", "good"].map(at));

    assert.deepEqual(
      found.map(({ code, check }) => [code, check("manifest_directory")?.status]),
      [
        [1, "error"],
        [1, "error"],
        [0, "warning"],
        [0, "ok"],
      ],
    );
    for (const [at, words] of ["does not exist", "is not a directory", "has no .yaml", "1 valid"].entries())
      assert.ok(found[at]?.check("manifest_directory")?.detail.includes(words), words);
  });

  test("each invalid file of that directory, with its path and its problems", async (context) => {
    const directory = temporaryDirectory(context);
    const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
    write("fine.yaml", "metadata: {name: fine}\n");
    write("typo.yaml", "metadata: {name: typo}\nspec: {modle: {id: hosted}, tols: []}\n");
    write("other.json", '{"metadata": {"name": "another"}}');
    write("Bad Name.yaml", "metadata: {name: bad}\n");
    write("lonely.yaml", "metadata: {name: lonely}\nspec: {model: {id: nowhere}}\n");
    symlinkSync(join(directory, "gone"), join(directory, "link.yml"));
    symlinkSync("circle.yaml", join(directory, "circle.yaml"));
    mkdirSync(join(directory, "folder.yaml"));
    mkdirSync(join(directory, "team"));
    write("team/one.yaml", "metadata: {name: one}\n");
    write("loud.YAML", "metadata: {name: loud}\n");
    const environment = { ...healthy(context), SVC_MANIFEST_DIR: directory };

    const { code, check } = await examine(environment);
    const printed = await run(doctor, [], environment);
    const said = await run(
      validateManifestCommand(async () => someRegistries()),
      [join(directory, "typo.yaml")],
    );

    const problems = check("manifest_directory")?.problems ?? [];
    const of = (name: string) => problems.filter((line) => line.startsWith(`${join(directory, name)}: `));
    assert.equal(code, 0);
    assert.equal(check("manifest_directory")?.status, "warning");
    assert.match(check("manifest_directory")?.detail ?? "", /6 of 7 invalid, 2 ignored$/);
    assert.equal(of("fine.yaml").length, 0);
    assert.equal(of("typo.yaml").length, 2);
    for (const line of of("typo.yaml")) {
      assert.ok(said.stderr.includes(line.slice(join(directory, "typo.yaml: ").length)), line);
      assert.ok(printed.stdout.includes(line), line);
    }
    assert.match(of("other.json").join(), /must be other/);
    assert.match(of("Bad Name.yaml").join(), /a manifest cannot have this name/);
    assert.match(of("lonely.yaml").join(), /nowhere/);
    assert.match(of("link.yml").join(), /is a link to a file that does not exist/);
    assert.match(of("circle.yaml").join(), /circle\.yaml: it cannot be read/);
    for (const name of ["team", "loud.YAML"])
      assert.match(of(name).join(), /: ignored; manifests are the files directly in/);
    // Each file is named once.
    for (const line of problems) assert.doesNotMatch(line, /(\w+\.\w+): \1: /);
  });

  const models: [string, Record<string, string>, string, RegExp][] = [
    ["a key", { OPENAI_API_KEY: "an-openai-key-0001" }, "ok", /hosted of openai/],
    ["a key of another provider alone", { GROQ_API_KEY: "a-groq-key" }, "warning", /needs a key of openai/],
    ["a gateway", { SVC_LITELLM_BASE_URL: "http://localhost:4000" }, "ok", /gateway/],
    [
      "a key by reference",
      {
        SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"api_key": "secret:OPENAI"}}',
        SVC_SECRET_OPENAI: "an-openai-key-0001",
      },
      "ok",
      /hosted of openai/,
    ],
    [
      "a key by a reference to nothing",
      { SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"api_key": "secret:OPENAI"}}' },
      "error",
      /unresolved_secret:OPENAI/,
    ],
  ];
  for (const [name, environment, status, detail] of models) {
    test(`the model with ${name}`, async (context) => {
      const { check } = await examine({ SVC_DATA_DIR: join(temporaryDirectory(context), "data"), ...environment });

      assert.equal(check("model")?.status, status);
      assert.match(check("model")?.detail ?? "", detail);
    });
  }

  test("a default model that is demo, and one that does not exist", async (context) => {
    const environment = healthy(context);
    const demo = await examine(
      environment,
      doctorCommand(async () => someRegistries("demo"), []),
    );
    const nowhere = await examine(
      environment,
      doctorCommand(async () => someRegistries("nowhere"), []),
    );

    assert.equal(demo.check("model")?.status, "warning");
    assert.equal(nowhere.check("model")?.status, "error");
  });

  test("registries that cannot be created", async (context) => {
    const failing = doctorCommand(() => Promise.reject(new Error("no route table")), []);

    const { code, report } = await examine(healthy(context), failing);

    assert.equal(code, 1);
    assert.match(report.checks.map(({ detail }) => detail).join(), /no route table/);
  });
});
