// Output styles: their declaration in a manifest, the choice of a thread, and the resulting prompt.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { framesUntil, gate, says, shown, startChatProcess, systemOf, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const terse = { name: "Terse", description: "Few words.", prompt: "Answer in one line." };
const pirate = { name: "pirate", prompt: "Answer as a pirate would." };
const rule = "\n\n---\n\n";

describe("output styles", () => {
  const atEnd = cleanup();
  const scopes = ["chat:write", "chat:read", "manifests:write", "manifests:read"];
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: [...scopes, "vip"] },
    guest: { tenant_id: "one", scopes },
    two: { tenant_id: "two", scopes },
    reader: { tenant_id: "one", scopes: ["chat:read"] },
  });
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const styles = [terse, pirate];
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["plain", "held"],
      manifests: {
        styled: { system_prompt: { inline: "You help." }, output_styles: { styles } },
        defaulted: { system_prompt: { inline: "You help." }, output_styles: { default: "TERSE", styles } },
        mute: { output_styles: { styles } },
        plain: { system_prompt: { inline: "You help." } },
        guarded: { output_styles: { styles }, auth: { inbound: { required_scopes: ["vip"] } } },
      },
      env: { ...env, SVC_CHAT_SCOPES: "strict" },
    }));
    mock.answer("plain", { text: "Yes." });
  });

  type Name = keyof typeof keys;
  const as = (key: Name = "one") => ({ key: keys[key] });
  const pick = (thread_id: string, style: unknown, fields: object = {}, key: Name = "one") =>
    server.post("/chat/style", { thread_id, style, ...fields }, as(key));
  const say = async (manifest: string, thread_id?: string, key: Name = "one", fields: object = {}) => {
    const { status, text } = await server.post("/chat", turn(manifest, "hi", { thread_id, ...fields }), as(key));
    assert.equal(status, 200, text);
    return told();
  };
  const told = () => systemOf(mock.requests.at(-1));
  const snapshot = async (thread: string, key: Name = "one") =>
    (await server.get(`/chat/sessions/${thread}`, as(key))).json;
  const listed = async (key: Name = "one"): Promise<{ id: string }[]> =>
    (await server.get("/chat/sessions?limit=500", as(key))).json.sessions;
  const isListed = async (thread: string) => (await listed()).some(({ id }) => id === `one:${thread}`);

  test("SPEC-037 the style is the end of the system prompt, or all of it", async () => {
    await say("styled", "ends");
    await pick("ends", "pirate");

    assert.equal(await say("styled", "ends"), `You help.${rule}${pirate.prompt}`);
    assert.equal(await say("defaulted"), `You help.${rule}${terse.prompt}`, "a turn without a thread has the default");
    await pick("alone", "terse", { manifest: "mute" });
    assert.equal(await say("mute", "alone"), terse.prompt);
    assert.equal(await say("mute"), undefined, "no style is picked, and none is the default");
  });

  test("SPEC-035 a fork has the default style although its source has another", async () => {
    await say("defaulted", "source");
    await pick("source", "pirate");

    const forked = await server.post("/chat/fork", { thread_id: "source", new_thread_id: "copy" }, as());

    assert.equal(forked.status, 200, forked.text);
    assert.deepEqual([(await snapshot("source")).outputStyle, (await snapshot("copy")).outputStyle], ["pirate", null]);
    assert.equal(await say("defaulted", "copy"), `You help.${rule}${terse.prompt}`);
  });

  test("SESS-012 POST /chat/style sets a style in any case, and null restores the default", async () => {
    await say("defaulted", "picks");

    const picked = await pick("picks", "PIRATE");
    const shownPick = (await snapshot("picks")).outputStyle;
    const withPick = await say("defaulted", "picks");
    const undone = await pick("picks", null);
    const shownNone = (await snapshot("picks")).outputStyle;

    assert.deepEqual([picked.status, picked.json], [200, { ok: true, thread_id: "one:picks", outputStyle: "pirate" }]);
    assert.deepEqual([undone.status, undone.json], [200, { ok: true, thread_id: "one:picks", outputStyle: null }]);
    assert.deepEqual([shownPick, shownNone], ["pirate", null]);
    assert.equal(withPick, `You help.${rule}${pirate.prompt}`);
    assert.equal(await say("defaulted", "picks"), `You help.${rule}${terse.prompt}`);
    assert.equal((await pick("picks", "tERSE")).json.outputStyle, "Terse", "kept as it is declared");
  });

  test("SESS-012 the style applies on every surface, and to every model call", async () => {
    const wanted = `You help.${rule}${pirate.prompt}`;
    await pick("surfaces", "pirate", { manifest: "styled" });

    await (await server.stream("/chat/stream", turn("styled", "hi", { thread_id: "surfaces" }), as())).rest();
    const streamed = told();
    const messages = [{ role: "user", content: "hi" }];
    await server.post("/v1/chat/completions", { model: "styled", user: "surfaces", messages }, as());
    const openai = told();
    const tail = await server.listen("/chat/stream/surfaces", as());
    const frames = await framesUntil(tail, ({ name }) => name === "snapshot");
    tail.close();

    assert.deepEqual([streamed, openai], [wanted, wanted]);
    assert.equal(frames.at(-1)?.json.data.outputStyle, "pirate");
  });

  test("SESS-012 an undeclared style is 404 unknown_style, and the chosen style stays", async () => {
    await say("styled", "refused");
    await pick("refused", "pirate");

    for (const style of ["nobody", "pirat", "constructor", "__proto__", "pirate ", "x".repeat(64)]) {
      const { status, json } = await pick("refused", style);
      assert.deepEqual([status, json.error, json.detail], [404, `unknown_style:${style}`, `unknown_style:${style}`]);
    }
    assert.equal((await pick("refused", "pirate", { manifest: "plain" })).json.error, "unknown_style:pirate");
    assert.equal((await snapshot("refused")).outputStyle, "pirate");
  });

  test("SESS-012 a malformed body is 422 and names the field", async () => {
    const bad: [object, (string | number)[]][] = [
      [{ thread_id: "t" }, ["body", "style"]],
      [{ style: "terse" }, ["body", "thread_id"]],
      [{ thread_id: "t", style: "" }, ["body", "style"]],
      [{ thread_id: "t", style: "x".repeat(65) }, ["body", "style"]],
      [{ thread_id: "t", style: 1 }, ["body", "style"]],
      [{ thread_id: "t", style: ["terse"] }, ["body", "style"]],
      [{ thread_id: "t", style: "terse", manifest: null }, ["body", "manifest"]],
      [{ thread_id: "t", style: "terse", more: 1 }, ["body", "more"]],
    ];

    for (const [body, loc] of bad) {
      const { status, json } = await server.post("/chat/style", body, as());
      assert.deepEqual([status, json.detail[0].loc], [422, loc], JSON.stringify(body));
    }
  });

  test("SESS-012 the checks have the order of a turn: thread, manifest, caller, style", async () => {
    const refusal = async (thread: string, style: string | null, fields: object = {}, key: Name = "one") => {
      const { status, json } = await pick(thread, style, fields, key);
      return `${status} ${json.error ?? json.detail}`;
    };

    assert.equal(await refusal("a:b", "x", { manifest: "gone" }), "400 invalid_thread_id");
    assert.equal(await refusal("search", "x", { manifest: "gone" }), "400 invalid_thread_id");
    assert.equal(await refusal("a%2fb", null), "400 invalid_thread_id");
    assert.equal(await refusal("fresh", "x"), "400 manifest_required");
    assert.equal(await refusal("fresh", "x", { manifest: " " }), "400 manifest_required");
    assert.equal(await refusal("fresh", null, { manifest: "" }), "400 manifest_required");
    assert.equal(await refusal("fresh", "x", { manifest: "gone" }), "404 unknown_manifest:gone");
    assert.equal(await refusal("fresh", null, { manifest: "gone" }), "404 unknown_manifest:gone");
    assert.match(await refusal("fresh", "x", { manifest: "guarded" }, "guest"), /^403 missing scopes/);
    assert.match(await refusal("fresh", "terse", { manifest: "styled" }, "reader"), /^403 missing scopes/);
    assert.equal(await refusal("fresh", "x", { manifest: "guarded" }), "404 unknown_style:x");
    assert.deepEqual((await snapshot("fresh")).createdAt, null, "nothing was made");
  });

  test("SESS-012 a caller whom the agent does not admit neither sets nor clears a style", async () => {
    await say("guarded", "guarded");
    await pick("guarded", "pirate");

    const taken = await pick("guarded", null, {}, "guest");
    const changed = await pick("guarded", "terse", {}, "guest");

    assert.deepEqual([taken.status, changed.status], [403, 403]);
    assert.equal((await snapshot("guarded")).outputStyle, "pirate");
  });

  test("SESS-012 choosing a style creates a thread that is listed after its first message", async () => {
    const { status } = await pick("early", "pirate", { manifest: "styled" });
    const empty = await snapshot("early");
    const before = await isListed("early");
    const history = await server.get("/chat/history/early", as());
    const continued = await server.post("/chat/continue", { thread_id: "early", manifest: "styled" }, as());

    const system = await say("styled", "early");

    assert.equal(status, 200);
    assert.deepEqual([before, await isListed("early")], [false, true]);
    assert.deepEqual([empty.outputStyle, empty.updatedAt, empty.leafId, empty.transcript], ["pirate", null, null, []]);
    assert.ok(empty.createdAt > 1_700_000_000_000);
    assert.deepEqual([history.json.messages, history.json.has_more], [[], false]);
    assert.deepEqual([continued.status, continued.json.error], [400, "nothing_to_continue"]);
    assert.equal(system, `You help.${rule}${pirate.prompt}`);
    const [item] = (await listed()).filter(({ id }) => id === "one:early");
    const { createdAt, updatedAt, ...rest } = item as Record<string, unknown>;
    assert.deepEqual(rest, {
      id: "one:early",
      parentSessionId: null,
      sessionName: null,
      preview: "hi",
      manifest: "styled",
    });
    assert.ok((updatedAt as number) >= (createdAt as number));
    assert.equal((await snapshot("early")).model.id, "plain");
  });

  test("SESS-012 the first turn of such a thread may send earlier answers", async () => {
    await pick("quotes", "pirate", { manifest: "styled" });
    const messages = [
      { role: "user", content: "one" },
      { role: "assistant", content: "two" },
      { role: "user", content: "three" },
    ];

    await server.post("/v1/chat/completions", { model: "styled", user: "quotes", messages }, as());

    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ content }) => content),
      ["one", "two", "three"],
    );
  });

  test("SESS-012 setting a style raises the revision, and leaves log and list order unchanged", async () => {
    await say("styled", "older");
    await say("styled", "newer");
    const before = await snapshot("older");

    await pick("older", "pirate");

    const after = await snapshot("older");
    assert.deepEqual([after.transcript, after.updatedAt], [before.transcript, before.updatedAt]);
    assert.ok(after.revision > before.revision);
    const ids = (await listed()).map(({ id }) => id);
    assert.ok(ids.indexOf("one:newer") < ids.indexOf("one:older"));
  });

  test("SESS-012 a style that is set during a run applies from the next turn", async () => {
    const { opened, open } = gate();
    mock.answer("held", says("One", opened, " two."), { text: "Next." });
    await pick("live", "terse", { manifest: "styled" });
    const stream = await server.stream(
      "/chat/stream",
      turn("styled", "hi", { thread_id: "live", model: "held" }),
      as(),
    );
    await framesUntil(stream, ({ name }) => name === "text_delta");

    const picked = await pick("live", "pirate");
    const during = (await snapshot("live")).outputStyle;
    open();
    const rest = await stream.rest();

    assert.deepEqual([picked.status, during], [200, "pirate"]);
    assert.equal(rest.at(-1)?.raw.trim(), "data: [DONE]");
    assert.equal(rest.find(({ name }) => name === "done")?.json.data.stop_reason, "end_turn");
    assert.equal(told(), `You help.${rule}${terse.prompt}`);
    assert.equal(await say("styled", "live"), `You help.${rule}${pirate.prompt}`);
    assert.equal((await snapshot("live")).outputStyle, "pirate", "the end of the run has not put it back");
  });

  test("SPEC-036 a manifest without the style uses its default, and the style is kept", async () => {
    const put = (output_styles: object) =>
      server.request("PUT", "/manifests/changing", {
        ...as(),
        body: {
          manifest: { metadata: { name: "changing" }, spec: { system_prompt: { inline: "I." }, output_styles } },
        },
      });
    await put({ default: "Terse", styles: [terse, pirate] });
    await say("changing", "changing");
    await pick("changing", "pirate");

    await put({ default: "Terse", styles: [terse] });
    const dropped = await say("changing", "changing");
    const kept = (await snapshot("changing")).outputStyle;
    await put({ default: null, styles: [] });
    const bare = await say("changing", "changing");
    await put({ styles: [{ ...pirate, name: "Pirate", prompt: "Arr." }] });
    const again = await say("changing", "changing");

    assert.deepEqual([dropped, kept, bare, again], [`I.${rule}${terse.prompt}`, "pirate", "I.", `I.${rule}Arr.`]);
  });

  test("SPEC-035 the style is kept over a SIGKILL, and until the thread is deleted", async () => {
    await say("styled", "kept");
    await pick("kept", "pirate");
    await pick("unborn", "terse", { manifest: "styled" });

    await server.kill();
    await server.restart();

    assert.equal((await snapshot("kept")).outputStyle, "pirate");
    assert.equal(await say("styled", "kept"), `You help.${rule}${pirate.prompt}`);
    assert.equal(await isListed("unborn"), false);
    assert.equal(await say("styled", "unborn"), `You help.${rule}${terse.prompt}`);
    await server.request("DELETE", "/chat/history/kept", as());
    assert.equal((await snapshot("kept")).outputStyle, null);
    assert.equal(await say("styled", "kept"), "You help.");
  });

  test("SPEC-035 a thread without an event is deleted like any other", async () => {
    await pick("brief", "terse", { manifest: "styled" });

    const { status } = await server.request("DELETE", "/chat/history/brief", as());

    assert.equal(status, 200);
    assert.deepEqual([(await snapshot("brief")).createdAt, await say("styled", "brief")], [null, "You help."]);
  });

  test("SPEC-035 the same suffix of another tenant is another thread", async () => {
    await pick("shared", "pirate", { manifest: "styled" });

    const system = await say("styled", "shared", "two");

    assert.equal(system, "You help.");
    assert.deepEqual(
      [(await snapshot("shared", "two")).outputStyle, (await snapshot("shared")).outputStyle],
      [null, "pirate"],
    );
  });

  test("CHAT-045 GET /v1/models lists each manifest's styles and default, by declared names", async () => {
    const { json } = await server.get("/v1/models", as());

    const svcOf = (name: string) => json.data.find(({ id }: { id: string }) => id === name).svc;
    const both = [
      { name: "Terse", description: "Few words." },
      { name: "pirate", description: "" },
    ];
    assert.deepEqual([svcOf("styled").outputStyles, svcOf("styled").defaultOutputStyle], [both, null]);
    assert.deepEqual([svcOf("defaulted").outputStyles, svcOf("defaulted").defaultOutputStyle], [both, "Terse"]);
    assert.deepEqual([svcOf("plain").outputStyles, svcOf("plain").defaultOutputStyle], [[], null]);
  });

  test("SPEC-036 a style can be cleared when its manifest no longer exists", async () => {
    await say("styled", "orphan");
    await pick("orphan", "pirate");
    await server.restart(manifestEnv(atEnd, { other: {} }));

    const changed = await pick("orphan", "terse");
    const taken = await pick("orphan", null);

    assert.deepEqual([changed.status, changed.json.error], [404, "unknown_manifest:styled"]);
    assert.deepEqual([taken.status, (await snapshot("orphan")).outputStyle], [200, null]);
  });
});
