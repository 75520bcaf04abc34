// svc replay: runs are rebuilt from their logs, next to a running server, without a model, a tool or a key.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { replayCommand } from "../../../host/cli/replay.ts";
import { migrate } from "../../../storage/migrate.ts";
import type { StoreConfig } from "../../../storage/store/config.ts";
import { calls, chunk, gate, inTurn, says, startChatProcess, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { callsOf } from "../../support/model-calls.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../../support/postgres.ts";
import { seed } from "../../support/seed.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { run, runJson } from "./support.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "runs:read", "approvals:read", "approvals:write"] },
  mallory: { tenant_id: "other", scopes: ["chat:write", "runs:read"] },
});
const sum = (n: number) => ["calculator", { expression: `1+${n}` }] as const;
const tools = ["calculator", "todo_write"];
const skip = (await hasPostgresServer()) ? false : needsServer;

interface Told {
  readonly ok: boolean;
  readonly calls: readonly { readonly n: number; readonly differences: readonly { readonly what: string }[] }[];
  readonly calls_of: number;
  readonly events: number;
  readonly events_of: number;
  readonly divergence: { readonly call: number; readonly seq: number | null; readonly what: string } | null;
  readonly notes: readonly string[];
}

describe("svc replay", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted", "other", "left", "right", "asked"],
      manifests: {
        agent: { tools, system_prompt: { inline: "Be exact." } },
        lasting: { tools, execution: { mode: "durable" } },
        selective: {
          tools,
          artifacts: { enabled: true, threshold_chars: 1 },
          tools_retrieval: { enabled: true, top_k: 1 },
          client_tools: [{ name: "look" }],
        },
        left: { model: { id: "left" }, tools },
        right: { model: { id: "right" }, tools },
        both: { pattern: "parallel", sub_agents: ["left", "right"] },
        asking: { model: { id: "asked" }, client_tools: [{ name: "ask_client" }] },
        careful: {
          tools,
          execution: { mode: "durable" },
          approvals: [{ id: "sums", tools: ["calculator"] }],
        },
      },
      env,
    }));
    mock.answer(
      "scripted",
      inTurn({ text: "First.", ...calls(sum(1), sum(2)) }, calls(sum(3)), { text: "It is four." }),
    );
  });

  const keyless = () => ({ ...server.environment, SVC_MODEL_PROVIDER_OPTIONS: "{}" });
  const replayed = async (id: string, argv: readonly string[] = ["--tenant", "acme"]) => {
    const { code, answer } = await runJson(replayCommand, [id, ...argv], keyless());
    return { code, ...(answer as unknown as Told) };
  };
  const say = async (manifest: string, thread_id: string): Promise<string> => {
    const { status, json, text } = await server.post("/chat", turn(manifest, "Go.", { thread_id }), {
      key: keys.alice,
    });
    assert.ok(status < 300, text);
    if (status === 202) {
      await eventually("the end", async () => {
        const { json: row } = await server.get(`/runs/${json.resume_token}`, { key: keys.alice });
        return row.status === "completed" || row.status === "waiting" || undefined;
      });
      return json.resume_token;
    }
    return (await callsOf(server.dataDir, thread_id, "acme")).at(-1)?.run_id ?? "";
  };
  /** Changes rows directly in the database. */
  const alter = (sql: string, ...values: unknown[]): void => {
    const db = new Database(join(server.dataDir, "svc.db"), { timeout: 10_000 });
    const { changes } = db.prepare(sql).run(...values);
    db.close();
    assert.equal(changes, 1, sql);
  };
  const eventOf = (thread: string) =>
    `event_key = (SELECT thread_key FROM threads WHERE suffix = '${thread}') * 16777216`;

  test("DUR-006 repeats a run with tools step by step, without asking a model", async () => {
    const once = await say("agent", "steps");
    const again = await say("agent", "steps");
    const asked = mock.requests.length;

    for (const id of [once, again]) {
      const { code, calls: made, calls_of, events, events_of, divergence, notes } = await replayed(id);
      assert.deepEqual({ code, calls_of, divergence, notes }, { code: 0, calls_of: 3, divergence: null, notes: [] });
      assert.deepEqual(
        made.map(({ n, differences }) => [n, differences]),
        [1, 2, 3].map((n) => [n, []]),
      );
      // Three messages, and an intent and a result for each of three calls.
      assert.deepEqual([events, events_of], [9, 9]);
    }
    assert.equal(mock.requests.length, asked);
    const { stdout } = await run(replayCommand, [once, "--tenant", "acme"], keyless());
    assert.match(
      stdout,
      /^\w+ \(agent, completed\): 3 of 3 model calls, 9 of 9 events .*\.\nThe replay equals the record\.\n$/,
    );
  });

  test("repeats a run with stored results and chosen tools", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "10 + 20" }]), { text: "Thirty." }));
    const id = await say("selective", "selective");
    mock.answer(
      "scripted",
      inTurn({ text: "First.", ...calls(sum(1), sum(2)) }, calls(sum(3)), { text: "It is four." }),
    );

    const { code, ok, calls: compared, divergence } = await replayed(id);

    assert.deepEqual([code, ok, divergence], [0, true, null]);
    assert.deepEqual(
      compared.map(({ differences }) => differences),
      [[], []],
    );
  });

  test("replays a resumed durable run under the manifest of its start", async () => {
    mock.answer("other", inTurn(calls(sum(1)), { text: "Two." }));
    const id = await say("careful", "asked");

    const waiting = await replayed(id);
    const { json } = await server.get("/approvals", { key: keys.alice });
    await server.post(`/approvals/${json.requests[0].approval_id}/decide`, { status: "approved" }, { key: keys.alice });
    await eventually("the next question", async () => {
      const { json: next } = await server.get("/approvals?status=pending", { key: keys.alice });
      return next.requests.length > 0 || undefined;
    });
    const further = await replayed(id);

    assert.deepEqual([waiting.code, waiting.calls.length, waiting.divergence], [0, 1, null]);
    assert.deepEqual(waiting.notes, ["it goes on behind a call that has no result yet"]);
    assert.deepEqual([further.code, further.divergence], [0, null]);
    assert.ok(further.events > waiting.events);
  });

  test("names the call and the message at which an altered log differs", async () => {
    const changes: readonly [seq: number, sql: string, call: number, what: string][] = [
      // Changes of user text, model text, calls and results; each keeps the length of the text.
      [0, "content = 'No!'", 1, "messages[0]"],
      [1, "content = 'Other.'", 2, "messages[1] to messages[3]"],
      [1, "extra = replace(extra, '1+1', '1+7')", 2, "messages[1] to messages[3]"],
      [3, "content = '7'", 2, "messages[1] to messages[3]"],
      [8, "content = '9'", 3, "messages[4] to messages[5]"],
    ];
    for (const [at, [seq, sql, call, what]] of changes.entries()) {
      const thread = `altered-${at}`;
      const id = await say("agent", thread);
      assert.equal((await replayed(id)).code, 0);

      alter(`UPDATE events SET ${sql} WHERE ${eventOf(thread)} + ${seq}`);
      const { code, ok, divergence } = await replayed(id);

      assert.deepEqual([code, ok, divergence?.call], [1, false, call], `${sql}: ${JSON.stringify(divergence)}`);
      assert.equal(divergence?.what, what);
    }
  });

  test("reports missing events, and a different end", async () => {
    const gone = await say("agent", "gone");
    alter(`DELETE FROM events WHERE ${eventOf("gone")} + 3`);
    const ended = await say("agent", "ended");
    alter("UPDATE runs SET result = replace(result, 'end_turn', 'refusal') WHERE run_id = ?", ended);
    const last = await say("agent", "last");
    alter(
      "UPDATE model_calls SET facts = json_set(facts, '$.stop_reason', 'max_tokens') WHERE run_id = ? AND n = 3",
      last,
    );
    const cooler = await say("agent", "cooler");
    alter(
      "UPDATE model_calls SET facts = json_set(facts, '$.parameters.temperature', 0.9) WHERE run_id = ? AND n = 2",
      cooler,
    );

    const first = await replayed(gone);
    const second = await replayed(ended);
    const third = await replayed(last);
    const fourth = await replayed(cooler);
    const { code, stdout } = await run(replayCommand, [cooler, "--tenant", "acme"], keyless());

    assert.deepEqual([first.code, first.divergence?.call, first.divergence?.what], [1, 1, "the result of call_1"]);
    assert.deepEqual([second.code, second.divergence?.what], [1, "the end of the run"]);
    assert.deepEqual(
      [third.notes, third.calls.length],
      [["call 3: what the model has said is in no event behind it"], 3],
    );
    assert.deepEqual([fourth.divergence?.call, fourth.divergence?.what], [2, "temperature"]);
    assert.equal(code, 1);
    assert.match(
      stdout,
      /Differs at model call 2 \(step of agent, scripted\): temperature\n {2}on record {2}0\.9\n {2}now/,
    );
  });

  const copied = "event_key, tenant_id, parent_seq, ts, kind, role, content, extra, run";

  test("reports changed or additional events that no model was shown", async () => {
    const marked = await say("agent", "marked");
    alter(`UPDATE events SET extra = json_set(extra, '$.metadata.truncated', 1) WHERE ${eventOf("marked")} + 9`);
    const longer = await say("agent", "longer");
    alter(
      `INSERT INTO events (${copied}) SELECT ${copied.replace("event_key", "event_key + 1")} FROM events WHERE ${eventOf("longer")} + 9`,
    );
    alter("UPDATE runs SET last_seq = last_seq + 1 WHERE run_id = ?", longer);

    const [first, second] = [await replayed(marked), await replayed(longer)];

    assert.deepEqual([first.code, first.divergence?.call, first.divergence?.seq], [1, 3, 9]);
    assert.equal(first.divergence?.what, "metadata");
    assert.deepEqual([second.code, second.divergence?.seq], [1, 10]);
    assert.equal(second.divergence?.what, "the end of the run");
  });

  test("replays runs with parallel sub-agents, steers and client calls", async () => {
    const slow = gate();
    const call = { index: 0, id: "call_1", type: "function", function: { name: "calculator", arguments: "{}" } };
    const callsIt = [
      { send: chunk({ tool_calls: [call] }, null) },
      { send: `${chunk({}, "tool_calls")}data: [DONE]\n\n` },
    ];
    mock.answer("left", inTurn({ steps: [{ hold: slow.opened }, ...callsIt] }, { text: "The same." }));
    mock.answer("right", inTurn({ steps: callsIt }, { text: "The same." }));
    const saying = say("both", "both");
    // The second sub-agent ends first, before the first one has called anything.
    await eventually("its end", async () => (await callsOf(server.dataDir, "both", "acme"))[1]);
    slow.open();
    const both = await saying;
    const held = gate();
    mock.answer("other", ({ earlier }) =>
      earlier === 0 ? { steps: [{ hold: held.opened }, ...callsIt] } : { text: "Left, then." },
    );
    const steered = await server.stream(
      "/chat/stream",
      turn("agent", "Go.", { thread_id: "steered", model: "other" }),
      { key: keys.alice },
    );
    await steered.until("session_progress");
    await server.post("/chat/steer", { thread_id: "steered", text: "Left." }, { key: keys.alice });
    held.open();
    await steered.rest();
    mock.answer("asked", inTurn(calls(["ask_client", {}]), { text: "Thanks." }));
    const asking = await server.stream("/chat/stream", turn("asking", "Go.", { thread_id: "asking" }), {
      key: keys.alice,
    });
    const { id } = (await asking.until("tool_request")).json.data;
    const answer = { thread_id: "asking", tool_call_id: id, content: "here" };
    await server.post("/chat/tool_result", answer, { key: keys.alice });
    await asking.rest();

    const ids = ["steered", "asking"].map(async (thread) => (await callsOf(server.dataDir, thread, "acme"))[0]?.run_id);
    for (const run_id of [both, ...(await Promise.all(ids))]) {
      const { code, divergence, notes, events, events_of } = await replayed(run_id ?? "");
      assert.deepEqual({ code, divergence, notes }, { code: 0, divergence: null, notes: [] });
      assert.ok(events > 1 && events <= events_of);
    }
  });

  test("--manifest shows for each call the request under another manifest", async () => {
    const id = await say("agent", "otherwise");
    const file = join(tempDir(atEnd), "agent.json");
    const spec = {
      tools: ["calculator"],
      system_prompt: { inline: "Be brief." },
      model: { id: "other", temperature: 0.5 },
    };
    writeFileSync(file, JSON.stringify({ metadata: { name: "agent" }, spec }));
    const same = join(tempDir(atEnd), "same.json");
    const own = { tools, system_prompt: { inline: "Be exact." } };
    writeFileSync(same, JSON.stringify({ metadata: { name: "same" }, spec: own }));

    const { code, calls: made } = await replayed(id, ["--tenant", "acme", "--manifest", file]);
    const { stdout } = await run(replayCommand, [id, "--tenant", "acme", "--manifest", file], keyless());
    const unchanged = await replayed(id, ["--tenant", "acme", "--manifest", same]);

    assert.equal(code, 1);
    const whats = ["system", "tools[1]", "route", "temperature"];
    assert.deepEqual(
      made.map(({ differences }) => differences.map(({ what }) => what)),
      [whats, whats, whats],
    );
    assert.match(
      stdout,
      /Call 1 \(step of agent\): otherwise\n {2}system\n {4}on record {2}.*Be exact.*\n {4}now {8}.*Be brief/,
    );
    assert.deepEqual([unchanged.code, unchanged.divergence], [0, null]);
  });

  test("notes a changed manifest of a run that stored none; durable runs store theirs", async () => {
    const turned = await say("agent", "turned");
    const lasting = await say("lasting", "lasting");
    const changed = tempDir(atEnd);
    for (const name of ["agent", "lasting"]) {
      const spec = {
        tools,
        system_prompt: { inline: "Be someone else." },
        execution: { mode: name === "agent" ? "transient" : "durable" },
      };
      writeFileSync(join(changed, `${name}.json`), JSON.stringify({ metadata: { name }, spec }));
    }
    const other = { ...keyless(), SVC_MANIFEST_DIR: changed };

    const first = await runJson(replayCommand, [turned, "--tenant", "acme"], other);
    const second = await runJson(replayCommand, [lasting, "--tenant", "acme"], other);

    const { divergence, notes } = first.answer as unknown as Told;
    assert.deepEqual([first.code, divergence?.call, divergence?.what], [1, 1, "system"]);
    assert.deepEqual(notes, ["the manifest agent is another one now, and the run's own was not kept"]);
    assert.deepEqual([second.code, second.answer.divergence], [0, null]);
  });

  test("finds a run under its tenant only, and names wrong arguments", async () => {
    const id = await say("agent", "mine");
    const stateless = await server.post("/chat", turn("agent", "Go."), { key: keys.mallory });
    assert.equal(stateless.status, 200);

    for (const argv of [["--tenant", "other"], []]) {
      const { code, answer } = await runJson(replayCommand, [id, ...argv], keyless());
      assert.deepEqual([code, answer.error], [1, "run_not_found"]);
    }
    const db = new Database(join(server.dataDir, "svc.db"), { readonly: true });
    const { run_id } = db.prepare("SELECT run_id FROM model_calls WHERE thread_key IS NULL").get() as {
      run_id: string;
    };
    db.close();
    const unkept = await runJson(replayCommand, [run_id, "--tenant", "other"], keyless());
    assert.deepEqual([unkept.code, unkept.answer.error], [1, "not_on_record"]);
    for (const argv of [["no id!"], ["x", "--tenant", "a b"], ["x", "--manifest", "/nowhere.json"]])
      assert.equal((await run(replayCommand, argv, keyless())).code, 2, argv.join(" "));
    const nowhere = await runJson(replayCommand, [id], { SVC_DATA_DIR: tempDir(atEnd) });
    assert.deepEqual([nowhere.code, nowhere.answer.error], [1, "no_store"]);
  });

  test("names the command that migrates a database without the schema", async () => {
    const dataDir = tempDir(atEnd);
    const config: StoreConfig = { engine: "sqlite", path: join(dataDir, "svc.db") };
    await migrate(config, { target: "head", downgrade: false });
    await migrate(config, { target: "base", downgrade: true });

    const { code, answer } = await runJson(replayCommand, ["some-run"], { SVC_DATA_DIR: dataDir });

    assert.deepEqual([code, answer.error], [1, "schema_behind"]);
    assert.match(String(answer.message), /at revision base, which is too old: svc serve or svc migrate brings it up/);
  });

  test("names the missing records of a run's first model calls", async () => {
    const forget = (id: string, from: number): void => {
      const db = new Database(join(server.dataDir, "svc.db"), { timeout: 10_000 });
      db.prepare("DELETE FROM model_calls WHERE run_id = ? AND n < ?").run(id, from);
      db.prepare("UPDATE model_calls SET n = n - ? WHERE run_id = ?").run(from - 1, id);
      db.close();
    };
    const [old, begun, turned] = [await say("lasting", "o1"), await say("lasting", "o2"), await say("agent", "o3")];
    forget(old, 4);
    forget(begun, 2);
    forget(turned, 4);

    const [ofOld, ofBegun, ofTurned] = await Promise.all(
      [old, begun, turned].map((id) => runJson(replayCommand, [id, "--tenant", "acme"], keyless())),
    );

    const told = (answer?: Awaited<ReturnType<typeof runJson>>) => [
      answer?.code,
      answer?.answer.error,
      answer?.answer.message,
    ];
    const missing = (id: string, what: string) =>
      `${id} cannot be made again. ${what}. What it has said is in its conversation.`;
    assert.deepEqual(told(ofOld), [1, "not_on_record", missing(old, "What its models were asked is not on record")]);
    const later = "What its models were asked first is not on record, only 2 later calls";
    assert.deepEqual(told(ofBegun), [1, "not_on_record", missing(begun, later)]);
    const notFound = `The tenant acme has no run ${turned} on record. One that is not durable is found by its model calls.`;
    assert.deepEqual(told(ofTurned), [1, "run_not_found", notFound]);
  });

  test("repeats a run whose model failed between or inside thoughts and text", async () => {
    const piece = (delta: object) => ({ send: chunk(delta, null) });
    const thought = piece({ reasoning_content: "Let me th" });
    const lost = { steps: [thought, { cut: "reset" as const }] };
    const mixed = [
      thought,
      piece({ content: "Well. " }),
      piece({ reasoning_content: "Or not." }),
      piece({ content: "It" }),
    ];
    const ways = { thinks: [lost, lost, lost], mixes: [{ steps: [...mixed, { cut: "reset" as const }] }] };
    for (const [thread_id, [first, ...more]] of Object.entries(ways)) {
      mock.answer("other", first as typeof lost, ...more);
      const asked = turn("agent", "Go.", { thread_id, model: "other" });
      assert.equal((await server.post("/chat", asked, { key: keys.alice })).status, 502);
      const id = (await callsOf(server.dataDir, thread_id, "acme")).at(-1)?.run_id ?? "";

      const { code, divergence, events, events_of } = await replayed(id);

      assert.deepEqual({ code, divergence, events, events_of }, { code: 0, divergence: null, events: 1, events_of: 1 });
    }
  });

  test("replays a live run up to its newest event", async () => {
    const held = gate();
    mock.answer("other", inTurn(calls(sum(1)), says("Still", held.opened)));
    const body = turn("agent", "Go.", { thread_id: "live", model: "other" });
    const stream = await server.stream("/chat/stream", body, { key: keys.alice });
    await stream.until("text_delta");
    const id = (await callsOf(server.dataDir, "live", "acme")).at(-1)?.run_id ?? "";

    const { code, calls: made, notes } = await replayed(id);
    held.open();
    await stream.rest();

    assert.deepEqual([code, made.length, notes], [0, 1, ["it goes on: this is how far it has come"]]);
    assert.deepEqual((await replayed(id)).notes, []);
  });

  test("repeats a run up to the point where its process ended", async () => {
    mock.answer("other", inTurn(calls(sum(1)), says("Still", gate().opened)));
    const body = turn("agent", "Go.", { thread_id: "killed", model: "other" });
    const stream = await server.stream("/chat/stream", body, { key: keys.alice });
    await stream.until("text_delta");

    await server.kill();
    await server.restart();
    const id = (await callsOf(server.dataDir, "killed", "acme")).at(-1)?.run_id ?? "";
    const { code, calls: made, calls_of, divergence } = await replayed(id);

    assert.deepEqual([code, divergence, made.length], [0, null, calls_of]);
    assert.ok(made.length > 0);
  });
});

describe("svc replay on Postgres", { skip }, () => {
  const atEnd = cleanup();

  test("replays next to the running server and writes nothing", async () => {
    const database = await testDatabase(atEnd);
    await seed({ engine: "postgres", postgres: database.config }, "default", () => []);
    const { server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: { agent: { tools, execution: { mode: "durable" } } },
      env: { SVC_DATABASE_URL: database.url },
    });
    mock.answer("scripted", inTurn(calls(sum(1)), { text: "Two." }));
    const { json } = await server.post("/chat", turn("agent", "Go."));
    const id = json.resume_token as string;
    await eventually("the end", async () => (await server.get(`/runs/${id}`)).json.status === "completed" || undefined);

    const { code, answer } = await runJson(replayCommand, [id], server.environment);

    assert.deepEqual([code, answer.divergence, (answer.calls as unknown[]).length], [0, null, 2]);
  });
});
