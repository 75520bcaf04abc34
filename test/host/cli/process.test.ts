// The command line as a process, with its output and exit codes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryDirectory } from "./support.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

function svc(argv: readonly string[], environment: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "svc.js"), ...argv], {
    encoding: "utf8",
    env: { PATH: process.env.PATH ?? "", ...environment },
  });
  return { code: status, stdout, stderr };
}

describe("svc", () => {
  test("prints its version, which is the package's", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

    assert.deepEqual(svc(["version"]), { code: 0, stdout: `${version}\n`, stderr: "" });
  });

  test("lists every command", () => {
    const { code, stdout } = svc(["help", "--json"]);

    assert.equal(code, 0);
    assert.deepEqual(
      JSON.parse(stdout).commands.map(({ name }: { name: string }) => name),
      [
        ...["serve", "api", "worker", "scheduler"],
        "migrate",
        "doctor",
        "connections",
        "validate-manifest",
        "mint-jwt",
        "keys",
        "login",
        "task",
        "chat",
        "init",
        "threads",
        "skills",
        "approvals",
        "audit",
        "plan",
        "policy",
        "usage",
        "runs",
        "workflows",
        ...["docs", "ingest-docs", "embeddings"],
        "hosts",
        "eval",
        "replay",
        "chaos",
        "shell-runner",
        "backup",
        "restore",
        "move",
        "completion",
        "version",
      ],
    );
  });

  test("is exit 2 for a wrong command line, with nothing on stdout", () => {
    for (const argv of [["nothing"], ["version", "extra"], ["keys", "--colour"]]) {
      const { code, stdout, stderr } = svc(argv);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /svc help/);
    }
  });

  test("names the nearest words for a wrong word, or lists the possible ones", () => {
    const said: [argv: string[], message: RegExp][] = [
      [["validate"], /^svc has no command "validate" \(did you mean validate-manifest\?\)\.\nRun "svc help"/],
      [["start"], /^svc has no command "start" \(there are serve, api, .*version\)\./],
      [["docter"], /^svc has no command "docter" \(did you mean doctor\?\)\./],
      [["help", "bakcup"], /"bakcup" \(did you mean backup\?\)/],
      [["doctor", "--onlin"], /^svc doctor has no option --onlin \(did you mean --online\?\)\.\nRun "svc help doctor"/],
      [["doctor", "-json"], /^svc doctor has no option -json \(did you mean --json\?\)\./],
      [["serve", "--port", "9000"], /no option --port \(there are .*\)\. SVC_PORT in the environment sets this\.\n/],
      [["version", "--colour=1"], /^svc version has no option --colour \(there are --json, --help\)\./],
      [["version", "--constructor"], /^svc version has no option --constructor \(there are --json, --help\)\./],
    ];

    for (const [argv, message] of said) {
      const { code, stdout, stderr } = svc(argv);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, message);
    }
  });

  test("does not start with invalid settings, and names each", () => {
    const { code, stdout, stderr } = svc(["serve"], {
      SVC_PORT: "x",
      SVC_DURABILITY: "temporal",
      SVC_REDIS_URL: "http://h",
    });

    assert.deepEqual([code, stdout], [1, ""]);
    for (const name of ["SVC_PORT", "SVC_DURABILITY", "SVC_REDIS_URL"])
      assert.match(stderr, new RegExp(`^${name} `, "m"));
  });

  test("does not start on all addresses without authentication, and creates nothing", (context) => {
    const data = join(temporaryDirectory(context), "data");
    const { code, stdout } = svc(["serve", "--json"], { SVC_HOST: "0.0.0.0", SVC_DATA_DIR: data });

    assert.equal(code, 1);
    assert.match(JSON.parse(stdout).refusals[0], /SVC_AUTH_MODE=none is only for loopback/);
    assert.ok(!existsSync(data));
  });

  test("migrates the database of the environment", (context) => {
    const { code, stdout } = svc(["migrate", "0000"], { SVC_DATA_DIR: temporaryDirectory(context) });

    assert.equal(code, 0);
    assert.equal(stdout, "Schema at 0000: applied 0000.\n");
  });

  test("checks the deployment with the tools and models of the server", (context) => {
    const { code, stdout } = svc(["doctor", "--json"], { SVC_DATA_DIR: join(temporaryDirectory(context), "data") });

    const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { name: string; status: string }[] };
    assert.deepEqual([code, ok], [0, true]);
    assert.deepEqual(
      checks.filter(({ status }) => status === "error"),
      [],
    );
  });

  test("prints no terminal control sequences of a manifest or of its arguments", (context) => {
    const directory = temporaryDirectory(context);
    const path = join(directory, "evil.yaml");
    writeFileSync(
      path,
      'metadata: {name: evil}\nspec: {"\\e[31mred\\e]0;owned\\a\\nline": 1, tools: ["\\e[2J\\u202e\\u009b"]}\n',
    );
    const environment = { SVC_MANIFEST_DIR: directory, SVC_DATA_DIR: join(directory, "data") };

    const said = [
      svc(["validate-manifest", path]),
      svc(["doctor"], environment),
      svc(["\u001b[2J"]),
      svc(["chat", "--\u001b[2J"]),
      svc(["validate-manifest", "\u001b[2J.yaml"]),
    ];

    for (const { stdout, stderr } of said) {
      assert.notEqual(stdout + stderr, "");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds these characters
      assert.doesNotMatch(stdout + stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    }
    assert.match(said[0]?.stderr ?? "", /^ {2}evil\.yaml: .*red.*owned.*line is not a field of spec/m);
    assert.match(said[1]?.stdout ?? "", /evil\.yaml: .*red.*owned.*line is not a field of spec/m);
  });

  test("a closed pipe ends every command silently", (context) => {
    const directory = temporaryDirectory(context);
    const words = ["help", "help --json", "doctor", "completion bash", "keys", "version", "nothing --json", "init"];
    for (const line of words) {
      const { stdout, stderr } = spawnSync(
        "bash",
        [
          "--norc",
          "-c",
          `exec 3> >(:); wait $!; "$0" "$1" ${line} >&3 2>errors; printf '%s ' $?; cat errors`,
          process.execPath,
          join(root, "svc.js"),
        ],
        {
          encoding: "utf8",
          cwd: directory,
          env: { PATH: process.env.PATH ?? "", SVC_DATA_DIR: join(directory, "data") },
        },
      );

      assert.deepEqual([stdout, stderr], ["141 ", ""], line);
    }
  });

  test("validates the bundled manifest, and refuses a tool that the server lacks", (context) => {
    const bad = join(temporaryDirectory(context), "bad.yaml");
    writeFileSync(bad, "metadata: {name: bad}\nspec: {tools: [calculator, no_such_tool]}\n");

    assert.equal(svc(["validate-manifest", join(root, "manifests/bundled/quick.yaml")]).code, 0);
    const { code, stderr } = svc(["validate-manifest", bad]);
    assert.equal(code, 1);
    assert.match(stderr, /no_such_tool/);
    assert.doesNotMatch(stderr, /names the tool calculator/);
  });
});
