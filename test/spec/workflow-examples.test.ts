// The workflows of examples/: each is saved unchanged, runs with the inputs of docs/workflows.md, and does what that page says.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { startChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, failure, type Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const directory = new URL("../../examples/workflows/", import.meta.url);
const files = readdirSync(directory);
const page = readFileSync(new URL("../../docs/workflows.md", import.meta.url), "utf8");
const { env, keys } = apiKeys({ ann: { sub: "ann", scopes: ["*"] }, globex: { tenant_id: "globex", scopes: ["*"] } });

/** The inputs that the page sends to a workflow. */
function inputsOf(name: string) {
  const [, body = ""] = new RegExp(`workflows/${name}/runs [^\\n]*\\n? *-d '([^']*)'`).exec(page) ?? [];
  return JSON.parse(body).inputs;
}

describe("the workflows of examples", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {},
      env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "1" },
    }));
  });

  const get = async (path: string) => (await server.request("GET", path, { key: keys.ann })).json;
  const post = (path: string, body: object) => server.request("POST", path, { key: keys.ann, body });

  /** Answers each prompt by the first of these words in it. */
  function script(parts: Readonly<Record<string, Behaviour>>): string[] {
    const known: string[] = [];
    mock.answer("scripted", (request) => {
      const prompt = promptOf(request.body);
      const [words, given] = Object.entries(parts).find(([each]) => prompt.includes(each)) ?? [];
      assert.ok(words !== undefined && given !== undefined, prompt);
      known.push(words);
      return typeof given === "function" ? given(request) : (given as Reply);
    });
    return known;
  }

  /** Saves an example and starts it. Returns the path of the run. */
  async function begin(name: string, inputs = inputsOf(name)): Promise<string> {
    const body = JSON.parse(readFileSync(new URL(`${name}.json`, directory), "utf8"));
    const saved = await server.request("PUT", `/workflows/${name}`, { key: keys.ann, body });
    assert.ok([200, 201].includes(saved.status), saved.text);
    const started = await post(`/workflows/${name}/runs`, { inputs });
    assert.equal(started.status, 202, started.text);
    return `/workflows/${name}/runs/${started.json.run_id}`;
  }

  const until = (path: string, ...statuses: string[]) =>
    eventually(`${path} is ${statuses.join(" or ")}`, async () => {
      const run = await get(path);
      return statuses.includes(run.status) && run;
    });
  const ended = (path: string) => until(path, "succeeded", "failed", "cancelled");
  const statesOf = (run: { steps: { step_id: string; status: string }[] }) =>
    Object.fromEntries(run.steps.map(({ step_id, status }) => [step_id, status]));

  /** Decides the approval of a run that waits. Returns the message that the person has seen. */
  async function decide(path: string, decision: string, note: string): Promise<string> {
    await until(path, "waiting");
    const asked = await eventually("the request", async () => {
      const { items } = await get("/approvals?status=pending");
      return items.find(({ args }: { args: { run_id: string } }) => path.endsWith(args.run_id));
    });
    assert.equal((await post(`/approvals/${asked.approval_id}/decide`, { decision, note })).status, 200);
    return asked.args.message;
  }

  test("each is documented, has no mistakes, and is unknown to another tenant", async () => {
    assert.deepEqual(files.sort(), ["nightly-report.json", "review.json", "triage.json"]);

    for (const file of files) {
      const { definition, ...rest } = JSON.parse(readFileSync(new URL(file, directory), "utf8"));
      const { json } = await post("/workflows/-/check", { definition });

      assert.deepEqual([json.ok, json.problems], [true, []], file);
      assert.deepEqual(Object.keys(rest), ["name", "description"]);
      assert.ok(page.includes(`(../examples/workflows/${file})`), file);
    }
    await begin("triage", { ticket: "The lamp is dark." });
    assert.equal((await server.request("GET", "/workflows/triage", { key: keys.globex })).status, 404);
  });

  test("triage asks a person about the reply to an urgent ticket only", async () => {
    await post("/documents", { title: "Printers", source: "handbook", text: "A printer that is dark needs its fuse." });
    const answer = "Replace the fuse.";
    const judged = (text: string) => ({ "Is this ticket urgent?": { text }, "Write a reply": { text: answer } });

    script(judged("now"));
    const approved = await begin("triage");
    const message = await decide(approved, "approved", "fine");
    const sent = await ended(approved);
    const denied = await begin("triage");
    await decide(denied, "denied", "too short");
    const kept = await ended(denied);
    const prompt = mock.requests.map(({ body }) => promptOf(body)).findLast((text) => text.includes("Write a reply"));
    script(judged("later"));
    const routine = await ended(await begin("triage"));

    assert.match(message, /Replace the fuse\./);
    assert.match(prompt ?? "", /needs its fuse/);
    assert.deepEqual(sent.outputs, { urgent: true, note: "fine", replies: [answer] });
    assert.deepEqual(kept.outputs, { urgent: true, note: "too short", replies: null });
    assert.deepEqual(routine.outputs, { urgent: false, note: null, replies: [answer] });
    assert.deepEqual([statesOf(routine).ask, statesOf(routine).checked], ["skipped", "skipped"]);
    assert.deepEqual([statesOf(sent).routine, statesOf(kept).checked], ["skipped", "skipped"]);
  });

  test("nightly-report writes a line for each shop, also when a job starts it", async () => {
    const shops = Array.from({ length: 30 }, (_, at) => ({ name: `Shop${at}.`, sales: at * 100 }));
    script({
      "Shop7.": failure(400),
      "Say in one sentence": ({ body }) => ({ text: `${/Shop\d+/.exec(promptOf(body))?.[0]} did well.` }),
      "Write a report": ({ body }) => ({
        text: `${promptOf(body).match(/Shop\d+ did well/g)?.length} did well.`,
      }),
    });

    const run = await ended(await begin("nightly-report", { shops }));
    const job = { schedule: "0 2 * * *", payload: { workflow: "nightly-report", inputs: inputsOf("nightly-report") } };
    const saved = await server.request("PUT", "/jobs/nightly-report", { key: keys.ann, body: job });
    const fired = await post("/jobs/nightly-report/run", {});
    const byJob = await eventually("the run of the job", async () => {
      const { items } = await get("/workflows/nightly-report/runs?limit=1");
      return items[0].cause === "job" && items[0].status === "succeeded" && items[0];
    });

    assert.equal(run.status, "succeeded", run.error);
    assert.deepEqual(
      run.outputs.lines,
      shops.map((_, at) => (at === 7 ? null : `Shop${at} did well.`)),
    );
    assert.equal(run.outputs.report, "29 did well.");
    assert.ok(saved.status < 300 && fired.status < 300, saved.text + fired.text);
    assert.equal(byJob.outputs.lines.length, inputsOf("nightly-report").shops.length);
  });

  test("review merges what its agents found, also if one of them failed", async () => {
    const findings = {
      "Find mistakes": { text: "Line 3 divides by zero." },
      "what an attacker could use": failure(400),
      "Name the cases": { text: "Nobody tests an empty list." },
    };
    const known = script({ "Write one review": { text: "Two findings." }, ...findings });

    const run = await ended(await begin("review"));

    assert.equal(run.status, "succeeded", run.error);
    assert.deepEqual(run.outputs, {
      review: "Two findings.",
      findings: ["Line 3 divides by zero.", "Nobody tests an empty list."],
    });
    assert.equal(statesOf(run).security, "failed");
    assert.equal(known.at(-1), "Write one review");
    assert.deepEqual(known.slice(0, -1).sort(), Object.keys(findings).sort());
    const last = promptOf(mock.requests.at(-1)?.body ?? {});
    for (const words of ["Line 3 divides", "Nobody tests", String(inputsOf("review").title)])
      assert.ok(last.includes(words), words);
  });
});

function promptOf(body: Readonly<Record<string, unknown>>): string {
  const messages = (body.messages ?? []) as readonly { role: string; content: unknown }[];
  const content = messages.findLast(({ role }) => role === "user")?.content ?? "";
  return typeof content === "string" ? content : JSON.stringify(content);
}
