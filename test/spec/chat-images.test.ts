// Images in messages and tool results: which are accepted, how the log stores them, and what the provider receives.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { gif, jpeg, png, webp } from "../support/image-bytes.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["chat:write", "files:write"] },
  stranger: { tenant_id: "globex", scopes: ["chat:write", "files:write"] },
});
const https = "https://images.example/cat.png";
const data = (bytes: Buffer, type = "image/png") => `data:${type};base64,${bytes.toString("base64")}`;
const image = (url: string, more: object = {}) => ({ type: "image_url", image_url: { url, ...more } });
const fileUrl = (id: string) => `svc-file://${id}`;
const seeing = { provider: "openai", modalities: ["text", "image"], price: { input: 1, output: 1 } };

/** A part of a message as the provider receives it. */
type Given = { type: string; text?: string; image_url?: { url: string; detail?: string } };

describe("images", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["blind"],
      routes: {
        eyes: { ...seeing, model: "eyes" },
        spare: { ...seeing, model: "spare" },
        broken: { ...seeing, model: "broken" },
      },
      manifests: {
        sees: { model: { id: "eyes" } },
        blind: { model: { id: "blind" } },
        routed: { model: { id: "blind", vision_model: "eyes", fallbacks: ["spare"] } },
        failing: { model: { id: "broken", fallbacks: ["blind", "spare"] } },
        duo: { model: { id: "eyes" }, pattern: "parallel", sub_agents: ["sees", "routed"] },
        draws: { model: { id: "eyes" }, tools: ["draw"] },
        drawsblind: { model: { id: "blind" }, tools: ["draw"] },
      },
      env: { ...env, SVC_PLUGINS: "./test/support/images-plugin.ts" },
    }));
    for (const model of ["blind", "eyes", "spare"]) mock.answer(model, { text: `said by ${model}` });
    mock.answer("broken", { steps: [{ cut: "reset" }] });
  });

  const as = { key: keys.ann };
  const content = (...parts: object[]) => [{ role: "user", content: parts }];
  async function upload(bytes: Buffer, media_type: string, key: string = keys.ann): Promise<string> {
    const { json } = await server.post(
      "/files",
      { data: bytes.toString("base64"), media_type, filename: "p" },
      { key },
    );
    return json.file_id;
  }
  /** The newest request to a model. */
  const lastOf = (model: string) => mock.requests.findLast((request) => request.model === model);
  /** The parts of the last message in the newest request to a model. */
  const given = (model = "eyes"): Given[] => shown(lastOf(model)).at(-1)?.content as unknown as Given[];
  const images = (model = "eyes") => given(model).flatMap(({ image_url }) => image_url?.url ?? []);
  async function warning(requestId: unknown, wanted: string) {
    return eventually("the warning", async () =>
      server.logs.find(({ request_id, msg }) => request_id === requestId && msg.startsWith(wanted)),
    );
  }

  test("CHAT-023 CHAT-021 both spellings of an image reach the model as one, with detail, on all routes", async () => {
    const parts = [
      { text: "look" },
      image(https, { detail: "low" }),
      { type: "image", image_url: { url: data(png()) } },
    ];
    const messages = content(...parts);
    const requests = [
      () => server.post("/chat", { manifest: "sees", messages }, as),
      async () => (await server.stream("/chat/stream", { manifest: "sees", messages }, as)).rest(),
      () => server.post("/v1/chat/completions", { model: "sees", messages }, as),
    ];

    for (const request of requests) {
      await request();

      assert.deepEqual(given(), [
        { type: "text", text: "look" },
        { type: "image_url", image_url: { url: https, detail: "low" } },
        { type: "image_url", image_url: { url: data(png()) } },
      ]);
    }
  });

  test("CHAT-024 a URL is https: or data:, PNG by default; others are dropped with a warning", async () => {
    const dropped = [
      "http://images.example/cat.png",
      "ftp://images.example/cat.png",
      "file:///etc/passwd",
      "javascript:alert(1)",
      "/cat.png",
      "",
      fileUrl("0".repeat(32)),
      "https://user:secret@images.example/cat.png",
      data(png(), "image/svg+xml"),
      data(png(), "text/html"),
      "data:image/png,notbase64",
      "data:image/png;base64,",
      "data:image/png;base64,@@@@",
      "data:image/png",
    ];
    for (const url of dropped) {
      const { status, headers } = await server.post(
        "/chat",
        { manifest: "sees", messages: content({ text: "look" }, image(url)) },
        as,
      );

      assert.equal(status, 200, url);
      assert.equal(shown(lastOf("eyes")).at(-1)?.content, "look", url);
      assert.equal((await warning(headers["x-request-id"], "message parts dropped")).level, "warn");
    }
    for (const url of [
      `data:;base64,${png().toString("base64")}`,
      `DATA:Image/PNG;charset=x;BASE64,${png().toString("base64")}`,
    ]) {
      await server.post("/chat", { manifest: "sees", messages: content(image(url)) }, as);

      assert.deepEqual(images(), [data(png())]);
    }
  });

  test("CHAT-024 the type of an image is that of its bytes, and its URL is passed as checked", async () => {
    for (const [bytes, type, said] of [
      [png(), "image/png", "image/jpeg"],
      [jpeg, "image/jpeg", "image/jpg"],
      [jpeg, "image/jpeg", "image/png"],
      [webp, "image/webp", "image/gif"],
      [gif, "image/gif", "image/x-png"],
      [Buffer.from("no image"), "image/jpeg", "image/jpg"],
    ] as const) {
      const attachments = [{ url: data(bytes, said), media_type: said }];
      const messages = [{ role: "user", content: [image(data(bytes, said))], attachments }];
      await server.post("/chat", { manifest: "sees", messages }, as);

      assert.deepEqual(images(), [data(bytes, type), data(bytes, type)], said);
    }
    for (const [url, judged] of [
      ["HTTPS://Images.Example:443/a/../cat.png", "https://images.example/cat.png"],
      ["https:\\\\images.example\\cat.png", "https://images.example/cat.png"],
      ["https://images.example/ca\tt.png", "https://images.example/cat.png"],
    ] as const) {
      await server.post("/chat", { manifest: "sees", messages: content(image(url)) }, as);

      assert.deepEqual(images(), [judged], url);
    }
  });

  test("parts that no model gets are named in X-Svc-Dropped-Parts, on all three routes", async () => {
    const odd = { type: "a, b\r\n\u00e9%" };
    const parts = [{ text: "look" }, { type: "input_audio" }, image("http://images.example/cat.png"), odd];
    const gone = { type: "file", file_id: "0".repeat(32) };
    const wanted = "input_audio, image at a URL that is not passed on, a%2C b%0D%0A%C3%A9%25, file that is not there";
    const messages = content(...parts, gone);

    const whole = await server.post("/chat", { manifest: "sees", messages }, as);
    const stream = await server.stream("/chat/stream", { manifest: "sees", messages }, as);
    await stream.rest();
    const openAi = await server.post("/v1/chat/completions", { model: "sees", messages }, as);
    const openAiStream = await server.stream("/v1/chat/completions", { model: "sees", messages, stream: true }, as);
    await openAiStream.rest();
    const many = content(
      { text: "look" },
      ...Array.from({ length: 20 }, (_, at) => ({ type: `${at}${"é".repeat(63)}` })),
    );
    const bounded = await server.post("/chat", { manifest: "sees", messages: many }, as);
    const plain = await server.post("/chat", { manifest: "sees", messages: content({ text: "look" }) }, as);

    for (const { status, headers } of [whole, stream, openAi, openAiStream])
      assert.deepEqual([status, headers["x-svc-dropped-parts"]], [200, wanted]);
    assert.ok(String(bounded.headers["x-svc-dropped-parts"]).length <= 1_100);
    assert.equal("x-svc-dropped-parts" in plain.headers, false);
  });

  test("CHAT-024 no spelling of a non-public address makes a provider fetch it", async () => {
    const hosts =
      "127.0.0.1 2130706433 0x7f.1 017700000001 10.1.2.3 169.254.169.254 192.168.1.1 [::1] [fd00::1] [::ffff:127.0.0.1] 0.0.0.0";
    const names = "localhost localhost. LOCALHOST db a.internal a.local x.localhost. metadata.google.internal";
    for (const host of [...hosts.split(" "), ...names.split(" ")]) {
      await server.post(
        "/chat",
        { manifest: "sees", messages: content({ text: "look" }, image(`https://${host}/x`)) },
        as,
      );

      assert.equal(shown(lastOf("eyes")).at(-1)?.content, "look", host);
    }
    await server.post("/chat", { manifest: "sees", messages: content(image("https://8.8.8.8/x")) }, as);
    assert.deepEqual(images(), ["https://8.8.8.8/x"]);
  });

  test("CHAT-025 CHAT-026 both spellings of a file part send the upload's bytes with their real type", async () => {
    for (const [bytes, type] of [
      [gif, "image/gif"],
      [jpeg, "image/jpeg"],
      [webp, "image/webp"],
    ] as const) {
      const file_id = await upload(bytes, type);
      for (const part of [
        { type: "file", file: { file_id } },
        { type: "file", file_id },
      ]) {
        await server.post("/chat", { manifest: "sees", messages: content({ text: "look" }, part) }, as);

        assert.deepEqual(images(), [data(bytes, type)]);
      }
    }
  });

  test("CHAT-028 CHAT-032 SESS-017 the log keeps the reference, and each call gets the bytes, also after a restart", async () => {
    const file_id = await upload(png(), "image/png");
    const attachments = [{ url: fileUrl(file_id), media_type: "image/png", filename: "p" }];
    const sent = {
      manifest: "sees",
      thread_id: "kept",
      messages: content({ text: "look" }, { type: "file", file_id }),
    };
    await server.post("/chat", sent, as);
    await server.restart();

    await server.post("/chat", turn("sees", "and now?", { thread_id: "kept" }), as);
    const session = await server.get("/chat/sessions/kept", as);
    const history = await server.get("/chat/history/kept", as);
    const listener = await server.listen("/chat/stream/kept", { ...as, headers: { "last-event-id": "0" } });
    const frames = await framesUntil(listener, ({ name }) => name === "session_event");
    listener.close();

    const [first] = shown(lastOf("eyes")) as unknown as { content: Given[] }[];
    assert.equal(first?.content[1]?.image_url?.url, data(png()));
    assert.deepEqual(session.json.transcript[0].metadata.attachments, attachments);
    assert.equal(session.json.transcript[0].content, "look");
    assert.deepEqual(history.json.messages[0].metadata.attachments, attachments);
    assert.deepEqual(frames.at(-1)?.json.data.metadata.attachments, attachments);
    for (const { text } of [session, history]) assert.ok(!text.includes(png().toString("base64")));
  });

  test("CHAT-029 an inline data: URL is stored whole, and sent to the model in later turns", async () => {
    const url = data(png(40_000));
    await server.post("/chat", { manifest: "sees", thread_id: "inline", messages: content(image(url)) }, as);

    await server.post("/chat", turn("sees", "and now?", { thread_id: "inline" }), as);
    const { json } = await server.get("/chat/sessions/inline", as);

    assert.deepEqual(json.transcript[0].metadata.attachments, [{ url, media_type: "image/png" }]);
    assert.equal(json.transcript[0].content, "");
    const [first] = shown(lastOf("eyes")) as unknown as { content: Given[] }[];
    assert.deepEqual(first?.content, [{ type: "image_url", image_url: { url } }]);
  });

  test("CHAT-030 a deleted, foreign or unknown file is dropped with a warning", async () => {
    const deleted = await upload(png(), "image/png");
    const first = {
      manifest: "sees",
      thread_id: "gone",
      messages: content({ text: "look" }, { type: "file", file_id: deleted }),
    };
    await server.post("/chat", first, as);
    await server.request("DELETE", `/files/${deleted}`, as);
    const strangers = await upload(gif, "image/gif", keys.stranger);

    const later = await server.post("/chat", turn("sees", "and now?", { thread_id: "gone" }), as);
    const [before] = shown(lastOf("eyes"));
    assert.equal(later.status, 200);
    assert.equal(before?.content, "look");
    await warning(later.headers["x-request-id"], "attachments dropped");

    for (const manifest of ["sees", "blind"])
      for (const file_id of [strangers, deleted, "0".repeat(32), "../../x", "no id"]) {
        const answer = await server.post(
          "/chat",
          { manifest, messages: content({ text: "look" }, { type: "file", file_id }) },
          as,
        );

        assert.equal(answer.status, 200, answer.text);
        assert.ok(!lastOf(manifest === "sees" ? "eyes" : "blind")?.text.includes(gif.toString("base64")));
        const logged = server.logs.filter(({ request_id }) => request_id === answer.headers["x-request-id"]);
        assert.ok(
          logged.some(({ level, msg }) => level === "warn" && msg.includes("dropped")),
          file_id,
        );
      }
    const alone = await server.post(
      "/chat",
      { manifest: "sees", messages: content({ type: "file", file_id: strangers }) },
      as,
    );
    assert.equal(alone.status, 200);
    assert.equal(shown(lastOf("eyes")).at(-1)?.content, "[an attached image is no longer there]");
  });

  test("CHAT-031 attachments of a message are images by reference, by link and by value", async () => {
    const file_id = await upload(webp, "image/webp");
    const attachments = [
      // The server detects the media type itself and ignores the client's claim.
      { url: fileUrl(file_id), media_type: "image/png" },
      { url: https, media_type: "image/jpeg" },
      { url: data(gif, "image/gif") },
      { url: "http://images.example/x.png" },
      { url: https, media_type: "video/mp4" },
    ];
    const messages = [{ role: "user", content: "look", attachments }];

    await server.post("/chat", { manifest: "sees", thread_id: "attached", messages }, as);
    const { json } = await server.get("/chat/sessions/attached", as);

    assert.deepEqual(images(), [data(webp, "image/webp"), https, data(gif, "image/gif")]);
    assert.deepEqual(json.transcript[0].metadata.attachments, [
      { url: fileUrl(file_id), media_type: "image/webp", filename: "p" },
      { url: https, media_type: "image/jpeg" },
      { url: data(gif, "image/gif"), media_type: "image/gif" },
    ]);
  });

  test("refused images are omitted from later requests, and earlier images stay", async () => {
    const part = (bytes: Buffer, type: string) => image(data(bytes, type));
    const bad = gif.toString("base64");
    const isBad = (body: object) => JSON.stringify(body).includes(bad);
    const refusal = jsonScript(400, { error: { message: "Could not process image", type: "invalid_request_error" } });
    mock.answer("eyes", ({ body }) => (isBad(body) ? refusal : { text: "said by eyes" }));
    const say = (thread_id: string, ...parts: object[]) =>
      server.post("/chat", { manifest: "sees", thread_id, messages: content(...parts) }, as);
    const allImages = () =>
      (shown(lastOf("eyes")) as unknown as { content: Given[] | string }[]).map(({ content }) =>
        typeof content === "string" ? content : content.map(({ type, text }) => text ?? type).join(" "),
      );

    const good = await say("refused", { text: "one" }, part(png(), "image/png"));
    const refused = await say("refused", { text: "two" }, part(png(), "image/png"), part(gif, "image/gif"));
    const later = await say("refused", { text: "three" });
    const wanted = ["one image_url", "said by eyes", "two\n[2 images omitted]", "three"];
    const cached = allImages();
    const continued = await server.post(
      "/chat",
      { manifest: "sees", thread_id: "refused", messages: content({ text: "four" }, part(gif, "image/gif")) },
      as,
    );
    const resumed = await server.post("/chat/continue", { thread_id: "refused" }, as);
    await server.restart();
    await say("refused", { text: "five" });
    const read = allImages();
    const both = await server.post(
      "/chat",
      { manifest: "duo", thread_id: "refused", messages: content({ text: "more" }, part(gif, "image/gif")) },
      as,
    );
    await say("refused", { text: "last" });
    const ofSubAgents = allImages();
    const fork = await server.post("/chat/fork", { thread_id: "refused", new_thread_id: "refused-fork" }, as);
    const forked = await say("refused-fork", { text: "six" });

    assert.deepEqual([good.status, refused.status, later.status], [200, 502, 200], later.text);
    assert.deepEqual(cached, wanted);
    assert.deepEqual([continued.status, resumed.status], [502, 200], resumed.text);
    assert.deepEqual(read.slice(0, 3), wanted.slice(0, 3));
    assert.ok(read.includes("four\n[1 image omitted]"), read.join("|"));
    assert.equal(both.status, 502, "no member has answered");
    assert.ok(
      ofSubAgents.includes("more\n[1 image omitted]") && ofSubAgents[0] === "one image_url",
      ofSubAgents.join("|"),
    );
    assert.deepEqual([fork.status, forked.status], [200, 200], fork.text + forked.text);
    assert.equal(allImages()[0], "one image_url");
    mock.answer("eyes", { text: "said by eyes" });
  });

  test("CHAT-031 attachments that are no list or have more than 20 images are 422 with the place", async () => {
    const bad: [object, unknown[]][] = [
      [{ attachments: {} }, ["attachments"]],
      [{ attachments: ["x"] }, ["attachments", 0]],
      [{ attachments: [{ url: https }, { media_type: "image/png" }] }, ["attachments", 1]],
      [{ attachments: [{ url: https, media_type: 7 }] }, ["attachments", 0]],
      [{ attachments: [{ url: https, filename: "n".repeat(256) }] }, ["attachments", 0]],
      [{ attachments: Array(21).fill({ url: https }) }, ["attachments", 20]],
      [{ content: [{ type: "image_url" }] }, ["content", 0]],
      [{ content: [{ type: "image_url", image_url: { url: 7 } }] }, ["content", 0]],
      [{ content: Array(21).fill(image(https)) }, ["content", 20]],
    ];
    for (const [fields, place] of bad) {
      const messages = [{ role: "user", content: "look", ...fields }];
      const { status, json } = await server.post("/chat", { manifest: "sees", messages }, as);

      assert.deepEqual(
        [status, json.detail?.[0]?.loc],
        [422, ["body", "messages", 0, ...place]],
        JSON.stringify(fields),
      );
    }
  });

  test("CHAT-031 images of other roles than the user's are dropped", async () => {
    const messages = ["assistant", "system", "tool"].map((role) => ({ role, content: [{ text: role }, image(https)] }));

    const { status } = await server.post(
      "/chat",
      { manifest: "sees", messages: [...messages, { role: "user", content: "look" }] },
      as,
    );

    assert.equal(status, 200);
    assert.ok(!lastOf("eyes")?.text.includes(https));
  });

  test("SPEC-017 ERR-009 an image goes to the vision route if the model takes text only, or is 422", async () => {
    const messages = content({ text: "look" }, image(https));
    const thread = { thread_id: "routed" };

    const routed = await server.post("/chat", { manifest: "routed", ...thread, messages }, as);
    assert.equal(routed.json.model, "eyes");
    assert.deepEqual(images("eyes"), [https]);
    const plain = await server.post("/chat", turn("routed", "and now?", thread), as);
    const refused = await server.post("/chat", { manifest: "blind", thread_id: "blind", messages }, as);
    const overridden = await server.post("/chat", { manifest: "sees", model: "blind", messages }, as);
    const seen = await server.post("/chat", { manifest: "blind", model: "eyes", messages }, as);

    // A later turn without an image uses the manifest's model again, with a note about the omitted image.
    assert.equal(plain.json.model, "blind");
    assert.equal(shown(lastOf("blind"))[0]?.content, "look\n[1 image omitted]");
    for (const { status, json } of [refused, overridden])
      assert.deepEqual([status, json.error], [422, "unsupported_part"]);
    assert.deepEqual((await server.get("/chat/history/blind", as)).json.messages, []);
    assert.equal(seen.json.model, "eyes");
  });

  test("SPEC-017 a fallback that takes text only is no fallback of a turn with an image", async () => {
    const before = mock.requests.filter(({ model }) => model === "blind").length;

    const { json } = await server.post("/chat", { manifest: "failing", messages: content(image(https)) }, as);

    assert.equal(json.model, "spare");
    assert.equal(mock.requests.filter(({ model }) => model === "blind").length, before);
  });

  test("SPEC-017 a continued turn with an image goes to the vision route too", async () => {
    mock.answer(
      "eyes",
      { steps: [{ cut: "reset" }] },
      { steps: [{ cut: "reset" }] },
      { steps: [{ cut: "reset" }] },
      { text: "said by eyes" },
    );
    const messages = content({ text: "look" }, image(https));
    const failed = await server.post("/chat", { manifest: "routed", thread_id: "again", model: "eyes", messages }, as);

    const { json } = await server.post("/chat/continue", { manifest: "routed", thread_id: "again" }, as);

    mock.answer("eyes", { text: "said by eyes" });
    assert.ok([200, 502].includes(failed.status));
    assert.notEqual(json.model, "blind", JSON.stringify(json));
  });

  test("a call receives the newest 20 images and a note about older ones", async () => {
    const file_id = await upload(png(), "image/png");
    const part = { type: "file", file_id };
    const many = {
      manifest: "sees",
      thread_id: "many",
      messages: content({ text: "twelve" }, ...Array(12).fill(part)),
    };
    await server.post("/chat", many, as);

    await server.post("/chat", { ...many, messages: content({ text: "again" }, ...Array(12).fill(part)) }, as);
    const [first, , second] = shown(lastOf("eyes")) as unknown as { content: Given[] }[];

    assert.equal(second?.content.length, 13);
    assert.equal(first?.content.length, 9);
    assert.equal(first?.content[0]?.text, "twelve\n[4 images omitted]");
  });

  /** Runs a turn that calls `draw`. Returns the tool's result and the messages that the model then receives. */
  async function draw(manifest: string, kinds: readonly string[], thread_id: string | null) {
    const model = manifest === "draws" ? "eyes" : "blind";
    let asked = 0;
    mock.answer(model, () => (asked++ === 0 ? calls(["draw", { kinds }]) : { text: "done" }));
    const frames = await (await server.stream("/chat/stream", turn(manifest, "draw", { thread_id }), as)).rest();
    mock.answer(model, { text: `said by ${model}` });
    const end = frames.find(({ name }) => name === "tool_end")?.json.data;
    return { end, given: shown(lastOf(model)) as unknown as { role: string; content: string | Given[] }[] };
  }

  test("STREAM-031 a tool's images are files of the tenant, four per call, in tool_end and prompt", async () => {
    const { end, given } = await draw("draws", ["png", "gif", "jpeg", "webp", "png", "png"], "drawn");
    const reader = { key: keys.ann };
    const read = await Promise.all(
      end.attachments.map(({ url }: { url: string }) =>
        server.get(`/files/${url.slice("svc-file://".length)}`, reader),
      ),
    );
    const session = await server.get("/chat/sessions/drawn", as);

    assert.equal(end.output, "drawn (seen)\n[2 images omitted: at most 4 of a call are kept]");
    assert.deepEqual(
      end.attachments.map(({ media_type }: { media_type: string }) => media_type),
      ["image/png", "image/gif", "image/jpeg", "image/webp"],
    );
    for (const attachment of end.attachments) assert.deepEqual(Object.keys(attachment), ["url", "media_type"]);
    const bytes = [png(), gif, jpeg, webp].map((one) => one.toString("base64"));
    assert.deepEqual(
      read.map(({ json }) => json.data),
      bytes,
    );
    const result = session.json.transcript.find(({ kind }: { kind: string }) => kind === "tool_result");
    assert.deepEqual(
      result.metadata.attachments.map(({ url }: { url: string }) => url),
      end.attachments.map(({ url }: { url: string }) => url),
    );
    assert.equal(result.metadata.attachments[0].filename, "png-0");
    assert.equal(given.at(-2)?.role, "tool");
    assert.equal(given.at(-2)?.content, end.output);
    assert.equal(given.at(-1)?.role, "user");
    const [words, ...shownImages] = (given.at(-1)?.content ?? []) as Given[];
    assert.equal(words?.text, "Images of the result of call_1:");
    assert.deepEqual(
      shownImages.map(({ image_url }) => image_url?.url.split(",")[1]),
      bytes,
    );
  });

  test("STREAM-031 an empty, large or non-image result is omitted with a note to the model", async () => {
    const { end } = await draw("draws", ["svg", "png", "large", "empty"], "odd");
    const nothing = await draw("draws", ["nothing"], "nothing");

    assert.equal(end.attachments.length, 1);
    assert.match(end.output, /\[3 images omitted: no image by its bytes, larger than 600 KiB\]$/);
    assert.equal(nothing.end.attachments, undefined);
    assert.match(nothing.end.output, /\[1 image omitted: no image by its bytes\]$/);
  });

  test("STREAM-031 images work without a thread, and a text-only model gets a note", async () => {
    const stateless = await draw("draws", ["gif"], null);
    const blind = await draw("drawsblind", ["gif"], "drawn-blind");

    const [{ url }] = stateless.end.attachments;
    assert.equal((await server.get(`/files/${url.slice("svc-file://".length)}`, as)).json.data, gif.toString("base64"));
    const [, drawn] = (stateless.given.at(-1)?.content ?? []) as Given[];
    assert.equal(drawn?.image_url?.url, data(gif, "image/gif"));
    assert.deepEqual(blind.given.at(-1)?.content, [{ type: "text", text: "[1 image omitted]" }]);
  });

  test("STREAM-031 images of tools are deleted with the conversation, and uploads stay", async () => {
    const { end } = await draw("draws", ["png", "gif"], "erased");
    const file_id = await upload(webp, "image/webp");
    await server.post(
      "/chat",
      { manifest: "sees", thread_id: "erased", messages: content({ type: "file", file_id }) },
      as,
    );

    await server.request("DELETE", "/chat/history/erased", as);

    for (const { url } of end.attachments)
      assert.equal((await server.get(`/files/${url.slice("svc-file://".length)}`, as)).status, 404);
    assert.equal((await server.get(`/files/${file_id}`, as)).status, 200);
  });

  test("SESS-009 a fork keeps the images that it shows, for as long as it exists", async () => {
    const first = await draw("draws", ["png"], "forked");
    const { json: before } = await server.get("/chat/sessions/forked", as);
    const second = await draw("draws", ["gif"], "forked");
    const idOf = (drawn: typeof first) => drawn.end.attachments[0].url.slice("svc-file://".length);
    const ids = [idOf(first), idOf(second)];
    const statuses = async () =>
      (await Promise.all(ids.map((id) => server.get(`/files/${id}`, as)))).map((one) => one.status);
    const remove = (thread: string) => server.request("DELETE", `/chat/history/${thread}`, as);
    const from_event_id = before.transcript.at(-1).id;
    await server.post("/chat/fork", { thread_id: "forked", new_thread_id: "fork", from_event_id }, as);
    await server.post("/chat/fork", { thread_id: "fork", new_thread_id: "fork-of-fork" }, as);

    await remove("forked");
    const withoutSource = await statuses();
    const { given } = await draw("draws", ["webp"], "fork-of-fork");
    await remove("fork");
    const withoutFork = await statuses();
    await remove("fork-of-fork");
    const withoutAll = await statuses();

    assert.deepEqual(
      [withoutSource, withoutFork, withoutAll],
      [
        [200, 404],
        [200, 404],
        [404, 404],
      ],
    );
    assert.ok(JSON.stringify(given).includes(png().toString("base64")), "its model is shown the image");
  });
});

