// A server that is killed while it evaluates or rewrites a skill continues the job, and applies it once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { BucketServer } from "../support/bucket-server.ts";
import { s3Settings } from "../support/buckets.ts";
import { gate, never, says, startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { startS3Server } from "../support/s3-server.ts";
import type { ProcessServer } from "../support/server.ts";
import { skillText } from "../support/skills.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

for (const dialect of gateDialects)
  describe(`jobs of skills and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let bucket: BucketServer;
    before(async () => {
      bucket = await startS3Server(atEnd);
      ({ server, mock } = await startChatProcess(atEnd, {
        models: ["answerer", "judge", "improver"],
        env: {
          ...{ ...(await databaseOf(dialect, atEnd)).env, ...s3Settings(bucket.url) },
          SVC_DUTIES: "api,worker",
          SVC_SKILL_EVAL_MODEL: "answerer",
          SVC_SKILL_EVAL_JUDGE_MODEL: "judge",
          SVC_SKILL_IMPROVE_MODEL: "improver",
        },
      }));
    });

    const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;
    const text = (name: string, body: string) => skillText(name, `How to do ${name} well, for tests.`, { body });
    const post = async (path: string, body?: object) => {
      const { status, json, text: said } = await server.request("POST", path, { ...(body && { body }) });
      assert.ok(status < 300, said);
      return json;
    };
    const scenarios = (count: number) =>
      Array.from({ length: count }, (_, at) => ({ name: `s${at}`, prompt: `Question ${at}?`, criteria: "Good." }));
    const create = (name: string, count: number) =>
      post("/skill-library", {
        files: {
          "SKILL.md": text(name, "# One\n"),
          ...(count > 0 && { "evals/scenarios.json": JSON.stringify(scenarios(count)) }),
        },
      });
    const sweep = () => server.request("POST", "/tasks/skill_jobs/run");
    const read = async (path: string) => (await server.get(`/skill-library${path}`)).json;
    const feedback = async (name: string) => (await read(`/${name}/feedback`)).items[0];
    const accept = async (name: string) => {
      const { id } = await post(`/skill-library/${name}/feedback`, { body: "Two." });
      await post(`/skill-library/-/feedback/${id}/accept`, {});
    };
    const ended = <T extends { status: string }>(what: string, of: () => Promise<T>) =>
      eventually(what, async () => {
        await sweep();
        const row = await of();
        return ["succeeded", "failed", "applied"].includes(row.status) ? row : undefined;
      });
    const good = { text: '{"score":80,"reason":"Good."}' };

    const has = (text: string, { body }: { body: Readonly<Record<string, unknown>> }) =>
      JSON.stringify(body.messages).includes(text);

    test("LIM-005 jobs killed at each step continue, are applied once, and fail after three kills", async () => {
      await create("evaluated", 3);
      await create("rewritten", 1);
      await create("unscripted", 0);
      await create("crashing", 1);
      mock.answer("answerer", { text: "An answer." });
      mock.answer("judge", good, good, says("{", never));
      mock.answer("improver", says("{", never));
      const evaluated = await post("/skill-library/evaluated/versions/0.1.0/eval");
      const unscripted = await post("/skill-library/unscripted/versions/0.1.0/eval");
      await accept("rewritten");
      await accept("crashing");
      await sweep();
      await eventually("one scenario is scored, others and two rewrites are being written", async () => {
        const { results } = await read(`/evaluated/evals/${evaluated.id}`);
        return (results.length === 1 && asked("judge") >= 3 && asked("improver") === 3) || undefined;
      });

      await server.kill();
      const judged = asked("judge");
      const held = gate();
      const changes = [{ path: "SKILL.md", content: text("rewritten", "# Two\n") }];
      const rewrite = JSON.stringify({ changes, deletes: [], reason: "Two." });
      const chosen = [{ name: "written", prompt: "Written?", criteria: "Yes." }];
      mock.answer("judge", good);
      mock.answer("improver", (request) => {
        if (has("crashing", request)) return says("{", never);
        if (has("You write test scenarios", request)) return { text: JSON.stringify({ scenarios: chosen }) };
        return says(held.opened, rewrite);
      });
      mock.answer("answerer", (request) => (has("Written?", request) ? says("An", never) : { text: "An answer." }));
      await server.restart();
      const done = await ended("the evaluation", () => read(`/evaluated/evals/${evaluated.id}`));
      const scored = asked("judge") - judged;
      const { status, scenario_source } = await eventually("an answer and two rewrites under way", async () => {
        const row = await read(`/unscripted/evals/${unscripted.id}`);
        return row.scenario_source !== null && asked("improver") === 6 ? row : undefined;
      });
      // The first of the two files of the new version is never stored.
      bucket.faults.push("slow");
      held.open();
      await eventually("a file under way", async () =>
        bucket.requests.some((request) => /^PUT .*\/rewritten\/0\.1\.1\//.test(request)),
      );

      await server.kill();
      mock.answer("improver", (request) => (has("crashing", request) ? says("{", never) : { text: rewrite }));
      mock.answer("answerer", { text: "An answer." });
      await server.restart();
      const written = await ended("the other evaluation", () => read(`/unscripted/evals/${unscripted.id}`));
      const rewritten = await ended("the rewrite", () => feedback("rewritten"));
      const claimed = await feedback("crashing");

      await server.kill();
      const improved = asked("improver");
      await server.restart();
      const crashed = await ended("the other rewrite", () => feedback("crashing"));
      await sweep();
      const { versions } = await read("/rewritten");

      assert.deepEqual([done.status, done.attempts, done.results.length], ["succeeded", 2, 3]);
      assert.equal(scored, 4, "the first scenario was not scored again");
      assert.deepEqual([status, scenario_source], ["running", "generated"]);
      assert.deepEqual([written.status, written.attempts, written.scenarios], ["succeeded", 3, chosen]);
      // The number of the version that was never stored is not used again.
      assert.deepEqual([rewritten.status, rewritten.attempts, rewritten.result_version], ["applied", 3, "0.1.2"]);
      assert.deepEqual(
        versions.map(({ version }: { version: string }) => version),
        ["0.1.2", "0.1.0"],
      );
      assert.equal(improved, 8, "scenarios that were written are not written again");
      assert.deepEqual([claimed.status, claimed.attempts], ["accepted", 3]);
      assert.deepEqual([crashed.status, crashed.error, crashed.attempts], ["failed", "attempts_exhausted", 3]);
      assert.equal(asked("improver"), improved);
      assert.equal((await read("/crashing")).versions.length, 1);
    });

    test("a stop during a job counts no attempt", async () => {
      await create("stopped", 1);
      mock.answer("answerer", says("x", never));
      const { id } = await post("/skill-library/stopped/versions/0.1.0/eval");
      const before = asked("answerer");
      await sweep();
      await eventually("an answer under way", async () => asked("answerer") > before || undefined);

      await server.stop();
      mock.answer("answerer", { text: "An answer." });
      mock.answer("judge", good);
      await server.restart();
      const done = await ended("the evaluation", () => read(`/stopped/evals/${id}`));

      assert.deepEqual([done.status, done.attempts], ["succeeded", 1]);
    });
  });
