// Upgrades from each release (test/fixtures/releases): its data are read, and its suspended runs are answered and end under this version.
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { describe, test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startMockModel } from "../support/mock-model.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../support/postgres.ts";
import {
  type RecordedRuns,
  recordedModel,
  recordedReleases,
  releaseEnv,
  releaseFiles,
  releasePath,
  restorePostgres,
  restoreSqlite,
} from "../support/releases.ts";
import { type Env, startServer } from "../support/server.ts";
import { dialects } from "../support/stores.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";

const noServer = (await hasPostgresServer()) ? false : needsServer;
const bytesMax = 300 * 1024;

interface Restored {
  readonly runs: RecordedRuns;
  readonly dataDir: string;
  readonly env: Env;
}

async function restoredOnSqlite(version: string, atEnd: Cleanup): Promise<Restored> {
  const dataDir = tempDir(atEnd);
  return { runs: restoreSqlite(version, dataDir), dataDir, env: {} };
}

async function restoredOnPostgres(version: string, atEnd: Cleanup): Promise<Restored> {
  const { url, config } = await testDatabase(atEnd);
  const runs = await restorePostgres(version, url);
  await migrate({ engine: "postgres", postgres: config }, { target: "head", downgrade: false });
  return { runs, dataDir: tempDir(atEnd), env: { SVC_DATABASE_URL: url } };
}

test("there is a release with small fixtures", () => {
  const releases = recordedReleases();

  assert.ok(releases.length > 0);
  for (const version of releases)
    for (const file of Object.values(releaseFiles))
      assert.ok(statSync(releasePath(version, file)).size <= bytesMax, `${version}/${file}`);
});

for (const version of recordedReleases())
  for (const dialect of dialects)
    describe(`an upgrade from ${version} on ${dialect}`, { skip: dialect === "postgres" && noServer }, () => {
      test("keeps its threads, and its suspended runs are answered and end", async (t) => {
        const atEnd = cleanup(t);
        const restore = dialect === "sqlite" ? restoredOnSqlite : restoredOnPostgres;
        const { runs, dataDir, env } = await restore(version, atEnd);
        const mock = await startMockModel();
        atEnd.after(() => mock.close());
        mock.answer("plain", (request) => {
          const messages = request.body.messages as readonly { role: string; content: string }[];
          const text = messages.findLast(({ role }) => role === "user")?.content;
          return text === "work" ? { text: "Worked." } : recordedModel(request);
        });
        const server = await startServer({ atEnd, dataDir, env: { ...releaseEnv(mock, atEnd), ...env } });

        const talk = await server.get("/chat/history/talk");
        const decided = await Promise.all(
          runs.approvals.map((id) => server.post(`/approvals/${id}/decide`, { decision: "approved" })),
        );
        const transcript = await eventually("the end of sums", async () => {
          const { transcript, phase } = (await server.get("/chat/sessions/sums")).json;
          return phase === "idle" && transcript;
        });
        const records = await Promise.all(
          runs.tokens.map((token) =>
            eventually(`the end of ${token}`, async () => {
              const { json } = await server.get(`/chat/runs/${token}`);
              return ["completed", "failed", "expired", "dead"].includes(json.status) && json;
            }),
          ),
        );
        const more = await server.post("/chat", turn("gated", "hi", { thread_id: "talk" }));

        assert.deepEqual(
          talk.json.messages.map(({ role, content }: { role: string; content: string }) => `${role}: ${content}`),
          ["user: hi", "assistant: Hello."],
        );
        assert.deepEqual(
          decided.map(({ status }) => status),
          [200, 200],
        );
        const said = transcript.map(({ kind, content }: { kind: string; content: string }) => `${kind}: ${content}`);
        assert.ok(said.includes("tool_result: 42"), String(said));
        assert.equal(said.at(-1), "message: Done.");
        assert.deepEqual(
          records.map(({ status, final }) => `${status}: ${final?.content}`),
          ["completed: Done.", "completed: Worked."],
        );
        assert.equal(more.json.final.content, "Hello.");
      });
    });