describe("the operator's vision route", () => {
  const atEnd = cleanup();

  test("SPEC-017 null is SVC_DEFAULT_VISION_MODEL_ID, if the manifest's allowlist has it", async () => {
    const { server, mock } = await startChatProcess(atEnd, {
      models: ["blind"],
      routes: {
        eyes: { ...seeing, model: "eyes" },
        free: { ...seeing, model: "free" },
        groqs: { provider: "groq", model: "groqs" },
      },
      providers: { groq: { api_key: "k" } },
      manifests: {
        agent: {},
        own: { model: { vision_model: "free" } },
        bound: { auth: { outbound: { providers: ["groq"] } }, model: { id: "groqs" } },
      },
      env: { SVC_DEFAULT_VISION_MODEL_ID: "eyes" },
    });
    for (const model of ["eyes", "free"]) mock.answer(model, { text: "seen" });
    const messages = [{ role: "user", content: [image(https)] }];
    const asked = async (manifest: string) => {
      const { status, json } = await server.post("/chat", { manifest, messages });
      return [status, json.error ?? json.model];
    };

    assert.deepEqual(await asked("agent"), [200, "eyes"]);
    assert.deepEqual(await asked("own"), [200, "free"]);
    assert.deepEqual(await asked("bound"), [422, "unsupported_part"]);
    const { json } = await server.get("/v1/models");
    const modalities = Object.fromEntries(
      json.data.map(({ id, svc }: { id: string; svc: { modalities: string[] } }) => [id, svc.modalities]),
    );
    assert.deepEqual([modalities.agent, modalities.bound], [["text", "image"], ["text"]]);
  });
});
