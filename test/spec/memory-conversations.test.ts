// Sixty conversations whose facts are stated, corrected, contradicted and withdrawn. A stand-in for the model extracts the marked
// facts; the test is of what svc keeps, shows and hides.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { answersFacts, factsOf } from "../support/fact-models.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

/** What happens to a fact after it was stated. */
type Course = "stated" | "corrected" | "contradicted" | "withdrawn" | "retired" | "forgotten";

const subjects = ["dog", "bicycle", "garden", "car", "piano", "boat", "sofa", "lamp", "kite", "tent"] as const;
const courses: readonly Course[] = ["stated", "corrected", "contradicted", "withdrawn", "retired", "forgotten"];
/** The second turn of a conversation; null for none. */
const second: Readonly<Record<Course, ((subject: string) => string) | null>> = {
  stated: (subject) => `FACT ${restated(subject)}`,
  corrected: (subject) => `FACT The ${subject} is green, and not red.`,
  contradicted: (subject) => `FACT The ${subject} was always blue.`,
  withdrawn: (subject) => `FACT The user no longer has a ${subject}.`,
  retired: null,
  forgotten: null,
};

const stated = (subject: string): string => `The ${subject} is red.`;
/** The same in other words. */
const restated = (subject: string): string => `Red is the colour of the ${subject}.`;

