// svc eval: evaluates agents of a running server, for people and for CI.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { evalCommand } from "../../../host/cli/eval/eval-command.ts";
import { startChat } from "../../support/chat.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({
  writer: { scopes: ["eval:write", "manifests:write"] },
  reader: { scopes: ["eval:read"] },
});

describe("svc eval", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let directory: string;
  before(async () => {
    directory = tempDir(atEnd);
    const models = ["right", "wrong", "failing"];
    const manifests = { agent: {}, worse: { model: { id: "wrong" } }, broken: { model: { id: "failing" } } };
    const started = await startChat(atEnd, { models, manifests, env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "1" } });
    server = started.server;
    started.mock.answer("right", { text: 'It is <42> & "so".' });
    started.mock.answer("wrong", { text: "I do not know." });
    started.mock.answer("failing", failure(400));
  });

  const evaluate = (argv: readonly string[], who: keyof typeof keys = "writer") =>
    run(evalCommand, [...argv, "--url", server.url], { SVC_KEY: keys[who] });
  const evaluateJson = (argv: readonly string[]) =>
    runJson(evalCommand, [...argv, "--url", server.url], { SVC_KEY: keys.writer });
  function file(name: string, text: string): string {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  }
  const items = [
    { item_id: "sum", user_input: "What is 6 * 7?", rubric: { contains: "42", mock_answer: "42" } },
    { item_id: "any", user_input: "Hello?", rubric: { mock_answer: "Hi" } },
  ];
  const lines = items.map((item) => JSON.stringify(item)).join("\n");

  test("EVAL-003 a file of JSON Lines or JSON is imported, and its mistakes are listed", async () => {
    const imported = await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    const asJson = await evaluate(["import", "listed", file("facts.json", JSON.stringify({ items }))]);
    const bad = await evaluate(["import", "facts", file("bad.jsonl", `${lines}\n{"prompt":"x"}`)]);
    const broken = await evaluate(["import", "facts", file("broken.jsonl", `${lines}\n{"user_input":`)]);
    const missing = await evaluate(["import", "facts", join(directory, "nobodys.jsonl")]);
    const many = Array.from({ length: 1_000 }, (_, n) => ({ user_input: `${n} ${"x".repeat(2_000)}` }));
    const large = await evaluate(["import", "large", file("large.json", JSON.stringify(many))]);

    assert.deepEqual(imported, { code: 0, stdout: "facts: 2 items\n", stderr: "" });
    assert.equal(asJson.code, 0, asJson.stderr);
    assert.deepEqual([bad.code, broken.code, missing.code], [2, 2, 2]);
    assert.match(bad.stderr, /items\[2\]: user_input is missing.*prompt must be named user_input/);
    assert.match(broken.stderr, /line 3: not JSON/);
    assert.deepEqual([large.code, large.stdout], [0, "large: 1000 items\n"], large.stderr);
  });

  test("EVAL-006 a run prints a table, and its exit code follows the threshold", async () => {
    await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    const junit = join(directory, "junit.xml");

    const good = await evaluate(["run", "facts", "--manifest", "agent"]);
    const bad = await evaluate(["run", "facts", "--manifest", "worse", "--junit", junit]);
    const enough = await evaluate(["run", "facts", "--manifest", "worse", "--threshold", "0.5"]);
    const broken = await evaluate(["run", "facts", "--manifest", "broken", "--threshold", "0"]);

    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /^ITEM +RESULT +RULE +TIME +REASON\nsum +pass +contains /);
    assert.match(good.stdout, /agent: 2 of 2 pass \(100\.0 %\), 0 fail, 0 errors; /);
    assert.equal(bad.code, 1);
    assert.match(bad.stdout, /sum +fail +contains +\d+ ms +the answer does not contain "42"/);
    assert.match(bad.stdout, /The pass rate 50\.0 % is below 100\.0 %\./);
    assert.equal(enough.code, 0);
    assert.equal(broken.code, 0);
    assert.match(broken.stdout, /sum +error /);
    const xml = readFileSync(junit, "utf8");
    assert.match(xml, /<testsuite name="facts: worse" tests="2" failures="1" errors="0" skipped="0" time="[\d.]+"/);
    assert.match(
      xml,
      /<failure message="the answer does not contain &quot;42&quot;" type="contains">answer: I do not know\./,
    );
    assert.match(xml, /<testcase classname="facts" name="any" time="[\d.]+"\/>/);
  });

  test("EVAL-007 a manifest file is compared with a baseline and not stored", async () => {
    await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    const draft = (model: string) =>
      file("draft.yaml", `apiVersion: svc/v1\nkind: Agent\nmetadata: {name: draft}\nspec: {model: {id: ${model}}}\n`);

    const worse = await evaluate(["run", "facts", "--manifest", draft("wrong"), "--baseline", "agent"]);
    const { code, answer } = await evaluateJson(["run", "facts", "--manifest", draft("right"), "--baseline", "worse"]);
    const invalid = await evaluate([
      "run",
      "facts",
      "--manifest",
      file("invalid.yaml", "metadata: {name: draft}\nspec: {nobodys: 1}\n"),
    ]);
    const forbidden = await evaluate(["run", "facts", "--manifest", "agent"], "reader");

    assert.equal(worse.code, 1, worse.stderr);
    assert.match(worse.stdout, /Baseline agent: 2 of 2 pass/);
    assert.match(worse.stdout, /Passed in the baseline and not now: sum\./);
    assert.match(worse.stdout, /below that of the baseline, 100\.0 %/);
    assert.equal(code, 0);
    const {
      run: found,
      baseline,
      regressions,
    } = answer as Record<string, { candidate_manifest: string; pass_rate: number }>;
    assert.deepEqual(
      [found?.candidate_manifest, found?.pass_rate, baseline?.pass_rate, regressions],
      ["draft", 1, 0.5, []],
    );
    assert.equal(invalid.code, 1);
    assert.match(invalid.stderr, /nobodys/);
    assert.deepEqual([forbidden.code, /missing scopes: eval:write/.test(forbidden.stderr)], [1, true]);
  });

  test("EVAL-006 the names of the reference service print one line and have its exit codes", async () => {
    const fixture = file("facts.jsonl", lines);

    const good = await evaluate(["-d", "fixed", "-m", "worse", "-f", fixture, "--mock", "-t", "acme"]);
    const bad = await evaluate(["--dataset", "fixed", "--manifest", "worse"]);
    const invalid = await evaluate(["--dataset", "fixed", "--manifest", "agent", "--fixture", file("bad.jsonl", "{")]);
    const elsewhere = await evaluate(["-d", "fixed", "-m", "agent", "--mock", "-t", "globex"]);
    const judged = await evaluate(["-d", "fixed", "-m", "agent", "--llm-judge"]);
    const strict = await evaluate(["-d", "fixed", "-m", "agent", "--llm-judge", "--strict-judge"]);

    assert.equal(good.code, 0, good.stderr);
    const { ok, dataset_name, pass_rate, scores } = JSON.parse(good.stdout);
    assert.deepEqual(
      [ok, dataset_name, pass_rate, scores.length, good.stdout.split("\n").length],
      [true, "fixed", 1, 2, 2],
    );
    assert.deepEqual([bad.code, JSON.parse(bad.stdout).pass_rate], [1, 0.5]);
    assert.equal(invalid.code, 2);
    assert.deepEqual([elsewhere.code, /of the tenant acme/.test(elsewhere.stderr)], [2, true]);
    // The model of the judge gives no verdict.
    assert.deepEqual([judged.code, JSON.parse(judged.stdout).stats.judge_fallbacks], [0, 2]);
    assert.equal(strict.code, 1);
  });

  test("EVAL-005 EVAL-008 runs are listed, shown and cancelled", async () => {
    await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    const { answer } = await evaluateJson(["run", "facts", "--manifest", "agent", "--mock"]);
    const { id } = answer.run as { id: string };

    const listed = await evaluate(["list", "facts", "--limit", "1"], "reader");
    const shown = await evaluate(["show", id], "reader");
    const cancelled = await evaluate(["cancel", id]);
    const unknown = await evaluate(["show", "f".repeat(32)], "reader");

    assert.match(
      listed.stdout,
      new RegExp(
        `^RUN +AGE +STATUS +PASS +ITEMS +DATASET +MANIFEST +ERROR\n${id} +\\d+s +completed +100\\.0 % +2 +facts +agent\n$`,
      ),
    );
    assert.match(shown.stdout, /sum +pass +contains/);
    assert.equal(cancelled.stdout, `${id}: had ended\n`);
    assert.deepEqual([unknown.code, /has no run f+/.test(unknown.stderr)], [1, true]);
  });

  test("a wrong command line is exit 2", async () => {
    for (const argv of [
      [],
      ["nothing"],
      ["run"],
      ["run", "facts"],
      ["run", "facts", "x", "--manifest", "agent"],
      ["run", "facts", "--manifest", "agent", "--threshold", "2"],
      ["run", "facts", "--manifest", "agent", "--concurrency", "99"],
      ["import", "facts"],
      ["show"],
    ]) {
      const { code, stderr } = await evaluate(argv);
      assert.equal(code, 2, `${argv.join(" ")}: ${stderr}`);
      assert.match(stderr, /svc help/);
    }
  });
});
