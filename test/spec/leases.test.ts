// Leases of threads over HTTP, in both modes: drivers, watchers, and refused requests.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import OpenAI, { ConflictError } from "openai";
import { loadSettings } from "../../governance/settings/settings.ts";
import { nameOf, routes } from "../http/support.ts";
import { calls, gate, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "one", sub: "ann", scopes: ["chat:write", "chat:read"] },
  bo: { tenant_id: "one", sub: "bo", scopes: ["chat:write", "chat:read"] },
  reader: { tenant_id: "one", sub: "reader", scopes: ["chat:read"] },
  other: { tenant_id: "two", sub: "ann", scopes: ["chat:write", "chat:read"] },
});
type Name = keyof typeof keys;

/** All routes that drive a thread. Routes that do not exist yet are skipped. */
const driving = [
  ..."chat chat/stream chat/continue chat/abort chat/steer chat/tool_result chat/ui chat/compact chat/thinking".split(
    " ",
  ),
  ..."chat/mode chat/style chat/rewind chat/sessions/name chat/sessions/label chat/sessions/custom".split(" "),
  ..."chat/workspace/edited chat/workspace/write chat/workspace/delete chat/workspace/delete_folder".split(" "),
  ..."chat/workspace/rename chat/workspace/rename_folder v1/chat/completions v1/responses chat/runs/{resume_token}/abort mcp agui/{manifest}".split(
    " ",
  ),
  "chat/sessions/{thread_id}/workspace/repo",
].map((path) => `POST /${path}`);

const code = ({ status, json }: Answer) => [status, json.detail];
const ok = ({ status }: Answer) => status === 200;

