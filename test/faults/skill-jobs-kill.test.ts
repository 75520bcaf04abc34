// A server that is killed while it evaluates or rewrites a skill continues the job, and applies it once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { never, says, startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
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
    before(async () => {
      ({ server, mock } = await startChatProcess(atEnd, {
        models: ["answerer", "judge", "improver"],
        env: {
          ...(await databaseOf(dialect, atEnd)).env,
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
    const create = (name: string, count: number) =>
      post("/skill-library", {
        files: {
          "SKILL.md": text(name, "# One\n"),
          "evals/scenarios.json": JSON.stringify(
            Array.from({ length: count }, (_, at) => ({
              name: `s${at}`,
              prompt: `Question ${at}?`,
              criteria: "Good.",
            })),
          ),
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

    test("an evaluation continues after its last scored scenario, and a rewrite saves one draft", async () => {
      await create("evaluated", 3);
      await create("rewritten", 1);
      mock.answer("answerer", { text: "An answer." });
      mock.answer("judge", good, good, says("{", never));
      mock.answer("improver", says("{", never));
      const { id } = await post("/skill-library/evaluated/versions/0.1.0/eval");
      await accept("rewritten");
      await sweep();
      await eventually("one scenario is scored, and a rewrite is under way", async () => {
        const { results } = await read(`/evaluated/evals/${id}`);
        return (results.length === 1 && asked("judge") >= 3 && asked("improver") === 1) || undefined;
      });

      await server.kill();
      const before = asked("judge");
      mock.answer("judge", good);
      const changes = [{ path: "SKILL.md", content: text("rewritten", "# Two\n") }];
      mock.answer("improver", { text: JSON.stringify({ changes, deletes: [], reason: "Two." }) });
      await server.restart();
      const done = await ended("the evaluation", () => read(`/evaluated/evals/${id}`));
      const rewritten = await ended("the rewrite", () => feedback("rewritten"));
      await sweep();
      const { versions } = await read("/rewritten");

      assert.deepEqual([done.status, done.attempts, done.results.length], ["succeeded", 2, 3]);
      assert.equal(asked("judge") - before, 4, "the first scenario was not scored again");
      assert.deepEqual([rewritten.status, rewritten.attempts, rewritten.result_version], ["applied", 2, "0.1.1"]);
      assert.equal(versions.length, 2);
    });

    test("LIM-005 a job whose worker died three times fails", async () => {
      await create("crashing", 1);
      mock.answer("improver", says("{", never));
      await accept("crashing");
      for (let attempt = 1; attempt <= 3; attempt++) {
        const before = asked("improver");
        await eventually(`attempt ${attempt}`, async () => {
          await sweep();
          return asked("improver") > before || undefined;
        });
        await server.kill();
        await server.restart();
      }
      const before = asked("improver");
      const done = await ended("the rewrite", () => feedback("crashing"));

      assert.deepEqual([done.status, done.error, done.result_version], ["failed", "attempts_exhausted", null]);
      assert.equal(done.attempts, 3);
      assert.equal(asked("improver"), before);
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
