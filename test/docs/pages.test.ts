// The pages of docs/ that talk to a running server, each line as written. Readers go from page to page in one directory
// and with one server. One reader has the built-in model, the other a model that calls the tools of the page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { before, describe, test } from "node:test";
import { calls, inTurn } from "../support/chat.ts";
import { blocksOf, isAlone, readPrinted } from "../support/document.ts";
import { builtInPages, isFollowed, standInPages } from "../support/document-plan.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import { startMockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import { needsServer, testDatabase } from "../support/postgres.ts";
import { Reader } from "../support/reader.ts";
import { startRedis } from "../support/redis.ts";
import { modelEnv } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const theirDatabase = "postgres://svc:password@db.internal:5432/svc";

/** The model's answer, by the last message of the user. */
const said: readonly (readonly [RegExp, Behaviour])[] = [
  [/What have I copied/, inTurn(calls(["read_clipboard", { format: "text" }]), { text: "A recipe for crêpes." })],
  [
    /Paint the door/,
    inTurn(calls(["ask_user", { kind: "select", question: "Which colour?", options: ["red", "blue"] }]), {
      text: "It is blue.",
    }),
  ],
  [/Print hello/, inTurn(calls(["print", { text: "hello" }]), { text: "It is printed." })],
  [/Which digits does/, inTurn(calls(["calculator", { expression: "2 ** 1000" }]), { text: "It ends in 9376." })],
  [/Which one does the customer want/, { text: "The blue one." }],
  [
    /Begin with sources/,
    inTurn(calls(["task", { agent: "research", prompt: "Find sources.", background: true }]), {
      text: "I am looking for sources.",
    }),
  ],
  // It looks for the task that it has started.
  [
    /And\?/,
    (request) => {
      const [, task_id = ""] = /task_id[\\":]+([\w-]+)/.exec(JSON.stringify(request.body.messages)) ?? [];
      const wait = inTurn(calls(["task_result", { task_id, wait_seconds: 20 }]), { text: "There are three." });
      return typeof wait === "function" ? wait(request) : wait;
    },
  ],
  [/Find sources/, { text: "Three sources: one, two and three." }],
];

for (const { pages, model } of [
  { pages: builtInPages, model: "built in" },
  { pages: standInPages, model: "a stand-in" },
])
  describe(`with a model that is ${model}`, () => {
    const atEnd = cleanup();
    let reader: Reader;
    let hasRedis = false;
    before(async () => {
      const redis = model === "built in" ? null : await startRedis(atEnd);
      hasRedis = redis !== null;
      const elsewhere = tempDir(atEnd);
      const places = {
        "redis://127.0.0.1:6379": redis?.url ?? "",
        "redis-cli": `redis-cli -u ${redis?.url}`,
        "/backups": `${elsewhere}/backups`,
        "/srv/svc": `${elsewhere}/svc`,
      };
      reader = new Reader(atEnd, { isServed: true, places, env: model === "built in" ? {} : await standIn() });
    });

    async function standIn() {
      const mock = await startMockModel();
      atEnd.after(() => mock.close());
      mock.answer("stand-in", (request) => {
        const messages = request.body.messages as readonly { role: string; content: unknown }[];
        const last = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content);
        const answer = said.find(([question]) => question.test(last))?.[1] ?? { text: `Nobody answers ${last}` };
        return typeof answer === "function" ? answer(request) : answer;
      });
      return modelEnv(mock, ["stand-in"]);
    }

    for (const path of pages)
      for (const block of blocksOf(path).filter(isFollowed))
        test(`${path}: line ${block.line} does what it says`, async (t) => {
          for (const program of ["jq", "redis-cli", "openssl", "od"])
            if (new RegExp(`\\b${program} `).test(block.code) && !has(t, isInstalled(program), `needs ${program}`))
              return;
          if (path === "docs/queues.md" && !has(t, hasRedis, "needs redis-server")) return;

          const isOnPostgres = block.code.includes(theirDatabase);
          const database = isOnPostgres ? await testDatabase(cleanup(t)) : null;
          if (database && !has(t, database.real, needsServer)) return;
          const places = database ? { [theirDatabase]: database.url } : {};
          const who = isAlone(block) ? new Reader(cleanup(t), { places }) : reader;

          await who.follow(block);
        });
  });

function isInstalled(program: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

test("printed output on a page is searched by ids, not by the text between", () => {
  const { pattern, ids } = readPrinted('202 {"id":"e836…","at":1795374518339,…,"again":"e836…"}');

  assert.deepEqual(ids, ["e836…"]);
  assert.match('{"id":"f00","at":1800000000000,"x":1,"again":"f00"}', pattern);
  assert.doesNotMatch('{"id":"f00","at":1800000000000,"x":1,"again":"f01"}', pattern);
  assert.doesNotMatch('{"id":"f00","at":18,"x":1,"again":"f00"}', pattern);
  assert.doesNotMatch('{"ident":"f00","at":1800000000000,"x":1,"again":"f00"}', pattern);
});