for (const mode of ["advisory", "strict"] as const)
  describe(`leases, ${mode}`, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    before(async () => {
      ({ server, mock } = await startChatProcess(atEnd, {
        models: ["plain", "held", "tools"],
        manifests: { agent: { tools: ["calculator"] } },
        env: { ...env, SVC_CHAT_SCOPES: "strict", ...(mode === "strict" && { SVC_LEASE_ENFORCE: mode }) },
      }));
      mock.answer("plain", { text: "Yes." });
      mock.answer("tools", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    });

    const as = (token?: string, key: Name = "ann") => ({
      key: keys[key],
      ...(token !== undefined && { headers: { "x-svc-lease-token": token } }),
    });
    const take = (thread_id: string, fields: object = {}, key: Name = "ann") =>
      server.post("/chat/sessions/lease", { thread_id, holder_id: key, ...fields }, as(undefined, key));
    const tokenOf = async (taken: Promise<Answer>): Promise<string> => {
      const { status, text, json } = await taken;
      assert.equal(status, 200, text);
      return json.token;
    };
    const release = (thread_id: string, fields: object = {}) =>
      server.post("/chat/sessions/lease/release", { thread_id, ...fields }, as());
    const statusOf = async (thread: string, key: Name = "ann") =>
      (await server.get(`/chat/sessions/${thread}/lease`, as(undefined, key))).json;
    const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`, as())).json;
    const say = (thread: string, token?: string, fields: object = {}) =>
      server.post("/chat", turn("agent", "hi", { thread_id: thread, ...fields }), as(token));
    const countOf = async (thread: string): Promise<number> =>
      (await server.get(`/chat/history/${thread}`, as())).json.messages.length;
    /** Moves all leases of the server this far into the past. */
    function later(seconds: number): void {
      const config = sqliteIn(server.dataDir);
      assert.ok(config.engine === "sqlite");
      const db = new Database(config.path);
      db.prepare("UPDATE thread_leases SET expires_at = expires_at - ?").run(seconds * 1000);
      db.close();
    }
    /** The refusal of a client without a token on a thread that another client drives. */
    const without = mode === "strict" ? [409, "lease_held"] : null;
    const meets = (answer: Answer) => (answer.status === 200 ? null : code(answer));

    test("LEASE-009 LEASE-011 a lease is acquired once at a time, and is shown without its token", async () => {
      const before = await statusOf("taken");
      const { status, json } = await take("taken", { ttl_seconds: 60 });
      const second = await take("taken", {}, "bo");
      const now = await statusOf("taken", "reader");

      assert.deepEqual(
        [before.locked, before.attached, before.mode, before.holder_id, before.expires_at, before.token_hint],
        [false, false, null, null, null, null],
      );
      assert.equal(status, 200);
      assert.deepEqual(
        [json.ok, json.renewed, json.mode, json.held_by_other, json.snapshot.attached, json.snapshot.locked],
        [true, false, "exclusive", false, true, true],
      );
      assert.match(json.token, /^[A-Za-z0-9_-]{22}$/);
      assert.deepEqual(code(second), [409, "lease_held"]);
      assert.deepEqual(now, json.status);
      const { expires_at, ...rest } = now;
      assert.ok(Math.abs(expires_at - Date.now() - 60_000) < 30_000, String(expires_at));
      assert.deepEqual(rest, {
        locked: true,
        attached: true,
        holder_id: "ann",
        mode: "exclusive",
        observers: 0,
        observer_holds: [],
        token_hint: json.token.slice(0, 6),
      });
      assert.ok(!JSON.stringify([now, second.json]).includes(json.token));
    });

    test("LEASE-011 SESS-017 the snapshot has the clients, also for listeners, as soon as they change", async () => {
      await say("shown");
      const told = async () => {
        const { attached, locked } = await snapshot("shown");
        const tail = await server.listen("/chat/stream/shown", as());
        const frame = await tail.next();
        tail.close();
        const { data } = frame?.json ?? {};
        assert.deepEqual([data?.attached, data?.locked], [attached, locked]);
        return [attached, locked];
      };

      const before = await told();
      const watcher = await tokenOf(take("shown", { mode: "shared" }));
      const watched = await told();
      const token = await tokenOf(take("shown"));
      const driven = await told();
      for (const each of [token, watcher]) await release("shown", { token: each });

      assert.deepEqual(
        [before, watched, driven, await told()],
        [
          [false, false],
          [true, false],
          [true, true],
          [false, false],
        ],
      );
    });

    test("LEASE-009 a lease is renewed by its token, and by nothing else", async () => {
      const token = await tokenOf(take("renewed", { ttl_seconds: 5 }));
      const { expires_at: first } = await statusOf("renewed");
      const renewed = await take("renewed", { token, ttl_seconds: 3600, holder_id: "ann again" });
      const bare = await take("renewed");
      const wrong = await take("renewed", { token: `${token.slice(1)}A` });

      assert.deepEqual([renewed.json.renewed, renewed.json.token], [true, token]);
      const { expires_at, holder_id } = renewed.json.status;
      assert.ok(expires_at - first > 3_000_000);
      assert.equal(holder_id, "ann again");
      assert.deepEqual(
        [code(bare), code(wrong)],
        [
          [409, "lease_held"],
          [409, "lease_held"],
        ],
      );
    });

    test("LEASE-010 a lease is released by its token, and then another client may drive", async () => {
      const token = await tokenOf(take("released"));

      const bare = await release("released");
      const wrong = await release("released", { token: "A".repeat(22) });
      const notHis = await release("released", { token, holder_id: "bo" });
      assert.deepEqual([bare, wrong, notHis].map(code), [
        [403, "token_required"],
        [403, "token_mismatch"],
        [403, "not_holder"],
      ]);
      assert.equal((await statusOf("released")).locked, true);
      const done = await release("released", { token, holder_id: "ann" });
      const again = await release("released", { token });
      const nothing = await release("released");

      assert.deepEqual([done.json.ok, done.json.released, done.json.status.attached], [true, true, false]);
      assert.deepEqual([done.json.snapshot.id, done.json.snapshot.locked], ["one:released", false]);
      assert.deepEqual([again.json.released, nothing.json.released], [false, false]);
      assert.equal((await take("released", {}, "bo")).status, 200);
      assert.equal((await release("never-there")).json.released, false);
      assert.equal((await release("never-there")).json.snapshot.createdAt, null);
    });

    test("LEASE-006 one client drives and others watch; a watcher cannot drive", async () => {
      const watching = await take("watched", { mode: "shared" }, "bo");
      const watcher: string = watching.json.token;
      const driver = await tokenOf(take("watched"));
      const second = await take("watched", { mode: "shared", ttl_seconds: 1000 }, "bo");

      assert.deepEqual([watching.json.held_by_other, second.json.held_by_other], [false, true]);
      const status = await statusOf("watched");
      assert.deepEqual([status.mode, status.observers, status.holder_id], ["exclusive", 2, "ann"]);
      assert.deepEqual(
        status.observer_holds.map(({ holder_id }: { holder_id: string }) => holder_id),
        ["bo", "bo"],
      );
      assert.deepEqual(code(await say("watched", watcher)), [409, "lease_read_only"]);
      assert.deepEqual(await say("watched", driver).then(meets), null);
      assert.deepEqual(await countOf("watched"), 2);
      await release("watched", { token: driver });
      const alone = await statusOf("watched");
      assert.deepEqual([alone.locked, alone.attached, alone.mode, alone.holder_id], [false, true, "shared", null]);
      assert.equal(alone.expires_at, second.json.status.observer_holds[0].expires_at);
      assert.deepEqual(code(await say("watched", watcher)), [409, "lease_read_only"]);
    });

    test("LEASE-006 a driver steps down and keeps its token; a watcher can become the driver", async () => {
      const driver = await tokenOf(take("roles"));
      const watcher = await tokenOf(take("roles", { mode: "shared" }, "bo"));
      assert.deepEqual(code(await take("roles", { token: watcher }, "bo")), [409, "lease_held"]);

      const down = await take("roles", { mode: "shared", token: driver });
      const up = await take("roles", { token: watcher }, "bo");

      assert.deepEqual([down.json.token, down.json.renewed, down.json.held_by_other], [driver, true, false]);
      assert.deepEqual([up.json.token, up.json.status.observers, up.json.status.holder_id], [watcher, 1, "bo"]);
      assert.deepEqual(code(await say("roles", driver)), [409, "lease_read_only"]);
      assert.ok(ok(await say("roles", watcher)));
      const renewed = await take("roles", { mode: "shared", token: driver, ttl_seconds: 86_400 });
      assert.deepEqual([renewed.json.renewed, renewed.json.held_by_other], [true, true]);
      assert.ok(renewed.json.status.expires_at < renewed.json.status.observer_holds[0].expires_at);
    });

    test("LEASE-002 LEASE-003 LEASE-004 a sent token is checked, and a missing one refused in strict mode only", async () => {
      const driver = await tokenOf(take("driven"));
      const watcher = await tokenOf(take("only-watched", { mode: "shared" }, "bo"));
      const unknown = "B".repeat(22);

      assert.deepEqual(meets(await say("driven")), without);
      assert.deepEqual(meets(await say("driven", "")), without);
      assert.deepEqual(code(await say("driven", unknown)), [409, "lease_held"]);
      assert.deepEqual(code(await say("driven", "x".repeat(4000))), [409, "lease_held"]);
      assert.ok(ok(await say("driven", driver)));
      // The token of another thread is not valid for this one.
      assert.deepEqual(code(await say("driven", watcher)), [409, "lease_held"]);
      for (const thread of ["unheld", "only-watched"]) {
        assert.ok(ok(await say(thread)), thread);
        assert.ok(ok(await say(thread, unknown)), thread);
        assert.ok(ok(await say(thread, "")), thread);
      }
      assert.ok(ok(await server.post("/chat", turn("agent", "hi"), as(unknown))));
    });

    test("LEASE-003 every route that drives a thread refuses other clients, also in the reference", async () => {
      await say("closed");
      const driver = await tokenOf(take("closed"));
      const { transcript } = await snapshot("closed");
      const bodies: Record<string, object> = {
        "POST /agui/{manifest}": {
          threadId: "closed",
          runId: "r",
          messages: [{ id: "1", role: "user", content: "hi" }],
          tools: [],
          context: [],
          state: {},
        },
        "POST /chat": turn("agent", "hi"),
        "POST /chat/stream": turn("agent", "hi"),
        "POST /chat/thinking": { thinking_level: "low" },
        "POST /chat/style": { style: null },
        "POST /chat/rewind": { event_id: transcript[0].id, summarize: false },
        "POST /chat/sessions/name": { name: "mine" },
        "POST /chat/sessions/label": { event_id: transcript[0].id, label: "mine" },
        "POST /chat/sessions/custom": { content: "mine" },
        "POST /chat/steer": { text: "go" },
        "POST /chat/tool_result": { tool_call_id: "c", content: "" },
        "POST /chat/ui": { request_id: "r" },
        "POST /chat/compact": { manifest: "agent" },
        "POST /chat/mode": { mode: "plan" },
        "POST /chat/sessions/{thread_id}/workspace/repo": { full_name: "acme/site" },
        "POST /chat/workspace/edited": { path: "a", op: "delete" },
        "POST /chat/workspace/write": { path: "a", content: "" },
        "POST /chat/workspace/delete": { path: "a" },
        "POST /chat/workspace/delete_folder": { path: "a" },
        "POST /chat/workspace/rename": { path: "a", to_path: "b" },
        "POST /chat/workspace/rename_folder": { path: "a", to_path: "b" },
      };
      const count = (await snapshot("closed")).revision;

      const declared = routes.filter(({ drives }) => drives !== null).map(nameOf);
      const there = routes.map(nameOf);
      assert.deepEqual(
        declared.sort(),
        [...driving, "DELETE /chat/history/{thread_id}", "DELETE /chat/sessions/{thread_id}/workspace/repo"]
          .filter((name) => there.includes(name))
          .sort(),
      );
      for (const name of declared.filter(
        (each) => !each.includes("/v1/") && !each.includes("{resume_token}") && each !== "POST /mcp",
      )) {
        const [method = "", template = ""] = name.split(" ");
        const path = template.replace("{thread_id}", "closed").replace("{manifest}", "agent");
        const isInPath = name === "POST /agui/{manifest}" || template.includes("{thread_id}");
        const own = isInPath ? {} : { thread_id: "closed" };
        const body = method === "DELETE" ? undefined : { ...own, ...bodies[name] };
        const wrong = await server.request(method, path, { ...as("C".repeat(22), "bo"), body });
        assert.deepEqual(code(wrong), [409, "lease_held"], name);
        if (mode === "advisory") continue;
        const bare = await server.request(method, path, { ...as(undefined, "bo"), body });
        assert.deepEqual(code(bare), [409, "lease_held"], name);
      }
      const call = { name: "chat", arguments: { message: "hi", thread_id: "closed" } };
      const rpc = { jsonrpc: "2.0", id: 1, method: "tools/call", params: call };
      const accept = { accept: "application/json, text/event-stream" };
      const { headers, key } = as("C".repeat(22), "bo");
      const refused = await server.request("POST", "/mcp", { key, headers: { ...headers, ...accept }, body: rpc });
      assert.match(refused.text, /"code":"lease_held"/);
      assert.equal((await snapshot("closed")).revision, count);
      const { json } = await server.get("/openapi.json", as());
      for (const name of declared) {
        const [method = "", path = ""] = name.split(" ");
        const { parameters, responses } = json.paths[path][method.toLowerCase()];
        assert.ok(
          parameters.some((each: { name: string }) => each.name === "X-Svc-Lease-Token"),
          name,
        );
        assert.match(JSON.stringify(responses[409]), /lease_read_only/, name);
      }
      // Reads, and requests that create a thread of their own, need no lease.
      assert.ok(
        ok(await server.post("/chat/fork", { thread_id: "closed", new_thread_id: "a-fork" }, as("C".repeat(22), "bo"))),
      );
      assert.equal((await statusOf("a-fork")).attached, false);
      const rating = { thread_id: "closed", event_id: transcript[1].id, rating: "up" };
      assert.ok(ok(await server.post("/chat/sessions/feedback", rating, as("C".repeat(22), "bo"))));
      for (const path of ["/chat/history/closed", "/chat/sessions/closed", "/chat/sessions/closed/export"])
        assert.ok(ok(await server.get(path, as(undefined, "bo"))), path);
      const named = await server.post("/chat/sessions/name", { thread_id: "closed", name: "ours" }, as(driver));
      assert.ok(ok(named), named.text);
    });

    test("LEASE-005 a completion whose user names the thread needs the lease, with protocol errors", async () => {
      const driver = await tokenOf(take("in-openai"));
      const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.bo });
      const messages = [{ role: "user" as const, content: "hi" }];
      const complete = (token?: string, fields: object = { user: "in-openai" }) =>
        client.chat.completions.create(
          { model: "agent", messages, ...fields },
          token === undefined ? {} : { headers: { "X-Svc-Lease-Token": token } },
        );

      for (const token of ["D".repeat(22), ...(mode === "strict" ? [undefined] : [])]) {
        const error = await complete(token).catch((refused: unknown) => refused);
        assert.ok(error instanceof ConflictError, String(error));
        assert.deepEqual(
          [error.code, error.type, error.headers.get("x-should-retry")],
          ["lease_held", "conflict_error", "false"],
        );
      }
      assert.equal((await complete(driver)).choices[0]?.message.content, "Yes.");
      assert.equal((await complete("D".repeat(22), {})).choices[0]?.message.content, "Yes.");
    });

    test("LEASE-007 a lease grants nothing without credentials, scopes or the tenant", async () => {
      const token = await tokenOf(take("no-grant"));
      await say("no-grant", token);
      const headers = { "x-svc-lease-token": token };
      const body = turn("agent", "hi", { thread_id: "no-grant" });

      const nobody = await server.post("/chat", body, { headers });
      const reader = await server.post("/chat", body, { headers, key: keys.reader });
      const taking = await take("no-grant", { token }, "reader");
      const elsewhere = await server.get("/chat/history/no-grant", { headers, key: keys.other });

      assert.deepEqual([nobody.status, reader.status, taking.status], [401, 403, 403]);
      assert.deepEqual(elsewhere.json.messages, []);
      // A lease on the same suffix in another tenant is independent.
      assert.equal((await statusOf("no-grant", "other")).attached, false);
      assert.deepEqual(code(await take("no-grant", { token: "E".repeat(22) }, "bo")), [409, "lease_held"]);
      const own = await take("no-grant", { token }, "other");
      assert.deepEqual([own.status, own.json.renewed], [200, false]);
      assert.notEqual(own.json.token, token);
      assert.deepEqual(code(await server.post("/chat", body, { headers, key: keys.other })), [409, "lease_held"]);
    });

    test("IDEM-006 a request refused by the lease leaves its key free; a replay needs no lease", async () => {
      for (const path of ["/chat", "/chat/stream"]) {
        const thread = `keyed${path.replaceAll("/", "-")}`;
        const driver = await tokenOf(take(thread));
        const send = (token: string) =>
          server.post(path, turn("agent", "hi", { thread_id: thread }), {
            key: keys.ann,
            headers: { "idempotency-key": thread, "x-svc-lease-token": token },
          });

        const refused = await send("F".repeat(22));
        const ran = await send(driver);
        const replayed = await send("F".repeat(22));

        assert.deepEqual(code(refused), [409, "lease_held"], path);
        assert.deepEqual([ran.status, ran.headers["idempotent-replayed"]], [200, undefined], path);
        assert.deepEqual([replayed.status, replayed.headers["idempotent-replayed"]], [200, "true"], path);
        assert.equal(await countOf(thread), 2);
      }
    });

    test("LEASE-003 a lease is checked after the manifest and before the live run", async () => {
      const more = gate();
      mock.answer("held", says("Begun", more.opened, "."));
      const live = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "live", model: "held" }), as());
      await live.next();

      const driver = await tokenOf(take("live", {}, "bo"));
      const wrong = await say("live", "G".repeat(22));
      const holder = await say("live", driver);
      const noManifest = await server.post("/chat", turn("", "hi", { thread_id: "live" }), as("G".repeat(22)));
      const noSuffix = await server.post("/chat", turn("agent", "hi", { thread_id: "a:b" }), as("G".repeat(22)));
      more.open();
      const frames = await live.rest();

      assert.deepEqual(code(wrong), [409, "lease_held"]);
      assert.match(String(code(holder)), /^409,run_in_progress/);
      assert.deepEqual([noManifest.json.error, noSuffix.json.error], ["manifest_required", "invalid_thread_id"]);
      assert.ok(frames.some(({ name }) => name === "done"));
      assert.equal(await countOf("live"), 2);
      assert.ok(ok(await say("live", driver, { model: "tools" })));
    });

    test("LEASE-009 a lease creates an unknown thread, which is listed after its first message", async () => {
      const listed = async () =>
        (await server.get("/chat/sessions?limit=500", as())).json.sessions.map(({ id }: { id: string }) => id);
      const token = await tokenOf(take("unborn"));

      assert.ok(!(await listed()).includes("one:unborn"));
      assert.deepEqual([(await snapshot("unborn")).locked, await countOf("unborn")], [true, 0]);
      assert.ok(ok(await say("unborn", token)));
      assert.ok((await listed()).includes("one:unborn"));
      assert.equal((await statusOf("unborn")).locked, true);
      for (const thread_id of ["a:b", "a%2fb", "search", ""])
        assert.deepEqual(code(await take(thread_id)), [400, "invalid_thread_id"], thread_id);
    });

    test("LEASE-009 an expired lease counts for nothing, and its token drives a free thread", async () => {
      const token = await tokenOf(take("lapsed", { ttl_seconds: 5 }));
      const watcher = await tokenOf(take("lapsed", { mode: "shared", ttl_seconds: 86_400 }, "bo"));
      later(6);

      const status = await statusOf("lapsed");
      assert.deepEqual([status.locked, status.mode, status.observers], [false, "shared", 1]);
      assert.ok(ok(await say("lapsed", token)));
      assert.ok(ok(await say("lapsed")));
      const taken = await take("lapsed", { token });
      assert.deepEqual([taken.json.renewed, taken.json.token === token], [false, false]);
      assert.deepEqual(code(await say("lapsed", token)), [409, "lease_held"]);
      assert.deepEqual(code(await say("lapsed", watcher)), [409, "lease_read_only"]);
      assert.equal((await release("lapsed", { token: watcher })).json.released, true);
    });

    test("LEASE-009 of simultaneous clients one drives, and each watcher has a token of its own", async () => {
      const names = Array.from({ length: 12 }, (_, at) => at);
      const driving = await Promise.all(names.map((at) => take("raced", { holder_id: `h${at}` })));
      const watching = await Promise.all(names.map(() => take("raced", { mode: "shared" }, "bo")));

      const statuses = driving.map(({ status }) => status).sort();
      assert.deepEqual(statuses, [200, ...Array(11).fill(409)]);
      assert.equal(new Set(watching.map(({ json }) => json.token)).size, 12);
      const winner = driving.findIndex(({ status }) => status === 200);
      const { holder_id, observers } = await statusOf("raced");
      assert.deepEqual([holder_id, observers], [`h${winner}`, 12]);
    });

    test("LEASE-009 a malformed request is refused and names its field", async () => {
      for (const [fields, field] of [
        [{ ttl_seconds: 4.9 }, "ttl_seconds"],
        [{ ttl_seconds: 86_401 }, "ttl_seconds"],
        [{ mode: "both" }, "mode"],
        [{ holder_id: "" }, "holder_id"],
        [{ holder_id: "h".repeat(129) }, "holder_id"],
        [{ token: "t".repeat(129) }, "token"],
        [{ colour: 1 }, "colour"],
      ] as const) {
        const { status, json } = await take("shapes", fields);
        assert.deepEqual([status, json.detail[0].loc[1]], [422, field]);
      }
      assert.equal((await statusOf("shapes")).attached, false);
      assert.equal((await take("shapes", { ttl_seconds: 5.5 })).status, 200);
    });

    test("LEASE-008 leases survive a restart, and are deleted with their thread", async () => {
      const token = await tokenOf(take("kept", { ttl_seconds: 3600 }));
      await say("kept", token);
      const before = await statusOf("kept");
      await server.restart();

      assert.deepEqual(await statusOf("kept"), before);
      assert.deepEqual(meets(await say("kept")), without);
      assert.ok(ok(await say("kept", token)));
      assert.deepEqual(code(await server.request("DELETE", "/chat/history/kept", as("H".repeat(22)))), [
        409,
        "lease_held",
      ]);
      assert.ok(ok(await server.request("DELETE", "/chat/history/kept", as(token))));
      assert.equal((await statusOf("kept")).attached, false);
      assert.ok(ok(await say("kept")));
      assert.equal((await statusOf("kept")).attached, false);
      assert.ok(!server.output.includes(token));
    });
  });

test("LEASE-001 SVC_LEASE_ENFORCE is advisory or strict, and nothing else", () => {
  assert.equal(loadSettings({}).leaseEnforce, "advisory");
  assert.equal(loadSettings({ SVC_LEASE_ENFORCE: "strict" }).leaseEnforce, "strict");
  assert.throws(() => loadSettings({ SVC_LEASE_ENFORCE: "always" }), /SVC_LEASE_ENFORCE/);
});
