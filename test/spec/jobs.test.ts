// Jobs: prompts that agents get on a schedule or by hand.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { changeIn } from "../support/rows-in.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  writer: { sub: "wanda", scopes: ["jobs:write", "chat:read", "chat:write", "reports:run", "audit:read"] },
  other: { sub: "otto", scopes: ["jobs:write"] },
  reader: { scopes: ["jobs:read"] },
  nobody: { scopes: ["chat:write"] },
  operator: { sub: "olga", scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  spare: { tenant_id: "initech", scopes: ["jobs:write"] },
});

const minuteMs = 60_000;
const everyMinute = "* * * * *";
const dayMs = 24 * 60 * minuteMs;
/** A schedule whose next time is twelve hours away, so jobs fire only when a test fires them. */
const daily = `0 ${(new Date().getUTCHours() + 12) % 24} * * *`;

describe("jobs", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted", "failing", "held"],
      manifests: {
        agent: {},
        guarded: { auth: { inbound: { schemes: ["api_key", "cron"], required_scopes: ["reports:run"] } } },
        broken: { model: { id: "failing" } },
        slow: { model: { id: "held" } },
        paying: {
          tools: ["calculator"],
          policies: [{ id: "spends", tools: ["calculator"], required_scopes: ["reports:run"] }],
        },
        gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
      },
      env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "2" },
    }));
    mock.answer("scripted", () => ({ text: "Reported." }));
  });

  const fresh = (): string => `job-${++count}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  const get = (path: string, who: keyof typeof keys = "writer") => server.get(path, as(who));
  const put = (name: string, body: object = {}, who: keyof typeof keys = "writer") =>
    server.request("PUT", `/jobs/${name}`, {
      ...as(who),
      body: { manifest_id: "agent", payload: { prompt: "Report." }, ...body },
    });
  const remove = (name: string, who: keyof typeof keys = "writer") =>
    server.request("DELETE", `/jobs/${name}`, as(who));
  const run = (name: string, who: keyof typeof keys = "writer") => server.request("POST", `/jobs/${name}/run`, as(who));
  const runsOf = async (name: string) => (await get(`/jobs/${name}/runs?limit=200`)).json.items;
  const publish = (name: string, spec: object) =>
    server.request("PUT", `/manifests/${name}`, {
      ...as("operator"),
      body: { manifest: { metadata: { name }, spec } },
    });
  const audited = (type: string, name: string) =>
    eventually(`${type} of ${name}`, async () => {
      const { json } = await get(`/audit?event_type=${type}&limit=200`);
      // The first such event; the list is newest first.
      return json.items.findLast(({ payload }: { payload: { job: string } }) => payload.job === name);
    });

  /** Moves a job's next time into the past by this duration. */
  async function later(name: string, ms: number): Promise<void> {
    const changes = await write(
      "UPDATE jobs SET next_run_at = next_run_at - ? WHERE name = ? AND next_run_at IS NOT NULL",
      ms,
      name,
    );
    assert.equal(changes, 1);
  }

  /** Changes rows directly in the database. Returns the number of changed rows. */
  function write(sql: string, ...values: (string | number)[]): Promise<number> {
    return changeIn(sqliteIn(server.dataDir), sql, ...values);
  }

  test("JOB-001 JOB-002 JOB-003 JOB-004 a job is created, read, listed, replaced and deleted", async () => {
    const name = fresh();
    const before = Date.now();

    const made = await put(name, { schedule: "0 3 * * *" });
    const read = await get(`/jobs/${name}`, "reader");
    const listed = await get("/jobs", "reader");
    const replaced = await put(
      name,
      { manifest_id: "guarded", payload: { message: "Again.", fresh_thread: true }, enabled: false },
      "other",
    );
    const gone = await remove(name);
    const after = [await remove(name), await get(`/jobs/${name}`), await get(`/jobs/${name}/runs`), await run(name)];

    assert.equal(made.status, 200, made.text);
    const { created_at, next_run_at } = made.json;
    assert.ok(created_at >= before && created_at <= Date.now(), created_at);
    assert.ok(next_run_at > before && next_run_at <= before + 24 * 60 * minuteMs, next_run_at);
    assert.match(new Date(next_run_at).toISOString(), /T03:00:00\.000Z$/);
    const row = {
      tenant_id: "acme",
      name,
      schedule: "0 3 * * *",
      manifest_id: "agent",
      payload: { prompt: "Report." },
      enabled: true,
      created_at,
      last_run_at: null,
      next_run_at,
      last_status: "",
      last_error: "",
      principal: {
        sub: "wanda",
        scopes: ["jobs:write", "chat:read", "chat:write", "reports:run", "audit:read"],
        scheme: "api_key",
      },
    };
    assert.deepEqual(made.json, row);
    assert.deepEqual(read.json, row);
    assert.deepEqual(
      listed.json.items.find((job: { name: string }) => job.name === name),
      row,
    );
    assert.deepEqual(replaced.json, {
      ...row,
      schedule: "",
      manifest_id: "guarded",
      payload: { message: "Again.", fresh_thread: true },
      enabled: false,
      next_run_at: null,
      principal: { sub: "otto", scopes: ["jobs:write"], scheme: "api_key" },
    });
    assert.deepEqual([gone.status, gone.json], [200, { status: "deleted" }]);
    assert.deepEqual(
      after.map(({ status, json }) => [status, json.error]),
      after.map(() => [404, "not_found"]),
    );
    assert.equal((await audited("job_saved", name)).principal_subj, "wanda");
    assert.equal((await audited("job_deleted", name)).principal_subj, "wanda");
  });

  test("JOB-003 a disabled job has no next time, and only a changed schedule moves it", async () => {
    const name = fresh();

    const off = await put(name, { schedule: "0 0 1 1 *", enabled: false });
    const on = await put(name, { schedule: "0 0 1 1 *" });
    assert.equal(await write("UPDATE jobs SET next_run_at = next_run_at - 1 WHERE name = ?", name), 1);
    const same = await put(name, { schedule: "0 0 1 1 *", payload: { prompt: "Again." } });
    const other = await put(name, { schedule: "0 0 2 1 *" });

    assert.deepEqual([off.json.enabled, off.json.schedule, off.json.next_run_at], [false, "0 0 1 1 *", null]);
    assert.match(new Date(on.json.next_run_at).toISOString(), /-01-01T00:00:00\.000Z$/);
    assert.deepEqual([same.json.next_run_at, same.json.payload], [on.json.next_run_at - 1, { prompt: "Again." }]);
    assert.match(new Date(other.json.next_run_at).toISOString(), /-01-02T00:00:00\.000Z$/);
  });

  test("JOB-006 run now answers the ended run, and the record has its outcome", async () => {
    const name = fresh();
    await put(name, { enabled: false });

    const { status, json, text } = await run(name, "other");

    assert.equal(status, 200, text);
    const { run_id, started_at, finished_at } = json;
    assert.match(run_id, /^[0-9a-f]{32}$/);
    assert.ok(finished_at >= started_at);
    assert.deepEqual(json, {
      tenant_id: "acme",
      job_name: name,
      run_id,
      status: "ok",
      error: "",
      started_at,
      finished_at,
      result: {
        status: "completed",
        answer: "Reported.",
        trigger: "manual",
        requested_by: "otto",
        thread_id: `acme:job:${name}`,
      },
    });
    const { json: job } = await get(`/jobs/${name}`);
    assert.deepEqual([job.last_run_at, job.last_status, job.last_error, job.next_run_at], [started_at, "ok", "", null]);
  });

  test("JOB-006 a cut answer does not end within a character", async () => {
    const name = fresh();
    await put(name, { manifest_id: "slow" });
    mock.answer("held", () => ({ text: `a${"😀".repeat(10_000)}` }));

    const { json } = await run(name);

    assert.equal(json.result.answer, `a${"😀".repeat(8_191)}`);
  });

  test("JOB-007 a job's runs are listed newest first, in one conversation or separate ones", async () => {
    const [shared, apart] = [fresh(), fresh()];
    await put(shared);
    await put(apart, { payload: { message: "Alone.", fresh_thread: true } });

    const ran = [await run(shared), await run(shared), await run(apart), await run(apart)].map(({ json }) => json);
    const [ofShared, ofApart] = [await runsOf(shared), await runsOf(apart)];
    const one = await get(`/jobs/${shared}/runs?limit=1`, "reader");
    const history = await get(`/chat/history/job:${shared}`);
    const listed = await get("/chat/sessions?limit=500");

    assert.deepEqual(ofShared, [ran[1], ran[0]]);
    assert.deepEqual(ofApart, [ran[3], ran[2]]);
    assert.deepEqual(one.json.items, [ran[1]]);
    assert.deepEqual(
      ofApart.map(({ run_id, result }: Run) => result.thread_id === `acme:job:${apart}:${run_id}`),
      [true, true],
    );
    assert.deepEqual(
      history.json.messages.map(({ role, content }: { role: string; content: string }) => [role, content]),
      [
        ["user", "Report."],
        ["assistant", "Reported."],
        ["user", "Report."],
        ["assistant", "Reported."],
      ],
    );
    assert.equal(listed.json.items.filter(({ id }: { id: string }) => id.includes(`job:${apart}:`)).length, 2);
    for (const limit of ["0", "201", "x"])
      assert.equal((await get(`/jobs/${shared}/runs?limit=${limit}`)).status, 422, limit);
  });

  test("TASK-003 JOB-008 a job runs when it is due, once for all the minutes that were missed", async () => {
    const name = fresh();
    const since = Date.now();
    await put(name, { schedule: everyMinute });

    // Ten scheduled times have passed.
    await later(name, 10 * minuteMs);
    const ended = await eventually("its run", () => runsWhere(name, ({ status }) => status === "ok"));
    const runs = await runsOf(name);
    const { json: job } = await get(`/jobs/${name}`);
    const first = ended.at(-1);
    // More scheduled times may pass while the test runs.
    const minutes = Math.floor(Date.now() / minuteMs) - Math.floor(since / minuteMs);

    assert.ok(runs.length <= 1 + minutes, `${runs.length} runs in ${minutes} minutes`);
    assert.deepEqual(first?.result, {
      status: "completed",
      answer: "Reported.",
      trigger: "schedule",
      requested_by: "cron",
      thread_id: `acme:job:${name}`,
    });
    assert.ok(job.last_run_at >= (first?.started_at ?? 0), job.last_run_at);
    assert.ok(job.next_run_at > since && job.next_run_at <= Date.now() + minuteMs, job.next_run_at);
    assert.equal(job.next_run_at % minuteMs, 0);
    const fired = await audited("job_fired", name);
    assert.deepEqual(
      [fired.principal_subj, fired.payload.on_behalf_of, fired.payload.trigger],
      ["cron", "wanda", "schedule"],
    );
  });

  test("JOB-005 a firing needs cron in the manifest and the scopes of the job's last author", async () => {
    const [name, manifest] = [fresh(), `tightened-${count}`];
    const firing = async () => (await run(name, "operator")).json;
    await publish(manifest, {});
    await put(name, { manifest_id: manifest });
    const open = await firing();

    await publish(manifest, { auth: { inbound: { schemes: ["api_key"] } } });
    const noCron = await firing();
    await publish(manifest, { auth: { inbound: { schemes: ["cron"], required_scopes: ["reports:run"] } } });
    const allowed = await firing();
    await put(name, { manifest_id: manifest }, "other");
    const lacking = await firing();
    await server.request("PUT", `/jobs/${name}`, {
      ...as("other"),
      body: { manifest_id: manifest, schedule: daily, payload: { prompt: "Report." } },
    });
    await later(name, dayMs);
    const [onTime] = await eventually("its run", () =>
      runsWhere(name, ({ status, result }) => status !== "running" && result.trigger === "schedule"),
    );

    const told = [open, noCron, allowed, lacking, onTime].map(({ status, error, result }) => [
      status,
      error,
      result.status,
    ]);
    assert.deepEqual(told, [
      ["ok", "", "completed"],
      ["error", "auth_scheme_not_allowed", "refused"],
      ["ok", "", "completed"],
      ["error", "missing_scopes", "refused"],
      ["error", "missing_scopes", "refused"],
    ]);
    const { json: job } = await get(`/jobs/${name}`);
    assert.deepEqual([job.last_status, job.last_error], ["error", "missing_scopes"]);
    const refused = await audited("job_refused", name);
    assert.deepEqual(
      [refused.status, refused.principal_subj, refused.payload.on_behalf_of],
      ["denied", "cron", "wanda"],
    );
    assert.match(
      (await server.get("/metrics", as("operator"))).text,
      /svc_job_firings_total\{trigger="schedule",outcome="refused"\} 1/,
    );
  });

  test("JOB-006 a failed run shows as running until its retry, and as an error once dead", async () => {
    const name = fresh();
    const headers = { "content-type": "application/json" };
    mock.answer("failing", () => ({ status: 400, headers, steps: [{ send: "{}" }] }));
    await put(name, { manifest_id: "broken" });
    const askedAt = performance.now();

    const { status, json } = await run(name);
    const tookMs = performance.now() - askedAt;
    await eventually("its next try", async () => {
      await write("UPDATE fibers SET wake_at = ? WHERE run_id = ? AND wake_at IS NOT NULL", Date.now(), json.run_id);
      return runsWhere(name, (record) => record.status !== "running");
    });
    const [dead] = await runsOf(name);

    assert.deepEqual([status, json.status, json.error, json.finished_at], [200, "running", "", null]);
    assert.ok(tookMs < 30_000, "nobody waits for the next try");
    assert.deepEqual([dead.status, dead.result.status, dead.result.answer], ["error", "dead", null]);
    assert.match(dead.error, /^model_/);
    assert.deepEqual((await get(`/jobs/${name}`)).json.last_error, dead.error);
  });

  test("JOB-006 a request that waits for a run is answered as running when the server ends", async () => {
    const gated = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] };
    const own = await startChatProcess(atEnd, { models: ["scripted"], manifests: { gated }, env });
    own.mock.answer("scripted", calls(["calculator", { expression: "6*7" }]));
    const body = { manifest_id: "gated", payload: { prompt: "Report." } };
    const ask = (method: string, path: string) =>
      own.server.request(method, `/jobs/${path}`, { ...as("writer"), body });
    await ask("PUT", "report");
    await ask("POST", "report/run");
    // The run that waits for a person keeps its thread busy, so the next run cannot finish.
    await ask("DELETE", "report");
    await ask("PUT", "report");
    const answering = ask("POST", "report/run");
    const begun = await eventually("its record", async () => {
      const { items } = (await own.server.get("/jobs/report/runs", as("writer"))).json;
      return items[0];
    });

    process.kill(own.server.pid, "SIGTERM");
    const [answer, exit] = await Promise.all([answering, own.server.exited]);

    assert.equal(exit.code, 0);
    assert.deepEqual([answer.status, answer.json.status, answer.json.run_id], [200, "running", begun.run_id]);
  });

  test("JOB-006 a run that waits for a person shows as running and blocks the next firing", async () => {
    const name = fresh();
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "It is 42." }));
    await put(name, { manifest_id: "gated", schedule: daily });

    const first = await run(name);
    const second = await run(name);
    await later(name, dayMs);
    const skipped = await eventually("a skipped time", async () => {
      const { text } = await server.get("/metrics", as("operator"));
      return /svc_job_firings_total\{trigger="schedule",outcome="skipped"\} [1-9]/.test(text);
    });
    const during = await runsOf(name);
    const { json: approvals } = await get("/approvals", "operator");
    const request = approvals.items.find(({ thread_id }: { thread_id: string }) => thread_id === `acme:job:${name}`);
    await server.post(`/approvals/${request.id}/decide`, { decision: "approved" }, as("operator"));
    const [over] = await eventually("its run", () => runsWhere(name, ({ status }) => status !== "running"));
    mock.answer("scripted", () => ({ text: "Reported." }));

    assert.deepEqual([first.status, first.json.status, first.json.result.status], [200, "running", "running"]);
    assert.equal(first.json.finished_at, null);
    assert.deepEqual([second.status, second.json.error], [409, `run_in_progress:${first.json.run_id}`]);
    assert.ok(skipped);
    assert.equal(during.length, 1);
    assert.deepEqual([over?.run_id, over?.status, over?.result.answer], [first.json.run_id, "ok", "It is 42."]);
    assert.equal((await get(`/jobs/${name}`)).json.last_status, "ok");
    await remove(name);
  });

  test("JOB-003 an invalid job is refused, and nothing is written", async () => {
    const name = fresh();
    const bodies: readonly (readonly [object, string, string])[] = [
      [{ schedule: "* * * * * *" }, "invalid_schedule", "schedule"],
      [{ schedule: "@daily" }, "invalid_schedule", "schedule"],
      [{ schedule: "0 0 * * 7" }, "invalid_schedule", "schedule"],
      [{ schedule: "0 0 30 2 *" }, "invalid_schedule", "schedule"],
      [{ schedule: "0 0 30 2 *", enabled: false }, "invalid_schedule", "schedule"],
      [{ schedule: 5 }, "invalid_request", "schedule"],
      [{ manifest_id: "nobodys" }, "invalid_request", "manifest_id"],
      [{ manifest_id: "" }, "invalid_request", "manifest_id"],
      [{ manifest_id: "a".repeat(129) }, "invalid_request", "manifest_id"],
      [{ payload: {} }, "invalid_request", "prompt"],
      [{ payload: { prompt: " " } }, "invalid_request", "prompt"],
      [{ payload: { prompt: ["a"] } }, "invalid_request", "prompt"],
      [{ payload: { prompt: "a", model: "x" } }, "invalid_request", "model"],
      [{ payload: { prompt: "a".repeat(65_537) } }, "invalid_request", "prompt"],
      [{ enabled: "yes" }, "invalid_request", "enabled"],
      [{ principal: { sub: "admin", scopes: ["*"] } }, "invalid_request", "principal"],
      [{ tenant_id: "globex" }, "invalid_request", "tenant_id"],
    ];
    for (const [body, error, field] of bodies) {
      const { status, json } = await put(name, body);
      const label = JSON.stringify(body).slice(0, 80);
      assert.deepEqual([status, json.error], [422, error], label);
      assert.equal(json.detail[0].loc.at(-1), field, label);
    }
    const names = ["Upper", "a b", "a.b", "a:b", "é", "a".repeat(65), "%00", "__proto__.x", "a'--"];
    for (const hostile of names) {
      const path = encodeURIComponent(hostile);
      const answers = [await put(path), await get(`/jobs/${path}`), await remove(path), await run(path)];
      const statuses = answers.map(({ status }) => status);
      assert.ok(
        statuses.every((status) => status === 400) || String(statuses) === "422,404,404,404",
        `${hostile}: ${statuses}`,
      );
    }
    for (const lawful of ["__proto__", "constructor", "a".repeat(64), "-", "0"]) {
      assert.equal((await put(lawful)).json.name, lawful);
      assert.equal((await remove(lawful)).status, 200, lawful);
    }
    assert.equal((await get(`/jobs/${name}`)).status, 404);
  });

  test("JOB-001 JOB-002 JOB-003 JOB-004 JOB-006 JOB-007 AUTH-014 scopes are required, and another tenant sees nothing", async () => {
    const name = fresh();
    await put(name);
    const asNobody = [
      await get("/jobs", "nobody"),
      await get(`/jobs/${name}`, "nobody"),
      await get(`/jobs/${name}/runs`, "nobody"),
    ];
    const asReader = [await put(name, {}, "reader"), await remove(name, "reader"), await run(name, "reader")];
    const asStranger = [
      await get(`/jobs/${name}`, "stranger"),
      await remove(name, "stranger"),
      await run(name, "stranger"),
      await get(`/jobs/${name}/runs`, "stranger"),
      await get(`/chat/history/job:${name}`, "stranger"),
    ];
    const theirs = await get("/jobs", "stranger");
    const anonymous = await server.get("/jobs");

    for (const { status, json } of [...asNobody, ...asReader]) {
      assert.equal(status, 403);
      assert.match(json.detail, /^missing scopes: jobs:/);
    }
    assert.deepEqual(
      asStranger.map(({ status }) => status),
      [404, 404, 404, 404, 200],
    );
    assert.deepEqual(asStranger[4]?.json.messages, []);
    assert.deepEqual(theirs.json.items, []);
    assert.equal(anonymous.status, 401);
    // A job of the same name in another tenant is independent.
    await put(name, { payload: { prompt: "Theirs." } }, "stranger");
    assert.equal((await get(`/jobs/${name}`)).json.payload.prompt, "Report.");
    assert.equal((await remove(name, "stranger")).status, 200);
    assert.equal((await get(`/jobs/${name}`)).status, 200);
  });

  test("JOB-004 a job's conversation is read-only, and deleting it deletes the run records", async () => {
    const name = fresh();
    await put(name);
    await run(name);
    const thread_id = `job:${name}`;
    const driven = [
      await server.post(
        "/chat",
        { manifest: "agent", thread_id, messages: [{ role: "user", content: "hi" }] },
        as("operator"),
      ),
      await server.post("/chat/steer", { thread_id, text: "mine" }, as("operator")),
      await server.post("/chat/fork", { thread_id: "mine", new_thread_id: thread_id }, as("operator")),
    ];
    const snapshot = await get(`/chat/sessions/${thread_id}`);

    const deleted = await server.request("DELETE", `/chat/history/${thread_id}`, as("operator"));

    assert.deepEqual(
      driven.map(({ status, json }) => [status, json.error]),
      driven.map(() => [400, "invalid_thread_id"]),
    );
    assert.equal(snapshot.json.transcript.length, 2);
    assert.equal(deleted.status, 200, deleted.text);
    assert.deepEqual((await get(`/chat/history/${thread_id}`)).json.messages, []);
    assert.deepEqual(await runsOf(name), []);
    assert.equal((await run(name)).json.status, "ok");
  });

  test("JOB-003 a tenant has at most 1,000 jobs; existing ones can still be replaced", async () => {
    const spare = as("spare");
    const body = { manifest_id: "agent", payload: { prompt: "Report." } };
    const first = await server.request("PUT", "/jobs/first", { ...spare, body });
    const copy = `INSERT INTO jobs SELECT tenant_id, 'copy-' || n.value, schedule, manifest_id, payload, enabled, owner, created_at,
        last_run_at, next_run_at, last_status, last_error, bytes
      FROM jobs, json_each('[${Array.from({ length: 998 }, (_, at) => at)}]') n WHERE tenant_id = ? AND name = 'first'`;
    assert.equal(await write(copy, "initech"), 998);

    const last = await server.request("PUT", "/jobs/last", { ...spare, body });
    const beyond = await server.request("PUT", "/jobs/beyond", { ...spare, body });
    const replaced = await server.request("PUT", "/jobs/last", { ...spare, body: { ...body, schedule: everyMinute } });
    const listed = await server.get("/jobs", spare);

    assert.deepEqual([first.status, last.status, replaced.status], [200, 200, 200]);
    assert.deepEqual(
      [beyond.status, beyond.json],
      [409, { error: "too_many_jobs", detail: "a tenant has at most 1000 jobs" }],
    );
    assert.equal(listed.json.items.length, 1_000);
    assert.equal((await server.request("DELETE", "/jobs/last", spare)).status, 200);
    assert.equal((await server.request("PUT", "/jobs/beyond", { ...spare, body })).status, 200);
  });

  test("TASK-003 a firing survives a crash before its run was requested, and while it runs", async () => {
    const [held, lost] = [fresh(), fresh()];
    const let_go = gate();
    mock.answer("held", says(let_go.opened, "Held."));
    await put(held, { manifest_id: "slow", schedule: daily });
    await put(lost);
    await later(held, dayMs);
    const [begun] = await eventually("its run", () => runsWhere(held, () => true));
    await eventually("the model is asked", async () => mock.requests.some(({ body }) => body.model === "held"));

    await server.kill();
    // The rows that a process leaves if it dies between the batch of a firing and the start of the run.
    const run_id = "0123456789abcdef".repeat(2);
    const at = Date.now();
    await write("UPDATE jobs SET last_run_at = ?, last_status = 'running' WHERE name = ?", at, lost);
    const asked = {
      manifest_id: "agent",
      prompt: "Lost?",
      owner: { sub: "wanda", scopes: [], scheme: "api_key", issuer: "" },
    };
    await write(
      `INSERT INTO job_runs (tenant_id, run_id, job_name, suffix, caused_by, requested_by, asked, status, started_at, outcome, error)
       VALUES ('acme', ?, ?, ?, 'schedule', 'cron', ?, 'running', ?, '', '')`,
      ...[run_id, lost, `job:${lost}`, JSON.stringify(asked), at],
    );
    await server.restart();
    let_go.open();
    const over = ({ status }: Run) => status !== "running";
    const [found] = await eventually("the lost firing", () => runsWhere(lost, over));
    const [ended] = await eventually("the run goes on", () => runsWhere(held, over));

    assert.deepEqual([found?.run_id, found?.status, found?.result.answer], [run_id, "ok", "Reported."]);
    assert.deepEqual([ended?.run_id, ended?.status, ended?.result.answer], [begun?.run_id, "ok", "Held."]);
    for (const name of [held, lost]) {
      const { json } = await get(`/chat/history/job:${name}`);
      const said = json.messages.filter(({ role }: { role: string }) => role === "user");
      assert.equal(said.length, 1, name);
    }
    await remove(held);
  });

  test("JOB-004 a run that starts before the last one's time is recorded a moment later", async () => {
    const name = fresh();
    await put(name);
    const ahead = Date.now() + 3_600_000;
    await write("UPDATE jobs SET last_run_at = ? WHERE name = ?", ahead, name);

    const { json } = await run(name);
    const [newest] = await runsOf(name);
    const job = (await get(`/jobs/${name}`)).json;

    assert.deepEqual([newest.run_id, newest.started_at], [json.run_id, ahead + 1]);
    assert.deepEqual([job.last_run_at, job.last_status], [ahead + 1, "ok"]);
  });

  test("JOB-005 a job runs with its writer's kept scopes, and not once the writer's key is gone", async () => {
    const [name, paying] = [fresh(), fresh()];
    await put(name, {}, "other");
    await put(paying, { manifest_id: "paying" });
    const left = JSON.parse(env.SVC_AUTH_API_KEYS ?? "{}");
    delete left[keys.other];
    left[keys.writer].scopes = left[keys.writer].scopes.filter((scope: string) => scope !== "reports:run");
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "Reported." }));
    await server.restart({ SVC_AUTH_API_KEYS: JSON.stringify(left) });

    const { json } = await run(name);
    const paid = await run(paying);

    assert.deepEqual([json.status, json.error, json.result.status], ["error", "principal_revoked", "refused"]);
    assert.equal(paid.status, 200, paid.text);
    const log = await get(`/chat/history/job:${paying}`);
    assert.match(log.text, /denied by policy: spends requires scope reports:run/);
    await put(name);
    assert.equal((await run(name)).json.status, "ok");
  });

  /** The runs of a job that satisfy the predicate; undefined if there are none yet. */
  async function runsWhere(name: string, holds: (run: Run) => boolean): Promise<Run[] | undefined> {
    const runs = (await runsOf(name)).filter(holds);
    return runs.length > 0 ? runs : undefined;
  }
});

interface Run {
  readonly run_id: string;
  readonly status: string;
  readonly error: string;
  readonly started_at: number;
  readonly result: {
    readonly status: string;
    readonly answer: string | null;
    readonly trigger: string;
    readonly thread_id: string;
  };
}
