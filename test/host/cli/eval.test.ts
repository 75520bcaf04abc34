// svc eval: evaluates agents of a running server, for people and for CI.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { evalCommand } from "../../../host/cli/eval/eval-command.ts";
import { never, says, startChat } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
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
    const models = ["right", "wrong", "failing", "held"];
    const manifests = {
      ...{ agent: {}, worse: { model: { id: "wrong" } }, broken: { model: { id: "failing" } } },
      slow: { model: { id: "held" } },
    };
    const started = await startChat(atEnd, { models, manifests, env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "1" } });
    server = started.server;
    started.mock.answer("right", { text: 'It is <42> & "so".' });
    started.mock.answer("wrong", { text: "I do not know." });
    started.mock.answer("failing", failure(400));
    started.mock.answer("held", says("Wait", never));
  });

  const evaluate = (argv: readonly string[], who: keyof typeof keys = "writer", stop?: AbortSignal) =>
    run(evalCommand, [...argv, "--url", server.url], { SVC_KEY: keys[who] }, null, stop);
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

  /** The option `--manifest FILE` with a manifest of this text. */
  const draft = (text: string) => ["--manifest", file("draft.yaml", text)];
  const outcomes: readonly (readonly [what: string, argv: () => readonly string[], code: number, words: RegExp])[] = [
    ["every item passes", () => ["--manifest", "agent"], 0, /2 of 2 pass/],
    ["the pass rate is the threshold", () => ["--manifest", "worse", "--threshold", "0.5"], 0, /1 of 2 pass/],
    ["the threshold is 0", () => ["--manifest", "broken", "--threshold", "0"], 0, /2 errors/],
    ["the baseline is as good", () => ["--manifest", "worse", "--baseline", "worse"], 0, /Baseline worse/],
    ["the baseline is worse", () => ["--manifest", "agent", "--baseline", "worse"], 0, /Baseline worse/],
    ["an item fails", () => ["--manifest", "worse"], 1, /50\.0 % is below 100\.0 %/],
    ["the threshold is higher", () => ["--manifest", "worse", "--threshold", "0.51"], 1, /50\.0 % is below 51\.0 %/],
    ["items have no answer", () => ["--manifest", "broken"], 1, /0\.0 % is below 100\.0 %/],
    ["the baseline is better", () => ["--manifest", "worse", "--baseline", "agent"], 1, /below that of the baseline/],
    [
      "the threshold is missed and the baseline is not",
      () => ["--manifest", "worse", "--baseline", "broken", "--threshold", "0.9"],
      1,
      /is below 90\.0 %/,
    ],
    ["the manifest is unknown", () => ["--manifest", "nobodys"], 1, /no manifest nobodys/],
    ["the baseline is unknown", () => ["--manifest", "agent", "--baseline", "nobodys"], 1, /no manifest nobodys/],
    ["the manifest file is no YAML", () => draft("metadata: ["), 1, /is not valid/],
    ["the route of the judge is unknown", () => ["--manifest", "agent", "--judge-model", "x"], 1, /./],
    ["the manifest file is missing", () => ["--manifest", join(directory, "none.yaml")], 2, /is not a file/],
    [
      "the JUnit file cannot be written",
      () => ["--manifest", "agent", "--mock", "--junit", join(directory, "none", "a.xml")],
      2,
      /cannot be written/,
    ],
    ["the tenant is another one", () => ["--manifest", "agent", "--mock", "--tenant", "x"], 2, /of the tenant acme/],
    ["an option is unknown", () => ["--manifest", "agent", "--fast"], 2, /--fast/],
  ];
  test("EVAL-006 the exit code of a run is 0, 1 for a result that is not good enough, and 2 for wrong input", async () => {
    await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    for (const [what, argv, code, words] of outcomes) {
      const printed = await evaluate(["run", "facts", ...argv()]);
      assert.equal(printed.code, code, `${what}: ${printed.stdout}${printed.stderr}`);
      assert.match(printed.stdout + printed.stderr, words, what);
    }
    const unknown = await evaluate(["run", "nobodys", "--manifest", "agent"]);
    const unreachable = await run(evalCommand, ["run", "facts", "--manifest", "agent", "--url", "http://127.0.0.1:9"]);
    const stranger = await run(evalCommand, ["run", "facts", "--manifest", "agent", "--url", server.url]);

    assert.deepEqual([unknown.code, unreachable.code, stranger.code], [1, 1, 1], unreachable.stderr);
    assert.match(unknown.stderr, /no such dataset/);
  });

  /** Waits for a run in progress of an agent. Returns its id. */
  const begun = (manifest: string) =>
    eventually("a run in progress", async () => {
      const { json } = await server.get("/eval/runs?dataset=facts", { key: keys.reader });
      return json.items.find(
        ({ status, candidate_manifest }: { status: string; candidate_manifest: string }) =>
          status === "in_progress" && candidate_manifest === manifest,
      )?.id as string | undefined;
    });

  test("EVAL-006 Ctrl-C cancels the run with exit 130; a run that someone else cancels is exit 1", async () => {
    await evaluate(["import", "facts", file("facts.jsonl", lines)]);
    const junit = join(directory, "cancelled.xml");
    const controller = new AbortController();
    const first = evaluate(["run", "facts", "--manifest", "slow"], "writer", controller.signal);
    const id = await begun("slow");
    controller.abort();
    const stopped = await first;
    const { json } = await server.get(`/eval/runs/${id}`, { key: keys.reader });
    const second = evaluate(["run", "facts", "--manifest", "slow", "--junit", junit, "--threshold", "0"]);
    await evaluate(["cancel", await begun("slow")]);
    const cancelled = await second;

    assert.deepEqual([stopped.code, json.status, json.error], [130, "failed", "cancelled"]);
    assert.equal(cancelled.code, 1);
    assert.match(cancelled.stdout, /The run [0-9a-f]+ failed: cancelled\./);
    assert.match(readFileSync(junit, "utf8"), / tests="2" failures="0" errors="0" skipped="2" /);
  });

  test("EVAL-006 a JUnit file has an element for each item, and hostile texts stay inside of it", async () => {
    const hostile = 'a & b </failure><testcase name="x"/> \u0001 \ud83d\ude00 "q" ]]>';
    const rubric = { expect: "other", mock_answer: hostile };
    const listed = [{ item_id: "hostile", user_input: "?", rubric }, ...items];
    await evaluate(["import", "hostile", file("hostile.json", JSON.stringify({ items: listed }))]);
    const [mocked, broken] = ["mocked.xml", "broken.xml"].map((name) => join(directory, name)) as [string, string];
    await evaluate(["run", "hostile", "--manifest", "agent", "--mock", "--junit", mocked]);
    await evaluate(["run", "hostile", "--manifest", "broken", "--junit", broken]);
    const [xml, errors] = [readFileSync(mocked, "utf8"), readFileSync(broken, "utf8")];

    for (const text of [xml, errors]) {
      assert.ok(text.startsWith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'));
      const open: string[] = [];
      for (const [tag, end, name = "", own] of text.matchAll(/<(\/?)([a-z]+)(?: [a-z]+="[^"<]*")*(\/?)>/g)) {
        if (end === "/") assert.equal(open.pop(), name, tag);
        else if (own !== "/") open.push(name);
      }
      assert.deepEqual(open, []);
      const bare = text.replaceAll(
        /<\?xml [^>]*>|<(\/?)([a-z]+)(?: [a-z]+="[^"<]*")*(\/?)>|&(?:lt|gt|amp|quot|apos);/g,
        "",
      );
      assert.doesNotMatch(bare, /[<&]/);
      assert.ok(!bare.includes("\u0001"));
      assert.equal(text.match(/<testcase /g)?.length, 3);
    }
    assert.match(xml, / tests="3" failures="1" errors="0" skipped="0" /);
    assert.match(
      xml,
      /<testcase classname="hostile" name="hostile" time="[\d.]+"><failure message="[^"]+" type="expect">/,
    );
    assert.match(xml, /answer: a &amp; b &lt;\/failure&gt;&lt;testcase name=&quot;x&quot;\/&gt; \ufffd \ud83d\ude00 /);
    assert.match(errors, / tests="3" failures="0" errors="3" skipped="0" /);
    assert.match(errors, /<error message="[^"]*model_failed[^"]*">answer: /);
    assert.match(errors, /transcript: acme:eval:[0-9a-f]+:hostile</);
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