const { env, keys } = apiKeys({
  ann: { tenant_id: "acme", scopes: ["*"] },
  bob: { tenant_id: "acme", scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const consolidate = { enabled: true, model: "merger", after_facts: 10 };
const memory = { capture: { enabled: true, model: "captor", min_chars: 1 }, recall: { tools: true, limit: 10 } };
const agents = Object.fromEntries(
  courses.map((course) => [course, { memory: { ...memory, consolidate, scope: "principal" } }]),
);

/** Groups the facts about a subject that are the same in other words, as a model does that was asked for those only. */
const mergesSameFacts: Behaviour = ({ body }) => {
  const facts = factsOf(body).facts ?? [];
  const duplicates = subjects.flatMap((subject) => {
    const same = facts.filter(({ content }) => [stated(subject), restated(subject)].includes(content));
    return same.length > 1 ? [same.map(({ number }) => number)] : [];
  });
  return { text: JSON.stringify({ duplicates }) };
};

describe("sixty conversations", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const facts = subjects.flatMap((subject, at) =>
    courses.map((course) => ({ subject, course, thread: `${course}-${at}` })),
  );
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "captor", "merger"],
      manifests: { ...agents, shared: { memory } },
      env,
    }));
    mock.answer("scripted", { text: "ok" });
    mock.answer("captor", answersFacts);
    mock.answer("merger", mergesSameFacts);
    for (const { subject, course, thread } of facts) {
      await say(course, `FACT The ${subject} is red.`, thread);
      const more = second[course]?.(subject);
      if (more !== undefined) await say(course, more, thread);
    }
    // Others talk of the same things, to the same agents and elsewhere.
    await say("stated", `FACT Bob's dog is yellow.`, "bobs", keys.bob);
    await say("stated", `FACT A stranger's dog is purple.`, "strangers", keys.stranger);
    for (const course of courses) await holds(course, 10 * (second[course] === null ? 1 : 2));
    const task = await server.request("POST", "/tasks/consolidate_memory/run", { key: keys.ann });
    assert.equal(task.status, 200, task.text);
    await holds("stated", 10);
    await eventually("a question about each pool", async () => {
      return mock.requests.filter(({ model }) => model === "merger").length >= courses.length || undefined;
    });
  });

  /** Waits until an agent has a number of facts of Ann. */
  const holds = (course: Course, count: number) =>
    eventually(`${count} facts of ${course}`, async () => {
      const { json } = await server.get(`/memory?manifest_id=${course}&principal=ann&limit=500`, { key: keys.ann });
      return json.items.length === count || undefined;
    });

  async function say(manifest: string, text: string, thread_id: string, key: string = keys.ann) {
    const { status, text: body } = await server.request("POST", "/chat", {
      key,
      body: turn(manifest, text, { thread_id }),
    });
    assert.equal(status, 200, body);
  }
  async function recalled(manifest: string, query: string, key: string = keys.ann): Promise<string> {
    mock.answer("scripted", inTurn(calls(["recall", { query }]), { text: "done" }));
    await server.request("POST", "/chat", { key, body: turn(manifest, "go") });
    return (
      shown(mock.requests.findLast(({ model }) => model === "scripted")).findLast(({ role }) => role === "tool")
        ?.content ?? ""
    );
  }
  /** The contents of the recalled facts about a subject, in their order. */
  async function about(manifest: string, subject: string, key?: string): Promise<string[]> {
    const lines = (await recalled(manifest, `${subject} colour`, key))
      .split("\n")
      .filter((line) => line.startsWith("{"));
    return lines.map((line) => JSON.parse(line).content).filter((content: string) => content.includes(subject));
  }
  async function idOf(course: string, subject: string): Promise<string> {
    const { json } = await server.get(`/memory?manifest_id=${course}&limit=500`, { key: keys.ann });
    return json.items.find(({ content }: { content: string }) => content.includes(subject)).id;
  }

  for (const subject of subjects) {
    test(`MEM-019 the ${subject}: recall shows a fact once that was stated twice in other words`, async () => {
      assert.deepEqual(await about("stated", subject), [stated(subject)]);
    });

    for (const course of ["corrected", "contradicted", "withdrawn"] as const)
      test(`MEM-019 the ${subject}: recall shows both facts of a ${course} one, the newer first`, async () => {
        const newer = (second[course]?.(subject) ?? "").replace("FACT ", "");

        assert.deepEqual(await about(course, subject), [newer, `The ${subject} is red.`]);
      });

    test(`MEM-010 MEM-014 the ${subject}: a POST with its topic key leaves the new fact, and the old one as of its turn`, async () => {
      const body = {
        content: `The ${subject} is white.`,
        manifest_id: "retired",
        topic_key: `color of the ${subject}`,
      };
      const first = await server.request("POST", "/memory", { key: keys.ann, body });
      await server.request("POST", "/memory", {
        key: keys.ann,
        body: { ...body, content: `The ${subject} is black.` },
      });
      await server.request("DELETE", `/memory/${await capturedId(subject)}`, { key: keys.ann });
      const thread = facts.find((one) => one.course === "retired" && one.subject === subject)?.thread;
      const { json } = await server.get(`/memory/as-of/0?thread_id=${thread}`, { key: keys.ann });

      assert.equal(first.status, 200);
      assert.deepEqual(await about("retired", subject), [`The ${subject} is black.`]);
      assert.deepEqual(
        json.items.map(({ content }: { content: string }) => content),
        [`The ${subject} is red.`],
      );
    });

    test(`MEM-006 the ${subject}: a forgotten fact is not recalled`, async () => {
      await server.request("DELETE", `/memory/${await idOf("forgotten", subject)}`, { key: keys.ann });

      assert.deepEqual(await about("forgotten", subject), []);
    });
  }

  async function capturedId(subject: string): Promise<string> {
    const { json } = await server.get("/memory?manifest_id=retired&limit=500", { key: keys.ann });
    return json.items.find(
      ({ content, metadata }: { content: string; metadata: { source: string } }) =>
        content.includes(subject) && metadata.source === "capture",
    ).id;
  }

  test("MEM-005 no fact of another caller, agent or tenant is recalled", async () => {
    assert.deepEqual(await about("stated", "dog", keys.bob), ["Bob's dog is yellow."]);
    assert.deepEqual(await about("stated", "dog", keys.stranger), ["A stranger's dog is purple."]);
    assert.deepEqual(await about("shared", "dog"), []);
    assert.ok(!(await recalled("stated", "yellow purple dog")).match(/yellow|purple/));
  });
});
